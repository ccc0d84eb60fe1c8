//! Names, messages and files that mean harm: never raw on a terminal, exact in JSON, never a command of their own;
//! and what must not leave the machine, or be written on it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use control_plane::{Webhook, webhook};
use kubectl_cascade::model::catalog::Resource;
use kubectl_cascade::model::command::{Caller, quote};
use kubectl_cascade::model::object::Object;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{HOLD, Run, World, entry, names};

/// What the API server takes as the name of a Role: anything without `/` and `%`.
const NAMES: [&str; 18] = [
    "a; touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    "\"; touch pwned; \"",
    "it's \"quoted\" \\ and $HOME",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http:evil\u{1b}\\link",
    "a\u{202e}txt.exe\u{2066}",
    "line\nbreak; touch pwned",
    "\ttab\rreturn",
    "日本語のとても長い名前ｗｉｄｅ",
    "--all",
    "-rf",
    "*?[a-z]~",
    "=ls",
    "#comment !1 &&",
    "\u{9b}31m\u{feff}\u{200b}",
];

fn is_harmful(character: char) -> bool {
    character != '\n' && kubectl_cascade::model::visible::is_dangerous(character)
}

#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    assert_eq!(text.chars().find(|character| is_harmful(*character)), None, "{what}: {text:?}");
}

#[track_caller]
fn assert_harmless_run(what: &str, run: &Run) {
    assert_harmless(what, &run.stdout);
    assert_harmless(what, &run.stderr);
}

/// What a shell makes of commands, each a list of words; the commands themselves are not run. Whatever a command does
/// beside that would leave a trace in the folder.
#[track_caller]
fn words_of(shell: &str, commands: &[String]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let script: String = commands.iter().map(|command| format!("{command}\n")).collect();
    let path = folder.path().join("script");
    fs::write(&path, format!("kubectl() {{ printf '%s\\0' \"$#\" \"$@\"; }}\n{script}")).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(shell);
        command
            .args(arguments)
            .arg(&path)
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let checked = run(&["-n"]);
    assert!(checked.status.success(), "{}\n{script}", String::from_utf8_lossy(&checked.stderr));
    let output = run(&[]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{script}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["script"], "a command of the cluster's was run: {script}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut parts = text.split_terminator('\0').map(str::to_owned);
    let mut found = Vec::new();
    while let Some(count) = parts.next() {
        found.push(parts.by_ref().take(count.parse().unwrap()).collect());
    }
    assert_eq!(found.len(), commands.len(), "{script}");
    found
}

/// The shells of this machine that a command may be pasted into.
fn shells() -> Vec<&'static str> {
    let there =
        |shell: &&str| Path::new("/bin").join(shell).exists() || Path::new("/usr/bin").join(shell).exists();
    ["sh", "bash", "dash", "zsh", "ksh"].into_iter().filter(there).collect()
}

fn object(kind: &str, namespace: &str, name: &str) -> Object {
    let resource = Resource {
        group: "rbac.authorization.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: "roles".to_owned(),
        singular: String::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: BTreeSet::new(),
    };
    Object {
        resource: Arc::new(resource),
        namespace: Some(namespace.into()),
        name: name.to_owned(),
        uid: "u".into(),
        resource_version: String::new(),
        owners: [].into(),
        finalizers: Vec::new(),
        labels: Default::default(),
        created: None,
        deleted: None,
        grace_seconds: None,
    }
}

