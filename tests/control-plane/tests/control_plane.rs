//! The harness against itself: what the tests of the plugin rely on.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use control_plane::{
    Component, ControlPlane, Decision, Options, SIMULATED_NODE, Webhook, eventually, webhook,
};
use serde_json::{Value, json};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fresh namespace, so that tests do not see each other's objects.
fn namespace(plane: &ControlPlane, name: &str) -> String {
    plane.kubectl().run(&["create", "namespace", name]).expect("a namespace");
    name.to_owned()
}

fn config_map(name: &str, owner: Option<&Value>) -> Value {
    let owners = owner.map(|owner| {
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"] }])
    });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "ownerReferences": owners } })
}

#[test]
fn the_collector_deletes_a_dependent_and_only_while_it_runs() {
    let plane = ControlPlane::start(Options::default().hurried()).expect("a control plane");
    let api = plane.api().expect("ours");
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace(&plane, "collected"));
    let collected = |name: &str| {
        let path = format!("{path}/{name}");
        eventually("the dependent is gone", PATIENCE, || matches!(api.get(&path), Ok(None)).then_some(()))
    };

    let owner = api.create(&path, &config_map("owner", None)).expect("an owner");
    api.create(&path, &config_map("dependent", Some(&owner))).expect("a dependent");
    api.send("DELETE", &format!("{path}/owner?propagationPolicy=Background"), None).expect("an answer");
    collected("dependent").expect("the collector works");

    plane.stop(Component::ControllerManager).expect("stopped");
    assert_eq!(plane.pid(Component::ControllerManager).expect("ours"), None);
    let owner = api.create(&path, &config_map("owner", None)).expect("an owner");
    api.create(&path, &config_map("dependent", Some(&owner))).expect("a dependent");
    api.send("DELETE", &format!("{path}/owner?propagationPolicy=Background"), None).expect("an answer");
    // Nobody is left who could delete it: one look is enough.
    assert!(api.get(&format!("{path}/dependent")).expect("an answer").is_some());

    plane.start_component(Component::ControllerManager).expect("started");
    collected("dependent").expect("the collector works again");

    plane.restart(Component::ApiServer).expect("restarted");
    assert!(api.get(&format!("{path}/dependent")).expect("an answer").is_none());
}

#[test]
fn pods_run_and_end_on_the_simulated_node_and_stay_on_a_bare_one() {
    let plane = ControlPlane::shared();
    let namespace = namespace(plane, "pods");
    plane
        .kubectl()
        .apply(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "bare" } }).to_string())
        .expect("a node with nobody behind it");
    for (name, node) in [("scheduled", None), ("bound", Some("bare"))] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
            "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "none" }] }
        });
        plane.kubectl().apply(&pod.to_string()).expect("a pod");
    }
    let pod = |name: &str| plane.kubectl().get(&["pod", "-n", &namespace, name]);
    let node = eventually("the scheduled pod runs", PATIENCE, || {
        let pod = pod("scheduled").ok()?;
        (pod["status"]["phase"] == "Running").then(|| pod["spec"]["nodeName"].clone())
    });
    assert_eq!(node.expect("kwok and the scheduler work"), SIMULATED_NODE);

    plane.kubectl().run(&["delete", "pod", "-n", &namespace, "--all", "--wait=false"]).expect("deleted");
    eventually("the scheduled pod is gone", PATIENCE, || pod("scheduled").is_err().then_some(()))
        .expect("kwok confirms");
    assert!(pod("bound").expect("still there")["metadata"]["deletionTimestamp"].is_string());
}

#[test]
fn a_limited_user_has_only_the_rights_that_are_bound_to_it() {
    let plane = ControlPlane::shared();
    let namespace = namespace(plane, "limited");
    let limited = plane.kubectl_as("limited").expect("a user");
    let refused = limited.run(&["get", "secrets", "-n", &namespace]).expect_err("no right");
    assert!(refused.to_string().contains("User \"limited\" cannot list resource \"secrets\""), "{refused}");
    plane
        .kubectl()
        .run(&["create", "rolebinding", "look", "-n", &namespace, "--clusterrole=admin", "--user=limited"])
        .expect("a binding");
    eventually("the right is known", PATIENCE, || limited.run(&["get", "secrets", "-n", &namespace]).ok())
        .expect("the right works");
}

/// Registers a webhook and waits until the API server calls it.
fn register(plane: &ControlPlane, webhook: &Webhook, configuration: &Value, mut call: impl FnMut()) {
    plane.kubectl().apply(&configuration.to_string()).expect("registered");
    eventually("the webhook is called", PATIENCE, || {
        call();
        (webhook.calls() > 0).then_some(())
    })
    .expect("the API server knows the webhook");
}

