//! A cluster as a file: what `kubectl get ... -o json|yaml` printed, read into the same model types as a live one.
//! Kinds come from the file and from the table of those that every Kubernetes has. What the file cannot tell is a gap:
//! a kind of which it holds nothing may have objects all the same.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{self, Decoded};
use crate::error::Failure;
use crate::model::catalog::{Catalog, Gap, Resource, split_api_version};
use crate::model::kinds;
use crate::model::object::{ClaimRetention, Columns, Searched, Snapshot, Uid};

/// The file's content.
#[derive(Debug, Default)]
pub struct Saved {
    /// Its objects, and as gaps what it cannot tell.
    pub snapshot: Snapshot,
    /// READY and STATUS, as far as they follow from the objects' own status.
    pub columns: BTreeMap<Uid, Columns>,
}

/// Reads a saved cluster. `source` names the file in messages, which quote nothing of it: it may hold secrets. Only
/// the objects of one namespace, and the cluster-scoped ones, where `namespace` names it.
///
/// # Errors
/// The text is neither JSON nor YAML, or holds something else than what kubectl prints.
pub fn read(source: &str, text: &str, namespace: Option<&str>) -> Result<Saved, Failure> {
    let fail = |what: String| {
        Failure::error(format!("cannot read {source}: {what}"))
            .hint("write it with: kubectl get TYPES -A -o json > FILE")
    };
    let mut items = Items::default();
    let json: Result<Vec<&RawValue>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    // What looks like JSON may still be YAML in flow style, as long as it is one or the other.
    match json {
        Ok(documents) => {
            documents
                .into_iter()
                .try_for_each(|document| items.add(document.get(), None, 0))
                .map_err(fail)?;
        }
        Err(error) => {
            let documents: Vec<Value> = yaml(text).map_err(|yaml| {
                fail(if text.trim_start().starts_with('{') { error.to_string() } else { yaml })
            })?;
            let present = documents.iter().filter(|document| !document.is_null());
            present.map(Value::to_string).try_for_each(|json| items.add(&json, None, 0)).map_err(fail)?;
        }
    }
    if items.kinds.is_empty() {
        return Err(fail("there is no object in it".to_owned()));
    }
    let catalog = catalog(&items);
    let mut saved = Saved::default();
    for item in &items.items {
        let Some(resource) = catalog.served(&item.api_version, &item.kind) else { continue };
        // Serde's own words could quote the file.
        let wrong = || fail(format!("the metadata of a {} is not what kubectl prints", item.kind));
        let Decoded { object, pod } =
            wire::decode_json_object(item.json.as_bytes(), resource).map_err(|_| wrong())?;
        if object.uid.as_str().is_empty() || object.name.is_empty() {
            return Err(fail(format!(
                "{}/{} has no uid: it is a manifest, not what a cluster holds",
                item.kind, object.name
            )));
        }
        if let (Some(wanted), Some(own)) = (namespace, object.namespace.as_deref())
            && wanted != own
        {
            continue;
        }
        let state: State = serde_json::from_str(&item.json).unwrap_or_default();
        let columns = state.columns(&item.kind, resource);
        if columns != Columns::default() {
            saved.columns.insert(object.uid.clone(), columns);
        }
        let details = &mut saved.snapshot.details;
        if let Some(pod) = pod {
            details.pods.insert(object.uid.clone(), pod);
        }
        if object.is("", "Namespace") {
            details.namespace_finalizers.insert(object.uid.clone(), state.spec.finalizers.clone());
        }
        if object.is("apps", "StatefulSet") {
            details.stateful_sets.insert(object.uid.clone(), claim_retention(&item.json));
        }
        saved.snapshot.objects.push(object);
    }
    saved.snapshot.gaps = gaps(&catalog, &items);
    saved.snapshot.searched = match namespace {
        Some(namespace) => Searched::namespace(namespace, true),
        None => Searched::everywhere(),
    };
    saved.snapshot.catalog = catalog;
    Ok(saved)
}

/// As deep as JSON is read; a deeply nested schema of a definition has some 60 levels.
const DEEPEST_YAML: usize = 128;
const YAML_STACK: usize = 32 << 20;

