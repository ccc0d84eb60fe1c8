//! `wait`: joins a deletion that is already under way, and follows it as `delete` does.

use std::collections::BTreeSet;
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
use crate::cluster::metadata;
use crate::error::{ExitCode, Failure};
use crate::model::forecast::forecast;
use crate::model::object::Object;
use crate::model::policy::Policy;
use crate::model::result::{DeletionResult, Outcome};
use crate::model::target::BareType;
use crate::render::{json, notes};

/// Runs `wait`. An absent target is what was waited for; it is named, since it may be a slip of the pen.
///
/// # Errors
/// Whatever ends the command before anything is watched; a target that is not being deleted, and goes with nothing
/// that is.
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
    let look = async {
        let mut subject = gather(session, &args.target, reading).await?;
        subject.namespaces = namespaces(session, &subject).await;
        Ok::<_, Failure>(subject)
    };
    let subject = match interrupt.or(within(limits.timeout, look)).await {
        Some(Some(subject)) => subject?,
        Some(None) => return not_read(session, args, began),
        None => return not_begun(session, args),
    };
    for absent in &subject.absent {
        let namespace = absent.namespace.as_deref();
        session.note(|out| notes::write_absent(out, session.stderr, &absent.kind, &absent.name, namespace));
    }
    if subject.targets.is_empty() {
        // They are named already.
        if args.output.is_none() && !subject.absent.is_empty() {
            return Ok(ExitCode::Done);
        }
        return ending::nothing_to_do(session, args.output, Policy::Background, false);
    }
    refuse_live_targets(session, &subject)?;
    for namespace in &subject.namespaces {
        let taken: Vec<_> =
            taken_by(&subject, namespace).map(|target| subject.graph.object(target)).collect();
        session.note(|out| notes::write_taken_along(out, session.stderr, namespace, &taken));
    }
    let policy = common_policy(&subject);
    let plan = forecast(&subject.graph, &all_that_goes(&subject), policy);
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
        unclear: false,
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

/// The Namespaces of live targets that are being deleted, and take the targets along. What may not be read takes nothing
/// along. (A definition marks its instances itself, as soon as it is deleted.)
async fn namespaces(session: &Session, subject: &Subject) -> Vec<Object> {
    let Some(resource) = subject.catalog.preferred().find(|resource| resource.is("", "Namespace")) else {
        return Vec::new();
    };
    let targets = subject.targets.iter().map(|target| subject.graph.object(*target));
    let live = targets.filter(|object| !object.is_terminating());
    let names: BTreeSet<&str> = live.filter_map(|object| object.namespace.as_deref()).collect();
    let mut namespaces = Vec::new();
    for name in names {
        let found = metadata::get(&session.cluster, resource, None, name).await;
        namespaces.extend(found.ok().flatten().filter(Object::is_terminating));
    }
    namespaces
}

/// The live targets that this Namespace takes along.
fn taken_by(subject: &Subject, namespace: &Object) -> impl Iterator<Item = usize> {
    subject.targets.iter().copied().filter(|target| {
        let object = subject.graph.object(*target);
        !object.is_terminating() && object.namespace.as_deref() == Some(&*namespace.name)
    })
}

/// The targets, and what hangs on those that go with their Namespace: that goes with it, too, whoever else owns it.
fn all_that_goes(subject: &Subject) -> Vec<usize> {
    let mut all = subject.targets.clone();
    for namespace in &subject.namespaces {
        let taken: Vec<usize> = taken_by(subject, namespace).collect();
        for index in subject.graph.closure(&taken) {
            let object = subject.graph.object(index);
            if object.namespace.as_deref() == Some(&*namespace.name) && !all.contains(&index) {
                all.push(index);
            }
        }
    }
    all
}

/// One that nobody deletes, neither by itself nor with its Namespace.
fn refuse_live_targets(session: &Session, subject: &Subject) -> Result<(), Failure> {
    let taken: BTreeSet<usize> =
        subject.namespaces.iter().flat_map(|namespace| taken_by(subject, namespace)).collect();
    let graph = &subject.graph;
    let live = |target: &&usize| !graph.object(**target).is_terminating() && !taken.contains(target);
    let Some(target) = subject.targets.iter().find(live) else { return Ok(()) };
    let object = graph.object(*target);
    let failure = Failure::error(format!("{} is not being deleted", object.reference().short()));
    let caller = &session.caller;
    let owners = graph.owners(*target).filter_map(|(_, resolved)| resolved.owner);
    let going = owners.map(|owner| graph.object(owner)).find(|owner| owner.is_terminating());
    Err(failure.hint(match going {
        Some(owner) => format!(
            "its owner {} is being deleted; to wait for all that goes with that: {}",
            owner.reference().short(),
            caller.command_on("kubectl cascade wait", owner, &[])
        ),
        None => {
            format!("to delete it and wait: {}", caller.command_on("kubectl cascade delete", object, &[]))
        }
    }))
}

/// The policy that the finalizers tell of; foreground where several targets differ, since it waits for the most. What goes
/// with a Namespace is deleted in background (`pkg/controller/namespace/deletion/namespaced_resources_deleter.go`).
fn common_policy(subject: &Subject) -> Policy {
    let policies = subject.targets.iter().map(|target| match subject.graph.object(*target) {
        object if object.is_terminating() => policy_under_way(object),
        _ => Policy::Background,
    });
    policies
        .reduce(|one, other| if one == other { one } else { Policy::Foreground })
        .unwrap_or(Policy::Background)
}
