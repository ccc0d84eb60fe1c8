//! How a deletion ended: what is proven gone, who survived, what is left and why; the report and the exit code.
//! `delete` and `wait` share it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::diagnose::below;
use super::follow::{End, Following};
use super::interrupt::Interrupt;
use super::keep::Stop;
use super::session::Session;
use super::subject::{Subject, read};
use crate::cli::ReportFormat;
use crate::cluster::evidence;
use crate::cluster::metadata::{self, Wanted};
use crate::cluster::probes;
use crate::error::{ExitCode, Failure, FailureKind, Trouble};
use crate::model::catalog::Gap;
use crate::model::diagnosis::{self, Case, Diagnosis, Finding, Pace, Probing, Unchecked};
use crate::model::facts::{self, Identity, Question};
use crate::model::forecast::{Fate, Forecast, forecast};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, ObjectRef, Timestamp, Uid};
use crate::model::policy::Policy;
use crate::model::progress::Progress;
use crate::model::result::{DeletionResult, Outcome, Recreated, Stage, Unexpected};
use crate::render::failure::write_failure;
use crate::render::{json, names, notes, result as report_text};

/// So many refusals are explained at most: each takes a request or two, and whoever refuses one refuses most others.
const MOST_EXPLAINED: usize = 20;

/// Everything that is known when following stops.
pub struct Ended {
    /// How following ended; none where every DELETE was refused, so that there was nothing to follow.
    pub end: Option<End>,
    /// What was followed.
    pub following: Following,
    /// The targets whose DELETE was refused.
    pub refusals: Vec<(Object, Trouble)>,
    /// Whether the last DELETE was accepted could not be found out.
    pub unclear: bool,
    /// The policy that was sent.
    pub policy: Policy,
    /// How far probes may go.
    pub probing: Probing,
    /// What has lost its ownerReference by `--keep`, whatever became of the DELETE.
    pub cut: Vec<ObjectRef>,
    /// The gaps that were told already, with the forecast.
    pub told: Vec<Gap>,
}

/// `--ignore-not-found`, or a selector without a match: done.
///
/// # Errors
/// Standard output cannot be written to.
pub fn nothing_to_do(
    session: &Session,
    output: Option<ReportFormat>,
    policy: Policy,
    dry_run: bool,
) -> Result<ExitCode, Failure> {
    match output {
        Some(ReportFormat::Json) if dry_run => {
            let graph = OwnerGraph::default();
            let plan = forecast(&graph, &[], policy);
            session.print(|out| json::write_json(out, &json::plan_document(&graph, &plan)))?;
        }
        Some(ReportFormat::Json) => {
            let result = DeletionResult::new(Outcome::Complete, policy);
            session.print(|out| json::write_json(out, &json::result_document(&result)))?;
        }
        Some(ReportFormat::Name) => {}
        None => session.note(|out| notes::write_nothing_found(out, None)),
    }
    Ok(ExitCode::Done)
}

/// Ctrl-C before there was a forecast: nothing was sent, and nothing is known of what would have gone.
///
/// # Errors
/// The interruption itself, or standard output cannot be written to.
pub fn not_begun(
    session: &Session,
    output: Option<ReportFormat>,
    policy: Policy,
    dry_run: bool,
) -> Result<ExitCode, Failure> {
    if output == Some(ReportFormat::Json) && !dry_run {
        let result = DeletionResult::new(Outcome::Interrupted, policy);
        session.print(|out| json::write_json(out, &json::result_document(&result)))?;
    }
    Err(Failure::interrupted("nothing was deleted: interrupted"))
}

/// Nothing was sent: the user said no or pressed Ctrl-C, or nobody could be asked. The document says that all that
/// would have gone is still there; the failure says why.
///
/// # Errors
/// The failure itself, or standard output cannot be written to.
pub fn not_started(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    failure: Failure,
) -> Result<ExitCode, Failure> {
    not_started_for(session, output, subject, plan, failure, Vec::new())
}

/// The same where a dry run of the DELETE was refused before anything else was done: who refuses is a finding.
///
/// # Errors
/// That failure.
pub async fn rehearsal_refused(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    failure: Failure,
    refused: (Object, Trouble),
) -> Result<ExitCode, Failure> {
    let findings = match output {
        Some(ReportFormat::Json) if is_admission(&refused.1) => {
            explained_refusals(session, subject, &[refused]).await
        }
        _ => Vec::new(),
    };
    not_started_for(session, output, subject, plan, failure, findings)
}

