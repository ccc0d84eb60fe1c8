//! How a deletion ended, by UID.

use serde::Serialize;

use super::catalog::Gap;
use super::diagnosis::{Finding, Unchecked};
use super::object::ObjectRef;
use super::policy::Policy;

/// How a deletion ended. The names are a contract (design section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every doomed object is gone, and everything was readable.
    Complete,
    /// Everything that was seen is gone; some kinds were not readable.
    CompleteWithGaps,
    /// Accepted; nobody waited.
    NotWaited,
    /// Accepted, but we could not look again.
    Unverified,
    /// Nothing changed for too long.
    Stalled,
    /// The user's own time limit was reached.
    TimedOut,
    /// A target was refused; with several targets, others may be gone.
    Refused,
    /// Interrupted by the user.
    Interrupted,
}

impl Outcome {
    /// As the output contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CompleteWithGaps => "complete-with-gaps",
            Self::NotWaited => "not-waited",
            Self::Unverified => "unverified",
            Self::Stalled => "stalled",
            Self::TimedOut => "timed-out",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How far it came. Only a text for a person needs it beside the outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// The server accepted no DELETE.
    #[default]
    NothingSent,
    /// Nothing had to be sent: it was being deleted that way already. Nobody looked again.
    UnderWay,
    /// Whether it accepted the last one that was sent is not known.
    Unclear,
    /// It accepted one, and nobody looked again.
    Accepted,
    /// It accepted one, and it was followed.
    Followed,
}

/// An object that was made again under another UID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recreated {
    /// The one that is gone.
    pub was: ObjectRef,
    /// The one that bears its name now.
    pub now: ObjectRef,
}

/// An object that did not end as forecast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unexpected {
    /// The object.
    #[serde(rename = "ref")]
    pub reference: ObjectRef,
    /// What it did instead, in one sentence.
    pub note: String,
}

/// The whole answer of `delete` and `wait`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionResult {
    /// How far it came.
    #[serde(skip)]
    pub stage: Stage,
    /// How it ended; with several targets, the one that gave the exit code.
    pub outcome: Outcome,
    /// The policy that was sent, or that the objects' finalizers tell of.
    pub policy: Policy,
    /// Seconds from the accepted DELETE (of `wait`: from the first look) to the end.
    pub elapsed_seconds: f64,
    /// Doomed, and proven gone.
    pub deleted: Vec<ObjectRef>,
    /// Survived as forecast: read again at the end.
    pub kept: Vec<ObjectRef>,
    /// Survived, and the reference is gone: read again at the end.
    pub orphaned: Vec<ObjectRef>,
    /// No living owner is left, yet it is never collected.
    pub leaked: Vec<ObjectRef>,
    /// Doomed and still there, marked or not, a target whose DELETE was refused included.
    pub remaining: Vec<ObjectRef>,
    /// Made again under another UID.
    pub recreated: Vec<Recreated>,
    /// Did not end as forecast.
    pub unexpected: Vec<Unexpected>,
    /// Why the remaining ones do not go.
    pub findings: Vec<Finding>,
    /// What could not be checked.
    pub unchecked: Vec<Unchecked>,
    /// Kinds that could not be read.
    pub gaps: Vec<Gap>,
}

impl DeletionResult {
    /// An answer with nothing in it yet.
    pub fn new(outcome: Outcome, policy: Policy) -> Self {
        Self {
            stage: Stage::default(),
            outcome,
            policy,
            elapsed_seconds: 0.0,
            deleted: Vec::new(),
            kept: Vec::new(),
            orphaned: Vec::new(),
            leaked: Vec::new(),
            remaining: Vec::new(),
            recreated: Vec::new(),
            unexpected: Vec::new(),
            findings: Vec::new(),
            unchecked: Vec::new(),
            gaps: Vec::new(),
        }
    }
}
