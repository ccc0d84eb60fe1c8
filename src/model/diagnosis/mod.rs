//! What a stall means: findings, each with a cause, a verdict, the server's own words and safe ways out. The rules
//! are pure functions over [`super::facts::Facts`], a file a family of causes.

use serde::Serialize;

use super::catalog::Gap;
use super::forecast::Holder;
use super::object::ObjectRef;

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
