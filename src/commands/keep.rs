//! `delete --keep`: the dependents that should survive lose their ownerReferences before anything is deleted. First all
//! these patches are dry-run, then sent, then looked at; whatever goes wrong stops everything before the DELETE.

use std::time::{Duration, Instant};

use super::manifest::{self, Place};
use super::release::{because, who_refuses};
use super::sending::leaves_open;
use super::session::Session;
use super::subject::Subject;
use crate::cli::TargetArgs;
use crate::cluster::{metadata, patch, probes, targets};
use crate::error::{Failure, FailureKind, Trouble};
use crate::model::diagnosis::Finding;
use crate::model::facts::{Identity, Question, Subject as About};
use crate::model::forecast::{Forecast, Warning};
use crate::model::keep::{Keeping, Removal, not_taken};
use crate::model::object::{Object, ObjectRef};
use crate::model::policy::DeleteWish;
use crate::model::target::BareType;

/// How often a patch is made anew when the object changes under it.
const TRIES: usize = 3;
/// A controller that wants an object back acts on the very event of its loss; so long we look whether one does. The Job
/// controller gathers events for one second before it acts (`kubernetes/pkg/controller/job`, syncJobBatchPeriod).
const ADOPTION: Duration = Duration::from_secs(3);
/// Between two such looks.
const LOOK: Duration = Duration::from_millis(200);

/// Why nothing was deleted.
pub struct Stop {
    /// What happened.
    pub failure: Failure,
    /// Who refused, where somebody did.
    pub finding: Option<Finding>,
    /// What has lost its reference already.
    pub orphaned: Vec<ObjectRef>,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self { failure, finding: None, orphaned: Vec::new() }
    }
}

/// Checks the form of each `--keep` before anybody is asked anything.
///
/// # Errors
/// Usage.
pub fn check(words: &[String]) -> Result<(), Failure> {
    words.iter().try_for_each(|words| {
        manifest::check(&arguments(words), BareType::Refused).map_err(|failure| {
            Failure::usage(format!("--keep {words:?}: {failure}"))
                .hint("write for example --keep secret/NAME; repeat it for more")
        })
    })
}

/// `TYPE/NAME`, or in one word of the shell `TYPE NAME...`.
fn arguments(words: &str) -> TargetArgs {
    TargetArgs { targets: words.split_whitespace().map(str::to_owned).collect(), ..TargetArgs::default() }
}

/// What is to be kept, and which references it must lose for that.
///
/// # Errors
/// Usage where the delete would not take one of them, or nothing can save it; an error where one is not there.
pub async fn keeping(
    session: &Session,
    words: &[String],
    subject: &Subject,
    wish: DeleteWish,
) -> Result<Keeping, Failure> {
    if words.is_empty() {
        return Ok(Keeping::default());
    }
    let place =
        Place { namespace: session.cluster.namespace(), given: session.cluster.namespace_was_given() };
    let mut queries = Vec::new();
    for words in words {
        queries.extend(manifest::queries(&arguments(words), place, BareType::Refused, &subject.catalog)?);
    }
    let found = targets::resolve(&session.cluster, &subject.catalog, &queries, false).await?;
    let mut keep = Vec::new();
    for object in found {
        match subject.graph.index_of(&object) {
            Some(index) => keep.push(index),
            None => {
                let short = object.reference().short();
                return Err(not_taken(&short, "it does not depend on what is to be deleted"));
            }
        }
    }
    Keeping::new(&subject.graph, &subject.targets, wish, &keep, &session.caller)
}

/// `--dry-run=server`: asks admission about each patch. Returns whether it refuses any; the refusal stands verbatim among
/// the warnings.
///
/// # Errors
/// A missing right, no connection.
pub async fn ask_admission(
    session: &Session,
    subject: &Subject,
    keeping: &Keeping,
    plan: &mut Forecast,
) -> Result<bool, Failure> {
    let mut refused = false;
    for removal in &keeping.removals {
        let Err(stop) = dry_run(session, subject, removal).await else { continue };
        if stop.failure.kind != FailureKind::Refused {
            return Err(stop.failure);
        }
        let evidence = stop.finding.and_then(|finding| finding.evidence.into_iter().next());
        let message = evidence.map_or(stop.failure.message, |evidence| evidence.text);
        let object = Some(subject.graph.object(removal.object).reference());
        plan.warnings.insert(0, Warning { code: "admission-denied".to_owned(), message, object });
        refused = true;
    }
    Ok(refused)
}

/// Removes the references, and looks whether they are really gone.
///
/// # Errors
/// Somebody refuses, an object has changed or gone, its controller took it back: nothing may be deleted then.
pub async fn cut(session: &Session, subject: &Subject, keeping: &Keeping) -> Result<(), Stop> {
    for removal in &keeping.removals {
        dry_run(session, subject, removal).await?;
    }
    let mut orphaned = Vec::new();
    for removal in &keeping.removals {
        if let Err(stop) = remove(session, subject, removal).await {
            return Err(Stop { orphaned, ..stop });
        }
        orphaned.push(subject.graph.object(removal.object).reference());
    }
    if let Err(stop) = verify(session, subject, keeping).await {
        return Err(Stop { orphaned, ..stop });
    }
    Ok(())
}

