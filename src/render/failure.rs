//! A failure, as a person reads it: what failed, and what to do.

use std::io;

use super::look::{Look, Role};
use super::sanitize;
use super::text::Line;
use crate::error::Failure;

/// `error: ...`, but for kubectl's own sentences, and on a line of its own `hint: ...`.
pub fn write_failure(out: &mut impl io::Write, look: Look, failure: &Failure) -> io::Result<()> {
    let label = if failure.is_a_sentence_of_kubectl() { "" } else { "error: " };
    labelled(out, look, (Role::Bad, label), &failure.message)?;
    match &failure.hint {
        Some(hint) => write_hint(out, look, hint),
        None => Ok(()),
    }
}

/// `hint: ...`.
pub fn write_hint(out: &mut impl io::Write, look: Look, hint: &str) -> io::Result<()> {
    labelled(out, look, (Role::Command, "hint: "), hint)
}

/// `warning: ...`: also the server's own warnings.
pub fn write_warning(out: &mut impl io::Write, look: Look, warning: &str) -> io::Result<()> {
    let mut lines = sanitize::lines(warning);
    let first = lines.next().unwrap_or_default();
    Line::new().styled(Role::Caution, "warning: ").plain(first).write_wrapped(out, look, 2)?;
    lines.try_for_each(|line| Line::new().plain("  ").plain(line).write_wrapped(out, look, 2))
}

/// A text behind a label; further lines of it are indented. Never wrapped: it may hold a command to copy.
fn labelled(out: &mut impl io::Write, look: Look, label: (Role, &str), text: &str) -> io::Result<()> {
    let mut lines = sanitize::lines(text);
    let first = lines.next().unwrap_or_default();
    Line::new().styled(label.0, label.1).plain(first).write(out, look)?;
    lines.try_for_each(|line| Line::new().plain("  ").plain(line).write(out, look))
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;

    #[test]
    fn a_failure_says_what_and_hints_what_to_do() {
        let failure =
            Failure::error("jobs.batch \"x\u{1b}[2J\" not found\nreally").hint("is the namespace right?");
        assert_eq!(
            written(|out| write_failure(out, Look::PLAIN, &failure)),
            "error: jobs.batch \"x\\u{1b}[2J\" not found\n  really\nhint: is the namespace right?\n"
        );
    }

    #[test]
    fn kubectls_own_sentences_stand_as_kubectl_prints_them() {
        let failure = Failure::error("Error from server (NotFound): pods \"x\" not found");
        assert_eq!(
            written(|out| write_failure(out, Look::PLAIN, &failure)),
            "Error from server (NotFound): pods \"x\" not found\n"
        );
    }

    /// A hint is not, as it may hold a command to copy.
    #[test]
    fn a_warning_is_wrapped_at_words() {
        let look = Look { width: Some(20), ..Look::PLAIN };
        let text = "one two three four five";
        assert_eq!(written(|out| write_warning(out, look, text)), "warning: one two\n  three four five\n");
        assert_eq!(written(|out| write_hint(out, look, text)), "hint: one two three four five\n");
    }

    #[test]
    fn without_a_hint_there_is_none() {
        assert_eq!(written(|out| write_failure(out, Look::PLAIN, &Failure::usage("no"))), "error: no\n");
    }
}
