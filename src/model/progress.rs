//! How far a deletion has come: a pure fold over what was observed, by UID. It never goes back, knows what counts
//! as a change, and so when a deletion has stalled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::catalog::{Gap, Resource};
use super::collector::is_holding_finalizer;
use super::forecast::Forecast;
use super::graph::{OwnerGraph, OwnerState};
use super::object::{
    FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, ObjectRef, OwnerReference, Timestamp, Uid,
};

/// The rate is taken over so many seconds.
const RATE_WINDOW_SECONDS: i64 = 15;
/// It tells something once objects have been going for so long: what goes at once after the DELETE, or after a grace
/// period, says nothing of the rest.
const STEADY_SECONDS: i64 = 5;
/// Objects that go so early after the DELETE go at once.
const AT_ONCE_SECONDS: i64 = 2;
/// So many objects must have gone for an estimate, and the last change may not be older than this.
const ESTIMATE_OBJECTS: usize = 10;
const STANDSTILL_SECONDS: i64 = 5;
/// A kubelet that is late by more than this is not coming to an end that could be told.
const LATE_SECONDS: i64 = 5;
/// A summary names at most so many of the objects that are still there.
const MOST_NAMED: usize = 64;
/// So many siblings alike are named one by one.
const MOST_ALIKE: usize = 3;
/// A summary looks at no more objects, as it is made many times a second.
const MOST_LOOKED_AT: usize = 2000;

/// What was seen of the cluster.
#[derive(Debug, Clone)]
pub enum Observation {
    /// An object is there, like this.
    Seen(Box<Object>),
    /// The object with this UID is gone.
    Gone(Uid),
    /// All objects of a resource in a namespace (none: in all); what is not among them is gone.
    Listed {
        /// Qualified resource name.
        resource: String,
        /// Namespace; none for all, or for cluster-scoped resources.
        namespace: Option<String>,
        /// What is there.
        objects: Vec<Object>,
    },
    /// Objects of this kind may not be looked at any more.
    Unreadable {
        /// Qualified resource name.
        resource: String,
        /// Why, in the server's words.
        gap: Gap,
    },
    /// There is no answer about this kind; we go on trying.
    Lost {
        /// Qualified resource name.
        resource: String,
        /// Why, in the server's words where it has any.
        gap: Gap,
    },
    /// There are answers about this kind again.
    Back {
        /// Qualified resource name.
        resource: String,
    },
}

/// What a person wants to know while a deletion is under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// How many objects are doomed.
    pub total: usize,
    /// How many of them are gone. Never shrinks.
    pub gone: usize,
    /// What is still there, the first few: the targets first, then depth first, so that `depth` draws a tree.
    pub remaining: Vec<Remaining>,
    /// How many objects went in a second lately; none while that cannot be said.
    pub rate_per_second: Option<f64>,
    /// About how many seconds it takes until all is gone; none while that cannot be said: it has only begun, it stands
    /// still, or something waits for somebody of whom no rate tells.
    pub seconds_left: Option<f64>,
    /// How many doomed objects were made again, under another UID, by something else.
    pub recreated: usize,
    /// How many other objects were made below a doomed one meanwhile, and are still there: they are waited for, too.
    pub joined: usize,
}

/// One doomed object that is still there, or several siblings of which the same is to be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// The object; the first one of several.
    pub reference: ObjectRef,
    /// How many it stands for: 1, or more than three of one kind.
    pub count: usize,
    /// How deep it hangs below a target; a target itself is 0.
    pub depth: usize,
    /// What it waits for, for example `waits for finalizer a/b`; empty where nothing is known. May hold texts of
    /// the cluster, not yet sanitized.
    pub why: String,
}

#[derive(Debug, Clone)]
struct Tracked {
    object: Object,
    depth: usize,
    gone: bool,
    /// Its ownerReferences were changed, so that it survives.
    saved: bool,
    /// It is doomed only by what its ownerReferences were.
    by_owners: bool,
    /// Its ownerReferences are no longer those of the forecast.
    reowned: bool,
}

type Name = (String, Option<String>, String);

/// How far a deletion has come.
#[derive(Debug, Clone)]
pub struct Progress {
    order: Vec<Uid>,
    doomed: BTreeMap<Uid, Tracked>,
    names: BTreeMap<Name, Uid>,
    /// What the forecast spoke of and does not doom: it was there before, so it is not made later.
    spared: BTreeSet<Uid>,
    /// Owners that were looked up because somebody came to hang on them, and whether they live.
    looked_up: BTreeMap<Uid, bool>,
    later: BTreeMap<Uid, Object>,
    recreated: BTreeMap<Uid, Object>,
    blockers: BTreeMap<Uid, Vec<Uid>>,
    gone: usize,
    newly_gone: Vec<Uid>,
    began: Timestamp,
    last_change: Timestamp,
    history: VecDeque<(Timestamp, usize)>,
    unreadable: BTreeMap<String, Gap>,
    lost: BTreeMap<String, (Timestamp, Gap)>,
    made: BTreeMap<Uid, ObjectRef>,
    controlled: Vec<Controlled>,
    siblings: BTreeSet<Uid>,
}

/// A target whose controller lives on, and will make another.
#[derive(Debug, Clone)]
struct Controlled {
    target: Uid,
    controller: Uid,
}

