//! What a stall means: findings, each with a cause, a verdict, the server's own words and safe ways out.
//!
//! The rules are pure, a file a family of causes. A rule *asks* ([`Inquiry::ask`]) for what it needs to know; what
//! is not known yet is written down and asked of the server, and the rules run again with the answers, until nothing
//! is left to ask. So the decision order stands in one place, and what is asked can never differ from what is used.
//! The loop around it is `cluster::evidence::examine`.

mod admission;
mod candidate;
mod collector;
mod container;
mod event;
mod finalizer;
mod inquiry;
mod live;
mod ownership;
mod pod;
mod reading;
mod recreated;
mod remedy;
mod stored;
#[cfg(test)]
mod tests;
mod volume;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use self::admission::Refused;
pub use self::finalizer::{Known, served};
use self::inquiry::Inquiry;
pub use self::recreated::recreated_by_owner;
use super::catalog::Gap;
use super::command::Caller;
use super::facts::{Facts, Identity, Question, Reply};
use super::forecast::Holder;
use super::graph::OwnerGraph;
use super::object::{ObjectRef, Timestamp, Uid};

/// Why an object does not go. The names are a contract (design section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each is defined, with its evidence, in design section 3")]
pub enum Cause {
    FinalizerHeld,
    AdmissionDenied,
    AdmissionUnreachable,
    ObjectInvalid,
    KindUnreadable,
    OwnerKindUnserved,
    ClusterScopedDependent,
    CrossNamespaceOwner,
    KindNotCollectable,
    OwnsItself,
    OwnershipCycle,
    DependentsRecreated,
    RecreatedByOwner,
    CollectorDown,
    CollectorForbidden,
    CollectorBackoff,
    CollectorStale,
    StorageFull,
    DependentsWaitForOwner,
    KeptByOtherOwner,
    OrphanedByDefault,
    NamespaceWaitsForPods,
    NamespaceWaitsForContent,
    NamespaceFinalizer,
    NamespaceControllerDown,
    ApiServiceUnavailable,
    CrdWaitsForInstances,
    GracePeriod,
    NodeUnreachable,
    NodeMissing,
    KubeletStuck,
    MirrorPod,
    JobTracking,
    ClaimInUse,
    VolumeBound,
    VolumeNotReleased,
    LoadBalancerCleanup,
    Progressing,
    Undetermined,
    /// Only in `orphans`: an ownerReference whose owner is absent, where nothing will collect the dependent.
    OwnerAbsent,
    /// Only in `orphans`: a claim of a deleted StatefulSet.
    ClaimLeftBehind,
}

/// How sure we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A probe reproduced the refusal, or the object itself states it.
    Proven,
    /// The state fits, nothing reproduced it.
    Consistent,
    /// The rights to find out are missing.
    Unknown,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evidence {
    /// Where it is from: the request that was sent, or the field that was read.
    pub source: String,
    /// The server's answer, verbatim.
    pub text: String,
}

/// A way out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remedy {
    /// A complete command to copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What to do.
    pub text: String,
    /// What it costs, or leaves behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
}

/// The actor behind a stall, where one is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the fields are those of the contract in design section 3")]
pub struct Actor {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
}

/// One reason why something does not go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The most specific cause that is true of the leaf.
    pub cause: Cause,
    /// Further causes that are true.
    pub also: Vec<Cause>,
    /// How sure we are.
    pub verdict: Verdict,
    /// The leaf that does not move.
    pub object: ObjectRef,
    /// The path from the target to it, both ends included.
    pub chain: Vec<ObjectRef>,
    /// One sentence for a person.
    pub summary: String,
    /// Who, where one is known.
    pub by: Option<Actor>,
    /// The server's own words.
    pub evidence: Vec<Evidence>,
    /// Ways out, safest first.
    pub remedies: Vec<Remedy>,
    /// Further objects of the same kind in the same state; of many only the first few are examined one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<ObjectRef>,
    /// How many of these were not examined.
    #[serde(skip)]
    pub unexamined: usize,
}

impl Finding {
    /// Whether it only says that nothing nearer was found; a look at more of the cluster may find it.
    pub fn is_vague(&self) -> bool {
        let vague = [Cause::Undetermined, Cause::CollectorBackoff, Cause::CollectorStale, Cause::Progressing];
        self.verdict != Verdict::Proven
            && (vague.contains(&self.cause) || self.also.contains(&Cause::CollectorBackoff))
    }

    /// Whether somebody refuses what would free the object, which no waiting changes.
    fn is_refusal(&self) -> bool {
        let refusals = [
            Cause::AdmissionDenied,
            Cause::AdmissionUnreachable,
            Cause::ObjectInvalid,
            Cause::KindUnreadable,
            Cause::StorageFull,
            Cause::CollectorForbidden,
        ];
        self.verdict == Verdict::Proven && refusals.contains(&self.cause)
    }

    /// Says, where nothing nearer was found, that not everything could be looked at where the cause may be.
    pub fn may_be_blocked_unseen(&mut self) {
        if self.is_vague() && self.cause != Cause::Progressing {
            self.summary.push_str("; or a dependent blocks it in a namespace that you may not look into");
        }
    }
}

/// What a diagnosed object is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not there any more (by UID), or never was.
    Gone,
    /// Not being deleted.
    Live,
    /// Being deleted, and it moves or has time left.
    Waiting,
    /// Being deleted, and it does not move.
    Stuck,
}

