//! Servers that stop, freeze and come back while a deletion is followed, on a control plane of their own, one test at
//! a time. No controller manager runs unless a test starts it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use control_plane::{Component, ControlPlane, Fault, Options, Proxy, proxy};
use serde_json::{Value, json};

use crate::conduct::{begun, end, launch, start};
use crate::contract;
use crate::delete::is_untouched;
use crate::reliability::holds;
use crate::support::{HOLD, World, names};

fn plane() -> (MutexGuard<'static, ()>, &'static ControlPlane) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let plane = PLANE.get_or_init(|| {
        let options = Options { fast_lease: true, ..Options::default() }
            .hurried()
            .without(Component::ControllerManager)
            .without(Component::Scheduler)
            .without(Component::Kwok);
        ControlPlane::start(options).expect("a control plane")
    });
    // A test that failed may have left them away or frozen.
    for component in [Component::Etcd, Component::ApiServer] {
        let _ = plane.resume(component);
        if plane.pid(component).unwrap().is_none() {
            plane.start_component(component).unwrap();
        }
    }
    (guard, plane)
}

/// A ConfigMap that its finalizer holds, and a `delete` of it that is under way.
fn under_way(plane: &'static ControlPlane, test: &str, arguments: &[&str]) -> (World, std::process::Child) {
    let world = World::on(plane, test);
    world.thing("ConfigMap", "own", &[], &[HOLD]);
    let child = start(&world, None, &[&["delete", "cm/own", "--yes", "-o", "json"], arguments].concat());
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
    // The watch may open a moment after the DELETE is seen.
    std::thread::sleep(Duration::from_millis(500));
    (world, child)
}

#[track_caller]
fn gap_of<'a>(result: &'a Value, resource: &str) -> &'a Value {
    let gaps = result["gaps"].as_array().unwrap();
    gaps.iter().find(|gap| gap["resource"] == resource).unwrap_or_else(|| panic!("no gap: {result:#}"))
}

#[test]
fn an_api_server_that_restarts_in_mid_watch_is_followed_to_the_end() {
    let (_guard, plane) = plane();
    let (world, child) = under_way(plane, "fault-restart", &[]);
    plane.kill(Component::ApiServer).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    plane.start_component(Component::ApiServer).unwrap();
    world.free("ConfigMap/own");
    let result = holds("restart-mid-watch", end(child));
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own"]);
}

