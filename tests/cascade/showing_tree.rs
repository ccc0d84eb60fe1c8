//! `tree` in its further forms: filters, label columns, diagrams, the way up, watching, and rights, dead APIs and broken
//! conversions in the way.

use std::io::Read as _;
use std::process::Child;
use std::sync::{Arc, Mutex};

use control_plane::{Component, ControlPlane, Options};
use serde_json::{Value, json};

use crate::conduct::bind;
use crate::contract;
use crate::support::{HOLD, World, entry, names};

#[track_caller]
fn tree(world: &World, arguments: &[&str]) -> Value {
    let document = world.cascade(&[&["tree"], arguments, &["-o", "json"]].concat()).expect(0).json();
    contract::tree(&document);
    document
}

#[track_caller]
fn text(world: &World, arguments: &[&str]) -> String {
    world.cascade(&[&["tree"], arguments].concat()).expect(0).stdout
}

/// Three levels, three kinds.
fn levels(test: &str) -> World {
    let world = World::new(test);
    world.create(
        "ConfigMap",
        json!({ "metadata": { "name": "top", "labels": { "app": "web", "x/tier": "a" } } }),
    );
    world.thing("Secret", "mid", &["ConfigMap/top!"], &[]);
    world.thing("ServiceAccount", "leaf", &["Secret/mid!"], &[]);
    world.thing("ConfigMap", "beside", &["ConfigMap/top"], &[]);
    world
}

#[test]
fn a_filter_goes_by_kubectls_words_groups_and_patterns_and_never_cuts_a_branch() {
    let world = levels("show-filter");
    for words in [&["--include", "sa"][..], &["--include", "*account*"], &["--exclude", "secrets,cm"]] {
        let document = tree(&world, &[&["cm/top"], words].concat());
        assert_eq!(
            names(&document["objects"]),
            ["ConfigMap/top", "Secret/mid", "ServiceAccount/leaf"],
            "{words:?}"
        );
        let printed = text(&world, &[&["cm/top", "-o", "name"], words].concat());
        assert_eq!(printed, "serviceaccount/leaf\n", "only what was asked for");
    }
    let coloured = text(&world, &["cm/top", "--exclude", "Secret", "--color", "always"]);
    assert!(coloured.contains("\u{1b}[2mSecret/mid\u{1b}[0m"), "dimmed: {coloured:?}");
    assert!(!coloured.contains("\u{1b}[2mServiceAccount/leaf"), "{coloured:?}");
    let forest = text(&world, &["--include", "serviceaccounts", "-o", "name"]);
    assert!(forest.lines().all(|line| line.starts_with("serviceaccount/")), "{forest}");
    let run = world.cascade(&["tree", "cm/top", "--exclude", "secrts"]).expect(1);
    assert!(run.stderr.contains("did you mean secrets?"), "{}", run.stderr);
    assert_eq!(
        text(&world, &["cm/top", "--exclude", "batch"]).lines().count(),
        5,
        "a group without objects here"
    );
}

#[test]
fn label_columns_are_kubectls() {
    let world = levels("show-labels");
    let printed = text(&world, &["cm/top", "-L", "app,x/tier", "-L", "none"]);
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "AGE", "APP", "TIER", "NONE"]);
    assert_eq!(lines[1][2..], ["web", "a"]);
    assert!(!text(&world, &["cm/top", "--no-headers"]).contains("NAME"));
}

#[test]
fn diagrams_have_every_object_and_every_reference() {
    let world = levels("show-diagrams");
    let dot = text(&world, &["cm/top", "-o", "dot"]);
    assert!(dot.contains("digraph cascade {") && dot.ends_with("}\n"), "{dot}");
    assert_eq!(dot.matches("[label=").count(), 4, "{dot}");
    assert_eq!(dot.matches(" -> ").count(), 3, "{dot}");
    assert_eq!(dot.matches("[style=dashed]").count(), 1, "the reference that does not block: {dot}");
    let mermaid = text(&world, &["cm/top", "-o", "mermaid"]);
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    assert_eq!((mermaid.matches(" --> ").count(), mermaid.matches(" -.-> ").count()), (2, 1), "{mermaid}");
}