#[test]
fn a_suggested_command_is_the_words_that_are_meant_whatever_they_are() {
    let long = "x".repeat(250);
    let hostile: Vec<&str> =
        NAMES.into_iter().chain([long.as_str(), "", "ends\n", "100%", "\\055n\\n"]).collect();
    let mut commands = Vec::new();
    let mut meant: Vec<Vec<String>> = Vec::new();
    for text in &hostile {
        let caller = Caller {
            context: Some((*text).to_owned()),
            kubeconfig: Some((*text).to_owned()),
            as_user: Some((*text).to_owned()),
            further: vec![("--as-group", (*text).to_owned())],
        };
        let rest = ["--finalizer", *text, "--type=json", "-p", &json!({ "a": text }).to_string()];
        commands.push(caller.command_on("kubectl delete", &object("Role", text, text), &rest));
        let flag = |name: &str| match text.starts_with('-') {
            true => vec![format!("{name}={text}")],
            false => vec![name.to_owned(), (*text).to_owned()],
        };
        let flags = ["-n", "--context", "--kubeconfig", "--as", "--as-group"].into_iter().flat_map(flag);
        let named = format!("role.rbac.authorization.k8s.io/{text}");
        let mut words = vec!["delete".to_owned()];
        words.extend(flags.chain([named]).chain(rest.map(str::to_owned)));
        meant.push(words);
    }
    for shell in shells() {
        assert_eq!(words_of(shell, &commands), meant, "{shell}");
    }
    for (command, text) in commands.iter().zip(&hostile) {
        if !text.ends_with('\n') {
            assert_harmless("a command", command);
        }
    }
}

/// A kind in a file may look like a flag: `kubectl delete --raw=/api/...` deletes what it says.
#[test]
fn a_kind_that_looks_like_a_flag_is_none() {
    let object = object("--Raw=", "x", "api/v1/namespaces/prod");
    let command = Caller::default().command_on("kubectl delete", &object, &["--finalizer", "a/b"]);
    let words = words_of("sh", &[command]);
    let raw = "--raw=.rbac.authorization.k8s.io/api/v1/namespaces/prod";
    assert_eq!(words, [["delete", "-n", "x", "--finalizer", "a/b", "--", raw]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_words_come_out_of_a_shell_as_they_went_in(
        words in prop::collection::vec("[^\0]{0,12}|[$`'\"\\\\!*;&|<>(){}#~ \n\t%-]{0,6}", 1..200)
    ) {
        let command = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
        for shell in shells() {
            prop_assert_eq!(&words_of(shell, &[format!("kubectl -- {command}")])[0][1..], &words[..]);
        }
    }
}

/// All `command`s in a document.
fn commands(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = vec![document];
    while let Some(value) = next.pop() {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("command").and_then(Value::as_str).map(str::to_owned));
                next.extend(fields.values());
            }
            Value::Array(items) => next.extend(items),
            _ => {}
        }
    }
    found
}

/// Roles with such names, each with a finalizer that nobody serves.
fn hostile_roles(world: &World) {
    for (number, name) in NAMES.iter().enumerate() {
        world.create(
            "Role",
            json!({ "metadata": {
                "name": name, "finalizers": [HOLD], "labels": { "hostile": "yes", "number": number.to_string() },
            } }),
        );
    }
    let long = "y".repeat(250);
    world.create("Role", json!({ "metadata": { "name": long, "labels": { "hostile": "yes" } } }));
}

fn free_roles(world: &World) {
    let arguments = ["-n", &world.namespace, "get", "roles", "-o", "json"];
    let roles: Value = serde_json::from_str(&world.kubectl().run(&arguments).unwrap()).unwrap();
    for role in roles["items"].as_array().unwrap() {
        let name: String =
            role["metadata"]["name"].as_str().unwrap().bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/{name}", world.namespace);
        let free = json!({ "metadata": { "finalizers": null } });
        world.plane().api().unwrap().send("PATCH", &path, Some(&free)).unwrap();
    }
}

