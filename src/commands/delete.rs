//! `delete`: forecast, show, confirm, delete, watch until all is gone, and diagnose if it stalls.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin};
use std::sync::Arc;

use super::ending::{self, Ended};
use super::flags::{limits, policy, probing, within};
use super::follow::{End, Following, Limits};
use super::interrupt::Interrupt;
use super::keep;
use super::manifest;
use super::question;
use super::sending::{self, Sent};
use super::session::Session;
use super::subject::{Reading, Subject, gather, needs_cluster_scoped, read};
use crate::cli::{DeleteArgs, DryRun, ReportFormat};
use crate::cluster::assist::Assistant;
use crate::cluster::deletion::{self, DeleteOptions};
use crate::cluster::{discovery, metadata};
use crate::error::{ExitCode, Failure, Trouble};
use crate::model::assist::Order;
use crate::model::catalog::Gap;
use crate::model::forecast::{Forecast, Warning, forecast};
use crate::model::keep::Keeping;
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, Uid};
use crate::model::policy::{DeleteWish, Policy};
use crate::model::result::Stage;
use crate::model::target::BareType;
use crate::render::ask::Answer;
use crate::render::{ask, json, names, notes, plan};

/// The flags, checked and turned into plain values.
struct Wish {
    policy: Policy,
    grace_seconds: Option<i64>,
    force: bool,
    limits: Limits,
}

/// Runs `delete`.
///
/// # Errors
/// Whatever ends the command before a DELETE was sent.
pub async fn run(session: &Session, args: &DeleteArgs) -> Result<ExitCode, Failure> {
    let wish = wish(args)?;
    let mut interrupt = Interrupt::catch().await;
    let timeout = wish.limits.timeout;
    let ready = match interrupt.or(within(timeout, prepare(session, args, &wish))).await {
        Some(Some(Ok(Prepared::Ready(ready)))) => *ready,
        Some(Some(Ok(Prepared::Answered(code)))) => return Ok(code),
        Some(Some(Err(failure))) => return Err(failure),
        Some(None) => return Err(not_read(args)),
        None => return ending::not_begun(session, args.output, wish.policy, args.dry_run != DryRun::None),
    };
    let Ready { mut subject, mut keeping, mut plan, sent } = ready;
    if let Err(failure) = confirm(session, args, &subject, &plan, &mut interrupt).await {
        return ending::not_started(session, args.output, &subject, &plan, failure);
    }
    if asks(args) {
        let look = more_than_shown(session, args, &subject, &plan, sent);
        let failure = match interrupt.or(within(timeout, look)).await {
            Some(Some(failure)) => failure,
            Some(None) => Some(not_read(args)),
            None => Some(Failure::interrupted(INTERRUPTED)),
        };
        if let Some(failure) = failure {
            return ending::not_started(session, args.output, &subject, &plan, failure);
        }
    }
    if !keeping.removals.is_empty()
        && let Err((failure, refused)) = rehearse(session, &subject, &wish).await
    {
        return ending::rehearsal_refused(session, args.output, &subject, &plan, failure, refused).await;
    }
    match interrupt.or(keep::cut(session, &subject, &keeping)).await {
        Some(Ok(())) => {}
        Some(Err(stop)) => {
            return ending::stopped(session, args.output, &subject, &plan, told(args, &plan), stop);
        }
        None if keeping.removals.is_empty() => {
            let failure = Failure::interrupted(INTERRUPTED);
            return ending::not_started(session, args.output, &subject, &plan, failure);
        }
        None => {
            let failure = Failure::interrupted(
                "nothing was deleted: interrupted; what was to be kept may have lost its ownerReference",
            );
            return ending::not_started(session, args.output, &subject, &plan, failure);
        }
    }
    if let Some(cut) = keeping.take_graph() {
        subject.graph = cut;
    }

    let mut following = Following::start(&session.cluster, &subject.graph, &plan);
    let Sendings { refusals, lost, sent: any_sent } =
        send(session, &subject, &wish, args.wait, &mut following, &mut interrupt).await;
    let unclear = lost.is_some();
    let all_refused = refusals.len() == subject.targets.len();
    if !args.wait && !all_refused && lost.is_none() && !interrupt.was_pressed() {
        let told = told(args, &plan);
        let stage = if any_sent { Stage::Accepted } else { Stage::UnderWay };
        return ending::not_waited(session, args.output, &subject, &plan, told, &refusals, stage).await;
    }
    if !refusals.is_empty() {
        // What hangs on a refused target stays: only the others are followed.
        let accepted = accepted(&subject, &refusals);
        plan = keeping.forecast(&subject.graph, &accepted, sent);
        following.follow_only(&subject.graph, &plan);
    }
    let end = if interrupt.was_pressed() {
        Some(End::Interrupted)
    } else if let Some(gap) = lost {
        Some(End::Blind(vec![gap]))
    } else if all_refused {
        None
    } else {
        if args.assist {
            following.assistant = Some(Assistant::new(&session.cluster, Order::new(&subject.graph, &plan)));
        }
        let explain = ending::explainer(session, &subject, probing(args.follow.probe));
        let mut view = session.progress();
        let end = following.until_end(wish.limits, &mut interrupt, &mut view, &explain).await;
        view.finish();
        Some(end)
    };
    let ended = Ended {
        unclear,
        end,
        following,
        refusals,
        policy: wish.policy,
        probing: probing(args.follow.probe),
        cut: keeping
            .removals
            .iter()
            .map(|removal| subject.graph.object(removal.object).reference())
            .collect(),
        told: told(args, &plan).to_vec(),
    };
    ending::finish(session, args.output, &subject, &plan, ended, &mut interrupt).await
}

