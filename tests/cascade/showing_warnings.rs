//! What is said before the question: each warning of a plan, in situations on the real control plane, and where it can
//! be seen at once, that what it warns of really happens.

use control_plane::eventually;
use serde_json::{Value, json};

use crate::conduct::bind;
use crate::contract;
use crate::delete::is_untouched;
use crate::support::{HOLD, PATIENCE, World};

/// The plan of a delete.
#[track_caller]
fn plan(world: &World, arguments: &[&str]) -> Value {
    let run = world.cascade(&[&["delete"], arguments, &["--dry-run", "-o", "json"]].concat()).expect(0);
    let document = run.json();
    contract::plan(&document);
    document
}

/// The message of the only warning with this code; it also stands in the plan that people read.
#[track_caller]
fn warned(world: &World, arguments: &[&str], code: &str) -> String {
    let document = plan(world, arguments);
    let warnings: Vec<&Value> =
        document["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == code).collect();
    assert_eq!(warnings.len(), 1, "{document:#}");
    let message = warnings[0]["message"].as_str().unwrap().to_owned();
    let text = world.cascade(&[&["delete"], arguments, &["--dry-run"]].concat()).expect(0).stdout;
    assert!(text.contains(&format!("warning: {message}\n")), "{text}");
    message
}

fn codes(document: &Value) -> Vec<&str> {
    document["warnings"].as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

#[test]
fn what_a_living_controller_makes_again_is_said_before_the_question() {
    let world = World::new("warn-again");
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
                },
            },
        }),
    );
    let sets = || world.kubectl().run(&["-n", &world.namespace, "get", "rs", "-o", "name"]).unwrap();
    world.until("the ReplicaSet is there", || !sets().is_empty());
    let name = sets().trim().rsplit('/').next().unwrap().to_owned();
    let target = format!("rs/{name}");
    let message = warned(&world, &[&target, "--policy", "foreground"], "will-be-recreated");
    assert_eq!(
        message,
        format!(
            "ReplicaSet/{name} is controlled by Deployment/web, which is alive: it will be created again; delete that instead"
        )
    );
    assert!(!codes(&plan(&world, &["deployment/web"])).contains(&"will-be-recreated"));
    let run = world.typed(&["delete", &target], "[y/N]", "n\n").expect(4);
    let (warning, question) = (run.stdout.find("it will be created again"), run.stdout.find("[y/N]"));
    assert!(warning.is_some() && warning < question, "{}", run.stdout);
}

#[test]
fn the_namespaces_that_the_server_never_deletes_are_those_warned_of() {
    let world = World::new("warn-immortal");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let target = format!("ns/{name}");
        let accepts = world.kubectl().run(&["delete", "--dry-run=server", &target]).is_ok();
        let warns = codes(&plan(&world, &[&target])).contains(&"namespace-immortal");
        assert_eq!(warns, !accepts, "{name}");
        assert_eq!(warns, name != "kube-node-lease", "{name}");
    }
}

/// The Pod garbage collector waits 40 s and looks every 20 s.
#[test]
fn the_pods_on_a_node_are_counted_and_are_really_force_deleted_once_it_is_gone() {
    let world = World::new("warn-node");
    let node = world.bare_node();
    let target = format!("node/{node}");
    assert!(!codes(&plan(&world, &[&target])).contains(&"pods-on-node"));
    world.pod("one", Some(&node), &[], &[]);
    world.pod("held", Some(&node), &[], &[HOLD]);
    let message = warned(&world, &[&target], "pods-on-node");
    assert!(message.starts_with(&format!("on Node/{node}, 2 Pods are not owned by it: ")), "{message}");
    let run = world.cascade(&["delete", &target, "--yes"]).expect(0);
    assert!(run.stdout.contains("warning: on Node/"), "{}", run.stdout);
    assert!(is_untouched(&world, "Pod/one"), "its grace period is not what ends it");
    let force_deleted = || world.get("Pod/one").is_none() && !is_untouched(&world, "Pod/held");
    eventually("both are force-deleted", 3 * PATIENCE, || force_deleted().then_some(())).unwrap();
    assert_eq!(world.get("Pod/held").unwrap()["metadata"]["deletionGracePeriodSeconds"], 0);
    world.free("Pod/held");
}

