//! Stalls made to fool the diagnosis: refusals that come and go, that are about who asks or about the dry run, that
//! speak of somebody else, that are undone on the way, or hide behind each other. Each was told wrongly, or could have
//! been; what was learnt stands beside it.

use std::sync::atomic::{AtomicUsize, Ordering};

use control_plane::{Decision, Webhook, webhook};
use serde_json::{Value, json};

use crate::diagnosis::{
    BACKGROUND, FOREGROUND, Registered, STALL, assert_evidence, assert_finding, commands, definition, delete,
    diagnose, diagnose_with_canary, grant, instance, only, open_schema, paste, policy, until_asked,
    until_held, until_overdue, until_terminating,
};
use crate::support::{HOLD, World, names};

/// A validating webhook on the UPDATE of ConfigMaps in the test's namespace.
#[track_caller]
fn on_update<'w>(
    world: &'w World,
    webhook: &Webhook,
    change: impl FnOnce(&mut Value),
) -> (String, Registered<'w>) {
    let name = format!("fooled.{}.test", world.namespace);
    let mut configuration = webhook.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    change(&mut configuration);
    let registered = Registered::new(world, &[configuration]);
    (name, registered)
}

/// A webhook that does this to every other request, and accepts those between.
fn every_other(refusal: impl Fn() -> Decision + Send + Sync + 'static) -> Webhook {
    let calls = AtomicUsize::new(0);
    Webhook::start(move |_: &Value| match calls.fetch_add(1, Ordering::Relaxed) % 2 {
        0 => refusal(),
        _ => Decision::Allow,
    })
    .unwrap()
}

/// Four diagnoses of a ConfigMap behind such a webhook, by which nobody is said to be treated otherwise than others. The
/// findings with this cause: some run meets the refusal first.
#[track_caller]
fn four_times(world: &World, cause: &str) -> Vec<Value> {
    let mut met = Vec::new();
    for _ in 0..4 {
        let run = world.cascade(&["diagnose", "cm/c", "--observe", "0s", "-o", "json"]).expect(3);
        assert!(!run.stdout.contains("who asks"), "{}", run.stdout);
        let finding = only(&run.json()).clone();
        if finding["cause"] == cause {
            assert_eq!(finding["verdict"], "consistent", "{finding:#}");
            met.push(finding);
        } else {
            assert_finding(&finding, "finalizer-held", "proven", &["ConfigMap/c"]);
        }
    }
    assert!(!met.is_empty(), "one of several runs meets the refusal first");
    met
}

