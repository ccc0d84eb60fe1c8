//! What comes from files and servers, broken at random: nothing of it may panic, run for long, or be taken for more than
//! it is. Valid documents are mutated, cut off, and replaced by garbage.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::connect::ConnectionOptions;
use super::events::{Event, EventReader};
use super::kubeconfig::{Environment, choose};
use super::protobuf::{MAGIC, PROTOBUF};
use super::request::Request;
use super::testing::{Reply, Server};
use super::wire::{DecodedList, ListReader};
use super::{columns, discovery, saved};
use crate::model::command::Caller;
use crate::model::forecast::forecast;
use crate::model::graph::OwnerGraph;
use crate::model::object::Uid;
use crate::model::orphan::orphans;
use crate::model::policy::Policy;
use crate::model::testing::snapshot;

/// So many cases; `CASCADE_FUZZ=100` tries a hundred times as many.
fn cases(usual: u32) -> ProptestConfig {
    let times = std::env::var("CASCADE_FUZZ").ok().and_then(|times| times.parse::<u32>().ok()).unwrap_or(1);
    ProptestConfig::with_cases(usual.saturating_mul(times))
}

/// Any JSON, not too large.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "|\\.\\.|a/b|x\\?y|v1|Pod|List|PodList|a|b|apps/v1|9999999999999-99|2026-01-02T03:04:05Z|-1"
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("kind|items|metadata|name|uid|[a-z]{0,3}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Where every value of a document is.
fn places(value: &Value) -> Vec<String> {
    fn below(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(index, item)| below(item, &format!("{at}/{index}"), found));
            }
            Value::Object(fields) => fields
                .iter()
                .for_each(|(name, field)| below(field, &format!("{at}/{}", name.replace('/', "~1")), found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    below(value, "", &mut found);
    found
}

/// A document as text: a few of its values replaced by anything, and perhaps cut off.
pub(super) fn broken(document: Value) -> impl Strategy<Value = String> {
    let changes = prop::collection::vec((any::<Index>(), any_json()), 0..4);
    (changes, prop::option::weighted(0.3, any::<Index>())).prop_map(move |(changes, cut)| {
        let mut broken = document.clone();
        for (place, value) in changes {
            let places = places(&broken);
            if let Some(old) = broken.pointer_mut(&places[place.index(places.len())]) {
                *old = value;
            }
        }
        let mut text = broken.to_string();
        if let Some(cut) = cut {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.truncate(*cut.get(&ends[..]));
        }
        text
    })
}

/// Every kind of which more than metadata is read.
fn saved_cluster() -> Value {
    let item = |api_version: &str, kind: &str, name: &str, owner: &str, rest: Value| {
        let mut item = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": name, "namespace": "x", "uid": name, "resourceVersion": "1",
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"batch.kubernetes.io/controller-uid": "gone"},
                "finalizers": ["a/b"], "deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30,
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner,
                                     "controller": true, "blockOwnerDeletion": true}],
            },
        });
        rest.as_object().into_iter().flatten().for_each(|(name, value)| item[name] = value.clone());
        item
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [
        item("v1", "ConfigMap", "a", "b", json!({})),
        item("v1", "ConfigMap", "b", "a", json!({})),
        item("v1", "Pod", "p", "a", json!({
            "spec": {"nodeName": "n", "containers": [{}], "terminationGracePeriodSeconds": 30,
                     "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"ephemeral": {}}]},
            "status": {"phase": "Running", "reason": "r", "containerStatuses": [{"ready": true, "state": {"waiting": {"reason": "w"}}}],
                       "conditions": [{"type": "Ready", "status": "True"}]},
        })),
        item("apps/v1", "StatefulSet", "s", "a", json!({
            "spec": {"replicas": 2, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
                     "volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
            "status": {"readyReplicas": 1},
        })),
        item("v1", "PersistentVolumeClaim", "data-s-0", "s", json!({})),
        item("v1", "Namespace", "x", "a", json!({"spec": {"finalizers": ["kubernetes"]}})),
        item("apiextensions.k8s.io/v1", "CustomResourceDefinition", "ws.e.test", "a", json!({
            "spec": {"group": "e.test", "scope": "Namespaced", "versions": [{"name": "v1", "served": true}],
                     "names": {"plural": "ws", "kind": "W", "singular": "w", "shortNames": ["w"], "categories": ["all"]}},
        })),
        item("e.test/v1", "W", "w", "p", json!({"status": {"phase": 7}})),
        {"apiVersion": "batch/v1", "kind": "JobList", "items": [
            {"metadata": {"name": "j", "namespace": "x", "uid": "j"}, "spec": {"completions": 1}, "status": {"succeeded": 1}},
        ]},
    ]})
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_broken_saved_cluster_is_read_or_refused(
        text in prop_oneof![8 => broken(saved_cluster()), 1 => any::<String>(), 1 => "([a&*!:{}\\[\\]|>'\"%@,?# -]|\n){0,40}"],
        namespace in prop::option::of("x|y"),
    ) {
        match saved::read("file", &text, namespace.as_deref()) {
            Err(failure) => prop_assert!(failure.hint.is_some() && !failure.message.contains("hunter2")),
            Ok(saved) => {
                let graph = OwnerGraph::new(saved.snapshot);
                prop_assert_eq!(graph.closure(&graph.roots()).len(), graph.objects().len());
                orphans(&graph, &Caller::default());
                for target in (0..graph.objects().len()).take(3) {
                    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
                        let plan = forecast(&graph, &[target], policy);
                        let entries: BTreeSet<usize> = plan.entries.iter().map(|entry| entry.object).collect();
                        prop_assert_eq!(entries.len(), plan.entries.len());
                        prop_assert!(entries.contains(&target));
                    }
                }
                prop_assert!(saved.columns.keys().all(|uid: &Uid| !graph.by_uid(uid).is_empty()));
            }
        }
    }
}

