//! The garbage collector and the API server's DELETE as a state machine: the rules themselves, one small function
//! each, without a clock. [`super::forecast`] runs it in the likeliest order; tests run it in every order.
//!
//! Source of the rules: `pkg/controller/garbagecollector/{garbagecollector,graph_builder}.go` for the collector,
//! `apiserver/pkg/registry/generic/registry/store.go` for DELETE (reference A.1, A.3, C.4), and
//! `collector-rules.md` for what random graphs taught on top. Where a rule below has a number, it is from there.
//!
//! The collector has a *graph* that lags behind the API server: work is done against the API, and what it changed
//! comes back later as an event. The machine keeps both views, because the lag decides some ends (rules 13 to 15).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::graph::{OwnerGraph, OwnerState};
use super::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, Uid};
use super::policy::Policy;

/// Removed by the Job controller unconditionally once the Pod's Job is deleted or finished (reference T6).
const JOB_TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Removed by the protection controller as soon as no scheduled Pod names the claim (reference B.6).
const CLAIM_PROTECTION_FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Set on every CustomResourceDefinition by the API server that serves it; goes with the last instance (B.4).
pub const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// In a Namespace's `spec.finalizers`; goes with the last object in it (B.3).
pub const NAMESPACE_FINALIZER: &str = "kubernetes";

/// Which of several possible courses to take where the collector races with itself, or where we cannot know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Rule 13: whose retry after the cycle breaker's conflict comes before the owner has let go.
    pub retries_early: Which,
    /// Rule 16: which owners without blockers let go before their other dependents are looked at.
    pub owners_early: Which,
    /// Rule 15: on which [`occasion`]s an object, of whose owners one waits or is gone and another may come to that in
    /// the same round, is looked at only at the end of the round.
    pub mixed_late: Which,
    /// An item that lost an owner is looked at before another owner's orphaning takes its reference off.
    pub orphans_late: bool,
    /// How far the collector comes before the next of several DELETEs is there, and with what it had begun before
    /// the first.
    pub pause: Pause,
    /// Rule 17: objects found Terminating without `foregroundDeletion` once had it, and the collector remembers.
    pub remembers: bool,
    /// Owners that we could not read are absent.
    pub unknown_absent: bool,
    /// Pods that we could not read are on a node.
    pub unknown_on_node: bool,
}

/// What the collector does between two DELETEs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Nothing: they come all at once.
    None,
    /// Its workers take up what is queued so many times.
    Rounds(u8),
    /// Everything.
    UntilQuiet,
}

/// To which objects something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// To none.
    None,
    /// To all.
    All,
    /// To this one alone.
    Only(usize),
    /// To all but this one.
    AllBut(usize),
}

impl Which {
    /// Whether it happens to this one.
    pub fn includes(self, index: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(one) => one == index,
            Self::AllBut(one) => one != index,
        }
    }
}

impl Course {
    /// What happens most often.
    pub const LIKELIEST: Self = Self {
        retries_early: Which::None,
        owners_early: Which::None,
        mixed_late: Which::None,
        orphans_late: false,
        pause: Pause::None,
        remembers: false,
        unknown_absent: false,
        unknown_on_node: false,
    };
}

/// What happened on the way that another course could have decided differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forks {
    /// The objects for which the cycle breaker fired.
    pub retries: BTreeSet<usize>,
    /// The owners that could let go while a dependent, to which that matters, was looked at.
    pub owners: BTreeSet<usize>,
    /// The [`occasion`]s on which an object was looked at when one of its owners waited or was gone, and another not yet.
    pub mixed: BTreeSet<usize>,
    /// An owner was orphaned when one of its dependents was about to be looked at for another reason.
    pub orphan: bool,
    /// Something was under way before the DELETE came.
    pub under_way: bool,
    /// A dependent that is Terminating without `foregroundDeletion` was asked whether it is deleting dependents.
    pub memory: bool,
    /// An owner that we could not read was asked for.
    pub unknown_owner: bool,
    /// A Pod that we could not read was deleted.
    pub unknown_pod: bool,
}

/// What the machine knows of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Node {
    // The API server's view.
    exists: bool,
    terminating: bool,
    foreground: bool,
    orphan: bool,
    /// Finalizers that wait for a controller.
    foreign: bool,
    /// Once Terminating, waits for its kubelet.
    kubelet: bool,
    /// Carries the claim protection.
    claim: bool,
    // The collector's graph.
    collectable: bool,
    /// Another object was read with its UID: then owners are told by UID, not by place.
    twin: bool,
    seen_exists: bool,
    seen_terminating: bool,
    seen_foreground: bool,
    seen_orphan: bool,
    /// Set when the collector sees a foreground deletion begin, and never cleared (rule 17).
    deleting_dependents: bool,
    /// Dependents in the graph with a blocking reference.
    blocking: usize,
    /// Its blocking dependents were queued once; again only after one of them changed.
    scanned: bool,
    // Queues.
    queued: bool,
    retrying: bool,
    /// Failed on an unserved reference: tried again for ever, ever more rarely (rule 4).
    backoff: bool,
    event: bool,
    // For the report.
    lost_by_orphaning: bool,
    unread: bool,
    /// A client deleted it, not the collector.
    by_client: bool,
    /// Is looked at at the end of the round (rule 15).
    postponed: bool,
    /// How often it could have been.
    mixed: u8,
    /// Counts the changes of its references: a delete that was decided before one meets a conflict.
    version: u32,
}

