//! What could not be read, in one line a reason: an answer with gaps is never called complete.

use std::collections::BTreeMap;
use std::io;

use super::look::{Look, Role};
use super::text::Line;
use crate::model::catalog::Gap;
use crate::model::graph::OwnerGraph;

/// How many kinds one line names before it counts the rest.
const MOST_KINDS: usize = 8;

/// All gaps of a graph, of discovery and of the lists, each once.
pub fn all_gaps(graph: &OwnerGraph) -> Vec<Gap> {
    let snapshot = graph.snapshot();
    let mut gaps: Vec<Gap> = snapshot.gaps.iter().chain(snapshot.catalog.gaps()).cloned().collect();
    gaps.sort();
    gaps.dedup();
    gaps
}

/// `not searched: secrets, leases.coordination.k8s.io (Forbidden: ...)`, a line a reason; nothing without gaps.
pub fn write_gaps(out: &mut impl io::Write, look: Look, gaps: &[Gap]) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, Vec<&Gap>> = BTreeMap::new();
    for gap in gaps {
        reasons.entry(&gap.reason).or_default().push(gap);
    }
    for (reason, gaps) in reasons {
        // What nobody can make again must not drown among the others.
        let mut kinds: Vec<(bool, String)> =
            gaps.iter().map(|gap| (!holds_data(&gap.group, &gap.resource), kind(gap))).collect();
        kinds.sort();
        kinds.dedup();
        let mut kinds: Vec<String> = kinds.into_iter().map(|(_, kind)| kind).collect();
        let more = kinds.len().saturating_sub(MOST_KINDS);
        kinds.truncate(MOST_KINDS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut messages: Vec<&str> = gaps.iter().map(|gap| gap.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        // The server words each kind's refusal for itself; one stands for all.
        let message = match messages.as_slice() {
            [] | [""] => String::new(),
            [only] => format!(": {only}"),
            [first, ..] => format!(": {first}; and so on"),
        };
        Line::new()
            .styled(Role::Caution, "not searched: ")
            .plain(format!("{}{more}", kinds.join(", ")))
            .plain(format!(" ({}{message})", words(reason)))
            .write(out, look)?;
    }
    Ok(())
}

fn holds_data(group: &str, resource: &str) -> bool {
    group.is_empty() && matches!(resource, "secrets" | "persistentvolumeclaims" | "persistentvolumes")
}

fn kind(gap: &Gap) -> String {
    let version = gap.version.as_deref().map(|version| format!("/{version}")).unwrap_or_default();
    match (gap.resource.as_str(), gap.group.as_str()) {
        // A look that did not come to its end names neither group nor version.
        ("*", "") if version.is_empty() => "all kinds".to_owned(),
        ("*", "") => format!("all kinds of the core group{version}"),
        ("*", group) => format!("all kinds of {group}{version}"),
        (resource, "") => format!("{resource}{version}"),
        (resource, group) => format!("{resource}.{group}{version}"),
    }
}

/// `ServiceUnavailable` as `service unavailable`.
fn words(reason: &str) -> String {
    let mut words = String::new();
    for (position, character) in reason.chars().enumerate() {
        if character.is_uppercase() && position > 0 {
            words.push(' ');
        }
        words.extend(character.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;

    fn gap(resource: &str, group: &str, reason: &str, message: &str) -> Gap {
        Gap {
            resource: resource.into(),
            group: group.into(),
            version: None,
            reason: reason.into(),
            message: message.into(),
        }
    }

    #[test]
    fn one_line_a_reason() {
        let dead = "the server is currently unable to handle the request";
        let gaps = [
            gap("secrets", "", "Forbidden", "secrets is forbidden: User \"a\" cannot list"),
            gap("*", "metrics.k8s.io", "ServiceUnavailable", dead),
            gap("leases", "coordination.k8s.io", "Forbidden", "leases is forbidden: User \"a\" cannot list"),
        ];
        insta::assert_snapshot!(written(|out| write_gaps(out, Look::PLAIN, &gaps)), @r#"
        not searched: secrets, leases.coordination.k8s.io (forbidden: leases is forbidden: User "a" cannot list; and so on)
        not searched: all kinds of metrics.k8s.io (service unavailable: the server is currently unable to handle the request)
        "#);
        assert_eq!(written(|out| write_gaps(out, Look::PLAIN, &[])), "");
    }

    #[test]
    fn many_kinds_are_counted() {
        let gaps: Vec<Gap> =
            (0..20).map(|number| gap(&format!("k{number:02}"), "", "Forbidden", "")).collect();
        assert_eq!(
            written(|out| write_gaps(out, Look::PLAIN, &gaps)),
            "not searched: k00, k01, k02, k03, k04, k05, k06, k07 and 12 more (forbidden)\n"
        );
    }
}
