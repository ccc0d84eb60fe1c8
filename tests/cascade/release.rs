//! `release`: every refusal, the digest, the name typed on a terminal, and the removal itself.

use control_plane::{Webhook, webhook};
use serde_json::{Value, json};

use crate::diagnosis::paste;
use crate::support::{HOLD, Run, World, names};

/// A ConfigMap that a finalizer holds in Terminating.
fn held(world: &World, name: &str, finalizers: &[&str]) {
    world.thing("ConfigMap", name, &[], finalizers);
    assert_eq!(world.delete_raw(&format!("ConfigMap/{name}"), &json!({})), 200);
}

fn release(world: &World, arguments: &[&str]) -> Run {
    world.cascade(&[&["release"], arguments, &["-o", "json"]].concat())
}

fn finalizers(world: &World, name: &str) -> Value {
    world.get(name).unwrap()["metadata"]["finalizers"].clone()
}

fn is_digest(text: &Value) -> bool {
    let text = text.as_str().unwrap();
    !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit() || ('a'..='f').contains(&digit))
}

#[test]
fn without_a_terminal_it_prints_the_command_which_then_frees_the_object() {
    let world = World::new("release-digest");
    held(&world, "db", &[HOLD]);
    world.thing("ConfigMap", "dependent", &["ConfigMap/db"], &[]);
    let first = release(&world, &["cm/db"]).expect(4);
    let document = first.json();
    assert_eq!(document["apiVersion"], "cascade/v1");
    assert_eq!(document["kind"], "Release");
    assert_eq!(document["target"]["name"], "db");
    assert_eq!(document["target"]["uid"], json!(world.uid("ConfigMap/db")));
    assert_eq!((&document["finalizer"], &document["applied"]), (&json!(HOLD), &json!(false)));
    assert_eq!(document["after"], Value::Null);
    assert!(is_digest(&document["digest"]), "{document}");
    assert!(document["leavesBehind"].as_str().unwrap().contains("controller"));
    assert!(document["effect"].as_str().unwrap().contains("1 object that depends on it"), "{document}");
    assert!(document.get("refused").is_none());
    assert!(first.stderr.contains("there is no terminal to ask on"), "{}", first.stderr);
    assert!(first.stderr.contains(document["command"].as_str().unwrap()), "{}", first.stderr);
    assert_eq!(finalizers(&world, "ConfigMap/db"), json!([HOLD]), "nothing was changed");

    let command = format!("{} -o json", document["command"].as_str().unwrap());
    let second = paste(&world, &command).expect(0).json();
    assert_eq!(second["applied"], true);
    assert_eq!(second["after"]["kind"], "Diagnosis");
    assert_eq!(second["after"]["objects"][0]["state"], "gone");
    assert_eq!(second["digest"], document["digest"]);
    world.gone("ConfigMap/db");
    world.gone("ConfigMap/dependent");
}

#[test]
fn the_digest_of_an_object_that_has_changed_confirms_nothing() {
    let world = World::new("release-changed");
    held(&world, "db", &[HOLD]);
    let document = release(&world, &["cm/db"]).expect(4).json();
    let digest = document["digest"].as_str().unwrap();
    world.patch("ConfigMap/db", &json!({ "data": { "a": "b" } }));
    let late = release(&world, &["cm/db", "--confirm", digest]).expect(4);
    assert!(late.stderr.contains("not the digest"), "{}", late.stderr);
    assert_eq!(late.json()["applied"], false);
    assert_ne!(late.json()["digest"], document["digest"]);
    let wrong = release(&world, &["cm/db", "--confirm", ""]).expect(4);
    assert_eq!(wrong.json()["applied"], false);
    // Another finalizer's digest is no permission for this one.
    world.patch("ConfigMap/db", &json!({ "data": null }));
    assert_eq!(finalizers(&world, "ConfigMap/db"), json!([HOLD]));
    // The one that was printed beside the refusal is good.
    let digest = release(&world, &["cm/db"]).expect(4).json()["digest"].clone();
    let done = release(&world, &["cm/db", "--confirm", digest.as_str().unwrap()]).expect(0);
    assert_eq!(done.json()["applied"], true);
    world.gone("ConfigMap/db");
}