/// One ownerReference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reference {
    state: OwnerState,
    /// The object with the reference's UID, where one was seen.
    owner: Option<usize>,
    live: bool,
    block: bool,
    seen_live: bool,
    seen_block: bool,
}

/// What a Terminating Namespace or CustomResourceDefinition waits for.
#[derive(Debug, Clone)]
struct Container {
    object: usize,
    /// Deleted first; while one of these is left the others are not touched (B.3). Empty for definitions.
    pods: Vec<usize>,
    others: Vec<usize>,
    /// Namespaces delete with an explicit Background; definitions without options (B.4).
    policy: Option<Policy>,
}

/// The collector's work queue item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The graph learns what the API server did to this object.
    Event(usize),
    /// A worker attempts to delete this object.
    Attempt(usize),
    /// A worker orphans this object's dependents.
    Orphan(usize),
    /// The same as an attempt, after a conflict.
    Retry(usize),
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Collector<'g> {
    graph: &'g OwnerGraph,
    course: Course,
    nodes: Vec<Node>,
    references: Vec<Vec<Reference>>,
    containers: Vec<Container>,
    /// For claims: the Pods on a node that name them.
    claim_users: BTreeMap<usize, Vec<usize>>,
    events: VecDeque<usize>,
    attempts: VecDeque<usize>,
    orphans: VecDeque<usize>,
    retries: VecDeque<usize>,
    thawed: Vec<usize>,
    released: bool,
    forks: Forks,
}

impl<'g> Collector<'g> {
    /// The machine as the snapshot found the cluster: what the collector has in its queue for ever (unserved
    /// references, rule 4) or would do at once (dangling references, rule 18) is queued.
    pub fn new(graph: &'g OwnerGraph, course: Course) -> Self {
        let mut nodes: Vec<Node> = graph.objects().iter().map(|object| node(graph, object, course)).collect();
        let references: Vec<Vec<Reference>> = (0..nodes.len())
            .map(|index| {
                let whole = graph.owners(index);
                whole
                    .map(|(reference, resolved)| Reference {
                        state: resolved.state,
                        owner: resolved.owner,
                        live: true,
                        block: reference.block_owner_deletion,
                        seen_live: true,
                        seen_block: reference.block_owner_deletion,
                    })
                    .collect()
            })
            .collect();
        for (index, own) in references.iter().enumerate() {
            if nodes[index].collectable {
                for owner in
                    distinct(own.iter().filter(|reference| reference.block).filter_map(|one| one.owner))
                {
                    nodes[owner].blocking += 1;
                }
            }
        }
        let mut machine = Self {
            graph,
            course,
            nodes,
            references,
            containers: Vec::new(),
            claim_users: claim_users(graph),
            events: VecDeque::new(),
            attempts: VecDeque::new(),
            orphans: VecDeque::new(),
            retries: VecDeque::new(),
            thawed: Vec::new(),
            released: false,
            forks: Forks::default(),
        };
        for index in 0..machine.nodes.len() {
            if machine.nodes[index].terminating {
                machine.open_container(index);
            }
            if machine.references[index].iter().any(|reference| !reference.state.is_found()) {
                machine.enqueue(index);
            }
        }
        machine
    }

    /// What another course could have decided differently so far.
    pub fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Whether the object is still there.
    pub fn exists(&self, index: usize) -> bool {
        self.nodes[index].exists
    }

    /// Whether it has a deletionTimestamp.
    pub fn is_terminating(&self, index: usize) -> bool {
        self.nodes[index].terminating
    }

    /// Whether a reference of this object was removed because an owner was orphaned.
    pub fn was_orphaned(&self, index: usize) -> bool {
        self.nodes[index].lost_by_orphaning
    }

    /// Whether it waits for blocking dependents.
    pub fn waits_in_foreground(&self, index: usize) -> bool {
        self.nodes[index].foreground
    }

    /// Whether finalizers of others hold it.
    pub fn is_held_by_finalizers(&self, index: usize) -> bool {
        self.nodes[index].foreign
    }

    /// Whether the claim protection holds it: a Pod on a node names it.
    pub fn is_claim_in_use(&self, index: usize) -> bool {
        self.nodes[index].claim && self.claim_in_use(index)
    }

    /// Whether its kubelet holds it.
    pub fn is_held_by_kubelet(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.terminating && node.kubelet
    }

