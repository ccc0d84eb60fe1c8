//! What a command is about: the targets, and the graph of everything that can hang on them.

use std::sync::Arc;
use std::time::Instant;

use super::manifest::{self, Place};
use super::session::Session;
use crate::cli::TargetArgs;
use crate::cluster::metadata::{self, Wanted};
use crate::cluster::{details, discovery, targets};
use crate::error::Failure;
use crate::model::catalog::Catalog;
use crate::model::graph::OwnerGraph;
use crate::model::object::{FOREGROUND_FINALIZER, Object, Searched, Uid};
use crate::model::policy::Policy;
use crate::model::target::{BareType, TargetQuery};
use crate::render::gaps::write_gaps;

/// Whether a namespaced target needs the cluster-scoped kinds: only a foreground owner does, which a cluster-scoped
/// dependent blocks (design section 4). Ordinary users may not list most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterScoped {
    /// Not needed.
    No,
    /// Needed.
    Yes,
    /// Needed if a target is being deleted in foreground.
    IfForeground,
}

/// How much a command needs to read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Whether to read the cluster-scoped kinds, too.
    pub cluster_scoped: ClusterScoped,
    /// What metadata does not tell of Pods and a few others: a forecast needs it.
    pub pods: bool,
    /// What a type without a name means.
    pub bare_type: BareType,
    /// A named object that is not there is no error.
    pub ignore_not_found: bool,
}

/// A named object that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where it was looked for; none for cluster-scoped kinds.
    pub namespace: Option<String>,
}

/// The targets and their surroundings.
pub struct Subject {
    /// What the server serves.
    pub catalog: Arc<Catalog>,
    /// Everything that was read.
    pub graph: OwnerGraph,
    /// The targets' places in it.
    pub targets: Vec<usize>,
    /// What was named and is not there, where that is no error.
    pub absent: Vec<Absent>,
    /// Namespaces that are being deleted and take targets along that nobody deletes by themselves.
    pub namespaces: Vec<Object>,
}

impl Subject {
    /// The targets' UIDs.
    pub fn uids(&self) -> Vec<Uid> {
        self.targets.iter().map(|target| self.graph.object(*target).uid.clone()).collect()
    }
}

/// Where not a single kind could be listed, there is no answer. `what` is not known then.
///
/// # Errors
/// That is so.
pub fn refuse_blindness(session: &Session, graph: &OwnerGraph, what: &str) -> Result<(), Failure> {
    let snapshot = graph.snapshot();
    if !snapshot.is_blind() {
        return Ok(());
    }
    session.note(|out| write_gaps(out, session.stderr, &snapshot.gaps));
    Err(Failure::error(format!("no kind could be read, so {what} is not known"))
        .hint("it takes the right to list: see docs/rights.md"))
}

/// Resolves the targets, then reads everything that can hang on them.
///
/// # Errors
/// A wrong command line, an unknown kind, a target that is not there, no connection.
pub async fn gather(session: &Session, args: &TargetArgs, reading: Reading) -> Result<Subject, Failure> {
    manifest::check(args, reading.bare_type)?;
    let catalog = Arc::new(discovery::catalog(&session.cluster).await?);
    let place =
        Place { namespace: session.cluster.namespace(), given: session.cluster.namespace_was_given() };
    let queries = manifest::queries(args, place, reading.bare_type, &catalog)?;
    let found = targets::resolve(&session.cluster, &catalog, &queries, reading.ignore_not_found).await?;
    let absent = absent(&queries, &found);
    if found.is_empty() {
        return Ok(Subject {
            catalog,
            graph: OwnerGraph::default(),
            targets: Vec::new(),
            absent,
            namespaces: Vec::new(),
        });
    }
    let cluster_scoped = match reading.cluster_scoped {
        ClusterScoped::No => false,
        ClusterScoped::Yes => true,
        ClusterScoped::IfForeground => found.iter().any(|object| object.has_finalizer(FOREGROUND_FINALIZER)),
    };
    let searched = surroundings(&found, args.all_namespaces, cluster_scoped);
    let subject = read(session, catalog, found, searched, reading.pods).await;
    Ok(Subject { absent, ..subject })
}

/// The names that nothing was found for.
fn absent(queries: &[TargetQuery], found: &[Object]) -> Vec<Absent> {
    let name = |query: &TargetQuery| {
        let TargetQuery::Named { resource, namespace, name } = query else { return None };
        // By kind: some objects are served in two groups, and were found in one.
        let is_there = found.iter().any(|object| {
            object.resource.kind == resource.kind
                && object.namespace.as_deref() == namespace.as_deref()
                && object.name == *name
        });
        (!is_there).then(|| Absent {
            kind: resource.kind.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
        })
    };
    queries.iter().filter_map(name).collect()
}

/// Reads the wanted part of the cluster around these objects.
pub async fn read(
    session: &Session,
    catalog: Arc<Catalog>,
    objects: Vec<Object>,
    searched: Searched,
    pods: bool,
) -> Subject {
    let named = objects.clone();
    let wanted = Wanted { searched, pods };
    let mut listing = session.listing();
    let mut graph = metadata::graph(&session.cluster, &catalog, &wanted, objects, &mut |state| {
        listing.update(state.done, state.lists, state.objects, Instant::now());
    })
    .await;
    listing.finish();
    let targets: Vec<usize> = named.iter().filter_map(|object| graph.index_of(object)).collect();
    if pods {
        details::fill(&session.cluster, &mut graph, &targets).await;
    }
    Subject { catalog, graph, targets, absent: Vec::new(), namespaces: Vec::new() }
}

/// Where the dependents of these objects can be: a namespaced owner has them in its own namespace, a cluster-scoped
/// one everywhere. Blockers elsewhere are invalid; `-A` looks for them, too (design section 4).
pub fn surroundings(objects: &[Object], everywhere: bool, cluster_scoped: bool) -> Searched {
    let namespaces: Option<_> =
        objects.iter().map(|object| object.namespace.as_deref().map(str::to_owned)).collect();
    match namespaces {
        Some(namespaces) if !everywhere => Searched { namespaces: Some(namespaces), cluster_scoped },
        _ => Searched::everywhere(),
    }
}

/// Whether a delete with this policy needs the cluster-scoped kinds.
pub fn needs_cluster_scoped(policy: Option<Policy>) -> ClusterScoped {
    if policy == Some(Policy::Foreground) { ClusterScoped::Yes } else { ClusterScoped::No }
}