/// The documents of a YAML text. No excerpt of it in the message: it may hold secrets.
///
/// # Errors
/// It is no YAML, or not of this shape; where, in words.
pub fn yaml<T: DeserializeOwned + Send>(text: &str) -> Result<Vec<T>, String> {
    // The parser takes some 20 KB of stack for each level: more, for all levels that are allowed, than a thread has.
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(YAML_STACK);
        let parser = builder.spawn_scoped(scope, || parse_yaml(text)).map_err(|error| error.to_string())?;
        parser.join().unwrap_or_else(|_| Err("the YAML parser gave up on it".to_owned()))
    })
}

fn parse_yaml<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    // The file is the user's own, so the limits only guard against accidents.
    let options = serde_saphyr::options! {
        with_snippet: false,
        // `n` is a name, as YAML 1.2 and kubectl have it.
        strict_booleans: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST_YAML,
            max_documents: 100_000,
            max_recorded_anchor_events: 100_000,
            max_nodes: 20_000_000,
            max_events: 50_000_000,
            max_total_scalar_bytes: 1 << 30,
        },
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let words = error.to_string();
        // The parser's words for it are a Debug dump.
        if words.contains("budget breached") {
            return "it nests too deeply, has too much in it, or repeats itself too often (YAML aliases)"
                .to_owned();
        }
        words
    })
}

/// One object of the file, not yet read.
struct Item {
    api_version: String,
    kind: String,
    json: String,
}

