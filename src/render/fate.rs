//! A fate in a symbol and a word, so that it reads without colour.

use super::look::{Look, Role};
use super::text::Line;
use crate::model::forecast::{Entry, Fate, Holder};

/// The symbol and the colour of a fate.
pub(super) fn symbol(look: Look, fate: Fate) -> (Role, &'static str) {
    match fate {
        Fate::Deleted | Fate::CollectedAnyway => (Role::Bad, look.glyph("✗", "x")),
        Fate::Held => (Role::Caution, look.glyph("■", "#")),
        Fate::Waits => (Role::Caution, look.glyph("…", "~")),
        Fate::Kept => (Role::Good, look.glyph("✓", "+")),
        Fate::Orphaned => (Role::Good, look.glyph("○", "o")),
        Fate::Leaked => (Role::Caution, "!"),
    }
}

/// `✗ deleted`, alone.
pub(super) fn word(look: Look, fate: Fate) -> Line {
    let (role, symbol) = symbol(look, fate);
    Line::new().styled(role, symbol).plain(" ").styled(role, fate.as_str())
}

/// Whether nothing but a kubelet that will confirm holds it: every running Pod goes this way, and nothing is wrong with
/// it. Of one that confirms nothing the reason says that it is held.
pub(super) fn waits_for_kubelets(entry: &Entry) -> bool {
    entry.fate == Fate::Held
        && !entry.held_by.is_empty()
        && !entry.reason.starts_with(Fate::Held.as_str())
        && entry.held_by.iter().all(|holder| matches!(holder, Holder::Node(_)))
}

/// The fate that several objects share; with the reason where they share that, too.
pub(super) fn of_group(look: Look, entries: &[&Entry]) -> Line {
    let Some(first) = entries.first() else { return Line::new() };
    if entries.iter().all(|entry| waits_for_kubelets(entry)) {
        let (role, symbol) = symbol(look, Fate::Deleted);
        return Line::new().styled(role, symbol).plain(" ").styled(role, "go when their kubelets confirm");
    }
    let same = |entry: &&Entry| {
        (&entry.reason, entry.certain, &entry.otherwise) == (&first.reason, first.certain, &first.otherwise)
    };
    if first.fate == Fate::Held && entries.iter().all(same) {
        return sentence(look, first);
    }
    word(look, first.fate)
}

/// The fate of one object with what a person needs to know of it.
pub(super) fn sentence(look: Look, entry: &Entry) -> Line {
    if waits_for_kubelets(entry) && !entry.reason.is_empty() {
        let (role, symbol) = symbol(look, Fate::Deleted);
        let line = Line::new().styled(role, symbol).plain(" ").styled(role, &entry.reason);
        return with_doubt(line, entry);
    }
    // What is not certain says so before anything that a narrow terminal may cut.
    let mut line = with_doubt(word(look, entry.fate), entry);
    // `waits until ...` says the word itself.
    if let Some(rest) = entry.reason.strip_prefix(entry.fate.as_str()) {
        line.push(Role::Plain, rest);
    } else if entry.fate != Fate::Deleted && !entry.reason.is_empty() {
        line.push(Role::Plain, ": ");
        line.push(Role::Plain, &entry.reason);
    }
    line
}

/// Adds how else it may end.
fn with_doubt(mut line: Line, entry: &Entry) -> Line {
    if !entry.certain {
        let others: Vec<&str> = entry.otherwise.iter().map(|fate| fate.as_str()).collect();
        line.push(Role::Caution, format!(" (not certain; else {})", others.join(" or ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fate: Fate, held_by: Vec<Holder>, reason: &str) -> Entry {
        Entry { object: 0, fate, certain: true, otherwise: Vec::new(), held_by, reason: reason.to_owned() }
    }

    fn text(entry: &Entry) -> String {
        sentence(Look::PLAIN, entry).render(Look::PLAIN)
    }

    #[test]
    fn a_pod_that_its_kubelet_ends_reads_as_going_not_as_held() {
        let reason = "goes when node-1 confirms (30 s grace)";
        let node = Holder::Node("node-1".into());
        let pod = entry(Fate::Held, vec![node.clone()], reason);
        assert_eq!(text(&pod), "✗ goes when node-1 confirms (30 s grace)");
        let held = entry(Fate::Held, vec![node, Holder::Finalizer("a/b".into())], "held by finalizer a/b");
        assert_eq!(text(&held), "■ held by finalizer a/b");
        let silent = entry(Fate::Held, vec![Holder::Node("n".into())], "held by node n, which is not Ready");
        assert_eq!(text(&silent), "■ held by node n, which is not Ready");
        let waits = entry(Fate::Waits, Vec::new(), "waits until its Pods are gone");
        assert_eq!(text(&waits), "… waits until its Pods are gone");
    }

    #[test]
    fn many_pods_that_their_kubelets_end_read_as_going_and_many_held_alike_say_by_what() {
        let on = |node: &str| {
            entry(
                Fate::Held,
                vec![Holder::Node(node.into())],
                &format!("goes when {node} confirms (30 s grace)"),
            )
        };
        let group = |entries: &[Entry]| {
            of_group(Look::PLAIN, &entries.iter().collect::<Vec<_>>()).render(Look::PLAIN)
        };
        assert_eq!(group(&[on("n1"), on("n2")]), "✗ go when their kubelets confirm");
        let held = |finalizer: &str| {
            let reason = format!("held by finalizer {finalizer}");
            entry(Fate::Held, vec![Holder::Finalizer(finalizer.into())], &reason)
        };
        assert_eq!(group(&[held("a/b"), held("a/b")]), "■ held by finalizer a/b");
        assert_eq!(group(&[held("a/b"), held("a/c")]), "■ held");
    }

    #[test]
    fn what_a_race_decides_says_so() {
        let mut kept = entry(Fate::Kept, Vec::new(), "owned by Job/a");
        kept.certain = false;
        kept.otherwise = vec![Fate::Deleted, Fate::Leaked];
        assert_eq!(text(&kept), "✓ kept (not certain; else deleted or leaked): owned by Job/a");
    }

    #[test]
    fn every_fate_has_a_word_and_an_ascii_symbol() {
        let ascii = Look { utf8: false, ..Look::PLAIN };
        let words: Vec<String> = [
            Fate::Deleted,
            Fate::Held,
            Fate::Waits,
            Fate::Kept,
            Fate::Orphaned,
            Fate::Leaked,
            Fate::CollectedAnyway,
        ]
        .into_iter()
        .map(|fate| word(ascii, fate).render(ascii))
        .collect();
        assert_eq!(
            words,
            ["x deleted", "# held", "~ waits", "+ kept", "o orphaned", "! leaked", "x collected-anyway"]
        );
    }
}
