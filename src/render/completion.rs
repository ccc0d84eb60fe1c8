//! Candidates for a shell's prompt, in the protocol that kubectl reads.

use std::io;

use super::sanitize;

/// One candidate a line, a TAB and its description behind it; in the end `:` and what the shell may add.
///
/// # Errors
/// The writer fails.
pub fn write_candidates(
    out: &mut impl io::Write,
    candidates: &[(String, String)],
    directive: u8,
) -> io::Result<()> {
    for (value, help) in candidates {
        if help.is_empty() {
            writeln!(out, "{value}")?;
        } else {
            writeln!(out, "{value}\t{}", sanitize::line(help))?;
        }
    }
    writeln!(out, ":{directive}")
}