impl Progress {
    /// Follows the objects that a forecast dooms, from now on.
    pub fn new(graph: &OwnerGraph, forecast: &Forecast, now: Timestamp) -> Self {
        let mut progress = Self {
            order: Vec::new(),
            doomed: BTreeMap::new(),
            names: BTreeMap::new(),
            spared: BTreeSet::new(),
            looked_up: BTreeMap::new(),
            later: BTreeMap::new(),
            recreated: BTreeMap::new(),
            blockers: BTreeMap::new(),
            gone: 0,
            newly_gone: Vec::new(),
            began: now,
            last_change: now,
            history: VecDeque::from([(now, 0)]),
            unreadable: BTreeMap::new(),
            lost: BTreeMap::new(),
            made: BTreeMap::new(),
            controlled: Vec::new(),
            siblings: BTreeSet::new(),
        };
        let spared = forecast.entries.iter().filter(|entry| !entry.fate.is_doomed());
        progress.spared.extend(spared.map(|entry| graph.object(entry.object).uid.clone()));
        let doomed: BTreeSet<usize> = forecast.doomed().map(|entry| entry.object).collect();
        let targets = forecast.targets.iter().map(|target| graph.object(*target));
        // What is in them goes whatever it refers to.
        let containers = targets.clone().any(|target| {
            target.is("", "Namespace") || target.is("apiextensions.k8s.io", "CustomResourceDefinition")
        });
        // Depth first, the targets first; what hangs on the target otherwise (content of a Namespace) after them.
        let mut stack: Vec<(usize, usize)> = Vec::new();
        stack.extend(
            forecast
                .entries
                .iter()
                .rev()
                .filter(|e| !forecast.targets.contains(&e.object))
                .map(|e| (e.object, 1)),
        );
        stack.extend(forecast.targets.iter().rev().map(|target| (*target, 0)));
        while let Some((index, depth)) = stack.pop() {
            let object = graph.object(index);
            if !doomed.contains(&index) || progress.doomed.contains_key(&object.uid) {
                continue;
            }
            progress.order.push(object.uid.clone());
            progress.names.insert(name_of(object), object.uid.clone());
            let by_owners = !containers && !forecast.targets.contains(&index);
            let tracked = Tracked {
                object: object.clone(),
                depth,
                gone: false,
                saved: false,
                by_owners,
                reowned: false,
            };
            progress.doomed.insert(object.uid.clone(), tracked);
            for dependent in graph.dependents(index).iter().rev() {
                if graph.blocks(*dependent, &object.uid) {
                    let blockers = progress.blockers.entry(object.uid.clone()).or_default();
                    blockers.push(graph.object(*dependent).uid.clone());
                }
                stack.push((*dependent, depth + 1));
            }
        }
        progress.expect_successors(graph, forecast, &doomed);
        progress
    }

    fn expect_successors(&mut self, graph: &OwnerGraph, forecast: &Forecast, doomed: &BTreeSet<usize>) {
        for target in &forecast.targets {
            let controller = graph.owners(*target).find_map(|(reference, resolved)| {
                resolved.owner.filter(|_| reference.controller && resolved.state == OwnerState::Live)
            });
            let Some(controller) = controller.filter(|index| !doomed.contains(index)) else { continue };
            let siblings = graph.dependents(controller).iter().map(|index| graph.object(*index).uid.clone());
            self.siblings.extend(siblings);
            self.controlled.push(Controlled {
                target: graph.object(*target).uid.clone(),
                controller: graph.object(controller).uid.clone(),
            });
        }
    }

    /// Whether the controller of a target that is gone has yet to make another (reference G11, T9).
    pub fn awaits_successor(&self) -> bool {
        self.controlled.iter().any(|expected| {
            let gone = self.doomed.get(&expected.target).is_none_or(|tracked| tracked.gone);
            gone && !self.recreated.contains_key(&expected.target)
        })
    }

    /// The DELETE was accepted: stall and rate count from now.
    pub fn begin(&mut self, now: Timestamp) {
        self.began = now;
        self.last_change = self.last_change.max(now);
        self.history = VecDeque::from([(now, self.gone)]);
    }

