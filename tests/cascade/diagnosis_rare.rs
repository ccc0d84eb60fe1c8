//! Causes that are rarer, or take servers of their own: a full etcd, a controller manager without its collector, an
//! aggregated API whose kind cannot be watched, a deletion of an hour ago.
//!
//! What cannot be made here, and why:
//! - `kubelet-stuck` and `node-unreachable` with a kubelet's own events and container states: there are no kubelets.
//! - `volume-not-released` with a driver that fails: there are no drivers; the finalizers and what the API says of them
//!   are real.
//! - `load-balancer-cleanup` with a cloud that refuses: there is no cloud controller manager.
//! - `collector-stale` by a collector whose picture really is wrong: no way is known to bring one about; here its
//!   request is refused where nobody sees it, which looks the same from outside.
//! - an instance that another API server makes again (C6): there is one API server.

use control_plane::{AggregatedApi, Component, ControlPlane, Decision, Options, Webhook};
use serde_json::{Value, json};

use crate::diagnosis::{
    BACKGROUND, FOREGROUND, Registered, assert_evidence, assert_finding, commands, definition, delete,
    diagnose, instance, only, open_schema, own_plane, paste, until_held, until_overdue,
};
use crate::support::{HOLD, World, entry};

const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

#[test]
fn a_volume_whose_driver_has_not_released_its_disk() {
    let world = World::new("disk");
    let name = world.namespace.clone();
    let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "name": name, "finalizers": [finalizer] },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": { "driver": "disks.example.test", "volumeHandle": "disk-1" },
        },
    });
    world.kubectl().apply(&volume.to_string()).unwrap();
    let target = format!("pv/{name}");
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    world.until("only the driver's finalizer is left", || {
        let arguments = ["get", &target, "-o", "jsonpath={.metadata.finalizers}"];
        world.kubectl().run(&arguments).unwrap() == format!("[\"{finalizer}\"]")
    });
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "volume-not-released", "consistent", &[&format!("PersistentVolume/{name}")]);
    assert_eq!(finding["by"]["finalizer"], finalizer);
    assert_evidence(finding, "Available");
    let last = finding["remedies"].as_array().unwrap().last().unwrap();
    assert!(last["risk"].as_str().unwrap().contains("costs money"), "{finding:#}");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.until("the volume is gone", || world.kubectl().run(&["get", &target]).is_err());

    // The attachment of a disk to a machine likewise; its driver is named by the finalizer.
    let finalizer = "external-attacher/disks-example-test";
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": name, "finalizers": [finalizer] },
        "spec": {
            "attacher": "disks.example.test", "nodeName": "node-7",
            "source": { "persistentVolumeName": "none" },
        },
    });
    world.kubectl().apply(&attachment.to_string()).unwrap();
    let target = format!("volumeattachments.storage.k8s.io/{name}");
    let error = json!({ "status": { "attached": true, "detachError": { "message": "the machine does not answer" } } });
    let patch = ["patch", &target, "--subresource=status", "--type=merge", "-p", &error.to_string()];
    world.kubectl().run(&patch).unwrap();
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "volume-not-released", "consistent", &[&format!("VolumeAttachment/{name}")]);
    assert_evidence(finding, "the machine does not answer");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.until("the attachment is gone", || world.kubectl().run(&["get", &target]).is_err());
}

