//! How a deletion ended: what is proven gone, who survived, what is left and why; the report and the exit code.
//! `delete` and `wait` share it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::follow::{End, Following};
use super::session::Session;
use super::subject::{Subject, read};
use crate::cli::ReportFormat;
use tokio::task::JoinHandle;

use crate::cluster::evidence;
use crate::cluster::metadata::{self, Wanted};
use crate::cluster::probes;
use crate::cluster::request::Trouble;
use crate::error::{ExitCode, Failure};
use crate::model::diagnosis::{self, Case, Diagnosis, Pace, Probing};
use crate::model::forecast::{Fate, Forecast, Policy, forecast};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, ObjectRef, Timestamp, Uid};
use crate::model::progress::Progress;
use crate::model::result::{DeletionResult, Outcome, Recreated, Unexpected};
use crate::render::failure::write_failure;
use crate::render::{json, names, notes, result as report_text};

/// Everything that is known when following stops.
pub struct Ended {
    /// How following ended; none where every DELETE was refused, so that there was nothing to follow.
    pub end: Option<End>,
    /// What was followed.
    pub following: Following,
    /// The targets whose DELETE was refused.
    pub refusals: Vec<(Object, Trouble)>,
    /// The policy that was sent.
    pub policy: Policy,
    /// How far probes may go.
    pub probing: Probing,
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

/// `--wait=false`: accepted, and nobody looked again. What the forecast dooms counts as still there.
///
/// # Errors
/// Standard output cannot be written to.
pub fn not_waited(
    session: &Session,
    output: Option<ReportFormat>,
    subject: &Subject,
    plan: &Forecast,
    refusals: &[(Object, Trouble)],
) -> Result<ExitCode, Failure> {
    let mut result = DeletionResult::new(Outcome::NotWaited, plan.policy);
    result.remaining = plan.doomed().map(|entry| subject.graph.object(entry.object).reference()).collect();
    result.gaps.clone_from(&plan.gaps);
    report(session, output, &result, refusals)
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
    mut ended: Ended,
) -> Result<ExitCode, Failure> {
    let mut result = DeletionResult::new(outcome(&ended, plan), ended.policy);
    result.elapsed_seconds = ended.following.elapsed_seconds();
    result.gaps.clone_from(&plan.gaps);
    let interrupted = ended.end == Some(End::Interrupted);
    if ended.end.is_some() && !interrupted && ended.end != Some(End::Complete) {
        ended.following.sweep().await;
    }
    survivors(subject, plan, &ended, &mut result);
    let progress = &ended.following.progress;
    result.deleted = progress.deleted().map(Object::reference).collect();
    result.remaining = progress.remaining().chain(progress.made_later()).map(Object::reference).collect();
    result.recreated = progress
        .recreated()
        .map(|(was, now)| Recreated { was: was.reference(), now: now.reference() })
        .collect();
    for (object, trouble) in &ended.refusals {
        if !result.remaining.contains(&object.reference()) {
            result.remaining.push(object.reference());
        }
        if let Some(finding) = refusal_finding(session, object, trouble) {
            result.findings.push(finding);
        }
    }
    if matches!(ended.end, Some(End::Stalled | End::TimedOut)) {
        explain(session, subject, &ended, &mut result).await;
    }
    report(session, output, &result, &ended.refusals)
}

fn outcome(ended: &Ended, plan: &Forecast) -> Outcome {
    match &ended.end {
        Some(End::Interrupted) => Outcome::Interrupted,
        _ if !ended.refusals.is_empty() => Outcome::Refused,
        None => Outcome::Refused,
        Some(End::NotReadable | End::ConnectionLost(_)) => Outcome::Unverified,
        Some(End::Stalled) => Outcome::Stalled,
        Some(End::TimedOut) => Outcome::TimedOut,
        Some(End::Complete) if plan.gaps.is_empty() && ended.following.unswept.is_empty() => {
            Outcome::Complete
        }
        Some(End::Complete) => Outcome::CompleteWithGaps,
    }
}

/// Who was to survive is read again: still there by UID, and where it was orphaned, without the reference.
fn survivors(subject: &Subject, plan: &Forecast, ended: &Ended, result: &mut DeletionResult) {
    let graph = &subject.graph;
    let following = &ended.following;
    let gone: BTreeSet<&Uid> = following.progress.deleted().map(|object| &object.uid).collect();
    for entry in &plan.entries {
        let before = graph.object(entry.object);
        let list = match entry.fate {
            Fate::Kept => &mut result.kept,
            Fate::Orphaned => &mut result.orphaned,
            Fate::Leaked => &mut result.leaked,
            _ => continue,
        };
        let read = ended.end.as_ref().is_some_and(|end| *end != End::Interrupted)
            && !following.unswept.contains(&before.resource.qualified());
        let now = following.present.get(&before.uid);
        let note = match now {
            _ if !read => None,
            None => Some(format!("was forecast as {}, and is gone", entry.fate.as_str())),
            Some(now) if now.is_terminating() && !before.is_terminating() => {
                Some(format!("was forecast as {}, and is being deleted", entry.fate.as_str()))
            }
            Some(now) if entry.fate == Fate::Orphaned => {
                let kept = now.owners.iter().find(|owner| gone.contains(&owner.uid));
                kept.map(|owner| format!("still refers to {}/{}, which is gone", owner.kind, owner.name))
            }
            Some(_) => None,
        };
        match note {
            None => list.push(before.reference()),
            Some(note) => result.unexpected.push(Unexpected { reference: before.reference(), note }),
        }
    }
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
    let targets: Vec<_> =
        subject.targets.iter().map(|target| subject.graph.object(*target).reference()).collect();
    // Nothing is written while somebody may still repair it.
    let probing = probing.min(Probing::DryRun);
    let caller = session.caller.clone();
    move |progress| {
        let case = Case { caller: caller.clone(), ..case(targets.clone(), progress, probing) };
        let (cluster, catalog, wanted) = (cluster.clone(), Arc::clone(&catalog), wanted.clone());
        tokio::spawn(async move {
            let graph = metadata::graph(&cluster, &catalog, &wanted, Vec::new(), &mut |_| {}).await;
            evidence::explain(&cluster, graph, &case).await
        })
    }
}

/// What is to be explained of a deletion that came so far.
fn case(targets: Vec<ObjectRef>, progress: &Progress, probing: Probing) -> Case {
    Case {
        targets,
        doomed: progress.remaining().map(Object::reference).collect(),
        created_later: progress.made_later().map(Object::reference).collect(),
        now: Timestamp::now(),
        probing,
        ..Case::default()
    }
}

/// Why the rest does not go.
async fn explain(session: &Session, subject: &Subject, ended: &Ended, result: &mut DeletionResult) {
    let progress = &ended.following.progress;
    let targets = subject.targets.iter().map(|target| subject.graph.object(*target).reference()).collect();
    let mut case = Case { caller: session.caller.clone(), ..case(targets, progress, ended.probing) };
    let now = case.now;
    if ended.end == Some(End::TimedOut) && moves(progress.last_change(), now) {
        let pace = Pace { left: result.remaining.len(), per_second: progress.rate(now) };
        case.moving = case.targets.iter().map(|target| (target.uid.clone(), pace)).collect();
    }
    let searched = subject.graph.snapshot().searched.clone();
    let fresh = read(session, Arc::clone(&subject.catalog), Vec::new(), searched, true).await;
    let diagnosis = evidence::explain(&session.cluster, fresh.graph, &case).await;
    result.findings.extend(diagnosis.findings);
    result.unchecked = diagnosis.unchecked;
    result.gaps.extend(diagnosis.gaps);
    result.gaps.sort();
    result.gaps.dedup();
}

/// At the time limit: did something still happen lately? Then it is no stall.
fn moves(last_change: Timestamp, now: Timestamp) -> bool {
    now.duration_since(last_change).as_secs() < 10
}

/// Prints the report and gives the exit code.
///
/// # Errors
/// Standard output cannot be written to.
pub fn report(
    session: &Session,
    output: Option<ReportFormat>,
    result: &DeletionResult,
    refusals: &[(Object, Trouble)],
) -> Result<ExitCode, Failure> {
    match output {
        Some(ReportFormat::Json) => {
            session.print(|out| json::write_json(out, &json::result_document(result)))?
        }
        Some(ReportFormat::Name) => session.print(|out| names::write_names(out, &result.deleted))?,
        None => session.print(|out| report_text::write_result(out, session.stdout, result))?,
    }
    if output != Some(ReportFormat::Json) {
        for (object, trouble) in refusals {
            session.note(|out| write_failure(out, session.stderr, &refusal(object, trouble)));
        }
    }
    Ok(exit_code(result, refusals))
}

fn exit_code(result: &DeletionResult, refusals: &[(Object, Trouble)]) -> ExitCode {
    let refused = refusals.iter().map(|(_, trouble)| {
        // Admission and a successor's UID refuse; a missing right or connection is an error.
        if is_admission(trouble) || trouble.is_conflict() { ExitCode::Refused } else { ExitCode::Error }
    });
    let rest = match result.outcome {
        Outcome::Complete | Outcome::CompleteWithGaps | Outcome::NotWaited | Outcome::Refused => {
            ExitCode::Done
        }
        Outcome::Unverified | Outcome::Stalled | Outcome::TimedOut => ExitCode::Unfinished,
        Outcome::Interrupted => ExitCode::Interrupted,
    };
    ExitCode::worst(refused.chain([rest]))
}

/// Why a DELETE was refused, for a person.
fn refusal(object: &Object, trouble: &Trouble) -> Failure {
    if trouble.is_conflict() {
        let name = object.reference().short();
        return Failure::refused(format!(
            "{name} was replaced meanwhile by another object of that name: nothing was deleted ({})",
            words(trouble)
        ))
        .hint("look at the new one before you delete it");
    }
    Failure::from(trouble.clone())
}

fn refusal_finding(session: &Session, object: &Object, trouble: &Trouble) -> Option<diagnosis::Finding> {
    is_admission(trouble).then(|| {
        diagnosis::refused_delete(&object.reference(), &probes::reply(Err(trouble.clone())), &session.caller)
    })
}

/// Whether it is admission that refuses, not a missing right: the server's own wording tells
/// (`apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`, `.../policy/validating/dispatcher.go`).
pub fn is_admission(trouble: &Trouble) -> bool {
    let words = words(trouble);
    ["denied the request", "denied request", "failed calling webhook", "ValidatingAdmissionPolicy"]
        .iter()
        .any(|phrase| words.contains(phrase))
}

/// The server's own words.
pub fn words(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Status { message, .. } | Trouble::NoAnswer { message, .. } => message.clone(),
    }
}
