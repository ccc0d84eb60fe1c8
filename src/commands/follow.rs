//! Following a deletion until its end: watches in, progress out, and the decision when to stop. `delete` and `wait`
//! share it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::cluster::assist::Assistant;
use crate::cluster::connect::Cluster;
use crate::cluster::metadata;
use crate::cluster::watch::{self, Scope};
use crate::model::diagnosis::Diagnosis;
use crate::model::forecast::Forecast;
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, Timestamp, Uid};
use crate::model::progress::{Observation, Progress};
use crate::render::progress::ProgressView;

/// How often the screen is drawn and the clock is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Without a change for so long, the cause is looked for.
const EARLY: Duration = Duration::from_secs(10);
/// Lists in flight during the final sweep.
const SWEEPS: usize = 8;

/// How long to follow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the accepted DELETE; none: no limit.
    pub timeout: Option<Duration>,
    /// Without a change.
    pub stall: Duration,
}

/// How following ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Every doomed object is gone: the watches say so, and fresh lists prove it.
    Complete,
    /// Nothing changed for the stall timeout.
    Stalled,
    /// The time limit was reached.
    TimedOut,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// What is left may not be looked at.
    NotReadable,
    /// There was no answer for longer than the stall timeout.
    ConnectionLost(String),
}

/// A deletion that is being followed.
pub struct Following {
    cluster: Cluster,
    scopes: Vec<Scope>,
    observations: UnboundedReceiver<Observation>,
    /// How far it has come.
    pub progress: Progress,
    /// Sends the collector's deletes, where that is wanted.
    pub assistant: Option<Assistant>,
    /// What the last sweep found, by UID.
    pub present: BTreeMap<Uid, Object>,
    /// Qualified names of the resources that the last sweep could not list.
    pub unswept: BTreeSet<String>,
    started: Timestamp,
}

impl Following {
    /// Opens the watches: one for each kind and namespace with a doomed object, from the snapshot's version on.
    pub fn start(cluster: &Cluster, graph: &OwnerGraph, forecast: &Forecast) -> Self {
        let scopes = scopes(graph, forecast);
        let (sender, observations) = unbounded_channel();
        for scope in scopes.iter().filter(|scope| !scope.objects.is_empty()) {
            tokio::spawn(watch::watch(cluster.clone(), scope.clone(), sender.clone()));
        }
        let started = Timestamp::now();
        Self {
            cluster: cluster.clone(),
            scopes,
            observations,
            progress: Progress::new(graph, forecast, started),
            assistant: None,
            present: BTreeMap::new(),
            unswept: BTreeSet::new(),
            started,
        }
    }

    /// From now on follows only what this forecast dooms. Nothing that was observed is lost: it is still queued.
    pub fn follow_only(&mut self, graph: &OwnerGraph, forecast: &Forecast) {
        let gone: Vec<Uid> = self.progress.deleted().map(|object| object.uid.clone()).collect();
        self.progress = Progress::new(graph, forecast, self.started);
        gone.into_iter().for_each(|uid| self.gone(uid));
    }

    /// The server says that this object is not there any more.
    pub fn gone(&mut self, uid: Uid) {
        self.progress.observe(Observation::Gone(uid), Timestamp::now());
    }

    /// The DELETE was accepted: time counts from now.
    pub fn accepted(&mut self) {
        self.started = Timestamp::now();
        self.progress.begin(self.started);
    }

    /// Seconds since the accepted DELETE.
    pub fn elapsed_seconds(&self) -> f64 {
        Timestamp::now().duration_since(self.started).as_secs_f64()
    }

