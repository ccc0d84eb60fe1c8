//! `cargo xtask pictures`: the documentation's pictures, made from real runs of the plugin on a real terminal.
//!
//! A control plane is started, a situation is made, the command runs in a pseudo terminal, and what it shows at one
//! moment becomes an SVG in `docs/pictures/`.

mod screen;
mod svg;

use std::fs;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Error, Options, eventually};
use pty_process::Size;
use pty_process::blocking::{Command, open};
use serde_json::json;

use crate::demo::stage::{Stage, programs};
use crate::demo::webhook;
use crate::{say, steps};
use screen::Screen;

/// Longer than any of these commands takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// What deletes slowly enough to be looked at: the collector of a default controller manager takes some 15 a second.
const REPLICAS: usize = 150;

/// Makes all pictures.
pub(crate) fn run() -> Result<(), Error> {
    steps::step("build the plugin", || steps::cargo(&["build", "--quiet", "--package", "kubectl-cascade"]))?;
    let mut started = None;
    steps::step("start a control plane", || {
        started = Some(ControlPlane::start(Options::default())?);
        Ok(())
    })?;
    let Some(plane) = started else { return Ok(()) };
    steps::step("the forecast before the question, and a diagnosis", || forecast_and_diagnosis(&plane))?;
    steps::step("the region while it works", || progress(&plane))
}

/// The CI Pod of the demo's webhook story.
fn forecast_and_diagnosis(plane: &ControlPlane) -> Result<(), Error> {
    let stage = Stage::new(plane, "ci")?;
    let resolver = webhook::set_up(&stage)?;
    let delete = Shot {
        stage: &stage,
        columns: 100,
        command: "kubectl cascade delete pod/runner-1 --policy foreground",
    };
    let asked = delete.until(|screen| screen.text().contains("[y/N]"), "n\r")?;
    delete.save(
        "forecast",
        &asked,
        "The fate of every object as a tree, counts by kind, and the question",
    )?;

    stage.kubectl().run(&["delete", "pod/runner-1", "--cascade=foreground", "--wait=false"])?;
    eventually("only the Pod's last finalizer is left", PATIENCE, || {
        let left = stage.kubectl().run(&["get", "secrets,services,configmaps", "-o", "name"]).ok()?;
        (!left.contains("runner-1")).then_some(())
    })?;
    let diagnose = Shot { stage: &stage, columns: 100, command: "kubectl cascade diagnose pod/runner-1" };
    let found = diagnose.until(|_| false, "")?;
    diagnose.save(
        "diagnosis",
        &found,
        "The cause with its proof in the server's words, and the ways out, safest first",
    )?;
    drop(resolver);
    Ok(())
}

