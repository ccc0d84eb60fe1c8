//! Text from the cluster is untrusted: whoever may write an annotation, an event or a webhook's message could send
//! escape sequences to an administrator's terminal (CVE-2021-25743), or turn a name around with a bidirectional
//! override. Nothing that could do so leaves this program: such characters are shown as `\u{1b}`, in every format.
//!
//! Whoever prints does not call this: `text::Line` does it for all text that enters it, and the JSON and
//! YAML writers for theirs.

use std::borrow::Cow;
use std::fmt::Write;

pub(super) use crate::model::visible::is_dangerous;

/// One line: every character that a terminal could act upon, or that nobody could see, becomes visible; line ends
/// and tabs too.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_dangerous(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// The lines of a text that may have several, each made harmless as [`line()`] does; `\r\n` is one line end.
pub fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.lines().map(line)
}

/// A JSON text with the same value, in which no character is left that a terminal could act upon. In serialized JSON
/// such characters stand in strings alone, where `\u009b` means the same.
pub(super) fn json(text: &str) -> Cow<'_, str> {
    // JSON escapes what ASCII holds of them, but for DEL; its own line ends between the values stay.
    let unescaped = |character: char| character >= '\u{7f}' && is_dangerous(character);
    if !text.chars().any(unescaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if unescaped(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing into a String cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_in_a_webhooks_message_reach_no_terminal() {
        // Case W17: clear the screen, set the title, C1's own CSI.
        assert_eq!(line("denied\u{1b}[2J\u{1b}]0;x\u{7}"), r"denied\u{1b}[2J\u{1b}]0;x\u{7}");
        assert_eq!(line("\u{9b}31m\u{7f}"), r"\u{9b}31m\u{7f}");
    }

    #[test]
    fn a_name_cannot_be_turned_around_or_hidden() {
        assert_eq!(line("a\u{202e}txt.exe"), r"a\u{202e}txt.exe");
        assert_eq!(line("a\u{2066}b\u{200b}c\u{feff}"), r"a\u{2066}b\u{200b}c\u{feff}");
        assert_eq!(line("\u{e0041}"), r"\u{e0041}");
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(line("a\r\nb\tc\u{2028}d"), r"a\r\nb\tc\u{2028}d");
    }

    #[test]
    fn several_lines_stay_several() {
        assert_eq!(lines("a\r\nb\u{1b}\rc\n").collect::<Vec<_>>(), ["a", r"b\u{1b}\rc"]);
    }

    #[test]
    fn what_is_harmless_stays_as_it_is() {
        for text in ["", "grüße", "日本語", "e\u{301}", "👍", r"C:\u{1b}", "a  b"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn made_harmless_twice_is_made_harmless_once() {
        let once = line("a\u{1b}\u{202e}").into_owned();
        assert_eq!(line(&once), once);
    }

    #[test]
    fn json_keeps_its_value_and_loses_its_teeth() {
        let value = serde_json::json!({"a": "x\u{9b}\u{202e}\u{e0041}\u{1b}\u{7f}é"});
        let text = serde_json::to_string(&value).unwrap_or_default();
        let safe = json(&text);
        assert!(!safe.chars().any(is_dangerous), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }
}
