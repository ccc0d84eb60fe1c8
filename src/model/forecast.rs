//! What exactly a delete will do, object by object, before anything is deleted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::catalog::Gap;
use super::collector::{
    Collector, Course, DEFINITION_FINALIZER, Forks, NAMESPACE_FINALIZER, Pause, Which, content,
    is_holding_finalizer,
};
use super::graph::{OwnerGraph, OwnerState};
use super::object::{Object, ObjectRef, Searched, SilentNode};
use super::policy::{DeleteWish, Policy};
use super::warning;

/// How an object ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Goes without anyone else's help.
    Deleted,
    /// Has, or gets, a deletionTimestamp and stays until a finalizer's controller, a kubelet or a blocking dependent
    /// lets go.
    Held,
    /// Will be deleted, but is not touched before a Terminating owner is gone.
    Waits,
    /// Survives: another owner is alive, or nothing above it is deleted.
    Kept,
    /// Survives: its reference is removed.
    Orphaned,
    /// No living owner is left, yet it is never collected.
    Leaked,
    /// The collector deletes it whatever we do.
    CollectedAnyway,
}

impl Fate {
    /// As the output contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Held => "held",
            Self::Waits => "waits",
            Self::Kept => "kept",
            Self::Orphaned => "orphaned",
            Self::Leaked => "leaked",
            Self::CollectedAnyway => "collected-anyway",
        }
    }

    /// Whether this delete dooms the object, so that we wait until it is gone.
    pub fn is_doomed(self) -> bool {
        matches!(self, Self::Deleted | Self::Held | Self::Waits)
    }
}

/// Who holds an object that has a deletionTimestamp.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    /// A blocking dependent (or the object itself, where it owns itself).
    Object(ObjectRef),
    /// A finalizer, served by a controller.
    Finalizer(String),
    /// The kubelet of this node.
    Node(String),
}

/// One object's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Index in the graph.
    pub object: usize,
    /// The (likelier) end.
    pub fate: Fate,
    /// False where a race inside the collector decides.
    pub certain: bool,
    /// The other ends of that race.
    pub otherwise: Vec<Fate>,
    /// Who holds it, where `fate` is `held`.
    pub held_by: Vec<Holder>,
    /// Why, in one sentence.
    pub reason: String,
}

/// Something a person should know before saying yes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Warning {
    /// Stable code, for example `will-be-recreated`.
    pub code: String,
    /// The sentence.
    pub message: String,
    /// The object it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
}

/// The forecast of one delete of one or several targets.
#[derive(Debug, Clone)]
pub struct Forecast {
    /// The policy it was made for.
    pub policy: Policy,
    /// Indices of the targets.
    pub targets: Vec<usize>,
    /// The targets and all that hangs on them by UID: targets first, then breadth first.
    pub entries: Vec<Entry>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    /// Where was searched.
    pub searched: Searched,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

impl Forecast {
    /// The entries of all objects that this delete dooms.
    pub fn doomed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.fate.is_doomed())
    }

    /// The entry of an object.
    pub fn entry(&self, object: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.object == object)
    }
}

/// Forecasts the delete of `targets` (indices in the graph), all with one wish, as one plan.
///
/// The collector is played three times over: what it does anyway, what it does after the delete, and what happens
/// once every controller and kubelet has done its part. Where the first run met a fork that the collector's own
/// races or our missing knowledge decide, the other courses are played, too, and an object that ends differently is
/// not certain.
pub fn forecast(graph: &OwnerGraph, targets: &[usize], wish: impl Into<DeleteWish>) -> Forecast {
    let wish = wish.into();
    let affected = affected(graph, targets);
    let set: BTreeSet<usize> = targets.iter().copied().collect();
    let (likeliest, others) = courses(graph, &set, targets, &affected, wish);
    let entries = affected
        .iter()
        .zip(likeliest)
        .enumerate()
        .map(|(position, (object, outcome))| {
            let mut otherwise: Vec<Fate> = others.iter().map(|course| course[position].fate).collect();
            otherwise.retain(|fate| *fate != outcome.fate);
            otherwise.sort_unstable();
            otherwise.dedup();
            Entry {
                object: *object,
                fate: outcome.fate,
                certain: otherwise.is_empty(),
                otherwise,
                held_by: outcome.held_by,
                reason: outcome.reason,
            }
        })
        .collect();
    let snapshot = graph.snapshot();
    let mut forecast = Forecast {
        policy: wish.policy,
        targets: targets.to_vec(),
        entries,
        warnings: Vec::new(),
        searched: snapshot.searched.clone(),
        gaps: snapshot.gaps.clone(),
    };
    forecast.warnings = warning::warnings(graph, &forecast, wish);
    forecast
}

/// The targets and all that hangs on them: by UID, and as content of a Namespace or instances of a definition.
/// Targets first, then breadth first.
pub(super) fn affected(graph: &OwnerGraph, targets: &[usize]) -> Vec<usize> {
    let mut roots = targets.to_vec();
    roots.extend(targets.iter().filter_map(|target| content(graph, *target)).flatten());
    graph.closure(&roots)
}

struct Outcome {
    fate: Fate,
    held_by: Vec<Holder>,
    reason: String,
}

/// So many courses are played at most: each costs as much as the likeliest.
const MOST_COURSES: usize = 24;
/// So many objects that a fork was met at are varied one by one.
const VARIED: usize = 4;
/// Where a fork was met at more objects than this they are varied only all together: each race for itself changes
/// little then, and each course takes its time.
const MOST_VARIED: usize = 100;