#[test]
fn hostile_names_are_shown_harmlessly_named_exactly_and_never_run() {
    let world = World::new("hostile-names");
    hostile_roles(&world);
    let mut expected: Vec<String> = NAMES.iter().map(|name| format!("Role/{name}")).collect();
    expected.sort();
    for format in ["tree", "wide", "json", "yaml", "name", "dot", "mermaid"] {
        for more in [&[][..], &["--expand"], &["--policy", "foreground"], &["--owners"]] {
            let arguments = [&["tree", "roles", "-l", "hostile", "-o", format], more].concat();
            let run = world.cascade(&arguments).expect(0);
            assert_harmless_run(format, &run);
            if format == "json" {
                let long = format!("Role/{}", "y".repeat(250));
                let mut found = names(&run.json()["objects"]);
                found.retain(|name| *name != long);
                assert_eq!(found, expected);
            }
        }
    }
    let select = ["role", "-l", "number"];
    for arguments in [
        &["--dry-run"][..],
        &["--dry-run=server"],
        &["--dry-run", "-o", "json"],
        &["--dry-run", "-o", "name"],
    ] {
        assert_harmless_run(
            "dry run",
            &world.cascade(&[&["delete"], &select[..], arguments].concat()).expect(0),
        );
    }
    // Nobody is there to answer the question.
    assert_harmless_run("question", &world.cascade(&[&["delete"], &select[..]].concat()).expect(4));
    let run = world.cascade(
        &[&["delete"], &select[..], &["--yes", "--stall-timeout", "3s", "-o", "json", "-v"]].concat(),
    );
    let run = run.expect(3);
    assert_harmless_run("delete -o json", &run);
    let result = run.json();
    assert_eq!(names(&result["remaining"]), expected);
    let mut found = commands(&result);
    let run = world.cascade(&["diagnose", "--observe", "100ms", "-o", "json"]).expect(3);
    assert_harmless_run("diagnose -o json", &run);
    found.extend(commands(&run.json()));
    for arguments in
        [&["diagnose", "--observe", "100ms"][..], &["wait", "roles", "-l", "number", "--stall-timeout", "2s"]]
    {
        let run = world.cascade(arguments).expect(3);
        assert_harmless_run("text", &run);
        let printed = run.stdout.lines().map(str::trim).filter(|line| line.starts_with("kubectl "));
        found.extend(printed.map(str::to_owned));
    }
    // Each in its own words, printed or in a document.
    let words: Vec<Vec<String>> = words_of("sh", &found);
    for name in NAMES {
        let released = words.iter().any(|words| {
            words.starts_with(&["cascade".to_owned(), "release".to_owned()])
                && words.contains(&format!("role.rbac.authorization.k8s.io/{name}"))
        });
        assert!(released, "no command releases {name:?}: {found:#?}");
    }
    let known: BTreeSet<String> =
        NAMES.iter().map(|name| format!("role.rbac.authorization.k8s.io/{name}")).collect();
    for word in words.iter().flatten().filter(|word| word.contains("rbac")) {
        assert!(known.contains(word), "{word:?} is no object here");
    }
    free_roles(&world);
}

/// On a terminal our own sequences move the cursor and colour; none of theirs does.
#[test]
fn hostile_names_do_nothing_to_a_terminal() {
    let world = World::new("hostile-terminal");
    hostile_roles(&world);
    // More of them would be shown as one line.
    let worst = "number in (6,7,8,9,10,11,17)";
    let delete = ["delete", "role", "-l", worst, "--stall-timeout", "2s"];
    for (arguments, keys, code) in [
        (&delete[..], "n\n", 4),
        (&delete, "y\n", 3),
        (&["tree", "role", "-l", worst, "--color", "always"], "", 0),
        (&["diagnose", "--observe", "100ms"], "", 3),
    ] {
        let run = world.typed(arguments, "[y/N]", keys).expect(code);
        let text = &run.stdout;
        assert!(text.contains("line\\nbreak") && text.contains("日本語"), "{arguments:?}: {text}");
        for sequence in
            ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}", "\u{202e}", "\u{2066}", "\u{feff}", "\u{200b}", "\t"]
        {
            assert!(!text.contains(sequence), "{arguments:?}: {sequence:?} in {text:?}");
        }
    }
    free_roles(&world);
}