    /// Whether it is a Terminating Namespace or definition with something left in it.
    pub fn is_held_by_content(&self, index: usize) -> bool {
        self.containers.iter().any(|container| container.object == index && self.has_content(container))
    }

    /// The dependents that block it, by UID, each once, itself included where it owns itself.
    pub fn blockers(&self, index: usize) -> impl Iterator<Item = usize> {
        self.graph.dependents(index).iter().copied().filter(move |dependent| {
            let node = &self.nodes[*dependent];
            node.exists && node.collectable && self.blocks(*dependent, index)
        })
    }

    /// The owners that keep this object: found, alive and not themselves waiting in foreground (rule 6).
    pub fn solid_owners(&self, index: usize) -> impl Iterator<Item = usize> {
        self.references[index]
            .iter()
            .filter(|reference| reference.live && reference.state.is_found())
            .filter_map(|reference| {
                reference.owner.filter(|owner| self.nodes[*owner].exists && !self.is_waiting(*owner))
            })
    }

    /// Whether it has an owner that we could not read, and that this course takes for alive.
    pub fn has_unread_owner(&self, index: usize) -> bool {
        let unread = |reference: &Reference| reference.live && reference.state == OwnerState::Unknown;
        !self.course.unknown_absent && self.references[index].iter().any(unread)
    }

    /// Whether any ownerReference is left.
    pub fn has_references(&self, index: usize) -> bool {
        self.references[index].iter().any(|reference| reference.live)
    }

    /// Whether all its owners dangle: the collector would delete it now.
    pub fn dangles(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let mut references = self.references[index].iter().filter(|reference| reference.live).peekable();
        node.collectable
            && references.peek().is_some()
            && references.all(|reference| self.class(reference) == Class::Dangling)
    }

    /// A client's DELETE. `force` is grace period 0: the kubelet is not waited for.
    pub fn delete(&mut self, index: usize, policy: Policy, force: bool) {
        self.nodes[index].by_client = true;
        self.delete_with(index, Some(policy), force);
    }

    /// Lets every controller and kubelet do its part from now on: what goes then was only waiting for them.
    pub fn release(&mut self) {
        self.released = true;
        for index in 0..self.nodes.len() {
            self.nodes[index].foreign = false;
            self.nodes[index].kubelet = false;
            self.remove_if_free(index);
        }
    }

    /// The same machine, without the controllers that delete what Terminating Namespaces and definitions contain. None
    /// where there are no such containers, so that it would do the same.
    pub fn without_containers(&self) -> Option<Self> {
        (!self.containers.is_empty()).then(|| Self { containers: Vec::new(), ..self.clone() })
    }

    /// Runs in the likeliest order until nothing moves any more, the other controllers included.
    pub fn settle(&mut self) {
        loop {
            self.settle_collector();
            if !self.run_other_controllers() {
                return;
            }
        }
    }

    /// Takes up what the snapshot found under way at these objects and their owners: foreground and orphaning
    /// deletions that the collector is in the midst of. In a cluster at rest nothing comes of it: what they wait for
    /// was tried before.
    pub fn resume(&mut self, objects: &[usize]) {
        let owners =
            objects.iter().flat_map(|index| self.references[*index].iter().filter_map(|one| one.owner));
        for index in distinct(objects.iter().copied().chain(owners)) {
            let node = &self.nodes[index];
            if !node.exists || !node.terminating || !node.collectable {
                continue;
            }
            if node.orphan {
                self.orphans.push_back(index);
                self.forks.under_way = true;
            } else if node.foreground {
                self.queue_dependents(index);
                self.enqueue(index);
                self.forks.under_way = true;
            }
        }
    }

    /// Lets the collector work for a while in the likeliest order.
    pub fn pause(&mut self) {
        match self.course.pause {
            Pause::None => {}
            Pause::Rounds(rounds) => {
                for _ in 0..rounds {
                    self.play_round();
                }
            }
            Pause::UntilQuiet => self.settle_collector(),
        }
    }

    fn settle_collector(&mut self) {
        while self.play_round() {}
    }

    /// One round in the likeliest order: what has happened is seen, then all workers do what is queued, side by side.
    /// False when there was nothing to do.
    fn play_round(&mut self) -> bool {
        self.observe_all();
        let (early, late): (Vec<usize>, Vec<usize>) = std::mem::take(&mut self.retries)
            .into_iter()
            .partition(|index| self.course.retries_early.includes(*index));
        let (orphans, attempts) = (std::mem::take(&mut self.orphans), std::mem::take(&mut self.attempts));
        if [early.len(), late.len(), orphans.len(), attempts.len()] == [0; 4] {
            return false;
        }
        // What met a conflict comes again as a retry; that it was queued meanwhile, too, decides the same race.
        let (again, attempts): (Vec<usize>, Vec<usize>) =
            attempts.into_iter().partition(|index| self.nodes[*index].retrying);
        again.into_iter().for_each(|index| self.nodes[index].queued = false);
        let attempts = [early, attempts].concat();
        if self.course.orphans_late {
            self.attempt_all(attempts);
            orphans.into_iter().for_each(|index| self.orphan_dependents(index));
        } else {
            orphans.into_iter().for_each(|index| self.orphan_dependents(index));
            self.attempt_all(attempts);
        }
        // By now the owner that the conflict's patch unblocked has most often let go.
        self.retry(late);
        true
    }

