//! Which characters of a text from the cluster nobody may see raw: a terminal could act upon them, or a reader overlook
//! them.

/// Control characters (C0 with ESC, DEL, C1), line separators, bidirectional controls, and characters without a
/// width of their own that hide text or are hidden in it.
pub fn is_dangerous(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}'                          // soft hyphen
            | '\u{34f}'                       // combining grapheme joiner
            | '\u{61c}'                       // Arabic letter mark
            | '\u{115f}'..='\u{1160}'         // Hangul fillers, which are blank
            | '\u{17b4}'..='\u{17b5}'         // invisible Khmer vowels
            | '\u{180b}'..='\u{180f}'         // Mongolian selectors and vowel separator
            | '\u{200b}'..='\u{200f}'         // zero width space, joiners, direction marks
            | '\u{2028}'..='\u{202e}'         // line and paragraph separator, embeddings and overrides
            | '\u{2060}'..='\u{206f}'         // word joiner, isolates, deprecated format characters
            | '\u{3164}' | '\u{ffa0}'         // Hangul fillers
            | '\u{feff}'                      // byte order mark
            | '\u{fff0}'..='\u{fffb}'         // interlinear annotation
            | '\u{1bca0}'..='\u{1bca3}'       // shorthand format controls
            | '\u{1d173}'..='\u{1d17a}'       // musical format controls
            | '\u{e0000}'..='\u{e0fff}') // tags and further selectors
}