#[test]
fn of_several_finalizers_one_is_named_and_the_others_still_hold() {
    let world = World::new("release-several");
    let other = "example.test/other";
    held(&world, "db", &[HOLD, other]);
    let several = release(&world, &["cm/db"]).expect(2);
    assert_eq!(several.stdout, "");
    assert!(several.stderr.contains(HOLD) && several.stderr.contains(other), "{}", several.stderr);
    let absent = release(&world, &["cm/db", "--finalizer", "example.test/none"]).expect(1);
    assert_eq!(absent.stdout, "");
    assert!(absent.stderr.contains("has no finalizer example.test/none"), "{}", absent.stderr);

    let document = release(&world, &["cm/db", "--finalizer", HOLD]).expect(4).json();
    let digest = document["digest"].as_str().unwrap();
    assert_eq!(
        release(&world, &["cm/db", "--finalizer", other, "--confirm", digest]).expect(4).json()["applied"],
        false
    );
    let done = release(&world, &["cm/db", "--finalizer", HOLD, "--confirm", digest]).expect(0).json();
    assert_eq!(done["applied"], true);
    let after = &done["after"];
    assert_eq!(after["objects"][0]["state"], "stuck", "{after:#}");
    assert_eq!(after["findings"][0]["cause"], "finalizer-held");
    assert_eq!(after["findings"][0]["by"]["finalizer"], other);
    assert_eq!(finalizers(&world, "ConfigMap/db"), json!([other]));
}

#[test]
fn a_live_object_may_lose_its_finalizer_and_is_told_what_that_means() {
    let world = World::new("release-live");
    world.thing("ConfigMap", "db", &[], &[HOLD]);
    let text = world.cascade(&["release", "cm/db"]).expect(4);
    assert!(text.stdout.contains("ConfigMap/db, not being deleted"), "{}", text.stdout);
    assert!(text.stdout.contains("is not being deleted and stays"), "{}", text.stdout);
    let digest = release(&world, &["cm/db"]).expect(4).json()["digest"].clone();
    let done = world.cascade(&["release", "cm/db", "--confirm", digest.as_str().unwrap()]).expect(0);
    assert!(done.stdout.contains(&format!("✓ removed {HOLD} from ConfigMap/db\n")), "{}", done.stdout);
    assert!(done.stdout.contains("nothing would hold it"), "{}", done.stdout);
    assert_eq!(finalizers(&world, "ConfigMap/db"), Value::Null);
    let none = release(&world, &["cm/db"]).expect(1);
    assert!(none.stderr.contains("ConfigMap/db has no finalizer"), "{}", none.stderr);
}