/// Also causes of a finding.
fn also(finding: &Value) -> Vec<&str> {
    finding["also"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn remedies(finding: &Value) -> String {
    finding["remedies"].to_string()
}

/// Two answers to one request were put down to who asks, until the same user asked again.
#[test]
fn a_webhook_that_refuses_every_other_request_is_not_about_who_asks() {
    let world = World::new("every-other");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let webhook = every_other(|| Decision::Deny { code: 503, message: "upstream is busy".into() });
    let (name, _registered) = on_update(&world, &webhook, |_| {});
    until_asked(&world, &webhook, "cm/c");
    for finding in four_times(&world, "admission-denied") {
        assert_eq!(finding["by"]["webhook"], name);
        assert!(finding["summary"].as_str().unwrap().contains("not always"), "{finding:#}");
        assert_evidence(&finding, "upstream is busy");
    }
}

/// The same for a call that times out now and then.
#[test]
fn a_webhook_that_hangs_every_other_time_is_unreachable_now_and_then() {
    let world = World::new("hangs");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let webhook = every_other(|| Decision::Hang);
    let (_, _registered) = on_update(&world, &webhook, |configuration| {
        configuration["webhooks"][0]["timeoutSeconds"] = json!(1)
    });
    until_asked(&world, &webhook, "cm/c");
    for finding in four_times(&world, "admission-unreachable") {
        assert_evidence(&finding, "context deadline exceeded");
    }
}

/// It was told that the DELETE of what has no deletionTimestamp should be let pass because it has one.
#[test]
fn two_blockers_with_different_causes_below_an_owner_with_its_own_finalizer() {
    let world = World::new("two-blockers");
    world.thing("ConfigMap", "top", &[], &["other.test/own"]);
    world.thing("Secret", "held", &["ConfigMap/top!"], &[HOLD]);
    world.thing("ServiceAccount", "locked", &["ConfigMap/top!"], &[]);
    let registered = Registered::new(&world, &policy(&world, "", "serviceaccounts", "DELETE", "false"));
    registered.until_delete_refused("sa/locked");
    delete(&world, "ConfigMap/top", FOREGROUND);
    until_held(&world, "Secret/held", &[HOLD]);
    let document = diagnose(&world, &["cm/top"], 3);
    let findings = document["findings"].as_array().unwrap();
    let causes: Vec<&Value> = findings.iter().map(|finding| &finding["cause"]).collect();
    assert_eq!(causes, ["finalizer-held", "admission-denied", "finalizer-held"], "{document:#}");
    assert_finding(&findings[1], "admission-denied", "proven", &["ConfigMap/top", "ServiceAccount/locked"]);
    assert!(!remedies(&findings[1]).contains("deletionTimestamp"), "{document:#}");
    assert_finding(&findings[2], "finalizer-held", "proven", &["ConfigMap/top"]);
    // All three, each by its own way out, and not before.
    paste(&world, commands(&findings[0]).last().unwrap()).expect(0);
    registered.remove();
    paste(&world, commands(&findings[2]).last().unwrap()).expect(0);
    world.gone("ConfigMap/top");
    world.gone("ServiceAccount/locked");
}

#[test]
fn a_denial_that_changes_its_words_is_one_cause() {
    let world = World::new("words");
    let calls = AtomicUsize::new(0);
    let webhook = Webhook::start(move |_: &Value| Decision::Deny {
        code: 403,
        message: format!("request {} is not welcome", calls.fetch_add(1, Ordering::Relaxed)),
    })
    .unwrap();
    for number in 0..3 {
        world.thing("ConfigMap", &format!("c{number}"), &[], &[HOLD]);
    }
    let (name, registered) = on_update(&world, &webhook, |_| {});
    registered.until_update_refused("cm/c0");
    for number in 0..3 {
        delete(&world, &format!("ConfigMap/c{number}"), BACKGROUND);
    }
    let run = world.cascade(&["diagnose", "--observe", "1s"]).expect(3);
    assert_eq!(run.stdout.matches("admission-denied (proven)").count(), 1, "{}", run.stdout);
    assert!(run.stdout.contains("the same is true of 2 more: ConfigMap/c1, ConfigMap/c2"), "{}", run.stdout);
    assert!(
        run.stdout.contains(&format!("webhook \"{name}\" denied the request: request ")),
        "{}",
        run.stdout
    );
}

/// Its 200 was taken for consent: the finalizer seemed to wait for a controller, the collector to be in back-off, and
/// `release` promised that the object goes at once.
#[test]
fn a_mutator_that_puts_the_finalizer_back_accepts_and_changes_nothing() {
    let world = World::new("back");
    world.thing("ConfigMap", "c", &[], &[]);
    world.thing("ConfigMap", "h", &[], &[HOLD]);
    delete(&world, "ConfigMap/h", BACKGROUND);
    let webhook = Webhook::start(|request: &Value| match &request["oldObject"]["metadata"]["finalizers"] {
        Value::Null => Decision::Allow,
        old => Decision::Patch(json!([{ "op": "add", "path": "/metadata/finalizers", "value": old }])),
    })
    .unwrap();
    let name = format!("back.{}.test", world.namespace);
    let configuration = webhook.mutating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    let registered = Registered::new(&world, &[configuration]);
    until_asked(&world, &webhook, "cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c", "cm/h"], 3);
    for (finding, object) in document["findings"].as_array().unwrap().iter().zip(["c", "h"]) {
        assert_finding(finding, "admission-denied", "proven", &[&format!("ConfigMap/{object}")]);
        assert_eq!(finding["by"]["candidates"], json!([name]), "{finding:#}");
        assert_evidence(finding, "the answer still has what should be removed");
    }
    assert!(!document.to_string().contains("cascade release"), "{document:#}");
    let release = world.cascade(&["release", "cm/h", "-o", "json"]).expect(4).json();
    assert!(release["refused"]["reason"].as_str().unwrap().contains("undoes"), "{release:#}");
    // The way out that asks no UPDATE admission.
    paste(&world, commands(&document["findings"][0])[0]).expect(0);
    world.gone("ConfigMap/c");
    registered.remove();
}

/// It was called an object that no longer validates.
#[test]
fn a_mutator_that_adds_a_finalizer_to_what_is_being_deleted() {
    let world = World::new("adds");
    world.thing("ConfigMap", "c", &[], &[]);
    let webhook = Webhook::start(|request: &Value| {
        let mut own = request["object"]["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        own.push(json!("mesh.test/protect"));
        Decision::Patch(json!([{ "op": "add", "path": "/metadata/finalizers", "value": own }]))
    })
    .unwrap();
    let name = format!("adds.{}.test", world.namespace);
    let configuration = webhook.mutating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    let _registered = Registered::new(&world, &[configuration]);
    until_asked(&world, &webhook, "cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["by"]["candidates"], json!([name]), "{finding:#}");
    assert_evidence(finding, "found new finalizers []string{\"mesh.test/protect\"}");
    assert!(!remedies(finding).contains("schema"), "{finding:#}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
}

/// It was called proven that the webhook refuses the removal; it refuses the dry run.
#[test]
fn a_webhook_that_refuses_dry_runs_only_proves_nothing() {
    let world = World::new("dry-only");
    world.thing("ConfigMap", "h", &[], &[HOLD]);
    delete(&world, "ConfigMap/h", BACKGROUND);
    let webhook = Webhook::start(|request: &Value| match request["dryRun"] == true {
        true => Decision::Deny { code: 400, message: "dry run requests are not supported here".into() },
        false => Decision::Allow,
    })
    .unwrap();
    let (_, registered) = on_update(&world, &webhook, |_| {});
    registered.until_update_refused("cm/h");
    let document = diagnose(&world, &["cm/h"], 3);
    assert_finding(only(&document), "finalizer-held", "proven", &["ConfigMap/h"]);
    assert!(document["unchecked"].to_string().contains("dry run requests are not supported"), "{document:#}");
    // What `release` would refuse is not offered.
    assert_eq!(commands(only(&document)), [] as [&str; 0]);
    let release = world.cascade(&["release", "cm/h", "-o", "json"]).expect(4).json();
    assert!(release["refused"]["reason"].as_str().unwrap().contains("nobody can say"), "{release:#}");
}

/// "Nothing refuses it", it said, and blamed the controller manager's picture of the cluster.
#[test]
fn a_webhook_that_refuses_all_but_dry_runs_is_named_as_one_that_may() {
    let world = World::new("wet-only");
    world.thing("ConfigMap", "c", &[], &[]);
    let webhook = Webhook::start(|request: &Value| match request["dryRun"] == true {
        true => Decision::Allow,
        false => Decision::Deny { code: 403, message: "no".into() },
    })
    .unwrap();
    let (name, registered) = on_update(&world, &webhook, |_| {});
    world.until("the webhook refuses", || {
        let arguments = ["-n", &world.namespace, "annotate", "--overwrite", "cm/c", "probe=1"];
        world.kubectl().run(&arguments).is_err()
    });
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "collector-backoff", "consistent", &["ConfigMap/c"]);
    assert_evidence(finding, &format!("{name}: they may refuse the request itself"));
    assert!(document["unchecked"].to_string().contains("only with --probe=canary"), "{document:#}");
    let document = diagnose_with_canary(&world, "cm/c");
    let finding = only(&document);
    assert_finding(finding, "collector-stale", "consistent", &["ConfigMap/c"]);
    assert_eq!((also(finding), &finding["by"]["candidates"]), (vec!["admission-denied"], &json!([name])));
    assert_evidence(finding, "no effect");
    // The repair.
    registered.remove();
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
}

/// It was told only that the object lives, and that nothing would hold it.
#[test]
fn a_live_object_in_a_namespace_that_is_going_waits_with_it() {
    let world = World::new("ns-going");
    if !world.has_since(33, "a namespace's other content waits for its Pods") {
        return;
    }
    world.pod("p", None, &[], &[HOLD]);
    world.thing("ConfigMap", "behind", &[], &[]);
    let name = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &name, "--wait=false"]).unwrap();
    until_held(&world, "Pod/p", &[HOLD]);
    let document = diagnose(&world, &["cm/behind"], 3);
    let namespace = format!("Namespace/{}", world.namespace);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/behind", &namespace, "Pod/p"]);
    assert_eq!(also(finding), ["namespace-waits-for-pods"]);
    assert_eq!(document["objects"][0]["state"], "stuck");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.until("the namespace is gone", || world.kubectl().run(&["get", &name]).is_err());
}

/// "No dependent blocks it", it said to somebody who may not look everywhere.
#[test]
fn a_blocker_where_the_user_may_not_look_is_not_ruled_out() {
    let world = World::new("unseen");
    let other = World::new("unseen-other");
    grant(&world, "edit", "delete");
    world.thing("ConfigMap", "o", &[], &[]);
    let owner = world.owner("ConfigMap/o!");
    let metadata = json!({ "name": "d", "ownerReferences": [owner], "finalizers": [HOLD] });
    other.create("Secret", json!({ "metadata": metadata }));
    delete(&world, "ConfigMap/o", FOREGROUND);
    until_held(&other, "Secret/d", &[HOLD]);
    let run = world.cascade_as("limited", &["diagnose", "cm/o", "--observe", "1s", "-o", "json"]);
    let document = run.expect(3).json();
    let finding = only(&document);
    assert_eq!(finding["verdict"], "consistent", "{document:#}");
    let summary = finding["summary"].as_str().unwrap();
    assert!(summary.contains("in view") && summary.contains("may not look into"), "{summary}");
    // One line, and not a dozen.
    let run = world.cascade_as("limited", &["diagnose", "cm/o", "--observe", "0s"]);
    assert_eq!(run.stdout.matches("not checked, for lack of rights: ").count(), 1, "{}", run.stdout);
    // What that user can do helps all the same.
    let first = commands(finding)[0].to_owned() + " --as limited";
    paste(&world, &first).expect(0);
    world.gone("ConfigMap/o");
}

#[test]
fn a_policy_whose_conditions_fit_the_collector_alone() {
    let world = World::new("conditions");
    world.thing("ConfigMap", "c", &[], &[]);
    let mut objects = policy(&world, "", "configmaps", "UPDATE", "false");
    let collector = "request.userInfo.username.endsWith('generic-garbage-collector')";
    objects[0]["spec"]["matchConditions"] = json!([{ "name": "collector", "expression": collector }]);
    let _registered = Registered::new(&world, &objects);
    world.until("the policy works", || {
        let user = "system:serviceaccount:kube-system:generic-garbage-collector";
        let annotate = ["annotate", "--dry-run=server", "--overwrite", "cm/c", "probe=1"];
        world.kubectl().run(&[&annotate[..], &["-n", &world.namespace, "--as", user]].concat()).is_err()
    });
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/c"]);
    assert_evidence(finding, "only the collector is refused");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
}

/// It was told to add a condition to a policy that fails because of its condition.
#[test]
fn a_condition_that_cannot_be_evaluated_is_to_be_repaired() {
    let world = World::new("condition-fails");
    world.thing("ConfigMap", "c", &[], &[]);
    let condition = json!([{ "name": "team", "expression": "object.metadata.labels['team'] == 'a'" }]);
    let mut objects = policy(&world, "", "configmaps", "UPDATE", "true");
    objects[0]["spec"]["matchConditions"] = condition.clone();
    let registered = Registered::new(&world, &objects);
    registered.until_update_refused("cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["by"]["policy"], format!("{}-policy", world.namespace));
    assert!(remedies(finding).contains("repair the expression"), "{finding:#}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
    registered.remove();
    // That of a webhook names nobody: who matches is a candidate, and no more than that.
    let webhook = Webhook::start(|_: &Value| Decision::Allow).unwrap();
    let (name, registered) =
        on_update(&world, &webhook, |hook| hook["webhooks"][0]["matchConditions"] = condition.clone());
    world.thing("ConfigMap", "d", &[], &[]);
    registered.until_update_refused("cm/d");
    delete(&world, "ConfigMap/d", FOREGROUND);
    let document = diagnose(&world, &["cm/d"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/d"]);
    assert_eq!(finding["by"]["candidates"], json!([format!("{name} (may match)")]), "{finding:#}");
    assert!(remedies(finding).contains("repair the matchCondition"), "{finding:#}");
}

/// The webhook that its message speaks of was blamed; a message about dry runs made it no refusal at all.
#[test]
fn a_policy_that_speaks_of_an_innocent_webhook_is_blamed_itself() {
    let world = World::new("innocent");
    world.thing("ConfigMap", "c", &[], &[]);
    let mut objects = policy(&world, "", "configmaps", "UPDATE", "false");
    objects[0]["spec"]["validations"][0]["message"] = json!(
        "the admission webhook \"innocent.example.com\" denied the request: it does not support dry run"
    );
    let registered = Registered::new(&world, &objects);
    registered.until_update_refused("cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["by"]["policy"], format!("{}-policy", world.namespace));
    assert!(finding["by"]["webhook"].is_null(), "{finding:#}");
}

/// The first configuration that has a webhook of this name was called the one.
#[test]
fn of_two_configurations_with_the_same_webhook_name_the_matching_one_is_named() {
    let world = World::new("same-name");
    world.thing("ConfigMap", "c", &[], &[]);
    let webhook = Webhook::start(webhook::deny("not like this")).unwrap();
    let name = format!("validate.{}.test", world.namespace);
    let mut decoy = webhook.validating(&name, &world.namespace, &["UPDATE"], &["secrets"]);
    decoy["metadata"]["name"] = json!(format!("a-decoy-{}", world.namespace));
    let mut real = webhook.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    real["metadata"]["name"] = json!(format!("real-{}", world.namespace));
    let registered = Registered::new(&world, &[decoy, real]);
    registered.until_update_refused("cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    assert_eq!(only(&document)["by"]["configuration"], format!("real-{}", world.namespace), "{document:#}");
}

/// Nobody but its own controller could tell whether it is let through; that was left unsaid.
#[test]
fn a_webhook_that_lets_its_own_operator_through_may_hold_nothing() {
    let world = World::new("operator-only");
    world.thing("ConfigMap", "c", &[], &[HOLD]);
    delete(&world, "ConfigMap/c", BACKGROUND);
    let webhook = Webhook::start(|request: &Value| {
        match request["userInfo"]["username"] == "system:serviceaccount:ops:operator" {
            true => Decision::Allow,
            false => Decision::Deny { code: 403, message: "only the operator may do that".into() },
        }
    })
    .unwrap();
    let (_, registered) = on_update(&world, &webhook, |_| {});
    registered.until_update_refused("cm/c");
    let document = diagnose(&world, &["cm/c"], 3);
    assert_finding(only(&document), "admission-denied", "proven", &["ConfigMap/c"]);
    let unchecked = document["unchecked"].to_string();
    assert!(unchecked.contains("whether the finalizer's own controller is refused, too"), "{document:#}");
}

/// "The same is true" of objects that nobody had looked at.
#[test]
fn what_was_not_examined_is_not_said_to_be_the_same() {
    let world = World::new("seventh");
    world.thing("Secret", "owner", &[], &[]);
    for number in 0..8 {
        world.thing("ConfigMap", &format!("c{number}"), &["Secret/owner!"], &[HOLD]);
    }
    let webhook = Webhook::start(|request: &Value| match request["name"] == "c6" {
        true => Decision::Deny { code: 403, message: "c6 is special".into() },
        false => Decision::Allow,
    })
    .unwrap();
    let (_, registered) = on_update(&world, &webhook, |_| {});
    registered.until_update_refused("cm/c6");
    delete(&world, "Secret/owner", FOREGROUND);
    (0..8).for_each(|number| until_held(&world, &format!("ConfigMap/c{number}"), &[HOLD]));
    let run = world.cascade(&["diagnose", "secret/owner", "--observe", "1s"]).expect(3);
    let words = "7 more are in the same state (3 of them were not examined one by one): ConfigMap/c1, ";
    assert!(run.stdout.contains(words), "{}", run.stdout);
    assert!(!run.stdout.contains("likewise"), "the count stands once: {}", run.stdout);
    // Asked about by itself, it is looked at.
    let document = diagnose(&world, &["cm/c6"], 3);
    assert_finding(only(&document), "admission-denied", "proven", &["ConfigMap/c6"]);
}

#[test]
fn an_owner_that_was_made_again_under_its_old_name_is_another() {
    let world = World::new("same-owner");
    world.thing("ConfigMap", "o", &[], &[]);
    world.thing("Secret", "d", &["ConfigMap/o!"], &[HOLD]);
    delete(&world, "ConfigMap/o", BACKGROUND);
    world.gone("ConfigMap/o");
    world.thing("ConfigMap", "o", &[], &[]);
    until_held(&world, "Secret/d", &[HOLD]);
    let document = diagnose(&world, &[], 3);
    assert_finding(only(&document), "finalizer-held", "proven", &["Secret/d"]);
    let live = diagnose(&world, &["cm/o"], 0);
    assert_eq!((&live["objects"][0]["state"], &live["findings"]), (&json!("live"), &json!([])));
    let tree = world.cascade(&["tree", "cm/o", "-o", "json"]).expect(0).json();
    assert_eq!(names(&tree["objects"]), ["ConfigMap/o"], "{tree:#}");
}

/// A revision that its controller made anew was called refused and in back-off; the claim's way out did not say that the
/// Pod comes back.
#[test]
fn a_stateful_set_that_makes_its_pod_and_its_revision_anew() {
    let world = World::new("sts");
    let node = world.bare_node();
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    world.create(
        "StatefulSet",
        json!({
            "metadata": { "name": "db" },
            "spec": {
                "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "template": {
                    "metadata": { "labels": { "app": "db" } },
                    "spec": {
                        "nodeName": node, "terminationGracePeriodSeconds": 1,
                        "containers": [{ "name": "c", "image": "example.test/i:1" }],
                        "tolerations": [{ "operator": "Exists" }],
                    },
                },
                "volumeClaimTemplates": [claim],
            },
        }),
    );
    let protected = |claim: Value| claim["metadata"]["finalizers"].is_array();
    world.until("there are a Pod and a protected claim", || {
        world.get("Pod/db-0").is_some() && world.get("PersistentVolumeClaim/data-db-0").is_some_and(protected)
    });
    delete(&world, "PersistentVolumeClaim/data-db-0", BACKGROUND);
    let document = diagnose(&world, &["pvc/data-db-0"], 3);
    let finding = only(&document);
    assert_finding(finding, "claim-in-use", "proven", &["PersistentVolumeClaim/data-db-0"]);
    let risk = finding["remedies"][0]["risk"].as_str().unwrap();
    assert!(risk.contains("StatefulSet/db makes a Pod in its place"), "{finding:#}");

    let arguments =
        ["delete", "sts/db", "--policy", "foreground", "--yes", "--stall-timeout", STALL, "-o", "json"];
    let result = world.cascade(&arguments).expect(3).json();
    let findings = result["findings"].as_array().unwrap();
    for finding in findings {
        let cause = finding["cause"].as_str().unwrap();
        let expected = match finding["object"]["kind"].as_str() {
            Some("ControllerRevision") => "progressing",
            _ => "node-unreachable",
        };
        assert_eq!(cause, expected, "{result:#}");
    }
    assert!(findings.iter().any(|finding| finding["object"]["name"] == "db-0"), "{result:#}");
}

/// Any workload that had the domain's first word in its registry's name was taken for the controller; which API group
/// the domain belongs to was not said.
#[test]
fn a_finalizer_of_a_served_group_and_one_that_only_looks_like_it() {
    let world = World::new("group");
    let group = format!("{}.test", world.namespace);
    let name = definition(&world, open_schema());
    let deployment = |name: &str, image: &str| {
        json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": 0, "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "c", "image": image }] },
                },
            },
        })
    };
    // A registry of the same company, and the controller itself.
    world.create("Deployment", deployment("wares", &format!("registry.{group}/wares:1")));
    world.create(
        "Deployment",
        deployment("controller", &format!("quay.test/{}-controller:1", world.namespace)),
    );
    let (own, like) = (format!("{group}/cleanup"), format!("x{group}/cleanup"));
    world.thing("ConfigMap", "own", &[], &[&own]);
    world.thing("ConfigMap", "like", &[], &[&like]);
    delete(&world, "ConfigMap/own", BACKGROUND);
    delete(&world, "ConfigMap/like", BACKGROUND);
    let document = diagnose(&world, &["cm/own"], 3);
    let finding = only(&document);
    assert_evidence(finding, &format!("served: {name}"));
    assert_evidence(
        finding,
        &format!("deployment {}/controller (0 of 0 ready) may be its controller", world.namespace),
    );
    let document = diagnose(&world, &["cm/like"], 3);
    assert!(!document.to_string().contains("served: "), "{document:#}");
    // An instance whose definition goes along with it.
    instance(&world, "g", &[&own]);
    world.kubectl().run(&["delete", "crd", &name, "--wait=false"]).unwrap();
    let target = format!("{name}/g");
    until_terminating(&world, &target);
    let document = diagnose(&world, &[&target], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["Graph/g"]);
    assert_evidence(finding, "it is being deleted, too, and waits for its instances");
    paste(&world, commands(finding).last().unwrap()).expect(0);
    world.until("the definition is gone", || world.kubectl().run(&["get", "crd", &name]).is_err());
}

/// It was told to give the controller of claims time with a ConfigMap, and to give the Job controller rights on it.
#[test]
fn a_well_known_finalizer_on_an_object_of_another_kind() {
    let world = World::new("known");
    for (name, finalizer) in [
        ("a", "kubernetes.io/pvc-protection"),
        ("b", "batch.kubernetes.io/job-tracking"),
        ("c", "service.kubernetes.io/load-balancer-cleanup"),
    ] {
        world.thing("ConfigMap", name, &[], &[finalizer]);
        let object = format!("ConfigMap/{name}");
        delete(&world, &object, BACKGROUND);
        let document = diagnose(&world, &[&format!("cm/{name}")], 3);
        let finding = only(&document);
        assert_finding(finding, "finalizer-held", "proven", &[&object]);
        assert!(
            finding["summary"].as_str().unwrap().contains("nobody is known to serve it here"),
            "{finding:#}"
        );
        paste(&world, commands(finding)[0]).expect(0);
        world.gone(&object);
    }
}

/// Its node back, or force, was said to be the end of it.
#[test]
fn a_pod_without_a_kubelet_that_keeps_a_refused_finalizer_and_a_held_dependent() {
    let world = World::new("everything");
    let node = world.bare_node();
    world.pod("p", Some(&node), &[], &[HOLD]);
    world.thing("Secret", "s", &["Pod/p!"], &[HOLD]);
    let webhook = Webhook::start(webhook::deny("not now")).unwrap();
    let name = format!("everything.{}.test", world.namespace);
    let registered =
        Registered::new(&world, &[webhook.validating(&name, &world.namespace, &["UPDATE"], &["pods"])]);
    registered.until_update_refused("pod/p");
    delete(&world, "Pod/p", r#"{"propagationPolicy":"Foreground","gracePeriodSeconds":1}"#);
    until_held(&world, "Secret/s", &[HOLD]);
    until_overdue(&world, "Pod/p");
    let document = diagnose(&world, &["pod/p"], 3);
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2, "{document:#}");
    assert_finding(&findings[0], "finalizer-held", "proven", &["Pod/p", "Secret/s"]);
    assert_finding(&findings[1], "node-unreachable", "proven", &["Pod/p"]);
    assert_eq!(also(&findings[1]), ["admission-denied"]);
    assert!(!remedies(&findings[1]).contains("ends by itself"), "{document:#}");
    assert!(
        remedies(&findings[1]).contains("that alone does not help, since example.test/hold is left"),
        "{document:#}"
    );
    // One after the other.
    paste(&world, commands(&findings[0]).last().unwrap()).expect(0);
    world.gone("Secret/s");
    let force = commands(&findings[1]).into_iter().find(|command| command.contains("--force")).unwrap();
    paste(&world, &format!("{force} --wait=false")).expect(0);
    registered.until_update_accepted("pod/p");
    until_held(&world, "Pod/p", &[HOLD]);
    let document = diagnose(&world, &["pod/p"], 3);
    paste(&world, commands(only(&document)).last().unwrap()).expect(0);
    world.gone("Pod/p");
}
