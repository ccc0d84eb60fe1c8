//! `release`: remove one blocking finalizer. Which one, may it be removed at all, does the server accept it (a dry run),
//! is it really wanted (the name typed, or a digest), and how does the object stand afterwards.

use std::io::{IsTerminal, stdin};
use std::sync::Arc;
use std::time::Duration;

use super::delete::policy_under_way;
use super::diagnose;
use super::ending::{self, words};
use super::interrupt::Interrupt;
use super::manifest::{self, Place};
use super::question;
use super::sending::leaves_open;
use super::session::Session;
use super::subject;
use crate::cli::ReleaseArgs;
use crate::cluster::{discovery, evidence, metadata, patch, probes, targets};
use crate::error::{ExitCode, Failure, FailureKind, Trouble};
use crate::model::catalog::Catalog;
use crate::model::diagnosis::{
    Actor, Case, Diagnosed, Diagnosis, Evidence, Finding, Remedy, State, Verdict, served,
};
use crate::model::facts::{Identity, Question, Reply, Subject};
use crate::model::forecast::forecast;
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, Snapshot};
use crate::model::release::{self, Choice, Refusal, Release};
use crate::model::target::BareType;
use crate::render::ask::Answer;
use crate::render::{ask, failure, json, notes, release as text};

/// Between the two looks at an object that is still there afterwards.
const OBSERVE: Duration = Duration::from_secs(3);

/// What the dry run of the removal came to.
enum Check {
    /// The server accepts it.
    Accepted,
    /// The server of this kind is not known to understand dry runs; none was made.
    NotMade,
    /// Somebody refuses it.
    Refused(Box<Refusal>),
}

/// Runs `release`.
///
/// # Errors
/// Whatever ends the command before the removal was decided: a wrong command line, no such object or finalizer, a
/// missing right, no connection.
pub async fn run(session: &Session, args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    let catalog = discover(session, args).await?;
    let Some(object) = target(session, args, &catalog).await? else {
        session.note(|out| notes::write_nothing_found(out, None));
        return finish(session, args, &Release::default(), None);
    };
    let mut release = Release { target: Some(object.reference()), ..Release::default() };
    match release::choose(&object, args.finalizer.as_deref(), &session.caller)? {
        Choice::Never { finalizer, leaves_behind, refusal } => {
            let message = format!("{finalizer} of {} is not removed by hand", object.reference().short());
            release.finalizer = finalizer;
            release.leaves_behind = leaves_behind;
            return refuse(session, args, &object, release, *refusal, Failure::refused(message));
        }
        Choice::Remove(finalizer) => {
            release.digest = release::digest(&object, &finalizer);
            release.leaves_behind = release::leaves_behind(&finalizer);
            let with_it = with_it(session, &catalog, &object, &finalizer).await;
            release.effect = release::effect(&object, &finalizer, with_it);
            release.finalizer = finalizer;
        }
    }
    let dry_run = match check(session, &catalog, &object, &release.finalizer).await? {
        Check::Refused(refusal) => {
            let message = format!("nothing was changed: the removal of {} is refused", release.finalizer);
            return refuse(session, args, &object, release, *refusal, Failure::refused(message));
        }
        check => matches!(check, Check::Accepted),
    };
    present(session, args, &object, &release, dry_run)?;
    let mut interrupt = Interrupt::catch().await;
    if let Err(failure) = confirm(session, args, &object, &release, &mut interrupt).await {
        if args.confirm.is_none() {
            let confirm = ["--confirm", &release.digest];
            release.command = Some(command(session, &object, &release.finalizer, &confirm));
        }
        return finish(session, args, &release, Some(failure));
    }
    if let Err(failure) = remove(session, &object, &release.finalizer).await {
        return finish(session, args, &release, Some(failure));
    }
    release.applied = true;
    let looked = interrupt.or(look_again(session, &catalog, &object, &mut release)).await;
    let failure = looked.unwrap_or_else(|| {
        let name = object.reference().short();
        Some(Failure::interrupted(format!(
            "the finalizer was removed; how {name} stands now was not looked at"
        )))
    });
    if args.output.is_none() {
        session.print(|out| text::write_outcome(out, session.stdout, &release))?;
    }
    finish(session, args, &release, failure)
}

