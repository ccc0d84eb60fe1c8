//! `--snapshot`: the same tree, forecast and orphans from a file, with no server and no kubeconfig.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::contract;
use crate::support::{Run, World, entry, names};

/// Runs the plugin where there is no kubeconfig and no cluster.
fn offline(arguments: &[&str], stdin: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-cascade"));
    command.args(arguments).env_clear().env("LC_ALL", "C.UTF-8").env("KUBECONFIG", "/nonexistent/kubeconfig");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Who does not read it closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn written(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// An object of `x` with these owners, `Kind/name` of core kinds and Jobs; its UID is `Kind/name`.
fn object(kind: &str, name: &str, owners: &[&str]) -> Value {
    let version = |kind: &str| if kind == "Job" { "batch/v1" } else { "v1" };
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let (kind, name) = owner.split_once('/').unwrap();
            json!({ "apiVersion": version(kind), "kind": kind, "name": name, "uid": owner })
        })
        .collect();
    json!({
        "apiVersion": version(kind), "kind": kind,
        "metadata": {
            "name": name, "namespace": "x", "uid": format!("{kind}/{name}"), "ownerReferences": owners,
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
    })
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// What `kubectl get` saved shows the same tree and the same forecast as the cluster that it was saved from.
#[test]
fn a_saved_cluster_shows_what_the_cluster_shows() {
    let world = World::new("offline-same");
    let node = world.bare_node();
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/top!"], &["example.test/hold"]);
    world.thing("ConfigMap", "below", &["Secret/held!", "ConfigMap/top"], &[]);
    world.pod("p", Some(&node), &["ConfigMap/top!"], &[]);
    let live = world.cascade(&["tree", "cm/top", "--policy", "foreground", "-o", "json"]).expect(0).json();
    let directory = TempDir::new().unwrap();
    for format in ["json", "yaml"] {
        let get = ["-n", &world.namespace, "get", "configmaps,secrets,pods", "-o", format];
        let file = written(&directory, format, &world.kubectl().run(&get).unwrap());
        let arguments = ["tree", "cm/top", "--policy", "foreground", "-o", "json", "--snapshot", &file];
        let saved = offline(&arguments, "").expect(0).json();
        contract::tree(&saved);
        assert_eq!(saved["roots"], live["roots"]);
        for object in live["objects"].as_array().unwrap() {
            let name = format!(
                "{}/{}",
                object["ref"]["kind"].as_str().unwrap(),
                object["ref"]["name"].as_str().unwrap()
            );
            let twin = entry(&saved["objects"], &name);
            for field in
                ["ref", "owners", "dependents", "finalizers", "fate", "creationTimestamp", "ready", "status"]
            {
                assert_eq!(twin[field], object[field], "{format}: {field} of {name}");
            }
        }
        assert_eq!(names(&saved["objects"]), names(&live["objects"]));
        let gaps = saved["gaps"].as_array().unwrap();
        assert!(gaps.iter().any(|gap| gap["resource"] == "jobs" && gap["reason"] == "NotInSnapshot"));
        assert!(!gaps.iter().any(|gap| gap["resource"] == "pods"));
    }
    world.free("Secret/held");
}

#[test]
fn standard_input_selectors_namespaces_and_the_way_up() {
    let mut other = object("Pod", "p", &[]);
    other["metadata"]["namespace"] = json!("y");
    other["metadata"]["uid"] = json!("y");
    other["metadata"]["labels"] = json!({ "app": "web" });
    let text = list(&[
        object("Job", "j", &[]),
        object("Pod", "p", &["Job/j"]),
        object("Secret", "s", &["Pod/p"]),
        other,
    ]);
    let shown = |arguments: &[&str]| offline(&[&["tree", "--snapshot", "-"], arguments].concat(), &text);
    let lines = |arguments: &[&str]| -> Vec<String> {
        let run = shown(arguments).expect(0);
        run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let forest = lines(&[]);
    assert!(forest[0].starts_with("NAMESPACE NAME") && forest[1].starts_with("x Job/j"), "{forest:#?}");
    assert!(forest.last().unwrap().contains("1 object without dependents: Pod ×1"), "{forest:#?}");
    assert_eq!(lines(&["-n", "y", "pods", "-o", "name"]), ["pod/p"]);
    assert_eq!(lines(&["po", "-o", "name"]), ["pod/p", "pod/p", "secret/s"]);
    assert_eq!(lines(&["pods", "-l", "app in (web)", "-o", "name"]), ["pod/p"]);
    assert_eq!(lines(&["secret/s", "--owners", "-o", "name"]), ["secret/s", "pod/p", "job.batch/j"]);
    let document = shown(&["secret/s", "--owners", "-o", "json"]).expect(0).json();
    assert_eq!(document["roots"], json!(["Job/j"]));
    let run = shown(&["job/jj"]).expect(1);
    assert_eq!(run.stdout, "");
    assert!(
        run.stderr.contains("not found in standard input") || run.stderr.contains("not found in -"),
        "{}",
        run.stderr
    );
    let run = shown(&["jub/j"]).expect(1);
    assert!(
        run.stderr.contains("the snapshot knows no resource type") && run.stderr.contains("jobs"),
        "{}",
        run.stderr
    );
    shown(&["--watch"]).expect(2);
    offline(&["tree", "--snapshot", "/nonexistent/file"], "").expect(1);
    offline(&["tree", "--snapshot", "-"], "hunter2").expect(1);
}

#[test]
fn left_behind_objects_are_found_in_a_file_too() {
    let mut lost = object("Pod", "lost", &[]);
    lost["metadata"]["labels"] = json!({
        "batch.kubernetes.io/controller-uid": "gone", "batch.kubernetes.io/job-name": "etl",
    });
    let text = list(&[
        object("Job", "j", &[]),
        lost,
        object("Pod", "p", &["Job/j"]),
        object("Pod", "q", &["Secret/s"]),
    ]);
    let run = offline(&["orphans", "--snapshot", "-", "-o", "json", "--exit-code"], &text).expect(3);
    let document = run.json();
    assert_eq!(
        names(&document["objects"]),
        ["Pod/lost"],
        "no Secret is in the file: nothing is known of them"
    );
    assert_eq!(document["objects"][0]["cause"], "orphaned-by-default");
    let with_secrets = list(&[object("Secret", "t", &[]), object("Pod", "q", &["Secret/s"])]);
    let run = offline(&["orphans", "--snapshot", "-", "-o", "json"], &with_secrets).expect(0);
    assert_eq!(run.json()["objects"][0]["cause"], "owner-absent");
}

/// Forests of 5,000 roots, of several shapes, take at most 60 lines.
#[test]
fn a_forest_of_5000_roots_takes_at_most_60_lines() {
    let directory = TempDir::new().unwrap();
    let kinds: Vec<String> = (0..100).map(|number| format!("Kind{number}")).collect();
    let core = ["ConfigMap", "Secret", "Pod", "Service", "ServiceAccount"];
    let shape = |kind_of: &dyn Fn(usize) -> String, dependents: bool, terminating: bool| {
        let mut items = Vec::new();
        for number in 0..5000 {
            let kind = kind_of(number);
            let mut root = object(&kind, &format!("r{number}"), &[]);
            if terminating {
                root["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
                root["metadata"]["finalizers"] = json!(["example.test/hold"]);
            }
            if dependents {
                items.push(object("Secret", &format!("s{number}"), &[&format!("{kind}/r{number}")]));
            }
            items.push(root);
        }
        list(&items)
    };
    let few = |number: usize| core[number % core.len()].to_owned();
    let many = |number: usize| kinds[number % kinds.len()].clone();
    for (name, text) in [
        ("alone", shape(&few, false, false)),
        ("owners", shape(&few, true, false)),
        ("terminating", shape(&few, true, true)),
        ("many-kinds", shape(&many, true, false)),
        ("many-kinds-terminating", shape(&many, false, true)),
    ] {
        let file = written(&directory, name, &text);
        let run = offline(&["tree", "--snapshot", &file], "").expect(0);
        let lines = run.stdout.lines().count() + run.stderr.lines().count();
        assert!(lines <= 60, "{name}: {lines} lines\n{}", run.stdout);
        assert!(lines > 0);
        let expanded = offline(&["tree", "--snapshot", &file, "--expand"], "").expect(0);
        assert!(expanded.stdout.lines().count() >= 5000, "{name}");
    }
}