#[test]
fn the_way_up_names_each_owners_state_and_its_roots_are_the_topmost_owners() {
    let world = levels("show-owners");
    let role = world.namespace.clone();
    world.create("ClusterRole", json!({ "metadata": { "name": role }, "rules": [] }));
    let of_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": role,
        "uid": world.uid(&format!("ClusterRole/{role}")), "controller": true,
    });
    let above = format!("{role}-above");
    world.create("ClusterRole", json!({ "metadata": { "name": above }, "rules": [] }));
    let of_above = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": above,
        "uid": world.uid(&format!("ClusterRole/{above}")),
    });
    world.patch(&format!("ClusterRole/{role}"), &json!({ "metadata": { "ownerReferences": [of_above] } }));
    let owners = json!([world.owner("ServiceAccount/leaf"), of_role]);
    world.create("Secret", json!({ "metadata": { "name": "lowest", "ownerReferences": owners } }));
    let document = tree(&world, &["secret/lowest", "--owners"]);
    let mut roots: Vec<String> =
        document["roots"].as_array().unwrap().iter().map(|uid| uid.as_str().unwrap().to_owned()).collect();
    roots.sort();
    let mut expected = vec![world.uid("ConfigMap/top"), world.uid(&format!("ClusterRole/{above}"))];
    expected.sort();
    assert_eq!(roots, expected, "{document:#}");
    let printed = text(&world, &["secret/lowest", "--owners"]);
    assert!(printed.contains("live, controller") && printed.contains("OWNER"), "{printed}");
    world.cascade(&["tree", "--owners"]).expect(2);
    world.kubectl().run(&["delete", "clusterrole", &above, &role]).unwrap();
}

#[test]
fn who_asks_all_namespaces_is_told_which_one_even_where_it_is_only_one() {
    let world = World::new("which-one");
    world.thing("ConfigMap", "lonely", &[], &[HOLD]);
    let name = format!("metadata.name=lonely,metadata.namespace={}", world.namespace);
    let targets = ["configmaps", "-A", "--field-selector", &name];
    for verb in [&["tree"][..], &["delete", "--dry-run"]] {
        let run = world.cascade(&[verb, &targets].concat()).expect(0);
        let line = run.stdout.lines().find(|line| line.contains("ConfigMap/lonely"));
        assert!(line.is_some_and(|line| line.starts_with(&world.namespace)), "{}", run.stdout);
    }
    world.delete_raw("ConfigMap/lonely", &json!({}));
    let run = world.cascade(&[&["diagnose", "--observe", "0s"][..], &targets].concat()).expect(3);
    assert!(run.stdout.contains(&format!("ConfigMap/lonely in {}", world.namespace)), "{}", run.stdout);
    world.free("ConfigMap/lonely");
}

#[test]
fn all_namespaces_beside_a_named_target_look_for_its_dependents_everywhere() {
    let world = levels("show-everywhere");
    let role = world.namespace.clone();
    let owner = world.owner("ConfigMap/top");
    world.create(
        "ClusterRole",
        json!({ "metadata": { "name": role, "ownerReferences": [owner] }, "rules": [] }),
    );
    let near = tree(&world, &["cm/top"]);
    assert_eq!(near["objects"].as_array().unwrap().len(), 4);
    let far = tree(&world, &["cm/top", "-A"]);
    let role_entry = entry(&far["objects"], &format!("ClusterRole/{role}"));
    assert_eq!(role_entry["owners"][0]["state"], "scope", "{role_entry:#}");
    world.kubectl().run(&["delete", "clusterrole", &role]).unwrap();
}

/// Case C36: after the first refusals the rules review spares the rest.
#[test]
fn a_user_who_may_list_two_kinds_does_not_ask_for_a_hundred() {
    let world = World::new("show-rights");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "seen", &["ConfigMap/own"], &[]);
    bind(
        &world,
        json!([{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "list"] }]),
    );
    // In foreground the cluster-scoped kinds matter, too: more than are asked for at once.
    let arguments = ["tree", "cm/own", "--policy", "foreground", "-o", "json"];
    let document = world.cascade_as("limited", &arguments).expect(0).json();
    contract::tree(&document);
    assert_eq!(names(&document["objects"]), ["ConfigMap/own", "Secret/seen"]);
    let gaps = document["gaps"].as_array().unwrap();
    assert!(gaps.iter().all(|gap| gap["reason"] == "Forbidden"), "{document:#}");
    let spared =
        gaps.iter().filter(|gap| gap["message"].as_str().unwrap().contains("SelfSubjectRulesReview"));
    assert!(spared.count() > 0, "{document:#}");
    let run = world.cascade_as("limited", &["tree", "cm/own"]).expect(0);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

