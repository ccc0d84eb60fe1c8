//! `diagnose`: why is it not gone, and what is the safest way out? Two looks, some seconds apart, tell what moves
//! from what is stuck; the rest is asked of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::time_span;
use super::flags::probing;
use super::manifest::{self, Place};
use super::session::Session;
use super::subject;
use crate::cli::{DiagnoseArgs, ReportFormat, TargetArgs};
use crate::cluster::{discovery, evidence, metadata, targets};
use crate::error::{ExitCode, Failure};
use crate::model::catalog::Catalog;
use crate::model::diagnosis::{Case, Diagnosed, Diagnosis, Pace, Probing, State};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, ObjectRef, Searched, Uid};
use crate::model::target::{BareType, TargetQuery};
use crate::render::{diagnosis as text, json, names};

/// Runs `diagnose`.
///
/// # Errors
/// A wrong command line, an unknown kind, a target that is not there, no connection.
pub async fn run(session: &Session, args: &DiagnoseArgs) -> Result<ExitCode, Failure> {
    let observe = time_span("--observe", &args.observe)?;
    let scene = if asks_for_targets(&args.target) {
        named(session, args).await?
    } else {
        everything(session, args.target.all_namespaces).await?
    };
    let diagnosis = look_twice(session, probing(args.probe), scene, observe).await;
    report(session, args, &diagnosis)
}

/// What can be refused before anybody is asked.
///
/// # Errors
/// A wrong command line.
pub fn check(args: &DiagnoseArgs) -> Result<(), Failure> {
    time_span("--observe", &args.observe)?;
    if asks_for_targets(&args.target) { manifest::check(&args.target, BareType::All) } else { Ok(()) }
}

/// Why one object is not gone: two looks, as `diagnose` takes them.
pub async fn diagnose(
    session: &Session,
    catalog: Arc<Catalog>,
    object: Object,
    observe: Duration,
) -> Diagnosis {
    let objects = vec![object];
    let searched = subject::surroundings(&objects, false, true);
    let graph = look(session, &catalog, &searched, objects.clone()).await;
    let scene = Scene { catalog, searched, graph, objects, namespaces: Vec::new(), absent: Vec::new() };
    look_twice(session, Probing::DryRun, scene, observe).await
}

/// What is looked at.
struct Scene {
    catalog: Arc<Catalog>,
    searched: Searched,
    /// The first look.
    graph: OwnerGraph,
    /// The objects in question.
    objects: Vec<Object>,
    /// The Terminating Namespaces of those that are not being deleted themselves.
    namespaces: Vec<Object>,
    /// Named, not there, and that is no error.
    absent: Vec<ObjectRef>,
}

fn asks_for_targets(target: &TargetArgs) -> bool {
    !target.targets.is_empty() || !target.filenames.is_empty() || target.kustomize.is_some()
}

/// The targets of the command line and their surroundings.
async fn named(session: &Session, args: &DiagnoseArgs) -> Result<Scene, Failure> {
    let cluster = &session.cluster;
    manifest::check(&args.target, BareType::All)?;
    let catalog = Arc::new(discovery::catalog(cluster).await?);
    let place = Place { namespace: cluster.namespace(), given: cluster.namespace_was_given() };
    let queries = manifest::queries(&args.target, place, BareType::All, &catalog)?;
    let objects = targets::resolve(cluster, &catalog, &queries, args.ignore_not_found).await?;
    let absent = queries.iter().filter_map(|query| absent(query, &objects)).collect();
    let searched = subject::surroundings(&objects, args.target.all_namespaces, true);
    let namespaces = going_namespaces(session, &catalog, &objects).await;
    let known = objects.iter().chain(&namespaces).cloned().collect();
    let graph = look(session, &catalog, &searched, known).await;
    Ok(Scene { catalog, searched, graph, objects, namespaces, absent })
}

/// The Terminating Namespaces of live objects: these go along with them.
async fn going_namespaces(session: &Session, catalog: &Catalog, objects: &[Object]) -> Vec<Object> {
    let live = objects.iter().filter(|object| !object.is_terminating());
    let names: BTreeSet<&str> = live.filter_map(|object| object.namespace.as_deref()).collect();
    let mut going = Vec::new();
    for name in names {
        going.extend(namespace(session, catalog, name).await.filter(Object::is_terminating));
    }
    going
}

