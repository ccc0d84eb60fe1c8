//! Why it does not go, and the safest way out: findings with their evidence in the server's own words, and commands
//! to copy.

use std::collections::BTreeSet;
use std::io;

use super::gaps::write_gaps;
use super::look::{Look, Role};
use super::text::{Line, write_item, write_paragraph};
use crate::model::diagnosis::{
    Actor, Cause, Diagnosed, Diagnosis, DryRun, Evidence, Finding, Remedy, State, Unchecked, Verdict,
};
use crate::model::forecast::Holder;
use crate::model::object::ObjectRef;

/// How many names one line holds before it counts the rest.
const MOST_NAMES: usize = 10;
/// A longer chain is shown by its ends.
const MOST_LINKS: usize = 8;

/// The answer of `diagnose`. `everywhere`: all namespaces were asked for.
pub fn write_diagnosis(
    out: &mut impl io::Write,
    look: Look,
    diagnosis: &Diagnosis,
    everywhere: bool,
) -> io::Result<()> {
    let mut names = Names::of(
        diagnosis.objects.iter().map(|object| &object.reference).chain(findings_objects(&diagnosis.findings)),
    );
    names.said |= everywhere;
    write_all(out, look, &names, &diagnosis.findings, &diagnosis.unchecked)?;
    if !diagnosis.findings.is_empty() {
        writeln!(out)?;
    }
    let of_state = |state: State| {
        diagnosis.objects.iter().filter(move |object| object.state == state).map(|object| &object.reference)
    };
    write_names(out, look, &names, (Role::Good, "gone: "), of_state(State::Gone))?;
    write_names(out, look, &names, (Role::Caution, "waiting: "), of_state(State::Waiting))?;
    for object in diagnosis.objects.iter().filter(|object| object.state == State::Live) {
        live_line(&names, object, &diagnosis.findings).write(out, look)?;
    }
    let stuck = of_state(State::Stuck).count();
    if diagnosis.objects.is_empty() && diagnosis.gaps.is_empty() {
        Line::new().styled(Role::Good, "nothing is Terminating").write(out, look)?;
    } else if diagnosis.objects.is_empty() {
        Line::new().styled(Role::Caution, "nothing is Terminating in what could be read").write(out, look)?;
    } else if stuck == 0 {
        Line::new().styled(Role::Good, "nothing is stuck").write(out, look)?;
    } else {
        let line = Line::new().styled(Role::Bad, "stuck: ").plain(names.some(of_state(State::Stuck)));
        line.write(out, look)?;
    }
    write_gaps(out, look, &diagnosis.gaps)
}

/// What would become of a live object; never that nothing would hold it where nobody could find out.
fn live_line(names: &Names, object: &Diagnosed, findings: &[Finding]) -> Line {
    let holders: Vec<String> =
        object.would_hold.iter().flatten().map(|holder| holder_text(names, holder)).collect();
    let mut line = Line::new().plain(names.of_object(&object.reference)).plain(" is not being deleted; ");
    let refused = object.dry_run == Some(DryRun::Refused);
    if refused {
        line = line.styled(Role::Bad, "its DELETE would be refused");
    }
    if !holders.is_empty() {
        let words = if refused { ", and it would be held by " } else { "it would be held by " };
        return line.plain(words).styled(Role::Caution, holders.join(", "));
    }
    let is_named = || {
        findings.iter().any(|finding| finding.chain.first().is_some_and(|first| *first == object.reference))
    };
    match object.dry_run {
        Some(DryRun::Refused) => line,
        Some(DryRun::Accepted) if is_named() => line.plain("nothing else would hold it"),
        Some(DryRun::Accepted) => line.plain("nothing would hold it"),
        Some(DryRun::Unknown) | None => {
            line.plain("nothing in sight would hold it; whether its DELETE is accepted is not known")
        }
    }
}

/// Findings, and what could not be checked: also part of a result.
pub(super) fn write_findings(
    out: &mut impl io::Write,
    look: Look,
    findings: &[Finding],
    unchecked: &[Unchecked],
) -> io::Result<()> {
    write_all(out, look, &Names::of(findings_objects(findings)), findings, unchecked)
}

