//! `delete`: each policy as forecast, what is refused before anything is sent, and what the document says of the end.

use std::process::Stdio;

use control_plane::{SIMULATED_NODE, Webhook, webhook};
use serde_json::{Value, json};

use crate::contract;
use crate::diagnosis::Registered;
use crate::support::{HOLD, Stopped, World, entry, names};

/// A Result of `delete ... --yes -o json`.
#[track_caller]
pub fn delete(world: &World, arguments: &[&str], code: i32) -> Value {
    let run = world.cascade(&[&["delete"], arguments, &["--yes", "-o", "json"]].concat()).expect(code);
    let document = run.json();
    contract::result(&document);
    document
}

/// A Plan of `delete ... --dry-run -o json`.
#[track_caller]
pub fn plan(world: &World, arguments: &[&str], code: i32) -> Value {
    let arguments = [&["delete"], arguments, &["-o", "json"]].concat();
    let dry = arguments.iter().any(|argument| argument.starts_with("--dry-run"));
    let arguments = if dry { arguments } else { [&arguments[..], &["--dry-run"]].concat() };
    let document = world.cascade(&arguments).expect(code).json();
    contract::plan(&document);
    document
}

/// The fates of a Plan as `Kind/name fate`, sorted.
pub fn fates(plan: &Value) -> Vec<String> {
    let fate = |entry: &Value| {
        let (kind, name) = (entry["ref"]["kind"].as_str().unwrap(), entry["ref"]["name"].as_str().unwrap());
        format!("{kind}/{name} {}", entry["fate"].as_str().unwrap())
    };
    let mut fates: Vec<String> = plan["objects"].as_array().unwrap().iter().map(fate).collect();
    fates.sort();
    fates
}

pub fn codes(plan: &Value) -> Vec<&str> {
    plan["warnings"].as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

/// Whether the object is there and nobody has begun to delete it.
pub fn is_untouched(world: &World, name: &str) -> bool {
    world.get(name).is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null())
}

fn job(world: &World, name: &str, owners: &[&str]) {
    world.create(
        "Job",
        json!({
            "metadata": world.metadata(name, owners, &[]),
            "spec": { "template": { "spec": {
                "restartPolicy": "Never",
                "nodeSelector": { "example.test/nowhere": "true" },
                "containers": [{ "name": "main", "image": "example.test/image:1" }],
            } } },
        }),
    );
    let pods = || !pods_of(world, name).is_empty();
    world.until("the Job has a Pod", pods);
}

/// The Pods whose names begin like this.
fn pods_of(world: &World, name: &str) -> Vec<String> {
    let listed = world.kubectl().run(&["-n", &world.namespace, "get", "pods", "-o", "name"]).unwrap();
    listed.lines().filter(|line| line.starts_with(&format!("pod/{name}-"))).map(str::to_owned).collect()
}

/// A policy that refuses an operation on a kind in the test's namespace, and its binding.
pub fn refuse(world: &World, operation: &str, group: &str, resource: &str, message: &str) -> String {
    let name = format!("{}-{resource}", world.namespace);
    let namespace = json!({ "matchLabels": { "kubernetes.io/metadata.name": world.namespace } });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": namespace,
                "resourceRules": [{
                    "apiGroups": [group], "apiVersions": ["*"], "operations": [operation],
                    "resources": [resource],
                }],
            },
            "validations": [{ "expression": "false", "message": message }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    world.kubectl().apply(&policy.to_string()).unwrap();
    world.kubectl().apply(&binding.to_string()).unwrap();
    name
}

pub fn allow_again(world: &World, name: &str) {
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        world.kubectl().run(&["delete", kind, name]).unwrap();
    }
}

// What each policy does.

#[test]
fn background_takes_a_deployment_with_all_that_hangs_on_it() {
    let world = World::new("delete-background");
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{ "name": "main", "image": "example.test/image:1" }],
                    },
                },
            },
        }),
    );
    world.until("it is ready", || world.get("Deployment/web").unwrap()["status"]["readyReplicas"] == 2);
    let result = delete(&world, &["deployment/web"], 0);
    assert_eq!((&result["outcome"], &result["policy"]), (&json!("complete"), &json!("background")));
    let deleted = names(&result["deleted"]);
    assert_eq!(deleted.len(), 4, "{result:#}");
    assert_eq!(result["deleted"][0]["kind"], "Deployment", "the target comes first");
    assert_eq!(result["remaining"], json!([]));
    assert!(world.get("Deployment/web").is_none() && pods_of(&world, "web").is_empty());
}

