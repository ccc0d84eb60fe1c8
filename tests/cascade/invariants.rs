//! What holds after every run of the plugin, whatever was run and however it ended: checked by the harness itself
//! against the API server's audit log and the cluster as it is then.
//!
//! - Every DELETE and every patch that is no dry run names the UID it is meant for, and an object that was shown.
//! - Only `release` and `--keep` patch; nothing is updated or deleted by collection; what is created is a review or a
//!   canary that somebody asked for.
//! - Of a Result: `deleted` is gone by UID, `kept`, `orphaned` and `leaked` are alive, what remains of a deletion that
//!   stands still is there; `complete` leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use control_plane::{ControlPlane, Written};
use kubectl_cascade::model::catalog::escaped;
use serde_json::Value;

use crate::support::{Run, collection};

/// Of each list so many objects are looked at.
const LOOKS: usize = 25;
/// What the probes that write call their ConfigMaps.
const CANARY: &str = "kubectl-cascade-canary-";

/// A run, before it begins.
#[derive(Clone)]
pub struct Begun {
    plane: &'static ControlPlane,
    run: String,
    arguments: Vec<String>,
    /// Others go on changing the cluster when it ends, so that what remained may be gone by now.
    moving: bool,
}

impl Begun {
    /// The run that this command will be; its kubeconfig tells.
    pub fn of(plane: &'static ControlPlane, command: &Command) -> Self {
        let kubeconfig =
            command.get_envs().find(|(name, _)| *name == "KUBECONFIG").and_then(|(_, path)| path);
        let stem = kubeconfig.and_then(|path| Path::new(path).file_stem()).unwrap_or_default();
        let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned());
        Self {
            plane,
            run: stem.to_string_lossy().into_owned(),
            arguments: arguments.collect(),
            moving: false,
        }
    }

    /// For runs that end while others go on changing the cluster.
    pub fn while_it_moves(&self) -> Self {
        Self { moving: true, ..self.clone() }
    }

    fn has(&self, word: &str) -> bool {
        self.arguments.iter().any(|argument| argument.starts_with(word))
    }

    /// What it has written until now.
    pub fn written(&self) -> Vec<Written> {
        self.plane.written_by(&self.run).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Checks everything; panics with all that is wrong.
    #[track_caller]
    pub fn check(&self, run: &Run) {
        let wrong = self.violations(run);
        assert!(wrong.is_empty(), "{:?} broke its word:\n{}\n{run:#?}", self.arguments, wrong.join("\n"));
    }

    /// Everything that does not hold.
    pub fn violations(&self, run: &Run) -> Vec<String> {
        let document = serde_json::from_str::<Value>(&run.stdout).unwrap_or_default();
        let mut wrong = Vec::new();
        for written in self.written().iter().filter(|written| !written.dry_run) {
            if let Some(why) = self.writes_wrongly(written, &document, run) {
                wrong.push(format!("{why}: {written:?}"));
            }
        }
        if document["kind"] == "Result" {
            self.look(&document, &mut wrong);
        }
        wrong
    }

    fn writes_wrongly(&self, written: &Written, document: &Value, run: &Run) -> Option<&'static str> {
        let canary = self.has("--probe=canary") || self.has("canary");
        match written.verb.as_str() {
            // Turned away by a right that is missing, before anybody read what was asked.
            "delete" if written.code == 403 && written.body.is_null() => None,
            "delete" => {
                let Some(uid) = written.body["preconditions"]["uid"].as_str().filter(|uid| !uid.is_empty())
                else {
                    return Some("a DELETE without a UID");
                };
                if written.name.starts_with(CANARY) {
                    return (!canary).then_some("a canary that nobody asked for");
                }
                if written.body["propagationPolicy"].is_null() {
                    return Some("a DELETE without a policy");
                }
                (!self.was_shown(uid, &written.name, document, run))
                    .then_some("a DELETE of what was not shown")
            }
            "patch" if self.has("release") || self.has("--keep") => {
                let tests_uid = |operation: &Value| {
                    operation["op"] == "test"
                        && operation["path"] == "/metadata/uid"
                        && operation["value"].is_string()
                };
                let operations = written.body.as_array().map(Vec::as_slice).unwrap_or_default();
                if !operations.iter().any(tests_uid) {
                    return Some("a patch without a UID");
                }
                (!is_named(&written.name, run) && run.code >= 0).then_some("a patch of what was not shown")
            }
            "create" if written.resource.ends_with("reviews") => None,
            "create" if canary && written.resource == "configmaps" => None,
            _ => Some("this is never sent"),
        }
    }

    /// Shown is what the Result speaks of by UID; where there is only text, what it names. Who was killed could show
    /// nothing any more.
    fn was_shown(&self, uid: &str, name: &str, document: &Value, run: &Run) -> bool {
        if run.code < 0 {
            return true;
        }
        if document["kind"] == "Result" {
            let lists = ["deleted", "remaining", "unexpected", "recreated"];
            return lists.iter().any(|list| document[*list].to_string().contains(uid));
        }
        // `-o name` names only what is gone.
        self.arguments.windows(2).any(|pair| pair == ["-o", "name"]) || is_named(name, run)
    }

    /// Compares a Result with what is there now.
    fn look(&self, result: &Value, wrong: &mut Vec<String>) {
        let outcome = result["outcome"].as_str().unwrap_or_default();
        let stands_still =
            matches!(outcome, "stalled" | "refused") && !self.has("--wait=false") && !self.moving;
        for (list, must_be) in [
            ("deleted", Some(false)),
            ("kept", Some(true)),
            ("orphaned", Some(true)),
            ("leaked", Some(true)),
            ("remaining", stands_still.then_some(true)),
        ] {
            let Some(must_be) = must_be else { continue };
            let references = result[list].as_array().map(Vec::as_slice).unwrap_or_default();
            for reference in references.iter().take(LOOKS) {
                match self.is_there(reference) {
                    Some(there) if there != must_be => {
                        let found = if there { "is there" } else { "is not there" };
                        wrong.push(format!("{list}: {reference} {found}"));
                    }
                    _ => {}
                }
            }
        }
        if outcome.starts_with("complete") && result["remaining"] != Value::Array(vec![]) {
            wrong.push(format!("{outcome}, but these remain: {}", result["remaining"]));
        }
        if outcome == "complete" {
            self.leaves_nothing(result, wrong);
        }
    }

    /// Whether this very object is there; none where that cannot be said.
    fn is_there(&self, reference: &Value) -> Option<bool> {
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let path = format!("{}/{}", collection(text("kind"), text("namespace"))?, escaped(text("name")));
        let found = self.plane.api().ok()?.get(&path).ok()?;
        Some(found.is_some_and(|object| object["metadata"]["uid"] == reference["uid"]))
    }

    /// What still has a deleted owner must be among the survivors.
    fn leaves_nothing(&self, result: &Value, wrong: &mut Vec<String>) {
        let uids = |list: &str| -> BTreeSet<String> {
            let entries = result[list].as_array().into_iter().flatten();
            let uid = |entry: &Value| {
                [entry, &entry["ref"], &entry["now"]]
                    .iter()
                    .find_map(|entry| entry["uid"].as_str().map(str::to_owned))
            };
            entries.filter_map(uid).collect()
        };
        let deleted = uids("deleted");
        let mut survivors = uids("kept");
        ["orphaned", "leaked", "unexpected", "recreated"]
            .iter()
            .for_each(|list| survivors.extend(uids(list)));
        let references = result["deleted"].as_array().into_iter().flatten();
        let namespaces: BTreeSet<&str> =
            references.filter_map(|reference| reference["namespace"].as_str()).collect();
        let Ok(api) = self.plane.api() else { return };
        let mut left: BTreeMap<String, String> = BTreeMap::new();
        for namespace in namespaces.into_iter().take(3) {
            for kind in ["ConfigMap", "Secret"] {
                let Some(Ok(Some(list))) = collection(kind, namespace).map(|path| api.get(&path)) else {
                    continue;
                };
                for object in list["items"].as_array().into_iter().flatten() {
                    let metadata = &object["metadata"];
                    let uid = metadata["uid"].as_str().unwrap_or_default();
                    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                    let orphan =
                        owners.filter_map(|owner| owner["uid"].as_str()).any(|owner| deleted.contains(owner));
                    if orphan && !survivors.contains(uid) {
                        left.insert(uid.to_owned(), format!("{kind}/{}", metadata["name"]));
                    }
                }
            }
        }
        if !left.is_empty() {
            wrong.push(format!("complete, but these hang on what is deleted: {left:?}"));
        }
    }
}

