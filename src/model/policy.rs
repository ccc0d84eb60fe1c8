//! How a delete is sent: its propagation policy, and what goes with it.

use serde::Serialize;

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

/// How the delete is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteWish {
    /// The policy.
    pub policy: Policy,
    /// `gracePeriodSeconds`, where it is sent. It is for the targets alone: the collector deletes their dependents
    /// with the grace period that each has of its own.
    pub grace_seconds: Option<i64>,
}

impl DeleteWish {
    /// Grace period 0: the kubelet of a target Pod is not waited for.
    pub fn is_forced(self) -> bool {
        self.grace_seconds == Some(0)
    }
}

impl From<Policy> for DeleteWish {
    fn from(policy: Policy) -> Self {
        Self { policy, grace_seconds: None }
    }
}
