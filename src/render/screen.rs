//! A text that is drawn again and again: in place on a terminal, one after the other elsewhere.

use std::io::{self, Write};

use dialoguer::console::{Term, is_dumb};

use super::counts::number;
use super::look::Look;
use crate::model::object::Timestamp;

/// Where the picture of `tree --watch` is drawn.
pub struct Screen {
    place: Place,
}

enum Place {
    /// A terminal, and how many lines of it are ours.
    Terminal(Term, usize),
    /// Anything else, and whether something was written to it.
    Stream(bool),
}

/// What stands between two pictures off a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// `---` and the time: for people.
    Time,
    /// `---`: for YAML.
    Dashes,
    /// Nothing: JSON documents follow each other.
    Nothing,
}

impl Screen {
    /// Standard output. A terminal is drawn upon in place where it can move its cursor, and `in_place` says that the
    /// text is for people.
    pub fn stdout(in_place: bool) -> Self {
        let place = if in_place && Term::stdout().is_term() && !is_dumb() {
            Place::Terminal(Term::buffered_stdout(), 0)
        } else {
            Place::Stream(false)
        };
        Self { place }
    }

    /// Whether pictures replace each other.
    pub fn is_in_place(&self) -> bool {
        matches!(self.place, Place::Terminal(..))
    }

    /// The look, as wide as the terminal is now.
    pub fn look(&self, look: Look) -> Look {
        let size = match &self.place {
            Place::Terminal(term, _) => term.size_checked(),
            Place::Stream(_) => None,
        };
        size.map_or(look, |(_, columns)| Look { width: Some(usize::from(columns)), ..look })
    }

    /// Draws a text that ends with a line end; what is too long for the terminal is counted.
    ///
    /// # Errors
    /// It cannot be written; a closed pipe is one of them: nobody looks any more.
    pub fn draw(&mut self, text: &str, between: Between, now: Timestamp) -> io::Result<()> {
        match &mut self.place {
            Place::Terminal(term, drawn) => {
                let rows = term.size_checked().map_or(24, |(rows, _)| usize::from(rows));
                let text = fitting(text, rows);
                term.clear_last_lines(*drawn)?;
                term.write_all(text.as_bytes())?;
                *drawn = text.lines().count();
                term.flush()
            }
            Place::Stream(written) => {
                let mut out = io::stdout().lock();
                match between {
                    Between::Time if *written => writeln!(out, "--- {}", now.strftime("%Y-%m-%dT%H:%M:%SZ"))?,
                    Between::Dashes if *written => writeln!(out, "---")?,
                    _ => {}
                }
                *written = true;
                out.write_all(text.as_bytes())?;
                out.flush()
            }
        }
    }

    /// Leaves what is drawn where it is; the next picture begins below, after a note.
    pub fn keep(&mut self) {
        if let Place::Terminal(_, drawn) = &mut self.place {
            *drawn = 0;
        }
    }
}

/// As many lines as fit, with one left for the cursor, and how many do not.
fn fitting(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = rows.saturating_sub(1).max(2);
    let shown = if lines.len() > room { room - 1 } else { lines.len() };
    let mut fitting: String = lines[..shown].iter().flat_map(|line| [line, "\n"]).collect();
    if shown < lines.len() {
        fitting.push_str(&format!("... {} more\n", number(lines.len() - shown, "line")));
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_is_too_long_says_so_and_leaves_a_line_for_the_cursor() {
        assert_eq!(fitting("a\nb\nc\n", 4), "a\nb\nc\n");
        assert_eq!(fitting("a\nb\nc\nd\n", 4), "a\nb\n... 2 lines more\n");
        assert_eq!(fitting("", 4), "");
        assert_eq!(fitting("a\nb\nc\n", 1), "a\n... 2 lines more\n");
    }
}
