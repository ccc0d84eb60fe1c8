//! How many of what: counts by kind, and numbers and nouns in sentences.

use std::collections::BTreeMap;

use super::look::{Look, Role};
use super::text::Line;
use crate::model::graph::OwnerGraph;

/// How many kinds a line of counts names before it sums up the rest.
const MOST_KINDS: usize = 12;

/// `Secret ×1, Pod ×500 (3 Terminating)`: what is lost for good first, then the most frequent kinds.
pub(super) fn by_kind(look: Look, graph: &OwnerGraph, objects: &[usize]) -> Line {
    let mut counts: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for index in objects {
        let object = graph.object(*index);
        let count = counts.entry((&object.resource.kind, &object.resource.group)).or_default();
        count.0 += 1;
        count.1 += usize::from(object.is_terminating());
    }
    let mut kinds: Vec<_> = counts.into_iter().collect();
    kinds.sort_by_key(|((kind, group), (count, _))| {
        (!holds_data(group, kind), std::cmp::Reverse(*count), (*kind).to_owned())
    });
    let mut line = Line::new();
    for (position, ((kind, group), (count, terminating))) in kinds.iter().take(MOST_KINDS).enumerate() {
        if position > 0 {
            line.push(Role::Plain, ", ");
        }
        let role = if holds_data(group, kind) { Role::Strong } else { Role::Plain };
        line.push(role, format!("{kind} {}{count}", look.times()));
        if *terminating > 0 {
            line.push(Role::Caution, format!(" ({terminating} Terminating)"));
        }
    }
    if kinds.len() > MOST_KINDS {
        let rest = &kinds[MOST_KINDS..];
        let objects: usize = rest.iter().map(|(_, (count, _))| count).sum();
        line.push(
            Role::Plain,
            format!(" and {} of {}", number(objects, "object"), number(rest.len(), "more kind")),
        );
    }
    line
}

/// What nobody can make again: it must not drown among the others.
fn holds_data(group: &str, kind: &str) -> bool {
    group.is_empty() && matches!(kind, "Secret" | "PersistentVolumeClaim" | "PersistentVolume")
}

/// `1 object`, `4,812 objects`.
pub(super) fn number(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// `4,812`.
pub(super) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::graph;

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(number(1, "object"), "1 object");
        assert_eq!(number(0, "object"), "0 objects");
        assert_eq!(number(1_004_812, "object"), "1,004,812 objects");
        assert_eq!(thousands(999), "999");
    }

    #[test]
    fn what_holds_data_comes_first_then_the_most_frequent() {
        let graph = graph("Pod/a terminating\nPod/b\nConfigMap/c\nSecret/d\nPersistentVolumeClaim/e\nJob/f");
        let all: Vec<usize> = (0..graph.objects().len()).collect();
        assert_eq!(
            by_kind(Look::PLAIN, &graph, &all).render(Look::PLAIN),
            "PersistentVolumeClaim ×1, Secret ×1, Pod ×2 (1 Terminating), ConfigMap ×1, Job ×1"
        );
    }
}
