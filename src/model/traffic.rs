//! What passed between us and the API server, for whoever wants to see it (`-v`). Never a header, never a body: there the
//! credentials and the Secrets are.

use std::time::Duration;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traffic {
    /// A request has ended.
    Request {
        /// For example `GET`.
        method: String,
        /// Path and query.
        path: String,
        /// How it ended.
        end: Ended,
        /// From sending it to its end; of a watch, to the head of its answer.
        took: Duration,
    },
    /// The same request is sent once more after a pause.
    Again {
        /// For example `GET`.
        method: String,
        /// Path and query.
        path: String,
        /// How long the pause is.
        pause: Duration,
    },
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With an answer, a refusal included.
    Answered {
        /// HTTP status.
        status: u16,
        /// Bytes of the body that were read, unpacked.
        bytes: usize,
    },
    /// With a stream of events that stays open.
    Open {
        /// HTTP status.
        status: u16,
    },
    /// Without an answer, or nobody waited for it any longer.
    NoAnswer,
}
