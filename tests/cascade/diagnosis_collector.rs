//! The collector itself: down, without rights, alive. On a control plane of its own, since its servers are stopped.

use control_plane::{Component, ControlPlane, Options};
use serde_json::{Value, json};

use crate::diagnosis::{
    FOREGROUND, ORPHAN, assert_evidence, assert_finding, commands, delete, diagnose, grant, only, own_plane,
    paste,
};
use crate::support::World;

#[test]
fn a_collector_that_is_down_and_one_without_rights() {
    let plane = own_plane(Options { fast_lease: true, ..Options::default() });
    if plane.is_external() {
        return;
    }
    let world = World::on(plane, "down");
    for name in ["fg", "bg", "or", "canary", "live"] {
        world.thing("ConfigMap", name, &[], &[]);
        world.thing("Secret", name, &[&format!("ConfigMap/{name}!")], &[]);
    }
    world.thing("ConfigMap", "alone", &[], &[]);
    grant(&world, "edit", "delete");
    plane.stop(Component::ControllerManager).unwrap();

    // Foreground: the dependent is untouched, the owner waits for it.
    delete(&world, "ConfigMap/fg", FOREGROUND);
    let document = diagnose(&world, &["cm/fg"], 3);
    let finding = only(&document);
    assert_finding(finding, "collector-down", "proven", &["ConfigMap/fg", "Secret/fg"]);
    // Who may not read the Lease nor act as the collector cannot know; nobody is accused.
    let run = world.cascade_as("limited", &["diagnose", "cm/fg", "--observe", "1s", "-o", "json"]);
    let limited = run.expect(3).json();
    assert_finding(only(&limited), "collector-down", "unknown", &["ConfigMap/fg", "Secret/fg"]);
    assert!(limited["unchecked"].to_string().contains("kube-controller-manager"), "{limited:#}");
    // Orphan: the dependent keeps its reference.
    delete(&world, "ConfigMap/or", ORPHAN);
    let document = diagnose(&world, &["cm/or"], 3);
    assert_finding(only(&document), "collector-down", "proven", &["ConfigMap/or", "Secret/or"]);
    // No dependent at all.
    delete(&world, "ConfigMap/alone", FOREGROUND);
    let document = diagnose(&world, &["cm/alone"], 3);
    let alone = only(&document);
    assert_finding(alone, "collector-down", "proven", &["ConfigMap/alone"]);
    // Background: the owner goes at once, the dependent is never collected: reported, not success.
    let run = world.cascade(&[
        "delete",
        "cm/bg",
        "--yes",
        "--timeout",
        "8s",
        "--stall-timeout",
        "5s",
        "-o",
        "json",
    ]);
    let result = run.expect(3).json();
    assert_finding(only(&result), "collector-down", "proven", &["ConfigMap/bg", "Secret/bg"]);
    // What is not deleted yet would leave its dependent behind.
    let document = diagnose(&world, &["cm/live"], 0);
    assert_finding(only(&document), "collector-down", "proven", &["ConfigMap/live", "Secret/live"]);
    assert_eq!(document["objects"][0]["dryRun"], "accepted");
    // The canary is not collected either, and nothing of it stays.
    delete(&world, "ConfigMap/canary", FOREGROUND);
    let run = world.cascade(&["diagnose", "cm/canary", "--observe", "1s", "--probe", "canary", "-o", "json"]);
    assert_finding(
        only(&run.expect(3).json()),
        "collector-down",
        "proven",
        &["ConfigMap/canary", "Secret/canary"],
    );
    let maps = world.kubectl().run(&["-n", &world.namespace, "get", "cm", "-o", "name"]).unwrap();
    assert!(!maps.contains("kubectl-cascade-canary"), "{maps}");
    // The controller of Namespaces is down along with it.
    let other = World::on(plane, "down-ns");
    let name = format!("ns/{}", other.namespace);
    other.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    let document = diagnose(&world, &[&name], 3);
    let namespace = format!("Namespace/{}", other.namespace);
    assert_finding(only(&document), "namespace-controller-down", "proven", &[&namespace]);
    // The way out that needs no collector.
    paste(&world, commands(alone)[0]).expect(0);
    world.gone("ConfigMap/alone");

    // The known repair.
    plane.start_component(Component::ControllerManager).unwrap();
    for name in ["ConfigMap/fg", "ConfigMap/or", "Secret/fg", "Secret/bg", "ConfigMap/canary"] {
        world.gone(name);
    }
    assert!(world.get("Secret/or").is_some());

    without_rights(plane, &world);
}

fn without_rights(plane: &'static ControlPlane, world: &World) {
    let binding = "system:controller:generic-garbage-collector";
    let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{binding}");
    let mut saved: Value = plane.api().unwrap().get(&path).unwrap().unwrap();
    world.thing("ConfigMap", "f", &[], &[]);
    world.kubectl().run(&["delete", "clusterrolebinding", binding]).unwrap();
    world.until("the right is gone", || {
        let user = "system:serviceaccount:kube-system:generic-garbage-collector";
        let arguments = ["-n", &world.namespace, "auth", "can-i", "patch", "configmaps", "--as", user];
        world.kubectl().run(&arguments).is_err()
    });
    delete(world, "ConfigMap/f", FOREGROUND);
    let document = diagnose(world, &["cm/f"], 3);
    let finding = only(&document);
    assert_finding(finding, "collector-forbidden", "proven", &["ConfigMap/f"]);
    assert_evidence(finding, "cannot patch resource \"configmaps\"");
    // After failing for so long, the next try is as far away; the canary makes the collector look again.
    std::thread::sleep(std::time::Duration::from_secs(12));
    saved["metadata"] = json!({ "name": binding });
    world.kubectl().run_with_input(&["create", "-f", "-"], &saved.to_string()).unwrap();
    let arguments =
        ["diagnose", "cm/f", "--ignore-not-found", "--observe", "0s", "--probe", "canary", "-o", "json"];
    world.until("the collector has collected a canary", || {
        let document = world.cascade(&arguments).json();
        let Some(finding) = document["findings"].get(0) else { return true };
        if finding["cause"] == "collector-down" {
            return false;
        }
        assert_finding(finding, "collector-backoff", "proven", &["ConfigMap/f"]);
        true
    });
    world.gone("ConfigMap/f");
}