#[test]
fn a_webhook_denies_hangs_and_dies() {
    let plane = ControlPlane::shared();
    let api = plane.api().expect("ours");
    let namespace = namespace(plane, "webhook");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    api.create(&path, &config_map("touched", None)).expect("created");
    let touch = |value: &str| {
        let patch = json!({ "data": { "key": value } });
        api.send("PATCH", &format!("{path}/touched?timeout=20s"), Some(&patch)).expect("an answer")
    };

    let denies = Webhook::start(webhook::deny("not on a Friday")).expect("a webhook");
    let configuration = denies.validating("friday.example.com", &namespace, &["UPDATE"], &["configmaps"]);
    register(plane, &denies, &configuration, || {
        touch("a");
    });
    let refused = touch("b");
    assert_eq!(refused.status, 403);
    let message = "admission webhook \"friday.example.com\" denied the request: not on a Friday";
    assert_eq!(refused.body["message"], message);

    drop(denies);
    // The API server keeps connections; the one that it had is broken first, and then nobody listens.
    eventually("the webhook cannot be reached", PATIENCE, || {
        let unreachable = touch("c");
        let said = unreachable.body["message"].as_str().expect("a message");
        assert_eq!(unreachable.status, 500, "{said}");
        assert!(said.contains("failed calling webhook"), "{said}");
        said.contains("connection refused").then_some(())
    })
    .expect("refused");
    plane
        .kubectl()
        .run(&["delete", "validatingwebhookconfiguration", "friday.example.com"])
        .expect("deleted");
    eventually("the webhook is forgotten", PATIENCE, || (touch("d").status == 200).then_some(()))
        .expect("free");

    let hangs = Webhook::start(|_| Decision::Hang).expect("a webhook");
    let mut configuration = hangs.validating("slow.example.com", &namespace, &["UPDATE"], &["configmaps"]);
    configuration["webhooks"][0]["timeoutSeconds"] = 1.into();
    register(plane, &hangs, &configuration, || {
        touch("e");
    });
    let timed_out = touch("f");
    let said = timed_out.body["message"].as_str().expect("a message");
    assert!(timed_out.status == 500 && said.contains("context deadline exceeded"), "{said}");
}

#[test]
fn the_image_resolver_denies_a_pod_whose_pull_secret_is_gone() {
    let plane = ControlPlane::shared();
    let api = plane.api().expect("ours");
    let namespace = namespace(plane, "resolver");
    let resolver = Webhook::start(webhook::image_digest_resolver(api.clone())).expect("a webhook");
    let configuration =
        resolver.mutating("digester.example.com", &namespace, &["CREATE", "UPDATE"], &["pods"]);
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "imagePullSecrets": [{ "name": "credentials" }], "containers": [{ "name": "main", "image": "registry/image" }] }
        })
    };
    plane.kubectl().run(&["create", "secret", "generic", "credentials", "-n", &namespace]).expect("a secret");
    let mut tries = 0;
    register(plane, &resolver, &configuration, || {
        tries += 1;
        api.create(&pods, &pod(&format!("try-{tries}"))).expect("allowed");
    });
    let resolved = api.create(&pods, &pod("resolved")).expect("allowed");
    let image = resolved["spec"]["containers"][0]["image"].as_str().expect("an image");
    assert!(image.starts_with("registry/image@sha256:"), "{image}");

    plane.kubectl().run(&["delete", "secret", "credentials", "-n", &namespace]).expect("deleted");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let refused = api.send("PATCH", &format!("{pods}/resolved"), Some(&label)).expect("an answer");
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.body["message"],
        "admission webhook \"digester.example.com\" denied the request: could not create keychain: could not create \
         k8schain: secrets \"credentials\" not found"
    );
}

#[test]
fn an_injector_makes_every_update_of_a_pod_invalid() {
    let plane = ControlPlane::shared();
    let api = plane.api().expect("ours");
    let namespace = namespace(plane, "injector");
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "injected" },
        "spec": { "containers": [{ "name": "main", "image": "none" }] }
    });
    api.create(&pods, &pod).expect("created");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let update = || api.send("PATCH", &format!("{pods}/injected"), Some(&label)).expect("an answer");

    let injector = Webhook::start(webhook::inject_env("TRACE")).expect("a webhook");
    let configuration = injector.mutating("injector.example.com", &namespace, &["UPDATE"], &["pods"]);
    register(plane, &injector, &configuration, || {
        update();
    });
    let refused = update();
    assert_eq!(refused.status, 422, "{}", refused.body);
}

#[test]
fn one_user_alone_is_refused() {
    let review = |user: &str| json!({ "userInfo": { "username": user } });
    let handler = webhook::deny_user_suffix(":generic-garbage-collector", "no");
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    assert!(matches!(handler(&review(collector)), Decision::Deny { code: 403, .. }));
    assert!(matches!(handler(&review("admin")), Decision::Allow));
}

