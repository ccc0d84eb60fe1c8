//! How many requests may be under way at once: as many as asked, until the server says that it is busy (429). Then
//! half as many, and one more after each round that went well. The server's own flow control (API priority and
//! fairness) knows better than a fixed rate what it can bear, so there is no token bucket.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// The pace of all requests of one run.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    state: Mutex<State>,
    free: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// None until the server was busy for the first time.
    limit: Option<usize>,
    /// Answers since the limit last changed.
    well: usize,
}

/// The right to have one request under way; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn<'p>(&'p Pace);

impl Pace {
    /// Waits until one more may be under way.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        loop {
            let free = self.free.notified();
            {
                let mut state = self.state();
                if state.limit.is_none_or(|limit| state.under_way < limit) {
                    state.under_way += 1;
                    return Turn(self);
                }
            }
            free.await;
        }
    }

    /// The limit that is in force, where the server was ever busy.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> Option<usize> {
        self.state().limit
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The server turned this request away because it is busy.
    pub(crate) fn was_too_much(&self) {
        let mut state = self.0.state();
        // Many that were sent together are turned away together: that halves once, since what is under way shrinks
        // no faster than it is answered.
        let half = (state.under_way / 2).max(1);
        state.limit = Some(state.limit.map_or(half, |limit| limit.min(half)));
        state.well = 0;
    }

    /// The server took it.
    pub(crate) fn went_well(&self) {
        let mut state = self.0.state();
        let Some(limit) = state.limit else { return };
        state.well += 1;
        if state.well >= limit {
            state.limit = Some(limit + 1);
            state.well = 0;
            self.0.free.notify_one();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Turns that may be taken now, at most ten.
    fn turns(pace: &Pace) -> Vec<Turn<'_>> {
        std::iter::from_fn(|| pace.turn().now_or_never()).take(10).collect()
    }

    #[test]
    fn nothing_is_held_back_before_the_server_was_busy() {
        let pace = Pace::default();
        assert_eq!(turns(&pace).len(), 10);
        assert_eq!(pace.limit(), None);
    }

    #[test]
    fn a_busy_server_halves_what_is_under_way_and_rounds_that_go_well_raise_it_again() {
        let pace = Pace::default();
        let first = turns(&pace);
        first.iter().for_each(Turn::was_too_much);
        drop(first);
        assert_eq!(pace.limit(), Some(5));
        let second = turns(&pace);
        assert_eq!(second.len(), 5);
        second.iter().for_each(Turn::went_well);
        drop(second);
        assert_eq!(turns(&pace).len(), 6);
    }

    #[test]
    fn one_request_may_always_be_under_way() {
        let pace = Pace::default();
        for _ in 0..5 {
            turns(&pace)[0].was_too_much();
        }
        assert!(!turns(&pace).is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_gets_the_turn_that_is_given_back() {
        let pace = Pace::default();
        let only = pace.turn().await;
        only.was_too_much();
        let waiting = pace.turn();
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(only);
        waiting.await;
    }
}