    /// Learns everything that has happened.
    pub(super) fn observe_all(&mut self) {
        while let Some(index) = self.events.pop_front() {
            self.nodes[index].event = false;
            self.observe(index);
        }
    }

    fn retry(&mut self, retries: Vec<usize>) {
        retries.iter().for_each(|index| self.nodes[*index].retrying = false);
        self.work(retries);
    }

    fn attempt_all(&mut self, attempts: Vec<usize>) {
        for index in &attempts {
            self.nodes[*index].queued = false;
            self.nodes[*index].retrying = false;
        }
        let (owners, attempts) = attempts
            .into_iter()
            .partition(|index| self.course.owners_early.includes(*index) && self.may_let_go_early(*index));
        self.work(owners);
        self.work(attempts);
    }

    /// Twenty workers side by side: all look before the first has changed anything, and what they change comes back
    /// as events only when the batch is worked off.
    fn work(&mut self, items: Vec<usize>) {
        let plans: Vec<Plan> = items.iter().map(|index| self.plan(*index)).collect();
        let mut postponed = Vec::new();
        for (index, plan) in items.into_iter().zip(plans) {
            match plan {
                Plan::Postpone => postponed.push(index),
                plan => self.execute(index, plan),
            }
        }
        postponed.into_iter().for_each(|index| self.attempt(index));
    }

    /// Everything that could happen next, for whoever wants to try every order.
    pub fn choices(&self) -> Vec<Action> {
        let events = self.events.iter().map(|index| Action::Event(*index));
        let attempts = self.attempts.iter().map(|index| Action::Attempt(*index));
        let orphans = self.orphans.iter().map(|index| Action::Orphan(*index));
        let retries = self.retries.iter().map(|index| Action::Retry(*index));
        events.chain(orphans).chain(attempts).chain(retries).collect()
    }

    /// Equal for machines that will do the same in the same order of choices.
    pub fn fingerprint(&self) -> u64 {
        let sorted = |queue: &VecDeque<usize>| {
            let mut queue: Vec<usize> = queue.iter().copied().collect();
            queue.sort_unstable();
            queue
        };
        let mut hasher = DefaultHasher::new();
        (&self.nodes, &self.references, &self.thawed).hash(&mut hasher);
        [&self.events, &self.attempts, &self.orphans, &self.retries].map(sorted).hash(&mut hasher);
        hasher.finish()
    }