/// Asks whether the patch would be accepted.
async fn dry_run(session: &Session, subject: &Subject, removal: &Removal) -> Result<(), Stop> {
    let object = subject.graph.object(removal.object);
    let patch = match patch::without_references(&session.cluster, object, &removal.owners).await {
        Ok(Some(patch)) => patch,
        Ok(None) => return Ok(()),
        Err(trouble) => return Err(stop(session, subject, removal, trouble).await),
    };
    match patch::dry_run(&session.cluster, object, &patch).await {
        Ok(_) => Ok(()),
        // It changes just now; the patch itself is made anew then.
        Err(trouble) if patch::is_test_failure(&trouble) => Ok(()),
        Err(trouble) => Err(stop(session, subject, removal, trouble).await),
    }
}

/// Sends the patch, made from the object as it is now; made anew where the object changes at that moment.
async fn remove(session: &Session, subject: &Subject, removal: &Removal) -> Result<(), Stop> {
    let object = subject.graph.object(removal.object);
    let mut tries = 0;
    loop {
        tries += 1;
        let sent = match patch::without_references(&session.cluster, object, &removal.owners).await {
            Ok(Some(patch)) => patch::send(&session.cluster, object, &patch).await.map(|_| ()),
            Ok(None) => Ok(()),
            Err(trouble) => return Err(stop(session, subject, removal, trouble).await),
        };
        match sent {
            Ok(()) => return Ok(()),
            Err(trouble) if patch::is_test_failure(&trouble) && tries < TRIES => {}
            // It may have been carried out: the next try begins with a look.
            Err(trouble) if leaves_open(&trouble) && tries < TRIES => tokio::time::sleep(LOOK).await,
            Err(trouble) => return Err(stop(session, subject, removal, trouble).await),
        }
    }
}

/// Looks at everything that is to be kept, right before the DELETE: it must be there, not be going, and without the
/// references. Where it had a living controller, that gets the time to take it back.
async fn verify(session: &Session, subject: &Subject, keeping: &Keeping) -> Result<(), Stop> {
    let until = Instant::now() + ADOPTION;
    while keeping.removals.iter().any(|removal| removal.controller.is_some()) && Instant::now() < until {
        look(session, subject, keeping).await?;
        tokio::time::sleep(LOOK).await;
    }
    look(session, subject, keeping).await
}

async fn look(session: &Session, subject: &Subject, keeping: &Keeping) -> Result<(), Stop> {
    for removal in &keeping.removals {
        let object = subject.graph.object(removal.object);
        let namespace = object.namespace.as_deref();
        let found = metadata::get(&session.cluster, &object.resource, namespace, &object.name).await;
        let now = match found {
            Ok(now) => now.filter(|now| now.uid == object.uid),
            Err(trouble) => return Err(stop(session, subject, removal, trouble).await),
        };
        let Some(now) = now else { return Err(gone(object).into()) };
        still_kept(&now, removal)?;
    }
    Ok(())
}

fn still_kept(now: &Object, removal: &Removal) -> Result<(), Failure> {
    let short = now.reference().short();
    if now.is_terminating() {
        return Err(Failure::refused(format!("nothing was deleted: {short} is being deleted meanwhile"))
            .hint("nothing can keep it any more: find out who deletes it"));
    }
    let Some(back) = now.owners.iter().find(|owner| removal.owners.contains(&owner.uid)) else {
        return Ok(());
    };
    Err(Failure::refused(format!(
        "nothing was deleted: {short} refers to {}/{} again: its controller made it its own again",
        back.kind, back.name
    ))
    .hint(
        "controllers adopt what has the labels of their selector: change those labels of it first, or use --policy orphan",
    ))
}

fn gone(object: &Object) -> Failure {
    Failure::refused(format!("nothing was deleted: {} is gone meanwhile", object.reference().short()))
        .hint("look at the forecast again with --dry-run")
}

/// What a failed look or patch means.
async fn stop(session: &Session, subject: &Subject, removal: &Removal, trouble: Trouble) -> Stop {
    let object = subject.graph.object(removal.object);
    let short = object.reference().short();
    if trouble.is_not_found() {
        return gone(object).into();
    }
    if patch::is_test_failure(&trouble) {
        return Failure::refused(format!(
            "nothing was deleted: {short} changes all the time, or was replaced"
        ))
        .hint("look at the forecast again with --dry-run")
        .into();
    }
    let question = Question::RemoveReference {
        subject: About::of(object),
        owner: removal.owners.iter().next().cloned().unwrap_or_else(|| object.uid.clone()),
        identity: Identity::Caller,
    };
    let reply = probes::reply(Err(trouble.clone()));
    match who_refuses(session, &subject.catalog, object, &question, reply).await {
        Some(mut finding) => {
            finding.summary = format!("{short} cannot be kept: {}", because(&finding));
            Stop {
                failure: Failure::refused(format!("nothing was deleted: {}", finding.summary)),
                finding: Some(finding),
                orphaned: Vec::new(),
            }
        }
        None => Failure::from(trouble).into(),
    }
}
