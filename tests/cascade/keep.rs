//! `delete --keep`: what is saved, what is refused, and that nothing is deleted where it cannot be saved.

use control_plane::{Webhook, webhook};
use serde_json::{Value, json};

use crate::delete::{allow_again, refuse};
use crate::diagnosis::Registered;
use crate::support::{HOLD, World, entry, names};

/// `owner` with `kept` (and `below` it) and `goes`.
fn family(world: &World, blocking: &str) {
    world.thing("ConfigMap", "owner", &[], &[]);
    world.thing("Secret", "kept", &[&format!("ConfigMap/owner{blocking}")], &[]);
    world.thing("Secret", "below", &["Secret/kept"], &[]);
    world.thing("Secret", "goes", &[&format!("ConfigMap/owner{blocking}")], &[]);
}

fn owners(world: &World, name: &str) -> Value {
    world.get(name).unwrap()["metadata"]["ownerReferences"].clone()
}

#[test]
fn what_is_kept_survives_with_all_below_it_and_the_rest_goes() {
    for (policy, help) in
        [("background", ""), ("foreground", ""), ("background", "--assist"), ("foreground", "--assist")]
    {
        let world = World::new("keep");
        family(&world, "!");
        let uid = world.uid("Secret/kept");
        let mut arguments =
            vec!["delete", "cm/owner", "--keep", "secret/kept", "--policy", policy, "--yes", "-o", "json"];
        arguments.extend(Some(help).filter(|help| !help.is_empty()));
        let result = world.cascade(&arguments).expect(0).json();
        assert_eq!(result["outcome"], "complete");
        assert_eq!(names(&result["deleted"]), ["ConfigMap/owner", "Secret/goes"]);
        assert_eq!(names(&result["orphaned"]), ["Secret/kept"]);
        assert_eq!(names(&result["kept"]), ["Secret/below"]);
        assert_eq!(result["unexpected"], json!([]));
        assert_eq!(world.uid("Secret/kept"), uid);
        assert_eq!(owners(&world, "Secret/kept"), Value::Null);
        assert_eq!(owners(&world, "Secret/below")[0]["name"], "kept");
        assert!(world.get("Secret/goes").is_none() && world.get("ConfigMap/owner").is_none());
    }
}

#[test]
fn what_waits_for_an_owner_that_is_held_can_still_be_saved() {
    let world = World::new("keep-waits");
    world.thing("ConfigMap", "owner", &[], &[HOLD]);
    world.thing("Secret", "kept", &["ConfigMap/owner"], &[]);
    world.thing("Secret", "goes", &["ConfigMap/owner"], &[]);
    world.delete_raw("ConfigMap/owner", &json!({ "propagationPolicy": "Background" }));
    let arguments =
        ["delete", "cm/owner", "--keep", "secret/kept", "--yes", "--stall-timeout", "2s", "-o", "json"];
    let result = world.cascade(&arguments).expect(3).json();
    assert_eq!(names(&result["orphaned"]), ["Secret/kept"]);
    assert_eq!(names(&result["remaining"]), ["ConfigMap/owner", "Secret/goes"]);
    world.free("ConfigMap/owner");
    world.gone("Secret/goes");
    assert_eq!(owners(&world, "Secret/kept"), Value::Null);
}

#[test]
fn a_dry_run_shows_what_would_be_saved_and_changes_nothing() {
    let world = World::new("keep-dry");
    family(&world, "");
    for mode in ["client", "server"] {
        let arguments =
            ["delete", "cm/owner", "--keep", "secret kept", &format!("--dry-run={mode}"), "-o", "json"];
        let plan = world.cascade(&arguments).expect(0).json();
        assert_eq!(entry(&plan["objects"], "Secret/kept")["fate"], "orphaned");
        assert_eq!(entry(&plan["objects"], "Secret/below")["fate"], "kept");
        assert_eq!(entry(&plan["objects"], "Secret/goes")["fate"], "deleted");
        assert_eq!(owners(&world, "Secret/kept")[0]["name"], "owner");
    }
    let text = world.cascade(&["delete", "cm/owner", "--keep", "secret/kept", "--dry-run"]).expect(0);
    assert!(text.stdout.contains("orphaned: --keep: loses its owner first"), "{}", text.stdout);
    assert!(text.stdout.contains("2 objects will be deleted"), "{}", text.stdout);
}

