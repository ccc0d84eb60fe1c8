//! `tree`: what hangs on an object, the forest of a namespace, the way up, and what could not be read.

use serde_json::{Value, json};

use crate::conduct::bind;
use crate::contract;
use crate::support::{HOLD, World, entry, names};

/// The Tree of these arguments.
#[track_caller]
fn tree(world: &World, arguments: &[&str]) -> Value {
    let run = world.cascade(&[&["tree"], arguments, &["-o", "json"]].concat()).expect(0);
    let document = run.json();
    contract::tree(&document);
    document
}

/// What it prints, without the changing ages.
#[track_caller]
fn shown(world: &World, arguments: &[&str]) -> Vec<String> {
    let run = world.cascade(&[&["tree"], arguments].concat()).expect(0);
    run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn deployment(world: &World, name: &str, replicas: u32) {
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
                },
            },
        }),
    );
    let ready = || world.get(&format!("Deployment/{name}")).unwrap()["status"]["readyReplicas"] == replicas;
    world.until("the Deployment is ready", ready);
}

#[test]
fn a_deployment_shows_its_replica_set_and_pods_with_the_servers_own_columns() {
    let world = World::new("tree-deployment");
    deployment(&world, "web", 2);
    let lines = shown(&world, &["deployment/web"]);
    assert_eq!(lines[0], "NAME READY STATUS AGE");
    assert!(lines[1].starts_with("Deployment/web 2/2"), "{lines:#?}");
    assert!(lines[2].starts_with("└─ ReplicaSet/web-"), "{lines:#?}");
    assert!(lines[3].contains("Pod/web-") && lines[3].contains(" 1/1 Running "), "{lines:#?}");
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert!(!lines[1].contains('\u{1b}'), "no colour without a terminal");

    let document = tree(&world, &["deploy", "web"]);
    let objects = document["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 4);
    assert_eq!(document["roots"], json!([objects[0]["ref"]["uid"]]));
    assert_eq!((&objects[0]["ready"], &objects[3]["status"]), (&json!("2/2"), &json!("Running")));
    assert_eq!(objects[1]["owners"][0]["state"], "live");
    assert_eq!(document["gaps"], json!([]));
}

#[test]
fn depth_cuts_and_the_document_still_says_who_depends() {
    let world = World::new("tree-depth");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "mid", &["ConfigMap/top!"], &[]);
    world.thing("Secret", "leaf", &["ConfigMap/mid"], &[]);
    let names_at = |depth: &str| names(&tree(&world, &["cm/top", "--depth", depth])["objects"]);
    world.cascade(&["tree", "cm/top", "--depth", "0"]).expect(2);
    assert_eq!(names_at("1"), ["ConfigMap/mid", "ConfigMap/top"]);
    assert_eq!(names_at("2"), ["ConfigMap/mid", "ConfigMap/top", "Secret/leaf"]);
    let document = tree(&world, &["cm/top", "--depth", "1"]);
    assert_eq!(entry(&document["objects"], "ConfigMap/mid")["dependents"], json!([world.uid("Secret/leaf")]));
}

#[test]
fn an_object_of_two_owners_is_printed_once_and_referred_to_afterwards() {
    let world = World::new("tree-shared");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "x", &["ConfigMap/top"], &[]);
    world.thing("ConfigMap", "y", &["ConfigMap/top"], &[]);
    world.thing("Secret", "z", &["ConfigMap/x", "ConfigMap/y"], &[]);
    world.thing("Secret", "below", &["Secret/z"], &[]);
    let text = shown(&world, &["cm/top"]).join("\n");
    assert_eq!(text.matches("Secret/z").count(), 2, "{text}");
    assert_eq!(text.matches("Secret/below").count(), 1, "{text}");
    assert_eq!(tree(&world, &["cm/top"])["objects"].as_array().unwrap().len(), 5);
    let twice = tree(&world, &["cm/x", "cm/y", "cm/x"]);
    assert_eq!(twice["roots"], json!([world.uid("ConfigMap/x"), world.uid("ConfigMap/y")]));
    assert_eq!(twice["objects"].as_array().unwrap().len(), 4);
}

