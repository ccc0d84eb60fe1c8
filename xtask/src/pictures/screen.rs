//! What a terminal shows once it has read some bytes: as much of ECMA-48 as the plugin and its libraries write.
//!
//! The screen is as long as it needs to be and never scrolls, so that a picture can be longer than a terminal.

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// One of the sixteen colours, by number.
    pub(super) color: Option<u8>,
    pub(super) bold: bool,
    pub(super) dim: bool,
    pub(super) underlined: bool,
}

/// One character's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) character: char,
    pub(super) style: Style,
}

const BLANK: Cell =
    Cell { character: ' ', style: Style { color: None, bold: false, dim: false, underlined: false } };

/// A terminal's screen.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    style: Style,
    /// Bytes whose meaning the next ones decide.
    pending: Vec<u8>,
}

impl Screen {
    /// An empty screen of this width.
    pub(super) fn new(columns: usize) -> Self {
        let style = Style::default();
        Self { columns, rows: vec![Vec::new()], row: 0, column: 0, style, pending: Vec::new() }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The lines with what stands in them, without blank ones at the end.
    pub(super) fn lines(&self) -> Vec<Vec<Cell>> {
        let mut lines: Vec<Vec<Cell>> = self.rows.clone();
        for line in &mut lines {
            let length = line.iter().rposition(|cell| *cell != BLANK).map_or(0, |last| last + 1);
            line.truncate(length);
        }
        let length = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(length);
        lines
    }

    /// The same as text.
    pub(super) fn text(&self) -> String {
        let line = |cells: &Vec<Cell>| cells.iter().map(|cell| cell.character).collect::<String>();
        self.lines().iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Reads what a program wrote. A sequence may be cut anywhere.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some(length) = self.step(rest) {
            rest = &rest[length..];
        }
        self.pending = rest.to_vec();
    }

    /// Does what the first bytes say and returns how many those were; none where they are not all there yet.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes {
            [] | [0x1b] => None,
            [0x1b, b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte))?;
                self.control(&String::from_utf8_lossy(&rest[..end]), rest[end]);
                Some(end + 3)
            }
            // A title and the like, up to BEL or ESC \.
            [0x1b, b']', rest @ ..] => {
                let end = rest.iter().position(|byte| matches!(byte, 7 | 0x1b))?;
                Some(end + 2 + if rest[end] == 7 { 1 } else { 2 })
            }
            [0x1b, ..] => Some(2),
            [b'\r', ..] => {
                self.column = 0;
                Some(1)
            }
            [b'\n', ..] => {
                self.down(1);
                Some(1)
            }
            [8, ..] => {
                self.column = self.column.saturating_sub(1);
                Some(1)
            }
            [0..=31 | 127, ..] => Some(1),
            [first, ..] => {
                let length = match first {
                    0..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                let bytes = bytes.get(..length)?;
                let text = String::from_utf8_lossy(bytes);
                text.chars().for_each(|character| self.put(character));
                Some(length)
            }
        }
    }

    fn down(&mut self, count: usize) {
        self.row += count;
        while self.rows.len() <= self.row {
            self.rows.push(Vec::new());
        }
    }

    fn put(&mut self, character: char) {
        if self.column >= self.columns {
            self.column = 0;
            self.down(1);
        }
        let line = &mut self.rows[self.row];
        while line.len() <= self.column {
            line.push(BLANK);
        }
        line[self.column] = Cell { character, style: self.style };
        self.column += 1;
    }

    fn control(&mut self, parameters: &str, end: u8) {
        let numbers: Vec<usize> =
            parameters.split(';').map(|number| number.parse().unwrap_or_default()).collect();
        let first = numbers.first().copied().unwrap_or_default();
        let count = first.max(1);
        match end {
            b'A' => self.row = self.row.saturating_sub(count),
            b'B' => self.down(count),
            b'C' => self.column += count,
            b'D' => self.column = self.column.saturating_sub(count),
            b'G' => self.column = count - 1,
            b'J' if first == 0 => {
                self.rows[self.row].truncate(self.column);
                self.rows.truncate(self.row + 1);
            }
            b'K' => match first {
                0 => self.rows[self.row].truncate(self.column),
                2 => self.rows[self.row].clear(),
                _ => {}
            },
            b'm' => numbers.iter().for_each(|number| self.set(*number)),
            _ => {}
        }
    }

    fn set(&mut self, number: usize) {
        match number {
            0 => self.style = Style::default(),
            1 => self.style.bold = true,
            2 => self.style.dim = true,
            4 => self.style.underlined = true,
            22 => (self.style.bold, self.style.dim) = (false, false),
            24 => self.style.underlined = false,
            30..=37 => self.style.color = u8::try_from(number - 30).ok(),
            39 => self.style.color = None,
            90..=97 => self.style.color = u8::try_from(number - 90 + 8).ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: usize, bytes: &str) -> Screen {
        let mut screen = Screen::new(columns);
        screen.feed(bytes.as_bytes());
        screen
    }

    #[test]
    fn text_wraps_and_lines_follow_each_other() {
        assert_eq!(shown(4, "abcdef\r\ngh").text(), "abcd\nef\ngh");
        assert_eq!(shown(4, "abc\rx").text(), "xbc");
    }

    #[test]
    fn a_region_is_drawn_over() {
        let region = "one\r\ntwo\r\x1b[1A\x1b[2K1\x1b[1B\r\x1b[2K2";
        assert_eq!(shown(20, region).text(), "1\n2");
        assert_eq!(shown(20, "one\r\ntwo\r\nthree\x1b[2A\r\x1b[J1").text(), "1");
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut screen = Screen::new(20);
        for byte in "\x1b]0;title\x07a\x1b[31mé\x1b[0m✗".as_bytes() {
            screen.feed(&[*byte]);
        }
        assert_eq!(screen.text(), "aé✗");
        let colors: Vec<Option<u8>> = screen.lines()[0].iter().map(|cell| cell.style.color).collect();
        assert_eq!(colors, [None, Some(1), None]);
    }

    #[test]
    fn styles_add_up_until_they_are_reset() {
        let screen = shown(20, "\x1b[1m\x1b[92ma\x1b[22mb\x1b[39;2mc\x1b[0md");
        let styles: Vec<Style> = screen.lines()[0].iter().map(|cell| cell.style).collect();
        let plain = Style::default();
        assert_eq!(styles[0], Style { color: Some(10), bold: true, ..plain });
        assert_eq!(styles[1], Style { color: Some(10), ..plain });
        assert_eq!(styles[2], Style { dim: true, ..plain });
        assert_eq!(styles[3], plain);
    }
}
