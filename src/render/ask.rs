//! Questions to a person. Nothing but a plain yes, and Enter, is a yes.
//!
//! The terminal stays as it is: no hidden cursor, no raw mode, so that there is nothing to give back when somebody
//! presses Ctrl-C.

use std::io::{self, Write as _};

use dialoguer::console::Term;

use super::look::{self, Look, Role};
use super::sanitize;
use super::text::Line;

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Yes,
    /// Anything else.
    No,
    /// Ctrl-C, or the terminal is gone.
    Interrupted,
}

/// Whether there is anybody to ask: questions go to standard error, answers come from the terminal.
pub fn can_ask() -> bool {
    Term::stderr().is_term()
}

/// Asks a question that only `y` or `yes` answers with yes; the default is no.
pub fn confirm(look: Look, question: &str) -> io::Result<Answer> {
    ask(look, question, "[y/N]", |answer| {
        answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes")
    })
}

/// Asks for a name to be typed: where a slip would cost much.
pub fn confirm_by_name(look: Look, question: &str, name: &str) -> io::Result<Answer> {
    // What cannot be typed is typed as it is shown.
    let shown = sanitize::line(name);
    ask(look, question, &format!("type {name} to confirm"), |answer| answer == name || answer == shown)
}

fn ask(look: Look, question: &str, prompt: &str, is_yes: impl Fn(&str) -> bool) -> io::Result<Answer> {
    let mut err = io::stderr();
    // Before the question, not after: whoever answers fast is heard.
    look::forget_what_was_typed();
    // The question may be longer than a line; the prompt behind it is not.
    Line::new().styled(Role::Strong, question).write_wrapped(&mut err, look, 0)?;
    write!(err, "{}: ", Line::new().plain(prompt).render(Look { color: false, ..look }))?;
    err.flush()?;
    let mut answer = String::new();
    match io::stdin().read_line(&mut answer) {
        Ok(0) => {
            writeln!(err)?;
            Ok(Answer::Interrupted)
        }
        Ok(_) if is_yes(answer.trim()) => Ok(Answer::Yes),
        Ok(_) => Ok(Answer::No),
        // No text at all.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Answer::No),
        Err(error) => Err(error),
    }
}
