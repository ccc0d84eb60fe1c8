//! The tool's own conduct: rights that are missing, Ctrl-C, a reader that goes away, hostile texts.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use control_plane::{Webhook, webhook};
use serde_json::{Value, json};

use crate::contract;
use crate::delete::{delete, is_untouched};
use crate::invariants::Begun;
use crate::reliability::holds;
use crate::support::{HOLD, Run, World, names};

/// Gives the user `limited` these rights in the test's namespace, and waits until they count.
pub fn bind(world: &World, rules: Value) {
    world.create("Role", json!({ "metadata": { "name": "some" }, "rules": rules }));
    world.create(
        "RoleBinding",
        json!({
            "metadata": { "name": "some" },
            "subjects": [{ "kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" }],
            "roleRef": { "kind": "Role", "name": "some", "apiGroup": "rbac.authorization.k8s.io" },
        }),
    );
    let rule = &rules[0];
    let (verb, resource) = (rule["verbs"][0].as_str().unwrap(), rule["resources"][0].as_str().unwrap());
    world.until("the rights count", || may(world, verb, resource));
}

fn may(world: &World, verb: &str, resource: &str) -> bool {
    let kubectl = world.plane().kubectl_as("limited").unwrap();
    kubectl.run(&["-n", &world.namespace, "auth", "can-i", verb, resource]).is_ok()
}

fn rights(verbs: &[&str]) -> Value {
    json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }])
}

/// Runs that have begun and not ended, by process id.
static BEGUN: Mutex<BTreeMap<u32, Begun>> = Mutex::new(BTreeMap::new());

/// Starts the plugin and does not wait for it.
pub fn start(world: &World, user: Option<&str>, arguments: &[&str]) -> Child {
    launch(world, world.command_as(user.unwrap_or("admin"), arguments))
}

/// Starts this command of [`World::command`] and does not wait for it.
pub fn launch(world: &World, mut command: Command) -> Child {
    let child = command.spawn().unwrap();
    BEGUN.lock().unwrap().insert(child.id(), Begun::of(world.plane(), &command));
    child
}

/// What tells, also when it has ended, what a run has written.
pub fn begun(child: &Child) -> Begun {
    BEGUN.lock().unwrap().get(&child.id()).cloned().expect("a run that was launched")
}

/// Waits for its end, and checks what holds after every run.
#[track_caller]
pub fn end(child: Child) -> Run {
    let begun = BEGUN.lock().unwrap().remove(&child.id());
    let output = child.wait_with_output().unwrap();
    let run = Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    if let Some(begun) = begun {
        begun.check(&run);
    }
    run
}

/// Waits until this appears on standard error; what follows there is not read any more.
pub fn until_said(child: &mut Child, text: &str) -> String {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(text) {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it never said {text:?}: {said}");
    }
    // The pipe stays open, so that nothing that is said later ends the process.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    said
}

pub fn interrupt(child: &Child) {
    signal(child, "-INT");
}

pub fn terminate(child: &Child) {
    signal(child, "-TERM");
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

// Rights.

/// C36: get and delete on one kind, and nothing else.
#[test]
fn who_may_get_and_delete_but_not_list_or_watch_gets_an_end() {
    let world = World::new("conduct-get-delete");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "unseen", &["ConfigMap/own!"], &[]);
    bind(&world, rights(&["get", "delete"]));
    let arguments = ["delete", "cm/own", "--policy", "foreground", "--yes", "-o", "json", "--timeout", "30s"];
    let result = holds("no-list", world.cascade_as("limited", &arguments));
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own"]);
    let gaps = result["gaps"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["resource"] == "configmaps" && gap["reason"] == "Forbidden"));
    assert!(world.get("ConfigMap/own").is_none());

    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.cascade_as("limited", &["delete", "cm/own", "--yes"]).expect(0);
    let lines = run.stdout.lines().filter(|line| line.starts_with("not searched: ")).count();
    assert_eq!(lines, 1, "with the forecast, and not again at the end: {}", run.stdout);
    let run = world.cascade_as("limited", &["delete", "cm/absent", "--yes"]).expect(1);
    assert!(run.stderr.contains("not found") && run.stderr.contains("hint:"), "{}", run.stderr);
}