    /// Does one of [`Self::choices`].
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Event(index) => {
                self.events.retain(|other| *other != index);
                self.nodes[index].event = false;
                self.observe(index);
            }
            Action::Attempt(index) => {
                self.attempts.retain(|other| *other != index);
                self.nodes[index].queued = false;
                self.attempt(index);
            }
            Action::Orphan(index) => {
                self.orphans.retain(|other| *other != index);
                self.orphan_dependents(index);
            }
            Action::Retry(index) => {
                self.retries.retain(|other| *other != index);
                self.nodes[index].retrying = false;
                self.attempt(index);
            }
        }
    }

    /// The controllers beside the collector, and the slow end of its queue: items in back-off are looked at again,
    /// Namespaces and definitions delete their content, and the claim
    /// protection lets go of claims that no Pod on a node names. False when there was nothing to do.
    pub fn run_other_controllers(&mut self) -> bool {
        let before = self.events.len();
        for index in std::mem::take(&mut self.thawed) {
            if std::mem::take(&mut self.nodes[index].backoff) {
                self.enqueue(index);
            }
        }
        for position in 0..self.containers.len() {
            let container = self.containers[position].clone();
            if !self.nodes[container.object].exists {
                continue;
            }
            let left = |machine: &Self, content: &[usize]| {
                content.iter().copied().filter(|index| machine.nodes[*index].exists).collect::<Vec<_>>()
            };
            let pods = left(self, &container.pods);
            pods.iter().for_each(|index| self.delete_with(*index, container.policy, false));
            if left(self, &container.pods).is_empty() {
                let others = left(self, &container.others);
                others.iter().for_each(|index| self.delete_with(*index, container.policy, false));
            }
            self.remove_if_free(container.object);
        }
        let claims: Vec<usize> = self.claim_users.keys().copied().collect();
        claims.into_iter().for_each(|claim| self.remove_if_free(claim));
        self.events.len() > before || !self.attempts.is_empty()
    }

    // --- the API server ---------------------------------------------------------------------------------------

    fn delete_with(&mut self, index: usize, policy: Option<Policy>, force: bool) {
        let object = self.graph.object(index);
        let takes_policy =
            !object.resource.is_event() && !object.is("apiextensions.k8s.io", "CustomResourceDefinition");
        let node = &mut self.nodes[index];
        // C.4: a Pod that waits for its kubelet answers 200 and nothing changes.
        if !node.exists || (node.terminating && node.kubelet && !force) {
            return;
        }
        let before = (node.terminating, node.foreground, node.orphan, node.kubelet);
        if node.unread && !node.terminating {
            self.forks.unknown_pod = true;
        }
        node.terminating = true;
        if force {
            node.kubelet = false;
        }
        // An explicit policy outranks what is pre-set; without one it is honoured (A.1).
        if let (Some(policy), true) = (policy, takes_policy) {
            node.foreground = policy == Policy::Foreground;
            node.orphan = policy == Policy::Orphan;
        }
        if (node.terminating, node.foreground, node.orphan, node.kubelet) != before {
            self.open_container(index);
            self.changed(index);
        }
        self.remove_if_free(index);
    }

    fn remove_if_free(&mut self, index: usize) {
        let node = &self.nodes[index];
        if !node.exists || !node.terminating || node.foreground || node.orphan || node.foreign || node.kubelet
        {
            return;
        }
        if node.claim && self.claim_in_use(index) {
            return;
        }
        if self.is_held_by_content(index) {
            return;
        }
        self.nodes[index].exists = false;
        self.changed(index);
    }

    fn claim_in_use(&self, index: usize) -> bool {
        let users = self.claim_users.get(&index);
        users.is_some_and(|users| users.iter().any(|user| self.nodes[*user].exists))
    }

    fn has_content(&self, container: &Container) -> bool {
        container.pods.iter().chain(&container.others).any(|index| self.nodes[*index].exists)
    }

    fn open_container(&mut self, index: usize) {
        if self.containers.iter().any(|container| container.object == index) {
            return;
        }
        if let Some(content) = content(self.graph, index) {
            let (pods, others) = content.into_iter().partition(|member| {
                self.graph.object(index).is("", "Namespace") && self.graph.object(*member).is("", "Pod")
            });
            let policy = self.graph.object(index).is("", "Namespace").then_some(Policy::Background);
            self.containers.push(Container { object: index, pods, others, policy });
        }
    }

    fn changed(&mut self, index: usize) {
        if !std::mem::replace(&mut self.nodes[index].event, true) {
            self.events.push_back(index);
        }
    }

    // --- the collector's graph --------------------------------------------------------------------------------

    /// `processGraphChanges`: what an add, update or delete event makes the collector do.
    fn observe(&mut self, index: usize) {
        if !self.nodes[index].collectable || !self.nodes[index].seen_exists {
            return;
        }
        self.observe_references(index);
        let node = &mut self.nodes[index];
        if !node.exists {
            node.seen_exists = false;
            let blocked = self.blocked_owners(index);
            blocked.into_iter().for_each(|owner| self.nodes[owner].blocking -= 1);
            self.queue_dependents(index);
            let owners: Vec<usize> =
                self.references[index].iter().filter_map(|reference| reference.owner).collect();
            for owner in owners {
                if self.nodes[owner].deleting_dependents {
                    self.enqueue(owner);
                }
            }
            return;
        }
        let orphaning = node.terminating && node.orphan && !(node.seen_terminating && node.seen_orphan);
        let waiting = node.terminating && node.foreground && !(node.seen_terminating && node.seen_foreground);
        node.seen_terminating = node.terminating;
        node.seen_foreground = node.foreground;
        node.seen_orphan = node.orphan;
        if orphaning {
            self.orphans.push_back(index);
        } else if waiting {
            self.nodes[index].deleting_dependents = true;
            self.queue_dependents(index);
            self.enqueue(index);
        }
    }

    /// References that were removed or unblocked wake the owners they held (`addUnblockedOwnersToDeleteQueue`).
    fn observe_references(&mut self, index: usize) {
        let changed = |reference: &Reference| {
            reference.live != reference.seen_live || reference.block != reference.seen_block
        };
        if !self.references[index].iter().any(changed) {
            return;
        }
        let before = self.blocked_owners(index);
        for reference in &mut self.references[index] {
            reference.seen_live = reference.live;
            reference.seen_block = reference.block;
        }
        let after = self.blocked_owners(index);
        for owner in before {
            if !after.contains(&owner) {
                self.nodes[owner].blocking -= 1;
                self.enqueue(owner);
            }
        }
        for owner in after {
            self.nodes[owner].scanned = false;
        }
    }

    /// The owners that this dependent blocks in the collector's graph, each once.
    fn blocked_owners(&self, index: usize) -> Vec<usize> {
        let blocking =
            self.references[index].iter().filter(|reference| reference.seen_live && reference.seen_block);
        distinct(blocking.filter_map(|reference| reference.owner))
    }

    fn references_in_graph(&self, dependent: usize, owner: usize) -> bool {
        self.nodes[dependent].seen_exists
            && self.references[dependent]
                .iter()
                .any(|reference| reference.seen_live && self.has_uid_of(reference, owner))
    }

    fn has_uid_of(&self, reference: &Reference, owner: usize) -> bool {
        reference.owner.is_some_and(|found| {
            found == owner
                || (self.nodes[found].twin && self.graph.object(found).uid == self.graph.object(owner).uid)
        })
    }

    fn blocks(&self, dependent: usize, owner: usize) -> bool {
        self.references[dependent]
            .iter()
            .any(|reference| reference.live && reference.block && self.has_uid_of(reference, owner))
    }

    fn queue_dependents(&mut self, index: usize) {
        let graph = self.graph;
        for dependent in graph.dependents(index) {
            if self.references_in_graph(*dependent, index) {
                self.enqueue(*dependent);
            }
        }
    }

    fn enqueue(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        // After a conflict the item is retried 5 ms later; by then what the owner does is nearly always done
        // (rule 13), so an earlier attempt is not played.
        if node.collectable && !node.retrying && !std::mem::replace(&mut node.queued, true) {
            self.attempts.push_back(index);
        }
    }

    // --- the collector's workers ------------------------------------------------------------------------------

    fn is_waiting(&self, owner: usize) -> bool {
        self.nodes[owner].terminating && self.nodes[owner].foreground
    }

    fn class(&self, reference: &Reference) -> Class {
        match reference.state {
            OwnerState::Scope => Class::WrongScope,
            OwnerState::Unserved => Class::Unserved,
            OwnerState::Unknown if self.course.unknown_absent => Class::Dangling,
            OwnerState::Unknown => Class::Solid,
            state if state.is_dangling() => Class::Dangling,
            _ => match reference.owner {
                Some(owner) if !self.nodes[owner].exists => Class::Dangling,
                Some(owner) if self.is_waiting(owner) => Class::Waiting,
                _ => Class::Solid,
            },
        }
    }

    fn attempt(&mut self, index: usize) {
        let plan = self.plan(index);
        self.execute(index, plan);
    }

    /// The first half of `attemptToDeleteItem`: reads the object and its owners and decides.
    fn plan(&mut self, index: usize) -> Plan {
        let node = &self.nodes[index];
        if !node.exists || (node.seen_terminating && !node.deleting_dependents) {
            return Plan::Nothing;
        }
        if node.deleting_dependents {
            return if node.blocking == 0 { Plan::LetGo } else { Plan::QueueBlockers };
        }
        let mut solid = false;
        let mut waiting = false;
        let mut loose = Vec::new();
        let mut any = false;
        for position in 0..self.references[index].len() {
            let reference = self.references[index][position];
            if !reference.live {
                continue;
            }
            any = true;
            if reference.state == OwnerState::Unknown {
                self.forks.unknown_owner = true;
            }
            match self.class(&reference) {
                // Forgotten until an event on an owner (rule 4).
                Class::WrongScope => return Plan::Nothing,
                // Stays in back-off: looked at again once its references have changed (rule 4).
                Class::Unserved => {
                    self.nodes[index].backoff = true;
                    return Plan::Nothing;
                }
                Class::Solid => solid = true,
                Class::Waiting => {
                    waiting = true;
                    loose.push(position);
                }
                Class::Dangling => loose.push(position),
            }
        }
        if !any {
            return Plan::Nothing;
        }
        for position in &loose {
            let owner = self.references[index][*position].owner;
            let matters = |owner: usize| solid || self.stays(owner) || self.has_dependents(index);
            if let Some(owner) = owner.filter(|owner| self.may_let_go_early(*owner) && matters(*owner)) {
                self.forks.owners.insert(owner);
            }
        }
        if solid && !loose.is_empty() && self.may_lose_hold(index) {
            let node = &mut self.nodes[index];
            if !std::mem::take(&mut node.postponed) {
                let occasion = occasion(index, node.mixed);
                node.mixed = node.mixed.saturating_add(1);
                self.forks.mixed.insert(occasion);
                if self.course.mixed_late.includes(occasion) {
                    node.postponed = true;
                    return Plan::Postpone;
                }
            }
        }
        let node = &self.nodes[index];
        let decided_on = node.version;
        if solid {
            // References go by UID: a right one and a twin of another name go together (rule 5).
            let uids = loose.iter().map(|position| self.graph.object(index).owners[*position].uid.clone());
            Plan::RemoveReferences(uids.collect())
        } else if waiting && self.has_dependents(index) {
            if self.cycle_breaker_fires(index) {
                Plan::Unblock
            } else {
                Plan::Delete { policy: Policy::Foreground, decided_on }
            }
        } else {
            let policy = match (node.orphan, node.foreground) {
                (true, _) => Policy::Orphan,
                (_, true) => Policy::Foreground,
                _ => Policy::Background,
            };
            Plan::Delete { policy, decided_on }
        }
    }

    /// The second half: changes what was decided.
    fn execute(&mut self, index: usize, plan: Plan) {
        match plan {
            Plan::Nothing | Plan::Postpone => {}
            Plan::LetGo => self.let_go(index),
            Plan::QueueBlockers => self.queue_blockers(index),
            Plan::RemoveReferences(uids) => {
                self.remove_references(index, |owner| uids.contains(owner));
            }
            Plan::Unblock => {
                if self.unblock(index) {
                    // The patch moved the resourceVersion: the delete meets a conflict, and is tried again (rule 13).
                    self.forks.retries.insert(index);
                    self.again(index);
                } else {
                    self.delete_with(index, Some(Policy::Foreground), false);
                }
            }
            // Somebody else changed its references meanwhile: a conflict, too.
            Plan::Delete { decided_on, .. } if decided_on != self.nodes[index].version => self.again(index),
            Plan::Delete { policy, .. } => self.delete_with(index, Some(policy), false),
        }
    }

    /// Tries again, some milliseconds later.
    fn again(&mut self, index: usize) {
        if self.nodes[index].exists && !std::mem::replace(&mut self.nodes[index].retrying, true) {
            self.retries.push_back(index);
        }
    }

    /// Whether it stays when the collector takes its own finalizers off.
    fn stays(&self, index: usize) -> bool {
        self.nodes[index].foreign || self.nodes[index].kubelet
    }

    /// Whether an owner that keeps this object may itself be deleted in this very round: it hangs on an owner that
    /// waits or is gone.
    fn may_lose_hold(&self, index: usize) -> bool {
        let is = |reference: &Reference, class| reference.live && self.class(reference) == class;
        self.references[index].iter().any(|reference| {
            let owner = reference.owner.filter(|_| is(reference, Class::Solid));
            owner.filter(|owner| !self.nodes[*owner].terminating).is_some_and(|owner| {
                let above = &self.references[owner];
                above.iter().any(|above| is(above, Class::Waiting) || is(above, Class::Dangling))
            })
        })
    }

    /// Whether this owner waits for nobody any more: it may let go before its other dependents are looked at.
    fn may_let_go_early(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        node.exists && node.foreground && node.deleting_dependents && node.blocking == 0
    }

    fn has_dependents(&self, index: usize) -> bool {
        self.graph.dependents(index).iter().any(|dependent| self.references_in_graph(*dependent, index))
    }

    fn cycle_breaker_fires(&mut self, index: usize) -> bool {
        for dependent in self.graph.dependents(index) {
            if !self.references_in_graph(*dependent, index) {
                continue;
            }
            let node = &self.nodes[*dependent];
            if self.graph.object(*dependent).is_terminating() && !node.foreground {
                self.forks.memory = true;
            }
            if node.deleting_dependents {
                return true;
            }
        }
        false
    }

    /// Sets every blocking reference to non-blocking; false if there was none (then nothing moves).
    fn unblock(&mut self, index: usize) -> bool {
        let mut any = false;
        for reference in &mut self.references[index] {
            any |= reference.live && std::mem::replace(&mut reference.block, false);
        }
        if any {
            self.nodes[index].version += 1;
            self.changed(index);
        }
        any
    }

    fn remove_references(&mut self, index: usize, matches: impl Fn(&Uid) -> bool) -> bool {
        let mut any = false;
        for (reference, written) in
            self.references[index].iter_mut().zip(self.graph.object(index).owners.iter())
        {
            if reference.live && matches(&written.uid) {
                reference.live = false;
                any = true;
            }
        }
        if any {
            if self.nodes[index].backoff {
                self.thawed.push(index);
            }
            self.nodes[index].version += 1;
            self.changed(index);
        }
        any
    }

    /// `processDeletingDependentsItem` without blockers.
    fn let_go(&mut self, index: usize) {
        if std::mem::replace(&mut self.nodes[index].foreground, false) {
            self.changed(index);
            self.remove_if_free(index);
        }
    }

    /// `processDeletingDependentsItem` with blockers.
    fn queue_blockers(&mut self, index: usize) {
        if std::mem::replace(&mut self.nodes[index].scanned, true) {
            return;
        }
        let graph = self.graph;
        for dependent in graph.dependents(index) {
            let blocks = self.references[*dependent].iter().any(|reference| {
                reference.seen_live && reference.seen_block && self.has_uid_of(reference, index)
            });
            if blocks && self.nodes[*dependent].seen_exists && !self.nodes[*dependent].deleting_dependents {
                self.enqueue(*dependent);
            }
        }
    }

    /// `attemptToOrphanWorker`: every dependent in the graph loses its references to this UID, right or wrong
    /// (rule 1), then the finalizer goes. Nobody else is woken (rule 12).
    fn orphan_dependents(&mut self, index: usize) {
        if !self.nodes[index].exists || !self.nodes[index].orphan {
            return;
        }
        let uid = self.graph.object(index).uid.clone();
        let graph = self.graph;
        for dependent in graph.dependents(index) {
            if self.references_in_graph(*dependent, index)
                && self.nodes[*dependent].exists
                && self.remove_references(*dependent, |owner| *owner == uid)
            {
                self.nodes[*dependent].lost_by_orphaning = true;
                self.forks.orphan |= self.nodes[*dependent].queued && self.has_references(*dependent);
            }
        }
        self.nodes[index].orphan = false;
        self.changed(index);
        self.remove_if_free(index);
    }
}