#[test]
fn a_cluster_of_somebody_else_is_used_but_not_controlled() {
    let ours = ControlPlane::shared();
    let theirs = ControlPlane::external(ours.kubeconfig_path().to_path_buf()).expect("a cluster");
    assert!(theirs.kubectl().run(&["get", "namespace", "default"]).is_ok());
    // By impersonation, as we know no tokens there.
    let refused =
        theirs.kubectl_as("somebody").expect("a user").run(&["get", "nodes"]).expect_err("no right");
    assert!(refused.to_string().contains("User \"somebody\" cannot list resource \"nodes\""), "{refused}");
    assert!(theirs.is_external() && theirs.stop(Component::ApiServer).is_err() && theirs.api().is_err());
    assert!(ControlPlane::external("no-such-file".into()).is_err());
}

#[test]
fn two_control_planes_run_side_by_side() {
    let other = ControlPlane::start(Options::default().without(Component::Kwok)).expect("another one");
    assert_ne!(other.server_url().expect("ours"), ControlPlane::shared().server_url().expect("ours"));
    other.kubectl().run(&["create", "namespace", "here"]).expect("a namespace");
    assert!(ControlPlane::shared().kubectl().run(&["get", "namespace", "here"]).is_err());

    let folder = other.log_path(Component::Etcd).expect("ours").with_file_name("");
    let pids = pids(&other);
    drop(other);
    assert!(pids.iter().all(|pid| !runs(*pid)), "dropping it ends every process");
    assert!(!folder.exists(), "and removes the folder");
}

#[test]
fn a_flag_that_a_server_refuses_is_an_error_with_its_log() {
    let options = Options::default().flag(Component::Etcd, "--no-such-flag");
    let error = ControlPlane::start(options).err().expect("etcd cannot start").to_string();
    assert!(error.contains("etcd ended") && error.contains("no-such-flag"), "{error}");
}

/// Not a test: the process that the next one kills.
#[test]
#[ignore = "run by the test below"]
fn start_one_and_wait_to_be_killed() {
    let plane = ControlPlane::start(Options::default()).expect("a control plane");
    let folder = plane.log_path(Component::Etcd).expect("ours").with_file_name("");
    let said = pids(&plane).iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    std::io::Write::write_all(&mut std::io::stdout(), format!("\n@{said} {}\n", folder.display()).as_bytes())
        .expect("a reader");
    std::thread::park();
}

#[test]
fn nothing_is_left_when_the_process_that_started_it_is_killed() {
    let mut process = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "start_one_and_wait_to_be_killed"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test again");
    let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let said = lines.find_map(|line| line.ok()?.strip_prefix('@').map(str::to_owned)).expect("it started");
    let (pids, folder) = said.rsplit_once(' ').expect("pids and a folder");
    let pids = pids.split(' ').map(|pid| pid.parse().expect("a pid")).collect::<Vec<u32>>();
    assert_eq!(pids.len(), 1 + Component::ALL.len());
    assert!(pids.iter().all(|pid| runs(*pid)), "all run before: {pids:?}");

    process.kill().expect("SIGKILL");
    process.wait().expect("it is dead");
    eventually("all processes are gone", PATIENCE, || pids.iter().all(|pid| !runs(*pid)).then_some(()))
        .expect("the supervisor ends them");
    eventually("the folder is gone", PATIENCE, || (!Path::new(folder).exists()).then_some(()))
        .expect("the supervisor removes it");
}

#[test]
fn the_servers_do_not_outlive_their_supervisor() {
    let plane = ControlPlane::start(Options::default().without(Component::ControllerManager)).expect("one");
    let folder = plane.log_path(Component::Etcd).expect("ours").with_file_name("");
    let pids = pids(&plane);
    let supervisor = plane.supervisor_pid().expect("ours").to_string();
    assert!(Command::new("kill").args(["-9", &supervisor]).status().expect("kill").success());
    // The supervisor stays a zombie until the plane is dropped.
    eventually("all servers are gone", PATIENCE, || pids[1..].iter().all(|pid| !runs(*pid)).then_some(()))
        .expect("the kernel ends them");
    drop(plane);
    std::fs::remove_dir_all(folder).expect("nobody else is left to remove it");
}

/// The process ids of the supervisor and of every server.
fn pids(plane: &ControlPlane) -> Vec<u32> {
    let servers = Component::ALL.into_iter().filter_map(|component| plane.pid(component).expect("ours"));
    std::iter::once(plane.supervisor_pid().expect("ours")).chain(servers).collect()
}

/// Whether a process has this id; one that ended and was not waited for counts as gone.
fn runs(pid: u32) -> bool {
    let status = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps");
    let status = String::from_utf8_lossy(&status.stdout);
    !status.trim().is_empty() && !status.trim().starts_with('Z')
}
