//! The one failure type, its exit codes, and the one place that words a client's error for a person.
//!
//! A failure says what failed, on which object, in the server's own words; then, on a line of its own, a hint with
//! what to do. The kind alone decides the exit code.

use std::fmt;

use crate::cluster::request::Trouble;

/// What sort of failure this is; it alone decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Connection, missing right, not found, unknown kind: exit code 1.
    Error,
    /// The command line is wrong: exit code 2.
    Usage,
    /// Not finished, or not verifiable: exit code 3.
    Unfinished,
    /// Declined, no yes without a terminal, replaced meanwhile, refused by admission: exit code 4.
    Refused,
    /// Interrupted by the user: exit code 130.
    Interrupted,
}

/// How a command ended. The numbers are a contract with scripts (design section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitCode {
    /// Done: every object that the forecast dooms is gone, or the question was answered.
    Done = 0,
    /// An error: connection, missing right, not found, unknown kind.
    Error = 1,
    /// Usage.
    Usage = 2,
    /// Not finished: stalled, timed out, or not verifiable.
    Unfinished = 3,
    /// Refused, and nothing was deleted.
    Refused = 4,
    /// Interrupted.
    Interrupted = 130,
}

impl FailureKind {
    /// The exit code that scripts see.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Error => ExitCode::Error,
            Self::Usage => ExitCode::Usage,
            Self::Unfinished => ExitCode::Unfinished,
            Self::Refused => ExitCode::Refused,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}

impl ExitCode {
    /// The exit code of a command that had several targets: the first of 130, 1, 4, 3, 0 that applies to any.
    pub fn worst(codes: impl IntoIterator<Item = Self>) -> Self {
        let rank = |code: &Self| match code {
            Self::Interrupted => 5,
            Self::Error => 4,
            Self::Usage => 3,
            Self::Refused => 2,
            Self::Unfinished => 1,
            Self::Done => 0,
        };
        codes.into_iter().max_by_key(rank).unwrap_or(Self::Done)
    }
}

/// A failure that a user or a cluster can cause: one clear sentence, and a hint with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: FailureKind,
    /// What failed, on which object, in the server's own words. No trailing full stop needed; no Debug output.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// An error of connection, rights or names (exit 1).
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Error, message: message.into(), hint: None }
    }

    /// A wrong command line (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, message: message.into(), hint: None }
    }

    /// Something was refused and nothing was deleted (exit 4).
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Refused, message: message.into(), hint: None }
    }

    /// Accepted, but its end could not be verified (exit 3).
    pub fn unfinished(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Unfinished, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Words a request that failed as kubectl does (`kubectl/pkg/cmd/util/helpers.go`, StandardErrorMessage).
impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::NoAnswer(message) => Self::error(message),
            Trouble::Status { code: 401, message, .. } => {
                Self::error(format!("You must be logged in to the server ({message})"))
                    .hint("the credentials are missing or have expired; log in again, or choose others with --user or --context")
            }
            Trouble::Status { reason, message, .. } if reason.is_empty() => {
                Self::error(format!("Error from server: {message}"))
            }
            Trouble::Status { reason, message, .. } => {
                Self::error(format!("Error from server ({reason}): {message}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_reads_as_in_kubectl() {
        let trouble = |code, reason: &str| Trouble::Status {
            code,
            reason: reason.into(),
            message: r#"pods "x" not found"#.into(),
        };
        assert_eq!(
            Failure::from(trouble(404, "NotFound")).message,
            r#"Error from server (NotFound): pods "x" not found"#
        );
        assert_eq!(Failure::from(trouble(500, "")).message, r#"Error from server: pods "x" not found"#);
        assert!(Failure::from(trouble(401, "Unauthorized")).hint.is_some());
    }

    #[test]
    fn several_targets_end_with_the_first_of_130_1_4_3_0() {
        use ExitCode::*;
        assert_eq!(ExitCode::worst([Done, Unfinished]), Unfinished);
        assert_eq!(ExitCode::worst([Unfinished, Refused]), Refused);
        assert_eq!(ExitCode::worst([Refused, Error]), Error);
        assert_eq!(ExitCode::worst([Error, Interrupted]), Interrupted);
        assert_eq!(ExitCode::worst([]), Done);
    }
}