fn not_started_for(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    failure: Failure,
    findings: Vec<Finding>,
) -> Result<ExitCode, Failure> {
    if output == Some(ReportFormat::Json) {
        let outcome = match failure.kind {
            FailureKind::Interrupted => Outcome::Interrupted,
            _ => Outcome::Refused,
        };
        let mut result = DeletionResult::new(outcome, plan.policy);
        result.remaining = doomed(subject, plan);
        result.gaps.clone_from(&plan.gaps);
        result.findings = findings;
        session.print(|out| json::write_json(out, &json::result_document(&result)))?;
    }
    Err(failure)
}

fn doomed(subject: &Subject, plan: &Forecast) -> Vec<ObjectRef> {
    plan.doomed().map(|entry| subject.graph.object(entry.object).reference()).collect()
}

/// `--wait=false`: accepted or under way before, and nobody looked again. What the forecast dooms counts as still there.
///
/// # Errors
/// Standard output cannot be written to.
pub async fn not_waited(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    told: &[Gap],
    refusals: &[(Object, Trouble)],
    stage: Stage,
) -> Result<ExitCode, Failure> {
    let outcome = if refusals.is_empty() { Outcome::NotWaited } else { Outcome::Refused };
    let mut result = DeletionResult::new(outcome, plan.policy);
    result.remaining = doomed(subject, plan);
    result.gaps.clone_from(&plan.gaps);
    result.stage = stage;
    result.findings = explained_refusals(session, subject, refusals).await;
    note_refused(session, refusals, &mut result).await;
    if output == Some(ReportFormat::Name) {
        // As kubectl does: the names of what was accepted.
        let refused = |uid: &Uid| refusals.iter().any(|(object, _)| object.uid == *uid);
        let targets = subject.targets.iter().map(|target| subject.graph.object(*target).reference());
        let accepted: Vec<ObjectRef> = targets.filter(|target| !refused(&target.uid)).collect();
        session.print(|out| names::write_names(out, &accepted))?;
    }
    report(session, output, &result, told, refusals, ExitCode::Done)
}

/// `--keep` cannot be done: nothing was deleted.
///
/// # Errors
/// An error that ended it before anybody refused anything; standard output cannot be written to.
pub fn stopped(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    told: &[Gap],
    stop: Stop,
) -> Result<ExitCode, Failure> {
    if stop.failure.kind == FailureKind::Error && stop.orphaned.is_empty() {
        return Err(stop.failure);
    }
    let mut result = DeletionResult::new(Outcome::Refused, plan.policy);
    result.remaining = doomed(subject, plan);
    result.orphaned = stop.orphaned;
    result.findings.extend(stop.finding);
    result.gaps.clone_from(&plan.gaps);
    report(session, output, &result, told, &[], ExitCode::Refused)?;
    Err(stop.failure)
}

