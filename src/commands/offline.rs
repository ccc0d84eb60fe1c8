//! `tree` and `orphans` of a file instead of a cluster (`--snapshot`). No kubeconfig is read and nobody is asked.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::connection;
use super::input::{read_file, read_text};
use super::manifest::{self, Place};
use super::picture::Picture;
use super::session::Output;
use super::subject::Subject;
use super::{orphans as live_orphans, tree as live_tree};
use crate::cli::{Cli, OrphansArgs, TreeArgs};
use crate::cluster::saved;
use crate::error::{ExitCode, Failure};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Columns, Timestamp, Uid};
use crate::model::orphan::orphans as left_behind;
use crate::model::selector::{FieldSelector, LabelSelector};
use crate::model::target::{BareType, TargetQuery, nearest};

/// Runs `tree --snapshot`.
///
/// # Errors
/// A wrong command line, a file that cannot be read, a target that is not in it.
pub fn tree(cli: &Cli, args: &TreeArgs) -> Result<ExitCode, Failure> {
    live_tree::check(args)?;
    let source = args.snapshot.as_deref().unwrap_or_default();
    if source == "-" && args.target.filenames.iter().any(|name| name == "-") {
        return Err(Failure::usage("standard input can be read only once")
            .hint("give --snapshot or -f a file instead of -"));
    }
    let forest = live_tree::names_no_target(args);
    if !forest {
        manifest::check(&args.target, BareType::All)?;
    }
    let namespace = namespace(cli, args.target.all_namespaces);
    let (mut subject, columns) = load(source, namespace)?;
    subject.targets = if forest {
        subject.graph.roots()
    } else {
        let place = Place { namespace: namespace.unwrap_or_default(), given: namespace.is_some() };
        let queries = manifest::queries(&args.target, place, BareType::All, &subject.catalog)
            .map_err(without_a_server)?;
        resolve(&subject.graph, &queries, source_name(source))?
    };
    let picture = Picture::new(args, &subject, forest)?;
    let place = namespace.filter(|_| forest);
    live_tree::show(Output::of(cli), args, &subject, &picture, &columns, place, Timestamp::now())
}

/// Runs `orphans --snapshot`.
///
/// # Errors
/// A file that cannot be read.
pub fn orphans(cli: &Cli, args: &OrphansArgs) -> Result<ExitCode, Failure> {
    let source = args.snapshot.as_deref().unwrap_or_default();
    let (subject, _) = load(source, namespace(cli, args.all_namespaces))?;
    let found = left_behind(&subject.graph, &connection::caller(&cli.connection));
    live_orphans::report(Output::of(cli), args, &found, Timestamp::now())
}

/// There is no server to blame for an unknown type.
fn without_a_server(mut failure: Failure) -> Failure {
    failure.message = failure.message.replace("the server doesn't have a", "the snapshot knows no");
    failure
}

/// The namespace that `-n` names; none for all that the file holds.
fn namespace(cli: &Cli, all: bool) -> Option<&str> {
    cli.connection.namespace.as_deref().filter(|name| !all && !name.is_empty())
}

/// How messages name it.
fn source_name(source: &str) -> &str {
    if source == "-" { "standard input" } else { source }
}

fn load(source: &str, namespace: Option<&str>) -> Result<(Subject, BTreeMap<Uid, Columns>), Failure> {
    let name = source_name(source);
    let read = if source == "-" { read_text(io::stdin()) } else { read_file(Path::new(source)) };
    let text = read.map_err(|error| {
        Failure::error(format!("cannot read {name}: {error}")).hint("check the path given with --snapshot")
    })?;
    let saved = saved::read(name, &text, namespace)?;
    let catalog = Arc::new(saved.snapshot.catalog.clone());
    let subject = Subject {
        catalog,
        graph: OwnerGraph::new(saved.snapshot),
        targets: Vec::new(),
        absent: Vec::new(),
        namespaces: Vec::new(),
    };
    Ok((subject, saved.columns))
}

/// Finds the objects that the queries mean, in the queries' order, each once.
fn resolve(graph: &OwnerGraph, queries: &[TargetQuery], source: &str) -> Result<Vec<usize>, Failure> {
    let mut found: Vec<usize> = Vec::new();
    for query in queries {
        let (resource, namespace) = match query {
            TargetQuery::Named { resource, namespace, .. }
            | TargetQuery::Selected { resource, namespace, .. } => (resource, namespace),
        };
        // Without -n a namespaced object may be in any.
        let namespace = namespace.as_deref().filter(|name| !name.is_empty());
        let candidates = (0..graph.objects().len()).filter(|index| {
            let object = graph.object(*index);
            object.resource.plural == resource.plural
                && object.resource.group == resource.group
                && (namespace.is_none() || object.namespace.as_deref() == namespace)
        });
        match query {
            TargetQuery::Named { name, .. } => {
                let candidates: Vec<usize> = candidates.collect();
                let own = candidates.iter().copied().filter(|index| graph.object(*index).name == *name);
                let own: Vec<usize> = own.collect();
                if own.is_empty() {
                    let names = candidates.iter().map(|index| graph.object(*index).name.as_str());
                    let close = nearest(name, names);
                    let hint = if close.is_empty() {
                        "check the name, and what was saved".to_owned()
                    } else {
                        format!("did you mean {}?", close.join(" or "))
                    };
                    let what = resource.qualified();
                    return Err(Failure::error(format!("{what} {name:?} not found in {source}")).hint(hint));
                }
                found.extend(own);
            }
            TargetQuery::Selected { labels, fields, .. } => {
                let (labels, fields) = (LabelSelector::parse(labels)?, FieldSelector::parse(fields)?);
                found.extend(candidates.filter(|index| {
                    let object = graph.object(*index);
                    labels.matches(&object.labels) && fields.matches(object)
                }));
            }
        }
    }
    let mut seen = vec![false; graph.objects().len()];
    found.retain(|index| !std::mem::replace(&mut seen[*index], true));
    Ok(found)
}
