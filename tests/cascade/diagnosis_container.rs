//! What holds other objects without owning them, and what does not answer: Namespaces, CRDs, aggregated APIs,
//! conversion webhooks, schemas.

use serde_json::json;

use crate::conduct::{end, start, until_said};
use crate::diagnosis::{
    BACKGROUND, FOREGROUND, Registered, assert_evidence, assert_finding, commands, definition, delete,
    diagnose, instance, only, open_schema, paste, policy, until_held, until_terminating,
};
use crate::support::{HOLD, Stopped, World, names};

fn delete_crd(world: &World) -> String {
    let name = format!("crd/graphs.{}.test", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    name
}

#[test]
fn a_crd_waits_for_an_instance_whose_controller_is_gone() {
    let world = World::new("crd");
    definition(&world, open_schema());
    instance(&world, "g1", &[HOLD]);
    instance(&world, "g2", &[]);
    let name = delete_crd(&world);
    let instance = |name: &str| format!("graphs.{}.test/{name}", world.namespace);
    until_terminating(&world, &instance("g1"));
    world.until("the other instance is gone", || {
        world.kubectl().run(&["-n", &world.namespace, "get", &instance("g2")]).is_err()
    });
    let document = diagnose(&world, &[&name], 3);
    let finding = only(&document);
    let crd = name.replace("crd/", "CustomResourceDefinition/");
    assert_finding(finding, "finalizer-held", "proven", &[&crd, "Graph/g1"]);
    assert!(finding["also"].as_array().unwrap().contains(&json!("crd-waits-for-instances")), "{finding:#}");
    let never = finding["remedies"].as_array().unwrap().last().unwrap();
    assert!(never["text"].as_str().unwrap().contains("do not remove customresourcecleanup"), "{finding:#}");
    let remove =
        commands(finding).into_iter().find(|command| command.starts_with("kubectl cascade release")).unwrap();
    paste(&world, remove).expect(0);
    world.until("the CRD is gone", || world.kubectl().run(&["get", &name]).is_err());
}

#[test]
fn a_stored_object_that_no_longer_validates() {
    let world = World::new("invalid");
    let name = definition(&world, open_schema());
    instance(&world, "g", &[]);
    let schema = json!([{ "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": {
        "type": "object", "required": ["must"],
        "properties": { "must": { "type": "string" }, "spec": { "type": "object" } },
    } }]);
    world.kubectl().run(&["patch", "crd", &name, "--type=json", "-p", &schema.to_string()]).unwrap();
    let target = format!("{name}/g");
    world.until("the object is invalid", || {
        let arguments =
            ["-n", &world.namespace, "annotate", "--dry-run=server", "--overwrite", &target, "probe=1"];
        world.kubectl().run(&arguments).is_err()
    });
    let arguments = ["-n", &world.namespace, "delete", &target, "--cascade=foreground", "--wait=false"];
    world.kubectl().run(&arguments).unwrap();
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "object-invalid", "proven", &["Graph/g"]);
    assert_evidence(finding, "must: Required value");
    paste(&world, commands(finding)[0]).expect(0);
    world.until("it is gone", || world.kubectl().run(&["-n", &world.namespace, "get", &target]).is_err());
}

