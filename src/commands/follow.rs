//! Following a deletion until its end: watches in, progress out, and the decision when to stop. `delete` and `wait`
//! share it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::interrupt::Interrupt;
use crate::cluster::assist::Assistant;
use crate::cluster::connect::Cluster;
use crate::cluster::metadata::{self, Wanted};
use crate::cluster::watch::{self, Scope};
use crate::model::catalog::{Catalog, Gap};
use crate::model::diagnosis::{Cause, Diagnosis};
use crate::model::forecast::Forecast;
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, Searched, Timestamp, Uid};
use crate::model::progress::{Observation, Progress};
use crate::render::progress::ProgressView;

/// How often the screen is drawn and the clock is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Without a change for so long, the cause is looked for.
const EARLY: Duration = Duration::from_secs(10);
/// Requests in flight during the final sweep.
const SWEEPS: usize = 8;
/// How long a sweep may take. Lists that take longer are not waited for: a time limit is a promise.
const LONGEST_SWEEP: Duration = Duration::from_secs(15);
/// How long the last look at everything may take.
const LONGEST_LAST_LOOK: Duration = Duration::from_secs(60);
/// How long a living controller may take to make its next object; a StatefulSet's takes some seconds (case C34).
const SUCCESSION: Duration = Duration::from_secs(5);

/// At the time limit: how long to wait for one more change. The collector of a default controller manager deletes 14
/// to 20 objects a second (case C38).
const LAST_LOOK: Duration = Duration::from_millis(1500);
/// What has not changed for so long does not move.
const LONGEST_PAUSE_SECONDS: i64 = 10;

/// How long to follow.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the accepted DELETE, of `wait` from its beginning; none: no limit.
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
    TimedOut {
        /// What still moves: what changed after the limit, too.
        moving: BTreeSet<Uid>,
    },
    /// The user pressed Ctrl-C.
    Interrupted,
    /// What is left may not be looked at.
    NotReadable,
    /// What is left could not be looked at for longer than the stall timeout, though we tried.
    Blind(Vec<Gap>),
}

/// A deletion that is being followed.
pub struct Following {
    cluster: Cluster,
    scopes: Vec<Scope>,
    survivors: Vec<Object>,
    targets: usize,
    catalog: Catalog,
    searched: Searched,
    /// What could not be read before, either.
    gaps: BTreeSet<String>,
    observations: UnboundedReceiver<Observation>,
    sender: UnboundedSender<Observation>,
    /// How far it has come.
    pub progress: Progress,
    /// Sends the collector's deletes, where that is wanted.
    pub assistant: Option<Assistant>,
    /// What the last sweep found, by UID.
    pub present: BTreeMap<Uid, Object>,
    /// What the last sweep proved to be gone, where its kind could not be listed.
    pub absent: BTreeSet<Uid>,
    /// The kinds that the last sweep could not list, by qualified resource name.
    pub unswept: BTreeMap<String, Gap>,
    started: Timestamp,
    ended: Option<Timestamp>,
}

impl Following {
    /// Opens the watches: one for each kind and namespace with a doomed object, from the snapshot's version on.
    pub fn start(cluster: &Cluster, graph: &OwnerGraph, forecast: &Forecast) -> Self {
        let scopes = scopes(graph, forecast);
        let (sender, observations) = unbounded_channel();
        for scope in scopes.iter().filter(|scope| !scope.objects.is_empty()) {
            tokio::spawn(watch::watch(cluster.clone(), scope.clone(), sender.clone()));
        }
        let started = cluster.now();
        Self {
            cluster: cluster.clone(),
            scopes,
            survivors: survivors(graph, forecast),
            targets: forecast.targets.len(),
            catalog: graph.snapshot().catalog.clone(),
            searched: graph.snapshot().searched.clone(),
            gaps: graph.snapshot().gaps.iter().map(qualified).collect(),
            observations,
            sender,
            progress: Progress::new(graph, forecast, started),
            assistant: None,
            present: BTreeMap::new(),
            absent: BTreeSet::new(),
            unswept: BTreeMap::new(),
            started,
            ended: None,
        }
    }

    /// From now on follows only what this forecast dooms. Nothing that was observed is lost: it is still queued.
    pub fn follow_only(&mut self, graph: &OwnerGraph, forecast: &Forecast) {
        let gone: Vec<Uid> = self.progress.deleted().map(|object| object.uid.clone()).collect();
        self.progress = Progress::new(graph, forecast, self.started);
        self.survivors = survivors(graph, forecast);
        gone.into_iter().for_each(|uid| self.gone(uid));
    }

    /// The server says that this object is not there any more.
    pub fn gone(&mut self, uid: Uid) {
        self.progress.observe(Observation::Gone(uid), self.cluster.now());
    }