#[test]
fn the_text_says_what_will_go_and_that_it_is_gone() {
    let world = World::new("delete-text");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own!"], &[]);
    let run = world.cascade(&["delete", "cm/own", "--policy", "foreground", "--yes"]).expect(0);
    for words in ["ConfigMap/own", "Secret/dependent", "2 objects will be deleted", "done: 2 objects gone"] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{run:#?}");
}

#[test]
fn names_of_what_went_come_one_a_line() {
    let world = World::new("delete-name");
    world.thing("ConfigMap", "own", &[], &[]);
    world.create("Lease", json!({ "metadata": world.metadata("l", &["ConfigMap/own"], &[]) }));
    let run = world.cascade(&["delete", "cm/own", "--yes", "-o", "name"]).expect(0);
    assert_eq!(run.stdout, "configmap/own\nlease.coordination.k8s.io/l\n");
    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.cascade(&["delete", "cm/own", "--dry-run", "-o", "name"]).expect(0);
    assert_eq!(run.stdout, "configmap/own\n");
    let run = world.cascade(&["delete", "cm/own", "--yes", "--wait=false", "-o", "name"]).expect(0);
    assert_eq!(run.stdout, "configmap/own\n", "accepted, as kubectl says");
}

#[test]
fn orphan_leaves_the_dependents_without_their_reference() {
    let world = World::new("delete-orphan");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("ConfigMap", "other", &[], &[]);
    world.thing("Secret", "mine", &["ConfigMap/own!"], &[]);
    world.thing("Secret", "shared", &["ConfigMap/own", "ConfigMap/other"], &[]);
    world.thing("Secret", "below", &["Secret/mine"], &[]);
    let result = delete(&world, &["cm/own", "--policy", "orphan"], 0);
    assert_eq!(result["outcome"], "complete");
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own"]);
    assert_eq!(names(&result["orphaned"]), ["Secret/mine", "Secret/shared"]);
    assert_eq!(result["unexpected"], json!([]));
    assert_eq!(world.get("Secret/mine").unwrap()["metadata"]["ownerReferences"], Value::Null);
    assert!(world.get("Secret/below").is_some());
}

/// C02: the API's own default would orphan the Pod, and warn.
#[test]
fn a_job_goes_with_its_pods_and_no_warning_of_the_server_ever_appears() {
    let world = World::new("delete-job");
    job(&world, "etl", &[]);
    let run = world.cascade(&["delete", "job/etl", "--yes"]).expect(0);
    assert!(!run.stderr.contains("Warning"), "{}", run.stderr);
    assert!(run.stdout.contains("policy background"), "{}", run.stdout);
    assert_eq!(pods_of(&world, "etl"), Vec::<String>::new());
    job(&world, "again", &[]);
    let plan = plan(&world, &["job/again", "--policy", "orphan"], 0);
    let pod = fates(&plan).into_iter().find(|fate| fate.starts_with("Pod/")).unwrap();
    assert!(pod.ends_with(" orphaned"), "{plan:#}");
}

/// C04.
#[test]
fn a_cron_job_takes_its_jobs_and_their_pods() {
    let world = World::new("delete-cron");
    world.create(
        "CronJob",
        json!({
            "metadata": { "name": "nightly" },
            "spec": { "schedule": "0 0 31 2 *", "jobTemplate": { "spec": { "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "m", "image": "example.test/i:1" }],
            } } } } },
        }),
    );
    job(&world, "nightly-1", &["CronJob/nightly!"]);
    let kinds = |policy: &str| {
        let plan = plan(&world, &["cronjob/nightly", "--policy", policy], 0);
        let short = |fate: &String| {
            let (name, fate) = fate.split_once(' ').unwrap();
            format!("{} {fate}", name.split_once('/').unwrap().0)
        };
        fates(&plan).iter().map(short).collect::<Vec<_>>()
    };
    for policy in ["background", "foreground"] {
        assert_eq!(kinds(policy), ["CronJob deleted", "Job deleted", "Pod deleted"], "{policy}");
    }
    let orphan = kinds("orphan");
    assert!(orphan.contains(&"Job orphaned".to_owned()), "{orphan:?}");
    assert!(!orphan.contains(&"Pod deleted".to_owned()), "{orphan:?}");
    assert_eq!(delete(&world, &["cronjob/nightly"], 0)["outcome"], "complete");
    assert_eq!(pods_of(&world, "nightly-1"), Vec::<String>::new());
}

/// C06.
#[test]
fn a_foreground_wish_on_the_object_is_dropped_only_with_a_warning() {
    let world = World::new("delete-wish");
    world.thing("ConfigMap", "own", &[], &["foregroundDeletion"]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    let dry = plan(&world, &["cm/own"], 0);
    assert!(codes(&dry).contains(&"foreground-wish-dropped"), "{dry:#}");
    let wish = dry["warnings"].as_array().unwrap().iter().find(|w| w["code"] == "foreground-wish-dropped");
    assert!(wish.unwrap()["message"].as_str().unwrap().contains("--policy foreground"), "{dry:#}");
    assert!(
        !codes(&plan(&world, &["cm/own", "--policy", "foreground"], 0)).contains(&"foreground-wish-dropped")
    );
}

/// C08: the forecast of each combination is what happens.
#[test]
fn a_dependent_holds_its_owner_only_in_foreground_and_only_if_it_blocks() {
    let world = World::new("delete-blocks");
    for policy in ["foreground", "background", "orphan"] {
        for (flag, block) in [("true", json!(true)), ("false", json!(false)), ("unset", Value::Null)] {
            let (own, dependent) = (format!("{policy}-{flag}"), format!("{policy}-{flag}-dependent"));
            world.thing("ConfigMap", &own, &[], &[]);
            let mut owner = world.owner(&format!("ConfigMap/{own}"));
            owner["blockOwnerDeletion"] = block;
            let metadata = json!({ "name": dependent, "ownerReferences": [owner], "finalizers": [HOLD] });
            world.create("Secret", json!({ "metadata": metadata }));
            let expected = match (policy, flag) {
                ("orphan", _) => ["deleted", "orphaned"],
                ("foreground", "true") => ["held", "held"],
                _ => ["deleted", "held"],
            };
            let target = format!("cm/{own}");
            let plan = plan(&world, &[&target, "--policy", policy], 0);
            let fate = |name: &str| entry(&plan["objects"], name)["fate"].as_str().unwrap().to_owned();
            let found = [fate(&format!("ConfigMap/{own}")), fate(&format!("Secret/{dependent}"))];
            assert_eq!(found, expected, "{policy} {flag}");

            let arguments = [&target, "--policy", policy, "--timeout", "2s"];
            let code = if policy == "orphan" { 0 } else { 3 };
            let result = delete(&world, &arguments, code);
            let (owner, secret) = (format!("ConfigMap/{own}"), format!("Secret/{dependent}"));
            world.until(&format!("{policy} {flag} ended as forecast"), || {
                world.get(&owner).is_some() == (expected[0] == "held")
                    && is_untouched(&world, &secret) == (policy == "orphan")
            });
            let listed = names(&result[if policy == "orphan" { "orphaned" } else { "remaining" }]);
            assert!(listed.contains(&secret), "{result:#}");
        }
    }
}

/// C09: what hangs on the held object in the middle is not even marked.
#[test]
fn background_stops_at_a_held_object_in_the_middle() {
    let world = World::new("delete-middle");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "mid", &["ConfigMap/top!"], &[HOLD]);
    world.thing("Secret", "leaf", &["ConfigMap/mid!"], &[]);
    let background = plan(&world, &["cm/top"], 0);
    assert_eq!(fates(&background), ["ConfigMap/mid held", "ConfigMap/top deleted", "Secret/leaf waits"]);
    let foreground = plan(&world, &["cm/top", "--policy", "foreground"], 0);
    assert_eq!(fates(&foreground), ["ConfigMap/mid held", "ConfigMap/top held", "Secret/leaf deleted"]);

    let result = delete(&world, &["cm/top", "--stall-timeout", "6s"], 3);
    assert_eq!(result["outcome"], "stalled");
    assert_eq!(names(&result["remaining"]), ["ConfigMap/mid", "Secret/leaf"]);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/top"]);
    assert!(is_untouched(&world, "Secret/leaf"));
    let finding = &result["findings"][0];
    assert_eq!((&finding["cause"], &finding["object"]["name"]), (&json!("finalizer-held"), &json!("mid")));
    assert!(finding["also"].as_array().unwrap().contains(&json!("dependents-wait-for-owner")), "{finding:#}");
    assert_eq!(finding["by"]["finalizer"], HOLD);
    world.free("ConfigMap/mid");
    world.gone("Secret/leaf");
}