/// The time limit was over before anything was sent.
fn not_read(args: &DeleteArgs) -> Failure {
    let limit = &args.follow.timeout;
    Failure::error(format!("nothing was deleted: the cluster could not be read within --timeout {limit}"))
        .hint("give it more time; -v shows which requests take long")
}

/// What is said where Ctrl-C comes before anything was sent.
const INTERRUPTED: &str = "nothing was deleted: interrupted";

/// Everything before the question.
enum Prepared {
    /// It can be asked about, and deleted.
    Ready(Box<Ready>),
    /// There is nothing to delete, or only a forecast was wanted.
    Answered(ExitCode),
}

struct Ready {
    subject: Subject,
    keeping: Keeping,
    plan: Forecast,
    sent: DeleteWish,
}

/// Reads, forecasts and shows.
async fn prepare(session: &Session, args: &DeleteArgs, wish: &Wish) -> Result<Prepared, Failure> {
    keep::check(&args.keep)?;
    let reading = Reading {
        cluster_scoped: needs_cluster_scoped(Some(wish.policy)),
        pods: true,
        bare_type: BareType::Refused,
        ignore_not_found: args.ignore_not_found,
    };
    let subject = gather(session, &args.target, reading).await?;
    if subject.targets.is_empty() {
        let dry_run = args.dry_run != DryRun::None;
        return ending::nothing_to_do(session, args.output, wish.policy, dry_run).map(Prepared::Answered);
    }
    refuse_unread(&subject)?;
    refuse_without_uid(session, &subject)?;
    refuse_orphaned_containers(&subject, wish.policy)?;
    let sent = DeleteWish { policy: wish.policy, grace_seconds: wish.grace_seconds };
    let keeping = keep::keeping(session, &args.keep, &subject, sent).await?;
    let mut plan = keeping.forecast(&subject.graph, &subject.targets, sent);

    warn_of_force(&subject, wish, &mut plan);

    if args.dry_run != DryRun::None {
        let mut refused = false;
        if args.dry_run == DryRun::Server {
            refused |= ask_admission(session, &subject, wish, &mut plan).await?;
            refused |= keep::ask_admission(session, &subject, &keeping, &mut plan).await?;
        }
        show_dry_run(session, args, &subject, &plan)?;
        let asked = args.dry_run == DryRun::Server && args.output.is_none();
        if asked && !plan.warnings.iter().any(|warning| warning.code.starts_with("admission-")) {
            let targets = subject.targets.len();
            session.note(|out| notes::write_admission_accepts(out, session.stderr, targets));
        }
        return Ok(Prepared::Answered(if refused { ExitCode::Refused } else { ExitCode::Done }));
    }
    present(session, args, &subject, &plan)?;
    Ok(Prepared::Ready(Box::new(Ready { subject, keeping, plan, sent })))
}

