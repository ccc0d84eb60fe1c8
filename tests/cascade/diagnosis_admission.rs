//! Admission in the way: webhooks, policies and mutators that refuse what would free an object.

use control_plane::{Webhook, webhook};
use serde_json::json;

use crate::conduct::{end, start};
use crate::diagnosis::{
    BACKGROUND, FOREGROUND, ORPHAN, Registered, STALL, assert_evidence, assert_finding, commands, delete,
    diagnose, grant, only, paste, policy, until_asked, until_held,
};
use crate::support::{HOLD, World};

#[test]
fn a_webhook_denies_the_collectors_patch_of_a_pod_and_background_frees_it() {
    let world = World::new("denied");
    world.pod("build-1", None, &[], &[]);
    let webhook =
        Webhook::start(webhook::deny("could not create keychain: secrets \"cred0\" not found")).unwrap();
    let name = format!("digester.{}.test", world.namespace);
    let registered =
        Registered::new(&world, &[webhook.mutating(&name, &world.namespace, &["UPDATE"], &["pods"])]);
    registered.until_update_refused("pod/build-1");
    delete(&world, "Pod/build-1", FOREGROUND);
    until_held(&world, "Pod/build-1", &["foregroundDeletion"]);

    let document = diagnose(&world, &["pod/build-1"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["Pod/build-1"]);
    assert_eq!(finding["by"]["webhook"], name.as_str());
    assert_eq!(finding["by"]["configuration"], name.as_str());
    assert_evidence(
        finding,
        &format!(
            "admission webhook \"{name}\" denied the request: could not create keychain: secrets \"cred0\" not found"
        ),
    );
    assert_eq!(document["objects"][0]["state"], "stuck");
    let first = commands(finding)[0];
    assert_eq!(
        first,
        format!("kubectl cascade delete -n {} pod/build-1 --policy background", world.namespace)
    );
    paste(&world, first).expect(0);
    world.gone("Pod/build-1");
}

#[test]
fn a_policy_locks_a_job_and_is_named_with_its_binding() {
    let world = World::new("locked");
    world.create(
        "Job",
        json!({ "metadata": { "name": "j" }, "spec": { "suspend": true, "template": {
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "example.test/i:1" }] },
    } } }),
    );
    let registered = Registered::new(&world, &policy(&world, "batch", "jobs", "UPDATE", "false"));
    registered.until_update_refused("job/j");
    delete(&world, "Job/j", FOREGROUND);

    let document = diagnose(&world, &["job/j"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["Job/j"]);
    assert_eq!(finding["by"]["policy"], format!("{}-policy", world.namespace));
    assert_eq!(finding["by"]["binding"], format!("{}-binding", world.namespace));
    assert!(finding["by"]["webhook"].is_null());
    assert_evidence(finding, "denied request: managed objects are locked");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("Job/j");
}