/// C10.
#[test]
fn an_object_with_another_living_owner_stays_and_a_diamond_goes() {
    let world = World::new("delete-owners");
    world.thing("ConfigMap", "a", &[], &[]);
    world.thing("ConfigMap", "b", &[], &[]);
    world.thing("Secret", "d", &["ConfigMap/a!", "ConfigMap/b!"], &[]);
    let dry = plan(&world, &["cm/a", "--policy", "foreground"], 0);
    assert_eq!(entry(&dry["objects"], "Secret/d")["fate"], "kept");
    assert!(entry(&dry["objects"], "Secret/d")["reason"].as_str().unwrap().contains("ConfigMap/b"));
    let result = delete(&world, &["cm/a", "--policy", "foreground"], 0);
    assert_eq!(names(&result["kept"]), ["Secret/d"]);
    assert_eq!(result["unexpected"], json!([]));

    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "x", &["ConfigMap/top!"], &[]);
    world.thing("ConfigMap", "y", &["ConfigMap/top!"], &[]);
    world.thing("Secret", "z", &["ConfigMap/x!", "ConfigMap/y!"], &[]);
    let result = delete(&world, &["cm/top"], 0);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/top", "ConfigMap/x", "ConfigMap/y", "Secret/z"]);
    let both = delete(&world, &["cm/b", "secret/d"], 0);
    assert_eq!(names(&both["deleted"]), ["ConfigMap/b", "Secret/d"]);
}

/// C11.
#[test]
fn a_cycle_below_the_target_leaks_and_what_owns_itself_never_goes_in_foreground() {
    let world = World::new("delete-cycle");
    let own = |name: &str, owners: Value| {
        world.patch(&format!("ConfigMap/{name}"), &json!({ "metadata": { "ownerReferences": owners } }));
    };
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "a", &["ConfigMap/top"], &[]);
    world.thing("ConfigMap", "b", &["ConfigMap/top", "ConfigMap/a"], &[]);
    own("a", json!([world.owner("ConfigMap/top"), world.owner("ConfigMap/b")]));
    let result = delete(&world, &["cm/top", "--policy", "foreground"], 0);
    assert_eq!(names(&result["leaked"]), ["ConfigMap/a", "ConfigMap/b"]);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/top"]);
    let plain = delete(&world, &["cm/a"], 0);
    assert_eq!(names(&plain["deleted"]), ["ConfigMap/a", "ConfigMap/b"]);

    world.thing("ConfigMap", "self", &[], &[]);
    own("self", json!([world.owner("ConfigMap/self!")]));
    let stuck = delete(&world, &["cm/self", "--policy", "foreground", "--stall-timeout", "2s"], 3);
    assert_eq!(stuck["findings"][0]["cause"], "owns-itself", "{stuck:#}");
    assert_eq!(delete(&world, &["cm/self"], 0)["outcome"], "complete");
}

// What is refused before anything is sent.

