//! What metadata does not tell, for the few objects where a forecast depends on it: what a StatefulSet does with its
//! claims, and what holds a Namespace besides its content. One GET an object.

use futures::StreamExt;

use super::connect::Cluster;
use super::request::Request;
use super::saved::{claim_retention, namespace_finalizers};
use crate::model::collector::content;
use crate::model::graph::OwnerGraph;
use crate::model::object::Object;

/// Requests in flight.
const AT_ONCE: usize = 16;
/// Beyond so many objects the rest stays unknown: a forecast of that size is read by its counts.
const MOST: usize = 256;

/// Reads the details of the StatefulSets and Namespaces that a delete of these targets can affect. What cannot be
/// read stays unknown.
pub async fn fill(cluster: &Cluster, graph: &mut OwnerGraph, targets: &[usize]) {
    let mut roots = targets.to_vec();
    roots.extend(targets.iter().filter_map(|target| content(graph, *target)).flatten());
    let wanted: Vec<Object> = graph
        .closure(&roots)
        .into_iter()
        .map(|index| graph.object(index))
        .filter(|object| object.is("apps", "StatefulSet") || object.is("", "Namespace"))
        .take(MOST)
        .cloned()
        .collect();
    let answers: Vec<Option<(Object, String)>> = futures::stream::iter(wanted)
        .map(|object| async move {
            let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
            let answer = cluster.send(Request::get(path)).await.ok()?;
            Some((object, String::from_utf8_lossy(&answer.body).into_owned()))
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let details = graph.details_mut();
    for (object, json) in answers.into_iter().flatten() {
        let uid = object.uid.clone();
        if object.is("", "Namespace") {
            details.namespace_finalizers.insert(uid, namespace_finalizers(&json));
        } else {
            details.stateful_sets.insert(uid, claim_retention(&json));
        }
    }
}