    /// Takes in what was observed. Returns whether it was a change: fewer doomed objects are left than ever before,
    /// or one of them got its deletionTimestamp or lost a finalizer. What was created later never is one.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) -> bool {
        let changed = match observation {
            Observation::Seen(object) => self.seen(*object),
            Observation::Gone(uid) => self.is_gone(&uid),
            Observation::Listed { resource, namespace, objects } => {
                self.listed(&resource, namespace.as_deref(), objects)
            }
            Observation::Unreadable { resource, gap } => {
                self.unreadable.insert(resource, gap);
                false
            }
            Observation::Lost { resource, gap } => {
                // Since the first time, with the latest words.
                let since = self.lost.get(&resource).map_or(now, |(since, _)| *since);
                self.lost.insert(resource, (since, gap));
                false
            }
            Observation::Back { resource } => {
                self.lost.remove(&resource);
                false
            }
        };
        if changed {
            self.last_change = now;
            self.history.push_back((now, self.gone));
            while self.history.len() > 2 && seconds(self.history[1].0, now) > RATE_WINDOW_SECONDS {
                self.history.pop_front();
            }
        }
        changed
    }

    fn seen(&mut self, object: Object) -> bool {
        self.lost.remove(&object.resource.qualified());
        if let Some(tracked) = self.doomed.get_mut(&object.uid) {
            // A late event about an object that is known to be gone does not bring it back.
            if tracked.gone {
                return false;
            }
            // Once marked it stays so, and nobody but the policies adds finalizers any more (`apimachinery/pkg/api/
            // validation/objectmeta.go`, ValidateObjectMetaAccessorUpdate): what says otherwise is an old event.
            let known = &tracked.object;
            let is_old = known.is_terminating()
                && (!object.is_terminating()
                    || object.foreign_finalizers().any(|name| !known.has_finalizer(name)));
            if is_old {
                return false;
            }
            let marked = object.is_terminating() && !known.is_terminating();
            let freed = known.finalizers.iter().any(|name| !object.has_finalizer(name));
            let other_owners = known.owners != object.owners;
            tracked.object = object;
            tracked.saved &= !tracked.object.is_terminating();
            if other_owners {
                tracked.reowned = true;
                self.reconsider();
            }
            return marked || freed;
        }
        if let Some(was) = self.names.get(&name_of(&object)) {
            // The name can only be free again because the old object is gone.
            let was = was.clone();
            let changed = self.is_gone(&was);
            self.recreated.insert(was, object.clone());
            self.note_later(object);
            return changed;
        }
        self.note_successor(&object);
        self.note_later(object);
        false
    }

    /// A controller often gives its next object another name; then the first target that has none yet is followed by it.
    fn note_successor(&mut self, object: &Object) {
        if self.siblings.contains(&object.uid) {
            return;
        }
        let Some(controller) = object.owners.iter().find(|owner| owner.controller) else { return };
        let known = self.recreated.values().any(|successor| successor.uid == object.uid);
        let expected = self.controlled.iter().find(|expected| {
            expected.controller == controller.uid
                && !self.recreated.contains_key(&expected.target)
                && self
                    .doomed
                    .get(&expected.target)
                    .is_some_and(|tracked| tracked.object.resource.qualified() == object.resource.qualified())
        });
        if let Some(expected) = expected.filter(|_| !known) {
            self.recreated.insert(expected.target.clone(), object.clone());
        }
    }

    fn note_later(&mut self, object: Object) {
        if self.spared.contains(&object.uid) {
            return;
        }
        let hangs = |uid: &Uid| self.doomed.contains_key(uid) || self.later.contains_key(uid);
        if self.later.contains_key(&object.uid) || object.owners.iter().any(|owner| hangs(&owner.uid)) {
            self.made.entry(object.uid.clone()).or_insert_with(|| object.reference());
            let mut owners = object.owners.iter();
            let spared = object.owners.is_empty() || owners.any(|owner| self.lives(&owner.uid) == Some(true));
            self.later.insert(object.uid.clone(), object);
            if spared {
                self.reconsider();
            }
        }
    }

    /// Whether this owner is alive, and nothing dooms it; none where that is not known yet.
    fn lives(&self, owner: &Uid) -> Option<bool> {
        match self.doomed.get(owner) {
            Some(tracked) => Some(tracked.saved && !tracked.gone),
            None if self.later.contains_key(owner) => Some(false),
            None if self.spared.contains(owner) => Some(true),
            None => self.looked_up.get(owner).copied(),
        }
    }

    /// What the collector spares now although the forecast doomed it, because its ownerReferences have changed: what
    /// has a living owner, or none at all (`garbagecollector.go`, attemptToDeleteItem). Whoever hangs on it is spared,
    /// too.
    fn reconsider(&mut self) {
        loop {
            let survives = |object: &Object| {
                let mut owners = object.owners.iter();
                !object.is_terminating()
                    && (object.owners.is_empty() || owners.any(|owner| self.lives(&owner.uid) == Some(true)))
            };
            let hangs_on_saved = |object: &Object| {
                let mut owners = object.owners.iter();
                owners
                    .any(|owner| self.doomed.get(&owner.uid).is_some_and(|owner| owner.saved && !owner.gone))
            };
            let doomed = self.doomed.iter().filter(|(_, tracked)| {
                tracked.by_owners
                    && !tracked.gone
                    && !tracked.saved
                    && (tracked.reowned || hangs_on_saved(&tracked.object))
                    && survives(&tracked.object)
            });
            let saved: Vec<Uid> = doomed.map(|(uid, _)| uid.clone()).collect();
            let later = self.later.iter().filter(|(_, object)| survives(object));
            let free: Vec<Uid> = later.map(|(uid, _)| uid.clone()).collect();
            if saved.is_empty() && free.is_empty() {
                return;
            }
            for uid in saved {
                if let Some(tracked) = self.doomed.get_mut(&uid) {
                    tracked.saved = true;
                }
            }
            for uid in free {
                self.later.remove(&uid);
                self.spared.insert(uid);
            }
        }
    }

    /// Owners that must be looked up before it can be said who survives: somebody who is waited for came to hang on
    /// them. With the namespace they would be in.
    pub fn unknown_owners(&self) -> Vec<(OwnerReference, Option<String>)> {
        let doomed = self
            .doomed
            .values()
            .filter(|tracked| tracked.by_owners && tracked.reowned && !tracked.gone && !tracked.saved);
        let objects = doomed.map(|tracked| &tracked.object).chain(self.later.values());
        let mut unknown = BTreeMap::new();
        for object in objects.filter(|object| !object.is_terminating()) {
            for owner in object.owners.iter().filter(|owner| self.lives(&owner.uid).is_none()) {
                let namespace = object.namespace.as_deref().map(str::to_owned);
                unknown.entry(owner.uid.clone()).or_insert_with(|| (owner.clone(), namespace));
            }
        }
        unknown.into_values().collect()
    }

    /// An owner was looked up.
    pub fn looked_up(&mut self, owner: Uid, lives: bool) {
        self.looked_up.insert(owner, lives);
        self.reconsider();
    }

    /// What the forecast doomed and what survives, because its ownerReferences were changed meanwhile.
    pub fn saved(&self) -> impl Iterator<Item = &Object> {
        let saved = |tracked: &&Tracked| tracked.saved && !tracked.gone;
        self.order.iter().map(|uid| &self.doomed[uid]).filter(saved).map(|tracked| &tracked.object)
    }

    fn is_gone(&mut self, uid: &Uid) -> bool {
        self.later.remove(uid);
        let tracked = self.doomed.get_mut(uid);
        let newly = tracked.is_some_and(|tracked| !std::mem::replace(&mut tracked.gone, true));
        if newly {
            self.gone += 1;
            self.newly_gone.push(uid.clone());
        }
        newly
    }

    fn listed(&mut self, resource: &str, namespace: Option<&str>, objects: Vec<Object>) -> bool {
        self.lost.remove(resource);
        let present: BTreeSet<Uid> = objects.iter().map(|object| object.uid.clone()).collect();
        let here = |object: &Object| {
            object.resource.qualified() == resource
                && namespace.is_none_or(|namespace| object.namespace.as_deref() == Some(namespace))
        };
        let doomed = self.doomed.values().filter(|tracked| !tracked.gone).map(|tracked| &tracked.object);
        let missing: Vec<Uid> = doomed
            .chain(self.later.values())
            .filter(|object| here(object) && !present.contains(&object.uid))
            .map(|object| object.uid.clone())
            .collect();
        let mut changed = false;
        for uid in missing {
            changed |= self.is_gone(&uid);
        }
        for object in objects {
            changed |= self.seen(object);
        }
        changed
    }

    /// A list that was asked for just now shows this object: where it was thought gone because another one bore its name,
    /// it is not. Only for who knows that nothing newer was observed before: what is queued may be older.
    pub fn is_there(&mut self, uid: &Uid) {
        if let Some(tracked) = self.doomed.get_mut(uid)
            && std::mem::take(&mut tracked.gone)
        {
            self.gone -= 1;
        }
    }

    /// The doomed objects that went since this was asked last.
    pub fn take_newly_gone(&mut self) -> Vec<Uid> {
        std::mem::take(&mut self.newly_gone)
    }

    /// Whether every doomed object, and whatever was made below one since, is gone.
    pub fn is_complete(&self) -> bool {
        self.doomed.values().all(|tracked| tracked.gone || tracked.saved) && self.later.is_empty()
    }

    /// When the deletion counts as stalled if nothing changes: a running grace period postpones it.
    pub fn stalls_at(&self, stall_seconds: f64) -> Timestamp {
        let graces = self.alive().filter_map(|tracked| tracked.object.deleted);
        let from = graces.max().map_or(self.last_change, |grace| grace.max(self.last_change));
        let span =
            jiff::SignedDuration::try_from_secs_f64(stall_seconds).unwrap_or(jiff::SignedDuration::MAX);
        from.checked_add(span).unwrap_or(Timestamp::MAX)
    }

    /// When the last change was.
    pub fn last_change(&self) -> Timestamp {
        self.last_change
    }

    /// The doomed objects that are still there, as last seen, the targets first.
    pub fn remaining(&self) -> impl Iterator<Item = &Object> {
        self.order
            .iter()
            .map(|uid| &self.doomed[uid])
            .filter(|tracked| !tracked.gone && !tracked.saved)
            .map(|tracked| &tracked.object)
    }

    /// The doomed objects that are gone.
    pub fn deleted(&self) -> impl Iterator<Item = &Object> {
        self.order
            .iter()
            .map(|uid| &self.doomed[uid])
            .filter(|tracked| tracked.gone)
            .map(|tracked| &tracked.object)
    }

    /// Objects that were made below a doomed one after the delete and are still there.
    pub fn made_later(&self) -> impl Iterator<Item = &Object> {
        self.later.values()
    }

    /// Doomed objects whose name another object bears now: (the one that is gone, the one that is there).
    pub fn recreated(&self) -> impl Iterator<Item = (&Object, &Object)> {
        self.recreated.iter().map(|(was, now)| (&self.doomed[was].object, now))
    }

    /// Everything that was made below a doomed object after the delete, each UID once, gone again or not.
    pub fn made(&self) -> impl Iterator<Item = &ObjectRef> {
        self.made.values()
    }

    /// Kinds that may not be looked at any more, by qualified resource name.
    pub fn unreadable(&self) -> &BTreeMap<String, Gap> {
        &self.unreadable
    }

    /// Since when nothing that is left can be seen, though we go on trying, and the gaps.
    pub fn blind(&self) -> Option<(Timestamp, Vec<Gap>)> {
        let mut since = None;
        let mut gaps = Vec::new();
        for object in self.remaining().chain(self.made_later()) {
            let resource = object.resource.qualified();
            match self.lost.get(&resource) {
                Some((time, gap)) => {
                    since = since.max(Some(*time));
                    gaps.push(gap.clone());
                }
                None if self.unreadable.contains_key(&resource) => {}
                None => return None,
            }
        }
        gaps.sort();
        gaps.dedup();
        since.map(|since| (since, gaps))
    }

    fn alive(&self) -> impl Iterator<Item = &Tracked> {
        self.doomed.values().filter(|tracked| !tracked.gone && !tracked.saved)
    }

    /// The first few that are left, siblings alike taken together, so that what holds the others comes into view.
    fn named(&self, now: Timestamp) -> Vec<Remaining> {
        let left = self.order.iter().map(|uid| &self.doomed[uid]);
        let left = left.filter(|tracked| !tracked.gone && !tracked.saved);
        // Neighbours of one kind at one depth; among them, those of which the same is to be said.
        let mut neighbours: Vec<Vec<Vec<Remaining>>> = Vec::new();
        for tracked in left.take(MOST_LOOKED_AT) {
            let reference = tracked.object.reference();
            let next =
                Remaining { reference, count: 1, depth: tracked.depth, why: self.why(&tracked.object, now) };
            let kind = |one: &Remaining| {
                let reference = &one.reference;
                (
                    one.depth,
                    reference.kind.clone(),
                    reference.api_version.clone(),
                    reference.namespace.clone(),
                )
            };
            let groups = neighbours.last_mut().filter(|groups| kind(&groups[0][0]) == kind(&next));
            if let Some(groups) = groups {
                match groups.iter_mut().find(|group| group[0].why == next.why) {
                    Some(group) => group.push(next),
                    None => groups.push(vec![next]),
                }
            } else if neighbours.len() < MOST_NAMED {
                neighbours.push(vec![vec![next]]);
            } else {
                break;
            }
        }
        let together = |group: Vec<Remaining>| {
            let count = group.len();
            let (shown, each) = if count > MOST_ALIKE { (1, count) } else { (count, 1) };
            group.into_iter().take(shown).map(move |one| Remaining { count: each, ..one })
        };
        neighbours.into_iter().flatten().flat_map(together).take(MOST_NAMED).collect()
    }

    /// What a person wants to know now.
    pub fn summary(&self, now: Timestamp) -> Summary {
        let remaining = self.named(now);
        let successors: BTreeSet<&Uid> = self.recreated.values().map(|object| &object.uid).collect();
        let rate_per_second = self.rate(now);
        let total = self.doomed.len() - self.saved().count();
        let seconds_left = self.estimate(total - self.gone, now);
        Summary {
            total,
            gone: self.gone,
            remaining,
            rate_per_second,
            seconds_left,
            recreated: self.recreated.len(),
            joined: self.later.keys().filter(|uid| !successors.contains(uid)).count(),
        }
    }

    /// Objects a second over the last while; none before they have been going for some seconds.
    pub fn rate(&self, now: Timestamp) -> Option<f64> {
        self.pace(now).map(|(went, seconds)| went as f64 / seconds)
    }

    /// How many went in how many seconds: from the first of the last while on, which, with what went in the same second,
    /// is not counted.
    fn pace(&self, now: Timestamp) -> Option<(usize, f64)> {
        let is_lately = |time: Timestamp| {
            seconds(time, now) < RATE_WINDOW_SECONDS && seconds(self.began, time) >= AT_ONCE_SECONDS
        };
        let mut before = 0;
        let mut history = self.history.iter();
        let (first, _) = *history.find(|(time, gone)| {
            let more = *gone > before;
            before = *gone;
            more && is_lately(*time)
        })?;
        let same_second = self.history.iter().rev().find(|(time, _)| seconds(first, *time) < 1);
        let (since, gone) = *same_second?;
        let went = self.gone.saturating_sub(gone);
        let steady = seconds(first, now) >= STEADY_SECONDS && went > 0;
        steady.then(|| (went, now.duration_since(since).as_secs_f64()))
    }

    /// About how many seconds until all is gone. What is known of grace periods outweighs the rate.
    fn estimate(&self, left: usize, now: Timestamp) -> Option<f64> {
        let (went, span) = self.pace(now)?;
        let stands_still = seconds(self.last_change, now) > STANDSTILL_SECONDS;
        if went < ESTIMATE_OBJECTS || stands_still || left == 0 || !self.later.is_empty() {
            return None;
        }
        let mut longest = left as f64 * span / went as f64;
        for Tracked { object, .. } in self.alive() {
            if object.foreign_finalizers().any(is_holding_finalizer) {
                return None;
            }
            // Only Pods have a grace period, which a kubelet ends.
            if let Some(end) = object.deleted.filter(|_| object.grace_seconds.is_some_and(|grace| grace > 0))
            {
                let until = seconds(now, end);
                if until < -LATE_SECONDS {
                    return None;
                }
                longest = longest.max(until as f64);
            }
        }
        Some(longest)
    }

    fn why(&self, object: &Object, now: Timestamp) -> String {
        if let Some((since, gap)) = self.lost.get(&object.resource.qualified()) {
            return format!("no answer for {} s: {}", seconds(*since, now), gap.message);
        }
        let Some(deleted) = object.deleted else { return "not marked yet".to_owned() };
        let mut phrases = Vec::new();
        let left = seconds(now, deleted);
        if left > 0 {
            phrases.push(format!("{left} s of {} s grace left", object.grace_seconds.unwrap_or(left)));
        } else if object.grace_seconds.is_some_and(|grace| grace > 0) {
            phrases.push("grace is over, waits for its kubelet".to_owned());
        }
        if object.has_finalizer(FOREGROUND_FINALIZER) {
            let blockers = self.blockers.get(&object.uid).into_iter().flatten();
            let alive =
                blockers.filter(|uid| self.doomed.get(*uid).is_none_or(|tracked| !tracked.gone)).count();
            phrases.push(match alive {
                0 => "waits for the garbage collector".to_owned(),
                1 => "waits for 1 blocking dependent".to_owned(),
                more => format!("waits for {more} blocking dependents"),
            });
        }
        if object.has_finalizer(ORPHAN_FINALIZER) {
            phrases.push("waits until its dependents have lost their references".to_owned());
        }
        phrases.extend(object.foreign_finalizers().map(|name| format!("waits for finalizer {name}")));
        phrases.join(", ")
    }
}