#[test]
fn cycles_end_are_marked_and_have_a_root_both_ways() {
    let world = World::new("tree-cycle");
    let own = |name: &str, owners: Value| {
        world.patch(&format!("ConfigMap/{name}"), &json!({ "metadata": { "ownerReferences": owners } }));
    };
    world.thing("ConfigMap", "a", &[], &[]);
    world.thing("ConfigMap", "b", &["ConfigMap/a"], &[]);
    own("a", json!([world.owner("ConfigMap/b")]));
    let text = shown(&world, &["cm/a"]).join("\n");
    assert!(text.contains("cycle"), "{text}");
    let down = tree(&world, &["cm/a"]);
    assert_eq!(names(&down["objects"]), ["ConfigMap/a", "ConfigMap/b"]);
    let up = tree(&world, &["cm/a", "--owners"]);
    assert_eq!(names(&up["objects"]), ["ConfigMap/a", "ConfigMap/b"]);
    assert_eq!(up["roots"].as_array().unwrap().len(), 1, "{up:#}");
    assert!(shown(&world, &["cm/a", "--owners"]).join("\n").contains("ConfigMap/b"));
    let forest = tree(&world, &[]);
    assert_eq!(names(&forest["objects"]).iter().filter(|name| name.ends_with("/a")).count(), 1);
    world.thing("ConfigMap", "self", &[], &[]);
    own("self", json!([world.owner("ConfigMap/self!")]));
    assert_eq!(names(&tree(&world, &["cm/self"])["objects"]), ["ConfigMap/self"]);
}

#[test]
fn terminating_and_finalizers_are_always_shown() {
    let world = World::new("tree-terminating");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    world.thing("ConfigMap", "pinned", &["ConfigMap/own"], &["example.test/other"]);
    world.delete_raw("Secret/held", &json!({}));
    let text = shown(&world, &["cm/own"]).join("\n");
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("Secret/held").contains("Terminating") && line("Secret/held").contains(HOLD), "{text}");
    let wide = shown(&world, &["cm/own", "-o", "wide"]).join("\n");
    assert!(wide.contains("example.test/other"), "{wide}");
    let document = tree(&world, &["cm/own"]);
    let held = entry(&document["objects"], "Secret/held");
    assert_eq!((&held["status"], &held["finalizers"]), (&json!("Terminating"), &json!([HOLD])));
    assert!(held["deletionTimestamp"].is_string());
    assert_eq!(entry(&document["objects"], "ConfigMap/own")["deletionTimestamp"], Value::Null);
}

#[test]
fn upwards_leads_to_the_topmost_owners_and_through_cluster_scoped_ones() {
    let world = World::new("tree-owners");
    let role = world.namespace.clone();
    world.create("ClusterRole", json!({ "metadata": { "name": role }, "rules": [] }));
    let cluster_owner = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role,
        "uid": world.uid(&format!("ClusterRole/{role}")),
    });
    world.create("ConfigMap", json!({ "metadata": { "name": "a", "ownerReferences": [cluster_owner] } }));
    world.thing("ConfigMap", "b", &[], &[]);
    world.thing("Secret", "leaf", &["ConfigMap/a", "ConfigMap/b!"], &[]);
    let document = tree(&world, &["secret/leaf", "--owners"]);
    let roots: Vec<&Value> = document["roots"].as_array().unwrap().iter().collect();
    assert_eq!(roots.len(), 2, "{document:#}");
    assert!(roots.contains(&&json!(world.uid(&format!("ClusterRole/{role}")))));
    assert!(roots.contains(&&json!(world.uid("ConfigMap/b"))));
    assert_eq!(document["objects"].as_array().unwrap().len(), 4);
    let text = shown(&world, &["secret/leaf", "--owners"]).join("\n");
    assert!(text.contains(&format!("ClusterRole/{role}")) && text.contains("ConfigMap/b"), "{text}");
}

