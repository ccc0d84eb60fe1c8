//! What the objects themselves state: finalizers, nodes, references; and what must not be called stuck.

use control_plane::eventually;
use serde_json::json;

use crate::diagnosis::{
    BACKGROUND, FOREGROUND, assert_evidence, assert_finding, commands, delete, diagnose, only, paste,
    until_held, until_overdue,
};
use crate::support::{HOLD, PATIENCE, World, entry};

#[test]
fn a_finalizer_that_nobody_serves_and_the_way_out() {
    let world = World::new("held");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["by"]["finalizer"], HOLD);
    assert!(finding["by"]["manager"].is_string(), "{finding:#}");
    assert_evidence(finding, "accepted");
    let last = *commands(finding).last().unwrap();
    paste(&world, last).expect(0);
    world.gone("ConfigMap/c");
}

#[test]
fn a_held_dependent_blocks_its_foreground_owner_which_background_frees() {
    let world = World::new("held-below");
    world.pod("build-1", None, &[], &[]);
    world.thing("Secret", "s", &["Pod/build-1!"], &[HOLD]);
    delete(&world, "Pod/build-1", FOREGROUND);
    until_held(&world, "Secret/s", &[HOLD]);
    until_held(&world, "Pod/build-1", &["foregroundDeletion"]);
    let document = diagnose(&world, &["pod/build-1"], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["Pod/build-1", "Secret/s"]);
    // For a pipe: what holds, not what waits for it.
    let names = world.cascade(&["diagnose", "pod/build-1", "--observe", "0s", "-o", "name"]).expect(3);
    assert_eq!(names.stdout, "secret/s\n");
    // What ends the wait for good stands first.
    let second = &finding["remedies"][1];
    assert!(second["risk"].as_str().unwrap().contains("Secret/s stays Terminating"), "{finding:#}");
    paste(&world, commands(finding)[0]);
    world.gone("Pod/build-1");
    until_held(&world, "Secret/s", &[HOLD]);
}