    /// Looks at one object: it may have gone between being found and being listed, where no watch tells of it.
    pub async fn look_at(&mut self, object: &Object) {
        let found =
            metadata::get(&self.cluster, &object.resource, object.namespace.as_deref(), &object.name).await;
        match found {
            Ok(None) => self.gone(object.uid.clone()),
            Ok(Some(found)) => {
                self.progress.observe(Observation::Seen(Box::new(found)), self.cluster.now());
            }
            // The watch tells.
            Err(_) => {}
        }
    }

    /// Time counts not from the first look, but from so long before it.
    pub fn began_before(&mut self, span: Duration) {
        self.started = jiff::SignedDuration::try_from(span)
            .ok()
            .and_then(|span| self.started.checked_sub(span).ok())
            .unwrap_or(self.started);
    }

    /// The DELETE was accepted: time counts from now.
    pub fn accepted(&mut self) {
        self.started = self.cluster.now();
        self.progress.begin(self.started);
    }

    /// Seconds from the accepted DELETE, of `wait` from its beginning, to the end.
    pub fn elapsed_seconds(&self) -> f64 {
        self.ended.unwrap_or_else(|| self.cluster.now()).duration_since(self.started).as_secs_f64()
    }

    /// Follows until the end. When nothing has changed for a while, `explain` is asked why, its answer is shown, and
    /// following goes on: somebody may repair it meanwhile.
    pub async fn until_end(
        &mut self,
        limits: Limits,
        interrupt: &mut Interrupt,
        view: &mut ProgressView,
        explain: &dyn Fn(&Progress) -> JoinHandle<Diagnosis>,
    ) -> End {
        let mut early = EarlyWord::default();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let end = loop {
            tokio::select! {
                () = interrupt.pressed() => break End::Interrupted,
                Some(observation) = self.observations.recv() => self.take_in(observation),
                () = help(&mut self.assistant) => {}
                _ = tick.tick() => {}
            }
            self.assist(view);
            if interrupt.or(self.look_at_owners()).await.is_none() {
                break End::Interrupted;
            }
            let now = self.cluster.now();
            view.update(&self.progress.summary(now), Instant::now());
            if limits.stall > EARLY {
                early.speak(&self.progress, now, view, explain).await;
            }
            let end = self.over(limits, now);
            // Fresh lists prove the end, and tell what a watch that has silently died does not.
            if self.progress.is_complete() || !matches!(end, None | Some(End::Blind(_))) {
                if interrupt.or(self.sweep()).await.is_none() {
                    break End::Interrupted;
                }
                if self.progress.is_complete() {
                    if interrupt.or(self.look_everywhere()).await.is_none() {
                        break End::Interrupted;
                    }
                    if self.progress.is_complete() {
                        break End::Complete;
                    }
                    continue;
                }
            }
            match end {
                // The sweep may have seen a change.
                Some(End::Stalled) => {
                    if let Some(end) = self.over(limits, self.cluster.now()) {
                        break end;
                    }
                }
                Some(End::TimedOut { .. }) => {
                    self.ended = Some(self.cluster.now());
                    break End::TimedOut { moving: self.moves(interrupt).await };
                }
                Some(end) => break end,
                None => {}
            }
        };
        self.ended.get_or_insert_with(|| self.cluster.now());
        if end == End::Complete {
            self.await_successors(interrupt).await;
        }
        end
    }

    /// Who hangs on other owners now than was forecast may be spared: are they there? What cannot be read keeps its fate.
    async fn look_at_owners(&mut self) {
        for (owner, namespace) in self.progress.unknown_owners() {
            let resource = self.catalog.served(&owner.api_version, &owner.kind).cloned();
            let found = match &resource {
                Some(resource) => {
                    let namespace = namespace.as_deref().filter(|_| resource.namespaced);
                    let get = metadata::get(&self.cluster, resource, namespace, &owner.name);
                    match tokio::time::timeout(LONGEST_SWEEP, get).await {
                        Ok(Ok(found)) => found,
                        Ok(Err(_)) | Err(_) => None,
                    }
                }
                None => None,
            };
            let lives = found.is_some_and(|found| found.uid == owner.uid && !found.is_terminating());
            self.progress.looked_up(owner.uid, lives);
        }
    }

    fn take_in(&mut self, observation: Observation) {
        self.progress.observe(observation, self.cluster.now());
        while let Ok(observation) = self.observations.try_recv() {
            self.progress.observe(observation, self.cluster.now());
        }
    }