#[test]
fn every_format_names_the_same_objects() {
    let world = World::new("tree-formats");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "one", &["ConfigMap/own!"], &[]);
    world.create("Lease", json!({ "metadata": world.metadata("two", &["ConfigMap/own"], &[]) }));
    let run = world.cascade(&["tree", "cm/own", "-o", "name"]).expect(0);
    assert_eq!(run.stdout, "configmap/own\nlease.coordination.k8s.io/two\nsecret/one\n");
    assert_eq!(run.stderr, "");
    let run = world.cascade(&["tree", "cm/own", "-o", "yaml"]).expect(0);
    assert!(run.stdout.starts_with("apiVersion: cascade/v1\nkind: Tree\n"), "{}", run.stdout);
    let run = world.cascade(&["tree", "cm/own", "-o", "wide"]).expect(0);
    let header: Vec<&str> = run.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["NAME", "READY", "STATUS", "AGE", "FINALIZERS", "BLOCKS", "UID"]);
    assert!(run.stdout.contains(&world.uid("Secret/one")), "{}", run.stdout);
    let run = world.cascade(&["tree", "cm/own", "--no-headers"]).expect(0);
    assert!(run.stdout.starts_with("ConfigMap/own"), "{}", run.stdout);
}

#[test]
fn a_policy_adds_the_fate_and_the_reason_of_each_object() {
    let world = World::new("tree-policy");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    world.thing("Secret", "free", &["ConfigMap/own"], &[]);
    let fate = |policy: &str, name: &str| {
        let document = tree(&world, &["cm/own", "--policy", policy]);
        let object = entry(&document["objects"], name).clone();
        assert!(object["reason"].is_string(), "{object:#}");
        object["fate"].as_str().unwrap().to_owned()
    };
    assert_eq!(fate("foreground", "ConfigMap/own"), "held");
    assert_eq!(fate("background", "ConfigMap/own"), "deleted");
    assert_eq!(fate("background", "Secret/held"), "held");
    assert_eq!(fate("orphan", "Secret/free"), "orphaned");
    assert!(tree(&world, &["cm/own"])["objects"][0].get("fate").is_none());
    assert!(world.get("ConfigMap/own").is_some_and(|own| own["metadata"]["deletionTimestamp"].is_null()));
}

#[test]
fn the_forest_has_the_roots_that_own_something_and_counts_the_rest() {
    let world = World::new("tree-forest");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own!"], &[]);
    for number in 0..3 {
        world.thing("Secret", &format!("alone-{number}"), &[], &[]);
    }
    let text = shown(&world, &[]).join("\n");
    assert!(text.contains("ConfigMap/own") && text.contains("Secret/dependent"), "{text}");
    assert!(!text.contains("alone-0") && text.contains("Secret ×3"), "{text}");
    let text = shown(&world, &["--expand"]).join("\n");
    assert!(text.contains("Secret/alone-0"), "{text}");
    let document = tree(&world, &[]);
    assert_eq!(entry(&document["objects"], "Secret/alone-2")["ref"]["namespace"], world.namespace.as_str());
    assert!(document["roots"].as_array().unwrap().contains(&json!(world.uid("Secret/alone-1"))));
    assert!(!document["roots"].as_array().unwrap().contains(&json!(world.uid("Secret/dependent"))));
}

#[test]
fn more_than_ten_siblings_are_grouped_unless_asked_otherwise() {
    let world = World::new("tree-siblings");
    world.thing("ConfigMap", "own", &[], &[]);
    for number in 0..12 {
        world.thing("Secret", &format!("s{number:02}"), &["ConfigMap/own"], &[]);
    }
    let text = shown(&world, &["cm/own"]).join("\n");
    assert!(text.contains("Secret ×12") && !text.contains("Secret/s00"), "{text}");
    assert!(shown(&world, &["cm/own", "--expand"]).join("\n").contains("Secret/s11"));
    assert_eq!(tree(&world, &["cm/own"])["objects"].as_array().unwrap().len(), 13);
}