/// A custom resource that owns a large Deployment, a Secret that an operator has to release, and a Pod whose node is
/// slow.
fn progress(plane: &ControlPlane) -> Result<(), Error> {
    let stage = Stage::new(plane, "shop")?;
    let kubectl = stage.kubectl();
    kubectl.apply(include_str!("../../manifests/database-crd.yaml"))?;
    kubectl.run(&[
        "wait",
        "--for=condition=Established",
        "crd/databases.shop.example.com",
        "--timeout=60s",
    ])?;
    let root = json!({ "apiVersion": "shop.example.com/v1", "kind": "Database",
        "metadata": { "name": "orders", "namespace": "shop" }, "spec": {} });
    kubectl.apply(&root.to_string())?;
    let root = kubectl.get(&["database", "orders"])?;
    let owner = json!([{ "apiVersion": "shop.example.com/v1", "kind": "Database", "name": "orders",
        "uid": root["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }]);
    let metadata =
        |name: &str| json!({ "name": name, "namespace": "shop", "ownerReferences": owner.clone() });

    let mut secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata("orders-backup-key") });
    secret["metadata"]["finalizers"] = json!(["shop.example.com/backup"]);
    let containers = json!([{ "name": "main", "image": "registry.example/orders:1" }]);
    // A node that nobody plays: what is bound to it waits for a kubelet.
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "node-2" } });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata("orders-primary"),
        "spec": { "nodeName": "node-2", "containers": containers.clone() } });
    let labels = json!({ "app": "orders-replica" });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("orders-replica"),
        "spec": { "replicas": REPLICAS, "selector": { "matchLabels": labels.clone() },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } } } });
    for object in [secret, node, pod, deployment] {
        kubectl.apply(&object.to_string())?;
    }
    kubectl.run(&["rollout", "status", "deployment/orders-replica", "--timeout=180s"])?;

    let command = "kubectl cascade delete database/orders --policy foreground --yes";
    let delete = Shot { stage: &stage, columns: 100, command };
    let is_halfway = |screen: &Screen| {
        let text = screen.text();
        let Some(line) = text.lines().find(|line| line.contains(" objects gone, ")) else { return false };
        let number = line.split(" of ").next().and_then(|start| start.split_whitespace().last());
        let gone = number.and_then(|number| number.parse::<usize>().ok()).unwrap_or_default();
        gone > REPLICAS / 3
            && line.contains("/s")
            && text.lines().last().is_some_and(|line| line.contains("waits for finalizer"))
            // A collector that is slow to begin, as on a busy machine, makes another picture.
            && !text.contains("still watching")
    };
    let half = delete.until(is_halfway, "\u{3}")?;
    delete.save("progress", &half, "A bar with the rate, and what is still there with the reason for each")
}

/// A command in a terminal of some width.
struct Shot<'stage> {
    stage: &'stage Stage<'stage>,
    columns: u16,
    command: &'static str,
}

impl Shot<'_> {
    /// Runs the command and returns the screen at the moment asked for, or at the end. Then these keys are typed, and
    /// the end is waited for.
    fn until(&self, is_it: impl Fn(&Screen) -> bool, then: &str) -> Result<Screen, Error> {
        say(&format!("$ {}", self.command))?;
        let failed = |cause: String| Error::new(format!("cannot run `{}`: {cause}", self.command));
        let (terminal, program) = open().map_err(|cause| failed(cause.to_string()))?;
        let size = Size::new(40, self.columns);
        terminal.resize(size).map_err(|cause| failed(cause.to_string()))?;
        let path = programs(self.stage.plane()) + ":" + &std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh").args(["-c", self.command]);
        for (name, value) in self.stage.kubectl().environment() {
            command = command.env(name, value);
        }
        let mut child = command
            .env("PATH", path)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env_remove("NO_COLOR")
            .spawn(program)
            .map_err(|cause| failed(cause.to_string()))?;

        let terminal = Arc::new(terminal);
        let source = Arc::clone(&terminal);
        let (sender, chunks) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 16384];
            // Linux says EIO when the program's side is closed.
            while let Ok(count @ 1..) = (&*source).read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + PATIENCE;
        let mut screen = Screen::new(usize::from(self.columns));
        let mut found = None;
        loop {
            match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => screen.feed(&chunk),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    return Err(failed(format!("it takes too long; its terminal shows\n{}", screen.text())));
                }
            }
            if found.is_none() && is_it(&screen) {
                found = Some(screen.clone());
                (&*terminal).write_all(then.as_bytes()).map_err(|cause| failed(cause.to_string()))?;
            }
        }
        child.wait().map_err(|cause| failed(cause.to_string()))?;
        match found {
            Some(screen) => Ok(screen),
            None if then.is_empty() => Ok(screen),
            None => Err(failed(format!("it never showed what was waited for, but\n{}", screen.text()))),
        }
    }

    fn save(&self, name: &str, screen: &Screen, description: &str) -> Result<(), Error> {
        let path = control_plane::workspace().join("docs/pictures").join(format!("{name}.svg"));
        fs::write(&path, svg::draw(self.command, screen, description))
            .map_err(|cause| Error::new(format!("cannot write {}: {cause}", path.display())))?;
        say(&format!("{}\n-> {}", screen.text(), path.display()))
    }
}