/// What can be refused before anybody is asked.
///
/// # Errors
/// A wrong command line.
pub fn check(args: &DeleteArgs) -> Result<(), Failure> {
    wish(args)?;
    manifest::check(&args.target, BareType::Refused)
}

/// Whether a yes must be typed. As in kubectl, who asks to be asked is asked, whatever else is said.
fn asks(args: &DeleteArgs) -> bool {
    args.interactive || !args.yes
}

fn wish(args: &DeleteArgs) -> Result<Wish, Failure> {
    if args.grace_period < -1 {
        return Err(Failure::usage(format!(
            "invalid argument \"{}\" for \"--grace-period\": it may not be negative, other than -1",
            args.grace_period
        ))
        .hint("leave it out, or give -1, for each Pod's own grace period"));
    }
    if args.now && args.grace_period >= 0 {
        return Err(
            Failure::usage("--now and --grace-period cannot be specified together").hint("give one of them")
        );
    }
    if args.force && args.grace_period > 0 {
        return Err(Failure::usage("--force and --grace-period greater than 0 cannot be specified together")
            .hint("--force deletes without waiting for the kubelet: use --grace-period=0 with it, or leave it out"));
    }
    // kubectl's rules: 0 without --force means 1, so that the kubelet still confirms; --force alone means 0.
    let grace_seconds = match (args.now, args.force, args.grace_period) {
        (true, _, _) => Some(1),
        (_, true, _) => Some(0),
        (_, false, 0) => Some(1),
        (_, _, seconds) if seconds > 0 => Some(seconds),
        _ => None,
    };
    let limits = limits(&args.follow)?;
    Ok(Wish {
        policy: policy(args.cascade.unwrap_or(args.policy)),
        grace_seconds,
        force: grace_seconds == Some(0),
        limits,
    })
}

/// As kubectl warns: nobody confirms that the containers have stopped.
fn warn_of_force(subject: &Subject, wish: &Wish, plan: &mut Forecast) {
    let pods = subject.targets.iter().filter(|target| subject.graph.object(**target).is("", "Pod")).count();
    if wish.force && pods > 0 {
        plan.warnings.insert(
            0,
            Warning {
                code: "force-deletion".to_owned(),
                message: "--force does not wait for the kubelet to confirm that the containers have stopped: they may \
                          run on, beside a successor"
                    .to_owned(),
                object: None,
            },
        );
    }
}

/// A forecast of nothing that was read is none: the connection was lost on the way.
fn refuse_unread(subject: &Subject) -> Result<(), Failure> {
    let snapshot = subject.graph.snapshot();
    let lost = snapshot.gaps.iter().find(|gap| gap.reason == metadata::NO_ANSWER);
    match lost {
        Some(gap) if snapshot.versions.is_empty() => Err(Failure::error(format!(
            "nothing was deleted: the connection was lost before anything that depends on it could be read ({})",
            gap.message
        ))
        .hint("try again when the server answers")),
        _ => Ok(()),
    }
}