fn write_all(
    out: &mut impl io::Write,
    look: Look,
    names: &Names,
    findings: &[Finding],
    unchecked: &[Unchecked],
) -> io::Result<()> {
    for (position, group) in groups(findings).iter().enumerate() {
        if position > 0 {
            writeln!(out)?;
        }
        write_group(out, look, names, group)?;
    }
    // A user without rights in the cluster misses a dozen of them: one line, and the whole in JSON.
    let is_forbidden = |unchecked: &&Unchecked| unchecked.why.contains(" is forbidden: User \"");
    let (forbidden, other): (Vec<&Unchecked>, Vec<&Unchecked>) = unchecked.iter().partition(is_forbidden);
    for Unchecked { check, why } in other {
        Line::new()
            .styled(Role::Caution, "not checked: ")
            .plain(format!("{check} ({why})"))
            .write(out, look)?;
    }
    match forbidden.as_slice() {
        [] => Ok(()),
        [Unchecked { check, why }] => Line::new()
            .styled(Role::Caution, "not checked: ")
            .plain(format!("{check} ({why})"))
            .write(out, look),
        several => {
            let checks: Vec<&str> = several.iter().map(|unchecked| unchecked.check.as_str()).collect();
            Line::new()
                .styled(Role::Caution, "not checked, for lack of rights: ")
                .plain(checks.join("; "))
                .write(out, look)
        }
    }
}

