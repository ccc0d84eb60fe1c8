//! What the diagnosis tests share: a diagnosis in JSON, assertions on its findings, and remedies that are really run.

use std::process::{Command, Stdio};
use std::time::Instant;

use control_plane::{Component, ControlPlane, Options, Webhook};
use serde_json::{Value, json};

use crate::support::{PATIENCE, Run, World};

/// Without a change for so long a deletion has stalled, even where every controller comes ten seconds late.
pub const STALL: &str = "12s";

/// The diagnosis of these targets, with two looks a second apart. Asserts the exit code. Where a stall is expected and
/// the collector, which all tests keep busy, has not come so far yet, this does what it is told then: it waits and asks
/// again.
#[track_caller]
pub fn diagnose(world: &World, targets: &[&str], code: i32) -> Value {
    let mut arguments = vec!["diagnose"];
    arguments.extend_from_slice(targets);
    arguments.extend_from_slice(&["--observe", "1s", "-o", "json"]);
    let begun = Instant::now();
    loop {
        let run = world.cascade(&arguments);
        if code == 3 && run.code == 0 && begun.elapsed() < PATIENCE && waits_for_its_turn(&run.json()) {
            continue;
        }
        let document = run.expect(code).json();
        assert_eq!(document["kind"], "Diagnosis");
        return document;
    }
}

/// Whether nothing is found but a young deletion that nobody refuses.
fn waits_for_its_turn(document: &Value) -> bool {
    let findings = document["findings"].as_array().unwrap();
    let waits = |finding: &Value| {
        finding["cause"] == "progressing"
            && finding["summary"].as_str().unwrap().contains("waits for its turn")
    };
    !findings.is_empty() && findings.iter().all(waits)
}

/// The diagnosis of a stuck target that may make canaries. A collector too busy for its canary is asked again.
#[track_caller]
pub fn diagnose_with_canary(world: &World, target: &str) -> Value {
    let arguments = ["diagnose", target, "--observe", "0s", "--probe", "canary", "-o", "json"];
    let mut document = Value::Null;
    world.until("the collector has collected a canary", || {
        document = world.cascade(&arguments).expect(3).json();
        only(&document)["cause"] != "collector-down"
    });
    document
}

/// The one finding of a document.
#[track_caller]
pub fn only(document: &Value) -> &Value {
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{document:#}");
    &findings[0]
}

/// Asserts cause, verdict and the chain (`Kind/name`s; the last is the object).
#[track_caller]
pub fn assert_finding(finding: &Value, cause: &str, verdict: &str, chain: &[&str]) {
    let short = |reference: &Value| {
        format!("{}/{}", reference["kind"].as_str().unwrap(), reference["name"].as_str().unwrap())
    };
    assert_eq!(finding["cause"], cause, "{finding:#}");
    assert_eq!(finding["verdict"], verdict, "{finding:#}");
    let links: Vec<String> = finding["chain"].as_array().unwrap().iter().map(short).collect();
    assert_eq!(links, chain, "{finding:#}");
    assert_eq!(short(&finding["object"]), *chain.last().unwrap(), "{finding:#}");
}

/// Asserts that some evidence contains these words of the server.
#[track_caller]
pub fn assert_evidence(finding: &Value, words: &str) {
    let quoted = finding["evidence"].as_array().unwrap().iter();
    let found = quoted.filter_map(|evidence| evidence["text"].as_str()).any(|text| text.contains(words));
    assert!(found, "no evidence says {words:?}: {finding:#}");
}

/// The commands of a finding's remedies, in order.
pub fn commands(finding: &Value) -> Vec<&str> {
    let remedies = finding["remedies"].as_array().into_iter().flatten();
    remedies.filter_map(|remedy| remedy["command"].as_str()).collect()
}

/// Runs a suggested command in a shell, as a user would paste it; `--yes` and the digest stand in for what a user
/// answers on a terminal.
#[track_caller]
pub fn paste(world: &World, command: &str) -> Run {
    if !command.starts_with("kubectl cascade release") || command.contains("--confirm") {
        return shell(world, command);
    }
    let begun = Instant::now();
    loop {
        let first = shell(world, &format!("{command} -o json")).expect(4).json();
        let run = shell(world, first["command"].as_str().unwrap_or_else(|| panic!("{first:#}")));
        // The scheduler may write its status late: the object is looked at again, as the hint says.
        if !run.stderr.contains("is not the digest of") || begun.elapsed() > PATIENCE {
            return run;
        }
    }
}

#[track_caller]
fn shell(world: &World, command: &str) -> Run {
    let plugin = std::path::Path::new(env!("CARGO_BIN_EXE_kubectl-cascade")).parent().unwrap();
    let kubectl = world.kubectl().program().parent().unwrap();
    let path = std::env::join_paths([plugin, kubectl, "/usr/bin".as_ref(), "/bin".as_ref()]).unwrap();
    let yes = if command.starts_with("kubectl cascade delete") {
        " --yes --timeout 60s --stall-timeout 15s"
    } else {
        ""
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command}{yes}")]).env_clear().envs(world.kubectl().environment());
    shell.env("PATH", path).env("LC_ALL", "C.UTF-8");
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    world.finish(shell)
}

/// Registers an admission object and removes it at the end of the test: a left-over one falsifies other tests.
pub struct Registered<'w> {
    world: &'w World,
    objects: Vec<(String, String)>,
}