fn discovery_documents() -> (Value, Value) {
    let resource = |name: &str, kind: &str| {
        json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
               "singularResource": "s", "verbs": ["get", "list", "watch", "delete"], "shortNames": ["x"],
               "categories": ["all"], "subresources": [{"subresource": "status"}]})
    };
    let group = |name: &str| {
        json!({"metadata": {"name": name}, "versions": [
            {"version": "v1", "freshness": "Current", "resources": [resource("pods", "Pod"), resource("things", "Thing")]},
            {"version": "v2", "freshness": "Stale", "resources": []},
        ]})
    };
    let list = |groups: Value| {
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups,
               "versions": ["v1"], "groups": [{"name": "old", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}]})
    };
    (list(json!([group("")])), list(json!([group("a.test"), group("b.test")])))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_broken_discovery_document_is_a_catalog_with_gaps_or_an_error(
        core in broken(discovery_documents().0),
        named in broken(discovery_documents().1),
        status in prop_oneof![4 => Just(200_u16), 1 => 100_u16..600],
    ) {
        let catalog = runtime().block_on(async {
            let body = |text: &str| Reply::Whole(status.max(200), vec![], text.as_bytes().to_vec());
            let server = Server::start(vec![body(&core), body(&named)]);
            discovery::catalog(&server.cluster().await).await
        });
        match catalog {
            Ok(catalog) => {
                // Nothing that a server says leads out of its own place in a path.
                for resource in catalog.all() {
                    let path = resource.object_path(Some("ns"), "name");
                    prop_assert!(!path.contains("/../") && !path.contains(['?', ' ', '#']), "{path}");
                    catalog.served(&resource.api_version(), &resource.kind);
                }
                catalog.preferred().count();
            }
            Err(failure) => prop_assert!(!failure.message.is_empty()),
        }
    }

    /// A refusal may be anything, in any encoding.
    #[test]
    fn any_refusal_is_told_in_words(
        status in 300_u16..600,
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat()),
            broken(json!({"kind": "Status", "code": 409, "reason": "r", "message": "m", "details": {"retryAfterSeconds": 5}}))
                .prop_map(String::into_bytes),
        ],
        warning in "[ -~]{0,30}",
    ) {
        let trouble = runtime().block_on(async {
            let reply = Reply::Whole(status, vec![("Warning", warning)], body);
            let server = Server::start(vec![reply]);
            server.cluster().await.send(Request::get("/api").once()).await
        });
        let failure = crate::error::Failure::from(trouble.expect_err("a refusal"));
        prop_assert!(!failure.message.is_empty());
    }
}

