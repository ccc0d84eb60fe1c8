//! What a person sees while a deletion is under way: on a terminal one region that redraws in place; elsewhere a
//! line at each change, and now and then one that says what is still waited for.

use std::io;
use std::time::{Duration, Instant};

use dialoguer::console::{Term, is_dumb};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::counts::{number, thousands};
use super::diagnosis::Names;
use super::look::{Look, Role};
use super::text::Line;
use crate::model::progress::{Remaining, Summary};

/// Nothing is drawn before: most deletions are over by then.
const QUIET: Duration = Duration::from_millis(250);
/// Between two lines off a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
/// Between two lines that say what is still waited for.
const BETWEEN_REMINDERS: Duration = Duration::from_secs(10);
/// Lines below the bar.
const MOST_LINES: usize = 10;
/// Names in a reminder.
const MOST_NAMES: usize = 5;

/// The view of one deletion's progress. What cannot be shown, because nobody looks any more, is left out.
pub struct ProgressView {
    look: Look,
    started: Instant,
    place: Place,
}

enum Place {
    /// A terminal; the bar once something was drawn.
    Region(Option<ProgressBar>),
    Lines(Lines),
}

struct Lines {
    out: Box<dyn io::Write + Send>,
    last_line: Option<Instant>,
    last_reminder: Instant,
    /// Gone, made again, come meanwhile.
    shown: (usize, usize, usize),
}

impl ProgressView {
    /// A view on standard error: a region where that is a terminal that can move its cursor, else lines.
    pub fn stderr(look: Look, now: Instant) -> Self {
        if Term::stderr().is_term() && !is_dumb() {
            Self { look, started: now, place: Place::Region(None) }
        } else {
            Self::lines(look, Box::new(io::stderr()), now)
        }
    }

    /// A view of plain lines.
    pub fn lines(look: Look, out: Box<dyn io::Write + Send>, now: Instant) -> Self {
        let lines = Lines { out, last_line: None, last_reminder: now, shown: (0, 0, 0) };
        Self { look, started: now, place: Place::Lines(lines) }
    }

    /// Shows how far it is. May be called as often as wanted.
    pub fn update(&mut self, summary: &Summary, now: Instant) {
        match &mut self.place {
            Place::Region(bar) => {
                if now.duration_since(self.started) < QUIET {
                    return;
                }
                // The terminal may have been resized.
                let (rows, columns) = Term::stderr().size_checked().unwrap_or((24, 80));
                let look = Look { width: Some(usize::from(columns).saturating_sub(1)), ..self.look };
                let text = region(look, summary, usize::from(rows)).join("\n");
                bar.get_or_insert_with(new_bar).set_message(text);
            }
            Place::Lines(lines) => lines.update(self.look, summary, now),
        }
    }

    /// Shows a line that stays, above the region.
    pub fn note(&mut self, text: &str) {
        let look = match self.place {
            // The terminal may have been resized.
            Place::Region(_) => {
                let size = Term::stderr().size_checked();
                Look { width: size.map(|(_, columns)| usize::from(columns)).or(self.look.width), ..self.look }
            }
            Place::Lines(_) => self.look,
        };
        for line in Line::new().plain(text).wrapped(look, 2) {
            let line = line.render(look);
            match &mut self.place {
                Place::Region(Some(bar)) => bar.println(line),
                Place::Region(None) => {
                    let _ = Term::stderr().write_line(&line);
                }
                Place::Lines(lines) => {
                    let _ = writeln!(lines.out, "{line}");
                }
            }
        }
    }