#[test]
fn a_namespace_with_a_metadata_finalizer_of_a_management_tool() {
    let world = World::new("ns-tool");
    let name = format!("ns/{}", world.namespace);
    let patch = json!({ "metadata": { "finalizers": ["tool.example.test/ns-auth"] } }).to_string();
    world.kubectl().run(&["patch", &name, "--type=merge", "-p", &patch]).unwrap();
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    world.until("the namespace is empty", || {
        let spec = world.kubectl().run(&["get", &name, "-o", "jsonpath={.spec.finalizers}"]).unwrap();
        spec.is_empty()
    });
    let document = diagnose(&world, &[&name], 3);
    let finding = only(&document);
    let namespace = format!("Namespace/{}", world.namespace);
    assert_finding(finding, "namespace-finalizer", "proven", &[&namespace]);
    assert_eq!(finding["by"]["finalizer"], "tool.example.test/ns-auth");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

#[test]
fn a_namespace_whose_contents_may_not_be_deleted() {
    let world = World::new("ns-policy");
    world.thing("ConfigMap", "c", &[], &[]);
    let registered =
        Registered::new(&world, &policy(&world, "", "configmaps", "DELETE", "object.name == 'x'"));
    registered.until_delete_refused("cm/c");
    let name = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    world.until("its controller was refused", || {
        let conditions = world.kubectl().run(&["get", &name, "-o", "jsonpath={.status.conditions}"]).unwrap();
        conditions.contains("denied request")
    });
    let document = diagnose(&world, &[&name], 3);
    let finding =
        document["findings"].as_array().unwrap().iter().find(|finding| finding["object"]["name"] == "c");
    let finding = finding.unwrap_or_else(|| panic!("{document:#}"));
    assert_finding(
        finding,
        "admission-denied",
        "proven",
        &[&format!("Namespace/{}", world.namespace), "ConfigMap/c"],
    );
    assert_eq!(finding["by"]["policy"], format!("{}-policy", world.namespace));
    assert!(
        finding["also"].as_array().unwrap().contains(&json!("namespace-waits-for-content")),
        "{finding:#}"
    );
    registered.remove();
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

#[test]
fn a_volume_that_is_bound_waits_for_its_claim() {
    let world = World::new("volume");
    let name = world.namespace.clone();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/nowhere" },
            "claimRef": { "namespace": world.namespace, "name": "data" },
        },
    });
    world.kubectl().apply(&volume.to_string()).unwrap();
    world.create(
        "PersistentVolumeClaim",
        json!({
            "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "volumeName": name,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
    );
    let target = format!("pv/{name}");
    world.until("the volume is bound", || {
        world.kubectl().run(&["get", &target, "-o", "jsonpath={.status.phase}"]).unwrap() == "Bound"
    });
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "volume-bound", "proven", &[&format!("PersistentVolume/{name}")]);
    paste(&world, commands(finding)[0]).expect(0);
    world.until("the volume is gone", || world.kubectl().run(&["get", &target]).is_err());
}

#[test]
fn a_volume_whose_claim_is_being_deleted_waits_for_the_pod_that_mounts_it() {
    let world = World::new("volume-claim");
    let name = world.namespace.clone();
    let node = world.bare_node();
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": { "path": "/nowhere" },
            "claimRef": { "namespace": world.namespace, "name": "data" },
        },
    });
    world.kubectl().apply(&volume.to_string()).unwrap();
    world.create(
        "PersistentVolumeClaim",
        json!({
            "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "volumeName": name,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
    );
    let target = format!("pv/{name}");
    world.until("the volume is bound", || {
        world.kubectl().run(&["get", &target, "-o", "jsonpath={.status.phase}"]).unwrap() == "Bound"
    });
    let pod = json!({
        "metadata": { "name": "user1" },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "image": "example.test/i:1" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }],
            "tolerations": [{ "operator": "Exists" }],
        },
    });
    world.create("Pod", pod);
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    delete(&world, "PersistentVolumeClaim/data", BACKGROUND);
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    let chain = [format!("PersistentVolume/{name}"), "PersistentVolumeClaim/data".to_owned()];
    assert_finding(finding, "claim-in-use", "proven", &[&chain[0], &chain[1]]);
    assert_eq!((&finding["also"], &finding["by"]["pod"]), (&json!(["volume-bound"]), &json!("user1")));
    world
        .kubectl()
        .run(&["-n", &world.namespace, "delete", "pod/user1", "--force", "--grace-period=0"])
        .unwrap();
    world.until("the volume is gone", || world.kubectl().run(&["get", &target]).is_err());
}

