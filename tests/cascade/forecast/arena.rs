//! A control plane for random graphs, and what happens to a batch of them there: created, let settle, looked at,
//! forecast, deleted, and looked at again when nothing changes any more.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use control_plane::{Component, ControlPlane, Options};
use futures::StreamExt;
use http::Method;
use kubectl_cascade::cluster::assist::Assistant;
use kubectl_cascade::cluster::connect::{Cluster, ConnectionOptions};
use kubectl_cascade::cluster::deletion::{self, DeleteOptions};
use kubectl_cascade::cluster::discovery;
use kubectl_cascade::cluster::metadata::{self, Wanted};
use kubectl_cascade::cluster::request::Request;
use kubectl_cascade::error::Trouble;
use kubectl_cascade::model::assist::Order;
use kubectl_cascade::model::catalog::{Catalog, Resource};
use kubectl_cascade::model::forecast::{Entry, Fate, Holder, forecast};
use kubectl_cascade::model::graph::OwnerGraph;
use kubectl_cascade::model::object::{FOREGROUND_FINALIZER, Object, Searched, Uid};
use serde_json::{Value, json};

use super::super::support::HOLD;
use super::Policy;
use super::random::{Graph, Kind, Reference, Twist, wrong_kind};

/// Requests in flight while graphs are made.
const CONCURRENCY: usize = 16;
/// Graphs whose DELETEs are sent at the same time.
const DELETES: usize = 4;
/// Nothing changed for so long: the collector, whose retries come after milliseconds, is done.
const QUIET: Duration = Duration::from_millis(1500);
/// The same before an end is called wrong.
const LONG_QUIET: Duration = Duration::from_secs(6);
/// The longest that an object whose apiVersion nobody serves can have failed in one batch, and as long again.
const BACK_OFF: Duration = Duration::from_secs(45);
const NODE: &str = "bare";

const WIDGETS: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": { "name": "widgets.example.test" },
    "spec": {
        "group": "example.test", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
        "versions": [
            { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } },
            { "name": "v2", "served": true, "storage": false, "schema": { "openAPIV3Schema": { "type": "object" } } }
        ]
    }
}"#;

/// How an object was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Gone,
    Terminating,
    Alive,
}

/// One object of a graph: what was said of it and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// As it was when the forecast was made.
    pub(crate) found: String,
    pub(crate) fate: Fate,
    pub(crate) certain: bool,
    pub(crate) otherwise: Vec<Fate>,
    pub(crate) end: End,
    /// After all finalizers of others and all kubelets let go.
    pub(crate) finally: End,
    pub(crate) wrong: bool,
    /// Something else held it than was said.
    pub(crate) other_holders: bool,
    /// The finalizers it ended with.
    pub(crate) finalizers: Vec<String>,
}

/// How a graph went.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    /// Empty where nothing was left to delete when everything had settled.
    pub(crate) lines: Vec<Line>,
    /// What else does not fit: objects that the forecast does not speak of, but that did not stay as they were.
    pub(crate) notes: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_wrong(&self) -> bool {
        !self.notes.is_empty() || self.lines.iter().any(|line| line.wrong)
    }

    pub(crate) fn is_uncertain(&self) -> bool {
        self.lines.iter().any(|line| !line.certain)
    }

    /// The ends alone, to count equal ones.
    pub(crate) fn ends(&self) -> String {
        let line = |line: &Line| format!("{} {:?}/{:?}", name_of(&line.found), line.end, line.finally);
        self.lines.iter().map(line).collect::<Vec<_>>().join(", ")
    }
}

fn name_of(found: &str) -> &str {
    found.split(' ').next().unwrap_or_default()
}

/// How a batch is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The collector runs all the time, and is done with the graph before it is looked at.
    Settled,
    /// The same, and the delete is helped along as by `--assist`: every end must be the same.
    Assisted,
    /// The collector stands still while the graph is made, so that dangling references to and from living objects
    /// are looked at and forecast; then it does with them what it does, and only then is the delete sent.
    Frozen,
}

