//! How a long snapshot comes along: one line on a terminal, only when it takes a while.

use std::time::{Duration, Instant};

use dialoguer::console::{Term, is_dumb};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Nothing is shown before.
const QUIET: Duration = Duration::from_millis(250);

/// The line.
pub struct ListingView {
    started: Instant,
    bar: Option<ProgressBar>,
    terminal: bool,
}

impl ListingView {
    /// On standard error; nothing where that is no terminal that can move its cursor.
    pub fn stderr(now: Instant) -> Self {
        Self { started: now, bar: None, terminal: Term::stderr().is_term() && !is_dumb() }
    }

    /// Nowhere.
    pub fn silent(now: Instant) -> Self {
        Self { started: now, bar: None, terminal: false }
    }

    /// So many of so many lists are in, with so many objects.
    pub fn update(&mut self, done: usize, lists: usize, objects: usize, now: Instant) {
        if !self.terminal || now.duration_since(self.started) < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is a constant; one that does not parse leaves the usual style.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(format!("listing {done} of {lists} kinds, {objects} objects"));
        bar.tick();
    }

    /// Takes the line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ListingView {
    fn drop(&mut self) {
        self.finish();
    }
}