async fn discover(session: &Session, args: &ReleaseArgs) -> Result<Arc<Catalog>, Failure> {
    manifest::check(&args.target, BareType::Refused)?;
    Ok(Arc::new(discovery::catalog(&session.cluster).await?))
}

/// The one object that is meant; none where a selector matches nothing.
async fn target(session: &Session, args: &ReleaseArgs, catalog: &Catalog) -> Result<Option<Object>, Failure> {
    let place =
        Place { namespace: session.cluster.namespace(), given: session.cluster.namespace_was_given() };
    let queries = manifest::queries(&args.target, place, BareType::Refused, catalog)?;
    let mut found = targets::resolve(&session.cluster, catalog, &queries, false).await?;
    if let [first, second, ..] = found.as_slice() {
        return Err(Failure::usage(format!(
            "release takes one object, and {} are meant: {}, {}{}",
            found.len(),
            first.reference().short(),
            second.reference().short(),
            if found.len() > 2 { ", ..." } else { "" }
        ))
        .hint("name one: each removal is looked at and confirmed by itself"));
    }
    Ok(found.pop())
}

/// How many live objects are collected after the object, if this was its last finalizer.
async fn with_it(session: &Session, catalog: &Arc<Catalog>, object: &Object, finalizer: &str) -> usize {
    if !object.is_terminating() || object.finalizers.iter().any(|own| own != finalizer) {
        return 0;
    }
    let objects = vec![object.clone()];
    let searched = subject::surroundings(&objects, false, true);
    let subject = subject::read(session, Arc::clone(catalog), objects, searched, true).await;
    let plan = forecast(&subject.graph, &subject.targets, policy_under_way(object));
    let is_live = |index: usize| !subject.graph.object(index).is_terminating();
    plan.doomed().filter(|entry| is_live(entry.object)).count()
}

/// Dry-runs the very patch that would be sent.
async fn check(
    session: &Session,
    catalog: &Catalog,
    object: &Object,
    finalizer: &str,
) -> Result<Check, Failure> {
    let patch = release::patch(object, finalizer);
    let outcome = patch::dry_run(&session.cluster, object, &patch).await;
    if let Err(trouble) = &outcome
        && patch::is_test_failure(trouble)
    {
        return Err(changed(object));
    }
    let question = Question::RemoveFinalizer {
        subject: Subject::of(object),
        finalizer: finalizer.to_owned(),
        identity: Identity::Caller,
    };
    let reply = match outcome {
        Ok(None) => return Ok(Check::NotMade),
        Ok(Some(answer)) => probes::reply(Ok(answer)),
        Err(trouble) => {
            return match refusal(session, catalog, object, &question, trouble).await {
                Ok(refusal) => Ok(Check::Refused(Box::new(refusal))),
                Err(trouble) => Err(Failure::from(trouble)),
            };
        }
    };
    // Accepted, and yet something on the way may have put it back.
    let finding = who_refuses(session, catalog, object, &question, reply).await;
    Ok(match finding {
        // Whether it can be stored is only a guess where the definition of the kind may not be read.
        Some(finding) if finding.verdict == Verdict::Proven => Check::Refused(Box::new(refused_by(finding))),
        _ => Check::Accepted,
    })
}

/// What the refusal of the removal says. The trouble itself where nobody refuses: the object is gone, a right is missing,
/// there is no answer.
async fn refusal(
    session: &Session,
    catalog: &Catalog,
    object: &Object,
    question: &Question,
    trouble: Trouble,
) -> Result<Refusal, Trouble> {
    let reply = probes::reply(Err(trouble.clone()));
    if let Some(finding) = who_refuses(session, catalog, object, question, reply).await {
        return Ok(refused_by(finding));
    }
    match &trouble {
        // A webhook that has side effects turns every dry run away, or says itself that it wants none: whether it would
        // refuse, nobody knows.
        Trouble::Status { code, message, .. } if *code == 400 || ending::is_admission(&trouble) => {
            Ok(Refusal {
                by: None,
                reason: "the server refuses the dry run, so nobody can say whether it accepts the removal"
                    .to_owned(),
                evidence: vec![Evidence { source: question.source(), text: message.clone() }],
                remedies: Vec::new(),
            })
        }
        _ => Err(trouble),
    }
}