#[derive(Default)]
struct Items {
    items: Vec<Item>,
    /// (apiVersion, kind) of which the file holds all: it has objects of it, or an empty list of it.
    kinds: BTreeSet<(String, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// Whatever has items is a list, as in kubectl.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// kubectl prints a list, somebody may have put lists into one. Nobody nests them deeper than this.
const DEEPEST_LIST: usize = 8;

impl Items {
    /// Takes up an object or a list. The items of a list of one kind, as the API has it, need not name that kind.
    fn add(&mut self, json: &str, of: Option<(&str, &str)>, depth: usize) -> Result<(), String> {
        if depth > DEEPEST_LIST {
            return Err("lists are nested too deeply in it".to_owned());
        }
        let head: Head<'_> = serde_json::from_str(json)
            .map_err(|_| "something in it is no object with apiVersion and kind".to_owned())?;
        let pick = |own: &str, listed: &str| if own.is_empty() { listed } else { own }.to_owned();
        let (listed_version, listed_kind) = of.unwrap_or_default();
        let (api_version, kind) = (pick(&head.api_version, listed_version), pick(&head.kind, listed_kind));
        if kind.is_empty() || api_version.is_empty() {
            return Err("an object has no apiVersion or no kind".to_owned());
        }
        if let Some(items) = head.items {
            // A plain `List` is of any kind.
            let of = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
            if let Some(kind) = of {
                self.kinds.insert((api_version.clone(), kind.to_owned()));
            }
            let of = of.map(|kind| (api_version.as_str(), kind));
            return items.into_iter().try_for_each(|item| self.add(item.get(), of, depth + 1));
        }
        self.kinds.insert((api_version.clone(), kind.clone()));
        self.items.push(Item { api_version, kind, json: json.to_owned() });
        Ok(())
    }
}

/// What metadata is needed for before the objects themselves can be read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outline {
    #[serde(default)]
    metadata: OutlineMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineMeta {
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    owner_references: Option<Vec<OutlineOwner>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutlineOwner {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    group: String,
    names: DefinitionNames,
    scope: String,
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionNames {
    plural: String,
    kind: String,
    #[serde(default)]
    singular: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    served: bool,
}

/// The kinds that every Kubernetes has, those that definitions in the file define, those of its objects, and those
/// that owners are of.
fn catalog(items: &Items) -> Catalog {
    let mut resources = kinds::in_tree();
    let mut known: BTreeSet<(String, String)> =
        resources.iter().map(|resource| (resource.api_version(), resource.kind.clone())).collect();
    let mut add = |resources: &mut Vec<Resource>, resource: Resource| {
        if known.insert((resource.api_version(), resource.kind.clone())) {
            resources.push(resource);
        }
    };
    for item in items.items.iter().filter(|item| item.kind == "CustomResourceDefinition") {
        let Ok(Definition { spec }) = serde_json::from_str(&item.json) else { continue };
        for version in spec.versions.into_iter().filter(|version| version.served) {
            let api_version = format!("{}/{}", spec.group, version.name);
            let names = &spec.names;
            let mut resource = kinds::resource(&api_version, &names.kind, spec.scope == "Namespaced");
            names.plural.clone_into(&mut resource.plural);
            names.short_names.clone_into(&mut resource.short_names);
            names.categories.clone_into(&mut resource.categories);
            if !names.singular.is_empty() {
                names.singular.clone_into(&mut resource.singular);
            }
            add(&mut resources, resource);
        }
    }
    let outlines: Vec<Outline> =
        items.items.iter().map(|item| serde_json::from_str(&item.json).unwrap_or_default()).collect();
    let namespaced: BTreeSet<(&str, &str)> = items
        .items
        .iter()
        .zip(&outlines)
        .filter(|(_, outline)| outline.metadata.namespace.as_ref().is_some_and(|name| !name.is_empty()))
        .map(|(item, _)| (item.api_version.as_str(), item.kind.as_str()))
        .collect();
    for (api_version, kind) in &items.kinds {
        let mut resource =
            kinds::resource(api_version, kind, namespaced.contains(&(api_version.as_str(), kind.as_str())));
        // The same kind in a version that the table or a definition does not name.
        if let Some(other) = resources.iter().find(|other| other.is(&resource.group, kind)) {
            resource = Resource { version: resource.version, ..other.clone() };
        }
        add(&mut resources, resource);
    }
    // Nobody can say whether what only an ownerReference names is served.
    let mut stale = Vec::new();
    let named: BTreeSet<(&str, &str, bool)> = items
        .items
        .iter()
        .zip(&outlines)
        .flat_map(|(item, outline)| {
            let namespaced = namespaced.contains(&(item.api_version.as_str(), item.kind.as_str()));
            let owners = outline.metadata.owner_references.iter().flatten();
            owners.map(move |owner| (owner.api_version.as_str(), owner.kind.as_str(), namespaced))
        })
        .collect();
    for (api_version, kind, namespaced) in named {
        let (group, version) = split_api_version(api_version);
        let mut same = resources.iter().filter(|resource| resource.is(group, kind)).peekable();
        if same.peek().is_some() {
            if same.any(|resource| resource.version == version) {
                continue;
            }
            stale.push((group.to_owned(), version.to_owned()));
        } else {
            add(&mut resources, kinds::resource(api_version, kind, namespaced));
        }
    }
    Catalog::new(resources, stale, Vec::new())
}

/// The kinds of which the file holds nothing.
fn gaps(catalog: &Catalog, items: &Items) -> Vec<Gap> {
    let held: BTreeSet<(&str, &str)> = items
        .kinds
        .iter()
        .map(|(api_version, kind)| (split_api_version(api_version).0, kind.as_str()))
        .collect();
    let mut gaps: Vec<Gap> = catalog
        .preferred()
        .filter(|resource| !held.contains(&(resource.group.as_str(), resource.kind.as_str())))
        .filter(|resource| {
            !(resource.is_event() && (held.contains(&("", "Event")) || !resource.group.is_empty()))
        })
        .map(|resource| Gap {
            resource: resource.plural.clone(),
            group: resource.group.clone(),
            version: None,
            reason: "NotInSnapshot".to_owned(),
            message: "the file holds no object of this kind".to_owned(),
        })
        .collect();
    gaps.sort();
    gaps
}

/// What READY and STATUS are made of, of whatever kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replicas: Option<i64>,
    completions: Option<i64>,
    suspend: bool,
    finalizers: Vec<String>,
    containers: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    reason: String,
    ready_replicas: i64,
    succeeded: i64,
    number_ready: i64,
    desired_number_scheduled: i64,
    container_statuses: Vec<ContainerStatus>,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    ready: bool,
    state: BTreeMap<String, ContainerState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

/// Other kinds may have anything in their spec and status.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + DeserializeOwned>(
    from: D,
) -> Result<T, D::Error> {
    // A list would be read by position.
    let value = Value::deserialize(from)?;
    Ok(if value.is_object() { serde_json::from_value(value).unwrap_or_default() } else { T::default() })
}

impl State {
    /// What `kubectl get` would print, for the kinds where that is simple; of others a `Ready` condition and a phase.
    fn columns(&self, kind: &str, resource: &Resource) -> Columns {
        let (spec, status) = (&self.spec, &self.status);
        let holds = |name: &str| {
            status.conditions.iter().any(|condition| condition.r#type == name && condition.status == "True")
        };
        let replicas = || format!("{}/{}", status.ready_replicas, spec.replicas.unwrap_or(1));
        let (ready, text) = match (resource.group.as_str(), kind) {
            ("", "Pod") => {
                let ready = status.container_statuses.iter().filter(|container| container.ready).count();
                let reasons = status.container_statuses.iter().flat_map(|container| container.state.values());
                let reason = reasons.map(|state| state.reason.as_str()).rfind(|reason| !reason.is_empty());
                let own = [status.reason.as_str(), reason.unwrap_or_default(), status.phase.as_str()];
                let text = own.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
                (format!("{ready}/{}", spec.containers.len()), text)
            }
            ("", "ReplicationController") => (replicas(), ""),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => (replicas(), ""),
            ("apps", "DaemonSet") => {
                (format!("{}/{}", status.number_ready, status.desired_number_scheduled), "")
            }
            ("batch", "Job") => {
                let text = match () {
                    () if holds("Complete") => "Complete",
                    () if holds("Failed") => "Failed",
                    () if spec.suspend => "Suspended",
                    () => "Running",
                };
                (format!("{}/{}", status.succeeded, spec.completions.unwrap_or(1)), text)
            }
            ("", "Node") => (String::new(), if holds("Ready") { "Ready" } else { "NotReady" }),
            _ => {
                let ready = status.conditions.iter().find(|condition| condition.r#type == "Ready");
                (ready.map_or_else(String::new, |condition| condition.status.clone()), status.phase.as_str())
            }
        };
        Columns { ready, status: text.to_owned() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatefulSet {
    #[serde(deserialize_with = "or_default")]
    spec: StatefulSetSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatefulSetSpec {
    persistent_volume_claim_retention_policy: RetentionPolicy,
    volume_claim_templates: Vec<ClaimTemplate>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RetentionPolicy {
    when_deleted: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimTemplate {
    metadata: ClaimTemplateMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimTemplateMeta {
    name: String,
}

/// What a StatefulSet, as JSON, does with its claims.
pub fn claim_retention(json: &str) -> ClaimRetention {
    let StatefulSet { spec } = serde_json::from_str(json).unwrap_or_default();
    ClaimRetention {
        delete: spec.persistent_volume_claim_retention_policy.when_deleted == "Delete",
        templates: spec.volume_claim_templates.into_iter().map(|template| template.metadata.name).collect(),
    }
}

/// `spec.finalizers` of a Namespace, as JSON.
pub fn namespace_finalizers(json: &str) -> Vec<String> {
    serde_json::from_str::<State>(json).unwrap_or_default().spec.finalizers
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::graph::{OwnerGraph, OwnerState};

    fn item(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
        let mut item = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": "x", "uid": format!("{kind}/{name}")}});
        for (key, value) in rest.as_object().into_iter().flatten() {
            if key == "metadata" {
                value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .for_each(|(key, value)| item["metadata"][key] = value.clone());
            } else {
                item[key] = value.clone();
            }
        }
        item
    }

    fn owner(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"metadata": {"ownerReferences": [
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("{kind}/{name}")}]}})
    }

    fn list(items: &[Value]) -> String {
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
            .to_string()
    }

    fn state(saved: Saved, of: &str) -> OwnerState {
        let graph = OwnerGraph::new(saved.snapshot);
        let index = graph.by_uid(&Uid::from(of)).first().copied().expect(of);
        graph.owners(index).map(|(_, resolved)| resolved.state).next().expect("an owner")
    }

    #[test]
    fn what_kubectl_prints_is_read_as_json_and_as_yaml() {
        let pod = item("v1", "Pod", "p", owner("batch/v1", "Job", "j"));
        let text = list(&[item("batch/v1", "Job", "j", json!({})), pod.clone()]);
        let saved = read("f", &text, None).expect("a list");
        assert_eq!(saved.snapshot.objects.len(), 2);
        assert_eq!(state(saved, "Pod/p"), OwnerState::Live);
        let yaml = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    creationTimestamp: \"2026-01-02T03:04:05Z\"\n    \
                    name: p\n    namespace: x\n    uid: u1\n    labels: {on: \"true\"}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n---\n\
                    apiVersion: v1\nkind: Node\nmetadata: {name: n, uid: u2}\n";
        let saved = read("f", yaml, None).expect("yaml");
        let names: Vec<&str> = saved.snapshot.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["p", "n"]);
        assert_eq!(saved.snapshot.objects[0].labels["on"], "true");
        let two = format!("{pod}\n{}", item("v1", "Secret", "s", json!({})));
        assert_eq!(read("f", &two, None).expect("two documents").snapshot.objects.len(), 2);
    }

    #[test]
    fn an_owner_of_a_kind_that_is_not_in_the_file_is_unknown_and_one_of_a_kind_that_is_is_absent() {
        let pod = |owner: Value| list(&[item("v1", "Pod", "p", owner)]);
        let of = |text: &str| state(read("f", text, None).expect("a list"), "Pod/p");
        assert_eq!(of(&pod(owner("batch/v1", "Job", "j"))), OwnerState::Unknown);
        assert_eq!(of(&pod(owner("example.test/v1", "Widget", "w"))), OwnerState::Unknown);
        assert_eq!(of(&pod(owner("v1", "Pod", "gone"))), OwnerState::Absent);
        // An empty list of a kind says that there are none.
        let empty = r#"{"apiVersion":"batch/v1","kind":"JobList","metadata":{},"items":[]}"#;
        assert_eq!(of(&format!("{} {empty}", pod(owner("batch/v1", "Job", "j")))), OwnerState::Absent);
        // Nobody can say whether a version that nothing else in the file has is served.
        let widgets = [
            item("example.test/v1", "Widget", "w", json!({})),
            item("v1", "Pod", "p", owner("example.test/v1beta1", "Widget", "w")),
        ];
        assert_eq!(of(&list(&widgets)), OwnerState::Unknown);
    }

    #[test]
    fn every_kind_that_is_not_in_the_file_is_a_gap() {
        let saved =
            read("f", &list(&[item("v1", "Pod", "p", owner("example.test/v1", "Widget", "w"))]), None)
                .expect("a list");
        let gaps: Vec<String> =
            saved.snapshot.gaps.iter().map(|gap| format!("{} {}", gap.group, gap.resource)).collect();
        assert!(gaps.contains(&" secrets".to_owned()) && gaps.contains(&"example.test widgets".to_owned()));
        assert!(
            !gaps.contains(&" pods".to_owned()) && !gaps.contains(&"events.k8s.io events".to_owned()),
            "{gaps:?}"
        );
    }

    #[test]
    fn a_definition_in_the_file_names_its_kind() {
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "mice.example.test", "uid": "d"},
            "spec": {"group": "example.test", "scope": "Cluster",
                "names": {"plural": "mice", "kind": "Mouse", "shortNames": ["mi"]},
                "versions": [{"name": "v1", "served": true}, {"name": "v0", "served": false}]}});
        let saved = read("f", &list(&[definition]), None).expect("a list");
        let mouse = saved.snapshot.catalog.served("example.test/v1", "Mouse").expect("defined");
        assert_eq!(
            (mouse.plural.as_str(), mouse.namespaced, mouse.short_names.as_slice()),
            ("mice", false, &["mi".to_owned()][..])
        );
        assert!(saved.snapshot.catalog.served("example.test/v0", "Mouse").is_none());
    }

    #[test]
    fn only_one_namespace_where_one_is_named() {
        let other = item("v1", "Pod", "q", json!({"metadata": {"namespace": "other"}}));
        let text = list(&[
            item("v1", "Pod", "p", json!({})),
            other,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}}),
        ]);
        let names = |namespace| {
            let saved = read("f", &text, namespace).expect("a list");
            saved.snapshot.objects.iter().map(|object| object.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["p", "q", "n"]);
        assert_eq!(names(Some("other")), ["q", "n"]);
    }

    #[test]
    fn ready_and_status_follow_from_the_status_where_that_is_simple() {
        let shown = |api_version: &str, kind: &str, rest: Value| {
            let saved = read("f", &item(api_version, kind, "a", rest).to_string(), None).expect("an object");
            let columns = saved.columns.into_values().next().unwrap_or_default();
            (columns.ready, columns.status)
        };
        let is = |ready: &str, status: &str| (ready.to_owned(), status.to_owned());
        let pod = json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [
            {"ready": true, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}, {"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(shown("v1", "Pod", pod), is("1/2", "CrashLoopBackOff"));
        assert_eq!(
            shown("apps/v1", "Deployment", json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2}})),
            is("2/3", "")
        );
        let job = json!({"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(shown("batch/v1", "Job", job), is("1/1", "Complete"));
        assert_eq!(
            shown("v1", "PersistentVolumeClaim", json!({"status": {"phase": "Bound"}})),
            is("", "Bound")
        );
        let widget = json!({"spec": "odd", "status": {"phase": "Happy", "conditions": [{"type": "Ready", "status": "False"}]}});
        assert_eq!(shown("example.test/v1", "Widget", widget), is("False", "Happy"));
        assert_eq!(shown("example.test/v1", "Widget", json!({"status": ["odd"]})), is("", ""));
    }

    #[test]
    fn what_a_forecast_needs_is_read_too() {
        let set = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "uid": "x"}, "spec": {"finalizers": ["kubernetes"]}});
        let pod = json!({"spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 5}});
        let text = list(&[item("apps/v1", "StatefulSet", "s", set), namespace, item("v1", "Pod", "p", pod)]);
        let details = read("f", &text, None).expect("a list").snapshot.details;
        let retention = ClaimRetention { delete: true, templates: vec!["data".into()] };
        assert_eq!(details.stateful_sets[&Uid::from("StatefulSet/s")], retention);
        assert_eq!(details.namespace_finalizers[&Uid::from("x")], ["kubernetes"]);
        assert_eq!(
            (
                details.pods[&Uid::from("Pod/p")].node.as_str(),
                details.pods[&Uid::from("Pod/p")].grace_seconds
            ),
            ("n1", 5)
        );
    }

    /// What a hostile or broken file does to the machine, not what it says.
    #[test]
    fn a_file_that_is_nested_repeated_or_endless_is_refused_in_words_and_soon() {
        let lists = format!(
            "{}{}",
            r#"{"apiVersion":"v1","kind":"List","items":["#.repeat(50_000),
            "]}".repeat(50_000)
        );
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","uid":"u","namespace":"x"}},"data":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(read("x", &value, None).is_ok(), "what is not looked at may be as deep as it likes");
        let mut bomb = "apiVersion: v1\nkind: ConfigMap\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in "bcdefghijk".chars().zip("abcdefghij".chars()) {
            let all = vec![format!("*{before}"); 9].join(", ");
            bomb.push_str(&format!("{name}: &{name} [{all}]\n"));
        }
        for (text, words) in [
            (lists, "lists are nested too deeply"),
            ("[".repeat(100_000), "recursion limit"),
            ("- ".repeat(100_000), "nests too deeply"),
            (bomb, "repeats itself too often"),
            ("a: &a [*a]".to_owned(), "recursive references"),
        ] {
            let failure = read("x", &text, None).unwrap_err();
            assert!(failure.message.contains(words), "{failure}");
            assert!(!failure.message.contains('{'), "no Debug dump: {failure}");
        }
    }

    #[test]
    fn what_is_no_saved_cluster_is_an_error_that_quotes_nothing_of_it() {
        for text in [
            "",
            "hunter2",
            "[1, 2",
            "apiVersion: v1",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"hunter2"}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","labels":"hunter2"}}"#,
            "[hunter2]",
        ] {
            let failure = read("f.json", text, None).expect_err(text);
            assert!(failure.message.contains("f.json") && !failure.message.contains("hunter2"), "{failure}");
            assert!(failure.hint.is_some());
        }
    }
}