/// Without a UID nobody can say which object was deleted, or whether it is gone.
fn refuse_without_uid(session: &Session, subject: &Subject) -> Result<(), Failure> {
    let objects = subject.targets.iter().map(|target| subject.graph.object(*target));
    match objects.into_iter().find(|object| object.uid.as_str().is_empty()) {
        None => Ok(()),
        Some(object) => Err(Failure::error(format!(
            "{} has no UID, so that it cannot be told from a successor: nothing was deleted",
            object.reference().short()
        ))
        .hint(format!(
            "if its server deletes such objects at all: {}",
            session.caller.command_on("kubectl delete", object, &[])
        ))),
    }
}

/// The server accepts `orphan` on a Namespace or a definition and deletes all content (reference A.1).
fn refuse_orphaned_containers(subject: &Subject, policy: Policy) -> Result<(), Failure> {
    for target in &subject.targets {
        let object = subject.graph.object(*target);
        let what = if object.is("", "Namespace") {
            "everything in it"
        } else if object.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            "all its instances"
        } else {
            continue;
        };
        if policy == Policy::Orphan {
            return Err(Failure::usage(format!(
                "--policy orphan cannot save the content of {}: the server accepts it and deletes {what} all the same",
                object.reference().short()
            ))
            .hint("to keep its content, do not delete it"));
        }
    }
    Ok(())
}

/// `--dry-run=server`: asks admission about each target. Returns whether it refuses any; the refusal stands verbatim
/// among the warnings.
async fn ask_admission(
    session: &Session,
    subject: &Subject,
    wish: &Wish,
    plan: &mut Forecast,
) -> Result<bool, Failure> {
    let mut refused = false;
    for target in &subject.targets {
        let object = subject.graph.object(*target);
        let options = DeleteOptions { policy: wish.policy, grace_seconds: wish.grace_seconds, dry_run: true };
        match deletion::delete(&session.cluster, object, options).await {
            Ok(_) => {}
            Err(trouble) if ending::is_admission(&trouble) => {
                let unable = words_of_no_dry_run(&trouble);
                refused |= !unable;
                let code = if unable { "admission-unchecked" } else { "admission-denied" };
                plan.warnings.insert(
                    0,
                    Warning {
                        code: code.to_owned(),
                        message: ending::words(&trouble),
                        object: Some(object.reference()),
                    },
                );
            }
            Err(trouble) if trouble.is_not_found() => {}
            Err(trouble) => return Err(ending::refusal(object, &trouble)),
        }
    }
    Ok(refused)
}

/// `--keep` changes objects before the DELETE is sent: not for a DELETE that is sure to be refused.
///
/// # Errors
/// A dry run of a DELETE is refused; with whose it is, and the server's answer.
async fn rehearse(
    session: &Session,
    subject: &Subject,
    wish: &Wish,
) -> Result<(), (Failure, (Object, Trouble))> {
    for target in &subject.targets {
        let object = subject.graph.object(*target);
        let options = DeleteOptions { policy: wish.policy, grace_seconds: wish.grace_seconds, dry_run: true };
        match deletion::delete(&session.cluster, object, options).await {
            Err(trouble) if ending::is_admission(&trouble) && words_of_no_dry_run(&trouble) => {}
            Err(trouble) if ending::is_admission(&trouble) => {
                let name = object.reference().short();
                let words = ending::words(&trouble);
                let failure = Failure::refused(format!(
                    "nothing was deleted or changed: the delete of {name} would be refused: {words}"
                ))
                .hint("--dry-run=server shows what admission says of each target");
                return Err((failure, (object.clone(), trouble)));
            }
            Err(trouble) => return Err((ending::refusal(object, &trouble), (object.clone(), trouble))),
            Ok(_) => {}
        }
    }
    Ok(())
}

/// A webhook with side effects is not asked in a dry run, and the server refuses the whole request
/// (`apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`, NewDryRunUnsupportedErr).
fn words_of_no_dry_run(trouble: &Trouble) -> bool {
    ending::words(trouble).contains("does not support dry run")
}

