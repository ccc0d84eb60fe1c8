//! Removing a finalizer: what it would mean, who refuses it, and how the object stands afterwards.

use std::io;

use super::age::age;
use super::diagnosis::{actor, write_diagnosis, write_evidence, write_remedies};
use super::look::{Look, Role};
use super::text::{Line, write_paragraph};
use crate::model::diagnosis::{Known, State};
use crate::model::object::{Object, Timestamp};
use crate::model::release::{Refusal, Release};

/// What is to be removed, and what that means; shown before anything is asked. `dry_run` is whether the server was
/// asked and accepts it; it may not understand dry runs.
pub fn write_proposal(
    out: &mut impl io::Write,
    look: Look,
    object: &Object,
    release: &Release,
    served: Option<&Known>,
    dry_run: bool,
    now: Timestamp,
) -> io::Result<()> {
    let mut title = Line::new().styled(Role::Strong, object.reference().short());
    if object.is_terminating() {
        title = title.plain(format!(", Terminating for {}", age(object.deleted, now)));
    } else {
        title = title.styled(Role::Caution, ", not being deleted");
    }
    title.write(out, look)?;
    let mut row = |label: &str, role: Role, text: &str| {
        write_paragraph(out, look, 2, role, &format!("{label}: {text}"))
    };
    row("finalizer to remove", Role::Bad, &release.finalizer)?;
    let others: Vec<&str> =
        object.finalizers.iter().map(String::as_str).filter(|own| *own != release.finalizer).collect();
    if !others.is_empty() {
        row("further finalizers", Role::Plain, &others.join(", "))?;
    }
    if let Some(known) = served {
        row("served by", Role::Plain, &format!("{}, which waits for {}", known.server, known.waits_for))?;
    }
    row("leaves behind", Role::Caution, &release.leaves_behind)?;
    let role = if object.is_terminating() { Role::Plain } else { Role::Caution };
    row("then", role, &release.effect)?;
    let text = if dry_run {
        "the server accepts the removal"
    } else {
        "not made: the server of this kind is not known to understand it"
    };
    row("dry run", Role::Plain, text)
}

/// Why the finalizer is not removed, by whom, and what does better.
pub fn write_refusal(
    out: &mut impl io::Write,
    look: Look,
    object: &Object,
    release: &Release,
    refusal: &Refusal,
) -> io::Result<()> {
    Line::new()
        .styled(Role::Bad, look.glyph("✗ ", "x "))
        .styled(Role::Strong, object.reference().short())
        .plain(format!(": {} stays", release.finalizer))
        .write(out, look)?;
    write_paragraph(out, look, 2, Role::Plain, &refusal.reason)?;
    if let Some(by) = &refusal.by {
        write_paragraph(out, look, 2, Role::Plain, &format!("by: {}", actor(by)))?;
    }
    write_evidence(out, look, &refusal.evidence)?;
    if !refusal.remedies.is_empty() {
        Line::new().styled(Role::Dim, "  ways out, safest first:").write(out, look)?;
    }
    write_remedies(out, look, &refusal.remedies)
}

/// The finalizer was removed: how the object stands now.
pub fn write_outcome(out: &mut impl io::Write, look: Look, release: &Release) -> io::Result<()> {
    let name = release.target.as_ref().map(|target| target.short()).unwrap_or_default();
    let gone = release
        .after
        .as_ref()
        .is_some_and(|after| after.objects.iter().all(|object| object.state == State::Gone));
    let rest = if gone { format!(", and {name} is gone") } else { String::new() };
    Line::new()
        .styled(Role::Good, look.glyph("✓ ", "+ "))
        .styled(Role::Good, format!("removed {} from {name}{rest}", release.finalizer))
        .write(out, look)?;
    match &release.after {
        Some(after) if !gone => write_diagnosis(out, look, after, false),
        _ => Ok(()),
    }
}

