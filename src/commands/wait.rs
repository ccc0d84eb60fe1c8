//! `wait`: joins a deletion that is already under way, and follows it as `delete` does.

use std::time::Instant;

use super::delete::policy_under_way;
use super::ending::{self, Ended};
use super::flags::{limits, probing, within};
use super::follow::{Following, nothing_read};
use super::interrupt::Interrupt;
use super::manifest;
use super::session::Session;
use super::subject::{ClusterScoped, Reading, Subject, gather};
use crate::cli::{ReportFormat, WaitArgs};
use crate::error::{ExitCode, Failure};
use crate::model::forecast::forecast;
use crate::model::policy::Policy;
use crate::model::result::{DeletionResult, Outcome};
use crate::model::target::BareType;
use crate::render::json;

/// Runs `wait`. An absent target is what was waited for.
///
/// # Errors
/// Whatever ends the command before anything is watched; a target that is not being deleted.
pub async fn run(session: &Session, args: &WaitArgs) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let limits = limits(&args.follow)?;
    let reading = Reading {
        cluster_scoped: ClusterScoped::IfForeground,
        pods: true,
        bare_type: BareType::All,
        ignore_not_found: true,
    };
    let mut interrupt = Interrupt::catch().await;
    let subject = match interrupt.or(within(limits.timeout, gather(session, &args.target, reading))).await {
        Some(Some(subject)) => subject?,
        Some(None) => return not_read(session, args, began),
        None => return not_begun(session, args),
    };
    if subject.targets.is_empty() {
        return ending::nothing_to_do(session, args.output, Policy::Background, false);
    }
    refuse_live_targets(session, &subject)?;
    let policy = common_policy(&subject);
    let plan = forecast(&subject.graph, &subject.targets, policy);
    let mut following = Following::start(&session.cluster, &subject.graph, &plan);
    following.began_before(began.elapsed());
    for target in &subject.targets {
        // Whoever interrupts is answered below, and so is a time limit.
        let left = limits.timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        interrupt.or(within(left, following.look_at(subject.graph.object(*target)))).await;
    }
    let explain = ending::explainer(session, &subject, probing(args.follow.probe));
    let mut view = session.progress();
    let end = following.until_end(limits, &mut interrupt, &mut view, &explain).await;
    view.finish();
    let ended = Ended {
        end: Some(end),
        following,
        refusals: Vec::new(),
        policy,
        probing: probing(args.follow.probe),
        cut: Vec::new(),
        told: Vec::new(),
    };
    ending::finish(session, args.output, &subject, &plan, ended, &mut interrupt).await
}

/// Ctrl-C before anything was known.
fn not_begun(session: &Session, args: &WaitArgs) -> Result<ExitCode, Failure> {
    if args.output == Some(ReportFormat::Json) {
        let result = DeletionResult::new(Outcome::Interrupted, Policy::Background);
        session.print(|out| json::write_json(out, &json::result_document(&result)))?;
    }
    Err(Failure::interrupted(
        "interrupted before anything was watched: whatever is being deleted goes on without us",
    ))
}

/// The time limit was over before anything was known.
fn not_read(session: &Session, args: &WaitArgs, began: Instant) -> Result<ExitCode, Failure> {
    let message = format!("the cluster could not be read within --timeout {}", args.follow.timeout);
    if args.output == Some(ReportFormat::Json) {
        let mut result = DeletionResult::new(Outcome::TimedOut, Policy::Background);
        result.elapsed_seconds = began.elapsed().as_secs_f64();
        result.gaps.push(nothing_read(message.clone()));
        session.print(|out| json::write_json(out, &json::result_document(&result)))?;
    }
    Err(Failure::unfinished(format!("timed out: {message}, so nothing is known of what is waited for"))
        .hint("give it more time; -v shows which requests take long"))
}

/// What can be refused before anybody is asked.
///
/// # Errors
/// A wrong command line.
pub fn check(args: &WaitArgs) -> Result<(), Failure> {
    limits(&args.follow)?;
    manifest::check(&args.target, BareType::All)
}

fn refuse_live_targets(session: &Session, subject: &Subject) -> Result<(), Failure> {
    let live = subject
        .targets
        .iter()
        .map(|target| subject.graph.object(*target))
        .find(|object| !object.is_terminating());
    match live {
        None => Ok(()),
        Some(object) => Err(Failure::error(format!("{} is not being deleted", object.reference().short()))
            .hint(format!(
                "to delete it and wait: {}",
                session.caller.command_on("kubectl cascade delete", object, &[])
            ))),
    }
}

/// The policy that the finalizers tell of; foreground where several targets differ, since it waits for the most.
fn common_policy(subject: &Subject) -> Policy {
    let policies = subject.targets.iter().map(|target| policy_under_way(subject.graph.object(*target)));
    policies
        .reduce(|one, other| if one == other { one } else { Policy::Foreground })
        .unwrap_or(Policy::Background)
}
