//! APIs that do not answer, and kinds that cannot be read. On a control plane of its own: a dead API is seen by
//! everybody.

use control_plane::{ControlPlane, Options};
use serde_json::json;

use crate::diagnosis::{assert_evidence, assert_finding, commands, diagnose, only, own_plane, paste};
use crate::support::{HOLD, World};

#[test]
fn an_api_that_does_not_answer_and_a_kind_that_cannot_be_converted() {
    let plane = own_plane(Options::default().hurried());
    dead_api(plane);
    broken_conversion(plane);
    stored_in_a_version_that_nobody_can_convert_to(plane);
}

fn dead_api(plane: &'static ControlPlane) {
    let world = World::on(plane, "dead-api");
    world.thing("ConfigMap", "c", &[], &[]);
    let service = "v1beta1.metrics.example.test";
    let manifest = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": service },
        "spec": {
            "group": "metrics.example.test", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "name": "none", "namespace": world.namespace },
        },
    });
    world.kubectl().apply(&manifest.to_string()).unwrap();
    let name = format!("ns/{}", world.namespace);
    world.until("discovery is stale", || {
        world.kubectl().run(&["get", "--raw", "/apis/metrics.example.test/v1beta1"]).is_err()
    });
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    world.until("its controller cannot discover everything", || {
        let conditions = world.kubectl().run(&["get", &name, "-o", "jsonpath={.status.conditions}"]).unwrap();
        conditions.contains("DiscoveryFailed")
    });
    world.gone("ConfigMap/c");
    let document = diagnose(&world, &[&name], 3);
    let finding = only(&document);
    let namespace = format!("Namespace/{}", world.namespace);
    assert_finding(finding, "api-service-unavailable", "proven", &[&namespace]);
    assert_eq!(finding["by"]["apiService"], service);
    assert_evidence(finding, "metrics.example.test/v1beta1");
    // An owner elsewhere is not blamed on it.
    let other = World::on(plane, "dead-api-other");
    other.thing("ConfigMap", "o", &[], &[]);
    other.thing("Secret", "d", &["ConfigMap/o!"], &[]);
    other.cascade(&["delete", "cm/o", "--policy", "foreground", "--yes", "--timeout", "60s"]).expect(0);
    paste(&world, commands(finding)[1]).expect(0);
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

fn broken_conversion(plane: &'static ControlPlane) {
    let world = World::on(plane, "conversion");
    let group = format!("{}.test", world.namespace);
    let name = format!("graphs.{group}");
    let version = |version: &str, storage: bool| {
        json!({
            "name": version, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    world.create("CustomResourceDefinition", json!({
        "metadata": { "name": name },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "graphs", "singular": "graph", "kind": "Graph", "listKind": "GraphList" },
            "versions": [version("v1alpha1", true)],
        },
    }));
    world.until("the CRD is served", || world.kubectl().run(&["-n", &world.namespace, "get", &name]).is_ok());
    let instance = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "Graph",
        "metadata": { "name": "g", "namespace": world.namespace },
    });
    world.kubectl().run_with_input(&["create", "-f", "-"], &instance.to_string()).unwrap();
    world.thing("ConfigMap", "own", &[], &[]);
    let mut owned = instance.clone();
    owned["metadata"]["name"] = json!("owned");
    owned["metadata"]["ownerReferences"] = json!([world.owner("ConfigMap/own!")]);
    world.kubectl().run_with_input(&["create", "-f", "-"], &owned.to_string()).unwrap();
    // The collector looks for new kinds every 30 s; a kind that it does not know yet blocks nobody.
    let mut known = owned.clone();
    known["metadata"]["name"] = json!("known");
    known["metadata"]["ownerReferences"][0]["uid"] = json!("no-such-uid");
    world.kubectl().run_with_input(&["create", "-f", "-"], &known.to_string()).unwrap();
    world.until("the collector knows the kind", || {
        world.kubectl().run(&["-n", &world.namespace, "get", &name, "known"]).is_err()
    });
    let broken = json!({ "spec": {
        "versions": [version("v1", true), version("v1alpha1", false)],
        "conversion": { "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://127.0.0.1:9/convert" },
        } },
    } });
    world.kubectl().run(&["patch", "crd", &name, "--type=merge", "-p", &broken.to_string()]).unwrap();
    let path = format!("/apis/{group}/v1/namespaces/{}/graphs/g", world.namespace);
    world.until("the conversion fails", || {
        world
            .kubectl()
            .run(&["get", "--raw", &path])
            .is_err_and(|error| error.to_string().contains("conversion"))
    });
    // The owner of an instance that cannot be read waits for it.
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" }));
    let document = diagnose(&world, &["cm/own"], 3);
    let finding = only(&document);
    assert_eq!(
        (&finding["cause"], &finding["chain"][0]["name"]),
        (&json!("kind-unreadable"), &json!("own")),
        "{document:#}"
    );
    assert_evidence(finding, "conversion webhook");
    assert!(finding["remedies"].to_string().contains("never use the unsafe delete"), "{finding:#}");
    assert_eq!(finding["object"]["name"], "owned");

    let crd = format!("crd/{name}");
    world.kubectl().run(&["delete", &crd, "--wait=false"]).unwrap();
    world.until("its instances cannot be listed", || {
        let conditions = world.kubectl().run(&["get", &crd, "-o", "jsonpath={.status.conditions}"]).unwrap();
        conditions.contains("could not list instances")
    });
    let document = diagnose(&world, &[&crd], 3);
    let finding = only(&document);
    assert_finding(finding, "kind-unreadable", "proven", &[&format!("CustomResourceDefinition/{name}")]);
    assert_evidence(finding, "conversion webhook");
    // The known repair.
    let none = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
    world.kubectl().run(&["patch", "crd", &name, "--type=merge", "-p", &none.to_string()]).unwrap();
    world.until("the CRD is gone", || world.kubectl().run(&["get", &crd]).is_err());
    // By now the collector is in back-off for as long as the conversion failed; background does not wait for it.
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Background" }));
    world.gone("ConfigMap/own");
}