impl<'w> Registered<'w> {
    #[track_caller]
    pub fn new(world: &'w World, manifests: &[Value]) -> Self {
        let mut objects = Vec::new();
        for manifest in manifests {
            world.kubectl().apply(&manifest.to_string()).unwrap_or_else(|error| panic!("{error}"));
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            objects.push((text(&manifest["kind"]), text(&manifest["metadata"]["name"])));
        }
        Self { world, objects }
    }

    /// Waits until an update of this object is refused.
    #[track_caller]
    pub fn until_update_refused(&self, name: &str) {
        let arguments =
            ["-n", &self.world.namespace, "annotate", "--dry-run=server", "--overwrite", name, "probe=1"];
        self.world.until("the update is refused", || self.world.kubectl().run(&arguments).is_err());
    }

    /// Waits until the DELETE of this object is refused.
    #[track_caller]
    pub fn until_delete_refused(&self, name: &str) {
        let arguments = ["-n", &self.world.namespace, "delete", "--dry-run=server", name];
        self.world.until("the delete is refused", || self.world.kubectl().run(&arguments).is_err());
    }

    /// Removes it now.
    pub fn remove(self) {}

    /// Removes it, and waits until an update of this object is accepted.
    #[track_caller]
    pub fn until_update_accepted(self, name: &str) {
        let world = self.world;
        self.remove();
        let arguments =
            ["-n", &world.namespace, "annotate", "--dry-run=server", "--overwrite", name, "probe=1"];
        world.until("the update is accepted", || world.kubectl().run(&arguments).is_ok());
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        for (kind, name) in &self.objects {
            let _ = self.world.kubectl().run(&["delete", kind, name, "--ignore-not-found"]);
        }
    }
}

/// A ValidatingAdmissionPolicy and its binding that refuse this operation on this resource in the test's namespace,
/// if the expression is false.
pub fn policy(world: &World, group: &str, resource: &str, operation: &str, expression: &str) -> [Value; 2] {
    let name = &world.namespace;
    let rule = json!({
        "apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource],
    });
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": format!("{name}-policy") },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [rule] },
                "validations": [{ "expression": expression, "message": "managed objects are locked" }],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": format!("{name}-binding") },
            "spec": {
                "policyName": format!("{name}-policy"), "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": {
                    "matchLabels": { "kubernetes.io/metadata.name": name },
                } },
            },
        }),
    ]
}

pub const FOREGROUND: &str = r#"{"propagationPolicy":"Foreground"}"#;
pub const BACKGROUND: &str = r#"{"propagationPolicy":"Background"}"#;
pub const ORPHAN: &str = r#"{"propagationPolicy":"Orphan"}"#;