    /// Follows until the end. When nothing has changed for a while, `explain` is asked why, its answer is shown, and
    /// following goes on: somebody may repair it meanwhile.
    pub async fn until_end(
        &mut self,
        limits: Limits,
        view: &mut ProgressView,
        explain: &dyn Fn(&Progress) -> JoinHandle<Diagnosis>,
    ) -> End {
        let mut early = EarlyWord::default();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                _ = &mut interrupt => return End::Interrupted,
                Some(observation) = self.observations.recv() => {
                    self.progress.observe(observation, Timestamp::now());
                    while let Ok(observation) = self.observations.try_recv() {
                        self.progress.observe(observation, Timestamp::now());
                    }
                }
                () = help(&mut self.assistant) => {}
                _ = tick.tick() => {}
            }
            self.assist(view);
            let now = Timestamp::now();
            view.update(&self.progress.summary(now), Instant::now());
            if limits.stall > EARLY {
                early.speak(&self.progress, now, view, explain).await;
            }
            if self.progress.is_complete() {
                self.sweep().await;
                if self.progress.is_complete() {
                    return End::Complete;
                }
            }
            if let Some(end) = self.over(limits, Timestamp::now()) {
                return end;
            }
        }
    }

    /// Tells the assistant what is gone, and the user once that a delete was refused.
    fn assist(&mut self, view: &mut ProgressView) {
        let gone = self.progress.take_newly_gone();
        if let Some(assistant) = &mut self.assistant {
            assistant.gone(&gone);
            if let Some(words) = assistant.take_refusal() {
                view.note(&format!("--assist: left to the garbage collector: {words}"));
            }
        }
    }

    fn over(&self, limits: Limits, now: Timestamp) -> Option<End> {
        let since = |time: Timestamp| Duration::try_from(now.duration_since(time)).unwrap_or_default();
        if limits.timeout.is_some_and(|timeout| since(self.started) >= timeout) {
            return Some(End::TimedOut);
        }
        if let Some((lost, message)) = self.progress.connection_lost() {
            return (since(*lost) > limits.stall).then(|| End::ConnectionLost(message.clone()));
        }
        let unreadable = self.progress.unreadable();
        let mut left = self.progress.remaining().peekable();
        if left.peek().is_some() && left.all(|object| unreadable.contains_key(&object.resource.qualified())) {
            return Some(End::NotReadable);
        }
        (now >= self.progress.stalls_at(limits.stall.as_secs_f64())).then_some(End::Stalled)
    }

    /// Fresh lists of every kind in the forecast: proves that nothing of the doomed set is left, finds what was made
    /// meanwhile, and shows who survived.
    pub async fn sweep(&mut self) {
        let cluster = &self.cluster;
        let mut lists = futures::stream::iter(self.scopes.clone())
            .map(|scope| async move {
                let list = metadata::list(cluster, &scope.resource, scope.namespace.as_deref(), "").await;
                (scope, list)
            })
            .buffer_unordered(SWEEPS);
        self.present.clear();
        while let Some((scope, list)) = lists.next().await {
            let resource = scope.resource.qualified();
            let objects: Vec<Object> = match list {
                Ok(list) => list.items.into_iter().map(|item| item.object).collect(),
                // The kind itself is gone, and all its objects with it.
                Err(trouble) if trouble.is_not_found() => Vec::new(),
                Err(_) => {
                    self.unswept.insert(resource);
                    continue;
                }
            };
            for object in &objects {
                self.present.insert(object.uid.clone(), object.clone());
            }
            let namespace = scope.namespace;
            self.progress.observe(Observation::Listed { resource, namespace, objects }, Timestamp::now());
        }
    }
}

async fn help(assistant: &mut Option<Assistant>) {
    match assistant {
        Some(assistant) => assistant.work().await,
        None => std::future::pending().await,
    }
}

/// The cause, told while the stall timeout still runs. Told once for the same words.
#[derive(Default)]
struct EarlyWord {
    asked_for: Option<Timestamp>,
    answer: Option<JoinHandle<Diagnosis>>,
    told: BTreeSet<String>,
}

impl EarlyWord {
    async fn speak(
        &mut self,
        progress: &Progress,
        now: Timestamp,
        view: &mut ProgressView,
        explain: &dyn Fn(&Progress) -> JoinHandle<Diagnosis>,
    ) {
        let change = progress.last_change();
        let due = self.asked_for != Some(change) && now >= progress.stalls_at(EARLY.as_secs_f64());
        if due && self.answer.is_none() && progress.connection_lost().is_none() {
            self.asked_for = Some(change);
            self.answer = Some(explain(progress));
        }
        let Some(answer) = self.answer.take_if(|answer| answer.is_finished()) else { return };
        // What changed meanwhile has made the answer old.
        if self.asked_for != Some(change) {
            return;
        }
        for finding in answer.await.map(|diagnosis| diagnosis.findings).unwrap_or_default() {
            if self.told.insert(finding.summary.clone()) {
                view.note(&format!("{}; still watching", finding.summary));
            }
        }
    }
}

/// Every kind and namespace in the forecast, with the doomed objects in it.
fn scopes(graph: &OwnerGraph, forecast: &Forecast) -> Vec<Scope> {
    let versions = &graph.snapshot().versions;
    let mut scopes: BTreeMap<(String, String), Scope> = BTreeMap::new();
    for entry in &forecast.entries {
        let object = graph.object(entry.object);
        let resource = object.resource.qualified();
        let own = object.namespace.as_deref().unwrap_or_default();
        // A list of all namespaces is followed by one watch of all namespaces.
        let everywhere = versions.get(&(resource.clone(), String::new()));
        let (namespace, version) = match everywhere {
            Some(version) => ("", Some(version)),
            None => (own, versions.get(&(resource.clone(), own.to_owned()))),
        };
        let scope = scopes.entry((resource, namespace.to_owned())).or_insert_with(|| Scope {
            resource: object.resource.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            resource_version: version.cloned().unwrap_or_default(),
            objects: Vec::new(),
        });
        if entry.fate.is_doomed() {
            scope.objects.push(object.clone());
        }
    }
    scopes.into_values().collect()
}