/// A Namespace; none where it is not there or may not be read.
async fn namespace(session: &Session, catalog: &Catalog, name: &str) -> Option<Object> {
    let resource = catalog.served("v1", "Namespace")?;
    metadata::get(&session.cluster, resource, None, name).await.ok().flatten()
}

/// A named object that was not found.
fn absent(query: &TargetQuery, found: &[Object]) -> Option<ObjectRef> {
    let TargetQuery::Named { resource, namespace, name } = query else { return None };
    let is_found = found.iter().any(|object| {
        object.resource.is(&resource.group, &resource.kind)
            && object.namespace.as_deref() == namespace.as_deref()
            && object.name == *name
    });
    (!is_found).then(|| ObjectRef {
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        uid: Uid::from(""),
    })
}

/// Everything Terminating in the namespace, and the Namespace itself; with `-A` in the whole cluster.
async fn everything(session: &Session, all_namespaces: bool) -> Result<Scene, Failure> {
    let cluster = &session.cluster;
    let catalog = Arc::new(discovery::catalog(cluster).await?);
    let name = cluster.namespace();
    let (searched, known) = if all_namespaces {
        (Searched::everywhere(), Vec::new())
    } else {
        let own = namespace(session, &catalog, name).await;
        (Searched::namespace(name, true), own.into_iter().collect())
    };
    let graph = look(session, &catalog, &searched, known).await;
    subject::refuse_blindness(session, &graph, "whether anything is Terminating")?;
    let in_question = |object: &&Object| {
        object.is_terminating()
            && (all_namespaces
                || object.namespace.as_deref() == Some(name)
                || (object.is("", "Namespace") && object.name == name))
    };
    let mut objects: Vec<(usize, Object)> = graph
        .objects()
        .iter()
        .filter(in_question)
        .map(|object| (distance_from_root(&graph, object), object.clone()))
        .collect();
    // What holds others comes before what it holds, so that chains begin at the top.
    objects.sort_by_key(|(distance, _)| *distance);
    let objects = objects.into_iter().map(|(_, object)| object).collect();
    Ok(Scene { catalog, searched, graph, objects, namespaces: Vec::new(), absent: Vec::new() })
}

/// How many Terminating owners stand above an object; containers (Namespace, CRD) come first.
fn distance_from_root(graph: &OwnerGraph, object: &Object) -> usize {
    if object.is("", "Namespace") || object.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return 0;
    }
    let mut seen = BTreeSet::new();
    let mut level: BTreeSet<usize> = graph.by_uid(&object.uid).iter().copied().collect();
    let mut distance = 0;
    loop {
        distance += 1;
        let owners = level.iter().flat_map(|index| graph.owners(*index)).filter_map(|(_, owner)| owner.owner);
        let above: BTreeSet<usize> =
            owners.filter(|owner| graph.object(*owner).is_terminating() && seen.insert(*owner)).collect();
        if above.is_empty() {
            return distance;
        }
        level = above;
    }
}

async fn look(
    session: &Session,
    catalog: &Arc<Catalog>,
    searched: &Searched,
    known: Vec<Object>,
) -> OwnerGraph {
    subject::read(session, Arc::clone(catalog), known, searched.clone(), true).await.graph
}

/// Looks again after a while; what moved meanwhile is not stuck.
async fn look_twice(session: &Session, probing: Probing, scene: Scene, observe: Duration) -> Diagnosis {
    let started = Instant::now();
    let concerned: Vec<Object> = scene.objects.iter().chain(&scene.namespaces).cloned().collect();
    let terminating = concerned.iter().any(Object::is_terminating);
    let mut case = Case {
        targets: scene.objects.iter().map(Object::reference).collect(),
        caller: session.caller.clone(),
        probing,
        foresees: true,
        now: session.cluster.now(),
        ..Case::default()
    };
    let mut diagnosis = if terminating {
        tokio::time::sleep(observe).await;
        let again = look(session, &scene.catalog, &scene.searched, Vec::new()).await;
        let again = with_unlisted(session, again, &concerned).await;
        let seconds = started.elapsed().as_secs_f64();
        (case.moving, case.emptied) = changes(&scene.graph, &again, &concerned, seconds);
        case.created_later = created_later(&scene.graph, &again);
        evidence::explain(&session.cluster, again, &case).await
    } else {
        evidence::examine(&session.cluster, &scene.graph, &case).await
    };
    let absent = scene.absent.into_iter().map(|reference| Diagnosed::new(reference, State::Gone));
    diagnosis.objects.extend(absent);
    diagnosis
}

