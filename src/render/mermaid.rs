//! A tree as a Mermaid flowchart, for Markdown that shows them.

use std::io;

use super::tree::{ArrowKind, Diagram, Tone};

/// The diagram as a flowchart. Solid arrows block a foreground deletion of the owner, dotted ones do not, dotted lines
/// without a head are no ownership.
pub fn write_mermaid(out: &mut impl io::Write, diagram: &Diagram) -> io::Result<()> {
    writeln!(out, "flowchart LR")?;
    for (number, one) in diagram.boxes.iter().enumerate() {
        let lines: Vec<String> = one.lines.iter().map(|line| escaped(line)).collect();
        writeln!(out, "  n{number}[\"{}\"]", lines.join("<br>"))?;
    }
    for arrow in &diagram.arrows {
        let line = match arrow.kind {
            ArrowKind::Blocks => "-->".to_owned(),
            ArrowKind::Owns => "-.->".to_owned(),
            ArrowKind::Contains => "-.-".to_owned(),
            ArrowKind::Wrong(state) => format!("-. \"wrong reference: {state}\" .->"),
        };
        writeln!(out, "  n{} {line} n{}", arrow.from, arrow.to)?;
    }
    for (tone, name, style) in [
        (Tone::Dim, "dim", "color:#888,stroke:#bbb"),
        (Tone::Caution, "caution", "stroke:#d97706"),
        (Tone::Bad, "bad", "stroke:#dc2626"),
        (Tone::Good, "good", "stroke:#16a34a"),
    ] {
        let boxes = diagram.boxes.iter().enumerate().filter(|(_, one)| one.tone == tone);
        let names: Vec<String> = boxes.map(|(number, _)| format!("n{number}")).collect();
        if !names.is_empty() {
            writeln!(out, "  classDef {name} {style}")?;
            writeln!(out, "  class {} {name}", names.join(","))?;
        }
    }
    Ok(())
}

/// A text inside double quotes: Mermaid's entity codes for what ends the text, begins a tag or an entity, or would be
/// read as Markdown.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '#' | '<' | '>' | '&' | '`' | '\\' | ';' | '*' | '_' => {
                safe.push_str(&format!("#{};", u32::from(character)));
            }
            character => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::text::written;
    use super::super::tree::{TreeOptions, diagram};
    use super::*;
    use crate::model::testing::{at, graph, now};

    #[test]
    fn boxes_arrows_and_colours() {
        let graph = graph(
            "Namespace/x
             Job/a
             Pod/b terminating <- Job/a!*
             ConfigMap/c <- Job/a
             other:Secret/d <- x:Job/a",
        );
        let columns = BTreeMap::new();
        let roots = [at(&graph, "Namespace/x")];
        let options = TreeOptions::new(now(), &columns);
        let text = written(|out| write_mermaid(out, &diagram(&graph, &roots, &options, false)));
        insta::assert_snapshot!(text, @r#"
        flowchart LR
          n0["Namespace/x"]
          n1["in x, not owned by it"]
          n2["Job/a<br>in x"]
          n3["ConfigMap/c<br>in x"]
          n4["Pod/b<br>in x<br>Terminating"]
          n5["Secret/d<br>in other"]
          n0 -.- n1
          n1 -.- n2
          n2 -.-> n3
          n2 --> n4
          n2 -. "wrong reference: other-namespace" .-> n5
          classDef dim color:#888,stroke:#bbb
          class n1 dim
          classDef caution stroke:#d97706
          class n4 caution
        "#);
    }

    #[test]
    fn no_text_can_end_its_label_or_begin_markup() {
        assert_eq!(escaped("a\"]; <b>&`"), "a#34;]#59; #60;b#62;#38;#96;");
    }
}
