//! What every test has at hand: a namespace of its own, objects in it, and the plugin as users run it.
#![allow(dead_code, reason = "not every test needs every tool")]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use control_plane::{ControlPlane, Kubectl, Proxy, eventually};
use kubectl_cascade::model::command::quote;
use serde_json::{Value, json};

use crate::invariants::Begun;

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The finalizer that nobody serves.
pub const HOLD: &str = "example.test/hold";

/// A namespace of one test's own, on the control plane that all tests share, and what can be done in it.
pub struct World {
    /// The namespace.
    pub namespace: String,
    plane: &'static ControlPlane,
}

/// What a run of the plugin gave.
#[derive(Debug)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON on stdout: {error}\n{self:#?}"))
    }

    /// Asserts the exit code, showing everything where it differs.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code; stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// The path of a kind's collection in a namespace, by `Kind`; none for a kind that nobody here knows.
pub fn collection(kind: &str, namespace: &str) -> Option<String> {
    let (root, plural) = match kind {
        "ConfigMap" => ("api/v1", "configmaps"),
        "Secret" => ("api/v1", "secrets"),
        "Pod" => ("api/v1", "pods"),
        "Service" => ("api/v1", "services"),
        "ServiceAccount" => ("api/v1", "serviceaccounts"),
        "PersistentVolumeClaim" => ("api/v1", "persistentvolumeclaims"),
        "Namespace" => return Some("/api/v1/namespaces".to_owned()),
        "Node" => return Some("/api/v1/nodes".to_owned()),
        "ClusterRole" => return Some("/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned()),
        "CustomResourceDefinition" => {
            return Some("/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned());
        }
        "Job" => ("apis/batch/v1", "jobs"),
        "CronJob" => ("apis/batch/v1", "cronjobs"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "ReplicaSet" => ("apis/apps/v1", "replicasets"),
        "StatefulSet" => ("apis/apps/v1", "statefulsets"),
        "Lease" => ("apis/coordination.k8s.io/v1", "leases"),
        "Role" => ("apis/rbac.authorization.k8s.io/v1", "roles"),
        "RoleBinding" => ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
        _ => return None,
    };
    Some(format!("/{root}/namespaces/{namespace}/{plural}"))
}

#[track_caller]
fn known(kind: &str, namespace: &str) -> String {
    collection(kind, namespace).unwrap_or_else(|| panic!("support knows no kind {kind}"))
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Job" | "CronJob" => "batch/v1",
        "Deployment" | "ReplicaSet" | "StatefulSet" => "apps/v1",
        "Lease" => "coordination.k8s.io/v1",
        "ClusterRole" | "Role" | "RoleBinding" => "rbac.authorization.k8s.io/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        _ => "v1",
    }
}

impl World {
    /// A fresh namespace, named after the test.
    pub fn new(test: &str) -> Self {
        Self::on(ControlPlane::shared(), test)
    }

    /// The same on a control plane of the test's own, for tests that stop its servers.
    pub fn on(plane: &'static ControlPlane, test: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{test}-{}-{number}", std::process::id());
        let world = Self { namespace, plane };
        world.create("Namespace", json!({ "metadata": { "name": world.namespace } }));
        world
    }

    /// A namespace of exactly this name, on a control plane of the test's own: for examples.
    pub fn named(plane: &'static ControlPlane, name: &str) -> Self {
        let world = Self::existing(plane, name);
        world.create("Namespace", json!({ "metadata": { "name": name } }));
        world
    }

    /// A namespace that is there already.
    pub fn existing(plane: &'static ControlPlane, name: &str) -> Self {
        Self { namespace: name.to_owned(), plane }
    }

    /// The control plane that it is on.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }

    /// Whether the server has what Kubernetes has since this minor version; says so where a test cannot run without.
    pub fn has_since(&self, minor: u32, what: &str) -> bool {
        let is_there = self.plane.minor().unwrap() >= minor;
        if !is_there {
            // Not by a macro: the test harness would keep it to itself.
            let _ =
                writeln!(std::io::stderr(), "skipped: {} needs Kubernetes 1.{minor}: {what}", self.namespace);
        }
        is_there
    }

    /// The real kubectl, as admin.
    pub fn kubectl(&self) -> &Kubectl {
        self.plane.kubectl()
    }

    /// Creates an object from a body without apiVersion, kind and namespace, and returns it as stored.
    #[track_caller]
    pub fn create(&self, kind: &str, body: Value) -> Value {
        self.create_in(&self.namespace, kind, body)
    }

    /// The same in another namespace.
    #[track_caller]
    pub fn create_in(&self, namespace: &str, kind: &str, mut body: Value) -> Value {
        body["apiVersion"] = json!(api_version(kind));
        body["kind"] = json!(kind);
        let path = known(kind, namespace);
        match self.plane.api() {
            Ok(api) => api.create(&path, &body).unwrap_or_else(|error| panic!("{error}")),
            Err(_) => {
                let created =
                    self.kubectl().run_with_input(&["create", "--raw", &path, "-f", "-"], &body.to_string());
                serde_json::from_str(&created.unwrap_or_else(|error| panic!("{error}"))).unwrap()
            }
        }
    }

    /// Creates a ConfigMap, Secret, ... of this name with these owners (`Kind/name`, a trailing `!` blocks) and
    /// finalizers. The owners must exist.
    #[track_caller]
    pub fn thing(&self, kind: &str, name: &str, owners: &[&str], finalizers: &[&str]) -> Value {
        self.create(kind, json!({ "metadata": self.metadata(name, owners, finalizers) }))
    }

    /// Metadata with these owners and finalizers.
    #[track_caller]
    pub fn metadata(&self, name: &str, owners: &[&str], finalizers: &[&str]) -> Value {
        let owners: Vec<Value> = owners.iter().map(|owner| self.owner(owner)).collect();
        json!({ "name": name, "ownerReferences": owners, "finalizers": finalizers })
    }

    /// An ownerReference to an existing object: `Kind/name`, a trailing `!` blocks.
    #[track_caller]
    pub fn owner(&self, owner: &str) -> Value {
        let name = owner.trim_end_matches('!');
        let (kind, own_name) = name.split_once('/').unwrap();
        json!({
            "apiVersion": api_version(kind), "kind": kind, "name": own_name, "uid": self.uid(name),
            "blockOwnerDeletion": owner.ends_with('!'),
        })
    }

    /// A Pod with one container; on a node where one is named. Grace period 30 s unless `spec` says otherwise.
    #[track_caller]
    pub fn pod(&self, name: &str, node: Option<&str>, owners: &[&str], finalizers: &[&str]) -> Value {
        let mut spec = json!({
            "containers": [{ "name": "main", "image": "example.test/image:1" }],
            "tolerations": [{ "operator": "Exists" }],
        });
        if let Some(node) = node {
            spec["nodeName"] = json!(node);
        }
        self.create("Pod", json!({ "metadata": self.metadata(name, owners, finalizers), "spec": spec }))
    }

    /// A Node object without a kubelet or kwok behind it; Pods on it stay Terminating. Its name is the namespace's.
    #[track_caller]
    pub fn bare_node(&self) -> String {
        self.create("Node", json!({ "metadata": { "name": self.namespace } }));
        self.namespace.clone()
    }

    /// An object as it is now; none if it is not there.
    #[track_caller]
    pub fn get(&self, name: &str) -> Option<Value> {
        let (kind, own_name) = name.split_once('/').unwrap();
        let path = format!("{}/{own_name}", known(kind, &self.namespace));
        match self.plane.api() {
            Ok(api) => api.get(&path).unwrap_or_else(|error| panic!("{error}")),
            Err(_) => self
                .kubectl()
                .run(&["get", "--raw", &path])
                .ok()
                .map(|text| serde_json::from_str(&text).unwrap()),
        }
    }

    /// Its UID.
    #[track_caller]
    pub fn uid(&self, name: &str) -> String {
        let object = self.get(name).unwrap_or_else(|| panic!("{name} is not there"));
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Sends a merge patch.
    #[track_caller]
    pub fn patch(&self, name: &str, patch: &Value) {
        let (kind, own_name) = name.split_once('/').unwrap();
        let arguments =
            ["-n", &self.namespace, "patch", kind, own_name, "--type=merge", "-p", &patch.to_string()];
        self.kubectl().run(&arguments).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Takes all finalizers off, as their controller would.
    #[track_caller]
    pub fn free(&self, name: &str) {
        self.patch(name, &json!({ "metadata": { "finalizers": null } }));
    }

    /// Sends a bare DELETE with these options, as any client could; returns the HTTP status.
    #[track_caller]
    pub fn delete_raw(&self, name: &str, options: &Value) -> u16 {
        let (kind, own_name) = name.split_once('/').unwrap();
        let path = format!("{}/{own_name}", known(kind, &self.namespace));
        let mut body = options.clone();
        body["apiVersion"] = json!("v1");
        body["kind"] = json!("DeleteOptions");
        self.plane
            .api()
            .unwrap()
            .send("DELETE", &path, Some(&body))
            .unwrap_or_else(|error| panic!("{error}"))
            .status
    }

    /// Waits until the object is gone.
    #[track_caller]
    pub fn gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), || self.get(name).is_none());
    }

    /// Waits until it is true.
    #[track_caller]
    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        eventually(what, PATIENCE, || is().then_some(())).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs the plugin in this namespace as admin, without a terminal.
    #[track_caller]
    pub fn cascade(&self, arguments: &[&str]) -> Run {
        self.finish(self.command(arguments))
    }

    /// Runs it as a user of the control plane without rights but those that the test bound.
    #[track_caller]
    pub fn cascade_as(&self, user: &str, arguments: &[&str]) -> Run {
        self.finish(self.command_as(user, arguments))
    }

    /// Runs it on a terminal of its own, where somebody waits for this prompt and then types. What is seen there,
    /// standard error included, is `stdout`. After two minutes it is given up (exit code 124).
    pub fn typed(&self, arguments: &[&str], prompt: &str, keys: &str) -> Run {
        self.typed_after(arguments, prompt, || keys)
    }

    /// The same, where something happens before what `keys` gives is typed.
    pub fn typed_after<'k>(&self, arguments: &[&str], prompt: &str, keys: impl FnOnce() -> &'k str) -> Run {
        let plain = self.command(arguments);
        let words = std::iter::once(plain.get_program()).chain(plain.get_args());
        let line: Vec<String> = words.map(|word| quote(&word.to_string_lossy())).collect();
        let mut command = Command::new("timeout");
        command.args([
            "--foreground",
            "120",
            "script",
            "--quiet",
            "--return",
            "--command",
            &line.join(" "),
            "/dev/null",
        ]);
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TERM", "xterm").env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut seen, mut buffer, mut keys) = (Vec::new(), [0; 4096], Some(keys));
        loop {
            let read = screen.read(&mut buffer).unwrap();
            if read == 0 {
                break;
            }
            seen.extend_from_slice(&buffer[..read]);
            if String::from_utf8_lossy(&seen).contains(prompt)
                && let Some(keys) = keys.take()
            {
                keyboard.write_all(keys().as_bytes()).unwrap();
            }
        }
        let run = Run {
            code: child.wait().unwrap().code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&seen).into_owned(),
            stderr: String::new(),
        };
        Begun::of(self.plane, &plain).check(&run);
        run
    }

    /// The plugin with these arguments, `-n` and a clean environment, not yet run. Its kubeconfig is the admin's, with
    /// a token of this run's own, by which the audit log tells what it has written.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_as("admin", arguments)
    }

    /// The same as another user.
    pub fn command_as(&self, user: &str, arguments: &[&str]) -> Command {
        let run = self.plane.run_as(user).unwrap_or_else(|error| panic!("{error}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-cascade"));
        command.args(arguments).args(["-n", &self.namespace]);
        command.env_clear().envs(self.kubectl().environment());
        command.env("KUBECONFIG", run.kubeconfig);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The plugin with these arguments, whose way to the API server leads through a proxy.
    pub fn command_through(&self, proxy: &Proxy, arguments: &[&str]) -> Command {
        let run = self.plane.run_as("admin").unwrap_or_else(|error| panic!("{error}"));
        let kubeconfig = proxy.kubeconfig(&run).unwrap_or_else(|error| panic!("{error}"));
        let mut command = self.command(arguments);
        command.env("KUBECONFIG", kubeconfig);
        command
    }

    /// Runs it to its end, and checks what holds after every run.
    #[track_caller]
    pub fn finish(&self, command: Command) -> Run {
        let (begun, run) = self.ended(command);
        begun.check(&run);
        run
    }

    /// The same where others go on changing what it was about.
    #[track_caller]
    pub fn finish_while_it_moves(&self, command: Command) -> Run {
        let (begun, run) = self.ended(command);
        begun.while_it_moves().check(&run);
        run
    }

    fn ended(&self, mut command: Command) -> (Begun, Run) {
        let output = command.output().unwrap();
        let run = Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        (Begun::of(self.plane, &command), run)
    }
}