/// A number for the nth time that something happens to an object; all from the eighth time on have one.
fn occasion(index: usize, nth: u8) -> usize {
    index * 8 + usize::from(nth.min(7))
}

/// What a worker decided for one item.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// Look when the others of this round are done.
    Postpone,
    /// Take the item's own `foregroundDeletion` off.
    LetGo,
    QueueBlockers,
    RemoveReferences(Vec<Uid>),
    /// The cycle breaker: set every reference to non-blocking, then delete.
    Unblock,
    Delete {
        policy: Policy,
        /// The item's version then.
        decided_on: u32,
    },
}

/// How the collector classifies a reference (`classifyReferences`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Solid,
    Waiting,
    Dangling,
    WrongScope,
    Unserved,
}

fn node(graph: &OwnerGraph, object: &Object, course: Course) -> Node {
    let details = &graph.snapshot().details;
    let foreground = object.has_finalizer(FOREGROUND_FINALIZER);
    let orphan = object.has_finalizer(ORPHAN_FINALIZER);
    let terminating = object.is_terminating();
    let unread = object.is("", "Pod") && !details.pods.contains_key(&object.uid);
    let kubelet = if unread {
        course.unknown_on_node
    } else {
        // Unscheduled and finished Pods have their grace forced to 0; one past its grace with 0 left is no longer
        // waited for (C.4).
        details.pods.get(&object.uid).is_some_and(|pod| !pod.node.is_empty() && !pod.finished)
            && !(terminating && object.grace_seconds == Some(0))
    };
    Node {
        exists: true,
        terminating,
        foreground,
        orphan,
        foreign: object.foreign_finalizers().any(is_holding_finalizer) || {
            let namespace_finalizers = details.namespace_finalizers.get(&object.uid);
            namespace_finalizers.is_some_and(|names| names.iter().any(|name| name != NAMESPACE_FINALIZER))
        },
        kubelet,
        claim: object.has_finalizer(CLAIM_PROTECTION_FINALIZER),
        collectable: object.resource.is_collectable(),
        twin: graph.by_uid(&object.uid).len() > 1,
        seen_exists: true,
        seen_terminating: terminating,
        seen_foreground: foreground,
        seen_orphan: orphan,
        deleting_dependents: terminating && (foreground || course.remembers),
        unread,
        ..Node::default()
    }
}