/// Whether a text names it: what is odd in a name is shown otherwise, and what is long may be cut.
fn is_named(name: &str, run: &Run) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let longest = name.split(|c| !plain(c)).max_by_key(|part| part.len()).unwrap_or_default();
    let part = &longest[..longest.len().min(16)];
    run.stdout.contains(part) || run.stderr.contains(part)
}

/// A test of the harness: it must notice what the plugin would never say.
#[test]
fn a_result_that_is_not_true_is_noticed() {
    let world = crate::support::World::new("invariants");
    let (alive, gone) =
        (world.thing("ConfigMap", "alive", &[], &[]), world.thing("ConfigMap", "gone", &[], &[]));
    let hangs = world.thing("Secret", "hangs", &["ConfigMap/gone"], &[crate::support::HOLD]);
    let reference = |object: &Value, kind: &str| {
        let metadata = &object["metadata"];
        serde_json::json!({
            "apiVersion": "v1", "kind": kind, "namespace": metadata["namespace"], "name": metadata["name"],
            "uid": metadata["uid"],
        })
    };
    let command = world.command(&["delete", "cm/gone"]);
    let begun = Begun::of(world.plane(), &command);
    let count = |outcome: &str, deleted: &[&Value], remaining: &[&Value]| {
        let result = serde_json::json!({
            "kind": "Result", "outcome": outcome, "findings": [],
            "deleted": deleted.iter().map(|object| reference(object, "ConfigMap")).collect::<Vec<_>>(),
            "remaining": remaining.iter().map(|object| reference(object, "ConfigMap")).collect::<Vec<_>>(),
        });
        let run = Run { code: 0, stdout: result.to_string(), stderr: String::new() };
        begun.violations(&run).len()
    };
    world.delete_raw("ConfigMap/gone", &serde_json::json!({}));
    assert_eq!(count("stalled", &[], &[&alive]), 0);
    assert_eq!(count("stalled", &[&alive], &[&gone]), 2, "neither is true");
    assert_eq!(count("complete", &[&gone], &[]), 1, "{hangs:#} hangs on it");
    // The same DELETE by the plugin is known for what it is: shown by one document, not by another.
    let run = world.cascade(&["delete", "cm/alive", "--yes", "-o", "json"]);
    world.thing("ConfigMap", "alive", &[], &[]);
    let command = world.command(&["delete", "cm/alive", "--yes", "-o", "json"]);
    let begun = Begun::of(world.plane(), &command);
    world.finish(command).expect(0);
    assert_eq!(begun.violations(&run).len(), 1, "another UID was shown");
    world.free("Secret/hangs");
}