#[test]
fn one_hostile_name_is_released_by_the_very_command_that_is_suggested() {
    let world = World::new("hostile-release");
    let name = "$(touch pwned) \u{1b}[2J '\u{202e}";
    world.create(
        "Role",
        json!({ "metadata": { "name": name, "finalizers": [HOLD], "labels": { "own": "yes" } } }),
    );
    let run = world.cascade(&["delete", "role", "-l", "own", "--yes", "--stall-timeout", "1s"]).expect(3);
    let command = run.stdout.lines().map(str::trim).find(|line| line.starts_with("kubectl cascade release"));
    let refused = crate::diagnosis::paste(&world, command.unwrap_or_else(|| panic!("{}", run.stdout)));
    refused.expect(0);
    let gone = || world.cascade(&["tree", "role", "-l", "own", "-o", "json"]).json()["objects"] == json!([]);
    world.until("it is gone", gone);
}

#[test]
fn whoever_an_owner_reference_names_is_shown_harmlessly_and_told_exactly() {
    let world = World::new("hostile-owner");
    for (number, name) in NAMES.iter().enumerate() {
        let owner = json!({
            "apiVersion": "nobody.example.test/v1", "kind": format!("Kind{name}"), "name": name, "uid": format!("uid{name}"),
        });
        let metadata = json!({ "name": format!("c{number}"), "ownerReferences": [owner] });
        world.create("ConfigMap", json!({ "metadata": metadata }));
    }
    for arguments in [
        &["tree"][..],
        &["tree", "-o", "wide"],
        &["tree", "-o", "dot"],
        &["tree", "-o", "mermaid"],
        &["tree", "-o", "yaml"],
        &["tree", "cm", "--owners"],
        &["tree", "cm", "--policy", "background"],
        &["orphans"],
        &["orphans", "-o", "name"],
    ] {
        assert_harmless_run(&arguments.join(" "), &world.cascade(arguments).expect(0));
    }
    let run = world.cascade(&["orphans", "-o", "json"]).expect(0);
    assert_harmless_run("orphans -o json", &run);
    let document = run.json();
    for (number, name) in NAMES.iter().enumerate() {
        let orphan = entry(&document["objects"], &format!("ConfigMap/c{number}"));
        assert_eq!(orphan["of"]["name"], *name);
        assert_eq!(orphan["of"]["kind"], format!("Kind{name}"));
    }
    words_of("sh", &commands(&document));
}

/// Text that anybody may write where a diagnosis looks: Events, managers, conditions.
#[test]
fn hostile_events_managers_and_conditions_are_evidence_and_nothing_else() {
    let world = World::new("hostile-evidence");
    let hostile = NAMES.join(" ");
    let node = world.bare_node();
    let api = world.plane().api().unwrap();
    let status = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "False", "reason": hostile, "message": hostile,
        "lastHeartbeatTime": "2020-01-01T00:00:00Z", "lastTransitionTime": "2020-01-01T00:00:00Z",
    }] } });
    api.send("PATCH", &format!("/api/v1/nodes/{node}/status"), Some(&status)).unwrap();
    world.pod("p", Some(&node), &[], &[]);
    let uid = world.uid("Pod/p");
    let event = json!({
        "metadata": { "name": "hostile" }, "reason": hostile, "message": hostile, "type": "Warning",
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": world.namespace, "uid": uid },
        "source": { "component": hostile }, "firstTimestamp": "2020-01-01T00:00:00Z",
    });
    api.create(&format!("/api/v1/namespaces/{}/events", world.namespace), &event_of(event)).unwrap();
    let pod_status = json!({ "status": { "reason": hostile, "message": hostile, "conditions": [
        { "type": "Ready", "status": "False", "reason": "x", "message": hostile },
    ] } });
    api.send("PATCH", &format!("/api/v1/namespaces/{}/pods/p/status", world.namespace), Some(&pod_status))
        .unwrap();
    // The manager of a field is what its client calls itself.
    let manager = "evil;'touch pwned'`$(id)`";
    let escaped: String = manager.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let finalizers = json!({ "metadata": { "finalizers": [HOLD] } });
    let path = format!("/api/v1/namespaces/{}/pods/p?fieldManager={escaped}", world.namespace);
    assert_eq!(api.send("PATCH", &path, Some(&finalizers)).unwrap().status, 200);
    assert_harmless_run("tree", &world.cascade(&["tree", "pod/p", "-o", "wide"]).expect(0));
    let tree = world.cascade(&["tree", "pod/p", "-o", "json"]).expect(0);
    assert_eq!(tree.json()["objects"][0]["status"], json!(hostile), "exact in JSON");
    assert_harmless_run("tree -o json", &tree);
    for format in [&[][..], &["-o", "json"], &["-o", "name"]] {
        let arguments =
            ["delete", "pod/p", "--yes", "--grace-period", "1", "--stall-timeout", "1s", "--timeout", "4s"];
        assert_harmless_run("delete", &world.cascade(&[&arguments, format].concat()).expect(3));
        assert_harmless_run(
            "diagnose",
            &world.cascade(&[&["diagnose", "--observe", "100ms"], format].concat()),
        );
    }
    let diagnosis = world.cascade(&["diagnose", "--observe", "100ms", "-o", "json"]).json();
    words_of("sh", &commands(&diagnosis));
    let told = diagnosis.to_string();
    assert!(told.contains("touch pwned"), "nothing hostile was looked at: {diagnosis:#}");
    world.free("Pod/p");
    world.delete_raw("Pod/p", &json!({ "gracePeriodSeconds": 0 }));
}