#[test]
fn background_stops_at_a_held_owner_and_foreground_takes_its_dependents() {
    let world = World::new("middle");
    world.thing("ConfigMap", "mid", &[], &[HOLD]);
    world.thing("Secret", "leaf", &["ConfigMap/mid!"], &[]);
    delete(&world, "ConfigMap/mid", BACKGROUND);
    let document = diagnose(&world, &["cm/mid"], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/mid"]);
    assert_eq!(finding["also"], json!(["dependents-wait-for-owner"]));
    let foreground = commands(finding).into_iter().find(|command| command.contains("foreground")).unwrap();
    paste(&world, foreground);
    world.gone("Secret/leaf");
}

#[test]
fn a_pod_on_a_node_without_a_kubelet() {
    let world = World::new("node");
    let node = world.bare_node();
    world.pod("p", Some(&node), &[], &[]);
    delete(&world, "Pod/p", r#"{"gracePeriodSeconds":600}"#);
    let document = diagnose(&world, &["pod/p"], 0);
    assert_finding(only(&document), "grace-period", "proven", &["Pod/p"]);
    assert_eq!(document["objects"][0]["state"], "waiting");

    world.pod("q", Some(&node), &[], &[]);
    delete(&world, "Pod/q", r#"{"gracePeriodSeconds":1}"#);
    until_overdue(&world, "Pod/q");
    let document = diagnose(&world, &["pod/q"], 3);
    let finding = only(&document);
    assert_finding(finding, "node-unreachable", "proven", &["Pod/q"]);
    assert_eq!(finding["by"]["node"], node.as_str());
    let force = *commands(finding).last().unwrap();
    paste(&world, force).expect(0);
    world.gone("Pod/q");
}

#[test]
fn a_pod_on_a_node_that_does_not_exist_is_left_to_pod_gc() {
    let world = World::new("no-node");
    world.pod("p", Some("no-such-node"), &[], &[]);
    delete(&world, "Pod/p", r#"{"gracePeriodSeconds":30}"#);
    let document = diagnose(&world, &["pod/p"], 0);
    let finding = only(&document);
    assert_finding(finding, "node-missing", "proven", &["Pod/p"]);
    assert_evidence(finding, "not found");
    // It waits for 40 s, and looks every 20 (`pkg/controller/podgc`).
    let long = 3 * PATIENCE;
    eventually("the Pod garbage collector has deleted it", long, || {
        world.get("Pod/p").is_none().then_some(())
    })
    .unwrap();
}

#[test]
fn a_kubelet_that_reports_but_does_not_finish() {
    let world = World::new("kubelet");
    let node = world.bare_node();
    let ready = json!({ "status": { "conditions": [{
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "imitated",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] } });
    let patch = ready.to_string();
    world
        .kubectl()
        .run(&["patch", "node", &node, "--subresource=status", "--type=merge", "-p", &patch])
        .unwrap();
    world.pod("p", Some(&node), &[], &[]);
    delete(&world, "Pod/p", r#"{"gracePeriodSeconds":1}"#);
    until_overdue(&world, "Pod/p");
    let document = diagnose(&world, &["pod/p"], 3);
    let finding = only(&document);
    assert_finding(finding, "kubelet-stuck", "consistent", &["Pod/p"]);
    let last = *commands(finding).last().unwrap();
    assert!(last.contains("--force"), "{finding:#}");
    paste(&world, last);
    world.gone("Pod/p");
}

#[test]
fn an_object_that_owns_itself_is_freed_by_clearing_the_flag() {
    let world = World::new("itself");
    world.thing("ConfigMap", "o", &[], &[]);
    let own = world.owner("ConfigMap/o!");
    world.patch("ConfigMap/o", &json!({ "metadata": { "ownerReferences": [own] } }));
    delete(&world, "ConfigMap/o", FOREGROUND);
    let document = diagnose(&world, &["cm/o"], 3);
    let finding = only(&document);
    assert_finding(finding, "owns-itself", "proven", &["ConfigMap/o"]);
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/o");
}

#[test]
fn a_reference_to_a_kind_that_nobody_serves_blocks_until_the_dependent_is_deleted() {
    let world = World::new("unserved");
    world.thing("ConfigMap", "o", &[], &[]);
    let owner = world.owner("ConfigMap/o!");
    let bad = json!({ "apiVersion": "gone.test/v1", "kind": "Thing", "name": "t", "uid": "no-such-uid" });
    world.create("Secret", json!({ "metadata": { "name": "d", "ownerReferences": [owner, bad] } }));
    delete(&world, "ConfigMap/o", FOREGROUND);
    let document = diagnose(&world, &["cm/o"], 3);
    let finding = only(&document);
    assert_finding(finding, "owner-kind-unserved", "proven", &["ConfigMap/o", "Secret/d"]);
    let remove = commands(finding).into_iter().find(|command| command.contains("cascade delete")).unwrap();
    paste(&world, remove).expect(0);
    world.gone("ConfigMap/o");
}

#[test]
fn a_cluster_scoped_dependent_blocks_a_namespaced_owner() {
    let world = World::new("scope");
    world.thing("ConfigMap", "o", &[], &[]);
    let owner = world.owner("ConfigMap/o!");
    let name = world.namespace.clone();
    world.create(
        "ClusterRole",
        json!({ "metadata": { "name": name, "ownerReferences": [owner] }, "rules": [] }),
    );
    delete(&world, "ConfigMap/o", FOREGROUND);
    let document = diagnose(&world, &["cm/o"], 3);
    let finding = only(&document);
    let role = format!("ClusterRole/{name}");
    assert_finding(finding, "cluster-scoped-dependent", "proven", &["ConfigMap/o", &role]);
    paste(&world, commands(finding)[0]).expect(0);
    // The collector forgot it: only another event on the owner, or background, frees it.
    let background = commands(finding).into_iter().find(|command| command.contains("--policy background"));
    paste(&world, background.unwrap());
    world.gone("ConfigMap/o");
}

#[test]
fn a_blocker_in_another_namespace_is_found() {
    let world = World::new("elsewhere");
    let other = World::new("elsewhere-other");
    world.thing("ConfigMap", "o", &[], &[]);
    let owner = world.owner("ConfigMap/o!");
    other.create(
        "Secret",
        json!({
            "metadata": { "name": "d", "ownerReferences": [owner], "finalizers": [HOLD] },
        }),
    );
    until_held(&other, "Secret/d", &[HOLD]);
    delete(&world, "ConfigMap/o", FOREGROUND);
    let document = diagnose(&world, &["cm/o"], 3);
    let finding = only(&document);
    assert_finding(finding, "cross-namespace-owner", "proven", &["ConfigMap/o", "Secret/d"]);
    assert!(finding["also"].as_array().unwrap().contains(&json!("finalizer-held")), "{finding:#}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/o");
}

#[test]
fn a_claim_that_a_finished_pod_still_names() {
    let world = World::new("claim");
    let node = world.bare_node();
    world.create(
        "PersistentVolumeClaim",
        json!({
            "metadata": { "name": "data" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }),
    );
    world.create(
        "Pod",
        json!({
            "metadata": { "name": "user1" },
            "spec": {
                "nodeName": node,
                "containers": [{ "name": "c", "image": "example.test/i:1" }],
                "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
                "tolerations": [{ "operator": "Exists" }],
            },
        }),
    );
    let done = json!({ "status": { "phase": "Succeeded" } }).to_string();
    world
        .kubectl()
        .run(&[
            "-n",
            &world.namespace,
            "patch",
            "pod",
            "user1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &done,
        ])
        .unwrap();
    delete(&world, "PersistentVolumeClaim/data", BACKGROUND);
    let document = diagnose(&world, &["pvc/data"], 3);
    let finding = only(&document);
    assert_finding(finding, "claim-in-use", "proven", &["PersistentVolumeClaim/data"]);
    assert_eq!(finding["by"]["pod"], "user1");
    // That no volume was found for it does not hold it.
    assert!(!finding["evidence"].to_string().contains("event FailedBinding"), "{finding:#}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("PersistentVolumeClaim/data");
}

#[test]
fn a_service_waits_for_a_cloud_controller_that_is_not_there() {
    let world = World::new("cloud");
    world.create(
        "Service",
        json!({
            "metadata": { "name": "s", "finalizers": ["service.kubernetes.io/load-balancer-cleanup"] },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        }),
    );
    delete(&world, "Service/s", BACKGROUND);
    let document = diagnose(&world, &["svc/s"], 3);
    let finding = only(&document);
    assert_finding(finding, "load-balancer-cleanup", "proven", &["Service/s"]);
    let last = finding["remedies"].as_array().unwrap().last().unwrap();
    assert!(last["risk"].as_str().unwrap().contains("cost money"), "{finding:#}");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.gone("Service/s");
}

#[test]
fn a_namespace_waits_for_a_pod_while_its_conditions_say_that_all_is_gone() {
    let world = World::new("ns-pods");
    world.pod("p", None, &[], &[HOLD]);
    world.thing("ConfigMap", "behind", &[], &[]);
    let name = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    until_held(&world, "Pod/p", &[HOLD]);
    let document = diagnose(&world, &[&name], 3);
    let namespace = format!("Namespace/{}", world.namespace);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &[&namespace, "Pod/p"]);
    assert!(finding["also"].as_array().unwrap().contains(&json!("namespace-waits-for-pods")), "{finding:#}");
    // Without a target: everything Terminating, and the Namespace itself.
    let everything = diagnose(&world, &[], 3);
    assert_eq!(entry(&everything["objects"], "Pod/p")["state"], "stuck");
    assert_eq!(entry(&everything["objects"], &namespace)["state"], "stuck");
    assert_eq!(everything["findings"].as_array().unwrap().len(), 1, "{everything:#}");
    world.free("Pod/p");
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

#[test]
fn a_namespace_that_ends_by_itself_is_not_stuck() {
    let world = World::new("ns-ends");
    world.thing("ConfigMap", "c", &[], &[]);
    let name = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    diagnose(&world, &[&name], 0);
}

#[test]
fn a_live_target_says_what_would_hold_it_and_an_absent_one_is_an_error() {
    let world = World::new("live");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    let document = diagnose(&world, &["cm/c"], 0);
    assert_eq!(document["findings"], json!([]));
    assert_eq!(document["objects"][0]["state"], "live");
    assert_eq!(document["objects"][0]["wouldHold"], json!([{ "finalizer": HOLD }]));
    world.cascade(&["diagnose", "cm/none"]).expect(1);
    let gone = diagnose(&world, &["cm/none", "--ignore-not-found"], 0);
    assert_eq!(gone["objects"][0]["state"], "gone");
}

#[test]
fn pods_left_behind_by_a_job_are_found_and_those_of_its_successor_are_not() {
    let world = World::new("left");
    let job = json!({ "metadata": { "name": "etl" }, "spec": { "template": {
        "spec": {
            "restartPolicy": "Never", "nodeSelector": { "no": "such" },
            "containers": [{ "name": "c", "image": "example.test/i:1" }],
        },
    } } });
    world.create("Job", job.clone());
    let pods = || {
        let arguments = ["-n", &world.namespace, "get", "pods", "-o", "name"];
        world.kubectl().run(&arguments).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    world.until("the Job has a Pod", || pods().len() == 1);
    let old = pods()[0].clone();
    assert_eq!(world.delete_raw("Job/etl", &json!({})), 200);
    world.gone("Job/etl");
    world.create("Job", job);
    world.until("the new Job has a Pod", || pods().len() == 2);
    let run = world.cascade(&["orphans", "--exit-code", "-o", "json"]).expect(3);
    let document = run.json();
    let objects = document["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 1, "{document:#}");
    assert_eq!(objects[0]["cause"], "orphaned-by-default");
    assert_eq!(objects[0]["of"]["name"], "etl");
    assert_eq!(format!("pod/{}", objects[0]["ref"]["name"].as_str().unwrap()), old);
    paste(&world, objects[0]["command"].as_str().unwrap()).expect(0);
    world.gone(&old.replace("pod/", "Pod/"));
    world.cascade(&["orphans", "--exit-code"]).expect(0);
}

#[test]
fn claims_of_a_deleted_stateful_set_are_found_and_a_users_own_are_not() {
    let world = World::new("claims");
    let claim = |name: &str| {
        json!({
            "metadata": { "name": name },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        })
    };
    world.create("PersistentVolumeClaim", claim("my-own-0"));
    world.create(
        "StatefulSet",
        json!({
            "metadata": { "name": "db" },
            "spec": {
                "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "template": {
                    "metadata": { "labels": { "app": "db" } },
                    "spec": { "containers": [{ "name": "c", "image": "example.test/i:1" }] },
                },
                "volumeClaimTemplates": [claim("data")],
            },
        }),
    );
    world.until("there are a claim and its Pod", || {
        world.get("PersistentVolumeClaim/data-db-0").is_some() && world.get("Pod/db-0").is_some()
    });
    world.cascade(&["orphans", "--exit-code"]).expect(0);
    delete(&world, "StatefulSet/db", BACKGROUND);
    world.gone("StatefulSet/db");
    world.gone("Pod/db-0");
    world.until("its revisions are gone", || {
        let revisions = world.kubectl().get(&["controllerrevisions", "-n", &world.namespace]).unwrap();
        revisions["items"] == json!([])
    });
    let document = world.cascade(&["orphans", "-o", "json"]).expect(0).json();
    let objects = document["objects"].as_array().unwrap();
    assert_eq!(objects.len(), 1, "{document:#}");
    assert_eq!(
        (&objects[0]["cause"], &objects[0]["of"]["name"]),
        (&json!("claim-left-behind"), &json!("db"))
    );
    assert_eq!(objects[0]["ref"]["name"], "data-db-0");
}

/// What holds it read the same for a healthy node.
#[test]
fn a_live_pod_on_a_node_without_a_kubelet_would_wait_for_it() {
    let world = World::new("live-dead-node");
    let node = world.bare_node();
    world.pod("p", Some(&node), &[], &[]);
    let document = diagnose(&world, &["pod/p"], 0);
    assert_eq!(document["objects"][0]["state"], "live");
    let finding = only(&document);
    assert_finding(finding, "node-unreachable", "proven", &["Pod/p"]);
    assert!(finding["summary"].as_str().unwrap().contains("would wait for the kubelet"), "{finding:#}");
}