/// Cases C01 and fact 4: and it is true, for a Pod in the middle of a tree as for the target itself.
#[test]
fn dependents_of_a_running_pod_go_before_its_containers_have_stopped() {
    let world = World::new("warn-containers");
    let node = world.bare_node();
    world.thing("ConfigMap", "top", &[], &[]);
    world.pod("build", Some(&node), &["ConfigMap/top!"], &[]);
    world.thing("Secret", "credentials", &["Pod/build!"], &[]);
    let foreground = ["cm/top", "--policy", "foreground"];
    let message = warned(&world, &foreground, "dependents-go-before-containers");
    assert_eq!(
        message,
        "the dependents of Pod/build go before its containers have stopped (30 s grace); background keeps them until then"
    );
    warned(&world, &["pod/build", "--policy", "foreground"], "dependents-go-before-containers");
    assert!(!codes(&plan(&world, &["cm/top"])).contains(&"dependents-go-before-containers"));
    world.cascade(&["delete", "cm/top", "--policy", "foreground", "--yes", "--wait=false"]).expect(0);
    world.gone("Secret/credentials");
    assert!(world.get("Pod/build").is_some(), "its kubelet has not confirmed");
}

#[test]
fn a_finalizer_of_the_target_does_not_protect_its_dependents_in_foreground() {
    let world = World::new("warn-finalizer");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    world.thing("ConfigMap", "dependent", &["ConfigMap/own!"], &[]);
    let foreground = ["cm/own", "--policy", "foreground"];
    let message = warned(&world, &foreground, "finalizer-does-not-protect-dependents");
    assert!(message.contains("ConfigMap/own"), "{message}");
    assert_eq!(codes(&plan(&world, &["cm/own"])), [""; 0]);
    world.cascade(&["delete", "cm/own", "--policy", "foreground", "--yes", "--wait=false"]).expect(0);
    world.gone("ConfigMap/dependent");
    assert!(world.get("ConfigMap/own").is_some());
    world.free("ConfigMap/own");
}

/// Case C06, and its counterpart, which costs more.
#[test]
fn a_wish_set_beforehand_that_the_policy_drops_is_said() {
    let world = World::new("warn-wish");
    world.thing("ConfigMap", "foreground", &[], &["foregroundDeletion"]);
    world.thing("Secret", "held", &["ConfigMap/foreground!"], &[HOLD]);
    let message = warned(&world, &["cm/foreground"], "foreground-wish-dropped");
    assert!(message.contains("--policy foreground"), "{message}");
    let foreground = plan(&world, &["cm/foreground", "--policy", "foreground"]);
    assert!(!codes(&foreground).contains(&"foreground-wish-dropped"));
    world.cascade(&["delete", "cm/foreground", "--yes", "--wait=false"]).expect(0);
    world.gone("ConfigMap/foreground");
    assert!(world.get("Secret/held").is_some());
    world.free("Secret/held");

    world.thing("ConfigMap", "orphan", &[], &["orphan"]);
    world.thing("ConfigMap", "left", &["ConfigMap/orphan!"], &[]);
    let message = warned(&world, &["cm/orphan"], "orphan-wish-dropped");
    assert!(message.contains("--policy orphan"), "{message}");
    world.cascade(&["delete", "cm/orphan", "--yes"]).expect(0);
    assert!(world.get("ConfigMap/left").is_none(), "the wish was dropped");
}

fn stateful_set(world: &World, name: &str, when_deleted: &str) {
    world.create("StatefulSet", json!({
        "metadata": { "name": name },
        "spec": {
            "serviceName": name, "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": when_deleted, "whenScaled": "Retain" },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
        },
    }));
    let claim = format!("PersistentVolumeClaim/data-{name}-0");
    world.until("the claim is as its policy wants it", || {
        let owned = |claim: Value| claim["metadata"]["ownerReferences"].is_array();
        world.get(&claim).is_some_and(|claim| owned(claim) == (when_deleted == "Delete"))
    });
}