/// A control plane with a quick collector and nothing else in it.
pub(crate) struct Arena {
    plane: ControlPlane,
    cluster: Cluster,
    catalog: Catalog,
    number: AtomicUsize,
}

/// A graph on the cluster.
struct Made {
    graph: Graph,
    namespace: String,
    uids: Vec<Uid>,
}

impl Made {
    fn namespace_of(&self, index: usize) -> Option<String> {
        let thing = &self.graph.things[index];
        thing.kind.is_namespaced().then(|| {
            if thing.elsewhere { format!("{}-other", self.namespace) } else { self.namespace.clone() }
        })
    }

    fn name_of(&self, index: usize) -> String {
        if self.graph.things[index].kind.is_namespaced() {
            index.to_string()
        } else {
            format!("{}-{index}", self.namespace)
        }
    }

    fn collection(&self, index: usize) -> String {
        let kind = self.graph.things[index].kind;
        let root = if kind.group().is_empty() { "/api" } else { "/apis" };
        let place = self.namespace_of(index).map(|name| format!("/namespaces/{name}")).unwrap_or_default();
        format!("{root}/{}{place}/{}", kind.api_version(), kind.plural())
    }

    fn path(&self, index: usize) -> String {
        format!("{}/{}", self.collection(index), self.name_of(index))
    }

    fn body(&self, index: usize) -> Value {
        let thing = &self.graph.things[index];
        let mut finalizers = Vec::new();
        match thing.preset {
            Some(Policy::Foreground) => finalizers.push(FOREGROUND_FINALIZER),
            Some(Policy::Orphan) => finalizers.push("orphan"),
            _ => {}
        }
        if thing.held {
            finalizers.push(HOLD);
        }
        let mut body = json!({
            "apiVersion": thing.kind.api_version(),
            "kind": thing.kind.name(),
            "metadata": { "name": self.name_of(index), "finalizers": finalizers },
        });
        if matches!(thing.kind, Kind::Pod | Kind::PodOnNode) {
            body["spec"] = json!({
                "containers": [{ "name": "main", "image": "example.test/image:1" }],
                "tolerations": [{ "operator": "Exists" }],
            });
        }
        if thing.kind == Kind::PodOnNode {
            body["spec"]["nodeName"] = json!(NODE);
        }
        body
    }

    fn reference(&self, from: usize, reference: &Reference) -> Value {
        let to = reference.to;
        let owner = self.graph.things[to].kind;
        let mut value = json!({
            "apiVersion": owner.api_version(), "kind": owner.name(), "name": self.name_of(to),
            "uid": self.uids[to].as_str(), "blockOwnerDeletion": reference.block,
        });
        let nobody = format!("00000000-0000-4000-8000-{:012}", from * 1000 + to);
        match reference.twist {
            Twist::None => {}
            Twist::Absent => {
                value["name"] = json!("absent");
                value["uid"] = json!(nobody);
            }
            Twist::WrongUid => value["uid"] = json!(nobody),
            Twist::WrongName => value["name"] = json!("wrong"),
            Twist::WrongKind => {
                value["kind"] = json!(wrong_kind(owner).name());
                value["apiVersion"] = json!(wrong_kind(owner).api_version());
            }
            Twist::UnservedVersion => value["apiVersion"] = json!(owner.in_version("v9")),
            Twist::UnknownGroup => value["apiVersion"] = json!("unknown.test/v1"),
            Twist::OtherVersion if owner == Kind::Widget => value["apiVersion"] = json!("example.test/v2"),
            Twist::OtherVersion => {}
        }
        value
    }
}

/// What is there now of a batch, by UID.
type Found = BTreeMap<Uid, Object>;