    /// What moves right now. The first changes of a deletion always come at once, so only the next ones tell. Of several
    /// targets one may move and another not.
    async fn moves(&mut self, interrupt: &mut Interrupt) -> BTreeSet<Uid> {
        let last = self.progress.last_change();
        if self.cluster.now().duration_since(last).as_secs() >= LONGEST_PAUSE_SECONDS {
            return BTreeSet::new();
        }
        let before: Vec<Object> = self.progress.remaining().cloned().collect();
        let deadline = tokio::time::Instant::now() + LAST_LOOK;
        while self.targets > 1 || self.progress.last_change() == last {
            tokio::select! {
                () = interrupt.pressed() => return BTreeSet::new(),
                () = tokio::time::sleep_until(deadline) => break,
                Some(observation) = self.observations.recv() => self.take_in(observation),
                else => break,
            }
        }
        let now: BTreeMap<&Uid, &Object> =
            self.progress.remaining().map(|object| (&object.uid, object)).collect();
        let changed = |object: &&Object| match now.get(&object.uid) {
            None => true,
            Some(now) => {
                now.finalizers.len() < object.finalizers.len()
                    || (now.is_terminating() && !object.is_terminating())
            }
        };
        before.iter().filter(changed).map(|object| object.uid.clone()).collect()
    }

