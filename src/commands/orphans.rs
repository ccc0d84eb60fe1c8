//! `orphans`: what earlier deletions left behind, and the command that removes each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::session::{Output, Session};
use super::subject;
use crate::cli::{OrphansArgs, ReportFormat};
use crate::cluster::{discovery, probes};
use crate::error::{ExitCode, Failure};
use crate::model::catalog::Catalog;
use crate::model::diagnosis::Cause;
use crate::model::facts::{Facts, Question, Subject};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Searched, Timestamp, Uid};
use crate::model::orphan::{Orphan, Orphans, claim_candidates, claim_left_behind, orphans};
use crate::render::{json, names, orphans as text};

/// The collector takes well under this to delete an object whose owner has just gone.
const SECOND_LOOK: Duration = Duration::from_secs(3);

/// Runs `orphans`.
///
/// # Errors
/// No connection, or nothing at all could be read; what else could not be read is part of the answer.
pub async fn run(session: &Session, args: &OrphansArgs) -> Result<ExitCode, Failure> {
    let catalog = Arc::new(discovery::catalog(&session.cluster).await?);
    let searched = if args.all_namespaces {
        Searched::everywhere()
    } else {
        Searched::namespace(session.cluster.namespace(), false)
    };
    let found = look(session, &catalog, &searched).await?;
    let found = confirm(session, &catalog, &searched, found).await?;
    report(session.output(), args, &found, session.cluster.now())
}

async fn look(session: &Session, catalog: &Arc<Catalog>, searched: &Searched) -> Result<Orphans, Failure> {
    let seen = subject::read(session, Arc::clone(catalog), Vec::new(), searched.clone(), false).await;
    subject::refuse_blindness(session, &seen.graph, "whether anything was left behind")?;
    let mut found = orphans(&seen.graph, &session.caller);
    found.objects.extend(claims(session, &seen.graph).await);
    Ok(found)
}

/// The claims of StatefulSets that are gone. Who made a claim shows only in the whole object.
async fn claims(session: &Session, graph: &OwnerGraph) -> Vec<Orphan> {
    let candidates = claim_candidates(graph);
    let question = |index: &usize| Question::Get(Subject::of(graph.object(*index)).path());
    let mut facts = Facts::default();
    probes::answer(&session.cluster, candidates.iter().map(question).collect(), &mut facts).await;
    let left = |index: &usize| {
        let whole = facts.get(&question(index))?.body()?;
        claim_left_behind(graph.object(*index), whole, &session.caller)
    };
    candidates.iter().filter_map(left).collect()
}

/// An object whose owner is merely absent is usually about to be collected: only what a second look shows again was
/// left behind.
async fn confirm(
    session: &Session,
    catalog: &Arc<Catalog>,
    searched: &Searched,
    first: Orphans,
) -> Result<Orphans, Failure> {
    if !first.objects.iter().any(|orphan| orphan.cause == Cause::OwnerAbsent) {
        return Ok(first);
    }
    tokio::time::sleep(SECOND_LOOK).await;
    let before: BTreeSet<Uid> = first.objects.into_iter().map(|orphan| orphan.reference.uid).collect();
    let mut again = look(session, catalog, searched).await?;
    again.objects.retain(|orphan| before.contains(&orphan.reference.uid));
    Ok(again)
}

/// Prints the answer.
///
/// # Errors
/// Standard output cannot be written to.
pub fn report(
    output: Output,
    args: &OrphansArgs,
    found: &Orphans,
    now: Timestamp,
) -> Result<ExitCode, Failure> {
    match args.output {
        Some(ReportFormat::Json) => {
            output.print(|out| json::write_json(out, &json::orphans_document(found)))?;
        }
        Some(ReportFormat::Name) => output
            .print(|out| names::write_names(out, found.objects.iter().map(|orphan| &orphan.reference)))?,
        None => {
            output.print(|out| text::write_orphans(out, output.stdout, found, now, args.all_namespaces))?;
        }
    }
    let some = args.exit_code && !found.objects.is_empty();
    Ok(if some { ExitCode::Unfinished } else { ExitCode::Done })
}