/// Looks at everything once more, explains what is left, reports, and gives the exit code.
///
/// # Errors
/// The target's own right is missing, or standard output cannot be written to.
pub async fn finish(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    ended: Ended,
    interrupt: &mut Interrupt,
) -> Result<ExitCode, Failure> {
    let mut code = end_code(ended.end.as_ref());
    let mut result = DeletionResult::new(outcome(&ended, plan, code), ended.policy);
    result.elapsed_seconds = ended.following.elapsed_seconds();
    result.gaps.clone_from(&plan.gaps);
    survivors(subject, plan, &ended, &mut result);
    let progress = &ended.following.progress;
    saved(plan, &subject.graph, progress, &mut result);
    result.deleted = progress.deleted().map(Object::reference).collect();
    result.remaining = progress.remaining().chain(progress.made_later()).map(Object::reference).collect();
    result.recreated = progress
        .recreated()
        .map(|(was, now)| Recreated { was: was.reference(), now: now.reference() })
        .collect();
    if ended.end.is_some() {
        result.stage = if ended.unclear { Stage::Unclear } else { Stage::Followed };
    }
    note_refused(session, &ended.refusals, &mut result).await;
    if ended.end.is_none() && !ended.cut.is_empty() {
        session.note(|out| notes::write_cut(out, session.stderr, &ended.cut));
        result.orphaned.extend(ended.cut.iter().cloned());
        result.orphaned.sort();
        result.orphaned.dedup();
    }
    let explained = interrupt.or(explained_refusals(session, subject, &ended.refusals)).await;
    result.findings = explained.unwrap_or_else(|| refusal_findings(session, &ended.refusals));
    result.findings.extend(successor_findings(session, subject, progress));
    result.gaps.extend(progress.unreadable().values().cloned());
    if ended.end.is_some() {
        result.gaps.extend(ended.following.unswept.values().cloned());
    }
    match (&ended.end, progress.blind()) {
        (Some(End::Blind(gaps)), _) => result.gaps.extend(gaps.iter().cloned()),
        // Where there is no answer, there is none to further questions.
        (Some(End::TimedOut { .. }), Some((_, gaps))) => result.gaps.extend(gaps),
        (Some(End::Stalled | End::TimedOut { .. }), _) => {
            let explained = interrupt.or(explain(session, subject, &ended, &mut result)).await.is_some();
            code = if explained { code } else { stop_explaining(&mut result) };
        }
        _ => {}
    }
    result.gaps.sort();
    result
        .gaps
        .dedup_by(|later, earlier| (&later.resource, &later.group) == (&earlier.resource, &earlier.group));
    report(session, output, &result, &ended.told, &ended.refusals, code)
}

/// Ctrl-C while the cause was looked for.
fn stop_explaining(result: &mut DeletionResult) -> ExitCode {
    result.outcome = Outcome::Interrupted;
    result.unchecked.push(Unchecked {
        check: "why it does not go".to_owned(),
        why: "interrupted while looking".to_owned(),
    });
    ExitCode::Interrupted
}

/// What the end of following alone gives; a refusal may outweigh it.
fn end_code(end: Option<&End>) -> ExitCode {
    match end {
        None | Some(End::Complete) => ExitCode::Done,
        Some(End::Interrupted) => ExitCode::Interrupted,
        // No answer at all is an error; a server that answers with one is merely not verifiable.
        Some(End::Blind(gaps)) if gaps.iter().all(|gap| gap.reason == metadata::NO_ANSWER) => ExitCode::Error,
        Some(End::Blind(_) | End::NotReadable | End::Stalled | End::TimedOut { .. }) => ExitCode::Unfinished,
    }
}

fn outcome(ended: &Ended, plan: &Forecast, code: ExitCode) -> Outcome {
    let refused = refusal_code(&ended.refusals);
    match &ended.end {
        // With several targets, the outcome is the one that gives the exit code.
        Some(_) if !ended.refusals.is_empty() && ExitCode::worst([code, refused]) == refused => {
            Outcome::Refused
        }
        None => Outcome::Refused,
        Some(End::Interrupted) => Outcome::Interrupted,
        Some(End::NotReadable | End::Blind(_)) => Outcome::Unverified,
        Some(End::Stalled) => Outcome::Stalled,
        Some(End::TimedOut { .. }) => Outcome::TimedOut,
        Some(End::Complete) if plan.gaps.is_empty() && ended.following.unswept.is_empty() => {
            Outcome::Complete
        }
        Some(End::Complete) => Outcome::CompleteWithGaps,
    }
}