#[test]
fn without_a_terminal_nothing_is_deleted_unless_yes_is_said() {
    let world = World::new("delete-no-terminal");
    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.cascade(&["delete", "cm/own"]).expect(4);
    assert!(run.stdout.contains("1 object will be deleted"), "the forecast is shown: {}", run.stdout);
    assert!(run.stderr.contains("nothing was deleted") && run.stderr.contains("--yes"), "{}", run.stderr);
    let run = world.cascade(&["delete", "cm/own", "-o", "json"]).expect(4);
    let document = run.json();
    contract::result(&document);
    assert_eq!((&document["outcome"], &document["deleted"]), (&json!("refused"), &json!([])));
    assert_eq!(names(&document["remaining"]), ["ConfigMap/own"]);
    assert!(run.stderr.contains("1 object will be deleted"), "the forecast is shown: {}", run.stderr);
    for asking in [&["-i"][..], &["-i", "--yes"], &["--yes", "-i", "-o", "json"]] {
        let run = world.cascade(&[&["delete", "cm/own"], asking].concat()).expect(4);
        assert!(run.stderr.contains("nothing was deleted"), "{asking:?}: {}", run.stderr);
    }
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn a_yes_that_is_piped_in_is_no_terminal() {
    let world = World::new("delete-piped-yes");
    world.thing("ConfigMap", "own", &[], &[]);
    let mut command = world.command(&["delete", "cm/own"]);
    command.stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"y\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(4));
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn orphan_cannot_save_the_content_of_a_namespace_or_a_definition() {
    let world = World::new("delete-orphan-content");
    world.thing("ConfigMap", "own", &[], &[]);
    let run = world.cascade(&["delete", &format!("ns/{}", world.namespace), "--policy", "orphan", "--yes"]);
    let run = run.expect(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("everything in it") && run.stderr.contains("hint:"), "{}", run.stderr);
    assert!(is_untouched(&world, "ConfigMap/own"));
    assert!(is_untouched(&world, &format!("Namespace/{}", world.namespace)));
    let run = world.cascade(&["delete", &format!("ns/{}", world.namespace), "--cascade=orphan", "--dry-run"]);
    run.expect(2);
    let name = format!("things.{}.example.test", world.namespace);
    world.create(
        "CustomResourceDefinition",
        json!({
            "metadata": { "name": name },
            "spec": {
                "group": format!("{}.example.test", world.namespace), "scope": "Namespaced",
                "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                               "schema": { "openAPIV3Schema": { "type": "object" } } }],
            },
        }),
    );
    let run = world.cascade(&["delete", &format!("crd/{name}"), "--policy", "orphan", "--yes"]).expect(2);
    assert!(run.stderr.contains("all its instances"), "{}", run.stderr);
    assert!(is_untouched(&world, &format!("CustomResourceDefinition/{name}")));
}

#[test]
fn one_missing_target_stops_all() {
    let world = World::new("delete-missing");
    world.thing("ConfigMap", "there", &[], &[]);
    let run = world.cascade(&["delete", "cm", "there", "absent", "--yes", "-o", "json"]).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("\"absent\" not found"), "{}", run.stderr);
    assert!(is_untouched(&world, "ConfigMap/there"));
    let result = delete(&world, &["cm", "there", "absent", "--ignore-not-found"], 0);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/there"]);
}

#[test]
fn nothing_to_delete_is_complete_where_that_is_allowed() {
    let world = World::new("delete-nothing");
    let result = delete(&world, &["cm/absent", "--ignore-not-found"], 0);
    assert_eq!((&result["outcome"], &result["deleted"]), (&json!("complete"), &json!([])));
    assert_eq!(delete(&world, &["cm", "-l", "app=nobody"], 0)["outcome"], "complete");
    let plan = plan(&world, &["cm/absent", "--ignore-not-found"], 0);
    assert_eq!((&plan["targets"], &plan["objects"]), (&json!([]), &json!([])));
    world.cascade(&["delete", "cm/absent", "--yes"]).expect(1);
}

#[test]
fn a_type_alone_deletes_nothing() {
    let world = World::new("delete-bare-type");
    world.thing("ConfigMap", "own", &[], &[]);
    for arguments in [&["delete", "cm", "--yes"][..], &["delete", "--yes"], &["delete", "cm,secret", "--yes"]]
    {
        let run = world.cascade(arguments);
        assert!(run.code == 2 || run.code == 1, "{run:#?}");
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains("hint:"), "{}", run.stderr);
    }
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn selectors_all_and_manifests_name_targets() {
    let world = World::new("delete-selects");
    let labelled = |name: &str, app: &str| {
        world.create("ConfigMap", json!({ "metadata": { "name": name, "labels": { "app": app } } }));
    };
    labelled("a", "x");
    labelled("b", "x");
    labelled("c", "y");
    let result = delete(&world, &["cm", "-l", "app=x"], 0);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/a", "ConfigMap/b"]);
    assert!(is_untouched(&world, "ConfigMap/c"));

    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n\
                    apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    world.thing("Secret", "s", &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, manifest).unwrap();
    let result = delete(&world, &["-f", file.to_str().unwrap()], 0);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/c", "Secret/s"]);

    for name in ["p", "q"] {
        world.create("Lease", json!({ "metadata": { "name": name } }));
    }
    let result = delete(&world, &["leases", "--all"], 0);
    assert_eq!(names(&result["deleted"]), ["Lease/p", "Lease/q"]);
}

#[test]
fn a_manifest_on_standard_input_names_targets_and_its_namespace_must_fit() {
    let world = World::new("delete-stdin");
    world.thing("ConfigMap", "own", &[], &[]);
    let feed = |manifest: &str| {
        let mut command = world.command(&["delete", "-f", "-", "--yes", "-o", "json"]);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), manifest.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let wrong = feed("{apiVersion: v1, kind: ConfigMap, metadata: {name: own, namespace: elsewhere}}");
    assert_eq!((wrong.status.code(), wrong.stdout.len()), (Some(1), 0));
    assert!(is_untouched(&world, "ConfigMap/own"));
    let right = feed("{apiVersion: v1, kind: ConfigMap, metadata: {name: own}}");
    assert_eq!(right.status.code(), Some(0), "{}", String::from_utf8_lossy(&right.stderr));
    assert!(world.get("ConfigMap/own").is_none());
}

// Dry runs and admission.

#[test]
fn a_dry_run_deletes_nothing_and_needs_no_terminal() {
    let world = World::new("delete-dry");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own!"], &[]);
    for flag in ["--dry-run", "--dry-run=client", "--dry-run=server"] {
        let plan = plan(&world, &["cm/own", flag], 0);
        assert_eq!(fates(&plan), ["ConfigMap/own deleted", "Secret/dependent deleted"], "{flag}");
        assert_eq!(plan["searched"]["namespaces"], json!([world.namespace]));
        let run = world.cascade(&["delete", "cm/own", flag]).expect(0);
        assert!(run.stdout.contains("2 objects will be deleted"), "{}", run.stdout);
    }
    assert!(is_untouched(&world, "ConfigMap/own") && is_untouched(&world, "Secret/dependent"));
}

#[test]
fn a_dry_run_on_the_server_shows_the_refusal_of_admission_verbatim() {
    let world = World::new("delete-dry-refused");
    world.thing("ConfigMap", "own", &[], &[]);
    let policy = refuse(&world, "DELETE", "", "configmaps", "not on a Friday");
    world.until("the policy counts", || world.cascade(&["delete", "cm/own", "--dry-run=server"]).code == 4);
    let dry = plan(&world, &["cm/own", "--dry-run=server"], 4);
    let warning = &dry["warnings"][0];
    assert_eq!(warning["code"], "admission-denied");
    assert!(warning["message"].as_str().unwrap().contains("not on a Friday"), "{warning:#}");
    assert_eq!(warning["object"]["name"], "own");
    plan(&world, &["cm/own", "--dry-run=client"], 0);

    // And the DELETE itself.
    let result = delete(&world, &["cm/own"], 4);
    assert_eq!((&result["outcome"], &result["deleted"]), (&json!("refused"), &json!([])));
    assert_eq!(names(&result["remaining"]), ["ConfigMap/own"]);
    let finding = &result["findings"][0];
    assert_eq!((&finding["cause"], &finding["verdict"]), (&json!("admission-denied"), &json!("proven")));
    assert_eq!((&finding["by"]["policy"], &finding["by"]["binding"]), (&json!(policy), &json!(policy)));
    assert!(finding["evidence"][0]["text"].as_str().unwrap().contains("not on a Friday"), "{finding:#}");
    let run = world.cascade(&["delete", "cm/own", "--yes"]).expect(4);
    assert!(run.stdout.contains("nothing was deleted") && run.stderr.contains("Friday"), "{run:#?}");
    assert!(is_untouched(&world, "ConfigMap/own"));
    allow_again(&world, &policy);
}

/// A webhook chooses its own code: 404 and 409 must not be read as "gone" and "replaced".
#[test]
fn a_webhook_that_refuses_with_any_code_refuses() {
    for code in [403, 404, 409, 500] {
        let world = World::new(&format!("delete-webhook-{code}"));
        world.thing("ConfigMap", "own", &[], &[]);
        let name = format!("deny-{code}.{}.example.test", world.namespace);
        let server = Webhook::start(move |_| webhook::Decision::Deny {
            code,
            message: "the vault is closed".to_owned(),
        })
        .unwrap();
        let configuration = server.validating(&name, &world.namespace, &["DELETE"], &["configmaps"]);
        world.kubectl().apply(&configuration.to_string()).unwrap();
        world.until("the webhook counts", || {
            world.cascade(&["delete", "cm/own", "--dry-run=server"]).code == 4
        });
        let result = delete(&world, &["cm/own"], 4);
        world.kubectl().run(&["delete", "validatingwebhookconfiguration", &name]).unwrap();
        assert_eq!(result["outcome"], "refused", "{code}: {result:#}");
        assert_eq!(result["findings"][0]["by"]["webhook"], json!(name), "{code}: {result:#}");
        assert!(is_untouched(&world, "ConfigMap/own"), "{code}");
    }
}

/// As `diagnose` explains the refusal that its dry run meets.
#[test]
fn a_refused_delete_is_explained_with_the_configuration_and_the_ways_out() {
    let world = World::new("delete-explained");
    world.thing("Secret", "s", &[], &[]);
    let webhook = Webhook::start(webhook::deny("never asked")).unwrap();
    let name = format!("dead.{}.example.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["DELETE"], &["secrets"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    registered.until_delete_refused("secret/s");
    let refused = delete(&world, &["secret/s"], 4);
    let finding = &refused["findings"][0];
    assert_eq!(finding["cause"], "admission-unreachable");
    assert_eq!(finding["by"], json!({ "webhook": name, "configuration": name }));
    assert_eq!(finding["evidence"][0]["source"], "DELETE Secret/s", "no dry run: {finding:#}");
    let diagnosis = world.cascade(&["diagnose", "secret/s", "-o", "json"]).expect(0).json();
    for field in ["summary", "remedies", "by"] {
        assert_eq!(finding[field], diagnosis["findings"][0][field], "{field}");
    }
    let not_waited = delete(&world, &["secret/s", "--wait=false"], 4);
    assert_eq!(not_waited["findings"], refused["findings"]);
    assert!(is_untouched(&world, "Secret/s"));
    drop(registered);
}

#[test]
fn nobody_is_told_to_meet_what_a_rule_of_the_server_demands() {
    let world = World::new("delete-immortal");
    let refused = delete(&world, &["ns/default"], 4);
    assert_eq!(refused["findings"][0]["cause"], "admission-denied", "{refused:#}");
    assert_eq!(refused["findings"][0]["remedies"], json!([]), "{refused:#}");
    let run = world.cascade(&["delete", "ns/default", "--yes"]).expect(4);
    assert!(!run.stdout.contains("delete again") && run.stderr.contains("may not be deleted"), "{run:#?}");
}

#[test]
fn one_refused_target_does_not_stop_the_others() {
    let world = World::new("delete-partly");
    world.thing("ConfigMap", "guarded", &[], &[]);
    world.thing("ConfigMap", "of-guarded", &["ConfigMap/guarded"], &[]);
    world.thing("ConfigMap", "free", &[], &[]);
    world.thing("Secret", "of-free", &["ConfigMap/free!"], &[]);
    let name = format!("guard.{}.example.test", world.namespace);
    let server = Webhook::start(|request| {
        if request["name"] == "guarded" {
            webhook::Decision::Deny { code: 403, message: "guarded".to_owned() }
        } else {
            webhook::Decision::Allow
        }
    })
    .unwrap();
    let configuration = server.validating(&name, &world.namespace, &["DELETE"], &["configmaps"]);
    world.kubectl().apply(&configuration.to_string()).unwrap();
    world.until("the webhook counts", || {
        world.cascade(&["delete", "cm/guarded", "--dry-run=server"]).code == 4
    });
    let not_waited = delete(&world, &["cm/guarded", "cm/free", "--wait=false"], 4);
    assert_eq!(not_waited["outcome"], "refused", "{not_waited:#}");
    assert!(names(&not_waited["remaining"]).contains(&"ConfigMap/guarded".to_owned()));
    assert_eq!(not_waited["findings"].as_array().unwrap().len(), 1);
    world.gone("Secret/of-free");

    world.thing("ConfigMap", "free", &[], &[]);
    let result = delete(&world, &["cm/guarded", "cm/free"], 4);
    // Refused (4) comes before stalled (3), and both are explained.
    world.thing("ConfigMap", "held", &[], &[HOLD]);
    let both = delete(&world, &["cm/held", "cm/guarded", "--stall-timeout", "1s"], 4);
    assert_eq!(both["outcome"], "refused");
    let mut causes: Vec<&str> =
        both["findings"].as_array().unwrap().iter().map(|f| f["cause"].as_str().unwrap()).collect();
    causes.sort_unstable();
    assert_eq!(causes, ["admission-denied", "finalizer-held"], "{both:#}");
    assert_eq!(names(&both["remaining"]), ["ConfigMap/guarded", "ConfigMap/held"]);
    world.free("ConfigMap/held");
    world.kubectl().run(&["delete", "validatingwebhookconfiguration", &name]).unwrap();
    assert_eq!(result["outcome"], "refused");
    assert_eq!(names(&result["deleted"]), ["ConfigMap/free"]);
    assert_eq!(names(&result["remaining"]), ["ConfigMap/guarded"]);
    assert!(is_untouched(&world, "ConfigMap/guarded") && is_untouched(&world, "ConfigMap/of-guarded"));
}

#[test]
fn a_missing_right_to_delete_is_an_error_and_says_so() {
    let world = World::new("delete-forbidden");
    world.thing("ConfigMap", "own", &[], &[]);
    crate::conduct::bind(
        &world,
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }]),
    );
    let run = world.cascade_as("limited", &["delete", "cm/own", "--yes", "-o", "json"]).expect(1);
    let document = run.json();
    contract::result(&document);
    assert_eq!((&document["outcome"], &document["deleted"]), (&json!("refused"), &json!([])));
    assert!(run.stderr.contains("cannot delete resource"), "{}", run.stderr);
    assert!(is_untouched(&world, "ConfigMap/own"));
}

