//! What time it is in the cluster. Deadlines that the API server wrote (the end of a grace period) can only be compared
//! with its own clock, and a wait must not be misled by a clock here that is wrong or is set meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

/// The server's `Date` has whole seconds and comes late; so much difference is none.
const SAME: SignedDuration = SignedDuration::from_secs(5);

/// A clock that runs evenly, and is set by the server's `Date` where that differs from ours.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<Mutex<Setting>>);

#[derive(Debug, Clone, Copy)]
struct Setting {
    at: Instant,
    time: Timestamp,
}

impl Clock {
    /// As our own clock says, until the server says otherwise.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Setting { at: Instant::now(), time: Timestamp::now() })))
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.setting().now()
    }

    /// An answer of the server bears this date.
    pub(crate) fn read(&self, date: Timestamp) {
        let mut setting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if date.duration_since(setting.now()).abs() > SAME {
            *setting = Setting { at: Instant::now(), time: date };
        }
    }

    fn setting(&self) -> Setting {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Setting {
    fn now(self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.at.elapsed()).unwrap_or(SignedDuration::MAX);
        self.time.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_set_by_the_server_only_where_they_differ() {
        let clock = Clock::new();
        let before = clock.now();
        clock.read(before - SignedDuration::from_secs(2));
        assert!(clock.now() >= before, "two seconds are no difference");
        for hours in [-1, 1] {
            let there = Timestamp::now() + SignedDuration::from_hours(hours);
            clock.read(there);
            assert!(clock.now().duration_since(there).abs() < SignedDuration::from_secs(1));
        }
    }
}