/// Who was to survive is read again: still there by UID, and where it was orphaned, without the reference. Where
/// nobody looked again nothing is said of them.
fn survivors(subject: &Subject, plan: &Forecast, ended: &Ended, result: &mut DeletionResult) {
    let following = &ended.following;
    let unseen = matches!(ended.end, None | Some(End::Interrupted | End::Blind(_)));
    if unseen || following.progress.blind().is_some() {
        return;
    }
    let graph = &subject.graph;
    let doomed: BTreeSet<&Uid> = plan.doomed().map(|entry| &graph.object(entry.object).uid).collect();
    for entry in &plan.entries {
        let before = graph.object(entry.object);
        let list = match entry.fate {
            Fate::Kept => &mut result.kept,
            Fate::Orphaned => &mut result.orphaned,
            Fate::Leaked => &mut result.leaked,
            _ => continue,
        };
        let forecast = entry.fate.as_str();
        let unread = following.unswept.get(&before.resource.qualified());
        let note = match (following.present.get(&before.uid), unread) {
            (None, Some(gap)) if !following.absent.contains(&before.uid) => {
                Some(format!("was forecast as {forecast}, and could not be read again: {}", gap.message))
            }
            (None, _) => Some(format!("was forecast as {forecast}, and is gone")),
            (Some(now), _) if now.is_terminating() && !before.is_terminating() => {
                Some(format!("was forecast as {forecast}, and is being deleted"))
            }
            (Some(now), _) if entry.fate == Fate::Orphaned => {
                let kept = now.owners.iter().find(|owner| doomed.contains(&owner.uid));
                kept.map(|owner| format!("still refers to {}/{}", owner.kind, owner.name))
            }
            _ if !entry.certain => graph.unread_owner(entry.object).map(|owner| {
                let owner = format!("{}/{}", owner.kind, owner.name);
                format!(
                    "is still there; whether it stays is not known, since its owner {owner} could not be read"
                )
            }),
            _ => None,
        };
        match note {
            None => list.push(before.reference()),
            Some(note) => result.unexpected.push(Unexpected { reference: before.reference(), note }),
        }
    }
}

/// What was to go and stays, because its ownerReferences were changed while we watched.
fn saved(plan: &Forecast, graph: &OwnerGraph, progress: &Progress, result: &mut DeletionResult) {
    for object in progress.saved() {
        let mut entries = plan.entries.iter().filter(|entry| graph.object(entry.object).uid == object.uid);
        let fate = entries.next().map_or("deleted", |entry| entry.fate.as_str());
        let note = format!("was forecast as {fate}, and stays: its ownerReferences were changed meanwhile");
        result.unexpected.push(Unexpected { reference: object.reference(), note });
    }
}

/// What the controllers of targets made in their place.
fn successor_findings(session: &Session, subject: &Subject, progress: &Progress) -> Vec<Finding> {
    let targets: BTreeSet<Uid> = subject.uids().into_iter().collect();
    let pairs = progress.recreated().filter(|(was, _)| targets.contains(&was.uid));
    let finding = |(was, now): (&Object, &Object)| {
        let owner = now.owners.iter().find(|owner| owner.controller)?;
        let owner = subject
            .graph
            .by_uid(&owner.uid)
            .first()
            .map(|index| subject.graph.object(subject.graph.topmost_controller(*index)));
        diagnosis::recreated_by_owner(&was.reference(), now, owner, &session.caller)
    };
    pairs.filter_map(finding).collect()
}

/// Asks, beside the watching, why nothing changes.
pub fn explainer(
    session: &Session,
    subject: &Subject,
    probing: Probing,
) -> impl Fn(&Progress) -> JoinHandle<Diagnosis> {
    let cluster = session.cluster.clone();
    let catalog = Arc::clone(&subject.catalog);
    let wanted = Wanted { searched: subject.graph.snapshot().searched.clone(), pods: true };
    let targets = asked_about(subject);
    let namespaces = subject.namespaces.clone();
    // Nothing is written while somebody may still repair it.
    let probing = probing.min(Probing::DryRun);
    let caller = session.caller.clone();
    move |progress| {
        let now = cluster.now();
        let case = Case { caller: caller.clone(), ..case(targets.clone(), progress, probing, now) };
        let (cluster, catalog, wanted) = (cluster.clone(), Arc::clone(&catalog), wanted.clone());
        let namespaces = namespaces.clone();
        tokio::spawn(async move {
            let graph = metadata::graph(&cluster, &catalog, &wanted, namespaces, &mut |_| {}).await;
            evidence::explain(&cluster, graph, &case).await
        })
    }
}

/// The targets, and what takes them along.
fn asked_about(subject: &Subject) -> Vec<ObjectRef> {
    let targets = subject.targets.iter().map(|target| subject.graph.object(*target));
    targets.chain(&subject.namespaces).map(Object::reference).collect()
}

/// What is to be explained of a deletion that came so far.
fn case(targets: Vec<ObjectRef>, progress: &Progress, probing: Probing, now: Timestamp) -> Case {
    Case {
        targets,
        doomed: progress.remaining().map(Object::reference).collect(),
        created_later: progress.made().cloned().collect(),
        now,
        probing,
        ..Case::default()
    }
}

