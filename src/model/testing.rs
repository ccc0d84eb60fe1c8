//! Graphs from a few lines of text, so that a test shows its situation at a glance. One line an object:
//!
//! ```text
//! OBJECT [ATTRIBUTE...] [<- REFERENCE, REFERENCE...]
//!
//! OBJECT     Kind/name, or other:Kind/name in the namespace `other` (the usual one is `x`); the kinds are below
//! ATTRIBUTE  terminating        has a deletionTimestamp (one minute before `now`)
//!            finalizer=a/b      (repeatable)
//!            label=key=value    (repeatable)
//!            uid=u1             else the UID is the OBJECT text itself
//!            created=2026-01-01T00:00:00Z (that is the usual one)
//!            grace=30           deletionGracePeriodSeconds
//!            node=n1            (Pod) spec.nodeName; details are made for every Pod
//!            podgrace=30        (Pod) spec.terminationGracePeriodSeconds, usually 30
//!            phase=Succeeded    (Pod) usually Running
//!            claim=c            (Pod) mounts this claim (repeatable)
//!            spec=kubernetes    (Namespace) spec.finalizers (repeatable)
//!            retain=false       (StatefulSet) whenDeleted: Delete, with the claim template `data`
//!            instances=g/Kind   (CustomResourceDefinition) what it defines
//! REFERENCE  Kind/name with the UID of that object of the same namespace, else of a cluster-scoped one;
//!            other:Kind/name (or x:Kind/name) takes the UID of that object elsewhere, Kind/name@u1 any UID;
//!            v9#Kind/name or group/v9#Kind/name writes another apiVersion; then flags:
//!            ! blockOwnerDeletion   * controller
//! ```
//!
//! Empty lines and what follows `//` are left out. A reference to an object that is not there is dangling.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalog::{Catalog, Resource};
use super::graph::OwnerGraph;
use super::object::{ClaimRetention, Object, OwnerReference, PodDetails, Searched, Snapshot, Timestamp, Uid};

/// (kind, group, version, plural, namespaced)
const KINDS: &[(&str, &str, &str, &str, bool)] = &[
    ("Namespace", "", "v1", "namespaces", false),
    ("Node", "", "v1", "nodes", false),
    ("PersistentVolume", "", "v1", "persistentvolumes", false),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", true),
    ("ConfigMap", "", "v1", "configmaps", true),
    ("Secret", "", "v1", "secrets", true),
    ("Service", "", "v1", "services", true),
    ("ServiceAccount", "", "v1", "serviceaccounts", true),
    ("Pod", "", "v1", "pods", true),
    ("ReplicationController", "", "v1", "replicationcontrollers", true),
    ("Event", "", "v1", "events", true),
    ("Deployment", "apps", "v1", "deployments", true),
    ("ReplicaSet", "apps", "v1", "replicasets", true),
    ("StatefulSet", "apps", "v1", "statefulsets", true),
    ("DaemonSet", "apps", "v1", "daemonsets", true),
    ("Job", "batch", "v1", "jobs", true),
    ("CronJob", "batch", "v1", "cronjobs", true),
    ("Lease", "coordination.k8s.io", "v1", "leases", true),
    ("ClusterRole", "rbac.authorization.k8s.io", "v1", "clusterroles", false),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", false),
    ("Widget", "example.test", "v1", "widgets", true),
    ("ClusterWidget", "example.test", "v1", "clusterwidgets", false),
    // Serves no watch: the collector never sees it.
    ("Fleeting", "example.test", "v1", "fleetings", true),
];

/// The moment that tests call now.
#[allow(dead_code, reason = "not every test has a now")]
pub(crate) fn now() -> Timestamp {
    timestamp("2026-01-02T03:04:05Z")
}