/// The likeliest course, and the other ones that the forks on the way lead to, nearest first.
fn courses(
    graph: &OwnerGraph,
    set: &BTreeSet<usize>,
    targets: &[usize],
    affected: &[usize],
    wish: DeleteWish,
) -> (Vec<Outcome>, Vec<Vec<Outcome>>) {
    let mut courses = vec![Course::LIKELIEST];
    let mut outcomes = Vec::new();
    while let Some(course) = courses.get(outcomes.len()).copied() {
        let (ends, forks) = play(graph, set, targets, affected, wish, course);
        outcomes.push(ends);
        for next in neighbours(course, &forks, targets.len() > 1) {
            if courses.len() < MOST_COURSES && !courses.contains(&next) {
                courses.push(next);
            }
        }
    }
    let others = outcomes.split_off(1);
    (outcomes.pop().unwrap_or_default(), others)
}

/// All of these objects, and then some of them one by one.
fn varied(objects: &BTreeSet<usize>) -> impl Iterator<Item = Which> {
    let all = (!objects.is_empty()).then_some(Which::All);
    let few = if (2..=MOST_VARIED).contains(&objects.len()) { VARIED } else { 0 };
    let each = objects.iter().take(few).flat_map(|index| [Which::Only(*index), Which::AllBut(*index)]);
    all.into_iter().chain(each)
}

/// The courses that differ from this one in one decision that was met on it.
fn neighbours(course: Course, forks: &Forks, several: bool) -> Vec<Course> {
    let mut next = Vec::new();
    if several || forks.under_way {
        let pauses = [Pause::UntilQuiet, Pause::Rounds(1), Pause::Rounds(2)];
        next.extend(pauses.map(|pause| Course { pause, ..course }));
    }
    next.extend(varied(&forks.retries).map(|retries_early| Course { retries_early, ..course }));
    next.extend(varied(&forks.owners).map(|owners_early| Course { owners_early, ..course }));
    next.extend(varied(&forks.mixed).map(|mixed_late| Course { mixed_late, ..course }));
    if forks.orphan {
        next.push(Course { orphans_late: true, ..course });
    }
    if forks.memory {
        next.push(Course { remembers: true, ..course });
    }
    if forks.unknown_owner {
        next.push(Course { unknown_absent: true, ..course });
    }
    if forks.unknown_pod {
        next.push(Course { unknown_on_node: true, ..course });
    }
    next
}

/// Plays one course and reads each affected object's end from it.
fn play(
    graph: &OwnerGraph,
    targets: &BTreeSet<usize>,
    order: &[usize],
    affected: &[usize],
    wish: DeleteWish,
    course: Course,
) -> (Vec<Outcome>, Forks) {
    let mut machine = Collector::new(graph, course);
    let anyway = goes_anyway(graph, &mut machine, targets, affected);
    machine.resume(affected);
    for target in order {
        machine.pause();
        machine.delete(*target, wish.policy, wish.is_forced());
    }
    machine.settle();
    let stopped = machine.clone();
    let fates = fates(graph, &mut machine, affected, &anyway);
    let outcomes = affected
        .iter()
        .zip(fates)
        .map(|(index, fate)| {
            let held_by = if fate == Fate::Held { holders(graph, &stopped, *index) } else { Vec::new() };
            let reason = reason(graph, &stopped, targets, wish, *index, fate, &held_by);
            Outcome { fate, held_by, reason }
        })
        .collect();
    (outcomes, machine.forks().clone())
}

/// Lets the collector do what it would do without us, and says which of the affected objects that takes.
pub(super) fn goes_anyway(
    graph: &OwnerGraph,
    machine: &mut Collector<'_>,
    targets: &BTreeSet<usize>,
    affected: &[usize],
) -> Vec<bool> {
    // What is Terminating already goes if it is gone in the end: its finalizers hold it whatever the collector wants.
    let dangling: Vec<bool> =
        affected.iter().map(|index| machine.dangles(*index) && !machine.is_terminating(*index)).collect();
    // What goes because a Terminating Namespace or definition deletes its content does not go by the collector's doing, and
    // is waited for; nor is what a target contains left to the collector.
    let collector_alone = machine.without_containers().map(|mut alone| {
        alone.settle();
        alone
    });
    machine.settle();
    let collector = collector_alone.as_ref().unwrap_or(machine);
    let contained: BTreeSet<usize> =
        targets.iter().filter_map(|target| content(graph, *target)).flatten().collect();
    let goes = |(index, dangles): (&usize, bool)| {
        (dangles || !collector.exists(*index)) && !targets.contains(index) && !contained.contains(index)
    };
    affected.iter().zip(dangling).map(goes).collect()
}

/// Reads the affected objects' ends from a machine that has nothing left to do, and then lets everybody do their
/// part in it.
pub(super) fn fates(
    graph: &OwnerGraph,
    machine: &mut Collector<'_>,
    affected: &[usize],
    anyway: &[bool],
) -> Vec<Fate> {
    let stopped: Vec<(bool, bool)> =
        affected.iter().map(|index| (machine.exists(*index), machine.is_terminating(*index))).collect();
    machine.release();
    machine.settle();
    let rooted = rooted(graph, machine, affected);
    let fate = |position: usize| {
        let index = affected[position];
        match stopped[position] {
            _ if anyway[position] => Fate::CollectedAnyway,
            (false, _) => Fate::Deleted,
            (true, true) => Fate::Held,
            _ if !machine.exists(index) || machine.is_terminating(index) => Fate::Waits,
            _ if machine.was_orphaned(index) => Fate::Orphaned,
            _ if rooted[index] || !machine.has_references(index) => Fate::Kept,
            _ => Fate::Leaked,
        }
    };
    (0..affected.len()).map(fate).collect()
}

