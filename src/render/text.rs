//! A line of output. All text that enters a [`Line`] is made harmless on the way in, so that nobody has to think of
//! it: there is no other way to print from this room.

use std::io;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::look::{Look, Role};
use super::sanitize;

/// One line of text with its roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    spans: Vec<(Role, String)>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds text in a role.
    #[must_use]
    pub(super) fn styled(mut self, role: Role, text: impl AsRef<str>) -> Self {
        self.push(role, text);
        self
    }

    /// Adds plain text.
    #[must_use]
    pub(super) fn plain(self, text: impl AsRef<str>) -> Self {
        self.styled(Role::Plain, text)
    }

    /// Adds a command to copy. One that cannot be shown as it is, because a name in it ends with a line feed that no
    /// shell brings back, would mean something else when it is pasted: then there is none.
    #[must_use]
    pub(super) fn command(self, command: &str) -> Self {
        if sanitize::line(command) == command {
            self.styled(Role::Command, command)
        } else {
            self.styled(Role::Caution, "# a name in this command cannot be shown: -o json has the command")
        }
    }

    /// Adds text in a role.
    pub(super) fn push(&mut self, role: Role, text: impl AsRef<str>) {
        let text = sanitize::line(text.as_ref());
        if !text.is_empty() {
            self.spans.push((role, text.into_owned()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Columns it takes on a terminal.
    pub(super) fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.width()).sum()
    }

    /// Adds spaces up to a width.
    pub(super) fn pad(&mut self, width: usize) {
        let missing = width.saturating_sub(self.width());
        if missing > 0 {
            self.spans.push((Role::Plain, " ".repeat(missing)));
        }
    }

    /// Adds another line's text.
    pub(super) fn append(&mut self, other: Self) {
        self.spans.extend(other.spans);
    }

    /// All text in the role `Dim`.
    pub(super) fn dimmed(&mut self) {
        for (role, _) in &mut self.spans {
            *role = Role::Dim;
        }
    }

    /// The text as a terminal gets it, not cut.
    pub(super) fn render(&self, look: Look) -> String {
        let mut rendered = String::new();
        for (role, text) in &self.spans {
            let style = look.style(*role);
            rendered.push_str(&style.render().to_string());
            if look.utf8 {
                rendered.push_str(text);
            } else {
                for character in text.chars() {
                    if character.is_ascii() {
                        rendered.push(character);
                    } else {
                        rendered.extend(character.escape_default());
                    }
                }
            }
            rendered.push_str(&style.render_reset().to_string());
        }
        if !look.color {
            rendered.truncate(rendered.trim_end_matches(' ').len());
        }
        rendered
    }

    /// Writes it whole, with a line end.
    pub(super) fn write(&self, out: &mut impl io::Write, look: Look) -> io::Result<()> {
        writeln!(out, "{}", self.render(look))
    }

    /// Writes it with a line end, wrapped at spaces where the terminal's width is known; lines after the first are
    /// indented.
    pub(super) fn write_wrapped(self, out: &mut impl io::Write, look: Look, indent: usize) -> io::Result<()> {
        self.wrapped(look, indent).iter().try_for_each(|line| line.write(out, look))
    }

    /// The same as lines.
    pub(super) fn wrapped(self, look: Look, indent: usize) -> Vec<Self> {
        let Some(limit) = look.width.filter(|limit| self.width() > *limit) else { return vec![self] };
        // A word may have several colours.
        let mut words = vec![Self::new()];
        for (role, text) in &self.spans {
            for (position, part) in text.split(' ').enumerate() {
                if position > 0 {
                    words.push(Self::new());
                }
                if let Some(word) = words.last_mut() {
                    word.push(*role, part);
                }
            }
        }
        let mut lines = Vec::new();
        let (mut line, mut has_word) = (Self::new(), false);
        for (position, word) in words.into_iter().enumerate() {
            if has_word && line.width() + 1 + word.width() > limit {
                lines.push(std::mem::replace(&mut line, Self::new().plain(" ".repeat(indent))));
            } else if position > 0 {
                line.push(Role::Plain, " ");
            }
            has_word |= !word.is_empty();
            line.append(word);
        }
        lines.push(line);
        lines
    }

    /// Cuts it to the width of the terminal.
    #[must_use]
    pub(super) fn cut(mut self, look: Look) -> Self {
        let Some(limit) = look.width else { return self };
        if self.width() <= limit {
            return self;
        }
        let mark = look.glyph("…", "~");
        let mut room = limit.saturating_sub(mark.width());
        let mut spans = Vec::new();
        'spans: for (role, text) in self.spans {
            let mut kept = String::new();
            for character in text.chars() {
                let width = character.width().unwrap_or(0);
                if width > room {
                    spans.push((role, kept));
                    break 'spans;
                }
                room -= width;
                kept.push(character);
            }
            spans.push((role, kept));
        }
        spans.push((Role::Dim, mark.to_owned()));
        self.spans = spans;
        self
    }
}

