//! `wait`: joining a deletion that somebody else began.

use control_plane::{Webhook, webhook};
use serde_json::{Value, json};

use crate::conduct::{end, start, until_said};
use crate::contract;
use crate::delete::{fates, is_untouched, plan};
use crate::diagnosis::Registered;
use crate::support::{HOLD, World, names};

#[track_caller]
fn wait(world: &World, arguments: &[&str], code: i32) -> Value {
    let result = world.cascade(&[&["wait"], arguments, &["-o", "json"]].concat()).expect(code).json();
    contract::result(&result);
    result
}

#[test]
fn what_is_not_there_was_waited_for() {
    let world = World::new("wait-absent");
    let result = wait(&world, &["cm/absent"], 0);
    assert_eq!((&result["outcome"], &result["deleted"]), (&json!("complete"), &json!([])));
    assert_eq!(wait(&world, &["cm", "-l", "app=nobody"], 0)["outcome"], "complete");
    let run = world.cascade(&["wait", "cm/absent"]).expect(0);
    assert_eq!(run.stdout, "");
}

/// It may be a slip of the pen, so that it is named.
#[test]
fn what_is_not_there_is_named_each_beside_what_is() {
    let world = World::new("wait-named");
    let place = format!("in namespace {}", world.namespace);
    let run = world.cascade(&["wait", "cm/typo", "secret/slip", "ns/nowhere-at-all"]).expect(0);
    let said = format!(
        "ConfigMap/typo is not there {place}\nSecret/slip is not there {place}\nNamespace/nowhere-at-all is not there\n"
    );
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", said.as_str()));
    let run = world.cascade(&["wait", "cm/typo", "-o", "json"]).expect(0);
    assert_eq!(run.json()["outcome"], "complete");
    assert_eq!(run.stderr, format!("ConfigMap/typo is not there {place}\n"));
    world.thing("ConfigMap", "going", &[], &[HOLD]);
    world.delete_raw("ConfigMap/going", &json!({}));
    let run = world.cascade(&["wait", "cm/going", "cm/typo", "--timeout", "1s"]).expect(3);
    assert!(run.stderr.contains(&format!("ConfigMap/typo is not there {place}\n")), "{}", run.stderr);
    assert!(!run.stderr.contains("ConfigMap/going is not there"), "{}", run.stderr);
    world.free("ConfigMap/going");
    let run = world.cascade(&["wait", "cm", "-l", "app=nobody"]).expect(0);
    assert_eq!(run.stderr, "No resources found\n", "a selector names nothing");
}

#[test]
fn a_live_target_is_an_error_with_a_hint_even_beside_others() {
    let world = World::new("wait-live");
    world.thing("ConfigMap", "live", &[], &[]);
    world.thing("ConfigMap", "going", &[], &[HOLD]);
    world.delete_raw("ConfigMap/going", &json!({}));
    for targets in [&["cm/live"][..], &["cm/absent", "cm/live"], &["cm/going", "cm/live"]] {
        let run = world.cascade(&[&["wait"], targets, &["-o", "json"]].concat()).expect(1);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains("ConfigMap/live is not being deleted"), "{}", run.stderr);
        assert!(
            run.stderr.contains("hint:") && run.stderr.contains("kubectl cascade delete"),
            "{}",
            run.stderr
        );
    }
    assert!(is_untouched(&world, "ConfigMap/live"));
    world.free("ConfigMap/going");
}

