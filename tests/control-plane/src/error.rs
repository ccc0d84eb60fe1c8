//! What went wrong while building, starting or driving a control plane, in words for the person who runs the
//! tests.

use std::fmt;

/// A failure of the harness: what failed and, where there is one, what to do about it.
///
/// Its `Debug` form is the same text as its `Display` form, so that `expect` in a test stays readable.
#[derive(Clone)]
pub struct Error {
    message: String,
    hint: Option<String>,
}

impl Error {
    /// A failure described by `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// The same failure with advice for the reader.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Turns any cause into an [`Error`] that begins with what was attempted.
    pub(crate) fn doing<C: fmt::Display>(attempt: impl fmt::Display) -> impl FnOnce(C) -> Self {
        move |cause| Self::new(format!("{attempt}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(formatter, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Error {}