#[test]
fn claims_of_a_stateful_set_stay_or_go() {
    let world = World::new("warn-claims");
    stateful_set(&world, "keeps", "Retain");
    stateful_set(&world, "takes", "Delete");
    let message = warned(&world, &["sts/keeps"], "claims-stay");
    assert_eq!(message, "the claims of StatefulSet/keeps stay: data-keeps-0");
    let message = warned(&world, &["sts/takes"], "claims-go");
    assert_eq!(message, "the claims of StatefulSet/takes go, too: data-takes-0");
    let message = warned(&world, &["sts/takes"], "claims-deleted");
    assert!(message.starts_with("1 PersistentVolumeClaim will be deleted"), "{message}");
    // A claim that only looks like one of its own.
    world.create(
        "PersistentVolumeClaim",
        json!({
            "metadata": { "name": "other-keeps-0" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }),
    );
    let message = warned(&world, &["sts/keeps"], "claims-stay");
    assert_eq!(message, "the claims of StatefulSet/keeps stay: data-keeps-0");
}

#[test]
fn secrets_that_go_are_counted_in_plain_sight() {
    let world = World::new("warn-secrets");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "one", &["ConfigMap/own"], &[]);
    world.thing("Secret", "two", &["Secret/one"], &[]);
    assert_eq!(warned(&world, &["cm/own"], "secrets-deleted"), "2 Secrets will be deleted");
    assert_eq!(codes(&plan(&world, &["cm/own", "--policy", "orphan"])), [""; 0]);
}

#[test]
fn kinds_that_could_not_be_read_make_the_plan_incomplete() {
    let world = World::new("warn-gaps");
    world.thing("ConfigMap", "own", &[], &[]);
    bind(&world, json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }]));
    let run = world.cascade_as("limited", &["delete", "cm/own", "--dry-run", "-o", "json"]).expect(0);
    assert_eq!(codes(&run.json()), ["kinds-not-read"]);
    let text = world.cascade_as("limited", &["delete", "cm/own", "--dry-run"]).expect(0).stdout;
    assert!(text.contains("warning: some kinds could not be read"), "{text}");
}

/// Cases C02 and C04.
#[test]
fn pods_that_an_orphaning_leaves_keep_running() {
    let world = World::new("warn-orphan");
    let node = world.bare_node();
    let template = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.test/image:1" }],
    } });
    world.create("CronJob", json!({
        "metadata": { "name": "nightly" },
        "spec": { "schedule": "0 3 * * *", "suspend": true, "jobTemplate": { "spec": { "template": template } } },
    }));
    let metadata = world.metadata("nightly-1", &["CronJob/nightly!"], &[]);
    world.create("Job", json!({ "metadata": metadata, "spec": { "suspend": true, "template": template } }));
    world.pod("nightly-1-x", Some(&node), &["Job/nightly-1!"], &[]);
    assert_eq!(
        warned(&world, &["job/nightly-1", "--policy", "orphan"], "pods-keep-running"),
        "1 Pod will stay, unowned, and keep running"
    );
    assert_eq!(
        warned(&world, &["cronjob/nightly", "--policy", "orphan"], "pods-keep-running"),
        "1 Pod below what is orphaned keeps running; no new ones start"
    );
    let document = plan(&world, &["cronjob/nightly"]);
    assert!(!codes(&document).contains(&"pods-keep-running"), "{document:#}");
}

#[test]
fn a_namespace_takes_its_content_along_and_is_held_by_finalizers_of_its_own() {
    let world = World::new("warn-namespace");
    let name = format!("{}-held", world.namespace);
    world.create(
        "Namespace",
        json!({
            "metadata": { "name": name }, "spec": { "finalizers": ["kubernetes", HOLD] },
        }),
    );
    world.create_in(&name, "Secret", json!({ "metadata": { "name": "inside" } }));
    let target = format!("ns/{name}");
    assert!(warned(&world, &[&target], "takes-its-content").contains("everything in it"));
    let document = plan(&world, &[&target]);
    let own = crate::support::entry(&document["objects"], &format!("Namespace/{name}"));
    assert_eq!((&own["fate"], &own["heldBy"]), (&json!("held"), &json!([{ "finalizer": HOLD }])), "{own:#}");
}