/// The targets below which something moves, and how fast.
fn moving_targets(
    subject: &Subject,
    progress: &Progress,
    moving: &BTreeSet<Uid>,
    now: Timestamp,
) -> BTreeMap<Uid, Pace> {
    let remaining: BTreeSet<&Uid> = progress.remaining().map(|object| &object.uid).collect();
    let graph = &subject.graph;
    let mut paces = BTreeMap::new();
    for target in &subject.targets {
        let target = graph.object(*target);
        let members: BTreeSet<&Uid> =
            below(graph, target).into_iter().map(|member| &graph.object(member).uid).collect();
        if members.iter().any(|member| moving.contains(*member)) {
            let left = members.intersection(&remaining).count();
            paces.insert(target.uid.clone(), Pace { left, per_second: None });
        }
    }
    // Whose the rate is, is known only where there is one.
    if let (1, Some(pace)) = (paces.len(), paces.values_mut().next()) {
        pace.per_second = progress.rate(now);
    }
    paces
}

/// Why the rest does not go.
async fn explain(session: &Session, subject: &Subject, ended: &Ended, result: &mut DeletionResult) {
    let progress = &ended.following.progress;
    let now = session.cluster.now();
    let mut case =
        Case { caller: session.caller.clone(), ..case(asked_about(subject), progress, ended.probing, now) };
    if let Some(End::TimedOut { moving }) = &ended.end {
        case.moving = moving_targets(subject, progress, moving, now);
    }
    let searched = subject.graph.snapshot().searched.clone();
    let namespaces = subject.namespaces.clone();
    let fresh = read(session, Arc::clone(&subject.catalog), namespaces, searched, true).await;
    let diagnosis = evidence::explain(&session.cluster, fresh.graph, &case).await;
    result.findings.extend(diagnosis.findings);
    result.unchecked = diagnosis.unchecked;
    result.gaps.extend(diagnosis.gaps);
    result.gaps.sort();
    result.gaps.dedup();
}

/// Prints the report and gives the exit code. In text, the gaps that the forecast before it has told are not told again.
///
/// # Errors
/// Standard output cannot be written to.
fn report(
    session: &Session,
    output: Option<ReportFormat>,
    result: &DeletionResult,
    told: &[Gap],
    refusals: &[(Object, Trouble)],
    code: ExitCode,
) -> Result<ExitCode, Failure> {
    match output {
        Some(ReportFormat::Json) => {
            session.print(|out| json::write_json(out, &json::result_document(result)))?
        }
        Some(ReportFormat::Name) => {
            session.print(|out| names::write_names(out, &result.deleted))?;
            // Why it did not end well is told whoever reads the names.
            if !matches!(result.outcome, Outcome::Complete | Outcome::NotWaited) {
                session.note(|out| report_text::write_result(out, session.stderr, result, told));
            }
        }
        None => session.print(|out| report_text::write_result(out, session.stdout, result, told))?,
    }
    if result.outcome == Outcome::Interrupted && output == Some(ReportFormat::Json) {
        session.note(|out| notes::write_interrupted(out, session.stderr));
    }
    for (object, trouble) in refusals {
        let failure = refusal(object, trouble).to_caller(&session.caller, object.namespace.as_deref());
        session.note(|out| write_failure(out, session.stderr, &failure));
    }
    Ok(ExitCode::worst([code, refusal_code(refusals)]))
}

/// Admission and a successor's UID refuse; a missing right or connection is an error.
fn refusal_code(refusals: &[(Object, Trouble)]) -> ExitCode {
    ExitCode::worst(refusals.iter().map(|(_, trouble)| {
        if is_admission(trouble) || is_replaced(trouble) { ExitCode::Refused } else { ExitCode::Error }
    }))
}

/// Why a DELETE was refused, for a person.
pub fn refusal(object: &Object, trouble: &Trouble) -> Failure {
    if is_replaced(trouble) {
        let name = object.reference().short();
        return Failure::refused(format!(
            "{name} was replaced meanwhile by another object of that name: it was not deleted ({})",
            words(trouble)
        ))
        .hint("look at the new one before you delete it");
    }
    Failure::from(trouble.clone())
}