/// Sends a DELETE with these options and waits until the object is Terminating.
#[track_caller]
pub fn delete(world: &World, name: &str, options: &str) {
    let status = world.delete_raw(name, &serde_json::from_str(options).unwrap());
    assert!((200..300).contains(&status), "DELETE {name}: {status}");
}

/// Waits until an object is Terminating with exactly these finalizers, and no kubelet has any time left for it.
#[track_caller]
pub fn until_held(world: &World, name: &str, finalizers: &[&str]) {
    world.until(&format!("{name} is held by {finalizers:?}"), || {
        world.get(name).is_some_and(|object| {
            let own = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            object["metadata"]["deletionTimestamp"].is_string() && own == finalizers && grace == 0
        })
    });
}

/// Waits until the grace period of an object has run out.
#[track_caller]
pub fn until_overdue(world: &World, name: &str) {
    world.until(&format!("the grace period of {name} is over"), || {
        let object = world.get(name).unwrap_or_else(|| panic!("{name} is gone"));
        let end = object["metadata"]["deletionTimestamp"].as_str().map(|end| end.parse().unwrap());
        end.is_some_and(|end: jiff::Timestamp| end < jiff::Timestamp::now())
    });
}

/// Waits until a `resource/name` that only kubectl knows is Terminating.
#[track_caller]
pub fn until_terminating(world: &World, target: &str) {
    let arguments = ["-n", &world.namespace, "get", target, "-o", "jsonpath={.metadata.deletionTimestamp}"];
    world.until(&format!("{target} is Terminating"), || {
        world.kubectl().run(&arguments).is_ok_and(|time| !time.is_empty())
    });
}

/// Waits until the webhook is asked about the UPDATE of this object, whatever it answers.
#[track_caller]
pub fn until_asked(world: &World, webhook: &Webhook, name: &str) {
    let arguments = ["-n", &world.namespace, "annotate", "--dry-run=server", "--overwrite", name, "probe=1"];
    world.until("the webhook is asked", || {
        let _ = world.kubectl().run(&arguments);
        webhook.calls() > 0
    });
}

/// Binds one of Kubernetes' own roles to the user `limited` in the test's namespace, and waits until this verb on
/// ConfigMaps is allowed: a controller puts the roles together.
#[track_caller]
pub fn grant(world: &World, role: &str, verb: &str) {
    world.create(
        "RoleBinding",
        json!({
            "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited" }],
        }),
    );
    let arguments = ["-n", &world.namespace, "auth", "can-i", verb, "configmaps", "--as", "limited"];
    world.until("the limited user has the role", || world.kubectl().run(&arguments).is_ok());
}

/// A control plane of the test's own, without what a diagnosis does not need.
pub fn own_plane(options: Options) -> &'static ControlPlane {
    let options =
        Options { simulated_node: false, ..options }.without(Component::Scheduler).without(Component::Kwok);
    // Never dropped: the supervisor ends its servers with the tests.
    Box::leak(Box::new(ControlPlane::start(options).expect("a control plane")))
}

/// A CRD of the test's own group with this schema, served; its name.
#[track_caller]
pub fn definition(world: &World, schema: Value) -> String {
    let group = format!("{}.test", world.namespace);
    let name = format!("graphs.{group}");
    let body = json!({
        "metadata": { "name": name },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "graphs", "singular": "graph", "kind": "Graph", "listKind": "GraphList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    world.create("CustomResourceDefinition", body);
    world.until("the CRD is served", || world.kubectl().run(&["-n", &world.namespace, "get", &name]).is_ok());
    name
}

/// A schema that takes everything.
pub fn open_schema() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// An instance of that CRD.
#[track_caller]
pub fn instance(world: &World, name: &str, finalizers: &[&str]) {
    let body = json!({
        "apiVersion": format!("{}.test/v1", world.namespace), "kind": "Graph",
        "metadata": { "name": name, "namespace": world.namespace, "finalizers": finalizers },
        "spec": {},
    });
    world.kubectl().run_with_input(&["create", "-f", "-"], &body.to_string()).unwrap();
}