/// Whether a finalizer waits for somebody: those that an in-tree controller removes unconditionally do not, and
/// the clean-up finalizers of Namespaces, definitions and claims are played by the machine itself.
pub fn is_holding_finalizer(name: &str) -> bool {
    ![
        FOREGROUND_FINALIZER,
        ORPHAN_FINALIZER,
        JOB_TRACKING_FINALIZER,
        CLAIM_PROTECTION_FINALIZER,
        DEFINITION_FINALIZER,
    ]
    .contains(&name)
}

/// What a Namespace or CustomResourceDefinition takes along, whatever the policy says; none for other objects.
pub fn content(graph: &OwnerGraph, container: usize) -> Option<Vec<usize>> {
    let object = graph.object(container);
    let all = 0..graph.objects().len();
    if object.is("", "Namespace") {
        let inside = |index: &usize| graph.object(*index).namespace.as_deref() == Some(object.name.as_str());
        Some(all.filter(inside).collect())
    } else if object.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        let (plural, group) = object.name.split_once('.')?;
        let instance = |index: &usize| {
            let resource = &graph.object(*index).resource;
            resource.plural == plural && resource.group == group
        };
        Some(all.filter(instance).collect())
    } else {
        None
    }
}

fn claim_users(graph: &OwnerGraph) -> BTreeMap<usize, Vec<usize>> {
    let mut users: BTreeMap<(Option<&str>, &str), Vec<usize>> = BTreeMap::new();
    for (uid, pod) in &graph.snapshot().details.pods {
        for index in graph.by_uid(uid) {
            if pod.node.is_empty() {
                continue;
            }
            for claim in &pod.claims {
                users.entry((graph.object(*index).namespace.as_deref(), claim)).or_default().push(*index);
            }
        }
    }
    if users.is_empty() {
        return BTreeMap::new();
    }
    let claims =
        graph.objects().iter().enumerate().filter(|(_, object)| object.is("", "PersistentVolumeClaim"));
    claims
        .filter_map(|(index, claim)| {
            users.remove(&(claim.namespace.as_deref(), claim.name.as_str())).map(|users| (index, users))
        })
        .collect()
}

fn distinct(indices: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut found: Vec<usize> = indices.collect();
    found.sort_unstable();
    found.dedup();
    found
}