impl Arena {
    /// Starts the servers. The definition of the custom resource is older than the collector, which therefore knows
    /// it from the beginning.
    pub(crate) async fn start() -> Self {
        let manager = Component::ControllerManager;
        let options = Options::default()
            .without(Component::Kwok)
            .without(Component::Scheduler)
            .without(manager)
            .flag(manager, "--kube-api-qps=500")
            .flag(manager, "--kube-api-burst=1000")
            .flag(manager, "--controllers=garbage-collector-controller")
            // It stands still for a while and must not think that it lost the lead.
            .flag(manager, "--leader-elect-lease-duration=3600s")
            .flag(manager, "--leader-elect-renew-deadline=3000s")
            .flag(manager, "--vmodule=garbagecollector=5,graph_builder=5");
        let plane = ControlPlane::start(options).unwrap_or_else(|error| panic!("{error}"));
        let api = plane.api().unwrap_or_else(|error| panic!("{error}"));
        let definition: Value = serde_json::from_str(WIDGETS).unwrap();
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)
            .unwrap_or_else(|error| panic!("{error}"));
        api.create(
            "/api/v1/nodes",
            &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } }),
        )
        .unwrap_or_else(|error| panic!("{error}"));
        let served = || api.get("/apis/example.test/v1/namespaces/default/widgets").ok().flatten();
        control_plane::eventually("widgets are served", Duration::from_secs(60), served)
            .unwrap_or_else(|error| panic!("{error}"));
        plane.start_component(manager).unwrap_or_else(|error| panic!("{error}"));
        let connection = ConnectionOptions {
            kubeconfig: Some(plane.kubeconfig_path().to_path_buf()),
            ..ConnectionOptions::default()
        };
        let cluster = Cluster::connect(&connection).await.unwrap_or_else(|error| panic!("{error}"));
        let catalog = discovery::catalog(&cluster).await.unwrap_or_else(|error| panic!("{error}"));
        let arena = Self { plane, cluster, catalog, number: AtomicUsize::new(0) };
        arena.await_collector().await;
        arena
    }

    /// The collector is at work when it has taken a dangling object of every kind.
    async fn await_collector(&self) {
        let deadline = Instant::now() + Duration::from_secs(90);
        for (kind, collection) in [
            ("ConfigMap", "/api/v1/namespaces/default/configmaps"),
            ("Widget", "/apis/example.test/v1/namespaces/default/widgets"),
        ] {
            let version = if kind == "Widget" { "example.test/v1" } else { "v1" };
            let owner = json!({ "apiVersion": "v1", "kind": "Secret", "name": "absent", "uid": "absent" });
            let body = json!({
                "apiVersion": version, "kind": kind,
                "metadata": { "name": "canary", "ownerReferences": [owner] },
            });
            self.post(collection, &body).await;
            let path = format!("{collection}/canary");
            while self.cluster.send(Request::get(path.clone())).await.is_ok() {
                assert!(Instant::now() < deadline, "the collector does not begin");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let request = Request::new(Method::POST, path).body("application/json", body);
        let answer = self.cluster.send(request).await;
        let answer = answer.unwrap_or_else(|trouble| panic!("POST {path}: {trouble:?}"));
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Sends a merge patch; an object that is gone by now, or has changed, is as good.
    async fn patch(&self, path: &str, body: &Value) {
        let request = Request::new(Method::PATCH, path).body("application/merge-patch+json", body);
        if let Err(trouble) = self.cluster.send(request).await {
            assert!(trouble.is_not_found() || trouble.is_conflict(), "PATCH {path}: {trouble:?}");
        }
    }

    fn signal(&self, signal: &str) {
        let pid = self.plane.pid(Component::ControllerManager).ok().flatten();
        let pid = pid.unwrap_or_else(|| panic!("the controller manager does not run"));
        let status = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
        assert!(status.success(), "kill -{signal} {pid}");
    }

    /// The log of the controller manager.
    pub(crate) fn log(&self) -> std::path::PathBuf {
        self.plane.log_path(Component::ControllerManager).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs a batch of graphs side by side.
    pub(crate) async fn run(&self, graphs: &[Graph], mode: Mode) -> Vec<Verdict> {
        if mode == Mode::Frozen {
            self.signal("STOP");
        }
        let mut made: Vec<Made> = futures::stream::iter(graphs)
            .map(|graph| self.create(graph))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        let every = |made: &[Made]| -> Vec<(usize, usize)> {
            made.iter()
                .enumerate()
                .flat_map(|(graph, one)| (0..one.graph.things.len()).map(move |thing| (graph, thing)))
                .collect()
        };
        let all = every(&made);
        let made_now = &made;
        futures::stream::iter(&all)
            .for_each_concurrent(CONCURRENCY, |(graph, thing)| self.give_owners(&made_now[*graph], *thing))
            .await;
        if mode != Mode::Frozen {
            self.settle(&made).await;
        }
        let first = self.find(&made).await;
        let first = &first;
        futures::stream::iter(&made)
            .for_each_concurrent(CONCURRENCY, |one| self.delete_beforehand(one, first))
            .await;
        if mode != Mode::Frozen {
            self.settle(&made).await;
        }

        let graph = self.graph(&made).await;
        // What the collector has taken meanwhile cannot be a target.
        for one in &mut made {
            let uids = one.uids.clone();
            one.graph.targets.retain(|target| !graph.by_uid(&uids[*target]).is_empty());
        }
        let mut assistants = Vec::new();
        let forecasts: Vec<Vec<Entry>> = made
            .iter()
            .map(|one| {
                let targets: Vec<usize> = indices(&graph, one);
                if targets.is_empty() {
                    return Vec::new();
                }
                let forecast = forecast(&graph, &targets, one.graph.policy);
                if mode == Mode::Assisted {
                    assistants.push(Assistant::new(&self.cluster, Order::new(&graph, &forecast)));
                }
                forecast.entries
            })
            .collect();

        if mode == Mode::Frozen {
            self.signal("CONT");
            self.settle(&made).await;
        }
        let shared = &graph;
        futures::stream::iter(&made)
            .for_each_concurrent(DELETES, |one| async move {
                for target in indices(shared, one) {
                    self.delete(shared.object(target), one.graph.policy).await;
                }
            })
            .await;
        let ends = self.await_ends(&made, |number, found| {
            let entries = &forecasts[number];
            entries.iter().all(|entry| {
                let object = graph.object(entry.object);
                fits(entry, found.get(&object.uid))
            })
        });
        let ends = tokio::select! {
            ends = ends => ends,
            never = self.help(&made, &graph, &mut assistants) => match never {},
        };
        let finally = self.release(&made, &graph, &forecasts).await;

        made.iter()
            .zip(&forecasts)
            .map(|(one, entries)| verdict(&graph, one, entries, &ends, &finally, mode))
            .collect()
    }

    /// Sends what `--assist` sends, and tells it what is gone.
    async fn help(&self, made: &[Made], graph: &OwnerGraph, assistants: &mut [Assistant]) -> Infallible {
        if assistants.is_empty() {
            return std::future::pending().await;
        }
        let mut left: BTreeSet<Uid> = graph.objects().iter().map(|object| object.uid.clone()).collect();
        loop {
            let found = self.find(made).await;
            let gone: Vec<Uid> = left.iter().filter(|uid| !found.contains_key(*uid)).cloned().collect();
            left.retain(|uid| found.contains_key(uid));
            let work = assistants.iter_mut().map(|assistant| {
                assistant.gone(&gone);
                async move {
                    loop {
                        assistant.work().await;
                    }
                }
            });
            let work = futures::future::join_all(work);
            let _: Result<Vec<Infallible>, _> = tokio::time::timeout(Duration::from_millis(100), work).await;
        }
    }

    async fn create(&self, graph: &Graph) -> Made {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut made = Made { graph: graph.clone(), namespace: format!("g{number}"), uids: Vec::new() };
        let mut namespaces: BTreeSet<String> = BTreeSet::from([made.namespace.clone()]);
        namespaces.extend((0..graph.things.len()).filter_map(|index| made.namespace_of(index)));
        for name in namespaces {
            let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.post("/api/v1/namespaces", &body).await;
        }
        for index in 0..graph.things.len() {
            let created = self.post(&made.collection(index), &made.body(index)).await;
            made.uids.push(Uid::from(created["metadata"]["uid"].as_str().unwrap()));
        }
        made
    }

    async fn give_owners(&self, made: &Made, index: usize) {
        let owners = &made.graph.things[index].owners;
        if owners.is_empty() {
            return;
        }
        let owners: Vec<Value> = owners.iter().map(|owner| made.reference(index, owner)).collect();
        self.patch(&made.path(index), &json!({ "metadata": { "ownerReferences": owners } })).await;
    }

    async fn delete_beforehand(&self, made: &Made, found: &Found) {
        for (index, thing) in made.graph.things.iter().enumerate() {
            if let (Some(policy), Some(object)) = (thing.deleted, found.get(&made.uids[index])) {
                self.delete(object, policy).await;
            }
        }
    }

    async fn delete(&self, object: &Object, policy: Policy) {
        let options = DeleteOptions { policy, grace_seconds: None, dry_run: false };
        match deletion::delete(&self.cluster, object, options).await {
            Err(trouble) if !trouble.is_not_found() => panic!("DELETE {}: {trouble:?}", object.name),
            _ => {}
        }
    }

    /// The graph as the library reads it; what other batches left behind is out of sight.
    async fn graph(&self, made: &[Made]) -> OwnerGraph {
        let wanted = Wanted { searched: Searched::everywhere(), pods: true };
        let mut snapshot = metadata::snapshot(&self.cluster, &self.catalog, &wanted, &mut |_| {}).await;
        assert!(snapshot.gaps.is_empty(), "{:?}", snapshot.gaps);
        let ours: BTreeSet<&Uid> = made.iter().flat_map(|one| &one.uids).collect();
        snapshot.objects.retain(|object| ours.contains(&object.uid));
        OwnerGraph::new(snapshot)
    }

    /// What is there now.
    async fn find(&self, made: &[Made]) -> Found {
        let ours: BTreeSet<&Uid> = made.iter().flat_map(|one| &one.uids).collect();
        let kinds: BTreeSet<(&str, &str)> = made
            .iter()
            .flat_map(|one| one.graph.things.iter().map(|thing| (thing.kind.group(), thing.kind.plural())))
            .collect();
        let resources: Vec<Arc<Resource>> = self
            .catalog
            .preferred()
            .filter(|resource| kinds.contains(&(resource.group.as_str(), resource.plural.as_str())))
            .cloned()
            .collect();
        let lists: Vec<Result<_, Trouble>> = futures::stream::iter(&resources)
            .map(|resource| metadata::list(&self.cluster, resource, None, ""))
            .buffered(CONCURRENCY)
            .collect()
            .await;
        lists
            .into_iter()
            .flat_map(|list| list.unwrap_or_else(|trouble| panic!("{trouble:?}")).items)
            .map(|decoded| (decoded.object.uid.clone(), decoded.object))
            .filter(|(uid, _)| ours.contains(uid))
            .collect()
    }

    async fn settle(&self, made: &[Made]) {
        self.await_ends(made, |_, _| true).await;
    }

    /// Waits until nothing changes any more, longer where something is not as it should be.
    async fn await_ends(&self, made: &[Made], as_expected: impl Fn(usize, &Found) -> bool) -> Found {
        let mut before = BTreeMap::new();
        let mut since = Instant::now();
        loop {
            let found = self.find(made).await;
            let versions: BTreeMap<Uid, String> =
                found.iter().map(|(uid, object)| (uid.clone(), object.resource_version.clone())).collect();
            if versions != before {
                before = versions;
                since = Instant::now();
            }
            let unexpected: Vec<&Made> = made
                .iter()
                .enumerate()
                .filter(|(number, _)| !as_expected(*number, &found))
                .map(|(_, one)| one)
                .collect();
            let enough = if unexpected.is_empty() {
                QUIET
            } else if unexpected.iter().any(|one| one.graph.has_unserved()) {
                BACK_OFF
            } else {
                LONG_QUIET
            };
            if since.elapsed() >= enough {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// Every controller takes its finalizer off, every kubelet confirms. Then: what is there when all is quiet.
    async fn release(&self, made: &[Made], graph: &OwnerGraph, forecasts: &[Vec<Entry>]) -> Found {
        let found = &self.find(made).await;
        let held = found.values().filter(|object| object.has_finalizer(HOLD));
        futures::stream::iter(held).for_each_concurrent(CONCURRENCY, |object| self.let_go(object)).await;
        loop {
            let found = self
                .await_ends(made, |number, found| {
                    forecasts[number].iter().all(|entry| {
                        let object = graph.object(entry.object);
                        finally_fits(entry, object, found.get(&object.uid))
                    })
                })
                .await;
            let stopped: Vec<&Object> = found
                .values()
                .filter(|object| object.is("", "Pod") && object.grace_seconds.is_some_and(|grace| grace > 0))
                .collect();
            if stopped.is_empty() {
                return found;
            }
            for pod in stopped {
                self.confirm(pod).await;
            }
        }
    }

    async fn let_go(&self, object: &Object) {
        let mut object = object.clone();
        loop {
            let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
            let rest: Vec<&String> = object.finalizers.iter().filter(|name| *name != HOLD).collect();
            let body = json!({
                "metadata": { "resourceVersion": object.resource_version, "finalizers": rest }
            });
            let request = Request::new(Method::PATCH, path).body("application/merge-patch+json", &body);
            match self.cluster.send(request).await {
                Err(trouble) if trouble.is_conflict() => {
                    let namespace = object.namespace.clone();
                    let now =
                        metadata::get(&self.cluster, &object.resource, namespace.as_deref(), &object.name)
                            .await;
                    match now.unwrap_or_else(|trouble| panic!("{trouble:?}")) {
                        Some(now) => object = now,
                        None => return,
                    }
                }
                Err(trouble) if trouble.is_not_found() => return,
                Err(trouble) => panic!("PATCH {}: {trouble:?}", object.name),
                Ok(_) => return,
            }
        }
    }

    /// What a kubelet sends when the containers have stopped.
    async fn confirm(&self, pod: &Object) {
        let path = pod.resource.object_path(pod.namespace.as_deref(), &pod.name);
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": { "uid": pod.uid.as_str() },
        });
        let request = Request::new(Method::DELETE, path.clone()).body("application/json", &body);
        if let Err(trouble) = self.cluster.send(request).await {
            assert!(trouble.is_not_found(), "DELETE {path}: {trouble:?}");
        }
    }
}

fn indices(graph: &OwnerGraph, made: &Made) -> Vec<usize> {
    made.graph.targets.iter().flat_map(|target| graph.by_uid(&made.uids[*target])).copied().collect()
}

fn end(object: Option<&Object>) -> End {
    match object {
        None => End::Gone,
        Some(object) if object.is_terminating() => End::Terminating,
        Some(_) => End::Alive,
    }
}

/// Whether one of the entry's fates is what happened.
fn fits(entry: &Entry, after: Option<&Object>) -> bool {
    let one = |fate: Fate| match fate {
        Fate::Deleted => end(after) == End::Gone,
        Fate::Held => end(after) == End::Terminating,
        Fate::CollectedAnyway => end(after) != End::Alive,
        Fate::Waits | Fate::Kept | Fate::Leaked | Fate::Orphaned => end(after) == End::Alive,
    };
    one(entry.fate) || entry.otherwise.iter().any(|fate| one(*fate))
}

/// Whether those hold it that were said to. A race may decide that where it does not decide the fate.
fn holders_fit(entry: &Entry, after: Option<&Object>) -> bool {
    let Some(after) = after.filter(|_| entry.certain && entry.fate == Fate::Held) else { return true };
    let by_dependents = entry.held_by.iter().any(|holder| matches!(holder, Holder::Object(_)));
    let by_finalizer = entry.held_by.iter().any(|holder| *holder == Holder::Finalizer(HOLD.to_owned()));
    after.has_finalizer(FOREGROUND_FINALIZER) == by_dependents && after.has_finalizer(HOLD) == by_finalizer
}

/// Once everybody has let go: what is doomed goes (or waits for a dependent that never does), all else stays.
fn finally_fits(entry: &Entry, before: &Object, after: Option<&Object>) -> bool {
    let end = end(after);
    let one = |fate: Fate| match fate {
        Fate::Deleted => end == End::Gone,
        Fate::Held | Fate::Waits | Fate::CollectedAnyway => end != End::Alive,
        Fate::Kept | Fate::Leaked => end == End::Alive,
        Fate::Orphaned => {
            end == End::Alive && after.is_some_and(|after| after.owners.len() < before.owners.len())
        }
    };
    one(entry.fate) || entry.otherwise.iter().any(|fate| one(*fate))
}

fn verdict(
    graph: &OwnerGraph,
    made: &Made,
    entries: &[Entry],
    ends: &Found,
    finally: &Found,
    mode: Mode,
) -> Verdict {
    let lines: Vec<Line> = entries
        .iter()
        .map(|entry| {
            let object = graph.object(entry.object);
            let after = ends.get(&object.uid);
            let finally = finally.get(&object.uid);
            Line {
                found: written(graph, made, entry.object),
                fate: entry.fate,
                certain: entry.certain,
                otherwise: entry.otherwise.clone(),
                end: end(after),
                finally: end(finally),
                other_holders: !holders_fit(entry, after),
                finalizers: after.map(|after| after.finalizers.clone()).unwrap_or_default(),
                wrong: !fits(entry, after) || !finally_fits(entry, object, finally),
            }
        })
        .collect();
    let mut notes = Vec::new();
    if mode != Mode::Frozen && !entries.is_empty() {
        for uid in &made.uids {
            for index in graph.by_uid(uid) {
                let object = graph.object(*index);
                let (before, after) = (end(Some(object)), end(ends.get(uid)));
                if before != after && entries.iter().all(|entry| entry.object != *index) {
                    notes.push(format!("{} was not forecast: {after:?}", written(graph, made, *index)));
                }
            }
        }
    }
    Verdict { lines, notes }
}

/// An object as it is in the cluster, in the graph notation of the model's tests.
fn written(graph: &OwnerGraph, made: &Made, index: usize) -> String {
    let label = |index: usize| {
        let uid = &graph.object(index).uid;
        made.uids
            .iter()
            .position(|own| own == uid)
            .map_or_else(|| "?".to_owned(), |own| made.graph.label(own))
    };
    let object = graph.object(index);
    let mut text = label(index);
    for finalizer in &object.finalizers {
        text += &format!(" finalizer={finalizer}");
    }
    if let Some(pod) = graph.snapshot().details.pods.get(&object.uid) {
        text += &if pod.node.is_empty() { String::new() } else { format!(" node={}", pod.node) };
    }
    text += if object.is_terminating() { " terminating" } else { "" };
    let owners: Vec<String> = graph
        .owners(index)
        .map(|(reference, resolved)| {
            let owner = resolved.owner.map_or_else(|| reference.uid.to_string(), label);
            let flag = if reference.block_owner_deletion { "!" } else { "" };
            format!("{owner}{flag} ({:?})", resolved.state)
        })
        .collect();
    text + &if owners.is_empty() { String::new() } else { format!(" <- {}", owners.join(", ")) }
}
