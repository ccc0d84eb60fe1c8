//! Columns that line up, whatever the width of the characters in them.

use std::io;

use super::look::{Look, Role};
use super::text::Line;

/// Between two columns, as in kubectl.
const GAP: usize = 3;

/// A row of cells.
pub(super) enum Row {
    /// Each in its column.
    Cells(Vec<Line>),
    /// The last one runs on, and widens no column.
    Open(Vec<Line>),
}

/// Writes a table. The rows are asked for twice, first for their widths: so a table of 50,000 rows is never held in
/// memory as text. Lines are cut to the terminal's width. No header line where `headers` is none.
pub(super) fn write<Rows: Iterator<Item = Row>>(
    out: &mut impl io::Write,
    look: Look,
    headers: Option<&[String]>,
    rows: impl Fn() -> Rows,
) -> io::Result<()> {
    let mut widths: Vec<usize> = Vec::new();
    let header = || {
        let cells = |headers: &[String]| headers.iter().map(|name| Line::new().plain(name)).collect();
        headers.map(|headers| Row::Cells(cells(headers))).into_iter()
    };
    for row in header().chain(rows()) {
        let (Row::Cells(cells) | Row::Open(cells)) = &row;
        let counted = cells.len() - usize::from(matches!(row, Row::Open(_)));
        widths.resize(widths.len().max(counted), 0);
        for (width, cell) in widths.iter_mut().zip(&cells[..counted]) {
            *width = (*width).max(cell.width());
        }
    }
    for row in header().chain(rows()) {
        let (Row::Cells(cells) | Row::Open(cells)) = row;
        let mut line = Line::new();
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (position, mut cell) in cells.into_iter().enumerate().take(last + 1) {
            if position < last {
                cell.pad(widths[position]);
                cell.push(Role::Plain, " ".repeat(GAP));
            }
            line.append(cell);
        }
        line.cut(look).write(out, look)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;

    #[test]
    fn columns_line_up_with_wide_characters_and_open_rows_do_not_widen_them() {
        let cells = |cells: &[&str]| Row::Cells(cells.iter().map(|cell| Line::new().plain(cell)).collect());
        let rows = || {
            [
                cells(&["日本", "1", "x"]),
                Row::Open(vec![Line::new().plain("and a rather long line beside the columns")]),
                cells(&["abc", "22", ""]),
            ]
            .into_iter()
        };
        let headers: Vec<String> = ["NAME", "N", "LAST"].map(str::to_owned).into();
        assert_eq!(
            written(|out| write(out, Look::PLAIN, Some(&headers), rows)),
            "NAME   N    LAST\n日本   1    x\nand a rather long line beside the columns\nabc    22\n"
        );
    }
}