/// What went while nobody could look is found gone, and a successor is another object.
#[test]
fn what_went_unseen_is_gone_and_its_successor_is_another() {
    let (_guard, plane) = plane();
    let (world, child) = under_way(plane, "fault-unseen", &[]);
    let old = world.uid("ConfigMap/own");
    plane.restart(Component::ApiServer).unwrap();
    world.free("ConfigMap/own");
    world.thing("ConfigMap", "own", &[], &[]);
    let result = end(child).expect(0).json();
    assert_eq!(result["deleted"][0]["uid"], json!(old));
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn a_connection_that_stays_lost_is_an_error_and_the_end_is_not_verified() {
    let (_guard, plane) = plane();
    let (_world, child) = under_way(plane, "fault-lost", &["--stall-timeout", "3s"]);
    plane.kill(Component::ApiServer).unwrap();
    let run = end(child);
    plane.start_component(Component::ApiServer).unwrap();
    let result = holds("down-too-long", run);
    assert_eq!(result["deleted"], json!([]));
    assert_eq!(names(&result["remaining"]), ["ConfigMap/own"]);
    let gap = gap_of(&result, "configmaps");
    assert!(gap["message"].as_str().unwrap().contains("refused"), "{gap:#}");
}

#[test]
fn a_time_limit_holds_while_the_connection_is_lost() {
    let (_guard, plane) = plane();
    let (_world, child) = under_way(plane, "fault-limit", &["--timeout", "4s"]);
    plane.kill(Component::ApiServer).unwrap();
    let since = Instant::now();
    let run = end(child);
    let took = since.elapsed();
    plane.start_component(Component::ApiServer).unwrap();
    let result = holds("down-time-limit", run);
    gap_of(&result, "configmaps");
    assert!(took < Duration::from_secs(25), "{took:?}");
}

/// A frozen server keeps its connections open and says nothing.
#[test]
fn a_time_limit_holds_against_a_server_that_is_silent() {
    let (_guard, plane) = plane();
    let (world, child) = under_way(plane, "fault-frozen", &["--timeout", "3s"]);
    plane.pause(Component::ApiServer).unwrap();
    let since = Instant::now();
    let run = end(child);
    plane.resume(Component::ApiServer).unwrap();
    holds("frozen-time-limit", run);
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
    world.free("ConfigMap/own");
}

#[test]
fn ctrl_c_counts_while_the_connection_is_lost() {
    let (_guard, plane) = plane();
    let (_world, child) = under_way(plane, "fault-interrupt", &[]);
    plane.kill(Component::ApiServer).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    crate::conduct::interrupt(&child);
    let since = Instant::now();
    let run = end(child);
    let took = since.elapsed();
    plane.start_component(Component::ApiServer).unwrap();
    assert!(run.stderr.contains("goes on without us"), "{}", run.stderr);
    holds("interrupt-lost", run);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

// In the middle of a request: a proxy knows when.

/// A world, and a proxy in front of the servers that will be stopped.
fn behind_a_proxy(plane: &'static ControlPlane, test: &str) -> (World, Proxy) {
    let world = World::on(plane, test);
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "kept", &["ConfigMap/own"], &[]);
    (world, Proxy::start(plane).unwrap())
}

fn through(world: &World, proxy: &Proxy) -> std::process::Child {
    let arguments =
        ["delete", "cm/own", "--policy", "orphan", "--yes", "-o", "json", "--stall-timeout", "30s"];
    launch(world, world.command_through(proxy, &arguments))
}

/// Takes the finalizer off that a controller manager would.
fn collect(world: &World) {
    world.patch("Secret/kept", &json!({ "metadata": { "ownerReferences": null } }));
    world.free("ConfigMap/own");
}

#[test]
fn an_api_server_that_dies_while_everything_is_read_is_asked_again_when_it_is_back() {
    let (_guard, plane) = plane();
    let (world, proxy) = behind_a_proxy(plane, "fault-snapshot");
    let restart = move || plane.restart(Component::ApiServer).unwrap();
    proxy.once(proxy::list("secrets"), Fault::before(restart));
    let child = through(&world, &proxy);
    // Until then there may be no server to ask.
    world.until("it deletes", || proxy.count(proxy::delete("configmaps")) > 0);
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
    collect(&world);
    let result = holds("snapshot-broken", end(child));
    assert_eq!(names(&result["orphaned"]), ["Secret/kept"]);
}

#[test]
fn an_api_server_that_dies_while_everything_is_read_and_stays_away_ends_the_run_before_any_delete() {
    let (_guard, plane) = plane();
    let (world, proxy) = behind_a_proxy(plane, "fault-snapshot-lost");
    proxy.once(
        |asked: &control_plane::Asked| {
            asked.path.starts_with("/api/v1/namespaces/") && asked.path.matches('/').count() == 5
        },
        Fault::before(move || plane.kill(Component::ApiServer).unwrap()),
    );
    let child = through(&world, &proxy);
    let run = end(child);
    plane.start_component(Component::ApiServer).unwrap();
    assert!(run.stdout.is_empty() && run.stderr.contains("nothing was deleted"), "{run:#?}");
    holds("snapshot-lost", run);
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn an_api_server_that_dies_before_or_right_after_the_delete_gets_it_once() {
    let (_guard, plane) = plane();
    let kill = move || plane.kill(Component::ApiServer).unwrap();
    for (id, fault) in
        [("killed-before-delete", Fault::before(kill)), ("killed-before-answer", Fault::after(kill))]
    {
        let (world, proxy) = behind_a_proxy(plane, &format!("fault-{id}"));
        proxy.once(proxy::delete("configmaps"), fault);
        proxy.once(proxy::delete("configmaps"), Fault::CutAnswer);
        let child = through(&world, &proxy);
        world.until("it is gone", || plane.pid(Component::ApiServer).unwrap().is_none());
        std::thread::sleep(Duration::from_secs(1));
        plane.start_component(Component::ApiServer).unwrap();
        world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
        collect(&world);
        world.gone("ConfigMap/own");
        let begun = begun(&child);
        let result = holds(id, end(child));
        let done =
            begun.written().into_iter().filter(|written| written.verb == "delete" && written.code == 200);
        let sent = done.count();
        assert_eq!(names(&result["deleted"]), ["ConfigMap/own"]);
        // What a server that was killed did not log can be missing here, but nothing can be there twice.
        assert!(sent <= 1, "{sent} DELETEs");
    }
}

#[test]
fn an_etcd_that_restarts_is_waited_for() {
    let (_guard, plane) = plane();
    let (world, child) = under_way(plane, "fault-etcd", &[]);
    plane.kill(Component::Etcd).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    plane.start_component(Component::Etcd).unwrap();
    let freed = || {
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        let arguments = ["-n", &world.namespace, "patch", "cm", "own", "--type=merge", "-p", patch];
        world.kubectl().run(&arguments).is_ok()
    };
    world.until("it is freed", freed);
    let result = holds("etcd-restart", end(child));
    assert_eq!(names(&result["deleted"]), ["ConfigMap/own"]);
}

// Controller managers.

/// An owner with dependents that only a collector can finish, and a foreground `delete` of it.
fn for_a_collector(plane: &'static ControlPlane, test: &str, stall: &str) -> (World, std::process::Child) {
    let world = World::on(plane, test);
    world.thing("ConfigMap", "own", &[], &[]);
    for number in 0..10 {
        world.thing("Secret", &format!("s-{number}"), &["ConfigMap/own!"], &[]);
    }
    let arguments =
        ["delete", "cm/own", "--policy", "foreground", "--yes", "-o", "json", "--stall-timeout", stall];
    let child = start(&world, None, &arguments);
    world.until("it is under way", || !is_untouched(&world, "ConfigMap/own"));
    (world, child)
}

#[test]
fn a_controller_manager_that_stops_dies_or_leaves_the_lead_is_waited_for() {
    let (_guard, plane) = plane();
    let (manager, standby) = (Component::ControllerManager, Component::StandbyControllerManager);
    plane.start_component(manager).unwrap();
    let deleted = |result: &Value| result["deleted"].as_array().unwrap().len();

    plane.pause(manager).unwrap();
    let (_world, child) = for_a_collector(plane, "fault-slow", "15s");
    std::thread::sleep(Duration::from_millis(1500));
    plane.resume(manager).unwrap();
    assert_eq!(deleted(&holds("collector-slow", end(child))), 11);

    // It may have lost the lead meanwhile, and ended.
    plane.kill(manager).unwrap();
    let (_world, child) = for_a_collector(plane, "fault-manager", "90s");
    std::thread::sleep(Duration::from_secs(1));
    plane.start_component(manager).unwrap();
    assert_eq!(deleted(&holds("manager-restart", end(child))), 11);

    plane.start_component(standby).unwrap();
    plane.kill(manager).unwrap();
    let (_world, child) = for_a_collector(plane, "fault-leader", "90s");
    let run = end(child);
    plane.stop(standby).unwrap();
    assert_eq!(deleted(&holds("leader-killed", run)), 11);
}

/// C28: background is no success either when nobody collects the dependents.
#[test]
fn without_a_collector_no_policy_ends_and_with_it_all_do() {
    let (_guard, plane) = plane();
    let world = World::on(plane, "fault-collector");
    for policy in ["background", "foreground", "orphan"] {
        world.thing("ConfigMap", policy, &[], &[]);
        world.thing("Secret", policy, &[&format!("ConfigMap/{policy}!")], &[]);
    }
    let run = |policy: &str| {
        let target = format!("cm/{policy}");
        let arguments =
            ["delete", &target, "--policy", policy, "--stall-timeout", "2s", "--yes", "-o", "json"];
        holds("manager-gone", world.cascade(&arguments))
    };
    let background = run("background");
    assert_eq!(names(&background["deleted"]), ["ConfigMap/background"]);
    assert_eq!(names(&background["remaining"]), ["Secret/background"]);
    assert_eq!(names(&run("foreground")["remaining"]), ["ConfigMap/foreground", "Secret/foreground"]);
    let orphan = run("orphan");
    assert_eq!(names(&orphan["remaining"]), ["ConfigMap/orphan"]);
    assert_eq!(orphan["orphaned"], json!([]), "it still has its reference");
    assert_eq!(names(&orphan["unexpected"]), ["Secret/orphan"]);

    let waiting = start(&world, None, &["wait", "cm/foreground", "-o", "json"]);
    plane.start_component(Component::ControllerManager).unwrap();
    let result = end(waiting).expect(0).json();
    assert_eq!(names(&result["deleted"]), ["ConfigMap/foreground", "Secret/foreground"], "{result:#}");
    world.gone("ConfigMap/orphan");
    world.gone("Secret/background");
    assert!(is_untouched(&world, "Secret/orphan"));
    plane.stop(Component::ControllerManager).unwrap();
}

#[test]
fn a_dead_api_service_is_one_gap() {
    let (_guard, plane) = plane();
    let world = World::on(plane, "fault-dead-api");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own"], &[]);
    let name = "v1beta1.metrics.dead.example.test";
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": name },
        "spec": {
            "group": "metrics.dead.example.test", "version": "v1beta1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": { "name": "nobody", "namespace": world.namespace },
        },
    });
    world.kubectl().apply(&service.to_string()).unwrap();
    let gaps = || {
        let document = world.cascade(&["tree", "cm/own", "-o", "json"]).expect(0).json();
        contract::tree(&document);
        assert_eq!(names(&document["objects"]), ["ConfigMap/own", "Secret/dependent"]);
        document["gaps"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|gap| gap["group"] != "")
            .cloned()
            .collect::<Vec<_>>()
    };
    world.until("the dead API is noticed", || !gaps().is_empty());
    let found = gaps();
    let run = world.cascade(&["tree", "cm/own"]).expect(0);
    world.kubectl().run(&["delete", "apiservice", name]).unwrap();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((&found[0]["resource"], &found[0]["version"]), (&json!("*"), &json!("v1beta1")));
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("metrics.dead.example.test/v1beta1"), "{}", run.stderr);
}
