//! What exactly a delete will do, object by object, before anything is deleted.

use serde::Serialize;

use super::catalog::Gap;
use super::graph::OwnerGraph;
use super::object::{ObjectRef, Searched};

/// How a delete propagates to dependents. Always sent explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The object first; the collector deletes its dependents when it is gone.
    Background,
    /// The dependents first; the object stays until no blocking one is left.
    Foreground,
    /// The object alone; its direct dependents lose their reference and live.
    Orphan,
}

impl Policy {
    /// As the API spells it in `propagationPolicy`.
    pub fn as_api(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// As the command line spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Foreground => "foreground",
            Self::Orphan => "orphan",
        }
    }
}

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

/// Forecasts the delete of `targets` (indices in the graph) with one policy.
pub fn forecast(graph: &OwnerGraph, targets: &[usize], policy: Policy) -> Forecast {
    let entries = graph
        .closure(targets)
        .into_iter()
        .map(|object| Entry {
            object,
            fate: Fate::Deleted,
            certain: true,
            otherwise: Vec::new(),
            held_by: Vec::new(),
            reason: String::new(),
        })
        .collect();
    let snapshot = graph.snapshot();
    Forecast {
        policy,
        targets: targets.to_vec(),
        entries,
        warnings: Vec::new(),
        searched: snapshot.searched.clone(),
        gaps: snapshot.gaps.clone(),
    }
}