/// A missing right is an error (1), what admission refuses is refused (4), a plugin of the server's own included; of one
/// target and of several. The document says `refused` of both.
#[test]
fn a_missing_right_is_an_error_and_admission_refuses_for_one_target_and_for_several() {
    let world = World::new("conduct-refusals");
    for name in ["a", "b", "c"] {
        world.thing("ConfigMap", name, &[], &[]);
        world.thing("Secret", name, &[], &[]);
    }
    let all = ["get", "list", "watch"];
    let rule = |resource: &str, more: &[&str]| {
        let verbs = [&all[..], more].concat();
        json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs })
    };
    bind(&world, json!([rule("configmaps", &["delete"]), rule("secrets", &[])]));
    let missing = |targets: &[&str], code| {
        let arguments = [&["delete"], targets, &["--yes", "-o", "json"]].concat();
        let run = world.cascade_as("limited", &arguments).expect(code);
        assert!(run.stderr.contains("cannot delete resource \"secrets\""), "{}", run.stderr);
        let own = format!("hint: `kubectl auth can-i -n {} --list`", world.namespace);
        assert!(run.stderr.contains(&own), "{}", run.stderr);
        let result = run.json();
        assert_eq!((&result["outcome"], &result["findings"]), (&json!("refused"), &json!([])), "{result:#}");
        names(&result["deleted"])
    };
    assert_eq!(missing(&["secret/a"], 1), [""; 0]);
    assert_eq!(missing(&["cm/a", "secret/a"], 1), ["ConfigMap/a"]);
    assert_eq!(missing(&["secret/a", "secret/b"], 1), [""; 0]);
    let dry = world.cascade_as("limited", &["delete", "secret/a", "--dry-run=server"]).expect(1);
    assert_eq!(dry.stdout, "");

    // The server's own plugin that protects this Namespace (NamespaceLifecycle) is admission, too.
    let result = delete(&world, &["ns/default"], 4);
    assert_eq!(result["findings"][0]["cause"], "admission-denied", "{result:#}");
    let result = delete(&world, &["cm/b", "ns/kube-system"], 4);
    assert_eq!(
        (&result["outcome"], names(&result["deleted"])),
        (&json!("refused"), vec!["ConfigMap/b".to_owned()])
    );
    world.cascade(&["delete", "ns/default", "--dry-run=server"]).expect(4);

    // Several, and for either reason: the error is said first.
    let run = world.cascade_as("limited", &["delete", "secret/a", "cm/c", "--yes", "-o", "name"]).expect(1);
    assert_eq!(run.stdout, "configmap/c\n");
}

/// Whatever we suggest reaches the same cluster as the same user.
#[test]
fn what_is_suggested_carries_the_flags_that_were_given() {
    let world = World::new("conduct-caller");
    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.cascade(&["wait", "cm/own", "--as", "jane", "--as-group", "system:masters"]).expect(1);
    let meant = format!(
        "kubectl cascade delete -n {} --as jane --as-group system:masters configmap/own\n",
        world.namespace
    );
    assert!(run.stderr.contains(&meant), "{}", run.stderr);
    let run = world.cascade(&["tree", "cm/own", "--as", "jane"]).expect(1);
    let meant = format!("`kubectl auth can-i -n {} --as jane --list`", world.namespace);
    assert!(run.stderr.contains(&meant), "{}", run.stderr);
    let run = world.cascade(&["tree", "cm/own", "--server", "https://127.0.0.1:1"]).expect(1);
    assert!(
        run.stderr.contains("`kubectl config view --server https://127.0.0.1:1 --minify`"),
        "{}",
        run.stderr
    );
}

#[test]
fn who_may_list_but_not_watch_polls() {
    let world = World::new("conduct-list");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "dependent", &["ConfigMap/own!"], &[HOLD]);
    bind(&world, rights(&["list", "get", "delete"]));
    let arguments = ["delete", "cm/own", "--policy", "foreground", "--yes", "-o", "json", "--timeout", "40s"];
    let child = start(&world, Some("limited"), &arguments);
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/dependent"));
    world.free("ConfigMap/dependent");
    let result = holds("no-watch", end(child));
    assert_eq!(names(&result["deleted"]), ["ConfigMap/dependent", "ConfigMap/own"]);
}

/// Success is never claimed for what nobody could look at.
#[test]
fn who_loses_the_right_to_look_is_told_that_the_end_is_not_verified() {
    let world = World::new("conduct-no-get");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    bind(&world, rights(&["get", "delete"]));
    let child = start(&world, Some("limited"), &["delete", "cm/own", "--yes", "-o", "json"]);
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
    world.kubectl().run(&["-n", &world.namespace, "delete", "rolebinding", "some"]).unwrap();
    let result = holds("right-lost", end(child));
    assert_eq!(result["deleted"], json!([]));
    assert_eq!(names(&result["remaining"]), ["ConfigMap/own"]);
    assert!(result["gaps"].as_array().unwrap().iter().any(|gap| gap["resource"] == "configmaps"));
    world.free("ConfigMap/own");
}