    /// A living controller makes another in a moment: worth knowing before we leave.
    async fn await_successors(&mut self, interrupt: &mut Interrupt) {
        let deadline = tokio::time::Instant::now() + SUCCESSION;
        while self.progress.awaits_successor() {
            tokio::select! {
                () = interrupt.pressed() => return,
                () = tokio::time::sleep_until(deadline) => return,
                Some(observation) = self.observations.recv() => self.take_in(observation),
                else => return,
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
            return Some(End::TimedOut { moving: BTreeSet::new() });
        }
        if let Some((blind, gaps)) = self.progress.blind() {
            return (since(blind) > limits.stall).then_some(End::Blind(gaps));
        }
        let unreadable = self.progress.unreadable();
        let mut left = self.progress.remaining().peekable();
        if left.peek().is_some() && left.all(|object| unreadable.contains_key(&object.resource.qualified())) {
            return Some(End::NotReadable);
        }
        (now >= self.progress.stalls_at(limits.stall.as_secs_f64())).then_some(End::Stalled)
    }

    /// Fresh lists of every kind in the forecast: proves that nothing of the doomed set is left, finds what was made
    /// meanwhile, and shows who survived. Where a kind may not be listed, its objects are looked at one by one.
    pub async fn sweep(&mut self) {
        let deadline = tokio::time::Instant::now() + LONGEST_SWEEP;
        let (cluster, catalog) = (&self.cluster, &self.catalog);
        let lists: Vec<_> = futures::stream::iter(self.scopes.clone())
            .map(|scope| async move {
                let list = metadata::list_some_version(
                    cluster,
                    catalog,
                    &scope.resource,
                    scope.namespace.as_deref(),
                    false,
                );
                let list = tokio::time::timeout_at(deadline, list).await;
                (scope, list)
            })
            .buffer_unordered(SWEEPS)
            .collect()
            .await;
        self.present.clear();
        self.absent.clear();
        self.unswept.clear();
        let mut one_by_one = BTreeSet::new();
        for (scope, list) in lists {
            let resource = scope.resource.qualified();
            let objects: Vec<Object> = match list {
                Ok(Ok(list)) => list.items.into_iter().map(|item| item.object).collect(),
                // The kind itself is gone, and all its objects with it.
                Ok(Err(trouble)) if trouble.is_not_found() => Vec::new(),
                Ok(Err(trouble)) => {
                    let gap = metadata::gap(&scope.resource, &trouble);
                    if watch::is_not_allowed(&trouble) {
                        one_by_one.insert(resource.clone());
                    } else {
                        self.lost(&resource, &gap);
                    }
                    self.unswept.insert(resource, gap);
                    continue;
                }
                Err(_) => {
                    let gap = slow(&scope);
                    self.lost(&resource, &gap);
                    self.unswept.insert(resource, gap);
                    continue;
                }
            };
            for object in &objects {
                self.progress.is_there(&object.uid);
                self.present.insert(object.uid.clone(), object.clone());
            }
            let namespace = scope.namespace;
            self.progress.observe(Observation::Listed { resource, namespace, objects }, self.cluster.now());
        }
        if !one_by_one.is_empty() {
            self.sweep_one_by_one(&one_by_one, deadline).await;
        }
    }

    /// All that was read for the forecast, once more: what was made meanwhile may be of a kind that nobody watches. What
    /// hangs on what is gone is followed from now on, too.
    async fn look_everywhere(&mut self) {
        let wanted = Wanted { searched: self.searched.clone(), pods: false };
        let mut untold = |_| {};
        let reading = metadata::snapshot(&self.cluster, &self.catalog, &wanted, &mut untold);
        let Ok(snapshot) = tokio::time::timeout(LONGEST_LAST_LOOK, reading).await else {
            let message = format!("no last look within {} s", LONGEST_LAST_LOOK.as_secs());
            self.unswept.insert("*".to_owned(), nothing_read(message));
            return;
        };
        for gap in snapshot.gaps.iter().filter(|gap| !self.gaps.contains(&qualified(gap))) {
            self.unswept.insert(qualified(gap), gap.clone());
        }
        let may_be_collected =
            |object: &Object| !object.owners.is_empty() && object.resource.is_collectable();
        for object in snapshot.objects.into_iter().filter(may_be_collected) {
            let uid = object.uid.clone();
            let (resource, namespace) = (object.resource.clone(), object.namespace.clone());
            self.progress.observe(Observation::Seen(Box::new(object)), self.cluster.now());
            if !self.progress.made_later().any(|later| later.uid == uid) {
                continue;
            }
            let namespace = namespace.as_deref();
            let covered = self.scopes.iter().any(|scope| {
                scope.resource == resource
                    && (scope.namespace.is_none() || scope.namespace.as_deref() == namespace)
                    && !scope.objects.is_empty()
            });
            if !covered {
                let objects: Vec<Object> =
                    self.progress.made_later().filter(|later| later.uid == uid).cloned().collect();
                let namespace = namespace.map(str::to_owned);
                let scope = Scope { resource, namespace, resource_version: String::new(), objects };
                tokio::spawn(watch::watch(self.cluster.clone(), scope.clone(), self.sender.clone()));
                self.scopes.push(scope);
            }
        }
    }

    fn lost(&mut self, resource: &str, gap: &Gap) {
        let lost = Observation::Lost { resource: resource.to_owned(), gap: gap.clone() };
        self.progress.observe(lost, self.cluster.now());
    }

    async fn sweep_one_by_one(&mut self, resources: &BTreeSet<String>, deadline: tokio::time::Instant) {
        let mut objects: Vec<Object> = self.progress.remaining().cloned().collect();
        objects.extend(self.survivors.iter().cloned());
        objects.retain(|object| resources.contains(&object.resource.qualified()));
        let cluster = &self.cluster;
        let answers: Vec<_> = futures::stream::iter(objects)
            .map(|object| async move {
                let get = metadata::get(cluster, &object.resource, object.namespace.as_deref(), &object.name);
                let answer = tokio::time::timeout_at(deadline, get).await;
                (object, answer)
            })
            .buffer_unordered(SWEEPS)
            .collect()
            .await;
        for (object, answer) in answers {
            let Ok(Ok(found)) = answer else { continue };
            if found.as_ref().is_none_or(|found| found.uid != object.uid) {
                self.absent.insert(object.uid.clone());
                self.gone(object.uid.clone());
            }
            if let Some(found) = found {
                self.present.insert(found.uid.clone(), found.clone());
                self.progress.observe(Observation::Seen(Box::new(found)), self.cluster.now());
            }
        }
    }
}

/// What the forecast does not doom.
fn survivors(graph: &OwnerGraph, forecast: &Forecast) -> Vec<Object> {
    let entries = forecast.entries.iter().filter(|entry| !entry.fate.is_doomed());
    entries.map(|entry| graph.object(entry.object).clone()).collect()
}

/// The gap of a look that did not come to its end: it may be anywhere.
pub fn nothing_read(message: String) -> Gap {
    Gap {
        resource: "*".to_owned(),
        group: String::new(),
        version: None,
        reason: metadata::NO_ANSWER.to_owned(),
        message,
    }
}

fn qualified(gap: &Gap) -> String {
    format!("{}.{}", gap.resource, gap.group)
}

fn slow(scope: &Scope) -> Gap {
    Gap {
        resource: scope.resource.plural.clone(),
        group: scope.resource.group.clone(),
        version: None,
        reason: metadata::NO_ANSWER.to_owned(),
        message: format!("no list within {} s", LONGEST_SWEEP.as_secs()),
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
        if due && self.answer.is_none() && progress.blind().is_none() {
            self.asked_for = Some(change);
            self.answer = Some(explain(progress));
        }
        let Some(answer) = self.answer.take_if(|answer| answer.is_finished()) else { return };
        // What changed meanwhile has made the answer old.
        if self.asked_for != Some(change) {
            return;
        }
        // A collector that is merely busy looks the same after so short a time: that guess waits for the stall timeout.
        let is_guess = |cause: Cause| matches!(cause, Cause::CollectorBackoff | Cause::CollectorStale);
        for finding in answer.await.map(|diagnosis| diagnosis.findings).unwrap_or_default() {
            if !is_guess(finding.cause) && self.told.insert(finding.summary.clone()) {
                let alike = match finding.alike.len() {
                    0 => String::new(),
                    more => format!(", and {more} more likewise"),
                };
                view.note(&format!("{}{alike}; still watching", finding.summary));
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