#[test]
fn a_foreground_deletion_is_followed_to_its_end() {
    let world = World::new("wait-foreground");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" }));
    world.until("it is under way", || !is_untouched(&world, "Secret/held"));
    let stalled = wait(&world, &["cm/own", "--stall-timeout", "1s"], 3);
    assert_eq!((&stalled["outcome"], &stalled["policy"]), (&json!("stalled"), &json!("foreground")));
    assert_eq!(stalled["findings"][0]["object"]["name"], "held");
    assert_eq!(wait(&world, &["cm/own", "--timeout", "1s"], 3)["outcome"], "timed-out");
    let child = start(&world, None, &["wait", "cm/own", "-o", "json"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    world.free("Secret/held");
    let result = end(child).expect(0).json();
    contract::result(&result);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own", "Secret/held"]);
}

#[test]
fn the_policy_follows_from_the_finalizers() {
    let world = World::new("wait-policy");
    world.thing("ConfigMap", "plain", &[], &[HOLD]);
    world.delete_raw("ConfigMap/plain", &json!({ "propagationPolicy": "Background" }));
    assert_eq!(wait(&world, &["cm/plain", "--timeout", "1s"], 3)["policy"], "background");
    world.free("ConfigMap/plain");
}

#[test]
fn several_targets_are_waited_for_together() {
    let world = World::new("wait-several");
    for name in ["a", "b"] {
        world.thing("ConfigMap", name, &[], &[HOLD]);
        world.delete_raw(&format!("ConfigMap/{name}"), &json!({}));
    }
    world.free("ConfigMap/a");
    let result = wait(&world, &["cm/a", "cm/b", "cm/absent", "--timeout", "1s"], 3);
    assert_eq!(names(&result["remaining"]), ["ConfigMap/b"]);
    world.free("ConfigMap/b");
    assert_eq!(wait(&world, &["cm/a", "cm/b"], 0)["outcome"], "complete");
}

/// C34: a successor of the same name is another object.
#[test]
fn a_successor_counts_as_gone() {
    let world = World::new("wait-successor");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let old = world.uid("ConfigMap/own");
    world.delete_raw("ConfigMap/own", &json!({}));
    let child = start(&world, None, &["wait", "cm/own", "-o", "json", "--timeout", "60s"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    world.free("ConfigMap/own");
    world.thing("ConfigMap", "own", &[], &[]);
    let result = end(child).expect(0).json();
    assert_eq!(result["deleted"][0]["uid"], json!(old));
    if let Some(pair) = result["recreated"].as_array().unwrap().first() {
        assert_eq!(pair["was"]["uid"], json!(old));
    }
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn a_namespace_is_waited_for_with_all_that_is_in_it() {
    let world = World::new("wait-namespace");
    world.thing("ConfigMap", "held", &[], &[HOLD]);
    let target = format!("ns/{}", world.namespace);
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    world.until("its content goes", || !is_untouched(&world, "ConfigMap/held"));
    let stalled = wait(&world, &[&target, "--stall-timeout", "3s"], 3);
    assert!(names(&stalled["remaining"]).contains(&"ConfigMap/held".to_owned()), "{stalled:#}");
    assert!(names(&stalled["remaining"]).contains(&format!("Namespace/{}", world.namespace)));
    world.free("ConfigMap/held");
    assert_eq!(wait(&world, &[&target], 0)["remaining"], json!([]));
}

/// It never had an owner: it goes with its Namespace, not by the collector.
#[test]
fn content_whose_delete_the_namespace_controller_is_refused_remains() {
    let world = World::new("wait-refused");
    world.thing("Secret", "s1", &[], &[]);
    world.thing("Secret", "s2", &[], &[]);
    let target = format!("ns/{}", world.namespace);
    let counted = |state: &str| {
        let plan = plan(&world, &[&target], 0);
        let fates = fates(&plan);
        for secret in ["dangling", "s1", "s2"] {
            assert!(fates.contains(&format!("Secret/{secret} deleted")), "{state}: {fates:?}");
        }
        let warnings = plan["warnings"].to_string();
        let all = fates.iter().filter(|fate| fate.starts_with("Secret/")).count();
        assert!(warnings.contains(&format!("{all} Secrets will be deleted")), "{state}: {warnings}");
    };
    let webhook = Webhook::start(webhook::deny("never asked")).unwrap();
    let name = format!("dead.{}.test", world.namespace);
    let configuration = webhook.validating(&name, &world.namespace, &["DELETE"], &["secrets"]);
    drop(webhook);
    let registered = Registered::new(&world, &[configuration]);
    registered.until_delete_refused("secret/s1");
    let gone = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000001",
    });
    world.create("Secret", json!({ "metadata": { "name": "dangling", "ownerReferences": [gone] } }));
    counted("live");
    world.kubectl().run(&["delete", &target, "--wait=false"]).unwrap();
    world.until("its other content is gone", || world.get("ConfigMap/kube-root-ca.crt").is_none());
    counted("Terminating");
    let stalled = wait(&world, &[&target, "--stall-timeout", "1s"], 3);
    let remaining = names(&stalled["remaining"]);
    for name in [&*format!("Namespace/{}", world.namespace), "Secret/dangling", "Secret/s1", "Secret/s2"] {
        assert!(remaining.contains(&name.to_owned()), "{name}: {stalled:#}");
    }
    registered.remove();
    assert_eq!(wait(&world, &[&target], 0)["remaining"], json!([]));
}

/// Nobody has deleted it by itself yet, but it will go: behind the Pods, with what hangs on it.
#[test]
fn a_live_object_of_a_terminating_namespace_is_awaited_with_it() {
    let world = World::new("wait-taken");
    if !world.has_since(33, "a Namespace's Pods go before its other content") {
        return;
    }
    let node = world.bare_node();
    world.pod("last", Some(&node), &[], &[]);
    world.thing("ConfigMap", "live", &[], &[]);
    world.thing("ConfigMap", "other-owner", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/live", "ConfigMap/other-owner"], &[]);
    world.kubectl().run(&["delete", "ns", &world.namespace, "--wait=false"]).unwrap();
    world.until("it is under way", || !is_untouched(&world, "Pod/last"));
    let stalled = wait(&world, &["cm/live", "--stall-timeout", "1s"], 3);
    assert_eq!(names(&stalled["remaining"]), ["ConfigMap/live", "Secret/dependent"], "{stalled:#}");
    let chain = names(&stalled["findings"][0]["chain"]);
    assert!(chain.contains(&format!("Namespace/{}", world.namespace)), "{stalled:#}");
    let mut child = start(&world, None, &["wait", "cm/live", "--timeout", "60s"]);
    let said = until_said(&mut child, "is being deleted, and ConfigMap/live goes with it; watching\n");
    assert!(said.contains(&format!("Namespace/{}", world.namespace)), "{said}");
    world.delete_raw("Pod/last", &json!({ "gracePeriodSeconds": 0 }));
    assert!(end(child).expect(0).stdout.contains("2 objects gone"));
}

#[test]
fn a_live_object_whose_owner_is_being_deleted_is_told_with_the_command_that_waits_for_both() {
    let world = World::new("wait-owner");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    world.thing("Secret", "live", &["ConfigMap/own"], &[]);
    world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Background" }));
    let run = world.cascade(&["wait", "secret/live"]).expect(1);
    let meant = format!("kubectl cascade wait -n {} configmap/own\n", world.namespace);
    assert!(run.stderr.contains("its owner ConfigMap/own is being deleted"), "{}", run.stderr);
    assert!(run.stderr.ends_with(&meant), "{}", run.stderr);
    world.free("ConfigMap/own");
}

#[test]
fn names_of_what_went_come_one_a_line() {
    let world = World::new("wait-name");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    world.delete_raw("ConfigMap/own", &json!({}));
    let stalled = world.cascade(&["wait", "cm/own", "-o", "name", "--stall-timeout", "1s"]).expect(3);
    assert_eq!(stalled.stdout, "");
    assert!(stalled.stderr.contains("ConfigMap/own: finalizer-held"), "{}", stalled.stderr);
    let child = start(&world, None, &["wait", "cm/own", "-o", "name"]);
    std::thread::sleep(std::time::Duration::from_millis(500));
    world.free("ConfigMap/own");
    assert_eq!(end(child).expect(0).stdout, "configmap/own\n");
}

/// Nobody watches a kind that the forecast did not name: a last look at everything finds it.
#[test]
fn a_dependent_of_a_kind_that_was_not_there_before_is_awaited_too() {
    let world = World::new("wait-new-kind");
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let child = start(&world, None, &["delete", "cm/own", "--yes", "--stall-timeout", "6s", "-o", "json"]);
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
    world.thing("Secret", "late", &["ConfigMap/own!"], &[HOLD]);
    world.free("ConfigMap/own");
    let result = end(child).expect(3).json();
    contract::result(&result);
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own"], "{result:#}");
    assert_eq!(names(&result["remaining"]), ["Secret/late"], "{result:#}");
    world.free("Secret/late");
}
