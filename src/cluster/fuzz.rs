//! What comes from files and servers, broken at random: nothing of it may panic, run for long, or be taken for more than
//! it is. Valid documents are mutated, cut off, and replaced by garbage.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::connect::ConnectionOptions;
use super::kubeconfig::{Environment, choose};
use super::request::Request;
use super::testing::{Reply, Server};
use super::{discovery, saved};
use crate::model::command::Caller;
use crate::model::forecast::forecast;
use crate::model::graph::OwnerGraph;
use crate::model::object::Uid;
use crate::model::orphan::orphans;
use crate::model::policy::Policy;

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
