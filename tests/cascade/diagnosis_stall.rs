//! A delete that stalls says the same as `diagnose`, with the forecast's doomed objects explained, too.

use serde_json::{Value, json};

use crate::conduct::{end, start};
use crate::diagnosis::{
    BACKGROUND, FOREGROUND, STALL, assert_finding, commands, delete, only, paste, until_held,
};
use crate::support::{HOLD, World, names};

#[track_caller]
fn stalled(world: &World, arguments: &[&str]) -> Value {
    let mut all = vec!["delete"];
    all.extend_from_slice(arguments);
    all.extend_from_slice(&["--yes", "--stall-timeout", STALL, "-o", "json"]);
    let result = world.cascade(&all).expect(3).json();
    assert_eq!(result["outcome"], "stalled", "{result:#}");
    result
}

#[test]
fn a_background_delete_that_stops_in_the_middle() {
    let world = World::new("stall-middle");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "mid", &["ConfigMap/top!"], &[HOLD]);
    world.thing("Secret", "leaf", &["ConfigMap/mid!"], &[]);
    let result = stalled(&world, &["cm/top"]);
    let finding = only(&result);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/top", "ConfigMap/mid"]);
    assert_eq!(finding["also"], json!(["dependents-wait-for-owner"]));
    assert_eq!(names(&result["remaining"]), ["ConfigMap/mid", "Secret/leaf"]);
    let foreground = commands(finding).into_iter().find(|command| command.contains("foreground")).unwrap();
    paste(&world, foreground);
    world.gone("Secret/leaf");
}

#[test]
fn a_foreground_delete_below_which_several_things_are_wrong() {
    let world = World::new("stall-several");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/top!"], &[HOLD]);
    let owner = world.owner("ConfigMap/top!");
    let bad = json!({ "apiVersion": "gone.test/v1", "kind": "Thing", "name": "t", "uid": "no-such-uid" });
    world.create("Secret", json!({ "metadata": { "name": "bad", "ownerReferences": [owner, bad] } }));
    let result = stalled(&world, &["cm/top", "--policy", "foreground"]);
    let findings = result["findings"].as_array().unwrap();
    let causes: Vec<&str> = findings.iter().filter_map(|finding| finding["cause"].as_str()).collect();
    assert_eq!(causes, ["owner-kind-unserved", "finalizer-held"], "{result:#}");
}

#[test]
fn a_cycle_below_a_deleted_target_is_leaked() {
    let world = World::new("stall-cycle");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "a", &["ConfigMap/top!"], &[]);
    world.thing("ConfigMap", "b", &["ConfigMap/top!", "ConfigMap/a!"], &[]);
    let (top, b) = (world.owner("ConfigMap/top!"), world.owner("ConfigMap/b!"));
    world.patch("ConfigMap/a", &json!({ "metadata": { "ownerReferences": [top, b] } }));
    let run = world.cascade(&["delete", "cm/top", "--yes", "--stall-timeout", "5s", "-o", "json"]).expect(0);
    assert_eq!(names(&run.json()["leaked"]), ["ConfigMap/a", "ConfigMap/b"]);
    let orphans = world.cascade(&["orphans", "-o", "json"]).expect(0).json();
    for orphan in orphans["objects"].as_array().unwrap() {
        assert_eq!((&orphan["cause"], &orphan["of"]), (&json!("ownership-cycle"), &Value::Null));
    }
    // With one gone the other has no living owner left.
    paste(&world, orphans["objects"][0]["command"].as_str().unwrap()).expect(0);
    world.gone("ConfigMap/a");
    world.gone("ConfigMap/b");
}

#[test]
fn a_replica_set_comes_back_under_its_deployment() {
    let world = World::new("comes-back");
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "c", "image": "example.test/i:1" }] },
                },
            },
        }),
    );
    let list = || {
        let arguments = ["-n", &world.namespace, "get", "rs", "-o", "jsonpath={.items[*].metadata.name}"];
        world.kubectl().run(&arguments).unwrap()
    };
    // A Deployment controller that comes late makes it anew when nobody looks any more.
    let mut result = Value::Null;
    world.until("it comes back while we look", || {
        world.until("there is a ReplicaSet", || !list().is_empty());
        let target = format!("rs/{}", list());
        let delete = ["delete", &target, "--policy", "foreground", "--yes", "--timeout", "60s", "-o", "json"];
        result = world.cascade(&delete).expect(0).json();
        result["findings"] != json!([])
    });
    let finding = only(&result);
    assert_eq!(finding["cause"], "recreated-by-owner", "{result:#}");
    assert!(finding["summary"].as_str().unwrap().contains("Deployment/web"), "{result:#}");
}

#[test]
fn a_diamond_is_explained_once() {
    let world = World::new("diamond");
    world.thing("ConfigMap", "top", &[], &[]);
    world.thing("ConfigMap", "x", &["ConfigMap/top!"], &[]);
    world.thing("ConfigMap", "y", &["ConfigMap/top!"], &[]);
    world.thing("Secret", "z", &["ConfigMap/x!", "ConfigMap/y!"], &[HOLD]);
    delete(&world, "ConfigMap/top", FOREGROUND);
    until_held(&world, "Secret/z", &[HOLD]);
    let document = crate::diagnosis::diagnose(&world, &["cm/top"], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/top", "ConfigMap/x", "Secret/z"]);
}

/// One of two moves when the time is over: what holds the other is said all the same.
#[test]
fn of_two_targets_the_one_that_does_not_move_is_explained() {
    let world = World::new("one-moves");
    world.thing("ConfigMap", "large", &[], &[]);
    world.thing("ConfigMap", "small", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/small!"], &[HOLD]);
    // That the collector marks it would be a move.
    delete(&world, "Secret/held", FOREGROUND);
    until_held(&world, "Secret/held", &[HOLD]);
    for number in 0..100 {
        world.thing("Secret", &format!("s-{number}"), &["ConfigMap/large!"], &[HOLD]);
        delete(&world, &format!("Secret/s-{number}"), BACKGROUND);
    }
    let arguments = [
        "delete",
        "cm",
        "large",
        "small",
        "--policy",
        "foreground",
        "--yes",
        "--timeout",
        "8s",
        "-o",
        "json",
    ];
    let mut child = start(&world, None, &arguments);
    // A controller that frees a few a second.
    for number in 0..100 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        world.free(&format!("Secret/s-{number}"));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let result = end(child).expect(3).json();
    assert_eq!(result["outcome"], "timed-out", "{result:#}");
    let of = |name: &str| {
        let findings = result["findings"].as_array().unwrap().iter();
        let found = findings.filter(|finding| finding["chain"][0]["name"] == name);
        found.map(|finding| finding["cause"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((of("large"), of("small")), (vec!["progressing"], vec!["finalizer-held"]), "{result:#}");
    world.free("Secret/held");
}