/// Tells a thread to stop, even when an assertion fails: a scope waits for its threads.
pub struct Stopped<'s>(pub &'s AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A shared control plane ends with the tests; an existing cluster is cleaned up.
        if self.plane.is_external() {
            let _ = self.kubectl().run(&["delete", "namespace", &self.namespace, "--wait=false"]);
        }
    }
}

/// The object of a document's list whose reference is `Kind/name`.
#[track_caller]
pub fn entry<'a>(list: &'a Value, name: &str) -> &'a Value {
    let (kind, own_name) = name.split_once('/').unwrap();
    let is = |reference: &Value| reference["kind"] == kind && reference["name"] == own_name;
    let entries = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let found = entries.iter().find(|entry| is(&entry["ref"]) || is(entry) || is(&entry["object"]));
    found.unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// `Kind/name` of each reference in a list, sorted.
pub fn names(list: &Value) -> Vec<String> {
    let reference =
        |entry: &Value| if entry["ref"].is_object() { entry["ref"].clone() } else { entry.clone() };
    let short = |entry: &Value| {
        let reference = reference(entry);
        format!("{}/{}", reference["kind"].as_str().unwrap_or("?"), reference["name"].as_str().unwrap_or("?"))
    };
    let mut names: Vec<String> = list.as_array().into_iter().flatten().map(short).collect();
    names.sort();
    names
}