/// Targets of a kind that may not be listed are read one by one.
async fn with_unlisted(session: &Session, graph: OwnerGraph, objects: &[Object]) -> OwnerGraph {
    let mut known = Vec::new();
    for object in objects.iter().filter(|object| graph.by_uid(&object.uid).is_empty()) {
        let namespace = object.namespace.as_deref();
        let read = metadata::get(&session.cluster, &object.resource, namespace, &object.name).await;
        known.extend(read.ok().flatten());
    }
    if known.is_empty() {
        return graph;
    }
    let mut snapshot = graph.into_snapshot();
    snapshot.objects.extend(known);
    OwnerGraph::new(snapshot)
}

/// Where something happened between the two looks: below which object, and how fast; and the objects that alone are left
/// of theirs, as they were.
fn changes(
    before: &OwnerGraph,
    after: &OwnerGraph,
    targets: &[Object],
    seconds: f64,
) -> (BTreeMap<Uid, Pace>, BTreeSet<Uid>) {
    let mut moving = BTreeMap::new();
    let mut emptied = BTreeSet::new();
    for target in targets {
        let first = below(before, target);
        let left = below(after, target);
        let mut gone = 0;
        let mut moved = 0;
        for index in &first {
            let object = before.object(*index);
            match after.by_uid(&object.uid).first() {
                None => gone += 1,
                Some(now) => {
                    let now = after.object(*now);
                    let marked = now.is_terminating() && !object.is_terminating();
                    // Whoever puts one on as fast as another takes one off does not get anywhere.
                    let freed = now.finalizers.len() < object.finalizers.len();
                    moved += usize::from(marked || freed);
                }
            }
        }
        if moved == 0 && left.len() == 1 && gone > 0 {
            emptied.insert(target.uid.clone());
        } else if gone + moved > 0 && !after.by_uid(&target.uid).is_empty() {
            // One is no rate.
            let per_second = (gone > 1 && seconds > 0.0).then(|| gone as f64 / seconds);
            moving.insert(target.uid.clone(), Pace { left: left.len(), per_second });
        }
    }
    (moving, emptied)
}

/// Everything that goes with an object: its dependents; what is in a Namespace; the instances of a definition.
pub fn below(graph: &OwnerGraph, target: &Object) -> Vec<usize> {
    let Some(&index) = graph.by_uid(&target.uid).first() else { return Vec::new() };
    let details = &graph.snapshot().details;
    let mut roots = vec![index];
    if target.is("", "Namespace") {
        let inside = |object: &Object| object.namespace.as_deref() == Some(target.name.as_str());
        roots.extend((0..graph.objects().len()).filter(|index| inside(graph.object(*index))));
    } else if let Some((group, kind)) = details.definitions.get(&target.uid) {
        roots.extend((0..graph.objects().len()).filter(|index| graph.object(*index).is(group, kind)));
    }
    graph.closure(&roots)
}

/// Dependents that appeared after the deletion of their owner began, in either look.
fn created_later(before: &OwnerGraph, after: &OwnerGraph) -> Vec<ObjectRef> {
    let mut later = BTreeSet::new();
    for graph in [before, after] {
        for (index, object) in graph.objects().iter().enumerate() {
            let after_owner = graph.owners(index).any(|(_, owner)| {
                let deleted = owner.owner.and_then(|owner| graph.object(owner).deleted);
                deleted.is_some_and(|deleted| object.created.is_some_and(|created| created > deleted))
            });
            if after_owner {
                later.insert(object.reference());
            }
        }
    }
    later.into_iter().collect()
}

fn report(session: &Session, args: &DiagnoseArgs, diagnosis: &Diagnosis) -> Result<ExitCode, Failure> {
    let everywhere = args.target.all_namespaces;
    match args.output {
        Some(ReportFormat::Json) => {
            session.print(|out| json::write_json(out, &json::diagnosis_document(diagnosis)))?;
        }
        Some(ReportFormat::Name) => {
            session.print(|out| names::write_names(out, diagnosis.holding()))?;
        }
        None => session.print(|out| text::write_diagnosis(out, session.stdout, diagnosis, everywhere))?,
    }
    let is_stuck = diagnosis.objects.iter().any(|object| object.state == State::Stuck);
    Ok(if is_stuck { ExitCode::Unfinished } else { ExitCode::Done })
}
