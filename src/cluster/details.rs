//! What metadata does not tell, for the few objects where a forecast depends on it: what a StatefulSet does with its
//! claims, what holds a Namespace besides its content, and whether a kubelet is there to end a Pod. One GET an object.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use serde_json::Value;

use super::connect::Cluster;
use super::request::Request;
use super::saved::{claim_retention, namespace_finalizers};
use crate::model::collector::content;
use crate::model::graph::OwnerGraph;
use crate::model::object::{Object, SilentNode};

/// Requests in flight.
const AT_ONCE: usize = 16;
/// Beyond so many objects the rest stays unknown: a forecast of that size is read by its counts.
const MOST: usize = 256;

/// So many Nodes are asked for at most: the Pods of a dead one are many on few.
const MOST_NODES: usize = 8;

/// Reads the details of the StatefulSets and Namespaces, and of the Nodes of the Pods, that a delete of these targets can affect. What cannot be
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
    let silent = silent_nodes(cluster, graph, &roots);
    let answers = futures::stream::iter(wanted)
        .map(|object| async move {
            let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
            let answer = cluster.send(Request::get(path)).await.ok()?;
            Some((object, String::from_utf8_lossy(&answer.body).into_owned()))
        })
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<Option<(Object, String)>>>();
    let (answers, silent) = futures::join!(answers, silent);
    let details = graph.details_mut();
    details.silent_nodes = silent;
    for (object, json) in answers.into_iter().flatten() {
        let uid = object.uid.clone();
        if object.is("", "Namespace") {
            details.namespace_finalizers.insert(uid, namespace_finalizers(&json));
        } else {
            details.stateful_sets.insert(uid, claim_retention(&json));
        }
    }
}

/// Of the Nodes that are to end these objects' Pods, those whose kubelets confirm nothing.
async fn silent_nodes(
    cluster: &Cluster,
    graph: &OwnerGraph,
    roots: &[usize],
) -> BTreeMap<String, SilentNode> {
    let snapshot = graph.snapshot();
    let Some(resource) = snapshot.catalog.served("v1", "Node") else { return BTreeMap::new() };
    let pods = graph.closure(roots).into_iter();
    let pods = pods.filter_map(|index| snapshot.details.pods.get(&graph.object(index).uid));
    let waited_for = pods.filter(|pod| !pod.finished && !pod.node.is_empty());
    let names: BTreeSet<&str> = waited_for.map(|pod| pod.node.as_str()).collect();
    futures::stream::iter(names.into_iter().take(MOST_NODES))
        .map(|name| async move {
            let silent = match cluster.send(Request::get(resource.object_path(None, name))).await {
                Err(trouble) if trouble.is_not_found() => SilentNode::Absent,
                Ok(answer) if is_not_ready(&answer.body) => SilentNode::NotReady,
                _ => return None,
            };
            Some((name.to_owned(), silent))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// Whether the Node says so itself. One without the condition is new: its kubelet may be about to report.
fn is_not_ready(node: &[u8]) -> bool {
    let node: Value = serde_json::from_slice(node).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.is_some_and(|ready| ready["status"] != "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_not_ready_where_it_says_so() {
        let node = |status: &str| {
            format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#)
        };
        for (status, not_ready) in [("True", false), ("False", true), ("Unknown", true)] {
            assert_eq!(is_not_ready(node(status).as_bytes()), not_ready, "{status}");
        }
        assert!(!is_not_ready(br#"{"metadata":{"name":"new"}}"#));
        assert!(!is_not_ready(b"no document"));
    }
}