#[test]
fn pods_that_the_job_controller_leaves_to_somebody_else() {
    let world = World::new("tracking");
    if !world.has_since(32, "spec.managedBy of a Job") {
        return;
    }
    // One of a Job that another controller manages.
    let template = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.test/i:1" }],
    } });
    world.create(
        "Job",
        json!({
            "metadata": { "name": "remote" },
            "spec": { "managedBy": "multikueue.example.test/controller", "template": template },
        }),
    );
    // Of a Job that the Job controller has not seen yet it takes the Pods for orphans. It sees them in their order.
    let suspended = json!({ "suspend": true, "template": template });
    world.create("Job", json!({ "metadata": { "name": "next" }, "spec": suspended }));
    world.until("the Job controller has seen the next Job", || {
        world.get("Job/next").is_some_and(|job| job["status"]["conditions"].is_array())
    });
    // One whose controller is no Job, though it is tracked like a Job's.
    world.thing("ConfigMap", "set", &[], &[]);
    for (pod, owner) in [("of-remote", "Job/remote"), ("of-set", "ConfigMap/set")] {
        let mut reference = world.owner(owner);
        reference["controller"] = json!(true);
        world.create(
            "Pod",
            json!({
                "metadata": { "name": pod, "finalizers": [JOB_TRACKING], "ownerReferences": [reference] },
                "spec": { "containers": [{ "name": "main", "image": "example.test/i:1" }], "nodeSelector": { "no": "such" } },
            }),
        );
        delete(&world, &format!("Pod/{pod}"), BACKGROUND);
        until_held(&world, &format!("Pod/{pod}"), &[JOB_TRACKING]);
    }
    let document = diagnose(&world, &["pod/of-remote"], 3);
    let finding = only(&document);
    assert_finding(finding, "job-tracking", "proven", &["Pod/of-remote"]);
    assert_evidence(finding, "multikueue.example.test/controller");
    let first = finding["remedies"][0]["text"].as_str().unwrap();
    assert!(first.contains("make sure that multikueue.example.test/controller runs"), "{finding:#}");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.gone("Pod/of-remote");

    let document = diagnose(&world, &["pod/of-set"], 3);
    let finding = only(&document);
    assert_finding(finding, "job-tracking", "proven", &["Pod/of-set"]);
    assert!(finding["summary"].as_str().unwrap().contains("ConfigMap/set, no Job"), "{finding:#}");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.gone("Pod/of-set");
}

#[test]
fn a_namespace_whose_spec_names_another_finalizer() {
    let world = World::new("ns-spec");
    let path = format!("/api/v1/namespaces/{}/finalize", world.namespace);
    let finalize = |finalizers: Value| {
        let mut namespace = world.get(&format!("Namespace/{}", world.namespace)).unwrap();
        namespace["spec"]["finalizers"] = finalizers;
        let answer = world.plane().api().unwrap().send("PUT", &path, Some(&namespace)).unwrap();
        assert_eq!(answer.status, 200, "{:#}", answer.body);
    };
    finalize(json!(["kubernetes", "tool.example.test/quota"]));
    let name = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    world.until("its own controller has finished", || {
        let spec = world.kubectl().run(&["get", &name, "-o", "jsonpath={.spec.finalizers}"]).unwrap();
        spec == "[\"tool.example.test/quota\"]"
    });
    let document = diagnose(&world, &[&name], 3);
    let finding = only(&document);
    assert_finding(finding, "namespace-finalizer", "proven", &[&format!("Namespace/{}", world.namespace)]);
    assert_eq!(finding["by"]["finalizer"], "tool.example.test/quota");
    // Nothing of ours removes an entry of the spec: whoever put it there does.
    assert_eq!(commands(finding), [] as [&str; 0]);
    finalize(json!([]));
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

#[test]
fn the_mirror_of_a_static_pod_is_not_forced() {
    let world = World::new("mirror");
    let node = world.bare_node();
    world.create(
        "Pod",
        json!({
            "metadata": { "name": "static-web", "annotations": { "kubernetes.io/config.mirror": "abc" } },
            "spec": {
                "nodeName": node, "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": "main", "image": "example.test/i:1" }],
            },
        }),
    );
    delete(&world, "Pod/static-web", r#"{"gracePeriodSeconds":1}"#);
    until_overdue(&world, "Pod/static-web");
    let document = diagnose(&world, &["pod/static-web"], 3);
    let finding = only(&document);
    assert_finding(finding, "mirror-pod", "proven", &["Pod/static-web"]);
    assert_eq!(finding["by"]["node"], node.as_str());
    assert_eq!(commands(finding), [] as [&str; 0]);
    // What the kubelet does once its manifest is gone.
    let kubelet = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(world.delete_raw("Pod/static-web", &kubelet), 200);
    world.gone("Pod/static-web");
}