/// Which objects are alive for a good reason: not affected, orphaned, or owned by one that is.
fn rooted(graph: &OwnerGraph, machine: &Collector<'_>, affected: &[usize]) -> Vec<bool> {
    let mut rooted = vec![true; graph.objects().len()];
    let survives = |index: usize| machine.exists(index) && !machine.is_terminating(index);
    for index in affected {
        rooted[*index] =
            survives(*index) && (machine.was_orphaned(*index) || !machine.has_references(*index));
    }
    let mut next: Vec<usize> = affected
        .iter()
        .copied()
        .filter(|index| {
            let kept = || {
                machine.has_unread_owner(*index) || machine.solid_owners(*index).any(|owner| rooted[owner])
            };
            rooted[*index] || (survives(*index) && kept())
        })
        .collect();
    next.iter().for_each(|index| rooted[*index] = true);
    while let Some(index) = next.pop() {
        for dependent in graph.dependents(index) {
            let owned = || machine.solid_owners(*dependent).any(|owner| owner == index);
            if !rooted[*dependent] && survives(*dependent) && owned() {
                rooted[*dependent] = true;
                next.push(*dependent);
            }
        }
    }
    rooted
}

/// Who holds an object that stays Terminating.
fn holders(graph: &OwnerGraph, machine: &Collector<'_>, index: usize) -> Vec<Holder> {
    let object = graph.object(index);
    let details = &graph.snapshot().details;
    let mut holders = Vec::new();
    if machine.is_held_by_kubelet(index) {
        let node = details.pods.get(&object.uid).map(|pod| pod.node.clone()).unwrap_or_default();
        holders.push(Holder::Node(node));
    }
    let finalizers = object.finalizers.iter().filter(|name| is_holding_finalizer(name));
    holders.extend(finalizers.cloned().map(Holder::Finalizer));
    if machine.is_claim_in_use(index) {
        holders.push(Holder::Finalizer("kubernetes.io/pvc-protection".to_owned()));
    }
    let own = details.namespace_finalizers.get(&object.uid).into_iter().flatten();
    holders.extend(own.filter(|name| *name != NAMESPACE_FINALIZER).cloned().map(Holder::Finalizer));
    if machine.is_held_by_content(index) {
        let name = if object.is("", "Namespace") { NAMESPACE_FINALIZER } else { DEFINITION_FINALIZER };
        holders.push(Holder::Finalizer(name.to_owned()));
    }
    if machine.waits_in_foreground(index) {
        holders
            .extend(machine.blockers(index).map(|blocker| Holder::Object(graph.object(blocker).reference())));
    }
    holders
}

fn reason(
    graph: &OwnerGraph,
    stopped: &Collector<'_>,
    targets: &BTreeSet<usize>,
    wish: DeleteWish,
    index: usize,
    fate: Fate,
    held_by: &[Holder],
) -> String {
    let object = graph.object(index);
    let owners = |accept: &dyn Fn(usize, OwnerState) -> bool| -> String {
        let named: Vec<String> = graph
            .owners(index)
            .filter(|(_, resolved)| resolved.owner.is_some_and(|owner| accept(owner, resolved.state)))
            .map(|(reference, _)| format!("{}/{}", reference.kind, reference.name))
            .collect();
        some_of(&named, 3)
    };
    match fate {
        Fate::Deleted if targets.contains(&index) => match wish.policy {
            Policy::Foreground => "goes as soon as no blocking dependent is left".to_owned(),
            Policy::Orphan => "goes as soon as its dependents have lost their reference to it".to_owned(),
            Policy::Background => "goes at once".to_owned(),
        },
        Fate::Deleted => match owners(&|_, state| state.is_found()) {
            owners if owners.is_empty() => "goes with what contains it".to_owned(),
            owners => format!("goes with {owners}"),
        },
        Fate::Held => {
            let sent = wish.grace_seconds.filter(|_| targets.contains(&index));
            let silent = &graph.snapshot().details.silent_nodes;
            held_reason(object, grace_period(graph, object, sent), held_by, silent)
        }
        Fate::Waits => match owners(&|owner, state| {
            state.is_found() && stopped.exists(owner) && stopped.is_terminating(owner)
        }) {
            owners if !owners.is_empty() => format!("waits for {owners}"),
            // Only the first below what is Terminating waits for that itself; the others for one another.
            _ => match owners(&|owner, state| state.is_found() && stopped.exists(owner)) {
                owners if owners.is_empty() => "waits until the Namespace has no Pods".to_owned(),
                owners => format!("waits for {owners}"),
            },
        },
        Fate::Kept => {
            match owners(&|owner, state| {
                state.is_found() && stopped.exists(owner) && !stopped.is_terminating(owner)
            }) {
                owners if owners.is_empty() => graph.unread_owner(index).map_or_else(
                    || "nothing that is left owns it".to_owned(),
                    |owner| format!("its owner {}/{} could not be read", owner.kind, owner.name),
                ),
                // The tree shows it right below its only owner.
                _ if graph.owners(index).count() == 1 => "stays with its owner".to_owned(),
                owners => format!("owned by {owners}"),
            }
        }
        Fate::Orphaned => "stays without its owner".to_owned(),
        Fate::Leaked => leak_reason(graph, index),
        Fate::CollectedAnyway => "its ownerReferences lead nowhere".to_owned(),
    }
}

/// The grace period that a Pod has, or gets by a delete that sends this one. One that is running is never made longer
/// (`apiserver/pkg/registry/rest/delete.go`, BeforeDelete).
pub(super) fn grace_period(graph: &OwnerGraph, object: &Object, sent: Option<i64>) -> Option<i64> {
    match (object.grace_seconds, sent) {
        (Some(running), Some(sent)) => Some(running.min(sent)),
        (Some(running), None) => Some(running),
        (None, Some(sent)) => Some(sent),
        (None, None) => graph.snapshot().details.pods.get(&object.uid).map(|pod| pod.grace_seconds),
    }
}

