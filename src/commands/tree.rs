//! `tree`: what hangs on an object, or, without one, the forest of the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::flags::policy;
use super::session::Session;
use super::subject::{Reading, Subject, gather, needs_cluster_scoped, read};
use crate::cli::{TreeArgs, TreeFormat};
use crate::cluster::{columns, discovery};
use crate::error::{ExitCode, Failure};
use crate::model::forecast::{Forecast, Policy, forecast};
use crate::model::object::{Columns, Object, Searched, Timestamp, Uid};
use crate::model::target::BareType;
use crate::render::tree::{TreeOptions, shown, write_owners, write_tree};
use crate::render::{gaps, json, names, notes};

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
    let graph = &subject.graph;
    let plan = wanted_policy.map(|policy| forecast(graph, &subject.targets, policy));
    let objects =
        if args.owners { ancestors(&subject) } else { shown(graph, &subject.targets, args.depth, None) };
    let wants_columns = args.output != TreeFormat::Name;
    let columns = if wants_columns {
        let wanted: Vec<&Object> = objects.iter().map(|index| graph.object(*index)).collect();
        columns::columns(&session.cluster, &wanted).await
    } else {
        BTreeMap::new()
    };
    show(session, args, &subject, &Shown { forest, objects, columns, plan })?;
    Ok(ExitCode::Done)
}

struct Shown {
    forest: bool,
    objects: Vec<usize>,
    columns: BTreeMap<Uid, Columns>,
    plan: Option<Forecast>,
}

fn names_no_target(args: &TreeArgs) -> bool {
    let target = &args.target;
    target.targets.is_empty() && target.filenames.is_empty() && target.kustomize.is_none()
}

async fn whole_forest(
    session: &Session,
    args: &TreeArgs,
    policy: Option<Policy>,
) -> Result<Subject, Failure> {
    let target = &args.target;
    if target.selector.is_some() || target.field_selector.is_some() || target.all {
        return Err(Failure::usage("a selector needs a type to select from")
            .hint("write for example: tree pods -l app=web"));
    }
    let catalog = Arc::new(discovery::catalog(&session.cluster).await?);
    let searched = if target.all_namespaces {
        Searched::everywhere()
    } else {
        Searched::namespace(session.cluster.namespace(), false)
    };
    let mut subject = read(session, catalog, Vec::new(), searched, policy.is_some()).await;
    subject.targets = subject.graph.roots();
    Ok(subject)
}

/// The objects on the ways up from the targets, and the targets themselves.
fn ancestors(subject: &Subject) -> Vec<usize> {
    let graph = &subject.graph;
    let mut order = subject.targets.clone();
    let mut seen = vec![false; graph.objects().len()];
    order.iter().for_each(|index| seen[*index] = true);
    let mut next = 0;
    while next < order.len() {
        for (_, resolved) in graph.owners(order[next]) {
            let owner = resolved.owner.filter(|_| resolved.state.is_found());
            if let Some(owner) = owner.filter(|owner| !std::mem::replace(&mut seen[*owner], true)) {
                order.push(owner);
            }
        }
        next += 1;
    }
    order
}

/// The topmost owners among these.
fn tops(subject: &Subject, objects: &[usize]) -> Vec<usize> {
    let graph = &subject.graph;
    let has_owner = |index: usize| graph.owners(index).any(|(_, resolved)| resolved.state.is_found());
    objects.iter().copied().filter(|index| !has_owner(*index)).collect()
}

fn show(session: &Session, args: &TreeArgs, subject: &Subject, shown: &Shown) -> Result<(), Failure> {
    let graph = &subject.graph;
    let roots = if args.owners { tops(subject, &shown.objects) } else { subject.targets.clone() };
    let document = || json::tree_document(graph, &roots, &shown.objects, &shown.columns, shown.plan.as_ref());
    match args.output {
        TreeFormat::Json => return session.print(|out| json::write_json(out, &document())),
        TreeFormat::Yaml => return session.print(|out| json::write_yaml(out, &document())),
        TreeFormat::Name => {
            let objects: Vec<_> =
                shown.objects.iter().map(|index| graph.object(*index).reference()).collect();
            session.print(|out| names::write_names(out, &objects))?;
        }
        TreeFormat::Tree | TreeFormat::Wide => {
            let mut options = TreeOptions::new(Timestamp::now(), &shown.columns);
            options.forecast = shown.plan.as_ref();
            options.forest = shown.forest;
            options.expand = args.expand;
            options.depth = args.depth;
            options.wide = args.output == TreeFormat::Wide;
            options.no_headers = args.no_headers;
            if subject.targets.is_empty() {
                let place =
                    (shown.forest && !args.target.all_namespaces).then(|| session.cluster.namespace());
                session.note(|out| notes::write_nothing_found(out, place));
            } else if args.owners {
                session.print(|out| write_owners(out, session.stdout, graph, &subject.targets, &options))?;
            } else {
                session.print(|out| write_tree(out, session.stdout, graph, &subject.targets, &options))?;
            }
        }
    }
    session.note(|out| gaps::write_gaps(out, session.stderr, &graph.snapshot().gaps));
    Ok(())
}