/// A target that was refused is still there, but for one that was replaced: the server says that its UID is gone.
async fn note_refused(session: &Session, refusals: &[(Object, Trouble)], result: &mut DeletionResult) {
    for (object, trouble) in refusals {
        let was = object.reference();
        if !is_replaced(trouble) {
            if !result.remaining.contains(&was) {
                result.remaining.push(was);
            }
            continue;
        }
        result.remaining.retain(|remaining| *remaining != was);
        let found =
            metadata::get(&session.cluster, &object.resource, object.namespace.as_deref(), &object.name)
                .await;
        match found {
            Ok(Some(now)) if now.uid != object.uid => {
                result.recreated.push(Recreated { was, now: now.reference() });
            }
            _ => {
                let note = "was replaced meanwhile by another object of that name".to_owned();
                result.unexpected.push(Unexpected { reference: was, note });
            }
        }
    }
}

/// Who has refused the DELETEs of these targets, and how to make the server accept them.
async fn explained_refusals(
    session: &Session,
    subject: &Subject,
    refusals: &[(Object, Trouble)],
) -> Vec<Finding> {
    let mut findings = refusal_findings(session, refusals);
    for (object, trouble) in refusals.iter().filter(|(_, trouble)| is_admission(trouble)).take(MOST_EXPLAINED)
    {
        let question = Question::Delete { subject: facts::Subject::of(object), identity: Identity::Caller };
        let reply = probes::reply(Err(trouble.clone()));
        let case = Case {
            targets: vec![object.reference()],
            now: session.cluster.now(),
            caller: session.caller.clone(),
            ..Case::default()
        };
        let graph = &subject.graph;
        let explained = evidence::explain_refusal(&session.cluster, graph, &case, &question, reply).await;
        let plain = findings.iter_mut().find(|finding| finding.object == case.targets[0]);
        if let (Some(mut explained), Some(plain)) = (explained, plain) {
            // It was no dry run.
            if let (Some(first), Some(said)) = (explained.evidence.first_mut(), plain.evidence.first()) {
                first.source.clone_from(&said.source);
            }
            *plain = explained;
        }
    }
    findings
}

/// What the server's answers alone say of the refusals.
fn refusal_findings(session: &Session, refusals: &[(Object, Trouble)]) -> Vec<Finding> {
    let by_admission = refusals.iter().filter(|(_, trouble)| is_admission(trouble));
    let finding = |(object, trouble): &(Object, Trouble)| {
        diagnosis::refused_delete(&object.reference(), &probes::reply(Err(trouble.clone())), &session.caller)
    };
    by_admission.map(finding).collect()
}

/// Whether another object bears the name now: the precondition on the UID says so, in the API server's own words
/// (`apiserver/pkg/registry/rest/delete.go`, BeforeDelete; `apiserver/pkg/storage/interfaces.go`,
/// Preconditions.Check). Other conflicts mean something else.
pub fn is_replaced(trouble: &Trouble) -> bool {
    let words = words(trouble);
    let by_uid = words.contains("UID in precondition") || words.contains("UID in the precondition");
    trouble.is_conflict() && !is_admission(trouble) && by_uid
}

/// Whether it is admission that refuses, not a missing right: the server's own wording tells
/// (`apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`, `.../policy/validating/dispatcher.go`; of a missing
/// right `apiserver/pkg/endpoints/handlers/responsewriters/errors.go`, forbiddenMessage).
pub fn is_admission(trouble: &Trouble) -> bool {
    let words = words(trouble);
    let phrases = [
        "denied the request",
        "denied request",
        "failed calling webhook",
        "ValidatingAdmissionPolicy",
        "does not support dry run",
    ];
    // The authorizer names the user whom it refuses; a plugin of the server's own, the one that protects the Namespace
    // `default` for example, does not. What stands before the server may answer 403, too, but with no Status.
    let by_plugin = matches!(trouble, Trouble::Status { code: 403, reason, .. } if reason == "Forbidden")
        && !(words.contains("User \"") && words.contains("\" cannot "));
    by_plugin || phrases.iter().any(|phrase| words.contains(phrase))
}

/// The server's own words.
pub fn words(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Status { message, .. } | Trouble::NoAnswer { message, .. } => message.clone(),
    }
}