#[test]
fn survivors_that_may_not_be_listed_are_looked_at_one_by_one() {
    let world = World::new("conduct-survivors");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "kept", &["ConfigMap/own"], &[]);
    bind(&world, rights(&["list", "get", "delete"]));
    let arguments = ["delete", "cm/own", "--policy", "orphan", "--yes", "-o", "json"];
    let result = world.cascade_as("limited", &arguments).expect(0).json();
    assert_eq!(names(&result["orphaned"]), ["ConfigMap/kept"]);
    assert_eq!(result["unexpected"], json!([]));
}

// Ctrl-C.

#[test]
fn an_interrupted_wait_says_what_it_knows_and_what_goes_on() {
    let world = World::new("conduct-interrupt");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    world.thing("Secret", "free", &["ConfigMap/own!"], &[]);
    let mut child =
        start(&world, None, &["delete", "cm/own", "--policy", "foreground", "--yes", "-o", "json"]);
    until_said(&mut child, "1 of 3 objects gone");
    interrupt(&child);
    let run = end(child).expect(130);
    let result = run.json();
    contract::result(&result);
    assert_eq!(result["outcome"], "interrupted");
    assert_eq!(names(&result["deleted"]), ["Secret/free"]);
    assert_eq!(names(&result["remaining"]), ["ConfigMap/own", "Secret/held"]);

    world.thing("ConfigMap", "quick", &[], &[HOLD]);
    world.delete_raw("ConfigMap/quick", &json!({}));
    let mut child = start(&world, None, &["wait", "cm/own", "cm/quick"]);
    std::thread::sleep(Duration::from_secs(1));
    world.free("ConfigMap/quick");
    until_said(&mut child, "1 of 3 objects gone");
    interrupt(&child);
    let run = end(child).expect(130);
    assert!(run.stdout.contains("goes on without us"), "{}", run.stdout);
    world.free("Secret/held");
    world.gone("ConfigMap/own");
}

/// The probes of a diagnosis may take long; Ctrl-C still counts.
#[test]
fn ctrl_c_during_the_diagnosis_ends_it_too() {
    let world = World::new("conduct-interrupt-late");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "held", &["ConfigMap/own!"], &[HOLD]);
    let name = format!("slow.{}.example.test", world.namespace);
    let server = Webhook::start(|_| webhook::Decision::Hang).unwrap();
    let mut configuration = server.mutating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    configuration["webhooks"][0]["timeoutSeconds"] = json!(30);
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" }));
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/held"));
    world.kubectl().apply(&configuration.to_string()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let child = start(&world, None, &["wait", "cm/own", "--stall-timeout", "1s", "-o", "json"]);
    let calls = || server.calls() > 0;
    world.until("the diagnosis asks the webhook", calls);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let pressed = Instant::now();
    let run = end(child).expect(130);
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    contract::result(&run.json());
    world.kubectl().run(&["delete", "mutatingwebhookconfiguration", &name]).unwrap();
    drop(server);
    world.free("ConfigMap/held");
}

// Output.

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let world = World::new("conduct-head");
    world.thing("ConfigMap", "own", &[], &[]);
    for number in 0..30 {
        world.thing("Secret", &format!("s-{number}"), &["ConfigMap/own"], &[]);
    }
    for arguments in
        [&["tree", "cm/own", "--expand"][..], &["tree", "-o", "json"], &["delete", "cm/own", "--yes"]]
    {
        let mut child = start(&world, None, arguments);
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code().unwrap_or(-1);
        holds("reader-gone", Run { code, stdout: String::new(), stderr: said.clone() });
        assert!(!said.contains("panicked") && !said.contains("error"), "{said}");
    }
    world.gone("ConfigMap/own");
}