fn kubeconfig() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": "https://127.0.0.1:1", "certificate-authority-data": "hunter2", "insecure-skip-tls-verify": false,
            "tls-server-name": "t", "proxy-url": "http://user:hunter2@p:1", "disable-compression": true,
        }}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "users": [{"name": "u", "user": {
            "token": "hunter2", "username": "u", "password": "hunter2", "client-certificate-data": "hunter2",
            "client-key-data": "hunter2", "as": "a", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}, "tokenFile": "t",
            "exec": {"apiVersion": "v1", "command": "c", "args": ["hunter2"], "env": [{"name": "A", "value": "hunter2"}]},
        }}],
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_broken_kubeconfig_with_any_flags_is_used_or_refused_without_a_secret(
        text in prop_oneof![8 => broken(kubeconfig()), 1 => any::<String>(), 1 => "([a-z:{}\\[\\]&*!|>'\" -]|\n){0,40}"],
        names in prop::array::uniform3(prop::option::of("c|u|\\PC{0,6}")),
        server in prop::option::of("\\PC{0,10}|https?://[a-z@:?/.0-9]{0,12}"),
        user in prop::option::of("[a-z\n]{0,4}"),
        groups in prop::collection::vec("[a-z]{0,3}", 0..2),
        insecure in prop::option::of(any::<bool>()),
        token in prop::option::of("hunter2"),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, &text).unwrap();
        let [context, cluster, other] = names;
        let options = ConnectionOptions {
            kubeconfig: Some(path), context, cluster, user: other, server, as_user: user, as_groups: groups, token,
            insecure_skip_tls_verify: insecure, ..ConnectionOptions::default()
        };
        let chosen = choose(&options, &Environment::default());
        if let Err(failure) = &chosen {
            let said = format!("{failure} {}", failure.hint.as_deref().unwrap_or_default());
            prop_assert!(!said.contains("hunter2"), "{said}");
        }
        // What is shown of a choice for debugging is a developer's business, but no secret either.
        if let Ok(choice) = chosen {
            prop_assert!(choice.cluster.server.is_some());
        }
    }
}

/// A list of two Pods in JSON, and the same by hand in protobuf.
fn pod_list() -> Value {
    json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": ""}, "items": [
        {"metadata": {"name": "a", "namespace": "x", "uid": "u1", "resourceVersion": "5", "labels": {"l": "v"},
          "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:30Z",
          "deletionGracePeriodSeconds": 30, "finalizers": ["a/h"], "managedFields": [{"manager": "m"}],
          "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u0", "controller": true}]},
         "spec": {"nodeName": "n", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
         "status": {"phase": "Succeeded"}},
        {"metadata": {"name": "b", "namespace": "x", "uid": "u2"}},
    ]})
}

/// A message of these length-delimited fields.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, content) in fields {
        prost::encoding::encode_varint(u64::from(*number) << 3 | 2, &mut bytes);
        prost::encoding::encode_varint(content.len() as u64, &mut bytes);
        bytes.extend_from_slice(content);
    }
    bytes
}

fn pod_message(name: &[u8]) -> Vec<u8> {
    let owner = message(&[(1, b"Job"), (3, b"j"), (4, b"u0"), (5, b"batch/v1")]);
    let label = message(&[(1, b"l"), (2, b"v")]);
    let metadata = message(&[
        (1, name),
        (3, b"x"),
        (5, name),
        (6, b"5"),
        (11, &label),
        (13, &owner),
        (14, b"a/h"),
        (17, b"managed"),
    ]);
    message(&[(1, &metadata), (2, &message(&[(10, b"n")])), (3, &message(&[(1, b"Running")]))])
}

fn pod_list_message() -> Vec<u8> {
    let list = message(&[(1, &message(&[(2, b"7")])), (2, &pod_message(b"a")), (2, &pod_message(b"b"))]);
    [MAGIC, &message(&[(1, b"type"), (2, &list), (4, b"")])].concat()
}

