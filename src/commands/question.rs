//! Asking a person, on a thread of its own: reading a line cannot be broken off, but Ctrl-C must end the question.

use std::io;

use super::interrupt::Interrupt;
use crate::render::ask::Answer;

/// Asks, and waits for the answer or for Ctrl-C.
///
/// # Errors
/// The terminal cannot be asked on.
pub async fn ask(
    interrupt: &mut Interrupt,
    question: impl FnOnce() -> io::Result<Answer> + Send + 'static,
) -> io::Result<Answer> {
    match interrupt.or(tokio::task::spawn_blocking(question)).await {
        // The thread stays in its read and ends with the process.
        None => Ok(Answer::Interrupted),
        Some(answer) => answer.map_err(io::Error::other)?,
    }
}
