//! Flag values as model values, for every verb.

use crate::cli::{PolicyArg, Probe};
use crate::model::diagnosis::Probing;
use crate::model::forecast::Policy;

/// From the command line's policy to the model's.
pub fn policy(arg: PolicyArg) -> Policy {
    match arg {
        PolicyArg::Background => Policy::Background,
        PolicyArg::Foreground => Policy::Foreground,
        PolicyArg::Orphan => Policy::Orphan,
    }
}

/// From the command line's probe level to the model's.
pub fn probing(arg: Probe) -> Probing {
    match arg {
        Probe::Read => Probing::Read,
        Probe::DryRun => Probing::DryRun,
        Probe::Canary => Probing::Canary,
    }
}