// Not waiting, timeouts, joining and switching.

#[test]
fn not_waiting_returns_at_once_and_says_what_was_not_looked_at() {
    let world = World::new("delete-not-waited");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    let result = delete(&world, &["cm/own", "--policy", "foreground", "--wait=false"], 0);
    assert_eq!((&result["outcome"], &result["policy"]), (&json!("not-waited"), &json!("foreground")));
    assert_eq!(result["deleted"], json!([]));
    assert!(!is_untouched(&world, "ConfigMap/own"));
    world.free("Secret/held");
}

#[test]
fn a_timeout_and_a_stall_are_told_apart() {
    let world = World::new("delete-limits");
    world.thing("ConfigMap", "held", &[], &[HOLD]);
    let stalled = delete(&world, &["cm/held", "--stall-timeout", "1s"], 3);
    assert_eq!(stalled["outcome"], "stalled");
    let timed_out = delete(&world, &["cm/held", "--timeout", "1s"], 3);
    assert_eq!(timed_out["outcome"], "timed-out");
    for result in [stalled, timed_out] {
        assert_eq!(names(&result["remaining"]), ["ConfigMap/held"]);
        assert_eq!(result["findings"][0]["cause"], "finalizer-held");
    }
    world.free("ConfigMap/held");
}

/// C38.
#[test]
fn a_cascade_that_moves_when_the_time_is_over_progresses() {
    let world = World::new("delete-moves");
    world.thing("ConfigMap", "own", &[], &[]);
    let owner = world.owner("ConfigMap/own!");
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (world, owner) = (&world, &owner);
            scope.spawn(move || {
                for number in 0..175 {
                    let name = format!("s-{worker}-{number}");
                    let metadata = json!({ "name": name, "ownerReferences": [owner] });
                    world.create("Secret", json!({ "metadata": metadata }));
                }
            });
        }
    });
    let result = delete(&world, &["cm/own", "--policy", "foreground", "--timeout", "1s"], 3);
    assert_eq!(result["outcome"], "timed-out");
    let causes: Vec<&str> =
        result["findings"].as_array().unwrap().iter().map(|f| f["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["progressing"], "{result:#}");
    let (gone, left) = (result["deleted"].as_array().unwrap().len(), names(&result["remaining"]).len());
    assert_eq!(gone + left, 701);
    assert_eq!(world.cascade(&["wait", "cm/own"]).code, 0);
}

#[test]
fn a_deletion_under_way_is_joined_and_another_policy_is_switched_to() {
    let world = World::new("delete-joins");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    assert_eq!(world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" })), 200);
    let arguments = ["delete", "cm/own", "--policy", "foreground", "--yes", "--stall-timeout", "1s"];
    let run = world.cascade(&arguments).expect(3);
    assert!(run.stderr.contains("already being deleted"), "{}", run.stderr);
    assert_eq!(names(&delete(&world, &["cm/own", "--timeout", "2s"], 3)["remaining"]), ["Secret/held"]);
    assert!(world.get("ConfigMap/own").is_none(), "background has freed it");
    world.free("Secret/held");
    world.gone("Secret/held");

    // From a background that its own finalizer holds to foreground: the dependents then go.
    world.thing("ConfigMap", "pinned", &[], &[HOLD]);
    world.thing("Secret", "below", &["ConfigMap/pinned!"], &[]);
    assert_eq!(world.delete_raw("ConfigMap/pinned", &json!({ "propagationPolicy": "Background" })), 200);
    let result = delete(&world, &["cm/pinned", "--policy", "foreground", "--stall-timeout", "6s"], 3);
    assert_eq!(names(&result["deleted"]), ["Secret/below"], "{result:#}");
    world.free("ConfigMap/pinned");
}

#[test]
fn who_joins_without_waiting_is_told_that_nothing_was_sent_and_nothing_is_watched() {
    let world = World::new("delete-joins-unwatched");
    world.thing("ConfigMap", "going", &[], &[HOLD]);
    world.thing("ConfigMap", "live", &[], &[HOLD]);
    world.delete_raw("ConfigMap/going", &json!({ "propagationPolicy": "Background" }));
    let run = world.cascade(&["delete", "cm/going", "--yes", "--wait=false"]).expect(0);
    assert!(run.stderr.ends_with("ConfigMap/going is already being deleted this way\n"), "{}", run.stderr);
    assert!(
        run.stdout.contains("nothing was sent: the deletion was under way already; not waited for"),
        "{run:#?}"
    );
    assert!(!run.stdout.contains("accepted"), "{}", run.stdout);
    assert_eq!(delete(&world, &["cm/going", "--wait=false"], 0)["outcome"], "not-waited");
    let run = world.cascade(&["delete", "cm/going", "cm/live", "--yes", "--wait=false"]).expect(0);
    assert!(run.stdout.contains("deletion accepted, not waited for"), "one was sent: {}", run.stdout);
    assert!(!is_untouched(&world, "ConfigMap/live"));
    world.free("ConfigMap/going");
    world.free("ConfigMap/live");
}

/// C07.
#[test]
fn a_second_foreground_delete_leaves_nothing_behind() {
    let world = World::new("delete-twice");
    world.thing("ServiceAccount", "x", &[], &[HOLD]);
    for _ in 0..2 {
        let stuck = delete(&world, &["sa/x", "--policy", "foreground", "--stall-timeout", "1s"], 3);
        let findings = stuck["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{stuck:#}");
        assert_eq!(findings[0]["by"]["finalizer"], HOLD);
    }
    world.delete_raw("ServiceAccount/x", &json!({ "propagationPolicy": "Foreground" }));
    world.free("ServiceAccount/x");
    world.cascade(&["wait", "sa/x", "--stall-timeout", "20s"]).expect(0);
    let run = world.cascade(&["diagnose", "sa/x", "--ignore-not-found", "-o", "json"]).expect(0);
    assert_eq!(run.json()["objects"][0]["state"], "gone");
}

#[test]
fn a_pod_whose_node_is_not_there_or_not_ready_is_forecast_as_held_by_it() {
    let world = World::new("delete-silent-node");
    let node = world.bare_node();
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let patch = unready.to_string();
    world
        .kubectl()
        .run(&["patch", "node", &node, "--subresource=status", "--type=strategic", "-p", &patch])
        .unwrap();
    world.pod("dark", Some(&node), &[], &[]);
    world.pod("lost", Some("nosuchnode"), &[], &[]);
    world.pod("well", Some(SIMULATED_NODE), &[], &[]);
    let reason = |name: &str| {
        let plan = plan(&world, &[&format!("pod/{name}")], 0);
        plan["objects"][0]["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("dark"), format!("held by node {node}, which is not Ready"));
    assert!(reason("lost").starts_with("held by node nosuchnode, which is not there"), "{}", reason("lost"));
    assert!(
        reason("well").starts_with(&format!("goes when {SIMULATED_NODE} confirms")),
        "{}",
        reason("well")
    );
}

/// C.4: the server answers 200 and changes nothing.
#[test]
fn a_switch_that_changed_nothing_is_told() {
    let world = World::new("delete-switch");
    let node = world.bare_node();
    world.pod("p", Some(&node), &[], &[]);
    world.thing("Secret", "held", &["Pod/p!"], &[HOLD]);
    assert_eq!(world.delete_raw("Pod/p", &json!({ "propagationPolicy": "Foreground" })), 200);
    let run = world.cascade(&["delete", "pod/p", "--yes", "--timeout", "1s"]).expect(3);
    assert!(run.stderr.contains("changed nothing"), "{}", run.stderr);
    let arguments = ["pod/p", "--grace-period", "0", "--force", "--timeout", "2s"];
    assert_eq!(names(&delete(&world, &arguments, 3)["deleted"]), ["Pod/p"], "a shorter grace period does it");
    world.free("Secret/held");
}

#[test]
fn a_running_grace_period_postpones_the_stall_and_not_the_timeout() {
    let world = World::new("delete-grace");
    let node = world.bare_node();
    world.create(
        "Pod",
        json!({ "metadata": { "name": "slow" }, "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 120,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "example.test/image:1" }],
        } }),
    );
    let result = delete(&world, &["pod/slow", "--stall-timeout", "1s", "--timeout", "4s"], 3);
    assert_eq!(result["outcome"], "timed-out", "{result:#}");
    assert_eq!(result["findings"][0]["cause"], "grace-period", "{result:#}");
    delete(&world, &["pod/slow", "--force", "--grace-period=0"], 0);
}

#[test]
fn a_simulated_kubelet_ends_a_pod_and_its_owner_in_foreground() {
    let world = World::new("delete-kubelet");
    world.thing("ConfigMap", "own", &[], &[]);
    world.pod("p", Some(SIMULATED_NODE), &["ConfigMap/own!"], &[]);
    let result = delete(&world, &["cm/own", "--policy", "foreground", "--now"], 0);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own", "Pod/p"]);
}

// What controllers and operators do meanwhile.

/// C05.
#[test]
fn a_replica_set_that_its_deployment_makes_again_is_told_with_its_maker() {
    let world = World::new("delete-recreated");
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": {
                        "nodeSelector": { "example.test/nowhere": "true" },
                        "containers": [{ "name": "main", "image": "example.test/image:1" }],
                    },
                },
            },
        }),
    );
    world.until("it has a Pod", || !pods_of(&world, "web").is_empty());
    let listed = world.kubectl().run(&["-n", &world.namespace, "get", "rs", "-o", "name"]).unwrap();
    let set = listed.trim().rsplit_once('/').unwrap().1.to_owned();
    let old = world.uid(&format!("ReplicaSet/{set}"));
    let dry = plan(&world, &[&format!("rs/{set}"), "--policy", "foreground"], 0);
    assert!(codes(&dry).contains(&"will-be-recreated"), "{dry:#}");
    let result = delete(&world, &[&format!("rs/{set}"), "--policy", "foreground"], 0);
    assert_eq!(result["outcome"], "complete");
    let pair = &result["recreated"][0];
    assert_eq!((&pair["was"]["uid"], &pair["now"]["name"]), (&json!(old), &json!(set)), "{result:#}");
    let finding = &result["findings"][0];
    assert_eq!((&finding["cause"], &finding["verdict"]), (&json!("recreated-by-owner"), &json!("proven")));
    assert_eq!(finding["by"]["owner"], "Deployment/web");
    let command = finding["remedies"][0]["command"].as_str().unwrap();
    assert!(
        command.contains("kubectl cascade delete") && command.ends_with("deployment.apps/web"),
        "{command}"
    );
}