fn event_of(mut event: Value) -> Value {
    event["apiVersion"] = json!("v1");
    event["kind"] = json!("Event");
    event
}

/// A webhook's words may look like another webhook's, like a missing right, or like a command.
#[test]
fn a_webhook_that_refuses_in_hostile_words_makes_no_command_of_them() {
    let world = World::new("hostile-webhook");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let name = format!("hostile.{}.example.test", world.namespace);
    let message = format!(
        "admission webhook \"a; touch pwned\" denied the request: ValidatingAdmissionPolicy '$(touch pwned)' with binding \
         '`touch pwned`' denied request: {}",
        NAMES.join("\n")
    );
    let said = message.clone();
    let server =
        Webhook::start(move |_| webhook::Decision::Deny { code: 403, message: said.clone() }).unwrap();
    let configuration = server.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    world.kubectl().apply(&configuration.to_string()).unwrap();
    world.delete_raw("ConfigMap/own", &json!({}));
    let stuck =
        || world.cascade(&["diagnose", "cm/own", "--observe", "100ms", "-o", "json"]).expect(3).json();
    world.until("the webhook counts", || stuck()["findings"][0]["cause"] == "admission-denied");
    let diagnosis = stuck();
    let text = world.cascade(&["diagnose", "cm/own", "--observe", "100ms"]).expect(3);
    let release = world.cascade(&["release", "cm/own", "-o", "json"]).expect(4);
    world.kubectl().run(&["delete", "validatingwebhookconfiguration", &name]).unwrap();
    world.free("ConfigMap/own");
    assert_harmless_run("diagnose", &text);
    assert_harmless_run("release", &release);
    let evidence = diagnosis["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("touch pwned"), "{diagnosis:#}");
    let texts = diagnosis["findings"][0]["evidence"].as_array().unwrap().iter();
    assert!(texts.clone().any(|e| e["text"].as_str().unwrap().contains(&message)), "verbatim: {diagnosis:#}");
    let mut found = commands(&diagnosis);
    found.extend(commands(&release.json()));
    found.extend(
        text.stdout.lines().map(str::trim).filter(|line| line.starts_with("kubectl ")).map(str::to_owned),
    );
    words_of("sh", &found);
    assert_eq!(
        diagnosis["findings"][0]["by"]["webhook"],
        json!(name),
        "the server names it first: {diagnosis:#}"
    );
}

/// The token of the shared control plane's administrator.
fn token(world: &World) -> String {
    let text = fs::read_to_string(world.plane().kubeconfig_path()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn no_token_is_ever_shown_and_no_secret_read_aloud() {
    let world = World::new("hostile-token");
    let token = token(&world);
    world.create(
        "Secret",
        json!({
            "metadata": { "name": "s", "finalizers": [HOLD], "annotations": { "note": "annotated-hunter2" } },
            "stringData": { "password": "hunter2" },
        }),
    );
    let base64 = "aHVudGVyMg==";
    let silent = |what: &str, run: &Run| {
        for secret in [token.as_str(), "hunter2", base64] {
            assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{what}: {run:#?}");
        }
    };
    let delete = ["delete", "secret/s", "--yes", "--stall-timeout", "1s", "-o", "json"];
    for arguments in [
        &["tree", "secret/s", "-o", "json"][..],
        &["tree", "-o", "yaml"],
        &["tree", "nonsense/s"],
        &["tree", "secret/s", "-n", "no-such-namespace"],
        &["orphans", "-o", "json"],
        &["version"],
        &delete,
        &["diagnose", "-o", "json", "--observe", "100ms"],
        &["release", "secret/s", "-o", "json"],
        &["release", "secret/s"],
    ] {
        for more in [
            &["-v"][..],
            &["-v", "--token", &token],
            &["-v=9", "--as", "somebody"],
            &["--server", "https://127.0.0.1:1"],
        ] {
            let run = world.cascade(&[arguments, more].concat());
            silent(&format!("{arguments:?} {}", more[0]), &run);
            if more[0] == "-v" {
                assert!(run.stderr.contains("GET /"), "{arguments:?}: {}", run.stderr);
            }
        }
    }
    let wrong = world.cascade(&["tree", "-v", "--token", "wrong-hunter2"]).expect(1);
    silent("a wrong token", &wrong);
    assert!(wrong.stderr.contains(": 401, "), "{}", wrong.stderr);
    world.free("Secret/s");
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let world = World::new("hostile-proxy");
    for (variable, server) in [
        ("HTTPS_PROXY", "https://kubernetes.example.test:6443"),
        ("HTTP_PROXY", "http://kubernetes.example.test:8080"),
        ("HTTPS_PROXY", "https://user:hunter2@kubernetes.example.test:6443"),
    ] {
        for proxy in [
            "http://user:hunter2@127.0.0.1:1",
            "socks5://user:hunter2@127.0.0.1:1",
            "ftp://user:hunter2@x",
            "http://user:hunter2@",
        ] {
            let mut command = world.command(&["tree", "-v", "--server", server, "--request-timeout", "5s"]);
            command.env(variable, proxy);
            let run = world.finish(command).expect(1);
            assert!(!run.stderr.contains("hunter2") && run.stdout.is_empty(), "{variable}={proxy}: {run:#?}");
            assert!(run.stderr.contains("hint:"), "{run:#?}");
        }
    }
}

/// A two-line token makes the client library panic, and what cannot be read could be a secret.
#[test]
fn a_credential_plugin_with_odd_output_is_one_error_without_a_panic_or_an_echo() {
    let world = World::new("hostile-plugin");
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("plugin");
    let status = |status: &str| {
        format!(
            r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}"#
        )
    };
    let kubeconfig = folder.path().join("config");
    fs::write(
        &kubeconfig,
        r#"
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}}
"#,
    )
    .unwrap();
    for output in [
        status(r#"{"token": "hunter2\nsecond"}"#),
        status(r#"{"token": "hunter2\nsecond", "expirationTimestamp": "2100-01-01T00:00:00Z"}"#),
        status(r#"{"clientCertificateData": "hunter2", "clientKeyData": "hunter2"}"#),
        status(r#""hunter2""#),
        status("null"),
        "token: [hunter2".to_owned(),
        "hunter2\u{1b}[2J".to_owned(),
        "{\"hunter2\": ".repeat(10_000),
        String::new(),
    ] {
        fs::write(folder.path().join("output"), &output).unwrap();
        fs::write(&plugin, format!("#!/bin/sh\ncat {}/output\n", folder.path().display())).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = world.command(&["tree", "-v"]);
        command.env("KUBECONFIG", &kubeconfig);
        let run = world.finish(command).expect(1);
        let shown: String = output.chars().take(80).collect();
        for word in ["panicked", "hunter2", "RUST_BACKTRACE", "error: error"] {
            assert!(!run.stderr.contains(word), "{shown}: {}", run.stderr);
        }
        assert!(run.stderr.contains("hint:"), "{shown}: {}", run.stderr);
        assert_harmless_run(&shown, &run);
    }
}

#[test]
fn nothing_is_written_to_the_kubeconfig_its_folder_or_home() {
    let world = World::new("hostile-readonly");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".kube")).unwrap();
    let kubeconfig = home.join(".kube/config");
    fs::copy(world.plane().kubeconfig_path(), &kubeconfig).unwrap();
    fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o400)).unwrap();
    let before = (fs::read(&kubeconfig).unwrap(), fs::metadata(&kubeconfig).unwrap().modified().unwrap());
    for path in [home.join(".kube"), home.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o500)).unwrap();
    }
    for arguments in [
        &["tree"][..],
        &["delete", "cm/own", "--yes", "--stall-timeout", "1s"],
        &["diagnose", "--observe", "100ms"],
        &["orphans"],
        &["version"],
        &["__complete", "tree", "po"],
    ] {
        let mut command = world.command(arguments);
        command.env_remove("KUBECONFIG").env("HOME", &home).current_dir(&home);
        let run = world.finish(command);
        assert!(matches!(run.code, 0 | 3), "{arguments:?}: {run:#?}");
    }
    assert_eq!(
        (fs::read(&kubeconfig).unwrap(), fs::metadata(&kubeconfig).unwrap().modified().unwrap()),
        before
    );
    let entries = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!((entries(&home), entries(&home.join(".kube"))), (1, 1), "something was written beside it");
    for path in [home.clone(), home.join(".kube")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    world.free("ConfigMap/own");
}

/// A way to the API server over plain HTTP, through kubectl's own proxy, on which everything that is sent is written
/// down.
struct Tapped {
    address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
    proxy: Child,
}

impl Tapped {
    fn new(world: &World) -> Self {
        let mut command = Command::new(world.kubectl().program());
        command.args(["proxy", "--port=0", "--reject-methods=^$", "--reject-paths=^$"]);
        command.env_clear().envs(world.kubectl().environment());
        let mut proxy =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(proxy.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let target: SocketAddr = said.trim().rsplit(' ').next().unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let tapped = Arc::clone(&sent);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(target).unwrap();
                let (mut from_client, mut to_server) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (mut from_server, mut to_client) = (server, client);
                let tapped = Arc::clone(&tapped);
                std::thread::spawn(move || {
                    let mut buffer = [0; 8192];
                    while let Ok(count @ 1..) = from_client.read(&mut buffer) {
                        tapped.lock().unwrap().extend_from_slice(&buffer[..count]);
                        if to_server.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to_server.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from_server, &mut to_client);
                    let _ = to_client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, sent, proxy }
    }

    /// What was sent since this was asked last.
    fn take(&self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut *self.sent.lock().unwrap())).into_owned()
    }
}

impl Drop for Tapped {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// A manifest may come from anywhere.
#[test]
fn a_manifest_only_names_objects_and_nothing_in_it_is_sent() {
    let world = World::new("hostile-manifest");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let tapped = Tapped::new(&world);
    let manifest = json!({ "apiVersion": "v1", "kind": "List", "items": [{
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "own", "uid": "hunter2-uid", "resourceVersion": "hunter2-version", "labels": { "a": "hunter2-label" },
            "annotations": { "b": "hunter2-annotation" }, "finalizers": ["hunter2.test/f"], "generateName": "hunter2-name",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Secret", "name": "hunter2-owner", "uid": "hunter2-owner" }],
            "managedFields": [{ "manager": "hunter2-manager" }],
        },
        "data": { "c": "hunter2-data" }, "spec": { "d": "hunter2-spec" }, "gracePeriodSeconds": "hunter2-grace",
        "propagationPolicy": "hunter2-policy", "preconditions": { "uid": "hunter2-precondition" },
    }] });
    let server = format!("http://{}", tapped.address);
    let delete = ["delete", "--yes", "--stall-timeout", "1s"];
    for (arguments, code) in [
        (&["tree"][..], 0),
        (&["delete", "--dry-run=server"], 0),
        (&delete, 3),
        (&["diagnose", "--observe", "100ms"], 3),
        (&["wait", "--stall-timeout", "1s"], 3),
        (&["release"], 4),
    ] {
        let arguments = [arguments, &["-f", "-", "--server", &server, "-v"]].concat();
        let mut command = world.command(&arguments);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(manifest.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let sent = tapped.take();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stdout}\n{stderr}");
        assert!(sent.contains("/configmaps"), "nothing was tapped: {sent}");
        for text in [sent.as_str(), &stdout, &stderr] {
            assert!(!text.contains("hunter2"), "{arguments:?}: {text}");
        }
        // Over plain HTTP no credentials travel either.
        assert!(!sent.to_lowercase().contains("authorization:"), "{sent}");
        assert!(!sent.contains(&token(&world)), "{sent}");
    }
    world.free("ConfigMap/own");
}

/// The API server stores any bytes in an ownerReference; one such object must not hide all others of its kind.
#[test]
fn an_owner_whose_name_is_no_text_does_not_hide_its_dependents_kind() {
    let world = World::new("hostile-bytes");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "good", &["ConfigMap/own"], &[]);
    let uid = world.uid("ConfigMap/own");
    let field = |number: u8, content: &[u8]| {
        assert!(content.len() < 128);
        [&[number << 3 | 2, content.len() as u8], content].concat()
    };
    let long = |number: u8, content: &[u8]| {
        let (low, high) = ((content.len() & 0x7f) as u8 | 0x80, (content.len() >> 7) as u8);
        [&[number << 3 | 2, low, high], content].concat()
    };
    // OwnerReference{kind 1, name 3, uid 4, apiVersion 5}, ObjectMeta{name 1, namespace 3, ownerReferences 13}.
    let owner = |api_version: &[u8], name: &[u8], uid: &str| {
        [field(1, b"ConfigMap"), field(3, name), field(4, uid.as_bytes()), field(5, api_version)].concat()
    };
    let metadata = [
        field(1, b"bad"),
        field(3, world.namespace.as_bytes()),
        field(13, &owner(b"v1", b"own", &uid)),
        // A reference to what is not there would be removed by the collector; one of a kind that nobody serves stays.
        field(13, &owner(b"nobody.test/v1", b"no \xff\xfe text", "11111111-1111-4111-8111-111111111111")),
    ]
    .concat();
    let envelope = [field(1, &[field(1, b"v1"), field(2, b"Secret")].concat()), long(2, &long(1, &metadata))];
    let body = [b"k8s\0".to_vec(), envelope.concat()].concat();
    let tapped = Tapped::new(&world);
    let mut stream = TcpStream::connect(tapped.address).unwrap();
    let head = format!(
        "POST /api/v1/namespaces/{}/secrets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.kubernetes.protobuf\r\n\
         Accept: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        world.namespace,
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let tree = world.cascade(&["tree", "cm/own", "-o", "json"]).expect(0).json();
    assert_eq!(names(&tree["objects"]), ["ConfigMap/own", "Secret/bad", "Secret/good"], "{tree:#}");
    assert_eq!(tree["gaps"], json!([]));
    let owners = &entry(&tree["objects"], "Secret/bad")["owners"];
    assert_eq!(owners[1]["name"], "no \u{fffd}\u{fffd} text");
    assert_harmless_run("tree", &world.cascade(&["tree", "cm/own", "-o", "wide"]).expect(0));
}