#[test]
fn several_are_kept_and_only_references_to_what_goes_are_removed() {
    let world = World::new("keep-several");
    world.thing("ConfigMap", "owner", &[], &[]);
    world.thing("ConfigMap", "alive", &[], &[]);
    world.thing("ConfigMap", "middle", &["ConfigMap/owner"], &[]);
    world.thing("Secret", "a", &["ConfigMap/owner", "ConfigMap/middle"], &[]);
    world.thing("Secret", "b", &["ConfigMap/middle!"], &[]);
    world.thing("Secret", "shared", &["ConfigMap/owner", "ConfigMap/alive"], &[]);
    let arguments = ["delete", "cm/owner", "--keep", "secret/a", "--keep", "secret/b", "--yes", "-o", "json"];
    let result = world.cascade(&arguments).expect(0).json();
    assert_eq!(names(&result["deleted"]), ["ConfigMap/middle", "ConfigMap/owner"]);
    assert_eq!(names(&result["orphaned"]), ["Secret/a", "Secret/b"]);
    for name in ["Secret/a", "Secret/b"] {
        assert_eq!(owners(&world, name), Value::Null);
    }
    // The collector does that, not we.
    world.until("the collector has removed the dangling reference", || {
        owners(&world, "Secret/shared").as_array().is_some_and(|owners| owners.len() == 1)
    });
    // One that the collector keeps by itself need not be kept.
    world.thing("ConfigMap", "again", &[], &[]);
    world.thing("Secret", "both", &["ConfigMap/again", "ConfigMap/alive"], &[]);
    let refused = world.cascade(&["delete", "cm/again", "--keep", "secret/both", "--yes"]).expect(2);
    assert!(refused.stderr.contains("kept: owned by ConfigMap/alive"), "{}", refused.stderr);
    assert!(world.get("ConfigMap/again").is_some());
}

#[test]
fn what_cannot_be_saved_is_a_usage_error_and_nothing_is_deleted() {
    let world = World::new("keep-usage");
    family(&world, "");
    world.thing("Secret", "stranger", &[], &[]);
    world.thing("Secret", "going", &["ConfigMap/owner"], &[HOLD]);
    world.delete_raw("Secret/going", &json!({}));
    let cases = [
        (&["cm/owner", "--keep", "secret/stranger"][..], 2, "does not depend on what is to be deleted"),
        (&["cm/owner", "--keep", "cm/owner"], 2, "that is what is to be deleted"),
        (&["cm/owner", "--keep", "secret/going"], 2, "being deleted already"),
        (&["cm/owner", "--keep", "secret/kept", "--policy", "orphan"], 2, "would not take it (orphaned"),
        (&["cm/owner", "--keep", "secret"], 2, "--keep \"secret\": a type was given"),
        (&["cm/owner", "--keep", ""], 2, "--keep \"\": "),
        (&["cm/owner", "--keep", "secret/none"], 1, "\"none\" not found"),
        (&["cm/owner", "--keep", "nonsense/none"], 1, "nonsense"),
    ];
    for (arguments, code, words) in cases {
        let run = world.cascade(&[&["delete"], arguments, &["--yes", "-o", "json"]].concat()).expect(code);
        assert_eq!(run.stdout, "", "{arguments:?}");
        assert!(run.stderr.contains(words), "{arguments:?}: {}", run.stderr);
    }
    let namespace = ["delete", "ns", &world.namespace, "--keep", "secret/kept", "--yes"];
    let run = world.cascade(&namespace).expect(2);
    assert!(run.stderr.contains("--keep cannot save Secret/kept"), "{}", run.stderr);
    for name in ["ConfigMap/owner", "Secret/kept", "Secret/goes"] {
        assert_eq!(world.get(name).unwrap()["metadata"]["deletionTimestamp"], Value::Null);
    }
    assert_eq!(owners(&world, "Secret/kept")[0]["name"], "owner");
}

