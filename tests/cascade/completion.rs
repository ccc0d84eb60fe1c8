//! Completion by the real protocol: the real kubectl runs the plugin under the name `kubectl_complete-cascade`.

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::World;

/// What kubectl offers for the last word of `kubectl cascade WORDS...`: values, descriptions, and cobra's directive.
struct Offered {
    candidates: Vec<(String, String)>,
    directive: String,
    took: Duration,
}

impl Offered {
    fn values(&self) -> Vec<&str> {
        self.candidates.iter().map(|(value, _)| value.as_str()).collect()
    }

    fn has(&self, value: &str) -> bool {
        self.values().contains(&value)
    }
}

/// Asks as the user's shell does, in the test's namespace unless the words say otherwise.
fn complete(world: &World, words: &[&str]) -> Offered {
    complete_with(world, words, &world.kubectl().environment().map(|(name, path)| (name, path.as_os_str())))
}

fn complete_with(world: &World, words: &[&str], environment: &[(&str, &std::ffi::OsStr)]) -> Offered {
    let folder = tempfile::tempdir().unwrap();
    for name in ["kubectl-cascade", "kubectl_complete-cascade"] {
        symlink(env!("CARGO_BIN_EXE_kubectl-cascade"), folder.path().join(name)).unwrap();
    }
    let began = Instant::now();
    let output = Command::new(world.kubectl().program())
        .args(["__complete", "cascade"])
        .args(words)
        .env_clear()
        .envs(environment.iter().copied())
        .env("PATH", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = began.elapsed();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let mut lines: Vec<&str> = text.lines().collect();
    let directive = lines.pop().expect("a directive").to_owned();
    let pair = |line: &&str| {
        line.split_once('\t').map_or((line.to_string(), String::new()), |(a, b)| (a.into(), b.into()))
    };
    Offered { candidates: lines.iter().map(pair).collect(), directive, took }
}

#[test]
fn kubectl_completes_verbs_flags_and_values_of_the_plugin() {
    let world = World::new("complete-words");
    let verbs = complete(&world, &[""]);
    assert!(
        ["tree", "delete", "wait", "diagnose", "orphans"].iter().all(|verb| verbs.has(verb)),
        "{:?}",
        verbs.values()
    );
    assert!(!verbs.has("__complete"));
    assert_eq!(verbs.directive, ":4");
    assert_eq!(complete(&world, &["del"]).values(), ["delete"]);
    assert!(complete(&world, &["delete", "--pol"]).has("--policy"));
    let policies = complete(&world, &["delete", "pod/x", "--policy", ""]);
    assert!(["background", "foreground", "orphan"].iter().all(|policy| policies.has(policy)));
    assert_eq!(complete(&world, &["delete", "-f", ""]).directive, ":0");
}

#[test]
fn kinds_are_offered_with_their_short_names_and_only_where_the_verb_applies() {
    let world = World::new("complete-kinds");
    let kinds = complete(&world, &["tree", "p"]);
    assert!(kinds.has("pods") && kinds.has("persistentvolumeclaims"), "{:?}", kinds.values());
    let pods = kinds.candidates.iter().find(|(value, _)| value == "pods").unwrap();
    assert_eq!(pods.1, "Pod (po), v1");
    assert!(complete(&world, &["delete", "po"]).has("po"));
    assert_eq!(complete(&world, &["tree", "pods,deploym"]).values(), ["pods,deployments"]);
    // A review is created, never listed or deleted.
    assert!(!complete(&world, &["delete", "tokenr"]).has("tokenreviews"));
}

#[test]
fn names_come_from_the_cluster_within_about_a_second() {
    let world = World::new("complete-names");
    for name in ["build-1", "build-2", "other"] {
        world.thing("ConfigMap", name, &[], &["example.test/hold"]);
    }
    let namespace = world.namespace.as_str();
    let names = complete(&world, &["tree", "-n", namespace, "cm/b"]);
    assert_eq!(names.values(), ["cm/build-1", "cm/build-2"]);
    assert!(names.took < Duration::from_secs(3), "{:?}", names.took);
    assert_eq!(
        complete(&world, &["delete", "-n", namespace, "configmaps", "b"]).values(),
        ["build-1", "build-2"]
    );
    assert_eq!(complete(&world, &["delete", "-n", namespace, "cm", "build-1", "b"]).values(), ["build-2"]);
    let kinds = complete(&world, &["delete", "-n", namespace, "cm/build-1", "configm"]);
    assert_eq!((kinds.values(), kinds.directive.as_str()), (vec!["configmaps/"], ":6"));
    let finalizers = complete(&world, &["release", "-n", namespace, "cm/other", "--finalizer", ""]);
    assert_eq!(finalizers.values(), ["example.test/hold"]);
    assert!(complete(&world, &["tree", "-n", "complete-nam"]).has(namespace));
    let context = complete(&world, &["tree", "--context", ""]);
    assert_eq!(context.values(), ["control-plane"]);
    for name in ["build-1", "build-2", "other"] {
        world.free(&format!("ConfigMap/{name}"));
    }
}

#[test]
fn nothing_is_said_where_nothing_can_be_found_out() {
    let world = World::new("complete-silence");
    // No kubeconfig at all, a server that is not there, and a kubeconfig that is none.
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "{").unwrap();
    let absent = folder.path().join("absent");
    for kubeconfig in [&broken, &absent] {
        let offered = complete_with(&world, &["tree", "po"], &[("KUBECONFIG", kubeconfig.as_os_str())]);
        assert_eq!((offered.values().len(), offered.directive.as_str()), (0, ":4"));
    }
    let nowhere = ["tree", "-n", "x", "--server", "https://127.0.0.1:1", "pods/"];
    let offered = complete(&world, &nowhere);
    assert_eq!((offered.values().len(), offered.directive.as_str()), (0, ":4"));
}

#[test]
fn a_server_that_does_not_answer_costs_about_a_second() {
    let world = World::new("complete-patience");
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", deaf.local_addr().unwrap());
    let offered = complete(&world, &["tree", "--server", &server, "pods/"]);
    assert!(offered.values().is_empty());
    assert!(
        offered.took > Duration::from_millis(900) && offered.took < Duration::from_secs(4),
        "{:?}",
        offered.took
    );
}