#[test]
fn for_the_collectors_own_finalizers_it_names_the_delete_which_does_better() {
    let world = World::new("release-collector");
    world.thing("ConfigMap", "owner", &[], &[]);
    world.thing("ConfigMap", "blocker", &["ConfigMap/owner!"], &[HOLD]);
    world.delete_raw("ConfigMap/owner", &json!({ "propagationPolicy": "Foreground" }));
    let refused = release(&world, &["cm/owner"]).expect(4);
    let document = refused.json();
    assert_eq!((&document["digest"], &document["applied"]), (&json!(""), &json!(false)));
    assert_eq!(document["finalizer"], "foregroundDeletion");
    assert_eq!(document["refused"]["by"], Value::Null);
    assert_eq!(document["refused"]["evidence"][0]["text"], r#"["foregroundDeletion"]"#);
    // Even where a digest is at hand, it stays refused.
    release(&world, &["cm/owner", "--confirm", "0123456789abcdef"]).expect(4);
    let command = document["refused"]["remedies"][0]["command"].as_str().unwrap();
    assert_eq!(
        command,
        format!("kubectl cascade delete -n {} configmap/owner --policy background", world.namespace)
    );
    // The owner goes at once; what blocked it still has a finalizer of its own.
    paste(&world, command).expect(3);
    world.gone("ConfigMap/owner");

    world.thing("ConfigMap", "orphaned", &[], &["orphan"]);
    let document = release(&world, &["cm/orphaned", "--finalizer", "orphan"]).expect(4).json();
    // It is not being deleted: no delete is offered.
    let reason = document["refused"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("ConfigMap/orphaned is not being deleted"), "{document}");
    assert_eq!(document["refused"]["remedies"], json!([]));
    let text = world.cascade(&["release", "cm/orphaned"]).expect(4);
    assert!(text.stdout.contains("✗ ConfigMap/orphaned: orphan stays"), "{}", text.stdout);
    assert!(!text.stdout.contains("cascade delete"), "{}", text.stdout);
    assert!(text.stderr.contains("is not removed by hand"), "{}", text.stderr);
}

#[test]
fn containers_keep_their_clean_up() {
    let world = World::new("release-containers");
    let namespace = world.namespace.clone();
    let refused = release(&world, &["ns", &namespace]).expect(4).json();
    assert_eq!((&refused["finalizer"], &refused["digest"]), (&json!("kubernetes"), &json!("")));
    assert!(refused["refused"]["reason"].as_str().unwrap().contains("namespace controller"), "{refused}");

    let definition = format!("gadgets.{namespace}.example.test");
    world.create(
        "CustomResourceDefinition",
        json!({
            "metadata": { "name": definition, "finalizers": ["customresourcecleanup.apiextensions.k8s.io"] },
            "spec": {
                "group": format!("{namespace}.example.test"), "scope": "Namespaced",
                "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                }],
            },
        }),
    );
    let refused = release(&world, &["crd", &definition]).expect(4).json();
    assert_eq!(refused["finalizer"], "customresourcecleanup.apiextensions.k8s.io");
    assert!(refused["leavesBehind"].as_str().unwrap().contains("come back"), "{refused}");
    world.kubectl().run(&["delete", "crd", &definition]).unwrap();

    // What a controller has put into a Namespace's metadata is a finalizer like any other.
    world.patch(&format!("Namespace/{namespace}"), &json!({ "metadata": { "finalizers": [HOLD] } }));
    let document = release(&world, &["ns", &namespace]).expect(4).json();
    assert_eq!(document["finalizer"], HOLD);
    let arguments = ["ns", &namespace, "--confirm", document["digest"].as_str().unwrap()];
    assert_eq!(release(&world, &arguments).expect(0).json()["applied"], true);
}

#[test]
fn while_its_own_dry_run_is_refused_it_refuses_and_says_by_whom() {
    let world = World::new("release-webhook");
    held(&world, "db", &[HOLD]);
    let before = release(&world, &["cm/db"]).expect(4).json();
    let name = format!("{}.example.test", world.namespace);
    let denying = Webhook::start(webhook::deny("not before the backup")).unwrap();
    let configuration = denying.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    world.kubectl().apply(&configuration.to_string()).unwrap();
    world.until("the webhook refuses", || {
        let run = release(&world, &["cm/db"]).expect(4);
        run.json().get("refused").is_some()
    });
    // Not even a good digest helps.
    let digest = before["digest"].as_str().unwrap();
    let refused = release(&world, &["cm/db", "--confirm", digest]).expect(4);
    let document = refused.json();
    assert_eq!(document["applied"], false);
    assert_eq!(document["refused"]["by"]["webhook"], json!(name));
    assert_eq!(document["refused"]["by"]["configuration"], json!(name));
    let evidence = document["refused"]["evidence"][0]["text"].as_str().unwrap();
    assert!(
        evidence.contains(&format!("admission webhook \"{name}\" denied the request: not before the backup"))
    );
    assert!(document.get("command").is_none(), "no removal is offered: {document}");
    assert_eq!(finalizers(&world, "ConfigMap/db"), json!([HOLD]));
    let text = world.cascade(&["release", "cm/db"]).expect(4);
    assert!(text.stdout.contains("not before the backup"), "{}", text.stdout);
    assert!(!format!("{}{}", text.stdout, text.stderr).contains("--confirm"), "{text:?}");
    // The way out that is offered instead: what refuses is repaired. Then it is removed.
    world.kubectl().run(&["delete", "validatingwebhookconfiguration", &name]).unwrap();
    let mut done = None;
    world.until("the webhook is forgotten", || {
        let digest = release(&world, &["cm/db"]).json()["digest"].as_str().unwrap_or_default().to_owned();
        let run = release(&world, &["cm/db", "--confirm", &digest]);
        let is_done = run.code == 0;
        done = Some(run);
        is_done
    });
    assert_eq!(done.unwrap().json()["applied"], true);
    world.gone("ConfigMap/db");
}

#[test]
fn a_missing_right_is_an_error_in_the_servers_words() {
    let world = World::new("release-rights");
    held(&world, "db", &[HOLD]);
    world.create(
        "Role",
        json!({ "metadata": { "name": "reader" },
                "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }] }),
    );
    let user = "limited";
    world.create(
        "RoleBinding",
        json!({ "metadata": { "name": "reader" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
                "subjects": [{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }] }),
    );
    let refused = world.cascade_as(user, &["release", "cm/db", "-o", "json"]).expect(1);
    assert_eq!(refused.stdout, "");
    assert!(refused.stderr.contains("cannot patch resource"), "{}", refused.stderr);
}

#[test]
fn one_object_at_a_time() {
    let world = World::new("release-one");
    for name in ["a", "b"] {
        world.create(
            "ConfigMap",
            json!({ "metadata": { "name": name, "labels": { "app": "x" }, "finalizers": [HOLD] } }),
        );
    }
    for arguments in [&["cm", "a", "b"][..], &["cm", "-l", "app=x"]] {
        let usage = release(&world, arguments).expect(2);
        assert_eq!(usage.stdout, "");
        assert!(usage.stderr.contains("takes one object"), "{}", usage.stderr);
    }
    release(&world, &["cm"]).expect(2);
    release(&world, &["cm/none"]).expect(1);
    let nothing = release(&world, &["cm", "-l", "app=none"]).expect(0);
    assert_eq!(nothing.json()["target"], Value::Null);
    assert!(nothing.stderr.contains("No resources found"));
}

#[test]
fn the_name_typed_on_a_terminal_confirms_and_nothing_else_does() {
    let world = World::new("release-typed");
    held(&world, "db", &[HOLD]);
    let prompt = "type db to confirm";
    for typed in ["y\n", "yes\n", "DB\n", "\n"] {
        let run = world.typed(&["release", "cm/db"], prompt, typed).expect(4);
        assert!(run.stdout.contains("the name was not typed"), "{}", run.stdout);
    }
    world.typed(&["release", "cm/db"], prompt, "\u{3}").expect(130);
    let interrupted = world.typed(&["release", "cm/db", "-o", "json"], prompt, "\u{3}").expect(130);
    assert!(interrupted.stdout.contains("\"applied\": false"), "{}", interrupted.stdout);
    assert_eq!(finalizers(&world, "ConfigMap/db"), json!([HOLD]));
    // What changes while somebody types is not what was shown; a new status would not matter.
    world.thing("ConfigMap", "live", &[], &[HOLD]);
    let changed = world.typed_after(&["release", "cm/live"], "type live to confirm", || {
        world.delete_raw("ConfigMap/live", &json!({}));
        "live\n"
    });
    let changed = changed.expect(4);
    assert!(changed.stdout.contains("is no longer as it was looked at"), "{}", changed.stdout);
    assert_eq!(finalizers(&world, "ConfigMap/live"), json!([HOLD]));
    let run = world.typed_after(&["release", "cm/db"], prompt, || {
        world.patch("ConfigMap/db", &json!({ "data": { "status": "of no matter" } }));
        "db\n"
    });
    let run = run.expect(0);
    // The question is wrapped to the terminal, each word with a style of its own.
    let plain = run.stdout.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("Remove {HOLD} from ConfigMap/db in namespace")), "{}", run.stdout);
    assert!(run.stdout.contains("and ConfigMap/db is gone"), "{}", run.stdout);
    world.gone("ConfigMap/db");
}

#[test]
fn a_finalizer_that_its_controller_puts_back_is_told() {
    let world = World::new("release-back");
    world.thing("ConfigMap", "db", &[], &[HOLD]);
    let name = format!("{}.example.test", world.namespace);
    let back = Webhook::start(|request| {
        // Only the real removal: a dry run passes, as with a controller that acts afterwards.
        if request["dryRun"] == true || !request["object"]["metadata"]["finalizers"].is_null() {
            return webhook_allow();
        }
        control_plane::Decision::Patch(json!([
            { "op": "add", "path": "/metadata/finalizers", "value": [HOLD] }
        ]))
    })
    .unwrap();
    let configuration = back.mutating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    world.kubectl().apply(&configuration.to_string()).unwrap();
    world.until("the webhook is asked", || {
        world.patch(
            "ConfigMap/db",
            &json!({ "metadata": { "annotations": { "calls": back.calls().to_string() } } }),
        );
        back.calls() > 0
    });
    let digest = release(&world, &["cm/db"]).expect(4).json()["digest"].clone();
    let run = release(&world, &["cm/db", "--confirm", digest.as_str().unwrap()]).expect(3);
    assert!(run.stderr.contains("again"), "{}", run.stderr);
    assert_eq!(run.json()["applied"], true);
    assert_eq!(names(&run.json()["after"]["objects"]), ["ConfigMap/db"]);
}

fn webhook_allow() -> control_plane::Decision {
    control_plane::Decision::Allow
}