/// A dry run stores nothing, so it passes; the removal itself was then refused.
fn stored_in_a_version_that_nobody_can_convert_to(plane: &'static ControlPlane) {
    let world = World::on(plane, "stored-elsewhere");
    let group = format!("{}.test", world.namespace);
    let name = format!("graphs.{group}");
    let version = |version: &str, storage: bool| {
        json!({
            "name": version, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    world.create("CustomResourceDefinition", json!({
        "metadata": { "name": name },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "graphs", "singular": "graph", "kind": "Graph", "listKind": "GraphList" },
            "versions": [version("v1", true)],
        },
    }));
    let kubectl = |arguments: &[&str]| world.kubectl().run(&[&["-n", &world.namespace], arguments].concat());
    world.until("the CRD is served", || kubectl(&["get", &name]).is_ok());
    let held = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Graph",
        "metadata": { "name": "g", "namespace": world.namespace, "finalizers": [HOLD] },
    });
    world.kubectl().run_with_input(&["create", "-f", "-"], &held.to_string()).unwrap();
    kubectl(&["delete", &name, "g", "--wait=false"]).unwrap();
    let broken = json!({ "spec": {
        "versions": [version("v1", false), version("v2", true)],
        "conversion": { "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://127.0.0.1:9/convert" },
        } },
    } });
    kubectl(&["patch", "crd", &name, "--type=merge", "-p", &broken.to_string()]).unwrap();
    let free = json!({ "metadata": { "finalizers": null } }).to_string();
    let patch = ["patch", &format!("graphs.v1.{group}"), "g", "--type=merge", "-p", &free];
    let dry_run = [&patch[..], &["--dry-run=server"]].concat();
    world.until("a dry run passes, and v2 cannot be read", || {
        let path = format!("/apis/{group}/v2/namespaces/{}/graphs/g", world.namespace);
        kubectl(&["get", "--raw", &format!("/apis/{group}")]).unwrap().contains("v2")
            && kubectl(&dry_run).is_ok()
            && kubectl(&["get", "--raw", &path]).is_err_and(|error| error.to_string().contains("conversion"))
    });
    let target = format!("graphs.v1.{group}/g");
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "kind-unreadable", "proven", &["Graph/g"]);
    assert_eq!(finding["also"], json!(["finalizer-held"]), "{finding:#}");
    assert_eq!(finding["by"]["webhook"], "https://127.0.0.1:9/convert");
    assert_eq!(finding["by"]["finalizer"], HOLD);
    assert_evidence(finding, "conversion webhook for");
    assert!(!commands(finding).iter().any(|command| command.contains("release")), "{finding:#}");
    let release = world.cascade(&["release", &target, "-o", "json"]).expect(4).json();
    assert_eq!(release["applied"], false);
    assert_eq!(release["refused"]["by"]["webhook"], "https://127.0.0.1:9/convert", "{release:#}");
    assert!(release["refused"]["evidence"].to_string().contains("conversion webhook for"), "{release:#}");
    // The removal itself is refused indeed.
    let refused = kubectl(&patch).unwrap_err().to_string();
    assert!(refused.contains("conversion webhook for"), "{refused}");
    // Its Namespace names the instance as what holds it.
    let namespace = format!("ns/{}", world.namespace);
    kubectl(&["delete", &namespace, "--wait=false"]).unwrap();
    let document = diagnose(&world, &[&namespace], 3);
    let findings = document["findings"].as_array().unwrap();
    let of_g = findings.iter().find(|finding| finding["object"]["name"] == "g");
    assert_eq!(of_g.map(|finding| &finding["cause"]), Some(&json!("kind-unreadable")), "{document:#}");
    // Where v1 is what is stored, the dead webhook is in nobody's way.
    let back = json!({ "spec": { "versions": [version("v1", true), version("v2", false)] } });
    kubectl(&["patch", "crd", &name, "--type=merge", "-p", &back.to_string()]).unwrap();
    let document = diagnose(&world, &[&target], 3);
    assert_finding(only(&document), "finalizer-held", "proven", &["Graph/g"]);
    world.until("the removal is accepted", || kubectl(&patch).is_ok());
}
