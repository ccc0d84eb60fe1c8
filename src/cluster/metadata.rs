//! Lists of metadata: the snapshot that a tree, a forecast or a diagnosis is made from. One request a kind and
//! namespace, many at once; a kind that fails costs that kind and becomes a gap.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;

use super::connect::Cluster;
use super::request::{Request, Trouble};
use super::wire::{self, Decoded, DecodedList, ListReader};
use crate::model::catalog::{Catalog, Gap, Resource};
use crate::model::graph::{OwnerGraph, OwnerState};
use crate::model::object::{Lookup, LookupKey, Object, Searched, Snapshot};

/// Requests in flight. HTTP/1.1 needs a connection for each.
const CONCURRENCY: usize = 32;
/// Owners outside the searched part that are looked up one by one; beyond that they stay unknown.
const MOST_LOOKUPS: usize = 256;

/// The reason of a gap where there was no answer at all.
pub const NO_ANSWER: &str = "NoAnswer";

/// How far a snapshot has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListProgress {
    /// Lists asked for.
    pub lists: usize,
    /// Lists that came in.
    pub done: usize,
    /// Objects so far.
    pub objects: usize,
}

/// What to read.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where to look.
    pub searched: Searched,
    /// Whether to read what metadata does not tell of Pods (node, phase, grace, claims): a forecast needs it.
    pub pods: bool,
}

/// Lists everything in the wanted part of the cluster. Never fails as a whole: what could not be read is among the
/// gaps.
pub async fn snapshot(
    cluster: &Cluster,
    catalog: &Catalog,
    wanted: &Wanted,
    progress: &mut (dyn FnMut(ListProgress) + Send),
) -> Snapshot {
    let lists = lists(catalog, &wanted.searched);
    let mut snapshot = Snapshot {
        catalog: catalog.clone(),
        gaps: catalog.gaps().to_vec(),
        searched: wanted.searched.clone(),
        ..Snapshot::default()
    };
    let mut state = ListProgress { lists: lists.len(), ..ListProgress::default() };
    let mut answers = futures::stream::iter(lists)
        .map(|(resource, namespace)| async move {
            let answer =
                list_some_version(cluster, catalog, &resource, namespace.as_deref(), wanted.pods).await;
            (resource, namespace, answer)
        })
        .buffer_unordered(CONCURRENCY);
    while let Some((resource, namespace, answer)) = answers.next().await {
        match answer {
            Ok(list) => {
                let key = (resource.qualified(), namespace.unwrap_or_default());
                snapshot.versions.insert(key, list.resource_version);
                for Decoded { object, pod } in list.items {
                    // Events are many, nobody waits for them, and few have an owner.
                    if resource.is_event() && object.owners.is_empty() {
                        continue;
                    }
                    if let Some(pod) = pod {
                        snapshot.details.pods.insert(object.uid.clone(), pod);
                    }
                    snapshot.objects.push(object);
                }
            }
            // The kind is simply no longer served: then it has no objects.
            Err(trouble) if trouble.is_not_found() => {}
            Err(trouble) => snapshot.gaps.push(gap(&resource, &trouble)),
        }
        state.done += 1;
        state.objects = snapshot.objects.len();
        progress(state);
    }
    drop(answers);
    snapshot.gaps.sort();
    snapshot
        .gaps
        .dedup_by(|later, earlier| later.resource == earlier.resource && later.group == earlier.group);
    snapshot
}