#[test]
fn a_refused_patch_stops_everything_before_the_delete() {
    let world = World::new("keep-refused");
    family(&world, "!");
    world.thing("ConfigMap", "other", &["ConfigMap/owner"], &[]);
    let name = format!("{}.example.test", world.namespace);
    let denying = Webhook::start(webhook::deny("references are sacred")).unwrap();
    let registered =
        Registered::new(&world, &[denying.validating(&name, &world.namespace, &["UPDATE"], &["secrets"])]);
    registered.until_update_refused("secret/kept");
    let keep = ["delete", "cm/owner", "--keep", "cm/other", "--keep", "secret/kept", "-o", "json"];
    let run = world.cascade(&[&keep[..], &["--yes"]].concat()).expect(4);
    let result = run.json();
    assert_eq!(result["outcome"], "refused");
    assert_eq!(names(&result["remaining"]), ["ConfigMap/owner", "Secret/goes"]);
    let finding = &result["findings"][0];
    assert_eq!((&finding["cause"], &finding["verdict"]), (&json!("admission-denied"), &json!("proven")));
    assert_eq!(finding["object"]["name"], "kept");
    assert_eq!(finding["by"]["webhook"], json!(name));
    assert!(finding["evidence"][0]["text"].as_str().unwrap().contains("references are sacred"));
    assert!(run.stderr.contains("nothing was deleted: Secret/kept cannot be kept"), "{}", run.stderr);
    // All patches are tried before the first is sent: the other one has not lost its reference.
    assert_eq!(owners(&world, "ConfigMap/other")[0]["name"], "owner");
    assert_eq!(owners(&world, "Secret/kept")[0]["name"], "owner");
    assert_eq!(world.get("ConfigMap/owner").unwrap()["metadata"]["deletionTimestamp"], Value::Null);

    let plan = world.cascade(&[&keep[..], &["--dry-run=server"]].concat()).expect(4).json();
    let warning = &plan["warnings"][0];
    assert_eq!(warning["code"], "admission-denied");
    assert_eq!(warning["object"]["name"], "kept");
    assert!(warning["message"].as_str().unwrap().contains("references are sacred"));
    world.cascade(&[&keep[..], &["--dry-run"]].concat()).expect(0);

    registered.remove();
    world.until("the webhook is forgotten", || {
        let arguments =
            ["-n", &world.namespace, "annotate", "--dry-run=server", "--overwrite", "secret/kept", "probe=1"];
        world.kubectl().run(&arguments).is_ok()
    });
    let result = world.cascade(&[&keep[..], &["--yes"]].concat()).expect(0).json();
    assert_eq!(names(&result["orphaned"]), ["ConfigMap/other", "Secret/kept"]);
}

#[test]
fn a_missing_right_to_patch_is_an_error_and_nothing_is_deleted() {
    let world = World::new("keep-rights");
    family(&world, "");
    world.create(
        "Role",
        json!({ "metadata": { "name": "deleter" }, "rules": [{
            "apiGroups": [""], "resources": ["configmaps", "secrets"],
            "verbs": ["get", "list", "watch", "delete"],
        }] }),
    );
    world.create(
        "RoleBinding",
        json!({ "metadata": { "name": "deleter" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deleter" },
                "subjects": [{ "kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" }] }),
    );
    let arguments = ["delete", "cm/owner", "--keep", "secret/kept", "--yes", "-o", "json"];
    let run = world.cascade_as("limited", &arguments).expect(1);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("cannot patch resource \"secrets\""), "{}", run.stderr);
    assert_eq!(world.get("ConfigMap/owner").unwrap()["metadata"]["deletionTimestamp"], Value::Null);
}

#[test]
fn what_its_controller_would_take_back_at_once_cannot_be_kept() {
    let world = World::new("keep-adopted");
    let labels = json!({ "app": "web" });
    world.create(
        "ReplicaSet",
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
                },
            },
        }),
    );
    world.until("the Pod is there", || pods(&world).len() == 1);
    let pod = format!("pod/{}", pods(&world)[0]);
    let run = world.cascade(&["delete", "rs/web", "--keep", &pod, "--yes"]).expect(2);
    assert!(run.stderr.contains("ReplicaSet/web controls it"), "{}", run.stderr);
    assert!(run.stderr.contains("change the labels"), "{}", run.stderr);
    assert_eq!(owners(&world, &pod.replace("pod/", "Pod/"))[0]["name"], "web");
    // What the hint says works: without the label it is let go, and its ReplicaSet goes without it.
    world.kubectl().run(&["-n", &world.namespace, "label", &pod, "app-"]).unwrap();
    world.until("its ReplicaSet lets it go and makes another", || pods(&world).len() == 2);
    let uid = world.uid(&pod.replace("pod/", "Pod/"));
    world.cascade(&["delete", "rs/web", "--yes"]).expect(0);
    assert_eq!(world.uid(&pod.replace("pod/", "Pod/")), uid);
}