/// Who holds it, short enough for a column: the tree names the dependents below it.
fn held_reason(
    object: &Object,
    grace: Option<i64>,
    held_by: &[Holder],
    silent_nodes: &BTreeMap<String, SilentNode>,
) -> String {
    let (mut by, mut dependents, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for holder in held_by {
        match holder {
            Holder::Finalizer(name) => by.push(format!("finalizer {name}")),
            Holder::Object(owner) if owner.uid == object.uid => by.push("itself, which it owns".to_owned()),
            Holder::Object(dependent) => dependents.push(dependent.short()),
            Holder::Node(node) => nodes.push(node.as_str()),
        }
    }
    if by.is_empty()
        && dependents.is_empty()
        && let [node] = *nodes
        && let Some(silent) = silent_nodes.get(node)
    {
        // `pkg/controller/podgc/gc_controller.go`, gcOrphaned: a quarantine of 40 s, in a round every 20 s.
        return match silent {
            SilentNode::Absent => format!(
                "held by node {node}, which is not there: the Pod garbage collector removes it after about a minute"
            ),
            SilentNode::NotReady => format!("held by node {node}, which is not Ready"),
        };
    }
    if by.is_empty() && dependents.is_empty() {
        let confirms = format!("goes when {} confirms", nodes.join(", "));
        return grace.map_or_else(|| confirms.clone(), |grace| format!("{confirms} ({grace} s grace)"));
    }
    match dependents.as_slice() {
        [] => {}
        [one] => by.push(one.clone()),
        several => by.push(format!("{} blocking dependents", several.len())),
    }
    by.extend(nodes.into_iter().map(|node| format!("the kubelet of {node}")));
    let by = if by.len() == 2 { by.join(" and ") } else { some_of(&by, 3) };
    format!("held by {by}")
}

fn leak_reason(graph: &OwnerGraph, index: usize) -> String {
    let resource = &graph.object(index).resource;
    if resource.is_event() {
        return "the collector ignores Events; it expires by itself".to_owned();
    }
    if !resource.is_collectable() {
        return format!("the collector does not watch {}", resource.qualified());
    }
    for (reference, resolved) in graph.owners(index) {
        match resolved.state {
            OwnerState::Scope => {
                return format!(
                    "it is cluster-scoped, its owner {}/{} namespaced",
                    reference.kind, reference.name
                );
            }
            OwnerState::Unserved => {
                return format!(
                    "nobody serves its owner's kind {} {}",
                    reference.api_version, reference.kind
                );
            }
            _ => {}
        }
    }
    "it and its owner keep each other alive".to_owned()
}

/// The first few, and how many more.
pub(super) fn some_of(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, graph, label};
    use super::*;

    /// `Kind/name fate`, a question mark where a race decides, who holds it in brackets; sorted by name.
    fn fates(text: &str, targets: &[&str], policy: Policy) -> Vec<String> {
        let graph = graph(text);
        let targets: Vec<usize> = targets.iter().map(|target| at(&graph, target)).collect();
        let forecast = forecast(&graph, &targets, policy);
        let mut lines: Vec<String> = forecast
            .entries
            .iter()
            .map(|entry| {
                let race = if entry.certain { "" } else { "?" };
                let held_by: Vec<String> = entry
                    .held_by
                    .iter()
                    .map(|holder| match holder {
                        Holder::Object(object) => object.short(),
                        Holder::Finalizer(name) => name.clone(),
                        Holder::Node(node) => format!("node {node}"),
                    })
                    .collect();
                let held_by =
                    if held_by.is_empty() { String::new() } else { format!(" [{}]", held_by.join(", ")) };
                format!("{} {}{race}{held_by}", label(graph.object(entry.object)), entry.fate.as_str())
            })
            .collect();
        lines.sort();
        lines
    }

    use Policy::{Background, Foreground, Orphan};

    #[test]
    fn the_grace_period_that_is_sent_is_the_targets_and_never_longer_than_a_running_one() {
        let text =
            "Pod/p node=n1\nPod/running node=n1 terminating grace=5 <- Pod/p\nPod/below node=n1 <- Pod/p";
        let graph = graph(text);
        let reasons = |grace_seconds: Option<i64>| -> Vec<String> {
            let targets = [at(&graph, "Pod/p"), at(&graph, "Pod/running")];
            let plan = forecast(&graph, &targets, DeleteWish { policy: Background, grace_seconds });
            let mut reasons: Vec<String> = plan
                .entries
                .iter()
                .filter(|entry| entry.fate == Fate::Held)
                .map(|entry| format!("{} {}", label(graph.object(entry.object)), entry.reason))
                .collect();
            reasons.sort();
            reasons
        };
        assert_eq!(
            reasons(Some(1)),
            ["Pod/p goes when n1 confirms (1 s grace)", "Pod/running goes when n1 confirms (1 s grace)"]
        );
        assert_eq!(reasons(Some(60))[1], "Pod/running goes when n1 confirms (5 s grace)");
        assert_eq!(reasons(None)[0], "Pod/p goes when n1 confirms (30 s grace)");
        let job = super::super::testing::graph("Job/j\nPod/p node=n1 <- Job/j!*");
        let wish = DeleteWish { policy: Background, grace_seconds: Some(1) };
        let below = forecast(&job, &[at(&job, "Job/j")], wish).entries[1].reason.clone();
        assert_eq!(below, "goes when n1 confirms (30 s grace)");
    }

    #[test]
    fn a_pod_whose_kubelet_confirms_nothing_says_so() {
        let mut snapshot = super::super::testing::snapshot(
            "Pod/lost node=gone\nPod/dark node=dead\nPod/well node=n1\nPod/both node=dead finalizer=a/h",
        );
        let silent = [("gone", SilentNode::Absent), ("dead", SilentNode::NotReady)];
        snapshot.details.silent_nodes = silent.map(|(name, silent)| (name.to_owned(), silent)).into();
        let graph = OwnerGraph::new(snapshot);
        let reason = |pod: &str| {
            let entry = forecast(&graph, &[at(&graph, pod)], Background).entries.remove(0);
            assert_eq!(entry.fate, Fate::Held);
            entry.reason
        };
        assert_eq!(
            reason("Pod/lost"),
            "held by node gone, which is not there: the Pod garbage collector removes it after about a minute"
        );
        assert_eq!(reason("Pod/dark"), "held by node dead, which is not Ready");
        assert_eq!(reason("Pod/well"), "goes when n1 confirms (30 s grace)");
        assert_eq!(reason("Pod/both"), "held by finalizer a/h and the kubelet of dead");
    }

    #[test]
    fn block_owner_deletion_holds_only_a_foreground_owner() {
        for (flag, policy, owner) in [
            ("!", Foreground, "ConfigMap/o held [Secret/d]"),
            ("", Foreground, "ConfigMap/o deleted"),
            ("!", Background, "ConfigMap/o deleted"),
            ("", Background, "ConfigMap/o deleted"),
        ] {
            let text = format!("ConfigMap/o\nSecret/d finalizer=a/h <- ConfigMap/o{flag}");
            assert_eq!(
                fates(&text, &["ConfigMap/o"], policy),
                [owner, "Secret/d held [a/h]"],
                "{flag} {policy:?}"
            );
        }
        let text = "ConfigMap/o\nSecret/d finalizer=a/h <- ConfigMap/o!";
        assert_eq!(fates(text, &["ConfigMap/o"], Orphan), ["ConfigMap/o deleted", "Secret/d orphaned"]);
    }

    #[test]
    fn background_stops_at_a_middle_object_with_a_finalizer_and_foreground_does_not() {
        let text = "ConfigMap/top
                    ConfigMap/mid finalizer=a/h <- ConfigMap/top!
                    Secret/leaf <- ConfigMap/mid!";
        assert_eq!(
            fates(text, &["ConfigMap/top"], Background),
            ["ConfigMap/mid held [a/h]", "ConfigMap/top deleted", "Secret/leaf waits"]
        );
        assert_eq!(
            fates(text, &["ConfigMap/top"], Foreground),
            ["ConfigMap/mid held [a/h]", "ConfigMap/top held [ConfigMap/mid]", "Secret/leaf deleted"]
        );
    }

    #[test]
    fn another_living_owner_keeps_a_dependent_unless_both_owners_go() {
        let text = "ConfigMap/a\nConfigMap/b\nSecret/d <- ConfigMap/a!, ConfigMap/b!";
        for policy in [Background, Foreground] {
            assert_eq!(fates(text, &["ConfigMap/a"], policy), ["ConfigMap/a deleted", "Secret/d kept"]);
            assert_eq!(
                fates(text, &["ConfigMap/a", "ConfigMap/b"], policy),
                ["ConfigMap/a deleted", "ConfigMap/b deleted", "Secret/d deleted"]
            );
        }
        assert_eq!(fates(text, &["ConfigMap/a"], Orphan), ["ConfigMap/a deleted", "Secret/d orphaned"]);
    }

    #[test]
    fn orphan_spares_the_whole_subtree() {
        let text = "CronJob/n\nJob/j <- CronJob/n!*\nPod/p <- Job/j!*";
        assert_eq!(
            fates(text, &["CronJob/n"], Orphan),
            ["CronJob/n deleted", "Job/j orphaned", "Pod/p kept"]
        );
        assert_eq!(
            fates(text, &["CronJob/n"], Background),
            ["CronJob/n deleted", "Job/j deleted", "Pod/p deleted"]
        );
    }

    #[test]
    fn a_cycle_under_the_target_leaks_and_the_target_in_a_cycle_goes() {
        let below = "ConfigMap/top\nConfigMap/a <- ConfigMap/top!, ConfigMap/b!\nConfigMap/b <- ConfigMap/top!, ConfigMap/a!";
        for policy in [Background, Foreground] {
            assert_eq!(
                fates(below, &["ConfigMap/top"], policy),
                ["ConfigMap/a leaked", "ConfigMap/b leaked", "ConfigMap/top deleted"]
            );
        }
        let through = "ConfigMap/a <- ConfigMap/b!\nConfigMap/b <- ConfigMap/a!";
        assert_eq!(
            fates(through, &["ConfigMap/a"], Background),
            ["ConfigMap/a deleted", "ConfigMap/b deleted"]
        );
        assert_eq!(fates(through, &["ConfigMap/a"], Foreground)[0], "ConfigMap/a deleted");
    }

    #[test]
    fn an_object_that_owns_itself_waits_for_itself_in_foreground_only() {
        let text = "ConfigMap/c <- ConfigMap/c!";
        assert_eq!(fates(text, &["ConfigMap/c"], Foreground), ["ConfigMap/c held [ConfigMap/c]"]);
        assert_eq!(fates(text, &["ConfigMap/c"], Background), ["ConfigMap/c deleted"]);
    }

    #[test]
    fn a_cluster_scoped_dependent_of_a_namespaced_owner_leaks_and_blocks() {
        let text = "ConfigMap/o\nClusterRole/r <- ConfigMap/o!";
        assert_eq!(
            fates(text, &["ConfigMap/o"], Background),
            ["ClusterRole/r leaked", "ConfigMap/o deleted"]
        );
        assert_eq!(
            fates(text, &["ConfigMap/o"], Foreground),
            ["ClusterRole/r leaked", "ConfigMap/o held [ClusterRole/r]"]
        );
    }

    #[test]
    fn one_unserved_reference_freezes_all_others_until_orphaning_removes_it() {
        let text = "ConfigMap/o uid=u\nSecret/d <- v9#ConfigMap/o@u!";
        assert_eq!(fates(text, &["ConfigMap/o"], Background), ["ConfigMap/o deleted", "Secret/d leaked"]);
        assert_eq!(
            fates(text, &["ConfigMap/o"], Foreground),
            ["ConfigMap/o held [Secret/d]", "Secret/d leaked"]
        );
        assert_eq!(fates(text, &["ConfigMap/o"], Orphan), ["ConfigMap/o deleted", "Secret/d orphaned"]);
        let with_dangling = "ConfigMap/o uid=u\nSecret/d <- v9#ConfigMap/o@u!, ConfigMap/gone";
        assert_eq!(fates(with_dangling, &["ConfigMap/o"], Orphan)[1], "Secret/d deleted", "rule 4");
    }

    #[test]
    fn a_preset_orphan_below_background_saves_the_grandchildren_and_below_foreground_does_not() {
        let text = "ConfigMap/0\nConfigMap/1 finalizer=orphan <- ConfigMap/0!\nConfigMap/2 <- ConfigMap/1!";
        assert_eq!(
            fates(text, &["ConfigMap/0"], Background),
            ["ConfigMap/0 deleted", "ConfigMap/1 deleted", "ConfigMap/2 orphaned"]
        );
        assert_eq!(
            fates(text, &["ConfigMap/0"], Foreground),
            ["ConfigMap/0 deleted", "ConfigMap/1 deleted", "ConfigMap/2 deleted"]
        );
    }

    #[test]
    fn the_cycle_breaker_races_with_the_owner() {
        let rule_13 = "ConfigMap/0
            ConfigMap/1 <- ConfigMap/0!
            ConfigMap/2 terminating finalizer=foregroundDeletion <- ConfigMap/1!
            ConfigMap/3 finalizer=a/h terminating <- ConfigMap/2!";
        let ends = fates(rule_13, &["ConfigMap/0"], Foreground);
        assert_eq!(ends[..2], ["ConfigMap/0 deleted", "ConfigMap/1 deleted?"], "rule 13");
        let rule_14 = "ConfigMap/0 finalizer=a/h <- ConfigMap/1!\nConfigMap/1 <- ConfigMap/0!";
        assert_eq!(
            fates(rule_14, &["ConfigMap/0"], Foreground),
            ["ConfigMap/0 held [a/h]", "ConfigMap/1 waits?"],
            "rule 14"
        );
    }

    /// `Kind/name fate|otherwise`, where a race decides.
    fn races(text: &str, targets: &[&str], policy: Policy) -> Vec<String> {
        let graph = graph(text);
        let targets: Vec<usize> = targets.iter().map(|target| at(&graph, target)).collect();
        let forecast = forecast(&graph, &targets, policy);
        let uncertain = forecast.entries.iter().filter(|entry| !entry.certain);
        uncertain
            .map(|entry| {
                let otherwise: Vec<&str> = entry.otherwise.iter().map(|fate| fate.as_str()).collect();
                let label = label(graph.object(entry.object));
                format!("{label} {}|{}", entry.fate.as_str(), otherwise.join("|"))
            })
            .collect()
    }

    #[test]
    fn several_retries_race_each_for_itself() {
        let text = "ConfigMap/0
            ConfigMap/1 <- ConfigMap/0!
            ConfigMap/2 terminating finalizer=foregroundDeletion <- ConfigMap/1!
            ConfigMap/3 terminating finalizer=a/h <- ConfigMap/2!
            Secret/1 <- ConfigMap/0!
            Secret/2 terminating finalizer=foregroundDeletion <- Secret/1!
            Secret/3 terminating finalizer=a/h <- Secret/2!";
        assert_eq!(
            races(text, &["ConfigMap/0"], Foreground),
            ["ConfigMap/1 deleted|held", "Secret/1 deleted|held"]
        );
    }

    #[test]
    fn the_collector_works_between_the_deletes_of_several_targets() {
        let text = "ConfigMap/0\nConfigMap/1 <- ConfigMap/0!\nSecret/2 finalizer=a/h <- ConfigMap/1!";
        assert_eq!(
            races(text, &["ConfigMap/0", "Secret/2"], Foreground),
            ["ConfigMap/0 deleted|held", "ConfigMap/1 deleted|held"]
        );
    }

    #[test]
    fn an_object_whose_owners_turn_to_waiting_one_after_the_other_may_lose_a_reference() {
        let text = "ConfigMap/0
            ConfigMap/1 finalizer=a/h <- ConfigMap/0!
            ConfigMap/2 <- ConfigMap/1!
            ConfigMap/3 <- ConfigMap/0!
            ConfigMap/5 finalizer=a/h <- ConfigMap/3!, ConfigMap/2!";
        assert_eq!(races(text, &["ConfigMap/0"], Foreground), ["ConfigMap/3 deleted|held"]);
    }

    #[test]
    fn an_owner_without_blockers_may_let_go_before_its_dependents_are_looked_at() {
        let text = "ConfigMap/0
            ConfigMap/1 <- ConfigMap/0!
            ConfigMap/2 finalizer=a/h <- ConfigMap/1
            ConfigMap/3 <- ConfigMap/2";
        assert_eq!(races(text, &["ConfigMap/0"], Foreground), ["ConfigMap/3 deleted|waits"]);
    }

    #[test]
    fn what_a_preset_orphan_spares_depends_on_when_its_owner_lets_go() {
        let text = "ConfigMap/0
            ConfigMap/1 <- ConfigMap/0
            ConfigMap/2 finalizer=orphan <- ConfigMap/1, ConfigMap/0
            Lease/3 <- ConfigMap/2!";
        assert_eq!(races(text, &["ConfigMap/0"], Foreground), ["Lease/3 deleted|orphaned"]);
    }

    #[test]
    fn an_object_that_loses_one_owner_while_another_is_orphaned_may_survive() {
        let text = "ConfigMap/0
            ConfigMap/1 <- ConfigMap/0
            ConfigMap/2 finalizer=a/h <- ConfigMap/3, ConfigMap/1
            ConfigMap/3 finalizer=a/h finalizer=orphan <- ConfigMap/0";
        assert_eq!(races(text, &["ConfigMap/0"], Background), ["ConfigMap/2 held|orphaned"]);
    }

    #[test]
    fn a_foreground_deletion_that_is_under_way_goes_on() {
        let text = "ConfigMap/o terminating finalizer=foregroundDeletion
                    Secret/a <- ConfigMap/o!
                    Secret/b terminating finalizer=a/h <- ConfigMap/o!";
        assert_eq!(
            fates(text, &["ConfigMap/o"], Foreground),
            ["ConfigMap/o held [Secret/b]", "Secret/a deleted", "Secret/b held [a/h]"]
        );
    }

    #[test]
    fn a_pod_on_a_node_waits_for_its_kubelet_and_its_dependents_with_it() {
        let text = "Pod/p node=n1\nConfigMap/c <- Pod/p\nPod/free\nSecret/s <- Pod/free";
        assert_eq!(fates(text, &["Pod/p"], Background), ["ConfigMap/c waits", "Pod/p held [node n1]"]);
        // Not blocking: the Pod may lose its finalizer before the ConfigMap is looked at, and then be solid (rule 16).
        assert_eq!(fates(text, &["Pod/p"], Foreground), ["ConfigMap/c deleted?", "Pod/p held [node n1]"]);
        let blocking = "Pod/p node=n1\nConfigMap/c <- Pod/p!";
        assert_eq!(fates(blocking, &["Pod/p"], Foreground), ["ConfigMap/c deleted", "Pod/p held [node n1]"]);
        assert_eq!(fates(text, &["Pod/free"], Background), ["Pod/free deleted", "Secret/s deleted"]);
        let finished =
            "Job/j\nPod/p node=n1 phase=Succeeded finalizer=batch.kubernetes.io/job-tracking <- Job/j!*";
        assert_eq!(fates(finished, &["Job/j"], Background), ["Job/j deleted", "Pod/p deleted"]);
    }

    #[test]
    fn a_namespace_deletes_its_pods_first_and_then_the_rest() {
        let free = "Namespace/x\nPod/p\nConfigMap/c\nother:Secret/s";
        assert_eq!(
            fates(free, &["Namespace/x"], Background),
            ["ConfigMap/c deleted", "Namespace/x deleted", "Pod/p deleted"]
        );
        let held = "Namespace/x\nPod/p finalizer=a/h\nConfigMap/c";
        assert_eq!(
            fates(held, &["Namespace/x"], Background),
            ["ConfigMap/c waits", "Namespace/x held [kubernetes]", "Pod/p held [a/h]"]
        );
    }

    #[test]
    fn a_definition_takes_its_instances_along_whatever_the_policy() {
        let text = "CustomResourceDefinition/widgets.example.test finalizer=customresourcecleanup.apiextensions.k8s.io
                    Widget/a
                    Widget/b finalizer=a/h
                    ConfigMap/c <- Widget/a";
        for policy in [Background, Foreground] {
            assert_eq!(
                fates(text, &["CustomResourceDefinition/widgets.example.test"], policy),
                [
                    "ConfigMap/c deleted",
                    "CustomResourceDefinition/widgets.example.test held [customresourcecleanup.apiextensions.k8s.io]",
                    "Widget/a deleted",
                    "Widget/b held [a/h]"
                ]
            );
        }
    }

    #[test]
    fn a_claim_goes_unless_a_pod_on_a_node_names_it() {
        let claim = "PersistentVolumeClaim/c finalizer=kubernetes.io/pvc-protection <- ConfigMap/o!";
        let free = format!("ConfigMap/o\n{claim}\nPod/p claim=c");
        assert_eq!(fates(&free, &["ConfigMap/o"], Foreground)[1], "PersistentVolumeClaim/c deleted");
        let used = format!("ConfigMap/o\n{claim}\nPod/p claim=c node=n1 phase=Succeeded");
        assert_eq!(
            fates(&used, &["ConfigMap/o"], Foreground),
            [
                "ConfigMap/o held [PersistentVolumeClaim/c]",
                "PersistentVolumeClaim/c held [kubernetes.io/pvc-protection]"
            ]
        );
    }

    #[test]
    fn what_a_terminating_container_deletes_is_deleted_and_not_collected_anyway() {
        let namespace = "Namespace/x terminating spec=kubernetes
                         Secret/a
                         Secret/b
                         Secret/dangling <- ConfigMap/gone
                         Secret/held finalizer=a/h";
        let expected = [
            "Namespace/x held [kubernetes]",
            "Secret/a deleted",
            "Secret/b deleted",
            "Secret/dangling deleted",
            "Secret/held held [a/h]",
        ];
        assert_eq!(fates(namespace, &["Namespace/x"], Background), expected);
        let live = namespace.replacen(" terminating", "", 1);
        assert_eq!(fates(&live, &["Namespace/x"], Background), expected, "as in one that is not deleted yet");
        // What hangs on the content goes with it.
        let definition = "CustomResourceDefinition/widgets.example.test terminating
                          Widget/a
                          ConfigMap/c <- Widget/a
                          ConfigMap/dangling <- ConfigMap/gone";
        assert_eq!(
            fates(definition, &["CustomResourceDefinition/widgets.example.test"], Background),
            [
                "ConfigMap/c deleted",
                "CustomResourceDefinition/widgets.example.test deleted",
                "Widget/a deleted"
            ]
        );
        // Its own target: what dangles beside is none of it.
        let inside = "Namespace/x terminating\nConfigMap/o\nSecret/of <- ConfigMap/o\nSecret/two <- ConfigMap/o, ConfigMap/gone";
        assert_eq!(
            fates(inside, &["ConfigMap/o"], Foreground),
            ["ConfigMap/o deleted", "Secret/of deleted", "Secret/two deleted"]
        );
    }

    #[test]
    fn what_is_terminating_with_a_finalizer_is_held_by_it_though_its_owner_is_gone_already() {
        let text = "Namespace/x
                    ConfigMap/stuck finalizer=a/h terminating <- ConfigMap/gone
                    ConfigMap/free terminating finalizer=foregroundDeletion <- ConfigMap/gone
                    ConfigMap/live <- ConfigMap/gone";
        assert_eq!(
            fates(text, &["Namespace/x"], Background),
            [
                "ConfigMap/free deleted",
                "ConfigMap/live deleted",
                "ConfigMap/stuck held [a/h]",
                "Namespace/x held [kubernetes]"
            ]
        );
        let wrong = "ConfigMap/o uid=u\nSecret/kind finalizer=a/h terminating <- Secret/o@u";
        assert_eq!(
            fates(wrong, &["ConfigMap/o"], Background),
            ["ConfigMap/o deleted", "Secret/kind held [a/h]"]
        );
    }

    #[test]
    fn references_of_the_wrong_kind_name_or_namespace_are_collected_anyway() {
        let text = "ConfigMap/o uid=u
                    Secret/kind finalizer=a/h <- Secret/o@u
                    Secret/name finalizer=a/h <- ConfigMap/other@u
                    other:Secret/space finalizer=a/h <- x:ConfigMap/o";
        let ends = fates(text, &["ConfigMap/o"], Background);
        assert_eq!(
            ends,
            [
                "ConfigMap/o deleted",
                "Secret/kind collected-anyway",
                "Secret/name collected-anyway",
                "other:Secret/space collected-anyway"
            ]
        );
    }

    #[test]
    fn a_kind_that_the_collector_does_not_watch_is_left_behind() {
        let text = "ConfigMap/o\nFleeting/f <- ConfigMap/o!\nEvent/e <- ConfigMap/o";
        assert_eq!(
            fates(text, &["ConfigMap/o"], Foreground),
            ["ConfigMap/o deleted", "Event/e leaked", "Fleeting/f leaked"]
        );
    }

    #[test]
    fn an_owner_that_could_not_be_read_makes_the_end_uncertain() {
        let mut snapshot =
            super::super::testing::snapshot("ConfigMap/o\nSecret/d <- ConfigMap/o!, Widget/w@u!");
        let gap = |resource: &str| Gap {
            resource: resource.to_owned(),
            group: "example.test".to_owned(),
            version: None,
            reason: "Forbidden".to_owned(),
            message: "no".to_owned(),
        };
        snapshot.gaps.push(gap("widgets"));
        let graph = OwnerGraph::new(snapshot);
        let forecast = forecast(&graph, &[at(&graph, "ConfigMap/o")], Background);
        let entry = forecast.entry(at(&graph, "Secret/d")).expect("an entry");
        assert_eq!(
            (entry.fate, entry.certain, entry.otherwise.as_slice()),
            (Fate::Kept, false, &[Fate::Deleted][..])
        );
    }

    #[test]
    fn a_deep_chain_and_a_broad_owner_are_forecast_without_recursion_or_squares() {
        let mut chain = String::from("ConfigMap/0\n");
        for number in 1..10_000 {
            chain.push_str(&format!("ConfigMap/{number} <- ConfigMap/{}!\n", number - 1));
        }
        for policy in [Background, Foreground] {
            let ends = fates(&chain, &["ConfigMap/0"], policy);
            assert!(ends.iter().all(|end| end.ends_with("deleted")), "{policy:?}");
        }
        let mut broad = String::from("ConfigMap/o\n");
        for number in 0..20_000 {
            broad.push_str(&format!("Secret/{number} <- ConfigMap/o!\n"));
        }
        assert!(fates(&broad, &["ConfigMap/o"], Foreground).iter().all(|end| end.ends_with("deleted")));
    }

    /// What `wait` sees: the collector has not come to the dependents yet.
    #[test]
    fn a_deletion_that_is_under_way_goes_on() {
        let text = "ConfigMap/o terminating finalizer=foregroundDeletion
                    Secret/d <- ConfigMap/o!
                    Secret/e <- ConfigMap/o
                    Secret/f <- Secret/d!";
        let expected = ["ConfigMap/o deleted", "Secret/d deleted", "Secret/e deleted", "Secret/f deleted"];
        assert_eq!(fates(text, &["ConfigMap/o"], Policy::Foreground), expected);
        let text = "ConfigMap/o terminating finalizer=orphan\nSecret/d <- ConfigMap/o!\nSecret/e <- Secret/d";
        let expected = ["ConfigMap/o deleted", "Secret/d orphaned", "Secret/e kept"];
        assert_eq!(fates(text, &["ConfigMap/o"], Policy::Orphan), expected);
    }

    #[test]
    fn a_policy_switch_on_a_terminating_target_is_forecast_from_where_it_stands() {
        let text = "ConfigMap/o terminating finalizer=foregroundDeletion
                    Secret/d terminating finalizer=a/h <- ConfigMap/o!";
        assert_eq!(fates(text, &["ConfigMap/o"], Background), ["ConfigMap/o deleted", "Secret/d held [a/h]"]);
        let waits = "ConfigMap/o terminating finalizer=a/h\nSecret/d <- ConfigMap/o!";
        assert_eq!(fates(waits, &["ConfigMap/o"], Background), ["ConfigMap/o held [a/h]", "Secret/d waits"]);
        assert_eq!(
            fates(waits, &["ConfigMap/o"], Foreground),
            ["ConfigMap/o held [a/h]", "Secret/d deleted"]
        );
    }
}
