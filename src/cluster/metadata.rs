//! Lists of metadata: the snapshot that a tree, a forecast or a diagnosis is made from. One request a kind and
//! namespace, many at once; a kind that fails costs that kind and becomes a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;

use super::connect::Cluster;
use super::request::Request;
use super::rights::Rights;
use super::wire::{self, Decoded, DecodedList, ListReader};
use crate::error::Trouble;
use crate::model::catalog::{Catalog, Gap, Resource};
use crate::model::graph::{OwnerGraph, OwnerState};
use crate::model::object::{Lookup, LookupKey, Object, PodDetails, Searched, Snapshot, Uid};

/// Requests in flight. HTTP/1.1 needs a connection for each, and each costs a TLS handshake of the server's processor
/// time. Measured with some 190 lists: over a link of 25 ms, 16 take 0.52 s, 32 0.35 s, 48 0.31 s, 64 0.34 s and 150
/// 0.42 s; on loopback 0.15, 0.16, 0.17, 0.20 and 0.21 s. So 32 is near the best of both, and kinder to a server in
/// trouble than more.
const CONCURRENCY: usize = 32;
/// Owners outside the searched part that are looked up one by one; beyond that they stay unknown.
const MOST_LOOKUPS: usize = 256;

/// How often a list in pages is begun at most.
const BEGINNINGS: usize = 3;

/// What takes longer is not begun again because it broke off.
const PATIENCE: Duration = Duration::from_secs(20);

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
    let first = wanted.searched.namespaces.as_ref().and_then(|namespaces| namespaces.first());
    let rights = Rights::new(cluster, first.map_or(cluster.namespace(), String::as_str));
    let rights = &rights;
    let mut answers = futures::stream::iter(lists)
        .map(|(resource, namespace)| async move {
            let place = namespace.as_deref();
            if rights.forbid_list(&resource, place).await {
                let answer = Err(surely_refused(&resource, place));
                return (resource, namespace, answer);
            }
            let answer = list_some_version(cluster, catalog, &resource, place, wanted.pods).await;
            if answer.as_ref().is_err_and(Trouble::is_forbidden) {
                rights.doubt();
            }
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
    let mut graph = graph;
    let mut asked = BTreeSet::new();
    loop {
        // An owner that was looked up may have an owner of its own there.
        let missing: Vec<_> = missing_owners(&graph)
            .into_iter()
            .filter(|(key, _)| asked.len() < MOST_LOOKUPS && asked.insert(key.clone()))
            .collect();
        if missing.is_empty() {
            return graph;
        }
        let mut snapshot = graph.into_snapshot();
        let answers: Vec<(LookupKey, Result<Option<Object>, Trouble>)> = futures::stream::iter(missing)
            .map(|(key, resource)| async move {
                let place = key.namespace.as_deref();
                let answer = get_some_version(cluster, catalog, &resource, place, &key.name).await;
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
        graph = OwnerGraph::new(snapshot);
    }
}

/// Lists one resource, all namespaces or one, in its own version.
pub async fn list(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    query: &str,
) -> Result<DecodedList, Trouble> {
    let path = format!("{}{query}", resource.collection_path(namespace));
    list_pages(cluster, resource, Request::get(path).accept(wire::ACCEPT_METADATA_LIST)).await
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

/// What metadata does not tell of the Pods of a namespace; empty where it cannot be read.
pub async fn pods(cluster: &Cluster, catalog: &Catalog, namespace: &str) -> BTreeMap<Uid, PodDetails> {
    let Some(resource) = catalog.served("v1", "Pod") else { return BTreeMap::new() };
    let list = list_some_version(cluster, catalog, resource, Some(namespace), true).await;
    let items = list.map(|list| list.items).unwrap_or_default();
    items.into_iter().filter_map(|item| Some((item.object.uid, item.pod?))).collect()
}

/// The same, in whatever version it can be read.
pub async fn get_some_version(
    cluster: &Cluster,
    catalog: &Catalog,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Object>, Trouble> {
    in_some_version(catalog, resource, |version| async move { get(cluster, &version, namespace, name).await })
        .await
}

/// Lists one resource in whatever version it can be read, patiently: a connection that was kept and is dead is no answer.
/// `pods` reads what metadata does not tell of Pods, too.
pub async fn list_some_version(
    cluster: &Cluster,
    catalog: &Catalog,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    pods: bool,
) -> Result<DecodedList, Trouble> {
    let accept = if pods && resource.is("", "Pod") { wire::ACCEPT_WHOLE } else { wire::ACCEPT_METADATA_LIST };
    in_some_version(catalog, resource, |version| async move {
        let request = Request::get(version.collection_path(namespace)).accept(accept).patient();
        list_pages(cluster, &version, request).await
    })
    .await
}

/// Asks in the version that is preferred, and where the server cannot convert to it (a conversion webhook is down,
/// F17) in the others that it serves: what is stored in one of them needs no conversion. What is found bears the
/// version that it was read in, so that whatever is asked of it later is asked in that one, too.
///
/// # Errors
/// The trouble with the preferred version.
pub async fn in_some_version<T, Asked: Future<Output = Result<T, Trouble>>>(
    catalog: &Catalog,
    resource: &Arc<Resource>,
    ask: impl Fn(Arc<Resource>) -> Asked,
) -> Result<T, Trouble> {
    let trouble = match ask(Arc::clone(resource)).await {
        Err(trouble) if trouble.is_conversion_error() || trouble.code() == Some(500) => trouble,
        answer => return answer,
    };
    let others = catalog.all().iter().filter(|other| {
        other.group == resource.group && other.plural == resource.plural && other.version != resource.version
    });
    for other in others {
        match ask(Arc::clone(other)).await {
            Err(trouble) if !trouble.is_not_found() => {}
            answer => return answer,
        }
    }
    Err(trouble)
}

/// What the server would say, on the word of the rules review.
fn surely_refused(resource: &Resource, namespace: Option<&str>) -> Trouble {
    let place = namespace.map_or_else(String::new, |namespace| format!(" in the namespace {namespace:?}"));
    Trouble::Status {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: format!(
            "{}: no rule of yours allows to list it{place} (SelfSubjectRulesReview)",
            resource.qualified()
        ),
        retry_after: None,
    }
}

/// One request without a limit; servers that page anyway are followed.
async fn list_pages(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    request: Request,
) -> Result<DecodedList, Trouble> {
    let mut whole: Option<DecodedList> = None;
    let mut beginnings = 1;
    let started = Instant::now();
    loop {
        let mut page = request.clone();
        if let Some(list) = &whole {
            let separator = if request.path.contains('?') { '&' } else { '?' };
            let next = crate::model::catalog::escaped(&list.next);
            page.path = format!("{}{separator}continue={next}", request.path);
        }
        let (head, mut chunks) = match cluster.stream(page).await {
            // The pages took so long that their version is compacted away: only another beginning is consistent.
            Err(trouble) if trouble.is_gone() && whole.is_some() && beginnings < BEGINNINGS => {
                beginnings += 1;
                whole = None;
                continue;
            }
            answer => answer?,
        };
        let mut reader = ListReader::new(resource, &head.content_type);
        let mut broken = None;
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => reader.push(&chunk)?,
                Err(trouble) => broken = Some(trouble),
            }
        }
        match broken {
            // A list that breaks off is worth another beginning, but not a server that has become silent.
            Some(_) if beginnings < BEGINNINGS && started.elapsed() < PATIENCE => {
                beginnings += 1;
                whole = None;
                continue;
            }
            Some(trouble) => return Err(trouble),
            None => {}
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