    /// Clears the region; lines stay.
    pub fn finish(&mut self) {
        if let Place::Region(bar) = &mut self.place
            && let Some(bar) = bar.take()
        {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ProgressView {
    fn drop(&mut self) {
        self.finish();
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    // The text is all ours; the bar redraws it in place. This template is a valid one, and the fall-back shows it.
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    bar.with_style(style)
}

/// The lines of the region: the bar, and below it what is still there and why, at most ten lines and at most the
/// screen.
fn region(look: Look, summary: &Summary, rows: usize) -> Vec<String> {
    let cells = look.width.map_or(20, |width| (width / 4).clamp(5, 24));
    let full = (cells * summary.gone.min(summary.total)).checked_div(summary.total).unwrap_or(0);
    let (done, left) = (look.glyph("█", "#"), look.glyph("░", "-"));
    let bar = Line::new()
        .styled(Role::Good, done.repeat(full))
        .styled(Role::Dim, left.repeat(cells - full))
        .plain(format!(" {}", counts(summary)));
    let mut lines = vec![bar.cut(look).render(look)];
    let room = MOST_LINES.min(rows.saturating_sub(2));
    let left = summary.total.saturating_sub(summary.gone);
    let named = |lines: usize| summary.remaining.iter().take(lines).map(|one| one.count).sum::<usize>();
    let shown = if left > named(room) { room.saturating_sub(1) } else { room }.min(summary.remaining.len());
    let names = names(summary);
    for remaining in &summary.remaining[..shown] {
        let indent = "  ".repeat(remaining.depth.min(10) + 1);
        let mut line = Line::new().plain(indent).plain(name(look, &names, remaining));
        if !remaining.why.is_empty() {
            line.push(Role::Dim, format!(": {}", remaining.why));
        }
        lines.push(line.cut(look).render(look));
    }
    let more = left.saturating_sub(named(shown));
    if more > 0 && room > 0 {
        lines.push(Line::new().styled(Role::Dim, format!("  and {} more", thousands(more))).render(look));
    }
    lines
}

/// `812 of 1,050 objects gone, 14.2/s, about 20s left`.
fn counts(summary: &Summary) -> String {
    let mut text = format!("{} of {} gone", thousands(summary.gone), number(summary.total, "object"));
    if let Some(rate) = summary.rate_per_second.filter(|rate| *rate > 0.0) {
        text.push_str(&format!(", {rate:.1}/s"));
    }
    if let Some(seconds) = summary.seconds_left.filter(|seconds| *seconds >= 1.0) {
        text.push_str(&format!(", about {} left", super::age::duration(round(seconds as u64))));
    }
    if summary.recreated > 0 {
        text.push_str(&format!(", {} made again by something else", thousands(summary.recreated)));
    }
    if summary.joined > 0 {
        text.push_str(&format!(", {} more came meanwhile", thousands(summary.joined)));
    }
    text
}

/// An estimate, no finer than it is known: then it does not jump with every object that goes.
fn round(seconds: u64) -> u64 {
    let step = match seconds {
        0..10 => 1,
        10..60 => 5,
        60..300 => 15,
        _ => 60,
    };
    seconds.div_ceil(step) * step
}

fn names(summary: &Summary) -> Names {
    Names::of(summary.remaining.iter().map(|remaining| &remaining.reference))
}

impl Lines {
    fn update(&mut self, look: Look, summary: &Summary, now: Instant) {
        let state = (summary.gone, summary.recreated, summary.joined);
        let may = self.last_line.is_none_or(|last| now.duration_since(last) >= BETWEEN_LINES);
        if !may {
            return;
        }
        if state != self.shown {
            self.shown = state;
            self.write(look, &counts(summary), now);
        } else if now.duration_since(self.last_reminder) >= BETWEEN_REMINDERS && !summary.remaining.is_empty()
        {
            self.last_reminder = now;
            self.write(look, &reminder(look, summary), now);
        }
    }

    fn write(&mut self, look: Look, text: &str, now: Instant) {
        self.last_line = Some(now);
        // Nobody looks any more: the deletion goes on all the same.
        let _ = Line::new().plain(text).write(&mut self.out, look);
    }
}

/// `still waiting for Pod/a (waits for finalizer a/b), Job/c and 3 more`.
fn reminder(look: Look, summary: &Summary) -> String {
    let names = names(summary);
    let named = |remaining: &Remaining| {
        let name = name(look, &names, remaining);
        if remaining.why.is_empty() { name } else { format!("{name} ({})", remaining.why) }
    };
    let shown = &summary.remaining[..summary.remaining.len().min(MOST_NAMES)];
    let told: usize = shown.iter().map(|remaining| remaining.count).sum();
    let more = summary.total.saturating_sub(summary.gone).saturating_sub(told);
    let more = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
    format!("still waiting for {}{more}", shown.iter().map(named).collect::<Vec<_>>().join(", "))
}

/// `Pod/a`, or `Pod ×97`.
fn name(look: Look, names: &Names, remaining: &Remaining) -> String {
    match remaining.count {
        1 => names.of_object(&remaining.reference),
        more => format!("{} {}{}", remaining.reference.kind, look.times(), thousands(more)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::model::testing::graph;

    fn remaining(name: &str, depth: usize, why: &str) -> Remaining {
        Remaining { reference: graph(name).object(0).reference(), count: 1, depth, why: why.to_owned() }
    }

    fn summary() -> Summary {
        Summary {
            total: 1050,
            gone: 812,
            remaining: vec![
                remaining("Job/a", 0, "2 blocking dependents"),
                remaining("Pod/b", 1, "waits for node-1's kubelet, 12 s of 30 s grace"),
                remaining("Pod/c", 1, "waits for finalizer a/b\u{1b}[2J"),
            ],
            rate_per_second: Some(14.23),
            seconds_left: Some(17.4),
            recreated: 0,
            joined: 0,
        }
    }

    #[test]
    fn the_region_has_a_bar_and_what_is_still_there_with_reasons() {
        insta::assert_snapshot!(region(Look::PLAIN, &summary(), 24).join("\n"), @r"
        ███████████████░░░░░ 812 of 1,050 objects gone, 14.2/s, about 20s left
          Job/a: 2 blocking dependents
            Pod/b: waits for node-1's kubelet, 12 s of 30 s grace
            Pod/c: waits for finalizer a/b\u{1b}[2J
          and 235 more
        ");
    }

    #[test]
    fn the_region_fits_a_small_terminal() {
        let look = Look { utf8: false, width: Some(30), ..Look::PLAIN };
        let mut summary = summary();
        summary.recreated = 3;
        insta::assert_snapshot!(region(look, &summary, 5).join("\n"), @r"
        #####-- 812 of 1,050 objects ~
          Job/a: 2 blocking dependents
            Pod/b: waits for node-1's~
          and 236 more
        ");
        assert_eq!(region(look, &summary, 1).len(), 1);
    }

    #[test]
    fn an_estimate_is_rounded_to_what_is_known() {
        let rounded: Vec<u64> = [1, 9, 11, 44, 61, 290, 301].map(round).into();
        assert_eq!(rounded, [1, 9, 15, 45, 75, 300, 360]);
    }

    #[test]
    fn what_came_meanwhile_is_said_beside_what_was_made_again() {
        let summary = Summary { total: 3, gone: 1, recreated: 1, joined: 2, ..Summary::default() };
        assert_eq!(
            counts(&summary),
            "1 of 3 objects gone, 1 made again by something else, 2 more came meanwhile"
        );
    }

    #[test]
    fn the_region_never_has_more_than_ten_lines_below_the_bar() {
        let mut summary = summary();
        summary.remaining = (0..60).map(|number| remaining(&format!("Pod/p{number}"), 0, "")).collect();
        let lines = region(Look::PLAIN, &summary, 50);
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[10], "  and 229 more");
        summary.gone = 1045;
        summary.remaining.truncate(5);
        assert_eq!(region(Look::PLAIN, &summary, 50).len(), 6);
    }

    #[test]
    fn siblings_alike_are_one_line_and_count_as_all_of_them() {
        let mut summary = summary();
        summary.remaining.truncate(1);
        summary.remaining.push(Remaining { count: 235, ..remaining("Pod/p0", 1, "not marked yet") });
        summary.remaining.push(remaining("Secret/s", 1, "waits for finalizer a/b"));
        insta::assert_snapshot!(region(Look::PLAIN, &summary, 24)[1..].join("\n"), @r"
          Job/a: 2 blocking dependents
            Pod ×235: not marked yet
            Secret/s: waits for finalizer a/b
          and 1 more
        ");
        assert_eq!(
            reminder(Look::PLAIN, &summary),
            "still waiting for Job/a (2 blocking dependents), Pod ×235 (not marked yet), Secret/s (waits for \
             finalizer a/b) and 1 more"
        );
    }

    #[test]
    fn the_last_object_is_the_whole_bar() {
        let done = Summary { total: 3, gone: 3, ..Summary::default() };
        assert!(region(Look::PLAIN, &done, 24)[0].starts_with(&"█".repeat(20)));
        assert_eq!(region(Look::PLAIN, &Summary::default(), 24).len(), 1);
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Ok(mut written) = self.0.lock() {
                written.extend_from_slice(bytes);
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn off_a_terminal_there_is_a_line_a_change_at_most_one_a_second_and_a_reminder_every_ten() {
        let written = Written::default();
        let start = Instant::now();
        let mut view = ProgressView::lines(Look::PLAIN, Box::new(written.clone()), start);
        let mut summary = summary();
        for tenths in 0..=250_u64 {
            // Something goes in each of the first two seconds' tenths, then nothing any more.
            summary.gone = 812 + usize::try_from(tenths.min(20)).unwrap_or_default();
            view.update(&summary, start + Duration::from_millis(tenths * 100));
        }
        view.note("warning: \u{1b}");
        view.finish();
        let text =
            written.0.lock().map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
        insta::assert_snapshot!(text, @r"
        812 of 1,050 objects gone, 14.2/s, about 20s left
        822 of 1,050 objects gone, 14.2/s, about 20s left
        832 of 1,050 objects gone, 14.2/s, about 20s left
        still waiting for Job/a (2 blocking dependents), Pod/b (waits for node-1's kubelet, 12 s of 30 s grace), Pod/c (waits for finalizer a/b\u{1b}[2J) and 215 more
        still waiting for Job/a (2 blocking dependents), Pod/b (waits for node-1's kubelet, 12 s of 30 s grace), Pod/c (waits for finalizer a/b\u{1b}[2J) and 215 more
        warning: \u{1b}
        ");
    }
}