/// The moment that this text names.
pub(crate) fn timestamp(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The catalog of all kinds that these graphs know.
pub(crate) fn catalog() -> Catalog {
    let resource = |(kind, group, version, plural, namespaced): &(&str, &str, &str, &str, bool)| Resource {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: *namespaced,
        verbs: ["create", "delete", "get", "list", "patch", "update", "watch"]
            .into_iter()
            .filter(|verb| !(*kind == "Fleeting" && *verb == "watch"))
            .map(str::to_owned)
            .collect(),
    };
    Catalog::new(KINDS.iter().map(resource).collect(), Vec::new(), Vec::new())
}

/// The graph of a text.
pub(crate) fn graph(text: &str) -> OwnerGraph {
    OwnerGraph::new(snapshot(text))
}

/// The index of an object, named as in the text.
pub(crate) fn at(graph: &OwnerGraph, name: &str) -> usize {
    let found = graph.objects().iter().position(|object| label(object) == name);
    found.unwrap_or_else(|| panic!("no object {name}"))
}

/// How the text names an object: `Kind/name`, or `other:Kind/name` in a namespace other than `x`.
pub(crate) fn label(object: &Object) -> String {
    let short = format!("{}/{}", object.resource.kind, object.name);
    match object.namespace.as_deref() {
        None | Some("x") => short,
        Some(namespace) => format!("{namespace}:{short}"),
    }
}

/// The snapshot of a text: everything was searched, nothing is missing.
pub(crate) fn snapshot(text: &str) -> Snapshot {
    let catalog = catalog();
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .collect();
    // UIDs first: a reference may name an object of a later line.
    let uids: BTreeMap<&str, Uid> = lines
        .iter()
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let own = words.find_map(|word| word.strip_prefix("uid="));
            (name, Uid::from(own.unwrap_or(name)))
        })
        .collect();
    let mut snapshot = Snapshot { searched: Searched::everywhere(), ..Snapshot::default() };
    for line in lines {
        let (head, references) = line.split_once("<-").unwrap_or((line, ""));
        let mut words = head.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut object = bare_object(&catalog, name, &uids[name]);
        if object.is("", "Pod") {
            let details = PodDetails { phase: "Running".into(), grace_seconds: 30, ..PodDetails::default() };
            snapshot.details.pods.insert(object.uid.clone(), details);
        }
        for word in words {
            set_attribute(&mut snapshot, &mut object, word);
        }
        object.owners = references
            .split(',')
            .map(str::trim)
            .filter(|reference| !reference.is_empty())
            .map(|reference| owner_reference(&catalog, &object, reference, &uids))
            .collect();
        snapshot.objects.push(object);
    }
    snapshot.catalog = catalog;
    snapshot
}

fn resource(catalog: &Catalog, kind: &str) -> Arc<Resource> {
    let found = catalog.all().iter().find(|resource| resource.kind == kind);
    Arc::clone(found.unwrap_or_else(|| panic!("the test catalog has no kind {kind}")))
}

fn split_name(name: &str) -> (Option<&str>, &str, &str) {
    let (namespace, short) = match name.split_once(':') {
        // Names of RBAC objects may hold a colon, too; namespaces stand before the slash.
        Some((namespace, rest)) if !namespace.contains('/') => (Some(namespace), rest),
        _ => (None, name),
    };
    let (kind, name) = short.split_once('/').unwrap_or_else(|| panic!("{name} is not Kind/name"));
    (namespace, kind, name)
}

fn bare_object(catalog: &Catalog, name: &str, uid: &Uid) -> Object {
    let (namespace, kind, name) = split_name(name);
    let resource = resource(catalog, kind);
    let namespace = resource.namespaced.then(|| namespace.unwrap_or("x").into());
    Object {
        resource,
        namespace,
        name: name.to_owned(),
        uid: uid.clone(),
        resource_version: "1".to_owned(),
        owners: [].into(),
        finalizers: Vec::new(),
        labels: Arc::default(),
        created: Some(timestamp("2026-01-01T00:00:00Z")),
        deleted: None,
        grace_seconds: None,
    }
}