/// Writes a text of the cluster or of ours that may have several lines, indented, and wrapped at words where the
/// terminal's width is known. Words that are too long stay whole.
pub(super) fn write_paragraph(
    out: &mut impl io::Write,
    look: Look,
    indent: usize,
    role: Role,
    text: &str,
) -> io::Result<()> {
    write_item(out, look, &" ".repeat(indent), role, text)
}

/// The same behind a lead of ours, such as a number; what follows stands below the text, not below the lead.
pub(super) fn write_item(
    out: &mut impl io::Write,
    look: Look,
    lead: &str,
    role: Role,
    text: &str,
) -> io::Result<()> {
    let indent = lead.width();
    let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    let mut space = lead.to_owned();
    let mut write = |text: &str| {
        Line::new().plain(&space).styled(role, text).write(out, look)?;
        space = " ".repeat(indent);
        Ok::<(), io::Error>(())
    };
    for whole in sanitize::lines(text) {
        if whole.width() <= room {
            write(&whole)?;
            continue;
        }
        let mut part = String::new();
        for word in whole.split(' ') {
            if !part.is_empty() && part.width() + 1 + word.width() > room {
                write(&part)?;
                part.clear();
            }
            if !part.is_empty() {
                part.push(' ');
            }
            part.push_str(word);
        }
        write(&part)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap_or_else(|error| panic!("{error}"));
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_would_mean_something_else_when_it_is_pasted_is_not_shown() {
        let shown = |command: &str| Line::new().command(command).render(Look::PLAIN);
        assert_eq!(shown("kubectl delete role 'x y'"), "kubectl delete role 'x y'");
        assert_eq!(
            shown("kubectl delete role 'x\n'"),
            "# a name in this command cannot be shown: -o json has the command"
        );
    }

    #[test]
    fn a_line_too_long_for_the_terminal_goes_on_below() {
        let line =
            || Line::new().styled(Role::Bad, "  5 objects go: ").plain("Pod").plain(" ×3, ConfigMap ×2");
        let wrapped = |width| written(|out| line().write_wrapped(out, Look { width, ..Look::PLAIN }, 4));
        assert_eq!(wrapped(Some(24)), "  5 objects go: Pod ×3,\n    ConfigMap ×2\n");
        assert_eq!(wrapped(Some(40)), "  5 objects go: Pod ×3, ConfigMap ×2\n");
        assert_eq!(wrapped(None), "  5 objects go: Pod ×3, ConfigMap ×2\n");
        // A word that fits nowhere stands alone.
        assert_eq!(wrapped(Some(8)), "  5\n    objects\n    go:\n    Pod\n    ×3,\n    ConfigMap\n    ×2\n");
    }

    #[test]
    fn a_text_behind_a_number_stays_beside_it() {
        let look = Look { width: Some(25), ..Look::PLAIN };
        let text =
            written(|out| write_item(out, look, " 1. ", Role::Plain, "one two three four five six\nseven"));
        assert_eq!(text, " 1. one two three four\n    five six\n    seven\n");
    }

    #[test]
    fn whatever_enters_a_line_is_harmless() {
        let line = Line::new().plain("a\u{1b}[2J").styled(Role::Bad, "\u{202e}b\n");
        assert_eq!(line.render(Look::PLAIN), r"a\u{1b}[2J\u{202e}b\n");
    }

    #[test]
    fn color_is_only_there_where_it_is_wanted() {
        let line = Line::new().plain("a ").styled(Role::Bad, "b");
        assert_eq!(line.render(Look::PLAIN), "a b");
        assert_eq!(line.render(Look { color: true, ..Look::PLAIN }), "a \u{1b}[31mb\u{1b}[0m");
    }

    #[test]
    fn a_terminal_without_utf8_gets_ascii() {
        let line = Line::new().plain("grüße");
        assert_eq!(line.render(Look { utf8: false, ..Look::PLAIN }), r"gr\u{fc}\u{df}e");
    }

    #[test]
    fn cut_to_the_width_without_splitting_a_wide_character() {
        let look = |width| Look { width: Some(width), ..Look::PLAIN };
        let line = || Line::new().plain("ab").styled(Role::Bad, "日本語");
        assert_eq!(line().cut(look(8)).render(look(8)), "ab日本語");
        assert_eq!(line().cut(look(7)).render(look(7)), "ab日本…");
        assert_eq!(line().cut(look(6)).render(look(6)), "ab日…");
        assert_eq!(line().cut(look(1)).render(look(1)), "…");
        assert_eq!(line().cut(Look::PLAIN).render(Look::PLAIN), "ab日本語");
    }

    #[test]
    fn a_paragraph_wraps_at_words_and_keeps_long_words_whole() {
        let look = Look { width: Some(24), ..Look::PLAIN };
        let text = written(|out| {
            write_paragraph(
                out,
                look,
                2,
                Role::Plain,
                "one two three four five six\na-word-that-is-longer-than-that",
            )
        });
        assert_eq!(text, "  one two three four\n  five six\n  a-word-that-is-longer-than-that\n");
    }
}
