//! Flag values as model values, for every verb.

use std::time::Duration;

use super::connection::{time_limit, time_span};
use super::follow::Limits;
use crate::cli::{FollowArgs, PolicyArg, Probe};
use crate::error::Failure;
use crate::model::diagnosis::Probing;
use crate::model::policy::Policy;

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

/// Does something that may take long, for so long at most; none where it took longer. Without a limit it takes its time.
pub async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// How long to follow, from `--timeout` and `--stall-timeout`.
///
/// # Errors
/// Not a duration, or a stall timeout of nothing.
pub fn limits(follow: &FollowArgs) -> Result<Limits, Failure> {
    let limits = Limits {
        timeout: time_limit("--timeout", &follow.timeout)?,
        stall: time_span("--stall-timeout", &follow.stall_timeout)?,
    };
    if limits.stall == Duration::ZERO {
        return Err(Failure::usage("--stall-timeout must be greater than 0")
            .hint("write for example --stall-timeout 60s"));
    }
    Ok(limits)
}