fn refused_by(finding: Finding) -> Refusal {
    Refusal {
        reason: because(&finding).to_owned(),
        // The finalizer is what it is about, not who refuses.
        by: finding
            .by
            .map(|by| Actor { finalizer: None, finalizers: Vec::new(), ..by })
            .filter(|by| *by != Actor::default()),
        evidence: finding.evidence,
        remedies: finding.remedies,
    }
}

/// Who refuses a patch of this object, and how to make the server accept it. None where nobody refuses.
pub async fn who_refuses(
    session: &Session,
    catalog: &Catalog,
    object: &Object,
    question: &Question,
    reply: Reply,
) -> Option<Finding> {
    let snapshot =
        Snapshot { catalog: catalog.clone(), objects: vec![object.clone()], ..Snapshot::default() };
    let case = Case {
        targets: vec![object.reference()],
        now: session.cluster.now(),
        caller: session.caller.clone(),
        ..Case::default()
    };
    let graph = OwnerGraph::new(snapshot);
    let mut finding = evidence::explain_refusal(&session.cluster, &graph, &case, question, reply).await?;
    if !object.is_terminating() {
        // Ways out that speak of objects in deletion would be beside the point.
        let look = finding.remedies.into_iter().find_map(|remedy| remedy.command);
        let text = format!("make whoever refuses accept an UPDATE of {}", object.reference().short());
        finding.remedies = vec![Remedy { command: look, text, risk: None }];
    }
    Some(finding)
}

/// The reason in a finding about a refused patch, without its first words: the object may not be meant to go at all.
pub fn because(finding: &Finding) -> &str {
    finding.summary.split_once(" does not go: ").map_or(finding.summary.as_str(), |(_, reason)| reason)
}

fn changed(object: &Object) -> Failure {
    Failure::refused(format!(
        "nothing was changed: {} is no longer as it was looked at",
        object.reference().short()
    ))
    .hint("look at it again, then release again")
}

/// What the removal means; on standard error where standard output is for the document.
fn present(
    session: &Session,
    args: &ReleaseArgs,
    object: &Object,
    release: &Release,
    dry_run: bool,
) -> Result<(), Failure> {
    let (known, now) = (served(&release.finalizer), session.cluster.now());
    if args.output.is_none() {
        return session
            .print(|out| text::write_proposal(out, session.stdout, object, release, known, dry_run, now));
    }
    if args.confirm.is_none() {
        session.note(|out| text::write_proposal(out, session.stderr, object, release, known, dry_run, now));
    }
    Ok(())
}

/// A complete command to release this finalizer.
fn command(session: &Session, object: &Object, finalizer: &str, rest: &[&str]) -> String {
    let rest: Vec<&str> = ["--finalizer", finalizer].iter().chain(rest).copied().collect();
    session.caller.command_on("kubectl cascade release", object, &rest)
}

/// The digest, or the name typed.
async fn confirm(
    session: &Session,
    args: &ReleaseArgs,
    object: &Object,
    release: &Release,
    interrupt: &mut Interrupt,
) -> Result<(), Failure> {
    let finalizer = &release.finalizer;
    match &args.confirm {
        Some(given) if *given == release.digest => return Ok(()),
        Some(_) => {
            let message = format!(
                "nothing was changed: --confirm is not the digest of {} as it is now",
                object.reference().short()
            );
            let look = command(session, object, finalizer, &[]);
            return Err(
                Failure::refused(message).hint(format!("it may have changed: look at it again: {look}"))
            );
        }
        None => {}
    }
    let without_terminal = |why: String| {
        let command = command(session, object, finalizer, &["--confirm", &release.digest]);
        Err(Failure::refused(format!("nothing was changed: {why}"))
            .hint(format!("to remove it after all: {command}")))
    };
    if !stdin().is_terminal() || !ask::can_ask() {
        return without_terminal("there is no terminal to ask on".to_owned());
    }
    let question = text::question(object, finalizer, session.cluster.context_name());
    let (look, name) = (session.stderr, object.name.clone());
    match question::ask(interrupt, move || ask::confirm_by_name(look, &question, &name)).await {
        Ok(Answer::Yes) => Ok(()),
        Ok(Answer::No) => Err(Failure::refused("nothing was changed: the name was not typed")),
        Ok(Answer::Interrupted) => Err(Failure::interrupted("nothing was changed: interrupted")),
        Err(error) => without_terminal(format!("cannot ask on this terminal: {error}")),
    }
}

