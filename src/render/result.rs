//! How a deletion ended: the end state, what did not end as forecast, and why.

use std::io;

use super::age::duration;
use super::counts::number;
use super::diagnosis::{Names, write_findings, write_names};
use super::gaps::write_gaps;
use super::look::{Look, Role};
use super::text::{Line, write_paragraph};
use crate::model::catalog::Gap;
use crate::model::object::ObjectRef;
use crate::model::result::{DeletionResult, Outcome, Stage};

/// The answer of `delete` and `wait`, which stands below a forecast that has told some of the gaps, or below none.
pub fn write_result(
    out: &mut impl io::Write,
    look: Look,
    result: &DeletionResult,
    told: &[Gap],
) -> io::Result<()> {
    headline(look, result).write(out, look)?;
    let lists = [&result.remaining, &result.kept, &result.orphaned, &result.leaked].into_iter().flatten();
    let names = Names::of(lists.chain(result.unexpected.iter().map(|unexpected| &unexpected.reference)));
    let mut list = |role, label: &str, objects: &[ObjectRef]| {
        write_names(out, look, &names, (role, label), objects.iter())
    };
    match result.stage {
        Stage::UnderWay | Stage::Accepted => list(Role::Plain, "  not looked at again: ", &result.remaining)?,
        Stage::NothingSent | Stage::Unclear | Stage::Followed => {
            list(Role::Bad, "  still there: ", &result.remaining)?
        }
    }
    list(Role::Good, "  kept: ", &result.kept)?;
    list(Role::Good, "  orphaned: ", &result.orphaned)?;
    list(Role::Caution, "  left over and never collected: ", &result.leaked)?;
    let again: Vec<ObjectRef> = result.recreated.iter().map(|recreated| recreated.now.clone()).collect();
    list(Role::Caution, "  made again by something else: ", &again)?;
    for unexpected in &result.unexpected {
        let text = format!("unexpected: {}: {}", names.of_object(&unexpected.reference), unexpected.note);
        write_paragraph(out, look, 2, Role::Caution, &text)?;
    }
    if !result.findings.is_empty() {
        writeln!(out)?;
    }
    write_findings(out, look, &result.findings, &result.unchecked)?;
    let untold: Vec<Gap> = result.gaps.iter().filter(|gap| !told.contains(gap)).cloned().collect();
    write_gaps(out, look, &untold)
}

fn headline(look: Look, result: &DeletionResult) -> Line {
    let gone = result.deleted.len();
    let total = gone + result.remaining.len();
    let elapsed = elapsed(result.elapsed_seconds);
    let of_all = format!("{gone} of {} gone", number(total, "object"));
    let good = look.glyph("✓ ", "+ ");
    let bad = look.glyph("✗ ", "x ");
    let (role, symbol, text) = match result.outcome {
        Outcome::Complete if total == 0 => (Role::Good, good, "nothing to delete".to_owned()),
        Outcome::Complete => {
            (Role::Good, good, format!("done: {} gone after {elapsed}", number(gone, "object")))
        }
        Outcome::CompleteWithGaps => (
            Role::Caution,
            good,
            format!(
                "{} gone after {elapsed}: all that was seen, but some kinds could not be read",
                number(gone, "object")
            ),
        ),
        Outcome::NotWaited if result.stage == Stage::UnderWay => (
            Role::Plain,
            "",
            "nothing was sent: the deletion was under way already; not waited for".to_owned(),
        ),
        Outcome::NotWaited => (Role::Plain, "", "deletion accepted, not waited for".to_owned()),
        Outcome::Unverified if result.stage == Stage::Unclear => (
            Role::Bad,
            bad,
            format!("whether the deletion was accepted is not known: {of_all} when last looked at"),
        ),
        Outcome::Unverified => (
            Role::Bad,
            bad,
            format!("deletion accepted, but its end could not be verified: {of_all} after {elapsed}"),
        ),
        Outcome::Stalled => (Role::Bad, bad, format!("stalled: {of_all} after {elapsed}")),
        Outcome::TimedOut => (Role::Bad, bad, format!("timed out: {of_all} after {elapsed}")),
        Outcome::Refused => match result.stage {
            Stage::NothingSent => (Role::Bad, bad, "refused: nothing was deleted".to_owned()),
            Stage::UnderWay => (
                Role::Bad,
                bad,
                "refused in part: the rest was under way already, and is not waited for".to_owned(),
            ),
            Stage::Accepted => {
                (Role::Bad, bad, "refused in part: the rest is accepted, and not waited for".to_owned())
            }
            Stage::Unclear | Stage::Followed => (Role::Bad, bad, format!("refused in part: {of_all}")),
        },
        Outcome::Interrupted => (
            Role::Caution,
            bad,
            format!("interrupted: {of_all} after {elapsed}; what the server has accepted goes on without us"),
        ),
    };
    Line::new().styled(role, symbol).styled(role, text)
}