fn show_dry_run(
    session: &Session,
    args: &DeleteArgs,
    subject: &Subject,
    plan: &Forecast,
) -> Result<(), Failure> {
    let everywhere = args.target.all_namespaces;
    match args.output {
        Some(ReportFormat::Json) => {
            session.print(|out| json::write_json(out, &json::plan_document(&subject.graph, plan)))
        }
        Some(ReportFormat::Name) => session.print(|out| {
            let doomed: Vec<_> =
                plan.doomed().map(|entry| subject.graph.object(entry.object).reference()).collect();
            names::write_names(out, &doomed)
        }),
        None => session.print(|out| {
            plan::write_plan(out, session.stdout, &subject.graph, plan, session.cluster.now(), everywhere)
        }),
    }
}

/// What will happen, shown before anything is asked; on standard error, so that `-o json|name` stays clean.
fn present(session: &Session, args: &DeleteArgs, subject: &Subject, plan: &Forecast) -> Result<(), Failure> {
    let everywhere = args.target.all_namespaces;
    match args.output {
        None => session.print(|out| {
            plan::write_plan(out, session.stdout, &subject.graph, plan, session.cluster.now(), everywhere)
        }),
        Some(_) if asks(args) => {
            session.note(|out| {
                plan::write_plan(out, session.stderr, &subject.graph, plan, session.cluster.now(), everywhere)
            });
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

/// The gaps that were told with the forecast, where it was shown.
fn told<'p>(args: &DeleteArgs, plan: &'p Forecast) -> &'p [Gap] {
    if args.output.is_none() || asks(args) { &plan.gaps } else { &[] }
}

/// A question may stand for long. What would go now and was not shown is never deleted on an old yes.
async fn more_than_shown(
    session: &Session,
    args: &DeleteArgs,
    subject: &Subject,
    plan: &Forecast,
    sent: DeleteWish,
) -> Option<Failure> {
    let targets = subject.targets.iter().map(|target| subject.graph.object(*target).clone()).collect();
    let searched = subject.graph.snapshot().searched.clone();
    // Kinds may have come, too.
    let catalog = discovery::catalog(&session.cluster).await.map(Arc::new);
    let catalog = catalog.unwrap_or_else(|_| Arc::clone(&subject.catalog));
    let fresh = read(session, catalog, targets, searched, true).await;
    // What is kept by a flag was shown, and is cut off only after this.
    let shown = plan.entries.iter().filter(|entry| !args.keep.is_empty() || entry.fate.is_doomed());
    let shown: BTreeSet<&Uid> = shown.map(|entry| &subject.graph.object(entry.object).uid).collect();
    let now = forecast(&fresh.graph, &fresh.targets, sent);
    let mut more = now
        .doomed()
        .map(|entry| fresh.graph.object(entry.object))
        .filter(|object| !shown.contains(&object.uid));
    let first = more.next()?.reference().short();
    let others = match more.count() {
        0 => String::new(),
        1 => " and 1 more object".to_owned(),
        count => format!(" and {count} more objects"),
    };
    Some(
        Failure::refused(format!(
            "nothing was deleted: while the question stood, {first}{others} came to hang on what you delete"
        ))
        .hint("run it again to see what would go now"),
    )
}

async fn confirm(
    session: &Session,
    args: &DeleteArgs,
    subject: &Subject,
    plan: &Forecast,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    if !asks(args) {
        return Ok(());
    }
    if !stdin().is_terminal() || !ask::can_ask() {
        let hint = if args.interactive && args.yes {
            "-i asks, whatever --yes says: leave it out"
        } else {
            "look at the forecast with --dry-run, then add --yes"
        };
        return Err(Failure::refused("nothing was deleted: there is no terminal to ask on").hint(hint));
    }
    let question = plan::question(&subject.graph, plan, session.cluster.context_name());
    let name = plan::name_to_type(&subject.graph, plan).map(str::to_owned);
    let look = session.stderr;
    let answer = question::ask(interrupt, move || match name {
        Some(name) => ask::confirm_by_name(look, &question, &name),
        None => ask::confirm(look, &question),
    })
    .await;
    match answer {
        Ok(Answer::Yes) => Ok(()),
        Ok(Answer::No) => Err(Failure::refused("nothing was deleted: you said no")),
        Ok(Answer::Interrupted) => Err(Failure::interrupted(INTERRUPTED)),
        Err(error) => {
            Err(Failure::refused(format!("nothing was deleted: cannot ask on this terminal: {error}"))
                .hint("look at the forecast with --dry-run, then add --yes"))
        }
    }
}

/// What became of the DELETEs.
struct Sendings {
    refusals: Vec<(Object, Trouble)>,
    /// There is no answer any more; whether the last one was accepted is not known.
    lost: Option<Gap>,
    /// A DELETE was sent that was not refused.
    sent: bool,
}

/// Sends the DELETEs. A target that is Terminating under the same policy is joined; under another it is switched
/// and looked at again. One refusal does not stop the others; a lost connection does.
async fn send(
    session: &Session,
    subject: &Subject,
    wish: &Wish,
    is_watched: bool,
    following: &mut Following,
    interrupt: &mut Interrupt,
) -> Sendings {
    let mut sendings = Sendings { refusals: Vec::new(), lost: None, sent: false };
    let options = DeleteOptions { policy: wish.policy, grace_seconds: wish.grace_seconds, dry_run: false };
    let patience = wish.limits.timeout.map_or(wish.limits.stall, |timeout| timeout.min(wish.limits.stall));
    for target in &subject.targets {
        let object = subject.graph.object(*target);
        let under_way = object.is_terminating().then(|| policy_under_way(object));
        if under_way == Some(wish.policy) && wish.grace_seconds.is_none() {
            session.note(|out| notes::write_joined(out, session.stderr, object, is_watched));
            continue;
        }
        match interrupt.or(sending::delete(session, object, options, patience)).await {
            None => break,
            Some(Sent::Accepted(answer)) => {
                sendings.sent = true;
                let warnings = answer.map(|answer| answer.warnings).unwrap_or_default();
                session.note(|out| notes::write_server_warnings(out, session.stderr, &warnings));
                if under_way.is_some() {
                    look_again(session, object, wish.policy).await;
                }
            }
            Some(Sent::Gone) => {
                sendings.sent = true;
                following.gone(object.uid.clone());
            }
            Some(Sent::Refused(trouble)) => sendings.refusals.push((object.clone(), trouble)),
            Some(Sent::Unknown(trouble)) => {
                sendings.lost = Some(metadata::gap(&object.resource, &trouble));
                break;
            }
        }
    }
    following.accepted();
    sendings
}

fn accepted(subject: &Subject, refusals: &[(Object, Trouble)]) -> Vec<usize> {
    let refused: BTreeSet<&Uid> = refusals.iter().map(|(object, _)| &object.uid).collect();
    let targets = subject.targets.iter().copied();
    targets.filter(|target| !refused.contains(&subject.graph.object(*target).uid)).collect()
}

/// What the finalizers of a Terminating object say of the policy that it was deleted with.
pub fn policy_under_way(object: &Object) -> Policy {
    if object.has_finalizer(FOREGROUND_FINALIZER) {
        Policy::Foreground
    } else if object.has_finalizer(ORPHAN_FINALIZER) {
        Policy::Orphan
    } else {
        Policy::Background
    }
}

/// Some switches answer 200 and change nothing: a Pod that waits for its kubelet (reference C.4). Say so.
async fn look_again(session: &Session, object: &Object, policy: Policy) {
    let found =
        metadata::get(&session.cluster, &object.resource, object.namespace.as_deref(), &object.name).await;
    let Ok(Some(found)) = found else { return };
    let kept_its_policy = found.uid == object.uid && policy_under_way(&found) != policy;
    if kept_its_policy && policy_under_way(object) != policy {
        session.note(|out| notes::write_switch_without_effect(out, session.stderr, &found, policy));
    }
}