/// Sends the patch, if the object still is as it was shown: a person may have taken minutes to type.
async fn remove(session: &Session, object: &Object, finalizer: &str) -> Result<(), Failure> {
    let namespace = object.namespace.as_deref();
    match metadata::get(&session.cluster, &object.resource, namespace, &object.name).await {
        Ok(Some(now)) if release::is_as_shown(object, &now) => {}
        Ok(_) => return Err(changed(object)),
        Err(trouble) => return Err(Failure::from(trouble)),
    }
    match patch::send(&session.cluster, object, &release::patch(object, finalizer)).await {
        Ok(answer) => {
            session.note(|out| notes::write_server_warnings(out, session.stderr, &answer.warnings));
            Ok(())
        }
        Err(trouble) if trouble.is_not_found() || patch::is_test_failure(&trouble) => Err(changed(object)),
        Err(trouble) if leaves_open(&trouble) => was_removed(session, object, finalizer, trouble).await,
        Err(trouble) => Err(Failure { kind: FailureKind::Refused, ..Failure::from(trouble) }),
    }
}

/// The answer to the patch did not come, or leaves open what became of it: the object tells.
async fn was_removed(
    session: &Session,
    object: &Object,
    finalizer: &str,
    trouble: Trouble,
) -> Result<(), Failure> {
    let namespace = object.namespace.as_deref();
    match metadata::get(&session.cluster, &object.resource, namespace, &object.name).await {
        Ok(Some(now)) if now.uid == object.uid && now.has_finalizer(finalizer) => {
            let kind = if trouble.code().is_some() { FailureKind::Refused } else { FailureKind::Error };
            Err(Failure { kind, ..Failure::from(trouble) })
        }
        Ok(_) => Ok(()),
        Err(_) => {
            let failure = Failure::from(trouble);
            let message = format!("{}; whether the finalizer was removed is not known", failure.message);
            Err(Failure { message, ..failure })
        }
    }
}

/// How the object stands now. Says so where the finalizer is there again.
async fn look_again(
    session: &Session,
    catalog: &Arc<Catalog>,
    object: &Object,
    release: &mut Release,
) -> Option<Failure> {
    let namespace = object.namespace.as_deref();
    let gone = || Diagnosis {
        objects: vec![Diagnosed::new(object.reference(), State::Gone)],
        ..Diagnosis::default()
    };
    let found = metadata::get(&session.cluster, &object.resource, namespace, &object.name).await;
    let now = match found {
        Ok(Some(now)) if now.uid == object.uid => now,
        Ok(_) => {
            release.after = Some(gone());
            return None;
        }
        Err(trouble) => {
            return Some(Failure::unfinished(format!(
                "the server accepted the removal, but how {} stands now could not be looked at: {}",
                object.reference().short(),
                words(&trouble)
            )));
        }
    };
    let is_back = now.has_finalizer(&release.finalizer);
    release.after = Some(diagnose::diagnose(session, Arc::clone(catalog), now, OBSERVE).await);
    is_back.then(|| {
        Failure::unfinished(format!(
            "{} is on {} again: its controller, or a webhook on the way, puts it back",
            release.finalizer,
            object.reference().short()
        ))
        .hint("find out who that is and why it does not finish, instead")
    })
}

/// Shows who refuses, and ends.
fn refuse(
    session: &Session,
    args: &ReleaseArgs,
    object: &Object,
    mut release: Release,
    refusal: Refusal,
    failure: Failure,
) -> Result<ExitCode, Failure> {
    if args.output.is_none() {
        session.print(|out| text::write_refusal(out, session.stdout, object, &release, &refusal))?;
    }
    release.refused = Some(refusal);
    finish(session, args, &release, Some(failure))
}

/// The document, and what went wrong.
fn finish(
    session: &Session,
    args: &ReleaseArgs,
    release: &Release,
    failure: Option<Failure>,
) -> Result<ExitCode, Failure> {
    if args.output.is_some() {
        session.print(|out| json::write_json(out, &json::release_document(release)))?;
    }
    let Some(failure) = failure else { return Ok(ExitCode::Done) };
    let namespace = release.target.as_ref().and_then(|target| target.namespace.as_deref());
    let failure = failure.to_caller(&session.caller, namespace);
    session.note(|out| failure::write_failure(out, session.stderr, &failure));
    Ok(failure.kind.exit_code())
}