/// `--controllers=*,-NAME` is how some clusters run without a collector; its Lease is as fresh as ever.
#[test]
fn a_controller_manager_that_leads_and_does_not_collect() {
    let controllers = "--controllers=*,-garbage-collector-controller,-job-controller";
    let world =
        World::on(own_plane(Options::default().flag(Component::ControllerManager, controllers)), "idle");
    world.thing("ConfigMap", "c", &[], &[]);
    world.pod("p", None, &[], &[JOB_TRACKING]);
    delete(&world, "ConfigMap/c", FOREGROUND);
    delete(&world, "Pod/p", BACKGROUND);
    // From outside that is no different from back-off; what would tell is said.
    let document = diagnose(&world, &["cm/c"], 3);
    assert_finding(only(&document), "collector-backoff", "consistent", &["ConfigMap/c"]);
    assert!(only(&document)["summary"].as_str().unwrap().contains("Most likely"), "{document:#}");
    assert!(document["unchecked"].to_string().contains("only with --probe=canary"), "{document:#}");
    let run = world.cascade(&["diagnose", "cm/c", "--observe", "0s", "--probe", "canary", "-o", "json"]);
    let document = run.expect(3).json();
    let finding = only(&document);
    assert_finding(finding, "collector-down", "consistent", &["ConfigMap/c"]);
    assert_evidence(finding, "was still there after 10 s");
    let maps = world.kubectl().run(&["-n", &world.namespace, "get", "cm", "-o", "name"]).unwrap();
    assert!(!maps.contains("kubectl-cascade-canary"), "{maps}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
    // A Pod that nobody counts.
    let document = diagnose(&world, &["pod/p"], 3);
    let finding = only(&document);
    assert_finding(finding, "job-tracking", "consistent", &["Pod/p"]);
    assert_eq!(finding["also"], json!([]));
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.gone("Pod/p");
}

/// A deletion of an hour ago is no back-off any more. Its time is written into etcd.
#[test]
fn what_has_waited_for_an_hour_is_not_in_back_off() {
    let world = World::on(own_plane(Options::default().hurried()), "hour");
    let group = format!("{}.test", world.namespace);
    let name = definition(&world, open_schema());
    let webhook = Webhook::start(|request: &Value| match request["dryRun"] == true {
        true => Decision::Allow,
        false => Decision::Deny { code: 403, message: "no".into() },
    })
    .unwrap();
    let hook = format!("hour.{}.test", world.namespace);
    let registered =
        Registered::new(&world, &[webhook.validating(&hook, &world.namespace, &["UPDATE"], &["graphs"])]);
    instance(&world, "g", &[]);
    let target = format!("{name}/g");
    world.until("the webhook refuses", || {
        let arguments = ["-n", &world.namespace, "annotate", "--overwrite", &target, "probe=1"];
        world.kubectl().run(&arguments).is_err()
    });
    let arguments = ["-n", &world.namespace, "delete", &target, "--cascade=foreground", "--wait=false"];
    world.kubectl().run(&arguments).unwrap();
    let path = format!("/apis/{group}/v1/namespaces/{}/graphs/g", world.namespace);
    let mut object = world.plane().api().unwrap().get(&path).unwrap().unwrap();
    let deleted = object["metadata"]["deletionTimestamp"].as_str().unwrap().to_owned();
    let earlier = deleted.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_hours(1);
    object["metadata"]["deletionTimestamp"] = json!(earlier.to_string());
    object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let key = format!("/registry/{group}/graphs/{}/g", world.namespace);
    let put =
        json!({ "key": ControlPlane::stored(&key), "value": ControlPlane::stored(&object.to_string()) });
    world.plane().etcd("kv/put", &put).unwrap();
    world.until("the API server has the old time", || {
        let now = world.plane().api().unwrap().get(&path).unwrap().unwrap();
        now["metadata"]["deletionTimestamp"] == earlier.to_string().as_str()
    });
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "collector-stale", "consistent", &["Graph/g"]);
    assert_eq!(finding["also"], json!(["collector-backoff"]));
    assert_evidence(finding, &hook);
    paste(&world, commands(finding)[0]).expect(0);
    world.until("it is gone", || world.plane().api().unwrap().get(&path).unwrap().is_none());
    registered.remove();
}