/// Findings that tell the same of several objects, together; in the order of the first of each.
fn groups(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    let key = |finding: &Finding| (finding.cause, finding.verdict, finding.also.clone(), finding.by.clone());
    for finding in findings {
        // Who is not known may be somebody else each time.
        let same = finding.by.as_ref().and_then(|_| {
            groups.iter_mut().find(|group| group.first().is_some_and(|first| key(first) == key(finding)))
        });
        match same {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

fn write_group(out: &mut impl io::Write, look: Look, names: &Names, group: &[&Finding]) -> io::Result<()> {
    let [finding, others @ ..] = group else { return Ok(()) };
    let waiting = matches!(finding.cause, Cause::GracePeriod | Cause::Progressing);
    let (role, symbol) = if waiting {
        (Role::Caution, look.glyph("… ", "~ "))
    } else {
        (Role::Bad, look.glyph("✗ ", "x "))
    };
    let mut title = Line::new()
        .styled(role, symbol)
        .styled(Role::Strong, names.of_object(&finding.object))
        .plain(": ")
        .styled(role, cause_name(finding.cause))
        .plain(format!(" ({})", verdict_name(finding.verdict)));
    if !finding.also.is_empty() {
        let also: Vec<String> = finding.also.iter().map(|cause| cause_name(*cause)).collect();
        title.push(Role::Dim, format!(", also {}", also.join(", ")));
    }
    title.write(out, look)?;
    write_paragraph(out, look, 2, Role::Plain, &finding.summary)?;
    if finding.chain.len() > 1 {
        let chain = names.chain(look, &finding.chain);
        write_paragraph(out, look, 2, Role::Dim, &format!("chain: {chain}"))?;
    }
    if let Some(by) = &finding.by {
        let by = actor(by);
        if !by.is_empty() {
            write_paragraph(out, look, 2, Role::Plain, &format!("by: {by}"))?;
        }
    }
    let alike: Vec<&ObjectRef> = others
        .iter()
        .map(|other| &other.object)
        .chain(group.iter().flat_map(|finding| &finding.alike))
        .collect();
    if !alike.is_empty() {
        let objects = names.some(alike.iter().copied());
        let unexamined: usize = group.iter().map(|finding| finding.unexamined).sum();
        let text = match unexamined {
            0 => format!("the same is true of {} more: {objects}", alike.len()),
            _ => format!(
                "{} more are in the same state ({unexamined} of them were not examined one by one): {objects}",
                alike.len()
            ),
        };
        write_paragraph(out, look, 2, Role::Plain, &text)?;
    }
    write_evidence(out, look, &finding.evidence)?;
    if !finding.remedies.is_empty() {
        Line::new().styled(Role::Dim, "  ways out, safest first:").write(out, look)?;
    }
    write_remedies(out, look, &finding.remedies)
}

/// The server's own words, each with where they are from.
pub(super) fn write_evidence(out: &mut impl io::Write, look: Look, evidence: &[Evidence]) -> io::Result<()> {
    for evidence in evidence {
        write_paragraph(out, look, 2, Role::Dim, &format!("{}:", evidence.source))?;
        write_paragraph(out, look, 4, Role::Plain, &evidence.text)?;
    }
    Ok(())
}

/// Ways out, numbered.
pub(super) fn write_remedies(out: &mut impl io::Write, look: Look, remedies: &[Remedy]) -> io::Result<()> {
    for (position, remedy) in remedies.iter().enumerate() {
        write_item(out, look, &format!("  {}. ", position + 1), Role::Plain, &remedy.text)?;
        if let Some(command) = &remedy.command {
            // One line however long: it is to be copied.
            Line::new().plain("     ").command(command).write(out, look)?;
        }
        if let Some(risk) = &remedy.risk {
            write_paragraph(out, look, 5, Role::Caution, &format!("risk: {risk}"))?;
        }
    }
    Ok(())
}

/// Who it is, as far as it is known.
pub(super) fn actor(actor: &Actor) -> String {
    let mut parts = Vec::new();
    let mut part = |label: &str, value: &Option<String>| {
        if let Some(value) = value {
            parts.push(format!("{label} {value}"));
        }
    };
    part("webhook", &actor.webhook);
    part("configuration", &actor.configuration);
    part("policy", &actor.policy);
    part("binding", &actor.binding);
    part("finalizer", &actor.finalizer);
    part("written by", &actor.manager);
    part("node", &actor.node);
    part("APIService", &actor.api_service);
    part("Pod", &actor.pod);
    let further: Vec<&str> = actor
        .finalizers
        .iter()
        .filter(|finalizer| Some(*finalizer) != actor.finalizer.as_ref())
        .map(String::as_str)
        .collect();
    if !further.is_empty() {
        parts.push(format!("further finalizers {}", further.join(", ")));
    }
    if !actor.candidates.is_empty() {
        parts.push(format!("one of {}", actor.candidates.join(", ")));
    }
    parts.join(", ")
}

fn holder_text(names: &Names, holder: &Holder) -> String {
    match holder {
        Holder::Object(reference) => names.of_object(reference),
        Holder::Finalizer(finalizer) => format!("finalizer {finalizer}"),
        Holder::Node(node) => format!("the kubelet of {node}"),
    }
}

/// As the output contract spells it.
pub(super) fn cause_name(cause: Cause) -> String {
    spelled(&cause)
}

fn verdict_name(verdict: Verdict) -> String {
    spelled(&verdict)
}

/// The one spelling of a unit variant: the contract's.
fn spelled(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn findings_objects(findings: &[Finding]) -> impl Iterator<Item = &ObjectRef> {
    findings
        .iter()
        .flat_map(|finding| std::iter::once(&finding.object).chain(&finding.chain).chain(&finding.alike))
}

/// A line of names behind a label; nothing without names.
pub(super) fn write_names<'a>(
    out: &mut impl io::Write,
    look: Look,
    names: &Names,
    label: (Role, &str),
    objects: impl Iterator<Item = &'a ObjectRef> + Clone,
) -> io::Result<()> {
    if objects.clone().next().is_none() {
        return Ok(());
    }
    Line::new().styled(label.0, label.1).plain(names.some(objects)).write(out, look)
}

/// How objects are named in sentences: with their namespace where there are several, or where all were asked for.
pub(super) struct Names {
    said: bool,
}

impl Names {
    pub(super) fn of<'a>(objects: impl Iterator<Item = &'a ObjectRef>) -> Self {
        let namespaces: BTreeSet<&str> = objects.filter_map(|object| object.namespace.as_deref()).collect();
        Self { said: namespaces.len() > 1 }
    }

    pub(super) fn of_object(&self, object: &ObjectRef) -> String {
        match &object.namespace {
            Some(namespace) if self.said => format!("{} in {namespace}", object.short()),
            _ => object.short(),
        }
    }

    /// The first few, and how many more.
    pub(super) fn some<'a>(&self, objects: impl Iterator<Item = &'a ObjectRef>) -> String {
        let names: Vec<String> = objects.map(|object| self.of_object(object)).collect();
        let more = names.len().saturating_sub(MOST_NAMES);
        let shown = names[..names.len() - more].join(", ");
        if more == 0 { shown } else { format!("{shown} and {more} more") }
    }

    fn chain(&self, look: Look, chain: &[ObjectRef]) -> String {
        let names: Vec<String> = chain.iter().map(|object| self.of_object(object)).collect();
        let arrow = format!(" {} ", look.arrow());
        if names.len() <= MOST_LINKS {
            return names.join(&arrow);
        }
        let between = format!("({} between)", names.len() - 6);
        let ends = names[..3].iter().chain(std::iter::once(&between)).chain(&names[names.len() - 3..]);
        ends.cloned().collect::<Vec<_>>().join(&arrow)
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::testing::graph;

    fn reference(name: &str) -> ObjectRef {
        graph(name).object(0).reference()
    }

    fn finding(object: &str) -> Finding {
        Finding {
            cause: Cause::AdmissionDenied,
            also: vec![],
            verdict: Verdict::Proven,
            object: reference(object),
            chain: vec![reference("Job/build"), reference(object)],
            summary: "the webhook refuses the patch that would let it go".into(),
            by: Some(Actor {
                webhook: Some("images.example.test".into()),
                configuration: Some("image-resolver".into()),
                finalizer: Some("foregroundDeletion".into()),
                ..Actor::default()
            }),
            evidence: vec![Evidence {
                source: "PATCH of its metadata (dry run)".into(),
                text: "admission webhook \"images.example.test\" denied the request:\nsecret \"pull\" not found\u{1b}[2J".into(),
            }],
            remedies: vec![
                Remedy {
                    command: Some("kubectl cascade delete -n x pod/build-1 --policy background".into()),
                    text: "delete it again in background: that needs nobody else".into(),
                    risk: None,
                },
                Remedy { command: None, text: "mend the webhook".into(), risk: Some("none, but slow".into()) },
            ],
            alike: vec![],
            unexamined: 0,
        }
    }

    #[test]
    fn a_finding_has_chain_actor_evidence_and_ways_out() {
        let diagnosis = Diagnosis {
            objects: vec![Diagnosed::new(reference("Job/build"), State::Stuck)],
            findings: vec![
                Finding { alike: vec![reference("Pod/build-3")], ..finding("Pod/build-1") },
                finding("Pod/build-2"),
            ],
            unchecked: vec![Unchecked { check: "leases".into(), why: "forbidden".into() }],
            gaps: vec![],
        };
        insta::assert_snapshot!(written(|out| write_diagnosis(out, Look::PLAIN, &diagnosis, false)), @r#"
        ✗ Pod/build-1: admission-denied (proven)
          the webhook refuses the patch that would let it go
          chain: Job/build → Pod/build-1
          by: webhook images.example.test, configuration image-resolver, finalizer foregroundDeletion
          the same is true of 2 more: Pod/build-2, Pod/build-3
          PATCH of its metadata (dry run):
            admission webhook "images.example.test" denied the request:
            secret "pull" not found\u{1b}[2J
          ways out, safest first:
          1. delete it again in background: that needs nobody else
             kubectl cascade delete -n x pod/build-1 --policy background
          2. mend the webhook
             risk: none, but slow
        not checked: leases (forbidden)

        stuck: Job/build
        "#);
    }

    #[test]
    fn what_is_not_stuck_says_what_it_is() {
        let live = |name: &str, dry_run, holders: &[Holder]| Diagnosed {
            would_hold: Some(holders.to_vec()),
            dry_run: Some(dry_run),
            ..Diagnosed::new(reference(name), State::Live)
        };
        let holders = [Holder::Finalizer("a/b".into()), Holder::Node("n1".into())];
        let diagnosis = Diagnosis {
            objects: vec![
                Diagnosed::new(reference("Pod/a"), State::Gone),
                Diagnosed::new(reference("Pod/b"), State::Waiting),
                live("Pod/c", DryRun::Accepted, &holders),
                live("other:Pod/d", DryRun::Accepted, &[]),
                live("Pod/e", DryRun::Refused, &[]),
                live("Pod/f", DryRun::Refused, &holders[..1]),
                live("Pod/g", DryRun::Unknown, &[]),
            ],
            ..Diagnosis::default()
        };
        insta::assert_snapshot!(written(|out| write_diagnosis(out, Look::PLAIN, &diagnosis, false)), @r"
        gone: Pod/a in x
        waiting: Pod/b in x
        Pod/c in x is not being deleted; it would be held by finalizer a/b, the kubelet of n1
        Pod/d in other is not being deleted; nothing would hold it
        Pod/e in x is not being deleted; its DELETE would be refused
        Pod/f in x is not being deleted; its DELETE would be refused, and it would be held by finalizer a/b
        Pod/g in x is not being deleted; nothing in sight would hold it; whether its DELETE is accepted is not known
        nothing is stuck
        ");
        assert_eq!(
            written(|out| write_diagnosis(out, Look::PLAIN, &Diagnosis::default(), false)),
            "nothing is Terminating\n"
        );
    }

    #[test]
    fn a_command_is_never_broken_and_text_is_wrapped() {
        let look = Look { width: Some(40), ..Look::PLAIN };
        let text = written(|out| write_findings(out, look, &[finding("Pod/build-1")], &[]));
        assert!(
            text.contains("     kubectl cascade delete -n x pod/build-1 --policy background\n"),
            "{text}"
        );
        assert!(text.contains("  the webhook refuses the patch that\n  would let it go\n"), "{text}");
    }

    #[test]
    fn a_long_chain_shows_its_ends() {
        let chain: Vec<ObjectRef> = (0..20).map(|number| reference(&format!("Secret/s{number}"))).collect();
        assert_eq!(
            Names { said: false }.chain(Look::PLAIN, &chain),
            "Secret/s0 → Secret/s1 → Secret/s2 → (14 between) → Secret/s17 → Secret/s18 → Secret/s19"
        );
    }
}