fn elapsed(seconds: f64) -> String {
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        // Negative and endless ones do not come here.
        duration(seconds as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::diagnosis::{Cause, Finding, Verdict};
    use crate::model::policy::Policy;
    use crate::model::result::{Recreated, Unexpected};
    use crate::model::testing::graph;

    fn reference(name: &str) -> ObjectRef {
        graph(name).object(0).reference()
    }

    fn text(result: &DeletionResult) -> String {
        written(|out| write_result(out, Look::PLAIN, result, &[]))
    }

    #[test]
    fn a_complete_deletion_is_one_line() {
        let mut result = DeletionResult::new(Outcome::Complete, Policy::Background);
        result.deleted = vec![reference("Job/a"), reference("Pod/b")];
        result.elapsed_seconds = 1.26;
        assert_eq!(text(&result), "✓ done: 2 objects gone after 1.3 s\n");
        result.deleted.clear();
        assert_eq!(text(&result), "✓ nothing to delete\n");
    }

    #[test]
    fn a_stalled_deletion_says_what_is_left_and_why() {
        let mut result = DeletionResult::new(Outcome::Stalled, Policy::Foreground);
        result.elapsed_seconds = 200.0;
        result.deleted = vec![reference("Secret/a")];
        result.remaining = vec![reference("Job/b"), reference("other:Pod/c")];
        result.kept = vec![reference("ConfigMap/d")];
        result.orphaned = vec![reference("ConfigMap/e")];
        result.leaked = vec![reference("ConfigMap/f")];
        result.recreated = vec![Recreated { was: reference("Pod/g"), now: reference("Pod/g") }];
        result.unexpected = vec![Unexpected {
            reference: reference("ConfigMap/h"),
            note: "is gone, though it was to stay".into(),
        }];
        result.findings = vec![Finding {
            cause: Cause::GracePeriod,
            also: vec![],
            verdict: Verdict::Proven,
            object: reference("other:Pod/c"),
            chain: vec![reference("other:Pod/c")],
            summary: "it still runs".into(),
            by: None,
            evidence: vec![],
            remedies: vec![],
            alike: vec![],
            unexamined: 0,
        }];
        insta::assert_snapshot!(text(&result), @r"
        ✗ stalled: 1 of 3 objects gone after 3m20s
          still there: Job/b in x, Pod/c in other
          kept: ConfigMap/d in x
          orphaned: ConfigMap/e in x
          left over and never collected: ConfigMap/f in x
          made again by something else: Pod/g in x
          unexpected: ConfigMap/h in x: is gone, though it was to stay

        … Pod/c: grace-period (proven)
          it still runs
        ");
    }

    #[test]
    fn a_gap_that_the_forecast_above_has_told_is_not_told_again() {
        let gap = |resource: &str| Gap {
            resource: resource.into(),
            group: String::new(),
            version: None,
            reason: "Forbidden".into(),
            message: "no".into(),
        };
        let mut result = DeletionResult::new(Outcome::CompleteWithGaps, Policy::Background);
        result.gaps = vec![gap("pods"), gap("secrets")];
        let told = written(|out| write_result(out, Look::PLAIN, &result, &[gap("secrets")]));
        assert!(told.ends_with("\nnot searched: pods (forbidden: no)\n"), "{told}");
        assert!(text(&result).ends_with("\nnot searched: secrets, pods (forbidden: no)\n"));
    }

    #[test]
    fn what_nobody_looked_at_again_is_not_called_still_there() {
        let mut result = DeletionResult::new(Outcome::NotWaited, Policy::Background);
        result.stage = Stage::Accepted;
        result.remaining = vec![reference("Job/a"), reference("Pod/b")];
        assert_eq!(text(&result), "deletion accepted, not waited for\n  not looked at again: Job/a, Pod/b\n");
        result.outcome = Outcome::Refused;
        assert!(text(&result).starts_with("✗ refused in part: the rest is accepted, and not waited for\n"));
        result.stage = Stage::UnderWay;
        assert!(
            text(&result)
                .starts_with("✗ refused in part: the rest was under way already, and is not waited for\n")
        );
        result.outcome = Outcome::NotWaited;
        assert_eq!(
            text(&result),
            "nothing was sent: the deletion was under way already; not waited for\n  not looked at again: Job/a, Pod/b\n"
        );
    }

    #[test]
    fn refused_is_nothing_only_where_nothing_else_was_accepted() {
        let mut result = DeletionResult::new(Outcome::Refused, Policy::Background);
        result.remaining = vec![reference("Job/a"), reference("Pod/b")];
        assert!(text(&result).starts_with("✗ refused: nothing was deleted\n"));
        result.stage = Stage::Followed;
        assert!(text(&result).starts_with("✗ refused in part: 0 of 2 objects gone\n"));
    }

    #[test]
    fn every_outcome_has_its_sentence() {
        let lines: String = [
            Outcome::CompleteWithGaps,
            Outcome::NotWaited,
            Outcome::Unverified,
            Outcome::TimedOut,
            Outcome::Refused,
            Outcome::Interrupted,
        ]
        .into_iter()
        .map(|outcome| {
            let result = DeletionResult::new(outcome, Policy::Background);
            written(|out| headline(Look::PLAIN, &result).write(out, Look::PLAIN))
        })
        .collect();
        insta::assert_snapshot!(lines, @r"
        ✓ 0 objects gone after 0.0 s: all that was seen, but some kinds could not be read
        deletion accepted, not waited for
        ✗ deletion accepted, but its end could not be verified: 0 of 0 objects gone after 0.0 s
        ✗ timed out: 0 of 0 objects gone after 0.0 s
        ✗ refused: nothing was deleted
        ✗ interrupted: 0 of 0 objects gone after 0.0 s; what the server has accepted goes on without us
        ");
    }
}