/// A kind without `watch`: the collector does not see it, so that it holds nobody and stays behind.
#[test]
fn a_kind_that_cannot_be_watched_is_left_behind() {
    let world = World::on(own_plane(Options::default().hurried()), "unwatched");
    let namespace = world.namespace.clone();
    world.thing("ConfigMap", "owner", &[], &[]);
    let ticket = json!({
        "apiVersion": "desk.example.test/v1", "kind": "Ticket",
        "metadata": {
            "name": "t1", "namespace": namespace, "uid": "7e4f5a52-1b0c-4c2f-9d3a-111111111111",
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [world.owner("ConfigMap/owner!")],
        },
    });
    let there = std::sync::atomic::AtomicBool::new(true);
    let collection = format!("/apis/desk.example.test/v1/namespaces/{namespace}/tickets");
    let everywhere = "/apis/desk.example.test/v1/tickets";
    let api = AggregatedApi::start(move |method, path| {
        use std::sync::atomic::Ordering::Relaxed;
        let is_there = there.load(Relaxed);
        let missing = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 });
        match (method, path) {
            (_, "/apis/desk.example.test/v1") => (200, json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "desk.example.test/v1",
                "resources": [{
                    "name": "tickets", "singularName": "ticket", "namespaced": true, "kind": "Ticket",
                    "verbs": ["delete", "get", "list"],
                }],
            })),
            ("GET", path) if path == collection || path == everywhere => (200, json!({
                "kind": "TicketList", "apiVersion": "desk.example.test/v1", "metadata": { "resourceVersion": "1" },
                "items": if is_there { vec![ticket.clone()] } else { vec![] },
            })),
            ("GET", path) if is_there && path == format!("{collection}/t1") => (200, ticket.clone()),
            ("DELETE", path) if is_there && path == format!("{collection}/t1") => {
                there.store(false, Relaxed);
                (200, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
            }
            _ => (404, missing),
        }
    })
    .unwrap();
    for manifest in api.manifests("desk.example.test", "v1", &namespace) {
        world.kubectl().apply(&manifest.to_string()).unwrap();
    }
    world.until("the kind is served", || {
        world.kubectl().run(&["-n", &namespace, "get", "tickets.desk.example.test"]).is_ok()
    });
    let plan = world.cascade(&["delete", "cm/owner", "--policy", "foreground", "--dry-run", "-o", "json"]);
    assert_eq!(entry(&plan.expect(0).json()["objects"], "Ticket/t1")["fate"], "leaked");
    let arguments =
        ["delete", "cm/owner", "--policy", "foreground", "--yes", "--timeout", "60s", "-o", "json"];
    let result = world.cascade(&arguments).expect(0).json();
    assert_eq!(result["leaked"][0]["name"], "t1", "{result:#}");
    let orphans = world.cascade(&["orphans", "-o", "json"]).expect(0).json();
    let orphan = entry(&orphans["objects"], "Ticket/t1");
    assert_eq!((&orphan["cause"], &orphan["of"]["name"]), (&json!("kind-not-collectable"), &json!("owner")));
    paste(&world, orphan["command"].as_str().unwrap()).expect(0);
    world.cascade(&["orphans", "--exit-code"]).expect(0);
}