/// A Job whose Pod nobody runs, or (`simulated`) one that is finished soon.
fn job(world: &World, node: &str) {
    world.create(
        "Job",
        json!({
            "metadata": { "name": "work" },
            "spec": { "template": { "spec": {
                "restartPolicy": "Never", "nodeSelector": { "kubernetes.io/hostname": node },
                "containers": [{ "name": "main", "image": "example.test/image:1" }],
            } } },
        }),
    );
    world.until("the Pod is there", || pods(world).len() == 1);
}

fn pods(world: &World) -> Vec<String> {
    let list = world.kubectl().get(&["pods", "-n", &world.namespace]).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_controller_takes_back_stops_everything_before_the_delete() {
    let world = World::new("keep-taken-back");
    job(&world, "nowhere");
    let name = pods(&world)[0].clone();
    let arguments = ["delete", "job/work", "--keep", &format!("pod/{name}"), "--yes", "-o", "json"];
    let plan = world.cascade(&[&arguments[..], &["--dry-run"]].concat()).expect(0).json();
    let codes: Vec<&Value> =
        plan["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]).collect();
    assert!(codes.contains(&&json!("may-be-adopted-again")), "{codes:?}");
    let run = world.cascade(&arguments).expect(4);
    assert_eq!(run.json()["outcome"], "refused");
    assert!(run.stderr.contains("Job/work again: its controller made it its own again"), "{}", run.stderr);
    assert!(run.stderr.contains("change those labels"), "{}", run.stderr);
    assert_eq!(world.get("Job/work").unwrap()["metadata"]["deletionTimestamp"], Value::Null);
    assert!(world.get(&format!("Pod/{name}")).is_some());
}

#[test]
fn the_pod_of_a_finished_job_is_kept_with_its_logs() {
    let world = World::new("keep-finished");
    job(&world, "simulated");
    world.until("the Job is finished", || {
        world.get("Job/work").unwrap()["status"]["succeeded"] == 1
            && world.get("Job/work").unwrap()["status"]["completionTime"].is_string()
    });
    let name = pods(&world)[0].clone();
    let arguments = ["delete", "job/work", "--keep", &format!("pod/{name}"), "--yes", "-o", "json"];
    let result = world.cascade(&arguments).expect(0).json();
    assert_eq!(names(&result["deleted"]), ["Job/work"]);
    assert_eq!(names(&result["orphaned"]), [format!("Pod/{name}")]);
    assert_eq!(result["unexpected"], json!([]));
    assert_eq!(owners(&world, &format!("Pod/{name}")), Value::Null);
}

#[test]
fn nothing_is_cut_loose_where_the_delete_itself_would_be_refused() {
    let world = World::new("keep-refused");
    family(&world, "!");
    let policy = refuse(&world, "DELETE", "", "configmaps", "ConfigMaps stay");
    let dry = ["delete", "cm/owner", "--dry-run=server", "-o", "json"];
    world.until("the policy is in force", || world.cascade(&dry).code == 4);
    let run = world.cascade(&["delete", "cm/owner", "--keep", "secret/kept", "--yes"]).expect(4);
    assert!(run.stderr.contains("nothing was deleted or changed"), "{}", run.stderr);
    assert!(run.stderr.contains("ConfigMaps stay"), "{}", run.stderr);
    let keep = ["delete", "cm/owner", "--keep", "secret/kept", "--yes", "-o", "json"];
    let result = world.cascade(&keep).expect(4).json();
    assert_eq!(result["findings"][0]["cause"], "admission-denied", "{result:#}");
    assert!(result["findings"][0]["by"]["policy"].is_string(), "{result:#}");
    assert_eq!(owners(&world, "Secret/kept")[0]["name"], "owner");
    allow_again(&world, &policy);
}
