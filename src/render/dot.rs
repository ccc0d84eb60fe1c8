//! A tree for Graphviz: `kubectl cascade tree job/a -o dot | dot -Tsvg`.

use std::io;

use super::tree::{ArrowKind, Diagram, Tone};

/// The diagram in the DOT language. Solid arrows block a foreground deletion of the owner, dashed ones do not, dotted
/// ones are no ownership.
pub fn write_dot(out: &mut impl io::Write, diagram: &Diagram) -> io::Result<()> {
    writeln!(
        out,
        "// Arrows lead from owner to dependent: solid ones block a foreground deletion of the owner,"
    )?;
    writeln!(out, "// dashed ones do not, dotted ones are no ownership.")?;
    writeln!(out, "digraph cascade {{")?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  node [shape=box, style=rounded, fontname=\"sans-serif\"];")?;
    writeln!(out, "  edge [fontname=\"sans-serif\"];")?;
    for (number, one) in diagram.boxes.iter().enumerate() {
        let lines: Vec<String> = one.lines.iter().map(|line| escaped(line)).collect();
        let tone = match one.tone {
            Tone::Plain => "",
            Tone::Dim => ", color=gray60, fontcolor=gray60",
            Tone::Caution => ", color=darkorange3",
            Tone::Bad => ", color=red3",
            Tone::Good => ", color=green4",
        };
        writeln!(out, "  n{number} [label=\"{}\"{tone}];", lines.join("\\n"))?;
    }
    for arrow in &diagram.arrows {
        let style = match arrow.kind {
            ArrowKind::Blocks => String::new(),
            ArrowKind::Owns => " [style=dashed]".to_owned(),
            ArrowKind::Contains => " [style=dotted, arrowhead=none]".to_owned(),
            ArrowKind::Wrong(state) => {
                format!(" [style=dashed, color=red3, fontcolor=red3, label=\"wrong reference: {state}\"]")
            }
        };
        writeln!(out, "  n{} -> n{}{style};", arrow.from, arrow.to)?;
    }
    writeln!(out, "}}")
}

/// A text inside double quotes; a backslash would begin one of DOT's own escapes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::text::written;
    use super::super::tree::{TreeOptions, diagram};
    use super::*;
    use crate::model::forecast::forecast;
    use crate::model::policy::Policy;
    use crate::model::testing::{at, graph, now};

    #[test]
    fn boxes_and_arrows_say_what_the_tree_says() {
        let graph = graph(
            "Job/a
             Pod/b terminating finalizer=x/y <- Job/a!*
             ConfigMap/c <- Job/a, Secret/gone
             ClusterWidget/d <- Job/a
             Secret/e <- Pod/b, ConfigMap/c",
        );
        let columns = BTreeMap::new();
        let roots = [at(&graph, "Job/a")];
        let options = TreeOptions::new(now(), &columns);
        let text = written(|out| write_dot(out, &diagram(&graph, &roots, &options, false)));
        insta::assert_snapshot!(text, @r#"
        // Arrows lead from owner to dependent: solid ones block a foreground deletion of the owner,
        // dashed ones do not, dotted ones are no ownership.
        digraph cascade {
          rankdir=LR;
          node [shape=box, style=rounded, fontname="sans-serif"];
          edge [fontname="sans-serif"];
          n0 [label="Job/a"];
          n1 [label="ClusterWidget/d"];
          n2 [label="ConfigMap/c\nowner Secret/gone: absent"];
          n3 [label="Secret/e"];
          n4 [label="Pod/b\nTerminating (x/y)", color=darkorange3];
          n0 -> n1 [style=dashed, color=red3, fontcolor=red3, label="wrong reference: scope"];
          n0 -> n2 [style=dashed];
          n2 -> n3 [style=dashed];
          n0 -> n4;
          n4 -> n3 [style=dashed];
        }
        "#);
    }

    #[test]
    fn the_way_up_has_its_arrows_the_same_way_round_and_shows_who_is_not_there() {
        let graph = graph("Job/a\nPod/b <- Job/a!, Secret/gone");
        let columns = BTreeMap::new();
        let options = TreeOptions::new(now(), &columns);
        let text = written(|out| write_dot(out, &diagram(&graph, &[at(&graph, "Pod/b")], &options, true)));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  n")).skip(1).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        n0 [label="Pod/b"];
        n1 [label="Job/a"];
        n2 [label="Secret/gone\nabsent", color=red3];
        n1 -> n0;
        n2 -> n0 [style=dashed];
        "#);
    }

    #[test]
    fn many_siblings_are_one_box_and_fates_are_written_and_coloured() {
        let mut text = "Job/a\nSecret/s finalizer=a/b <- Job/a\n".to_owned();
        (0..20).for_each(|number| text.push_str(&format!("Pod/p{number} <- Job/a!\n")));
        let graph = graph(&text);
        let roots = [at(&graph, "Job/a")];
        let forecast = forecast(&graph, &roots, Policy::Background);
        let columns = BTreeMap::new();
        let options = TreeOptions { forecast: Some(&forecast), ..TreeOptions::new(now(), &columns) };
        let text = written(|out| write_dot(out, &diagram(&graph, &roots, &options, false)));
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  n")).skip(1).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        n0 [label="Job/a\n✗ deleted", color=red3];
        n1 [label="Pod ×20\n✗ deleted", color=red3];
        n2 [label="Secret/s\n■ held by finalizer a/b", color=darkorange3];
        n0 -> n1;
        n0 -> n2 [style=dashed];
        "#);
    }

    #[test]
    fn a_quote_or_a_backslash_in_a_text_ends_no_label() {
        assert_eq!(escaped(r#"a"b\n"#), r#"a\"b\\n"#);
    }
}