fn name_of(object: &Object) -> Name {
    let resource: &Resource = &object.resource;
    (resource.qualified(), object.namespace.as_deref().map(str::to_owned), object.name.clone())
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

#[cfg(test)]
mod tests {
    use super::super::forecast::forecast;
    use super::super::policy::Policy;
    use super::super::testing::{at, graph, snapshot, timestamp};
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn after(seconds: i64) -> Timestamp {
        timestamp(NOW) + jiff::SignedDuration::from_secs(seconds)
    }

    fn follow(text: &str, target: &str) -> Progress {
        let graph = graph(text);
        let forecast = forecast(&graph, &[at(&graph, target)], Policy::Foreground);
        Progress::new(&graph, &forecast, after(0))
    }

    fn seen(text: &str) -> Observation {
        let mut objects = snapshot(text).objects;
        Observation::Seen(Box::new(objects.remove(0)))
    }

    #[test]
    fn gone_objects_never_come_back_and_the_count_never_shrinks() {
        let mut progress =
            follow("ConfigMap/o\nSecret/a <- ConfigMap/o!\nSecret/b <- ConfigMap/o!", "ConfigMap/o");
        assert!(progress.observe(Observation::Gone("Secret/a".into()), after(1)));
        assert!(!progress.observe(Observation::Gone("Secret/a".into()), after(2)));
        assert!(!progress.observe(seen("Secret/a terminating"), after(3)));
        assert_eq!((progress.summary(after(3)).gone, progress.is_complete()), (1, false));
        progress.observe(Observation::Gone("Secret/b".into()), after(4));
        progress.observe(Observation::Gone("ConfigMap/o".into()), after(4));
        assert!(progress.is_complete());
    }

    /// A hundred Secrets, of which `gone` say how many are gone in which second.
    fn many(more: &str, gone: &[(i64, usize)]) -> Progress {
        let secrets: String = (0..100).map(|n| format!("Secret/s{n} <- ConfigMap/o!\n")).collect();
        let mut progress = follow(&format!("ConfigMap/o\n{secrets}{more}"), "ConfigMap/o");
        let mut next = 0;
        for (second, gone) in gone {
            for number in next..*gone {
                progress.observe(Observation::Gone(format!("Secret/s{number}").into()), after(*second));
            }
            next = *gone;
        }
        progress
    }

    #[test]
    fn neither_rate_nor_estimate_is_shown_before_it_means_something() {
        let shown = |progress: &Progress, second| {
            let summary = progress.summary(after(second));
            (summary.rate_per_second, summary.seconds_left)
        };
        let steady: Vec<(i64, usize)> =
            (0..9).map(|second| (second, 30 + 4 * usize::try_from(second).unwrap())).collect();
        let progress = many("", &steady);
        // Thirty went at once, which says nothing of the rest.
        assert_eq!(shown(&progress, 6), (None, None));
        assert_eq!(shown(&progress, 8), (Some(4.0), Some(39.0 / 4.0)));
        // It stands still: the rate falls, and no end is in sight.
        let (rate, end) = shown(&progress, 14);
        assert!(rate.is_some_and(|rate| rate < 2.1) && end.is_none(), "{rate:?} {end:?}");
        assert_eq!(shown(&progress, 30), (None, None));
        // What goes all at once, when a grace period ends, is no rate.
        let burst = many("", &[(0, 1), (30, 60)]);
        assert_eq!(shown(&burst, 31), (None, None));
        // Few are no measure.
        let few = many("", &[(2, 1), (4, 2), (6, 3), (8, 4)]);
        assert_eq!(shown(&few, 8), (Some(0.5), None));
    }

    #[test]
    fn no_end_is_told_that_depends_on_somebody_else() {
        let steady: Vec<(i64, usize)> =
            (2..13).map(|second| (second, 4 * usize::try_from(second).unwrap())).collect();
        let end = |progress: &Progress| progress.summary(after(12)).seconds_left;
        assert!(end(&many("", &steady)).is_some());
        assert_eq!(end(&many("Secret/held finalizer=a/h <- ConfigMap/o!", &steady)), None);
        // A grace period that runs longer than the rate says is known; one that is long over tells of no end.
        let with_pod = |grace_ends: i64| {
            let mut progress = many("Pod/p node=n1 <- ConfigMap/o!", &steady);
            let Observation::Seen(mut pod) = seen("Pod/p node=n1 terminating grace=60") else {
                unreachable!()
            };
            pod.deleted = Some(after(grace_ends));
            progress.observe(Observation::Seen(pod), after(12));
            end(&progress)
        };
        assert_eq!((with_pod(62), with_pod(2)), (Some(50.0), None));
        let mut joined = many("", &steady);
        joined.observe(seen("Secret/late uid=late <- ConfigMap/o@ConfigMap/o!"), after(12));
        assert_eq!(end(&joined), None);
    }

    #[test]
    fn a_mark_and_a_lost_finalizer_are_changes_and_a_label_is_none() {
        let mut progress = follow("ConfigMap/o finalizer=a/h\nSecret/a <- ConfigMap/o!", "ConfigMap/o");
        assert!(!progress.observe(seen("ConfigMap/o finalizer=a/h label=x=y"), after(1)));
        assert!(progress.observe(seen("ConfigMap/o finalizer=a/h terminating"), after(2)));
        assert!(!progress.observe(seen("ConfigMap/o finalizer=a/h terminating label=x=y"), after(3)));
        assert!(progress.observe(seen("ConfigMap/o terminating"), after(4)));
        assert_eq!(progress.last_change(), after(4));
    }

    #[test]
    fn many_siblings_alike_are_told_as_one_and_few_by_name() {
        let dependents = |count: usize| {
            let secret = |n: usize| {
                let marked = if n == 1 { "terminating finalizer=a/h " } else { "" };
                format!("Secret/s{n} {marked}<- ConfigMap/o!\n")
            };
            let secrets: String = (0..count).map(secret).collect();
            format!("ConfigMap/o\n{secrets}Pod/p finalizer=a/h terminating <- ConfigMap/o!")
        };
        let told = |count| {
            let left = follow(&dependents(count), "ConfigMap/o").summary(after(1)).remaining;
            left.into_iter().map(|one| (one.reference.kind, one.count)).collect::<Vec<_>>()
        };
        let one = |kind: &str, count| (kind.to_owned(), count);
        let mut few = told(3);
        few.sort();
        let secrets = vec![one("Secret", 1); 3];
        assert_eq!(few, [vec![one("ConfigMap", 1), one("Pod", 1)], secrets].concat());
        let mut many = told(100);
        many.sort();
        assert_eq!(many, [one("ConfigMap", 1), one("Pod", 1), one("Secret", 1), one("Secret", 99)]);
    }

    #[test]
    fn a_controller_that_creates_dependents_again_makes_no_progress() {
        let mut progress = follow("ConfigMap/o\nSecret/a <- ConfigMap/o!", "ConfigMap/o");
        progress.observe(Observation::Gone("Secret/a".into()), after(1));
        for generation in 0..5 {
            let text = format!("Secret/next uid=n{generation} <- ConfigMap/o@ConfigMap/o!");
            assert!(!progress.observe(seen(&text), after(2 + generation)));
            assert!(
                !progress.observe(Observation::Gone(format!("n{generation}").into()), after(2 + generation))
            );
        }
        assert_eq!(progress.stalls_at(60.0), after(61));
    }

    #[test]
    fn a_successor_of_the_same_name_means_that_the_old_one_is_gone() {
        let mut progress = follow("ReplicaSet/r", "ReplicaSet/r");
        assert!(progress.observe(seen("ReplicaSet/r uid=new"), after(1)));
        assert!(progress.is_complete(), "the successor is nobody's dependent here");
        let (was, now) = progress.recreated().next().expect("one");
        assert_eq!((was.uid.as_str(), now.uid.as_str()), ("ReplicaSet/r", "new"));
    }

    #[test]
    fn a_running_grace_period_postpones_the_stall() {
        let mut progress = follow("Pod/p node=n1", "Pod/p");
        let Observation::Seen(mut pod) = seen("Pod/p node=n1 terminating grace=300") else { unreachable!() };
        pod.deleted = Some(after(300));
        progress.observe(Observation::Seen(pod), after(1));
        assert_eq!(progress.stalls_at(60.0), after(360));
        assert_eq!(progress.summary(after(100)).remaining[0].why, "200 s of 300 s grace left");
    }

    fn gap(message: &str) -> Gap {
        Gap {
            resource: "secrets".into(),
            group: String::new(),
            version: None,
            reason: "NoAnswer".into(),
            message: message.into(),
        }
    }

    #[test]
    fn only_when_nothing_that_is_left_can_be_seen_are_we_blind() {
        let mut progress = follow("ConfigMap/o\nSecret/a <- ConfigMap/o!", "ConfigMap/o");
        let lost = |resource: &str| Observation::Lost { resource: resource.into(), gap: gap(resource) };
        progress.observe(lost("secrets"), after(5));
        assert_eq!(progress.blind(), None, "the ConfigMap is still in sight");
        progress.observe(lost("configmaps"), after(7));
        progress.observe(lost("configmaps"), after(9));
        let both = vec![gap("configmaps"), gap("secrets")];
        assert_eq!(progress.blind(), Some((after(7), both)), "since the last sight");
        progress.observe(Observation::Back { resource: "configmaps".into() }, after(10));
        assert_eq!(progress.blind(), None);
        progress.observe(Observation::Gone("ConfigMap/o".into()), after(11));
        assert_eq!(progress.blind(), Some((after(5), vec![gap("secrets")])));
    }

    #[test]
    fn what_may_not_be_seen_any_more_does_not_make_us_blind_by_itself() {
        let mut progress = follow("ConfigMap/o", "ConfigMap/o");
        progress.observe(Observation::Unreadable { resource: "configmaps".into(), gap: gap("no") }, after(1));
        assert_eq!(progress.blind(), None);
        assert!(progress.unreadable().contains_key("configmaps"));
    }

    #[test]
    fn each_object_that_was_made_later_is_counted_gone_again_or_not() {
        let mut progress = follow("ConfigMap/o\nSecret/a <- ConfigMap/o!", "ConfigMap/o");
        for generation in 0..3 {
            let text = format!("Secret/next uid=n{generation} <- ConfigMap/o@ConfigMap/o!");
            progress.observe(seen(&text), after(generation));
            progress.observe(Observation::Gone(format!("n{generation}").into()), after(generation));
        }
        assert_eq!((progress.made().count(), progress.made_later().count()), (3, 0));
    }

    #[test]
    fn what_joins_while_we_wait_is_not_taken_for_something_made_again() {
        let mut progress = follow("ConfigMap/o\nSecret/a <- ConfigMap/o!", "ConfigMap/o");
        progress.observe(seen("Secret/late uid=late <- ConfigMap/o@ConfigMap/o!"), after(1));
        let counts = |progress: &Progress| {
            let summary = progress.summary(after(3));
            (summary.recreated, summary.joined)
        };
        assert_eq!(counts(&progress), (0, 1));
        progress.observe(seen("Secret/a uid=again <- ConfigMap/o@ConfigMap/o!"), after(2));
        assert_eq!(counts(&progress), (1, 1));
        progress.observe(Observation::Gone("late".into()), after(3));
        assert_eq!(counts(&progress), (1, 0));
    }

    #[test]
    fn the_next_object_of_a_living_controller_is_the_successor_whatever_its_name() {
        let text = "ReplicaSet/r\nPod/a <- ReplicaSet/r!*\nPod/b <- ReplicaSet/r!*";
        let mut progress = follow(text, "Pod/a");
        assert!(!progress.awaits_successor(), "it is still there");
        progress.observe(seen("Pod/b <- ReplicaSet/r@ReplicaSet/r!*"), after(1));
        progress.observe(Observation::Gone("Pod/a".into()), after(2));
        assert!(progress.is_complete() && progress.awaits_successor());
        progress.observe(seen("Pod/c uid=c <- ReplicaSet/r@ReplicaSet/r!*"), after(3));
        assert!(!progress.awaits_successor());
        let pairs: Vec<(&str, &str)> =
            progress.recreated().map(|(was, now)| (was.name.as_str(), now.name.as_str())).collect();
        assert_eq!(pairs, [("a", "c")]);
        assert!(progress.is_complete(), "a successor is nobody's rest");
    }

    #[test]
    fn a_controller_that_goes_too_makes_no_successor() {
        let mut progress = follow("ReplicaSet/r\nPod/a <- ReplicaSet/r!*", "ReplicaSet/r");
        progress.observe(Observation::Gone("Pod/a".into()), after(2));
        progress.observe(Observation::Gone("ReplicaSet/r".into()), after(2));
        assert!(progress.is_complete() && !progress.awaits_successor());
    }

    #[test]
    fn an_old_event_is_no_change_and_takes_nothing_back() {
        let mut progress = follow("ConfigMap/o finalizer=a/h finalizer=b/h", "ConfigMap/o");
        assert!(progress.observe(seen("ConfigMap/o finalizer=a/h finalizer=b/h terminating"), after(1)));
        assert!(progress.observe(seen("ConfigMap/o finalizer=b/h terminating"), after(2)));
        for old in
            ["ConfigMap/o finalizer=a/h finalizer=b/h", "ConfigMap/o finalizer=a/h finalizer=b/h terminating"]
        {
            assert!(!progress.observe(seen(old), after(3)));
            assert!(!progress.observe(seen("ConfigMap/o finalizer=b/h terminating"), after(4)));
        }
        assert_eq!(progress.last_change(), after(2));
    }

    #[test]
    fn a_fresh_list_that_shows_an_object_outweighs_a_name_that_another_bears() {
        let mut progress = follow("ConfigMap/o", "ConfigMap/o");
        assert!(progress.observe(seen("ConfigMap/o uid=other"), after(1)));
        assert!(progress.is_complete());
        progress.is_there(&"ConfigMap/o".into());
        assert_eq!((progress.is_complete(), progress.remaining().count()), (false, 1));
    }

    #[test]
    fn who_gets_another_living_owner_or_loses_all_is_spared_with_all_that_hangs_on_it() {
        let text = "ConfigMap/o\nConfigMap/k\nSecret/a <- ConfigMap/o\nSecret/b <- Secret/a\nSecret/c <- ConfigMap/o";
        let mut progress = follow(text, "ConfigMap/o");
        progress.observe(Observation::Gone("ConfigMap/o".into()), after(1));
        assert_eq!(progress.remaining().count(), 3);
        progress.observe(seen("Secret/c"), after(2));
        progress.observe(seen("Secret/a <- ConfigMap/k@ConfigMap/k"), after(2));
        let unknown = progress.unknown_owners();
        assert_eq!(unknown.len(), 1);
        progress.looked_up(unknown[0].0.uid.clone(), true);
        let saved: Vec<&str> = progress.saved().map(|object| object.name.as_str()).collect();
        assert_eq!((saved, progress.is_complete()), (vec!["a", "b", "c"], true));
        progress.observe(seen("Secret/b terminating <- Secret/a@Secret/a"), after(3));
        assert!(!progress.is_complete(), "somebody else deletes it");
        progress.observe(Observation::Gone("Secret/b".into()), after(3));
        assert!(progress.is_complete());
    }

    #[test]
    fn who_gets_an_owner_that_is_not_there_goes_all_the_same() {
        let mut progress = follow("ConfigMap/o\nSecret/a <- ConfigMap/o", "ConfigMap/o");
        progress.observe(Observation::Gone("ConfigMap/o".into()), after(1));
        progress.observe(seen("Secret/a <- ConfigMap/n@nobody"), after(2));
        progress.looked_up("nobody".into(), false);
        assert_eq!((progress.is_complete(), progress.unknown_owners().len()), (false, 0));
    }

    #[test]
    fn after_an_expired_watch_a_fresh_list_tells_what_went_meanwhile() {
        let mut progress =
            follow("ConfigMap/o\nSecret/a <- ConfigMap/o!\nSecret/b <- ConfigMap/o!", "ConfigMap/o");
        let objects = snapshot("Secret/b terminating").objects;
        let listed = |namespace: &str| Observation::Listed {
            resource: "secrets".into(),
            namespace: Some(namespace.into()),
            objects: objects.clone(),
        };
        assert!(progress.observe(listed("x"), after(1)));
        assert_eq!(progress.summary(after(1)).gone, 1);
        let left: Vec<&str> = progress.remaining().map(|object| object.name.as_str()).collect();
        assert_eq!(left, ["o", "b"]);
    }
}
