//! A screen as a picture.

use std::fmt::Write as _;

use super::screen::{Cell, Screen, Style};

/// In pixels: a character of the font, and the space around all.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 19.0;
const MARGIN: f64 = 16.0;

const BACKGROUND: &str = "#1b1f27";
const TEXT: &str = "#d7dae0";
const DIM: &str = "#8b93a1";
/// The terminal's sixteen colours; light enough to be read on the background.
const COLORS: [&str; 16] = [
    "#8b93a1", "#f2777a", "#8fcf7a", "#f0c674", "#7db4f0", "#d29ee8", "#66cccc", "#d7dae0", "#8b93a1",
    "#f2777a", "#8fcf7a", "#f0c674", "#7db4f0", "#d29ee8", "#66cccc", "#ffffff",
];

/// Draws a command and what the terminal showed after it. The description is for those who do not see it.
pub(super) fn draw(command: &str, screen: &Screen, description: &str) -> String {
    let prompt = Style { dim: true, ..Style::default() };
    let typed = Style { bold: true, ..Style::default() };
    let cells =
        |text: &str, style| text.chars().map(move |character| Cell { character, style }).collect::<Vec<_>>();
    let mut lines = vec![[cells("$ ", prompt), cells(command, typed)].concat()];
    lines.extend(screen.lines());

    let (width, height) =
        (2.0 * MARGIN + WIDTH * screen.columns() as f64, 2.0 * MARGIN + HEIGHT * lines.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\" fill=\"{TEXT}\">\n",
        escaped(command),
        escaped(description),
    );
    for (number, line) in lines.iter().enumerate() {
        let y = MARGIN + HEIGHT * (number as f64 + 0.75);
        for (column, run) in runs(line) {
            let text: String = run.iter().map(|cell| cell.character).collect();
            // The length keeps columns in line where the font is another one.
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\"{}>{}</text>",
                MARGIN + WIDTH * column as f64,
                WIDTH * run.len() as f64,
                attributes(run[0].style),
                escaped(&text),
            );
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The pieces of a line that look the same, each with its column; wide gaps between words are left out.
fn runs(line: &[Cell]) -> Vec<(usize, &[Cell])> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < line.len() {
        let is_blank = |cell: &Cell| cell.character == ' ';
        if is_blank(&line[start]) {
            start += 1;
            continue;
        }
        let mut end = start + 1;
        while end < line.len()
            && line[end].style == line[start].style
            && !(is_blank(&line[end]) && line.get(end + 1).is_none_or(is_blank))
        {
            end += 1;
        }
        let length = line[start..end].iter().rposition(|cell| !is_blank(cell)).map_or(0, |last| last + 1);
        runs.push((start, &line[start..start + length]));
        start = end;
    }
    runs
}

fn attributes(style: Style) -> String {
    let mut attributes = String::new();
    match style.color {
        Some(color) => {
            let _ = write!(attributes, " fill=\"{}\"", COLORS[usize::from(color) % COLORS.len()]);
        }
        None if style.dim => {
            let _ = write!(attributes, " fill=\"{DIM}\"");
        }
        None => {}
    }
    if style.bold {
        attributes.push_str(" font-weight=\"bold\"");
    }
    if style.underlined {
        attributes.push_str(" text-decoration=\"underline\"");
    }
    attributes
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_the_same_is_one_piece_at_its_column() {
        let mut screen = Screen::new(40);
        screen.feed("one two   \x1b[31mthree\x1b[0m four".as_bytes());
        let lines = screen.lines();
        let found: Vec<(usize, String)> = runs(&lines[0])
            .into_iter()
            .map(|(column, run)| (column, run.iter().map(|cell| cell.character).collect()))
            .collect();
        assert_eq!(found, [(0, "one two".to_owned()), (10, "three".to_owned()), (16, "four".to_owned())]);
    }

    #[test]
    fn text_is_text_and_colour_is_colour() {
        let mut screen = Screen::new(20);
        screen.feed("a<b \x1b[1;31m&\x1b[0m".as_bytes());
        let svg = draw("x > y", &screen, "A & B");
        assert!(svg.contains(">a&lt;b</text>"), "{svg}");
        assert!(svg.contains("fill=\"#f2777a\" font-weight=\"bold\">&amp;</text>"), "{svg}");
        assert!(svg.contains("<title>x &gt; y</title>") && svg.contains("<desc>A &amp; B</desc>"), "{svg}");
    }
}
