//! What earlier deletions left behind.

use serde::Serialize;

use super::catalog::Gap;
use super::diagnosis::Cause;
use super::object::{ObjectRef, Timestamp, Uid};

/// An owner that is gone: all that is known of it is what its dependent says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerOwner {
    /// `group/version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
}

/// An object that was left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The object.
    pub reference: ObjectRef,
    /// Why nothing will collect it.
    pub cause: Cause,
    /// What it belonged to; none for a cycle.
    pub of: Option<FormerOwner>,
    /// creationTimestamp.
    pub created: Option<Timestamp>,
    /// A complete command to remove it.
    pub command: String,
}

/// The whole answer of `orphans`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// What was left behind.
    pub objects: Vec<Orphan>,
    /// Kinds that could not be read.
    pub gaps: Vec<Gap>,
}