/// The question. `context` is the kubeconfig context, where one is used.
pub fn question(object: &Object, finalizer: &str, context: Option<&str>) -> String {
    let namespace =
        object.namespace.as_deref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
    let context = context.map(|name| format!(" of context {name}")).unwrap_or_default();
    format!("Remove {finalizer} from {}{namespace}{context}?", object.reference().short())
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::command::Caller;
    use crate::model::diagnosis::{Actor, Diagnosed, Diagnosis, DryRun, Evidence, served};
    use crate::model::release::{Choice, choose, digest, effect, leaves_behind};
    use crate::model::testing::{graph, now};

    fn proposed(text: &str, finalizer: &str, dry_run: bool) -> String {
        let object = graph(text).object(0).clone();
        let release = Release {
            target: Some(object.reference()),
            finalizer: finalizer.to_owned(),
            digest: digest(&object, finalizer),
            leaves_behind: leaves_behind(finalizer),
            effect: effect(&object, finalizer, 0),
            ..Release::default()
        };
        let known = served(finalizer);
        written(|out| write_proposal(out, Look::PLAIN, &object, &release, known, dry_run, now()))
    }

    #[test]
    fn a_proposal_says_what_goes_what_stays_and_what_is_left_behind() {
        insta::assert_snapshot!(
            proposed(
                "Service/web terminating finalizer=a/b finalizer=service.kubernetes.io/load-balancer-cleanup",
                "service.kubernetes.io/load-balancer-cleanup",
                true
            ),
            @r"
        Service/web, Terminating for 60s
          finalizer to remove: service.kubernetes.io/load-balancer-cleanup
          further finalizers: a/b
          served by: the cloud controller manager, which waits for the cloud load balancer to be deleted
          leaves behind: the cloud load balancer may stay and cost money: check it there first
          then: Service/web stays until a/b is off, too
          dry run: the server accepts the removal
        "
        );
        insta::assert_snapshot!(proposed("ConfigMap/a finalizer=a/b", "a/b", false), @r"
        ConfigMap/a, not being deleted
          finalizer to remove: a/b
          leaves behind: what its controller would have cleaned up stays, outside the cluster too
          then: ConfigMap/a is not being deleted and stays; when it is deleted, nothing of what a/b stands for is done
          dry run: not made: the server of this kind is not known to understand it
        ");
    }

    #[test]
    fn a_refusal_names_who_and_what_does_better() {
        let object = graph("ConfigMap/a terminating finalizer=foregroundDeletion").object(0).clone();
        let Ok(Choice::Never { finalizer, refusal, .. }) = choose(&object, None, &Caller::default()) else {
            panic!("refused");
        };
        let release = Release { finalizer, ..Release::default() };
        insta::assert_snapshot!(written(|out| write_refusal(out, Look::PLAIN, &object, &release, &refusal)), @r#"
        ✗ ConfigMap/a: foregroundDeletion stays
          the garbage collector sets and removes foregroundDeletion, and a patch of it passes the same admission that may be refusing the collector; a delete with the background policy takes it off without asking anybody
          metadata.finalizers of ConfigMap/a:
            ["foregroundDeletion"]
          ways out, safest first:
          1. delete it again with the background policy
             kubectl cascade delete -n x configmap/a --policy background
             risk: what still depends on it is collected afterwards, in background, or stays until its own cause is solved
        "#);
        let refusal = Refusal {
            by: Some(Actor { webhook: Some("w.example.test".into()), ..Actor::default() }),
            reason: "the webhook refuses".into(),
            evidence: vec![Evidence { source: "PATCH".into(), text: "no\u{1b}[2J".into() }],
            remedies: vec![],
        };
        insta::assert_snapshot!(written(|out| write_refusal(out, Look::PLAIN, &object, &release, &refusal)), @r"
        ✗ ConfigMap/a: foregroundDeletion stays
          the webhook refuses
          by: webhook w.example.test
          PATCH:
            no\u{1b}[2J
        ");
    }

    #[test]
    fn the_outcome_says_whether_it_is_gone() {
        let reference = graph("ConfigMap/a").object(0).reference();
        let outcome = |state| {
            let after = Diagnosis {
                objects: vec![Diagnosed {
                    would_hold: Some(vec![]),
                    dry_run: Some(DryRun::Accepted),
                    ..Diagnosed::new(reference.clone(), state)
                }],
                ..Diagnosis::default()
            };
            let release = Release {
                target: Some(reference.clone()),
                finalizer: "a/b".into(),
                after: Some(after),
                ..Release::default()
            };
            written(|out| write_outcome(out, Look::PLAIN, &release))
        };
        assert_eq!(outcome(State::Gone), "✓ removed a/b from ConfigMap/a, and ConfigMap/a is gone\n");
        assert_eq!(
            outcome(State::Live),
            "✓ removed a/b from ConfigMap/a\nConfigMap/a is not being deleted; nothing would hold it\nnothing is stuck\n"
        );
    }

    #[test]
    fn the_question_names_object_place_and_finalizer() {
        let object = graph("ConfigMap/a finalizer=a/b").object(0).clone();
        assert_eq!(
            question(&object, "a/b", Some("kind-dev")),
            "Remove a/b from ConfigMap/a in namespace x of context kind-dev?"
        );
    }
}