/// W03: deprecation warnings of the lists that a tree needs are nobody's business; those of a DELETE are shown.
#[test]
fn only_the_servers_warnings_about_a_delete_are_shown() {
    let world = World::new("conduct-warnings");
    if !world.has_since(33, "a built-in kind that is deprecated") {
        return;
    }
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "old", "namespace": world.namespace },
    });
    world.kubectl().apply(&endpoints.to_string()).unwrap();
    assert_eq!(world.cascade(&["tree", "endpoints/old"]).expect(0).stderr, "");
    let run = world.cascade(&["delete", "endpoints/old", "--yes", "-o", "json"]).expect(0);
    assert!(run.stderr.contains("Warning: v1 Endpoints is deprecated"), "{}", run.stderr);
    contract::result(&run.json());
}

const HOSTILE: &str = "red \u{1b}[31malert\u{1b}]0;title\u{7} \u{202e}reversed\u{2066} \r\u{9b}2J end";

#[track_caller]
fn assert_harmless(text: &str) {
    let harmful = |character: &char| {
        (character.is_control() && *character != '\n')
            || ('\u{202a}'..='\u{202e}').contains(character)
            || ('\u{2066}'..='\u{2069}').contains(character)
    };
    assert_eq!(text.chars().find(harmful), None, "{text:?}");
}

/// W17.
#[test]
fn hostile_texts_of_a_webhook_reach_the_terminal_harmlessly_and_the_document_verbatim() {
    let world = World::new("conduct-hostile");
    world.thing("ConfigMap", "own", &[], &[]);
    let name = format!("hostile.{}.example.test", world.namespace);
    let server =
        Webhook::start(|_| webhook::Decision::Deny { code: 403, message: HOSTILE.to_owned() }).unwrap();
    let configuration = server.validating(&name, &world.namespace, &["DELETE"], &["configmaps"]);
    world.kubectl().apply(&configuration.to_string()).unwrap();
    world.until("the webhook counts", || world.cascade(&["delete", "cm/own", "--dry-run=server"]).code == 4);
    for arguments in [&["delete", "cm/own", "--yes"][..], &["delete", "cm/own", "--dry-run=server"]] {
        let run = world.cascade(arguments).expect(4);
        assert!(run.stdout.contains("alert") || run.stderr.contains("alert"), "{run:#?}");
        assert_harmless(&run.stdout);
        assert_harmless(&run.stderr);
    }
    let run = world.cascade(&["delete", "cm/own", "--yes", "-o", "json"]).expect(4);
    world.kubectl().run(&["delete", "validatingwebhookconfiguration", &name]).unwrap();
    assert_harmless(&run.stdout);
    assert_harmless(&run.stderr);
    let text = run.json()["findings"][0]["evidence"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(HOSTILE), "{text:?}");
}

#[test]
fn hostile_texts_in_a_printer_column_are_harmless_in_every_format() {
    let world = World::new("conduct-column");
    let group = format!("{}.example.test", world.namespace);
    world.create(
        "CustomResourceDefinition",
        json!({
            "metadata": { "name": format!("notes.{group}") },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "plural": "notes", "singular": "note", "kind": "Note" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    } },
                    "additionalPrinterColumns": [{ "name": "Status", "type": "string", "jsonPath": ".state" }],
                }],
            },
        }),
    );
    let note = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Note",
        "metadata": { "name": "n", "namespace": world.namespace }, "state": HOSTILE,
    });
    // kubectl would take it for YAML, which forbids these characters.
    let path = format!("/apis/{group}/v1/namespaces/{}/notes", world.namespace);
    world.until("it can be created", || world.plane().api().unwrap().create(&path, &note).is_ok());
    let target = format!("notes.{group}/n");
    for format in ["tree", "wide", "json", "yaml", "name"] {
        let run = world.cascade(&["tree", &target, "-o", format]).expect(0);
        assert_harmless(&run.stdout);
        if format != "name" {
            assert!(run.stdout.contains("alert"), "{format}: {}", run.stdout);
        }
    }
    let run = world.cascade(&["tree", &target, "-o", "json"]).expect(0);
    assert_eq!(run.json()["objects"][0]["status"], HOSTILE);
}

#[test]
fn progress_without_a_terminal_is_plain_lines_on_stderr() {
    let world = World::new("conduct-lines");
    world.thing("ConfigMap", "held", &[], &[HOLD]);
    let run = world.cascade(&["delete", "cm/held", "--yes", "-o", "json", "--stall-timeout", "2s"]).expect(3);
    contract::result(&run.json());
    assert_harmless(&run.stderr);
    let result = delete(&world, &["cm/held", "--stall-timeout", "1s"], 3);
    assert_eq!(result["findings"][0]["verdict"], "proven");
    world.free("ConfigMap/held");
}
