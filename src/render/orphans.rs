//! What earlier deletions left behind, and the commands that remove it.

use std::io;

use super::age::age;
use super::counts::number;
use super::diagnosis::cause_name;
use super::gaps::write_gaps;
use super::look::{Look, Role};
use super::table::{self, Row};
use super::text::Line;
use crate::model::object::Timestamp;
use crate::model::orphan::{Orphan, Orphans};

/// The answer of `orphans`: a table, then a command for each. `everywhere`: all namespaces were asked for.
pub fn write_orphans(
    out: &mut impl io::Write,
    look: Look,
    orphans: &Orphans,
    now: Timestamp,
    everywhere: bool,
) -> io::Result<()> {
    if orphans.objects.is_empty() {
        // Where something could not be read, nobody knows what was left behind there.
        let (role, text) = match orphans.gaps.is_empty() {
            true => (Role::Good, "nothing was left behind"),
            false => (Role::Caution, "nothing was found in what could be read"),
        };
        Line::new().styled(role, text).write(out, look)?;
        return write_gaps(out, look, &orphans.gaps);
    }
    let namespace = |orphan: &Orphan| orphan.reference.namespace.clone();
    let first = orphans.objects.first().and_then(namespace);
    let namespaces = everywhere || orphans.objects.iter().any(|orphan| namespace(orphan) != first);
    let headers: Vec<String> = ["NAMESPACE", "NAME", "LEFT BY", "CAUSE", "AGE"]
        .into_iter()
        .skip(usize::from(!namespaces))
        .map(str::to_owned)
        .collect();
    table::write(out, look, Some(&headers), || {
        orphans.objects.iter().map(|orphan| {
            let of = orphan.of.as_ref().map(|of| {
                let guessed = if of.guessed { " (by its name)" } else { "" };
                format!("{}/{}{guessed}", of.kind, of.name)
            });
            let cells = [
                Line::new().plain(orphan.reference.namespace.as_deref().unwrap_or_default()),
                Line::new().plain(orphan.reference.short()),
                Line::new().plain(of.unwrap_or_default()),
                Line::new().plain(cause_name(orphan.cause)),
                Line::new().plain(age(orphan.created, now)),
            ];
            Row::Cells(cells.into_iter().skip(usize::from(!namespaces)).collect())
        })
    })?;
    writeln!(out)?;
    Line::new()
        .plain(format!("{} left behind; to remove:", number(orphans.objects.len(), "object")))
        .write(out, look)?;
    for orphan in &orphans.objects {
        Line::new().plain("  ").command(&orphan.command).write(out, look)?;
    }
    write_gaps(out, look, &orphans.gaps)
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::diagnosis::Cause;
    use crate::model::orphan::FormerOwner;
    use crate::model::testing::{graph, now, timestamp};

    #[test]
    fn each_orphan_says_whose_it_was_and_how_to_remove_it() {
        let orphan = |name: &str, of: Option<FormerOwner>, cause| Orphan {
            reference: graph(name).object(0).reference(),
            cause,
            of,
            created: Some(timestamp("2026-01-02T03:00:45Z")),
            command: format!("kubectl delete {}", name.to_lowercase()),
        };
        let job = FormerOwner {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            name: "nightly".into(),
            uid: "u".into(),
            guessed: false,
        };
        let orphans = Orphans {
            objects: vec![
                orphan("Pod/nightly-1", Some(job), Cause::OrphanedByDefault),
                orphan("other:Secret/s", None, Cause::OwnershipCycle),
            ],
            gaps: vec![],
        };
        insta::assert_snapshot!(written(|out| write_orphans(out, Look::PLAIN, &orphans, now(), false)), @r"
        NAMESPACE   NAME            LEFT BY       CAUSE                 AGE
        x           Pod/nightly-1   Job/nightly   orphaned-by-default   3m20s
        other       Secret/s                      ownership-cycle       3m20s

        2 objects left behind; to remove:
          kubectl delete pod/nightly-1
          kubectl delete other:secret/s
        ");
        assert_eq!(
            written(|out| write_orphans(out, Look::PLAIN, &Orphans::default(), now(), false)),
            "nothing was left behind\n"
        );
        let gap = crate::model::catalog::Gap {
            resource: "pods".into(),
            group: String::new(),
            version: None,
            reason: "Forbidden".into(),
            message: "no".into(),
        };
        let unread = Orphans { gaps: vec![gap], ..Orphans::default() };
        let said = written(|out| write_orphans(out, Look::PLAIN, &unread, now(), false));
        assert!(said.starts_with("nothing was found in what could be read\n"), "{said}");
    }
}