/// etcd refuses every write, the renewal of the Lease included: the controller manager ends, and is not to blame.
#[test]
fn an_etcd_without_space_refuses_what_would_free_an_object() {
    let quota = "--quota-backend-bytes=6291456";
    let options = Options { fast_lease: true, ..Options::default() }.flag(Component::Etcd, quota);
    let world = World::on(own_plane(options), "full");
    for name in ["c", "live"] {
        world.thing("ConfigMap", name, &[], &[]);
    }
    world.thing("ConfigMap", "held", &[], &[HOLD, "other.test/hold"]);
    delete(&world, "ConfigMap/held", BACKGROUND);
    world.plane().pause(Component::ControllerManager).unwrap();
    delete(&world, "ConfigMap/c", FOREGROUND);
    let data = "x".repeat(900_000);
    let mut number = 0;
    world.until("etcd is full", || {
        number += 1;
        let filler = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("filler-{number}") }, "data": { "x": data },
        });
        let path = format!("/api/v1/namespaces/{}/configmaps", world.namespace);
        let answer = world.plane().api().unwrap().send("POST", &path, Some(&filler)).unwrap();
        answer.body["message"].as_str().is_some_and(|message| message.contains("database space exceeded"))
    });
    world.plane().resume(Component::ControllerManager).unwrap();
    let run = world.cascade(&["diagnose", "cm/c", "--observe", "1s", "--probe", "canary", "-o", "json"]);
    let document = run.expect(3).json();
    let finding = only(&document);
    assert_finding(finding, "storage-full", "proven", &["ConfigMap/c"]);
    assert_evidence(finding, "database space exceeded");
    // A dry run writes nothing, and cannot see it.
    let document = diagnose(&world, &["cm/c"], 3);
    assert_ne!(only(&document)["cause"], "storage-full", "{document:#}");
    // What does not go for want of a write is said in the server's words.
    let run = world.cascade(&["delete", "cm/live", "--policy", "foreground", "--yes"]);
    assert!(run.code == 1 && run.stderr.contains("database space exceeded"), "{run:#?}");
    let release =
        |confirm: &[&str]| world.cascade(&[&["release", "cm/held", "--finalizer", HOLD], confirm].concat());
    let digest = release(&["-o", "json"]).expect(4).json()["digest"].clone();
    let run = release(&["--confirm", digest.as_str().unwrap()]);
    assert!(run.code == 4 && run.stderr.contains("database space exceeded"), "{run:#?}");
    // A deletion is no put, not even that by the removal of the last finalizer: the way out works all the same.
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
    world.cascade(&["delete", "cm/live", "--yes", "--timeout", "60s"]).expect(0);
}

/// A webhook on every kind, whose server is gone: the controller manager could not renew its Lease, and ended. It was
/// called down, as if it were to blame.
#[test]
fn a_dead_webhook_on_leases_ends_the_controller_manager() {
    let options = Options { fast_lease: true, ..Options::default() };
    let world = World::on(own_plane(options), "leases");
    world.thing("ConfigMap", "c", &[], &[]);
    let webhook = Webhook::start(|_: &Value| Decision::Allow).unwrap();
    let configuration =
        webhook.validating("everything.example.test", "kube-system", &["CREATE", "UPDATE"], &["*"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    world.until("the controller manager has ended", || {
        world.plane().pid(Component::ControllerManager).unwrap().is_none()
    });
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-unreachable", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["also"], json!(["collector-down"]));
    assert_eq!(finding["by"]["configuration"], "everything.example.test", "{finding:#}");
    assert_evidence(finding, "failed calling webhook \"everything.example.test\"");
    // The repair: it leads again, and collects.
    registered.remove();
    world.plane().start_component(Component::ControllerManager).unwrap();
    world.gone("ConfigMap/c");
}