fn set_attribute(snapshot: &mut Snapshot, object: &mut Object, word: &str) {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let uid = object.uid.clone();
    let number = || value.parse().unwrap_or_else(|error| panic!("{word}: {error}"));
    let mut pod = PodDetails::default();
    let pod = snapshot.details.pods.get_mut(&uid).unwrap_or(&mut pod);
    match key {
        "terminating" => object.deleted = Some(timestamp("2026-01-02T03:03:05Z")),
        "finalizer" => object.finalizers.push(value.to_owned()),
        "label" => {
            let (label, value) = value.split_once('=').unwrap_or((value, ""));
            Arc::make_mut(&mut object.labels).insert(label.to_owned(), value.to_owned());
        }
        "uid" => {}
        "created" => object.created = Some(timestamp(value)),
        "grace" => object.grace_seconds = Some(number()),
        "node" => value.clone_into(&mut pod.node),
        "podgrace" => pod.grace_seconds = number(),
        "phase" => {
            value.clone_into(&mut pod.phase);
            pod.finished = matches!(value, "Succeeded" | "Failed");
        }
        "claim" => pod.claims.push(value.to_owned()),
        "spec" => {
            snapshot.details.namespace_finalizers.entry(uid).or_default().push(value.to_owned());
        }
        "retain" => {
            let retention = ClaimRetention { delete: value == "false", templates: vec!["data".to_owned()] };
            snapshot.details.stateful_sets.insert(uid, retention);
        }
        "instances" => {
            let (group, kind) = value.split_once('/').unwrap_or_else(|| panic!("{word} is not g/Kind"));
            snapshot.details.definitions.insert(uid, (group.to_owned(), kind.to_owned()));
        }
        _ => panic!("unknown attribute {word}"),
    }
}

fn owner_reference(
    catalog: &Catalog,
    dependent: &Object,
    reference: &str,
    uids: &BTreeMap<&str, Uid>,
) -> OwnerReference {
    let name = reference.trim_end_matches(['!', '*']);
    let flags = &reference[name.len()..];
    let (api_version, name) = match name.split_once('#') {
        Some((api_version, name)) => (Some(api_version.to_owned()), name),
        None => (None, name),
    };
    let (name, uid) = match name.split_once('@') {
        Some((name, uid)) => (name, Some(Uid::from(uid))),
        None => (name, None),
    };
    let (_, kind, own_name) = split_name(name);
    let (name, elsewhere) = match name.strip_prefix("x:") {
        Some(name) => (name, true),
        None => (name, name.contains(':')),
    };
    let beside = match dependent.namespace.as_deref() {
        Some(namespace) if namespace != "x" && !elsewhere => format!("{namespace}:{name}"),
        _ => name.to_owned(),
    };
    let uid = uid
        .or_else(|| uids.get(beside.as_str()).cloned())
        .or_else(|| uids.get(name).filter(|_| !resource(catalog, kind).namespaced).cloned())
        .unwrap_or_else(|| Uid::from(format!("absent {beside}")));
    OwnerReference {
        api_version: api_version.unwrap_or_else(|| resource(catalog, kind).api_version()),
        kind: kind.to_owned(),
        name: own_name.to_owned(),
        uid,
        controller: flags.contains('*'),
        block_owner_deletion: flags.contains('!'),
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::OwnerState;
    use super::*;

    fn states(graph: &OwnerGraph, name: &str) -> Vec<OwnerState> {
        graph.owners(at(graph, name)).map(|(_, resolved)| resolved.state).collect()
    }

    #[test]
    fn a_text_becomes_the_graph_it_shows() {
        let graph = graph(
            "Job/a terminating finalizer=foregroundDeletion
             Pod/b node=n1 <- Job/a!*, ConfigMap/gone   // two owners
             ConfigMap/c <- ClusterWidget/w
             ClusterWidget/w
             other:Secret/d <- Job/a, other:ConfigMap/e!
             other:ConfigMap/e
             ClusterWidget/f <- Job/a
             Secret/g <- v9#Job/a",
        );
        assert_eq!(states(&graph, "Pod/b"), [OwnerState::Terminating, OwnerState::Absent]);
        assert_eq!(states(&graph, "ConfigMap/c"), [OwnerState::Live]);
        // Job/a of the namespace `other` is not there.
        assert_eq!(states(&graph, "other:Secret/d"), [OwnerState::Absent, OwnerState::Live]);
        assert_eq!(states(&graph, "ClusterWidget/f"), [OwnerState::Scope]);
        assert_eq!(states(&graph, "Secret/g"), [OwnerState::Unserved]);
        assert!(graph.blocks(at(&graph, "Pod/b"), &Uid::from("Job/a")));
        assert!(!graph.blocks(at(&graph, "Secret/g"), &Uid::from("Job/a")));
        assert_eq!(graph.snapshot().details.pods[&Uid::from("Pod/b")].node, "n1");
    }

    #[test]
    fn a_reference_into_another_namespace_takes_the_uid_from_there() {
        let graph = graph("Job/a\nother:Secret/b <- x:Job/a");
        assert_eq!(states(&graph, "other:Secret/b"), [OwnerState::OtherNamespace]);
    }
}