/// C34.
#[test]
fn a_stateful_set_pod_is_gone_by_uid_though_its_name_lives_on() {
    let world = World::new("delete-stateful");
    world.create(
        "StatefulSet",
        json!({
            "metadata": { "name": "db" },
            "spec": {
                "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "template": {
                    "metadata": { "labels": { "app": "db" } },
                    "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
                },
            },
        }),
    );
    world.until("its Pod runs", || {
        world.get("Pod/db-0").is_some_and(|pod| pod["status"]["phase"] == "Running")
    });
    let old = world.uid("Pod/db-0");
    let result = delete(&world, &["pod/db-0", "--timeout", "60s"], 0);
    assert_eq!(result["outcome"], "complete");
    assert_eq!(result["deleted"][0]["uid"], json!(old));
    assert_eq!(result["recreated"][0]["was"]["uid"], json!(old), "{result:#}");
    assert_eq!(result["recreated"][0]["now"]["name"], "db-0");
    assert_eq!(result["findings"][0]["cause"], "recreated-by-owner");
    let run = world.cascade(&["delete", "pod/db-0", "--yes", "--now"]).expect(0);
    assert!(run.stdout.contains("StatefulSet/db"), "{}", run.stdout);
    delete(&world, &["statefulset/db", "--now"], 0);
}

