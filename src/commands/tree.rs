//! `tree`: what hangs on an object, or, without one, the forest of the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::flags::policy;
use super::manifest;
use super::picture::Picture;
use super::session::{Output, Session};
use super::subject::{Reading, Subject, gather, needs_cluster_scoped, read, refuse_blindness};
use super::watching;
use crate::cli::{TreeArgs, TreeFormat};
use crate::cluster::{columns, details, discovery};
use crate::error::{ExitCode, Failure};
use crate::model::object::{Columns, Searched, Timestamp, Uid};
use crate::model::policy::Policy;
use crate::model::target::BareType;
use crate::render::{gaps, notes};

/// Runs `tree`.
///
/// # Errors
/// A wrong command line, an unknown kind, a target that is not there, no connection.
pub async fn run(session: &Session, args: &TreeArgs) -> Result<ExitCode, Failure> {
    let wanted_policy = args.policy.map(policy);
    let forest = names_no_target(args);
    let subject = if forest {
        whole_forest(session, args, wanted_policy).await?
    } else {
        let reading = Reading {
            // The way up may lead to a cluster-scoped owner; those are looked up one by one.
            cluster_scoped: needs_cluster_scoped(wanted_policy),
            pods: wanted_policy.is_some(),
            bare_type: BareType::All,
            ignore_not_found: false,
        };
        gather(session, &args.target, reading).await?
    };
    if args.watch {
        return watching::run(session, args, subject, forest).await;
    }
    let picture = Picture::new(args, &subject, forest)?;
    let columns = if args.output == TreeFormat::Name {
        BTreeMap::new()
    } else {
        columns::columns(&session.cluster, &picture.objects(&subject)).await
    };
    let place = (forest && !args.target.all_namespaces).then(|| session.cluster.namespace());
    show(session.output(), args, &subject, &picture, &columns, place, session.cluster.now())
}

/// Prints the picture, and what could not be read.
///
/// # Errors
/// Standard output cannot be written to.
pub fn show(
    output: Output,
    args: &TreeArgs,
    subject: &Subject,
    picture: &Picture,
    columns: &BTreeMap<Uid, Columns>,
    place: Option<&str>,
    now: Timestamp,
) -> Result<ExitCode, Failure> {
    if picture.is_empty() && matches!(args.output, TreeFormat::Tree | TreeFormat::Wide) {
        output.note(|out| notes::write_nothing_found(out, place));
    } else {
        output.print(|out| picture.write(out, output.stdout, args, subject, columns, now))?;
    }
    if !matches!(args.output, TreeFormat::Json | TreeFormat::Yaml) {
        output.note(|out| gaps::write_gaps(out, output.stderr, &subject.graph.snapshot().gaps));
    }
    Ok(ExitCode::Done)
}

/// What can be refused before anybody is asked.
///
/// # Errors
/// A wrong command line.
pub fn check(args: &TreeArgs) -> Result<(), Failure> {
    let target = &args.target;
    if args.watch && args.snapshot.is_some() {
        return Err(Failure::usage("--watch and --snapshot do not go together: a file does not change")
            .hint("leave one of them out"));
    }
    if args.watch && matches!(args.output, TreeFormat::Name | TreeFormat::Dot | TreeFormat::Mermaid) {
        return Err(Failure::usage("--watch goes with -o tree, wide, json or yaml").hint("leave -o out"));
    }
    if args.depth == Some(0) {
        return Err(
            Failure::usage("--depth must be greater than 0").hint("1 shows the root and its dependents")
        );
    }
    if !names_no_target(args) {
        return manifest::check(target, BareType::All);
    }
    if target.selector.is_some() || target.field_selector.is_some() || target.all {
        return Err(Failure::usage("a selector needs a type to select from")
            .hint("write for example: tree pods -l app=web"));
    }
    if args.owners {
        return Err(Failure::usage("--owners needs an object to start from")
            .hint("write for example: tree pod/web-1 --owners"));
    }
    Ok(())
}

/// Whether the forest is wanted.
pub fn names_no_target(args: &TreeArgs) -> bool {
    let target = &args.target;
    target.targets.is_empty() && target.filenames.is_empty() && target.kustomize.is_none()
}

async fn whole_forest(
    session: &Session,
    args: &TreeArgs,
    policy: Option<Policy>,
) -> Result<Subject, Failure> {
    let catalog = Arc::new(discovery::catalog(&session.cluster).await?);
    let searched = if args.target.all_namespaces {
        Searched::everywhere()
    } else {
        Searched::namespace(session.cluster.namespace(), false)
    };
    let mut subject = read(session, catalog, Vec::new(), searched, policy.is_some()).await;
    refuse_blindness(session, &subject.graph, "what is there")?;
    subject.targets = subject.graph.roots();
    if policy.is_some() {
        details::fill(&session.cluster, &mut subject.graph, &subject.targets).await;
    }
    Ok(subject)
}