#[test]
fn a_selector_gives_several_trees_and_none_is_no_error() {
    let world = World::new("tree-selector");
    for name in ["a", "b", "c"] {
        world.create(
            "ConfigMap",
            json!({ "metadata": { "name": name, "labels": { "app": if name == "c" { "y" } else { "x" } } } }),
        );
    }
    world.thing("Secret", "of-a", &["ConfigMap/a"], &[]);
    let document = tree(&world, &["cm", "-l", "app=x"]);
    assert_eq!(document["roots"].as_array().unwrap().len(), 2);
    assert_eq!(names(&document["objects"]), ["ConfigMap/a", "ConfigMap/b", "Secret/of-a"]);
    let none = tree(&world, &["cm", "-l", "app=nobody"]);
    assert_eq!((&none["roots"], &none["objects"]), (&json!([]), &json!([])));
    let run = world.cascade(&["tree", "cm", "-l", "app=nobody"]).expect(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.starts_with("No resources found"), "{}", run.stderr);
}

#[test]
fn an_empty_namespace_says_so_and_a_missing_one_is_no_crash() {
    let world = World::new("tree-empty");
    let run = world.cascade(&["tree", "leases", "--all"]).expect(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("No resources found"), "{}", run.stderr);
    let mut command = world.command(&["tree"]);
    command.args(["-n", "no-such-namespace-here"]);
    let run = world.finish(command);
    assert!(run.code == 2 || run.code == 0, "{run:#?}");
}

#[test]
fn a_cluster_scoped_target_is_searched_for_everywhere() {
    let world = World::new("tree-cluster-scoped");
    let role = world.namespace.clone();
    world.create("ClusterRole", json!({ "metadata": { "name": role }, "rules": [] }));
    let owner = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role,
        "uid": world.uid(&format!("ClusterRole/{role}")),
    });
    world.create("Secret", json!({ "metadata": { "name": "far", "ownerReferences": [owner] } }));
    let document = tree(&world, &[&format!("clusterrole/{role}")]);
    assert_eq!(names(&document["objects"]), [format!("ClusterRole/{role}"), "Secret/far".into()]);
    let root = entry(&document["objects"], &format!("ClusterRole/{role}"));
    assert!(root["ref"].get("namespace").is_none(), "{root:#}");
}

#[test]
fn a_namespace_shows_what_is_in_it() {
    let world = World::new("tree-namespace");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own"], &[]);
    let document = tree(&world, &[&format!("ns/{}", world.namespace)]);
    let all = names(&document["objects"]);
    for name in ["ConfigMap/own", "Secret/dependent", "ServiceAccount/default"] {
        assert!(all.contains(&name.to_owned()), "{all:?}");
    }
    let text = shown(&world, &[&format!("ns/{}", world.namespace)]).join("\n");
    assert!(text.contains("ConfigMap/own"), "{text}");
}

#[test]
fn a_definition_shows_its_instances() {
    let world = World::new("tree-definition");
    let group = format!("{}.example.test", world.namespace);
    world.create(
        "CustomResourceDefinition",
        json!({
            "metadata": { "name": format!("graphs.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "plural": "graphs", "singular": "graph", "kind": "Graph" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                }],
            },
        }),
    );
    let instance = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Graph",
        "metadata": { "name": "g1", "namespace": world.namespace, "finalizers": [HOLD] },
    });
    world.until("the instance can be created", || world.kubectl().apply(&instance.to_string()).is_ok());
    let document = tree(&world, &[&format!("crd/graphs.{group}")]);
    assert!(names(&document["objects"]).contains(&"Graph/g1".to_owned()), "{document:#}");
    let text = shown(&world, &[&format!("crd/graphs.{group}")]).join("\n");
    assert!(text.contains("Graph ×1"), "{text}");
    let text = shown(&world, &[&format!("crd/graphs.{group}"), "--expand"]).join("\n");
    // Where other tests define a Graph, too, it is named with its group.
    assert!(text.contains("Graph") && text.contains("/g1"), "{text}");
}