/// Reads everything wanted and makes the graph of it, with `known` objects that were read before (a target's kind
/// may not be listable) and with owners outside the searched part looked up one by one.
pub async fn graph(
    cluster: &Cluster,
    catalog: &Catalog,
    wanted: &Wanted,
    known: Vec<Object>,
    progress: &mut (dyn FnMut(ListProgress) + Send),
) -> OwnerGraph {
    let mut snapshot = snapshot(cluster, catalog, wanted, progress).await;
    // What was listed is newer, and comes first: the graph keeps the first of two.
    snapshot.objects.extend(known);
    let graph = OwnerGraph::new(snapshot);
    let missing = missing_owners(&graph);
    if missing.is_empty() {
        return graph;
    }
    let mut snapshot = graph.into_snapshot();
    let answers: Vec<(LookupKey, Result<Option<Object>, Trouble>)> = futures::stream::iter(missing)
        .map(|(key, resource)| async move {
            let answer = get(cluster, &resource, key.namespace.as_deref(), &key.name).await;
            (key, answer)
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    for (key, answer) in answers {
        match answer {
            Ok(Some(object)) => {
                snapshot.outside.insert(object.uid.clone());
                snapshot.objects.push(object);
            }
            Ok(None) => {
                snapshot.lookups.insert(key, Lookup::Absent);
            }
            Err(_) => {
                snapshot.lookups.insert(key, Lookup::Unreadable);
            }
        }
    }
    OwnerGraph::new(snapshot)
}

/// Lists one resource, all namespaces or one, in its own version.
pub async fn list(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    query: &str,
) -> Result<DecodedList, Trouble> {
    let path = format!("{}{query}", resource.collection_path(namespace));
    list_pages(cluster, resource, &path, wire::ACCEPT_METADATA_LIST).await
}

/// One object's metadata; none where the server says that it is not there.
pub async fn get(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Object>, Trouble> {
    let request = Request::get(resource.object_path(namespace, name)).accept(wire::ACCEPT_METADATA);
    match cluster.send(request).await {
        Ok(answer) => Ok(Some(wire::decode_one(&answer, resource)?.object)),
        Err(trouble) if trouble.is_not_found() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// What to list: each listable kind once, in the first version that serves it. Events are served in two groups;
/// one suffices.
fn lists(catalog: &Catalog, searched: &Searched) -> Vec<(Arc<Resource>, Option<String>)> {
    let mut lists = Vec::new();
    for resource in catalog.preferred().filter(|resource| resource.can("list")) {
        if resource.is_event() && !resource.group.is_empty() {
            continue;
        }
        match (&searched.namespaces, resource.namespaced) {
            (_, false) if searched.cluster_scoped => lists.push((Arc::clone(resource), None)),
            (None, true) => lists.push((Arc::clone(resource), None)),
            (Some(namespaces), true) => {
                lists.extend(
                    namespaces.iter().map(|namespace| (Arc::clone(resource), Some(namespace.clone()))),
                );
            }
            (_, false) => {}
        }
    }
    lists
}

/// Where a version cannot be read (a conversion webhook is down), another served version of the kind often can.
async fn list_some_version(
    cluster: &Cluster,
    catalog: &Catalog,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    pods: bool,
) -> Result<DecodedList, Trouble> {
    let accept = if pods && resource.is("", "Pod") { wire::ACCEPT_WHOLE } else { wire::ACCEPT_METADATA_LIST };
    let first = list_pages(cluster, resource, &resource.collection_path(namespace), accept).await;
    let trouble = match first {
        Ok(list) => return Ok(list),
        Err(trouble) if !matches!(trouble.code(), Some(400..=428) | None) => trouble,
        Err(trouble) => return Err(trouble),
    };
    let others = catalog.all().iter().filter(|other| {
        other.group == resource.group && other.plural == resource.plural && other.version != resource.version
    });
    for other in others {
        let path = other.collection_path(namespace);
        if let Ok(list) = list_pages(cluster, resource, &path, accept).await {
            return Ok(list);
        }
    }
    Err(trouble)
}

/// One request without a limit; servers that page anyway are followed.
async fn list_pages(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    path: &str,
    accept: &str,
) -> Result<DecodedList, Trouble> {
    let mut whole: Option<DecodedList> = None;
    loop {
        let path = match &whole {
            None => path.to_owned(),
            Some(list) => {
                let separator = if path.contains('?') { '&' } else { '?' };
                format!("{path}{separator}continue={}", crate::model::catalog::escaped(&list.next))
            }
        };
        let (head, mut chunks) = cluster.stream(Request::get(path).accept(accept)).await?;
        let mut reader = ListReader::new(resource, &head.content_type);
        while let Some(chunk) = chunks.next().await {
            reader.push(&chunk?)?;
        }
        let page = reader.finish()?;
        let list = match whole.take() {
            None => page,
            Some(mut list) => {
                list.items.extend(page.items);
                list.next = page.next;
                list
            }
        };
        if list.next.is_empty() {
            return Ok(list);
        }
        whole = Some(list);
    }
}

/// What a failed request leaves unknown.
pub fn gap(resource: &Resource, trouble: &Trouble) -> Gap {
    let (reason, message) = match trouble {
        Trouble::Status { reason, message, code, .. } => {
            let reason = if reason.is_empty() { format!("HTTP {code}") } else { reason.clone() };
            (reason, message.clone())
        }
        Trouble::NoAnswer { message, .. } => (NO_ANSWER.to_owned(), message.clone()),
    };
    Gap { resource: resource.plural.clone(), group: resource.group.clone(), version: None, reason, message }
}

/// Owners whose state is unknown only because they lie outside what was listed.
fn missing_owners(graph: &OwnerGraph) -> BTreeSet<(LookupKey, Arc<Resource>)> {
    let mut missing = BTreeSet::new();
    for (index, object) in graph.objects().iter().enumerate() {
        for (reference, resolved) in graph.owners(index) {
            let Some(resource) = graph.snapshot().catalog.served(&reference.api_version, &reference.kind)
            else {
                continue;
            };
            if resolved.state != OwnerState::Unknown || !resource.can("get") {
                continue;
            }
            let namespace = if resource.namespaced { object.namespace.as_deref() } else { None };
            let key = LookupKey {
                group: resource.group.clone(),
                kind: resource.kind.clone(),
                namespace: namespace.map(str::to_owned),
                name: reference.name.clone(),
            };
            missing.insert((key, Arc::clone(resource)));
            if missing.len() == MOST_LOOKUPS {
                return missing;
            }
        }
    }
    missing
}