#[test]
fn dependents_made_anew_as_fast_as_they_go_are_no_progress() {
    let world = World::new("anew");
    world.thing("ConfigMap", "cluster", &[], &[]);
    world.thing("Secret", "conf-0", &["ConfigMap/cluster!"], &[HOLD]);
    delete(&world, "ConfigMap/cluster", FOREGROUND);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let document = std::thread::scope(|scope| {
        let _stopped = Stopped(&stop);
        let maker = scope.spawn(|| {
            let mut number = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let current = format!("Secret/conf-{number}");
                number += 1;
                world.thing("Secret", &format!("conf-{number}"), &["ConfigMap/cluster!"], &[HOLD]);
                // As the collector does, only at once: how busy that is shall not matter.
                delete(&world, &current, BACKGROUND);
                world.free(&current);
            }
        });
        // Times are whole seconds: what was made in the second of the deletion does not count as made after it.
        let deleted = world.get("ConfigMap/cluster").unwrap()["metadata"]["deletionTimestamp"].clone();
        world.until("one was made in a later second", || {
            let secrets = world.kubectl().get(&["secrets", "-n", &world.namespace]).unwrap();
            let mut made = secrets["items"].as_array().into_iter().flatten();
            made.any(|secret| secret["metadata"]["creationTimestamp"].as_str() > deleted.as_str())
        });
        let document = diagnose(&world, &["cm/cluster"], 3);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        maker.join().unwrap();
        document
    });
    let finding = only(&document);
    assert_finding(finding, "dependents-recreated", "proven", &["ConfigMap/cluster"]);
    paste(&world, commands(finding)[0]);
    world.gone("ConfigMap/cluster");
}

#[test]
fn a_large_cascade_that_moves_is_not_stuck() {
    let world = World::new("large");
    world.thing("ConfigMap", "o", &[], &[]);
    let owner = world.owner("ConfigMap/o!");
    let mut list = Vec::new();
    for number in 0..400 {
        list.push(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": format!("s{number}"), "namespace": world.namespace, "ownerReferences": [owner],
            },
        }));
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": list });
    world.kubectl().run_with_input(&["create", "-f", "-"], &list.to_string()).unwrap();
    delete(&world, "ConfigMap/o", FOREGROUND);
    world.until("the collector has begun", || {
        let secrets = world.kubectl().get(&["secrets", "-n", &world.namespace]).unwrap();
        secrets["items"].as_array().unwrap().len() < 400
    });
    let run = world.cascade(&["diagnose", "cm/o", "--ignore-not-found", "--observe", "500ms", "-o", "json"]);
    // The collector of the tests is a fast one: it may have finished meanwhile, but it is never called stuck.
    let document = run.json();
    for finding in document["findings"].as_array().unwrap() {
        assert_eq!(finding["cause"], "progressing", "{document:#}");
    }
    assert_ne!(document["objects"][0]["state"], "stuck", "{document:#}");
}

#[test]
fn a_finalizer_whose_controller_is_only_slow_is_not_stuck() {
    let world = World::new("slow");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let mut child = start(&world, None, &["diagnose", "cm/c", "--observe", "5s", "-o", "json", "-v"]);
    // It has been seen; what is left of the time is the controller's.
    until_said(&mut child, "configmaps");
    world.free("ConfigMap/c");
    assert_eq!(end(child).expect(0).json()["objects"][0]["state"], "gone");
}

#[test]
fn a_second_foreground_delete_adds_nothing_to_what_holds() {
    let world = World::new("twice");
    world.thing("ServiceAccount", "x", &[], &[HOLD]);
    delete(&world, "ServiceAccount/x", FOREGROUND);
    delete(&world, "ServiceAccount/x", FOREGROUND);
    until_held(&world, "ServiceAccount/x", &[HOLD]);
    let document = diagnose(&world, &["sa/x"], 3);
    assert_finding(only(&document), "finalizer-held", "proven", &["ServiceAccount/x"]);
    world.free("ServiceAccount/x");
    world.gone("ServiceAccount/x");
    let gone = diagnose(&world, &["sa/x", "--ignore-not-found"], 0);
    assert_eq!(names(&gone["objects"]), ["ServiceAccount/x"]);
}

#[test]
fn read_only_probing_finds_less_and_says_so() {
    let world = World::new("read");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let run =
        world.cascade(&["diagnose", "cm/c", "--observe", "1s", "--probe", "read", "-o", "json"]).expect(3);
    let document = run.json();
    assert_finding(only(&document), "finalizer-held", "proven", &["ConfigMap/c"]);
    assert!(document["unchecked"].to_string().contains("--probe=read"), "{document:#}");
}