#[test]
fn a_limited_user_gets_the_tree_of_what_may_be_read_and_one_line_a_reason() {
    let world = World::new("tree-limited");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "seen", &["ConfigMap/own"], &[]);
    world.thing("Secret", "unseen", &["ConfigMap/own"], &[]);
    bind(
        &world,
        json!([{ "apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["get", "list"] }]),
    );
    let run = world.cascade_as("limited", &["tree", "cm/own"]).expect(0);
    assert!(run.stdout.contains("ConfigMap/seen") && !run.stdout.contains("unseen"), "{}", run.stdout);
    let gaps: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(gaps.len(), 1, "{}", run.stderr);
    assert!(gaps[0].starts_with("not searched: ") && gaps[0].contains("forbidden"), "{}", run.stderr);
    let run = world.cascade_as("limited", &["tree", "cm/own", "-o", "json"]).expect(0);
    let document = run.json();
    contract::tree(&document);
    let gaps = document["gaps"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["resource"] == "secrets" && gap["reason"] == "Forbidden"));
    assert!(!gaps.iter().any(|gap| gap["resource"] == "configmaps"), "{document:#}");
    assert_eq!(run.stderr, "", "the document has the gaps");
}

#[test]
fn an_owner_that_may_not_be_read_is_unknown_not_absent() {
    let world = World::new("tree-unreadable-owner");
    world.thing("Secret", "own", &[], &[]);
    world.thing("ConfigMap", "seen", &["Secret/own"], &[]);
    bind(&world, json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }]));
    let document = world.cascade_as("limited", &["tree", "cm/seen", "-o", "json"]).expect(0).json();
    assert_eq!(document["objects"][0]["owners"][0]["state"], "unknown", "{document:#}");
}

/// C29: not a child of the owner of the same name. The holder keeps the collector from taking it while we look.
#[test]
fn a_reference_to_an_old_uid_makes_no_child_of_the_new_object() {
    let world = World::new("tree-old-uid");
    world.thing("ConfigMap", "own", &[], &[]);
    let mut stale = world.owner("ConfigMap/own");
    stale["uid"] = json!("11111111-2222-3333-4444-555555555555");
    world.create(
        "Secret",
        json!({ "metadata": { "name": "restored", "ownerReferences": [stale], "finalizers": [HOLD] } }),
    );
    assert_eq!(names(&tree(&world, &["cm/own"])["objects"]), ["ConfigMap/own"]);
    let document = tree(&world, &["secret/restored", "--policy", "background"]);
    let restored = entry(&document["objects"], "Secret/restored");
    assert_eq!(restored["owners"][0]["state"], "absent", "{restored:#}");
    world.free("Secret/restored");
}

/// C31: an index by UID alone would show these as healthy children.
#[test]
fn wrong_references_are_marked_for_what_they_are() {
    let world = World::new("tree-wrong");
    let other = World::new("tree-wrong-other");
    world.thing("ConfigMap", "own", &[], &[]);
    let reference = |changes: &[(&str, &str)]| {
        let mut owner = world.owner("ConfigMap/own");
        changes.iter().for_each(|(field, value)| owner[*field] = json!(value));
        owner
    };
    let make = |namespace: &str, name: &str, owner: Value| {
        let metadata = json!({ "name": name, "ownerReferences": [owner], "finalizers": [HOLD] });
        world.create_in(namespace, "Secret", json!({ "metadata": metadata }));
    };
    make(&world.namespace, "other-kind", reference(&[("kind", "Secret")]));
    make(&world.namespace, "other-name", reference(&[("name", "else")]));
    make(&world.namespace, "unserved", reference(&[("apiVersion", "gone.example.test/v1")]));
    make(&other.namespace, "far", reference(&[]));
    let role = format!("{}-scope", world.namespace);
    world.create(
        "ClusterRole",
        json!({ "metadata": { "name": role, "ownerReferences": [reference(&[])] }, "rules": [] }),
    );
    let document = tree(&world, &["cm/own", "-A", "--policy", "background"]);
    let state = |name: &str| entry(&document["objects"], name)["owners"][0]["state"].clone();
    assert_eq!(state("Secret/other-kind"), "mismatch");
    assert_eq!(state("Secret/other-name"), "mismatch");
    assert_eq!(state("Secret/unserved"), "unserved");
    assert_eq!(state("Secret/far"), "other-namespace");
    assert_eq!(state(&format!("ClusterRole/{role}")), "scope");
    let fate = |name: &str| entry(&document["objects"], name)["fate"].clone();
    assert_eq!(fate(&format!("ClusterRole/{role}")), "leaked");
    assert_eq!(fate("Secret/unserved"), "leaked");
    assert_eq!(fate("ConfigMap/own"), "deleted");
    for name in ["Secret/other-kind", "Secret/other-name", "Secret/unserved"] {
        world.free(name);
    }
    other.free("Secret/far");
}