/// A plugin that runs, and what it has printed so far.
struct Running {
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Running {
    fn start(world: &World, arguments: &[&str]) -> Self {
        let mut child = world.command(arguments).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let seen = Arc::new(Mutex::new(String::new()));
        let text = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = stdout.read(&mut buffer) {
                if read == 0 {
                    return;
                }
                text.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { child, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// How it ends: exit code and standard error.
    fn end(mut self) -> (i32, String) {
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), stderr)
    }
}

#[test]
fn a_watched_tree_follows_every_change_and_ends_with_its_target() {
    let world = World::new("show-watch");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let running = Running::start(&world, &["tree", "cm/own", "--watch"]);
    world.until("the first tree is there", || running.seen().contains("ConfigMap/own"));
    world.thing("Secret", "new", &["ConfigMap/own!"], &[]);
    world.until("the new dependent is shown", || running.seen().contains("└─ Secret/new"));
    world.thing("ServiceAccount", "unrelated", &[], &[]);
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" }));
    world.until("Terminating is shown", || running.seen().contains("Terminating (example.test/hold"));
    world.free("ConfigMap/own");
    let seen = Arc::clone(&running.seen);
    let (code, stderr) = running.end();
    assert_eq!((code, stderr.as_str()), (0, "ConfigMap/own is gone.\n"));
    let seen = seen.lock().unwrap().clone();
    assert!(!seen.contains("unrelated"), "{seen}");
    let trees: Vec<&str> = seen.split("\n--- ").collect();
    assert!(trees.len() >= 3, "{seen}");
    for pair in trees.windows(2) {
        let plain =
            |tree: &str| tree.lines().filter(|line| line.contains('/')).collect::<Vec<_>>().join("\n");
        assert_ne!(plain(pair[0]), plain(pair[1]), "each differs from the one before: {seen}");
    }
}

#[test]
fn a_watched_document_is_a_stream_of_documents_and_an_interrupt_ends_it() {
    let world = World::new("show-watch-json");
    world.thing("ConfigMap", "own", &[], &[]);
    let running = Running::start(&world, &["tree", "cm/own", "--watch", "-o", "json"]);
    world.until("the first document is there", || running.seen().ends_with("}\n"));
    world.thing("Secret", "new", &["ConfigMap/own!"], &[]);
    let documents = || -> Vec<Value> {
        serde_json::Deserializer::from_str(&running.seen()).into_iter().map_while(Result::ok).collect()
    };
    world.until("the second document is there", || documents().len() == 2);
    let documents = documents();
    documents.iter().for_each(contract::tree);
    assert_eq!(documents[1]["objects"].as_array().unwrap().len(), 2);
    let pid = running.child.id().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(running.end(), (130, String::new()));
    world.cascade(&["tree", "cm/own", "--watch", "-o", "dot"]).expect(2);
}

#[test]
fn a_watched_tree_outlives_a_restart_of_the_api_server() {
    let options = Options { simulated_node: false, ..Options::default() }
        .without(Component::Scheduler)
        .without(Component::ControllerManager)
        .without(Component::Kwok);
    let plane: &'static ControlPlane = Box::leak(Box::new(ControlPlane::start(options).unwrap()));
    let world = World::on(plane, "show-watch-restart");
    world.thing("ConfigMap", "own", &[], &[]);
    let running = Running::start(&world, &["tree", "cm/own", "--watch"]);
    world.until("the first tree is there", || running.seen().contains("ConfigMap/own"));
    plane.restart(Component::ApiServer).unwrap();
    world.until("the server is back", || plane.kubectl().run(&["get", "--raw", "/readyz"]).is_ok());
    world.thing("Secret", "new", &["ConfigMap/own!"], &[]);
    world.until("what happened since is shown", || running.seen().contains("└─ Secret/new"));
    world.delete_raw("ConfigMap/own", &json!({}));
    let (code, stderr) = running.end();
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "one note, however many kinds are watched: {stderr}");
    assert!(lines[0].ends_with("; trying again") && lines[1] == "ConfigMap/own is gone.", "{stderr}");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_the_tree_is_drawn_in_place_and_ctrl_c_ends_it() {
    let world = World::new("show-watch-terminal");
    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.typed(&["tree", "cm/own", "--watch"], "ConfigMap/own", "\u{3}");
    assert_eq!(run.code, 130, "{run:#?}");
    assert!(!run.stdout.contains("---"), "{run:#?}");
}

/// On a control plane of its own: everybody sees a dead API and a kind that cannot be read.
#[test]
fn a_dead_api_costs_one_line_and_a_broken_conversion_only_the_version_that_needs_it() {
    let options = Options { simulated_node: false, ..Options::default() }
        .without(Component::Scheduler)
        .without(Component::Kwok);
    // Never dropped: the supervisor ends its servers with the tests.
    let plane: &'static ControlPlane = Box::leak(Box::new(ControlPlane::start(options).unwrap()));
    let world = World::on(plane, "show-broken");
    world.thing("ConfigMap", "own", &[], &[]);
    let group = format!("{}.test", world.namespace);
    let version = |version: &str, storage: bool| {
        json!({
            "name": version, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    let crd = format!("graphs.{group}");
    world.create("CustomResourceDefinition", json!({
        "metadata": { "name": crd },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "graphs", "singular": "graph", "kind": "Graph", "listKind": "GraphList" },
            "versions": [version("v1alpha1", true)],
            "conversion": { "strategy": "None" },
        },
    }));
    let instance = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "Graph",
        "metadata": { "name": "g", "namespace": world.namespace, "ownerReferences": [world.owner("ConfigMap/own")] },
    });
    let create = || world.kubectl().run_with_input(&["create", "-f", "-"], &instance.to_string()).is_ok();
    world.until("the instance can be created", create);
    let of_graph = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "Graph", "name": "g",
        "uid": world.kubectl().run(&["-n", &world.namespace, "get", &format!("graphs.v1alpha1.{group}"), "g", "-o", "jsonpath={.metadata.uid}"]).unwrap(),
    });
    world.create("Secret", json!({ "metadata": { "name": "below", "ownerReferences": [of_graph] } }));
    let broken = json!({ "spec": {
        "versions": [version("v1", false), version("v1alpha1", true)],
        "conversion": { "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:9/convert" },
        } },
    } });
    world.kubectl().run(&["patch", "crd", &crd, "--type=merge", "-p", &broken.to_string()]).unwrap();
    let preferred = format!("/apis/{group}/v1/namespaces/{}/graphs", world.namespace);
    world.until("the conversion fails", || {
        let answer = world.kubectl().run(&["get", "--raw", &preferred]);
        answer.is_err_and(|error| error.to_string().contains("conversion"))
    });
    world
        .kubectl()
        .apply(
            &json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": { "name": "v1beta1.metrics.example.test" },
                "spec": {
                    "group": "metrics.example.test", "version": "v1beta1", "insecureSkipTLSVerify": true,
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                    "service": { "name": "none", "namespace": world.namespace },
                },
            })
            .to_string(),
        )
        .unwrap();
    let all = ["ConfigMap/own", "Graph/g", "Secret/below"];
    world.until("discovery is stale", || {
        let document = tree(&world, &["cm/own"]);
        document["gaps"].as_array().unwrap().iter().any(|gap| gap["group"] == "metrics.example.test")
    });
    let document = tree(&world, &["cm/own"]);
    assert_eq!(names(&document["objects"]), all, "{document:#}");
    assert_eq!(document["gaps"].as_array().unwrap().len(), 1, "{document:#}");
    assert_eq!(entry(&document["objects"], "Secret/below")["owners"][0]["state"], "live");
    let run = world.cascade(&["tree", "cm/own"]).expect(0);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("all kinds of metrics.example.test"), "{}", run.stderr);
    // A target of that kind by name, and by type.
    assert_eq!(names(&tree(&world, &[&format!("graphs.{group}/g")])["objects"]), all[1..]);
    assert_eq!(names(&tree(&world, &[&format!("graphs.{group}")])["objects"]), all[1..]);

    // Stored in the version that nobody can convert from: a gap in the server's words, and at once.
    let mut old = version("v1alpha1", false);
    old["served"] = json!(false);
    let moved = json!({ "spec": { "versions": [version("v1", true), old] } });
    world.kubectl().run(&["patch", "crd", &crd, "--type=merge", "-p", &moved.to_string()]).unwrap();
    let graphs = |document: &Value| {
        document["gaps"].as_array().unwrap().iter().find(|gap| gap["resource"] == "graphs").cloned()
    };
    world.until("the kind is a gap", || graphs(&tree(&world, &["cm/own"])).is_some());
    let began = std::time::Instant::now();
    let document = tree(&world, &["cm/own"]);
    assert!(began.elapsed().as_secs() < 5, "never retried as throttling");
    let gap = graphs(&document).unwrap();
    assert!(gap["message"].as_str().unwrap().contains("conversion webhook"), "{gap:#}");
    assert_eq!(names(&document["objects"]), ["ConfigMap/own"]);
}