/// What the server says to a dry run of the DELETE of a live object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DryRun {
    /// Its deletion would begin.
    Accepted,
    /// Somebody refuses it; a finding says who.
    Refused,
    /// It was not asked, or the answer says nothing of the object; `unchecked` says why.
    Unknown,
}

/// One diagnosed object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosed {
    /// The object.
    #[serde(rename = "ref")]
    pub reference: ObjectRef,
    /// What it is doing.
    pub state: State,
    /// For a live object: what would hold it if it were deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_hold: Option<Vec<Holder>>,
    /// For a live object: whether its DELETE would be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRun>,
}

impl Diagnosed {
    /// An object in this state, which is not [`State::Live`]: of a live one more is to be said.
    pub fn new(reference: ObjectRef, state: State) -> Self {
        Self { reference, state, would_hold: None, dry_run: None }
    }
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unchecked {
    /// Which check.
    pub check: String,
    /// Why not: the missing right, or the failure in the server's words.
    pub why: String,
}

/// The whole answer of `diagnose`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The targets; without a target, everything Terminating.
    pub objects: Vec<Diagnosed>,
    /// Why they do not go.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unchecked: Vec<Unchecked>,
    /// Kinds that could not be read.
    pub gaps: Vec<Gap>,
}

impl Diagnosis {
    /// What holds the stuck objects, each once, in the order of the findings: the leaves, not what waits for them.
    pub fn holding(&self) -> Vec<&ObjectRef> {
        let stuck = self.objects.iter().filter(|object| object.state == State::Stuck);
        let stuck: BTreeSet<&Uid> = stuck.map(|object| &object.reference.uid).collect();
        let holds = |finding: &&Finding| {
            let waits = matches!(finding.cause, Cause::Progressing | Cause::GracePeriod);
            !waits && finding.chain.iter().any(|link| stuck.contains(&link.uid))
        };
        let mut told = BTreeSet::new();
        let leaves = self
            .findings
            .iter()
            .filter(holds)
            .flat_map(|finding| std::iter::once(&finding.object).chain(&finding.alike));
        leaves.filter(|leaf| told.insert(*leaf)).collect()
    }
}

/// How far probes may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Probing {
    /// Only GET and LIST.
    Read,
    /// Also dry runs, which leave nothing behind.
    #[default]
    DryRun,
    /// Also a short-lived ConfigMap, to see whether the collector works.
    Canary,
}

/// How fast a deletion goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Objects that are still there.
    pub left: usize,
    /// Objects that went per second; none where that is not known.
    pub per_second: Option<f64>,
}

/// What is to be explained.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// The objects that were asked about, there or not.
    pub targets: Vec<ObjectRef>,
    /// Objects that should be gone and are still there, marked or not: the doomed ones of a forecast. What hangs in
    /// Terminating below a target is explained without being listed here.
    pub doomed: Vec<ObjectRef>,
    /// Objects that were created after the deletion of their owner began, each UID once, gone again or not.
    pub created_later: Vec<ObjectRef>,
    /// The targets below which something moves, and how fast. Nothing else is said of them.
    pub moving: BTreeMap<Uid, Pace>,
    /// The targets that did not change while everything below them went: their own end may come at once, or never.
    pub emptied: BTreeSet<Uid>,
    /// Whether to find out of live targets what would hold them; otherwise nothing is asked about these.
    pub foresees: bool,
    /// The time now, by the server's clock as far as it is known.
    pub now: Timestamp,
    /// For suggested commands.
    pub caller: Caller,
    /// How far probes may go.
    pub probing: Probing,
}

/// What the rules still want to know before their answer is final.
pub fn questions(graph: &OwnerGraph, case: &Case, facts: &Facts) -> Vec<Question> {
    inquire(graph, case, facts).1
}

/// What the facts say. Final once [`questions`] is empty; before that, a provisional answer.
pub fn diagnose(graph: &OwnerGraph, case: &Case, facts: &Facts) -> Diagnosis {
    inquire(graph, case, facts).0
}

/// One run of all rules: the (provisional) answer, and what they still want to know.
pub fn inquire(graph: &OwnerGraph, case: &Case, facts: &Facts) -> (Diagnosis, Vec<Question>) {
    let mut inquiry = Inquiry::new(graph, case, facts);
    inquiry.run();
    inquiry.finish()
}

/// The finding for a request, or its dry run, that the server refused, and what is still to be asked about it: who refuses it, and how
/// to make it accept. `facts` has the reply; the case's first target is the object. None where the reply names no
/// refusal, for example because a right of ours is missing.
pub fn refused(
    graph: &OwnerGraph,
    case: &Case,
    facts: &Facts,
    question: &Question,
) -> (Option<Finding>, Vec<Question>) {
    let what = match question {
        Question::RemoveFinalizer { finalizer, .. } => Refused::Finalizer(finalizer),
        Question::RemoveReference { .. } => Refused::Reference,
        Question::Delete { identity: Identity::Caller, .. } => Refused::Request,
        _ => Refused::Delete,
    };
    let mut inquiry = Inquiry::new(graph, case, facts);
    let probed = inquiry.probe(question);
    let finding =
        probed.and_then(|(reading, reply)| inquiry.refusal(&case.targets, what, question, &reading, reply));
    (finding, inquiry.finish().1)
}

/// The finding for a target whose DELETE the server refused, in its own words.
pub fn refused_delete(target: &ObjectRef, reply: &Reply, caller: &Caller) -> Finding {
    admission::refused_delete(target, reply, caller)
}
