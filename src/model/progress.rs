//! How far a deletion has come.

use super::object::ObjectRef;

/// What a person wants to know while a deletion is under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// How many objects are doomed.
    pub total: usize,
    /// How many of them are gone. Never shrinks.
    pub gone: usize,
    /// What is still there: the targets first, then depth first, so that `depth` draws a tree.
    pub remaining: Vec<Remaining>,
    /// How many objects went in a second lately; none while that cannot be said.
    pub rate_per_second: Option<f64>,
    /// About how many seconds it takes until all is gone; none while that cannot be said.
    pub seconds_left: Option<f64>,
    /// How many objects of the doomed set were made again, under another UID, by something else.
    pub recreated: usize,
}

/// One doomed object that is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// The object.
    pub reference: ObjectRef,
    /// How deep it hangs below a target; a target itself is 0.
    pub depth: usize,
    /// What it waits for, for example `waits for finalizer a/b`; empty where nothing is known. May hold texts of
    /// the cluster, not yet sanitized.
    pub why: String,
}