#[test]
fn a_mutator_that_changes_a_pod_keeps_its_job_tracking_finalizer() {
    let world = World::new("mutated");
    world.pod("first", None, &[], &[]);
    let webhook = Webhook::start(webhook::inject_env("INJECTED")).unwrap();
    let name = format!("inject.{}.test", world.namespace);
    let registered = Registered::new(
        &world,
        &[webhook.mutating(&name, &world.namespace, &["CREATE", "UPDATE"], &["pods"])],
    );
    registered.until_update_refused("pod/first");
    // Without a Job the Job controller would take the finalizer off at once; now it is refused.
    world.pod("j1-abc", None, &[], &["batch.kubernetes.io/job-tracking"]);
    delete(&world, "Pod/j1-abc", BACKGROUND);
    until_held(&world, "Pod/j1-abc", &["batch.kubernetes.io/job-tracking"]);

    let document = diagnose(&world, &["pod/j1-abc"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["Pod/j1-abc"]);
    assert_eq!(finding["by"]["finalizer"], "batch.kubernetes.io/job-tracking");
    assert_eq!(finding["by"]["candidates"], json!([name]));
    assert_evidence(finding, "INJECTED");
    // What cannot work is not offered: no removal by hand, no force, no background.
    assert_eq!(commands(finding), [] as [&str; 0]);
    // The known repair.
    registered.until_update_accepted("pod/first");
    world.gone("Pod/j1-abc");
}

#[test]
fn a_webhook_refuses_only_the_collector_and_acting_as_it_proves_so() {
    let world = World::new("only-gc");
    world.thing("ConfigMap", "schedule", &[], &[]);
    let refuse = webhook::deny_user_suffix(":generic-garbage-collector", "who are you?");
    let webhook = Webhook::start(refuse).unwrap();
    let name = format!("auth.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    let _registered = Registered::new(&world, &[configuration]);
    until_asked(&world, &webhook, "cm/schedule");
    delete(&world, "ConfigMap/schedule", FOREGROUND);

    let document = diagnose(&world, &["cm/schedule"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/schedule"]);
    assert_eq!(finding["by"]["webhook"], name.as_str());
    assert_evidence(finding, "who are you?");
    assert_evidence(finding, "only the collector is refused");

    // An ordinary user of the namespace cannot act as the collector: consistent, and it says what is missing.
    grant(&world, "edit", "delete");
    let limited = world
        .cascade_as("limited", &["diagnose", "cm/schedule", "--observe", "1s", "-o", "json"])
        .expect(3)
        .json();
    let finding = only(&limited);
    assert_finding(finding, "admission-denied", "consistent", &["ConfigMap/schedule"]);
    assert!(limited["unchecked"].to_string().contains("cannot impersonate"), "{limited:#}");
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/schedule");
}

#[test]
fn a_dead_webhook_on_delete_keeps_a_dependent_that_is_not_even_terminating() {
    let world = World::new("dead-hook");
    world.thing("ConfigMap", "vol", &[], &[]);
    world.thing("Secret", "r1", &["ConfigMap/vol!"], &[]);
    let webhook = Webhook::start(webhook::deny("never asked")).unwrap();
    let name = format!("gone.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["DELETE"], &["secrets"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    registered.until_delete_refused("secret/r1");
    delete(&world, "ConfigMap/vol", FOREGROUND);

    let document = diagnose(&world, &["cm/vol"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-unreachable", "proven", &["ConfigMap/vol", "Secret/r1"]);
    assert_eq!(finding["by"]["configuration"], name.as_str());
    assert_evidence(finding, "failed calling webhook");
    let last = finding["remedies"].as_array().unwrap().last().unwrap();
    assert!(last["risk"].as_str().unwrap().contains("Secret/r1 stays behind"), "{finding:#}");
    // The known repair: the configuration of a server that is gone for good is removed.
    registered.remove();
    world.gone("ConfigMap/vol");
    world.gone("Secret/r1");
}

#[test]
fn a_webhook_that_cannot_be_called_keeps_an_object_from_losing_its_finalizer() {
    let world = World::new("no-hook");
    world.thing("ConfigMap", "c", &[], &[]);
    let webhook = Webhook::start(webhook::deny("never asked")).unwrap();
    let name = format!("gone2.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["UPDATE"], &["configmaps"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    registered.until_update_refused("cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-unreachable", "proven", &["ConfigMap/c"]);
    paste(&world, commands(finding)[0]).expect(0);
    world.gone("ConfigMap/c");
}

#[test]
fn a_dependent_with_a_living_owner_may_not_lose_its_other_reference() {
    let world = World::new("two-owners");
    world.thing("ConfigMap", "a", &[], &[]);
    world.thing("ConfigMap", "b", &[], &[]);
    world.thing("Secret", "d", &["ConfigMap/a!", "ConfigMap/b"], &[]);
    let registered = Registered::new(&world, &policy(&world, "", "secrets", "UPDATE", "false"));
    registered.until_update_refused("secret/d");
    delete(&world, "ConfigMap/a", FOREGROUND);
    let document = diagnose(&world, &["cm/a"], 3);
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/a", "Secret/d"]);
    assert_eq!(finding["also"], json!(["kept-by-other-owner"]));
    assert_eq!(finding["by"]["policy"], format!("{}-policy", world.namespace));
    let background = *commands(finding).last().unwrap();
    assert!(background.ends_with("configmap/a --policy background"), "{finding:#}");
    paste(&world, background).expect(0);
    world.gone("ConfigMap/a");
    assert!(world.get("Secret/d").is_some());
}

#[test]
fn orphaning_waits_for_a_dependent_that_may_not_be_patched() {
    let world = World::new("orphaning");
    world.thing("ConfigMap", "o", &[], &[]);
    world.thing("Secret", "d", &["ConfigMap/o"], &[]);
    let registered = Registered::new(&world, &policy(&world, "", "secrets", "UPDATE", "false"));
    registered.until_update_refused("secret/d");
    delete(&world, "ConfigMap/o", ORPHAN);
    until_held(&world, "ConfigMap/o", &["orphan"]);
    let document = diagnose(&world, &["cm/o"], 3);
    assert_finding(only(&document), "admission-denied", "proven", &["ConfigMap/o", "Secret/d"]);
    // In background the collector would delete what should stay.
    assert!(!document.to_string().contains("--policy background"), "{document:#}");
}

#[test]
fn a_webhook_that_matches_and_allows_is_not_blamed() {
    let world = World::new("allows");
    world.thing("ConfigMap", "c", &[], &["example.test/hold"]);
    let webhook = Webhook::start(|_: &serde_json::Value| webhook::Decision::Allow).unwrap();
    let name = format!("kind.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["*"], &["configmaps"]);
    let _registered = Registered::new(&world, &[configuration]);
    until_asked(&world, &webhook, "cm/c");
    delete(&world, "ConfigMap/c", BACKGROUND);
    let document = diagnose(&world, &["cm/c"], 3);
    assert_finding(only(&document), "finalizer-held", "proven", &["ConfigMap/c"]);
}

#[test]
fn a_policy_engine_on_pods_keeps_a_job_in_foreground() {
    let world = World::new("engine");
    world.pod("first", None, &[], &[]);
    world.create(
        "Job",
        json!({ "metadata": { "name": "j1" }, "spec": { "template": {
        "spec": {
            "restartPolicy": "Never", "nodeSelector": { "no": "such" },
            "containers": [{ "name": "c", "image": "example.test/i:1" }],
        },
    } } }),
    );
    let pods = || {
        let arguments = ["-n", &world.namespace, "get", "pods", "-l", "job-name=j1", "-o", "name"];
        world.kubectl().run(&arguments).unwrap().trim().replace("pod/", "Pod/")
    };
    world.until("the Job has a Pod", || !pods().is_empty());
    let webhook = Webhook::start(webhook::deny("images must come from our registry")).unwrap();
    let name = format!("engine.{}.test", world.namespace);
    let registered =
        Registered::new(&world, &[webhook.validating(&name, &world.namespace, &["UPDATE"], &["pods"])]);
    registered.until_update_refused("pod/first");
    let delete =
        ["delete", "job/j1", "--policy", "foreground", "--yes", "--stall-timeout", STALL, "-o", "json"];
    let result = world.cascade(&delete).expect(3).json();
    let finding = only(&result);
    let pod = pods();
    assert_finding(finding, "admission-denied", "proven", &["Job/j1", &pod]);
    assert_eq!(finding["by"]["webhook"], name.as_str());
    assert_eq!(finding["by"]["finalizer"], "batch.kubernetes.io/job-tracking");
    assert_evidence(finding, "images must come from our registry");
    assert!(
        commands(finding).iter().all(|command| !command.contains("release") && !command.contains("force"))
    );
    registered.remove();
    world.gone("Job/j1");
    world.gone(&pod);
}

#[test]
fn a_policy_that_lets_only_controllers_through_does_not_hold_the_collector() {
    let world = World::new("people");
    world.thing("ConfigMap", "c", &[], &[]);
    world.thing("ConfigMap", "held", &[], &["example.test/hold"]);
    let expression = "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')";
    let registered = Registered::new(&world, &policy(&world, "", "configmaps", "UPDATE", expression));
    registered.until_update_refused("cm/c");
    delete(&world, "ConfigMap/c", FOREGROUND);
    world.gone("ConfigMap/c");
    delete(&world, "ConfigMap/held", BACKGROUND);
    let document = diagnose(&world, &["cm/held"], 3);
    let finding = only(&document);
    assert_finding(finding, "finalizer-held", "proven", &["ConfigMap/held"]);
    assert_evidence(finding, "the refusal is about who asks");
    assert_eq!(commands(finding), [] as [&str; 0]);
}

/// "Nothing would hold it", it said of what nobody can delete.
#[test]
fn what_refuses_the_delete_of_a_live_object_is_told_before_it_is_sent() {
    let world = World::new("live-refused");
    world.thing("ConfigMap", "c", &[], &[]);
    let live = |arguments: &[&str]| {
        let all = [&["diagnose", "cm/c", "-o", "json"], arguments].concat();
        world.cascade(&all).expect(0).json()
    };
    let free = live(&[]);
    assert_eq!((&free["objects"][0]["dryRun"], &free["findings"]), (&json!("accepted"), &json!([])));

    let registered = Registered::new(&world, &policy(&world, "", "configmaps", "DELETE", "false"));
    registered.until_delete_refused("cm/c");
    let document = live(&[]);
    let object = &document["objects"][0];
    assert_eq!((&object["state"], &object["dryRun"]), (&json!("live"), &json!("refused")), "{document:#}");
    let finding = only(&document);
    assert_finding(finding, "admission-denied", "proven", &["ConfigMap/c"]);
    assert_eq!(finding["by"]["binding"], format!("{}-binding", world.namespace));
    assert_evidence(finding, "managed objects are locked");
    let text = world.cascade(&["diagnose", "cm/c"]).expect(0).stdout;
    assert!(text.contains("ConfigMap/c is not being deleted; its DELETE would be refused"), "{text}");

    // Who may not ask, or should not, does not say that nothing would hold it.
    let read = live(&["--probe", "read"]);
    assert_eq!((&read["objects"][0]["dryRun"], &read["findings"]), (&json!("unknown"), &json!([])));
    assert!(read["unchecked"].to_string().contains("--probe=read"), "{read:#}");
    grant(&world, "view", "list");
    let run = world.cascade_as("limited", &["diagnose", "cm/c", "-o", "json"]).expect(0);
    assert_eq!(run.json()["objects"][0]["dryRun"], "unknown", "{run:#?}");
    assert!(run.json()["unchecked"].to_string().contains("cannot delete resource"), "{run:#?}");
    let text = world.cascade_as("limited", &["diagnose", "cm/c"]).expect(0).stdout;
    assert!(text.contains("whether its DELETE is accepted is not known"), "{text}");
    registered.remove();

    let webhook = Webhook::start(webhook::deny("never asked")).unwrap();
    let name = format!("gone3.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["DELETE"], &["configmaps"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    world.until("the webhook is called in vain", || {
        let arguments = ["-n", &world.namespace, "delete", "--dry-run=server", "cm/c"];
        world.kubectl().run(&arguments).is_err_and(|error| error.to_string().contains(&name))
    });
    let document = live(&[]);
    assert_finding(only(&document), "admission-unreachable", "proven", &["ConfigMap/c"]);
    assert_eq!(only(&document)["by"]["configuration"], name.as_str());
    registered.remove();
    // It was only foretold.
    assert!(world.get("ConfigMap/c").is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null()));
}

/// The one dependent went between the two looks, and that was taken for progress, with a rate.
#[test]
fn an_owner_whose_last_step_is_refused_is_not_said_to_move_because_its_last_dependent_went() {
    let world = World::new("last-step");
    world.thing("ConfigMap", "root", &[], &[]);
    world.thing("Secret", "last", &["ConfigMap/root!"], &[HOLD]);
    let webhook = Webhook::start(webhook::deny("nothing may change")).unwrap();
    let name = format!("lock.{}.test", world.namespace);
    let registered =
        Registered::new(&world, &[webhook.mutating(&name, &world.namespace, &["UPDATE"], &["configmaps"])]);
    registered.until_update_refused("cm/root");
    delete(&world, "ConfigMap/root", FOREGROUND);
    until_held(&world, "Secret/last", &[HOLD]);
    let run = start(&world, None, &["diagnose", "cm/root", "--observe", "5s", "-o", "json"]);
    // Between the looks, where the first one does not take long; else there is nothing to be fooled by.
    std::thread::sleep(std::time::Duration::from_secs(2));
    world.free("Secret/last");
    world.gone("Secret/last");
    let document = end(run).expect(3).json();
    assert_finding(only(&document), "admission-denied", "proven", &["ConfigMap/root"]);
    assert_eq!(document["objects"][0]["state"], "stuck");
}