/// C12: an operator that makes the next dependent before it lets the last one go.
#[test]
fn dependents_that_are_made_anew_as_fast_as_they_go_are_no_progress() {
    let world = World::new("delete-operator");
    world.thing("ConfigMap", "cluster", &[], &[]);
    world.thing("Secret", "conf-0", &["ConfigMap/cluster!"], &[HOLD]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let _stopped = Stopped(&stop);
        scope.spawn(|| {
            let owner = world.owner("ConfigMap/cluster!");
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let name = format!("Secret/conf-{number}");
                if world.get(&name).is_some_and(|secret| !secret["metadata"]["deletionTimestamp"].is_null()) {
                    number += 1;
                    let metadata = json!({
                        "name": format!("conf-{number}"), "ownerReferences": [owner], "finalizers": [HOLD],
                    });
                    world.create("Secret", json!({ "metadata": metadata }));
                    world.free(&name);
                }
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
        });
        let arguments = [
            "delete",
            "cm/cluster",
            "--policy",
            "foreground",
            "--stall-timeout",
            "4s",
            "--yes",
            "-o",
            "json",
        ];
        world.finish_while_it_moves(world.command(&arguments)).expect(3).json()
    });
    contract::result(&result);
    assert_eq!(result["outcome"], "stalled", "{result:#}");
    // The newest one may not be marked yet, and is said to take its time.
    let of_the_target = |finding: &&Value| finding["object"]["name"] == "cluster";
    let findings = result["findings"].as_array().unwrap().iter().filter(of_the_target);
    let causes: Vec<&str> = findings.map(|finding| finding["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["dependents-recreated"], "{result:#}");
}

/// What the forecast did not know: somebody else takes a kept object away meanwhile.
#[test]
fn a_kept_object_that_is_gone_at_the_end_is_unexpected() {
    let world = World::new("delete-unexpected");
    world.thing("ConfigMap", "a", &[], &[]);
    world.thing("ConfigMap", "b", &[], &[]);
    world.thing("Secret", "kept", &["ConfigMap/a", "ConfigMap/b"], &[]);
    world.thing("Secret", "held", &["ConfigMap/a!"], &[HOLD]);
    let result = std::thread::scope(|scope| {
        let watching = scope.spawn(|| delete(&world, &["cm/a", "--policy", "foreground"], 0));
        world.until("the deletion is under way", || !is_untouched(&world, "Secret/held"));
        world.delete_raw("Secret/kept", &json!({}));
        world.free("Secret/held");
        watching.join().unwrap()
    });
    assert_eq!(result["kept"], json!([]));
    assert_eq!(names(&result["unexpected"]), ["Secret/kept"], "{result:#}");
    assert!(result["unexpected"][0]["note"].as_str().unwrap().contains("gone"));
}
