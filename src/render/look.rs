//! What the output's destination can show: colour, UTF-8, and how wide it is. Read from the environment in this one
//! place; everybody else is told.

use std::env;

use anstyle::{AnsiColor, Style};
use dialoguer::console::Term;

/// What the destination of a text can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether to colour.
    pub color: bool,
    /// Whether it shows more than ASCII.
    pub utf8: bool,
    /// Columns of the terminal; none where it is no terminal, and nothing is cut.
    pub width: Option<usize>,
}

/// What the user said about colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorWhen {
    /// On a terminal that can, unless the environment says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What a piece of text means; its colour follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Text.
    #[default]
    Plain,
    /// Text that stands out.
    Strong,
    /// Less important: branches, hints of structure.
    Dim,
    /// It stays, or it is well.
    Good,
    /// Look here: it may go, or take a while.
    Caution,
    /// It goes, or something is wrong.
    Bad,
    /// A command to copy.
    Command,
}

impl Look {
    /// Plain text without limits: for pipes, files and tests.
    pub const PLAIN: Self = Self { color: false, utf8: true, width: None };

    /// The look of standard output.
    pub fn stdout(when: ColorWhen) -> Self {
        Self::of_terminal(when, &Term::stdout())
    }

    /// The look of standard error.
    pub fn stderr(when: ColorWhen) -> Self {
        Self::of_terminal(when, &Term::stderr())
    }

    fn of_terminal(when: ColorWhen, term: &Term) -> Self {
        let width = term
            .is_term()
            .then(|| term.size_checked().map_or(80, |(_, columns)| usize::from(columns)))
            .filter(|columns| *columns > 0);
        Self::detect(when, term.is_term(), width, |name| env::var(name).ok())
    }

    /// Decides by the user's word, whether the destination is a terminal, its width, and the environment: NO_COLOR,
    /// CLICOLOR_FORCE, CLICOLOR and TERM for colour; LC_ALL, LC_CTYPE and LANG for UTF-8. An empty variable counts
    /// as unset.
    pub fn detect(
        when: ColorWhen,
        is_terminal: bool,
        width: Option<usize>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let color = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto if variable("NO_COLOR").is_some() => false,
            ColorWhen::Auto if variable("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
            ColorWhen::Auto => {
                let capable = match variable("TERM") {
                    Some(term) => term != "dumb",
                    // The Windows console sets none, and can.
                    None => cfg!(windows),
                };
                is_terminal && capable && variable("CLICOLOR").is_none_or(|value| value != "0")
            }
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let utf8 = match locale {
            Some(locale) => {
                let locale = locale.to_ascii_lowercase();
                locale.contains("utf-8") || locale.contains("utf8")
            }
            None => cfg!(windows),
        };
        Self { color, utf8, width: width.filter(|_| is_terminal) }
    }

    /// The first where more than ASCII can be shown, else the second.
    pub(super) fn glyph(self, utf8: &'static str, ascii: &'static str) -> &'static str {
        if self.utf8 { utf8 } else { ascii }
    }

    /// `→`, or `->`.
    pub(super) fn arrow(self) -> &'static str {
        self.glyph("→", "->")
    }

    /// `×`, or `x`, before a number of objects.
    pub(super) fn times(self) -> &'static str {
        self.glyph("×", "x")
    }

    /// The style of a role; plain where there is no colour.
    pub(super) fn style(self, role: Role) -> Style {
        if !self.color {
            return Style::new();
        }
        match role {
            Role::Plain => Style::new(),
            Role::Strong => Style::new().bold(),
            Role::Dim => Style::new().dimmed(),
            Role::Good => AnsiColor::Green.on_default(),
            Role::Caution => AnsiColor::Yellow.on_default(),
            Role::Bad => AnsiColor::Red.on_default(),
            Role::Command => AnsiColor::Cyan.on_default(),
        }
    }
}

/// Drops what was typed on the terminal and not read yet: before a question stands, nothing is an answer to it.
pub(super) fn forget_what_was_typed() {
    // Where that cannot be done, standard input is no terminal.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(when: ColorWhen, terminal: bool, environment: &[(&str, &str)]) -> Look {
        Look::detect(when, terminal, Some(80), |name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn color_follows_the_user_then_the_environment_then_the_terminal() {
        use ColorWhen::*;
        let xterm = ("TERM", "xterm-256color");
        assert!(detect(Auto, true, &[xterm]).color);
        assert!(!detect(Auto, false, &[xterm]).color, "piped");
        assert!(!detect(Auto, true, &[xterm, ("NO_COLOR", "1")]).color);
        assert!(detect(Auto, true, &[xterm, ("NO_COLOR", "")]).color, "empty is unset");
        assert!(!detect(Auto, true, &[("TERM", "dumb")]).color);
        assert!(!detect(Auto, true, &[xterm, ("CLICOLOR", "0")]).color);
        assert!(detect(Auto, false, &[("CLICOLOR_FORCE", "1")]).color);
        assert!(!detect(Auto, false, &[("CLICOLOR_FORCE", "0")]).color);
        assert!(!detect(Auto, true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).color);
        assert!(detect(Always, false, &[("NO_COLOR", "1")]).color);
        assert!(!detect(Never, true, &[xterm, ("CLICOLOR_FORCE", "1")]).color);
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides_on_utf8() {
        let utf8 = |environment: &[(&str, &str)]| detect(ColorWhen::Auto, true, environment).utf8;
        assert!(utf8(&[("LANG", "de_DE.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
        assert_eq!(utf8(&[]), cfg!(windows));
    }

    #[test]
    fn only_a_terminal_has_a_width() {
        assert_eq!(detect(ColorWhen::Auto, true, &[]).width, Some(80));
        assert_eq!(detect(ColorWhen::Auto, false, &[]).width, None);
    }
}