/// Bytes, of which a few are changed, put in or taken out, and which perhaps are cut off.
fn broken_bytes(valid: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<Index>(), any::<u8>(), 0_u8..4), 0..6);
    (changes, prop::option::weighted(0.3, any::<Index>())).prop_map(move |(changes, cut)| {
        let mut bytes = valid.clone();
        for (place, byte, how) in changes {
            let place = place.index(bytes.len().max(1));
            match how {
                0 if place < bytes.len() => bytes[place] = byte,
                1 if place < bytes.len() => bytes[place] ^= 1 << (byte % 8),
                2 if place < bytes.len() => drop(bytes.remove(place)),
                _ => bytes.insert(place.min(bytes.len()), byte),
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}

fn pods() -> std::sync::Arc<crate::model::catalog::Resource> {
    snapshot("Pod/p").objects.remove(0).resource
}

fn read_list(content_type: &str, body: &[u8], piece: usize) -> Option<DecodedList> {
    let mut reader = ListReader::new(&pods(), content_type);
    body.chunks(piece).try_for_each(|chunk| reader.push(chunk)).ok()?;
    reader.finish().ok()
}

/// What is read of a watch, and whether it ended in an error.
fn read_events(content_type: &str, bytes: &[u8], piece: usize) -> (Vec<String>, bool) {
    let mut reader = EventReader::new(&pods(), content_type);
    let mut told = Vec::new();
    for chunk in bytes.chunks(piece) {
        reader.push(chunk);
        loop {
            match reader.next_event() {
                Ok(None) => break,
                Ok(Some(Event::Seen(object))) => told.push(format!("seen {object:?}")),
                Ok(Some(Event::Gone(object))) => told.push(format!("gone {object:?}")),
                Ok(Some(Event::Bookmark(version))) => told.push(version),
                Err(_) => return (told, true),
            }
        }
    }
    (told, false)
}

fn watch_frames() -> Vec<u8> {
    let frame = |kind: &[u8], raw: &[u8]| {
        let enveloped = [MAGIC, &message(&[(2, raw)])].concat();
        let event = message(&[(1, kind), (2, &message(&[(1, &enveloped)]))]);
        [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
    };
    let status = message(&[(3, b"too old"), (4, b"Expired")]);
    [frame(b"ADDED", &pod_message(b"a")), frame(b"DELETED", &pod_message(b"b")), frame(b"ERROR", &status)]
        .concat()
}

fn watch_lines() -> Vec<u8> {
    let event = |kind: &str, object: Value| format!("{}\n", json!({"type": kind, "object": object}));
    let list = pod_list();
    let lines = [
        event("ADDED", list["items"][0].clone()),
        event("BOOKMARK", json!({"metadata": {"resourceVersion": "9"}})),
        event("DELETED", list["items"][1].clone()),
        event("ERROR", json!({"kind": "Status", "code": 410, "message": "too old"})),
    ];
    lines.concat().into_bytes()
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn a_broken_list_is_the_same_whatever_pieces_it_comes_in_or_an_error(
        (content_type, body) in prop_oneof![
            broken_bytes(pod_list_message()).prop_map(|body| (PROTOBUF, body)),
            broken(pod_list()).prop_map(|body| ("application/json", body.into_bytes())),
            broken_bytes(pod_list().to_string().into_bytes()).prop_map(|body| ("application/json", body)),
            prop::collection::vec(any::<u8>(), 0..80).prop_map(|body| (PROTOBUF, [MAGIC, &body].concat())),
            prop::collection::vec(any::<u8>(), 0..80).prop_map(|body| (PROTOBUF, body)),
        ],
        piece in 1_usize..40,
    ) {
        let whole = read_list(content_type, &body, body.len().max(1)).map(|list| format!("{list:?}"));
        let pieces = read_list(content_type, &body, piece).map(|list| format!("{list:?}"));
        prop_assert_eq!(whole, pieces);
    }

    #[test]
    fn a_broken_watch_is_the_same_whatever_pieces_it_comes_in_or_an_error(
        (content_type, body) in prop_oneof![
            broken_bytes(watch_frames()).prop_map(|body| (PROTOBUF, body)),
            broken_bytes(watch_lines()).prop_map(|body| ("application/json", body)),
            prop::collection::vec(any::<u8>(), 0..80).prop_map(|body| (PROTOBUF, body)),
        ],
        piece in 1_usize..40,
    ) {
        prop_assert_eq!(read_events(content_type, &body, body.len().max(1)), read_events(content_type, &body, piece));
    }
}

#[test]
fn what_is_broken_above_is_read_where_it_is_whole() {
    let list = read_list(PROTOBUF, &pod_list_message(), 7).unwrap();
    assert_eq!((list.items.len(), list.resource_version.as_str()), (2, "7"));
    assert_eq!(read_list("application/json", pod_list().to_string().as_bytes(), 7).unwrap().items.len(), 2);
    for (content_type, stream, events) in
        [(PROTOBUF, watch_frames(), 2), ("application/json", watch_lines(), 3)]
    {
        let (told, refused) = read_events(content_type, &stream, 7);
        assert_eq!((told.len(), refused), (events, true), "{told:?}");
    }
    assert_eq!(saved::read("file", &saved_cluster().to_string(), None).unwrap().snapshot.objects.len(), 9);
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_broken_table_gives_columns_or_none(
        table in broken(json!({
            "kind": "Table", "columnDefinitions": [{"name": "Name"}, {"name": "Ready"}, {"name": "Status"}],
            "rows": [{"cells": ["p", "1/1", "Running"], "object": {"metadata": {"name": "p", "uid": "Pod/p"}}},
                     {"cells": ["q", 1, null]}],
        })),
    ) {
        let objects = snapshot("Pod/p").objects;
        let found = runtime().block_on(async {
            let server = Server::start(vec![Reply::Whole(200, vec![], table.into_bytes())]);
            columns::columns(&server.cluster().await, &[&objects[0]]).await
        });
        prop_assert!(found.keys().all(|uid| *uid == objects[0].uid));
    }
}