#[test]
fn unknown_kinds_and_names_get_a_hint_and_leave_stdout_empty() {
    let world = World::new("tree-unknown");
    world.thing("ConfigMap", "settings", &[], &[]);
    let run = world.cascade(&["tree", "deploymnt/web", "-o", "json"]).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("deploymnt") && run.stderr.contains("deployments"), "{}", run.stderr);
    let run = world.cascade(&["tree", "cm/setings"]).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("NotFound") && run.stderr.contains("settings"), "{}", run.stderr);
    let run = world.cascade(&["tree", "-l", "app=x"]).expect(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("hint:"), "{}", run.stderr);
}

/// The object that was named, not another one that has no UID either.
#[test]
fn objects_without_a_uid_are_told_apart_by_name_and_never_deleted() {
    let world = World::new("tree-no-uid");
    for name in ["etcd-0", "controller-manager"] {
        let target = format!("componentstatuses/{name}");
        let document = world.cascade(&["tree", &target, "-o", "json"]).expect(0).json();
        assert_eq!(names(&document["objects"]), [format!("ComponentStatus/{name}")]);
        let run = world.cascade(&["delete", &target, "--yes"]).expect(1);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains(&format!("ComponentStatus/{name} has no UID")), "{}", run.stderr);
    }
}

#[test]
fn an_event_with_an_owner_is_one_node_and_other_events_are_none() {
    let world = World::new("tree-events");
    world.thing("ConfigMap", "own", &[], &[]);
    let event = |name: &str, owners: Value| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": name, "namespace": world.namespace, "ownerReferences": owners },
            "involvedObject": {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "own", "namespace": world.namespace,
            },
            "reason": "Test", "message": "m", "type": "Normal",
        })
    };
    world.kubectl().apply(&event("owned", json!([world.owner("ConfigMap/own")])).to_string()).unwrap();
    world.kubectl().apply(&event("free", json!([])).to_string()).unwrap();
    let all = names(&tree(&world, &["cm/own"])["objects"]);
    assert_eq!(all, ["ConfigMap/own", "Event/owned"]);
    assert!(!names(&tree(&world, &[])["objects"]).contains(&"Event/free".to_owned()));
}

/// The collector's mapper knows each kind in lower case, too (`client-go/restmapper`); any other spelling is unknown.
#[test]
fn an_owner_reference_in_lower_case_is_as_good_and_in_any_other_case_it_leads_nowhere() {
    let world = World::new("tree-case");
    world.thing("ConfigMap", "own", &[], &[]);
    for kind in ["configmap", "CONFIGMAP"] {
        let mut owner = world.owner("ConfigMap/own");
        owner["kind"] = json!(kind);
        let name = format!("of-{}", if kind == "configmap" { "lower" } else { "upper" });
        world.create("ConfigMap", json!({ "metadata": { "name": name, "ownerReferences": [owner] } }));
    }
    let document = tree(&world, &["cm/own", "--policy", "background"]);
    let fate = |name: &str| entry(&document["objects"], name)["fate"].clone();
    assert_eq!(fate("ConfigMap/of-lower"), "deleted", "{document:#}");
    assert_eq!(fate("ConfigMap/of-upper"), "leaked", "{document:#}");
    let result = world.cascade(&["delete", "cm/own", "--yes", "-o", "json"]).expect(0).json();
    assert_eq!(names(&result["deleted"]), ["ConfigMap/of-lower", "ConfigMap/own"]);
    assert_eq!(names(&result["leaked"]), ["ConfigMap/of-upper"]);
}
