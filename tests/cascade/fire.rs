//! Real cascades through a proxy that fails by rule: lost answers, broken lists, dead watches, expired credentials, wrong
//! clocks, and a cluster that changes meanwhile. Each row of `docs/reliability.md` is made here or in [`crate::faults`].

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control_plane::proxy::{self, anything};
use control_plane::{Asked, ControlPlane, Fault, Proxy};
use serde_json::json;

use crate::conduct::{begun, end, interrupt, launch, terminate};
use crate::contract;
use crate::delete::is_untouched;
use crate::invariants::Begun;
use crate::reliability::holds;
use crate::support::{HOLD, Run, World, names};

/// A world behind a proxy.
struct Fire {
    world: World,
    proxy: Arc<Proxy>,
}

impl Fire {
    fn new(test: &str) -> Self {
        let world = World::new(test);
        let proxy = Arc::new(Proxy::start(ControlPlane::shared()).unwrap());
        Self { world, proxy }
    }

    /// A ConfigMap that owns a Secret; the Secret is held where that is wanted.
    fn pair(&self, finalizers: &[&str]) {
        self.world.thing("ConfigMap", "own", &[], &[]);
        self.world.thing("Secret", "dependent", &["ConfigMap/own!"], finalizers);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let arguments = [&["delete", "cm/own", "--yes", "-o", "json"], arguments].concat();
        self.world.command_through(&self.proxy, &arguments)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        launch(&self.world, self.command(arguments))
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.world.finish(self.command(arguments))
    }

    /// Starts a foreground deletion of [`Fire::pair`] that is held; returns when its watches are open.
    fn under_way(&self, arguments: &[&str]) -> Child {
        self.pair(&[HOLD]);
        let child = self.start(&[&["--policy", "foreground"], arguments].concat());
        self.world.until("it is under way", || {
            !is_untouched(&self.world, "Secret/dependent")
                && self.proxy.count(proxy::watch("configmaps")) > 0
                && self.proxy.count(proxy::watch("secrets")) > 0
        });
        child
    }

    /// Lets the Secret of [`Fire::pair`] go.
    fn free(&self) {
        self.world.free("Secret/dependent");
    }
}

fn deletes(begun: &Begun) -> usize {
    begun.written().iter().filter(|written| written.verb == "delete").count()
}

/// Tries all cases at the same time.
fn side_by_side<Case: Send, const N: usize>(cases: [Case; N], test: impl Fn(Case) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| test(case));
        }
    });
}

const BOTH: [&str; 2] = ["ConfigMap/own", "Secret/dependent"];

// The DELETE and its answer.

/// A time limit is a promise, also where the cluster is slow to read. Before the DELETE that is an error, of `wait` the end.
#[test]
fn the_time_limit_holds_for_the_first_look_too() {
    let fire = Fire::new("fire-first-look");
    fire.pair(&[HOLD]);
    let slow = || fire.proxy.always(proxy::list("serviceaccounts"), Fault::Delay(Duration::from_secs(20)));
    slow();
    let begun = Instant::now();
    let run = end(fire.start(&["--timeout", "2s"])).expect(1);
    assert_eq!(run.stdout, "");
    assert!(
        run.stderr.contains("nothing was deleted") && run.stderr.contains("--timeout 2s"),
        "{}",
        run.stderr
    );
    assert!(is_untouched(&fire.world, "ConfigMap/own"));
    let dry = fire.world.command_through(&fire.proxy, &["delete", "cm/own", "--dry-run", "--timeout", "2s"]);
    assert_eq!(fire.world.finish(dry).expect(1).stdout, "");

    fire.world.delete_raw("ConfigMap/own", &json!({ "propagationPolicy": "Foreground" }));
    let wait = || {
        let command =
            fire.world.command_through(&fire.proxy, &["wait", "cm/own", "-o", "json", "--timeout", "3s"]);
        let result = fire.world.finish(command).expect(3).json();
        contract::result(&result);
        assert_eq!(result["outcome"], "timed-out");
        result
    };
    let unread = wait();
    assert_eq!(
        (&unread["gaps"][0]["resource"], &unread["remaining"]),
        (&json!("*"), &json!([])),
        "{unread:#}"
    );
    assert!(begun.elapsed() < Duration::from_secs(18), "{:?}", begun.elapsed());

    // What the first look took is part of it.
    fire.proxy.heal();
    fire.proxy.always(proxy::list("serviceaccounts"), Fault::Delay(Duration::from_millis(1500)));
    let followed = wait();
    assert_eq!(names(&followed["remaining"]), ["ConfigMap/own", "Secret/dependent"]);
    let elapsed = followed["elapsedSeconds"].as_f64().unwrap();
    assert!((3.0..4.4).contains(&elapsed), "{elapsed}");
    fire.proxy.heal();
    fire.world.free("Secret/dependent");
}

#[test]
fn a_delete_whose_fate_is_unclear_is_looked_at_and_never_sent_twice_blindly() {
    let cases = [
        ("delete-cut", Fault::Cut, true),
        ("delete-answer-cut", Fault::CutAnswer, true),
        ("delete-answer-cut-gone", Fault::CutAnswer, false),
        (
            "delete-500-done",
            Fault::refusal(500, "InternalError", "etcdserver: request timed out").instead(),
            true,
        ),
        ("delete-504-done", Fault::refusal(504, "Timeout", "request did not complete").instead(), true),
        ("delete-503", Fault::refusal(503, "ServiceUnavailable", "not ready"), true),
    ];
    side_by_side(cases, |(id, fault, held)| {
        let fire = Fire::new(&format!("fire-{id}"));
        fire.world.thing("ConfigMap", "own", &[], if held { &[HOLD] } else { &[] });
        fire.proxy.once(proxy::delete("configmaps"), fault);
        let child = fire.start(if id == "delete-503" { &["--policy", "foreground"] } else { &[] });
        if held {
            fire.world.until("it is under way", || !is_untouched(&fire.world, "ConfigMap/own"));
            fire.world.free("ConfigMap/own");
        }
        fire.world.gone("ConfigMap/own");
        let begun = begun(&child);
        let result = holds(id, end(child));
        assert_eq!(
            (names(&result["deleted"]), deletes(&begun)),
            (vec!["ConfigMap/own".to_owned()], 1),
            "{id}"
        );
    });
}

#[test]
fn where_nothing_is_heard_after_the_delete_it_is_not_claimed_to_be_refused_or_done() {
    let fire = Fire::new("fire-delete-lost");
    fire.pair(&[]);
    let dead = Arc::new(AtomicBool::new(false));
    let kill = Arc::clone(&dead);
    fire.proxy.once(proxy::delete("configmaps"), Fault::CutAnswer);
    fire.proxy.once(proxy::delete("configmaps"), Fault::after(move || kill.store(true, Ordering::SeqCst)));
    fire.proxy.always(move |_: &Asked| dead.load(Ordering::SeqCst), Fault::Cut);
    let result = holds("delete-lost", fire.run(&["--stall-timeout", "4s"]));
    assert_eq!(result["deleted"], json!([]));
    assert_eq!(names(&result["remaining"]), BOTH);
    fire.world.gone("ConfigMap/own");
}

#[test]
fn a_delete_that_takes_too_long_is_looked_at() {
    let fire = Fire::new("fire-delete-slow");
    fire.pair(&[]);
    fire.proxy.once(proxy::delete("configmaps"), Fault::Delay(Duration::from_secs(15)));
    let result = holds("delete-slow", fire.run(&["--request-timeout", "5s"]));
    assert_eq!(names(&result["deleted"]), BOTH);
}

#[test]
fn a_delete_that_never_gets_an_answer_is_not_called_accepted() {
    let fire = Fire::new("fire-delete-silent");
    fire.pair(&[]);
    fire.proxy.always(proxy::delete("configmaps"), Fault::Delay(Duration::from_secs(60)));
    let arguments = ["delete", "cm/own", "--yes", "--request-timeout", "1s"];
    let run = fire.world.finish(fire.world.command_through(&fire.proxy, &arguments)).expect(1);
    assert!(run.stdout.contains("whether the deletion was accepted is not known"), "{}", run.stdout);
    assert!(!run.stdout.contains("deletion accepted"), "{}", run.stdout);
}

#[test]
fn a_delete_that_the_server_refuses_for_its_own_reasons_is_an_error_and_changes_nothing() {
    for (id, fault) in [
        ("delete-500", Fault::refusal(500, "InternalError", "the disk is on fire")),
        (
            "delete-429-always",
            Fault::refusal(429, "TooManyRequests", "the disk is on fire").header("Retry-After", "60"),
        ),
    ] {
        let fire = Fire::new(&format!("fire-{id}"));
        fire.pair(&[]);
        fire.proxy.always(proxy::delete("configmaps"), fault);
        let run = fire.run(&[]);
        assert!(run.stderr.contains("the disk is on fire"), "{}", run.stderr);
        let result = holds(id, run);
        assert_eq!(
            (names(&result["remaining"]), &result["deleted"]),
            (vec!["ConfigMap/own".to_owned()], &json!([]))
        );
        assert!(is_untouched(&fire.world, "ConfigMap/own"));
    }
}

#[test]
fn a_busy_server_is_asked_again_when_it_wants() {
    let fire = Fire::new("fire-busy");
    fire.pair(&[]);
    let busy = || Fault::refusal(429, "TooManyRequests", "try later");
    fire.proxy.once(proxy::delete("configmaps"), busy().header("Retry-After", "2"));
    fire.proxy.once(proxy::delete("configmaps"), busy());
    let since = Instant::now();
    let result = holds("delete-429", fire.run(&[]));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert!(since.elapsed() >= Duration::from_secs(2), "{:?}", since.elapsed());
}

#[test]
fn a_patch_whose_answer_is_lost_is_looked_at() {
    let fire = Fire::new("fire-release");
    fire.world.thing("ConfigMap", "own", &[], &[HOLD]);
    fire.world.delete_raw("ConfigMap/own", &json!({}));
    let arguments = ["release", "cm/own", "-o", "json"];
    let digest = fire.world.cascade(&arguments).expect(4).json()["digest"].as_str().unwrap().to_owned();
    let sent = |asked: &Asked| asked.method == "PATCH" && !asked.path.contains("dryRun");
    fire.proxy.once(sent, Fault::CutAnswer);
    let arguments = [&arguments[..], &["--confirm", &digest]].concat();
    let run = fire.world.finish(fire.world.command_through(&fire.proxy, &arguments));
    assert_eq!(run.json()["applied"], true, "{run:#?}");
    holds("release-answer-cut", run);
    assert_eq!(fire.proxy.count(sent), 1);
    fire.world.gone("ConfigMap/own");
}

// Lists.

#[test]
fn lists_that_fail_a_few_times_are_asked_again_and_one_that_always_does_is_a_gap() {
    let fire = Fire::new("fire-lists");
    fire.pair(&[]);
    fire.proxy.times(2, proxy::list("secrets"), Fault::refusal(503, "ServiceUnavailable", "not yet"));
    fire.proxy.once(proxy::list("configmaps"), Fault::refusal(504, "Timeout", "not in time"));
    fire.proxy.always(proxy::list("endpoints"), Fault::refusal(500, "InternalError", "the disk is on fire"));
    let result = holds("list-503", fire.run(&[]));
    assert_eq!(names(&result["deleted"]), BOTH);
    let gaps = result["gaps"].as_array().unwrap();
    assert!(gaps.iter().any(|gap| gap["resource"] == "endpoints" && gap["message"] == "the disk is on fire"));
}

#[test]
fn a_list_that_breaks_off_is_begun_again() {
    let fire = Fire::new("fire-truncated");
    fire.pair(&[]);
    fire.proxy.once(proxy::list("secrets"), Fault::Truncate(40));
    fire.proxy.once(proxy::list("configmaps"), Fault::Cut);
    let result = holds("list-truncated", fire.run(&[]));
    assert_eq!(names(&result["deleted"]), BOTH);
}

#[test]
fn a_list_that_takes_too_long_costs_that_kind_and_a_target_that_does_costs_the_run() {
    let fire = Fire::new("fire-slow");
    fire.pair(&[]);
    fire.proxy.always(proxy::list("serviceaccounts"), Fault::Delay(Duration::from_secs(15)));
    let result = holds("list-slow", fire.run(&["--request-timeout", "5s"]));
    assert!(result["gaps"].as_array().unwrap().iter().any(|gap| gap["resource"] == "serviceaccounts"));

    fire.world.thing("ConfigMap", "own", &[], &[]);
    fire.proxy.always(proxy::get("configmaps"), Fault::Delay(Duration::from_secs(15)));
    let run = fire.run(&["--request-timeout", "5s"]);
    assert!(run.stdout.is_empty() && run.stderr.contains("did not answer within 5s"), "{run:#?}");
    holds("target-slow", run);
    assert!(is_untouched(&fire.world, "ConfigMap/own"));
}

#[test]
fn a_server_that_pages_is_read_to_the_end_even_if_its_tokens_expire_and_objects_come_meanwhile() {
    let fire = Fire::new("fire-pages");
    fire.world.thing("ConfigMap", "own", &[], &[]);
    for number in 0..5 {
        fire.world.thing("Secret", &format!("s-{number}"), &["ConfigMap/own"], &[]);
    }
    let secrets = proxy::list("secrets");
    let first = Arc::new(secrets);
    let (one, two) = (Arc::clone(&first), Arc::clone(&first));
    let paged = |path: &str| {
        let separator = if path.contains('?') { '&' } else { '?' };
        format!("{path}{separator}limit=2")
    };
    fire.proxy.always(move |asked: &Asked| one(asked), Fault::path(paged));
    let (owner, namespace) = (fire.world.owner("ConfigMap/own"), fire.world.namespace.clone());
    let another = move || {
        let body = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "between", "ownerReferences": [owner] },
        });
        let _ = ControlPlane::shared()
            .api()
            .unwrap()
            .create(&format!("/api/v1/namespaces/{namespace}/secrets"), &body);
    };
    let continued = move |asked: &Asked| two(asked) && asked.path.contains("continue=");
    let continued = Arc::new(continued);
    let (again, expired) = (Arc::clone(&continued), continued);
    fire.proxy.once(move |asked: &Asked| again(asked), Fault::before(another));
    fire.proxy
        .once(move |asked: &Asked| expired(asked), Fault::refusal(410, "Expired", "the token is too old"));
    let result = holds("list-pages", fire.run(&[]));
    let deleted = names(&result["deleted"]);
    assert_eq!(deleted.len(), 7, "{deleted:?}");
    assert!(deleted.contains(&"Secret/between".to_owned()), "the fresh list shows it: {deleted:?}");
}

#[test]
fn large_objects_are_as_any_other() {
    let fire = Fire::new("fire-large");
    let annotations = json!({ "example.test/blob": "x".repeat(240 << 10) });
    for name in ["own", "one", "two"] {
        let mut metadata =
            fire.world.metadata(name, if name == "own" { &[] } else { &["ConfigMap/own!"] }, &[HOLD]);
        metadata["annotations"] = annotations.clone();
        fire.world.create("ConfigMap", json!({ "metadata": metadata }));
    }
    let child = fire.start(&["--policy", "foreground"]);
    for name in ["ConfigMap/one", "ConfigMap/two", "ConfigMap/own"] {
        fire.world.until("it is under way", || !is_untouched(&fire.world, name));
        fire.world.free(name);
    }
    let result = holds("large-object", end(child));
    assert_eq!(names(&result["deleted"]), ["ConfigMap/one", "ConfigMap/own", "ConfigMap/two"]);
}

// TLS.

#[test]
fn what_is_wrong_with_tls_is_said_in_words() {
    let fire = Fire::new("fire-tls");
    fire.pair(&[]);
    // The control plane's own authority did not sign the proxy's certificate.
    let url = fire.proxy.url();
    let run = fire.world.cascade(&["delete", "cm/own", "--yes", "-o", "json", "--server", &url]);
    assert!(
        run.stderr.contains("signed by an unknown authority") && run.stderr.contains("hint:"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("Error("), "{}", run.stderr);
    holds("tls-unknown", run);

    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in plain.incoming().flatten() {
            use std::io::{Read as _, Write as _};
            let mut connection = connection;
            let _ = connection.read(&mut [0; 1024]);
            let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let run = fire.world.cascade(&["delete", "cm/own", "--yes", "-o", "json", "--server", &url]);
    assert!(run.stderr.contains("does not speak TLS") && run.stderr.contains("hint:"), "{}", run.stderr);
    holds("tls-plain", run);
    assert!(is_untouched(&fire.world, "ConfigMap/own"));
}

// Watches.

#[test]
fn a_watch_that_expires_or_is_closed_again_and_again_loses_nothing() {
    let expired = json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old resource version",
    } });
    for (id, fault) in
        [("watch-expired", Fault::watch_of(&[expired])), ("watch-closed", Fault::watch_of(&[]))]
    {
        let fire = Fire::new(&format!("fire-{id}"));
        fire.proxy.times(4, Asked::is_watch, fault);
        let child = fire.under_way(&[]);
        fire.free();
        let result = holds(id, end(child));
        assert_eq!(names(&result["deleted"]), BOTH);
    }
}

#[test]
fn connections_that_die_without_a_word_are_noticed() {
    let fire = Fire::new("fire-dark");
    let child = fire.under_way(&["--stall-timeout", "10m"]);
    std::thread::sleep(Duration::from_millis(500));
    fire.proxy.go_dark();
    fire.free();
    let since = Instant::now();
    let result = holds("watch-dark", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert!(since.elapsed() < Duration::from_secs(45), "{:?}", since.elapsed());
}

#[test]
fn without_any_event_fresh_looks_lead_to_the_end() {
    let bookmarks = |line: &str| if line.contains("BOOKMARK") { vec![line.to_owned()] } else { Vec::new() };
    let cases = [("watch-mute", Fault::Mute(0)), ("watch-bookmarks", Fault::lines(bookmarks))];
    side_by_side(cases, |(id, fault)| {
        let fire = Fire::new(&format!("fire-{id}"));
        fire.proxy.always(Asked::is_watch, fault);
        let child = fire.under_way(&["--stall-timeout", "10m"]);
        fire.free();
        let since = Instant::now();
        let result = holds(id, end(child));
        assert_eq!(names(&result["deleted"]), BOTH);
        assert!(since.elapsed() < Duration::from_secs(60), "{id}: {:?}", since.elapsed());
    });
}

/// Tells every event twice, and after each all that came before it.
fn repeating() -> Fault {
    let told: Mutex<Vec<String>> = Mutex::new(Vec::new());
    Fault::lines(move |line| {
        let mut told = told.lock().unwrap();
        let mut lines = vec![line.to_owned(), line.to_owned()];
        // A DELETED event is no repetition of an older state; those follow it here as they must not.
        lines.extend(told.iter().rev().filter(|line| !line.contains("BOOKMARK")).cloned());
        told.push(line.to_owned());
        lines
    })
}

#[test]
fn events_that_come_twice_and_out_of_order_bring_nothing_back_and_are_no_progress() {
    let fire = Fire::new("fire-repeating");
    fire.proxy.always(proxy::watch("secrets"), repeating());
    fire.proxy.always(proxy::watch("configmaps"), repeating());
    let child = fire.under_way(&[]);
    for label in ["a", "b", "c"] {
        fire.world.patch("Secret/dependent", &json!({ "metadata": { "labels": { "x": label } } }));
    }
    fire.free();
    let result = holds("watch-duplicates", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert_eq!((&result["recreated"], &result["unexpected"]), (&json!([]), &json!([])));

    // And while it is held, old states told for ever must not look like progress.
    let fire = Fire::new("fire-stale");
    fire.proxy.always(proxy::watch("secrets"), repeating());
    let child = fire.under_way(&["--stall-timeout", "4s"]);
    let since = Instant::now();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let namespace = fire.world.namespace.clone();
    let busy = std::thread::spawn(move || {
        let api = ControlPlane::shared().api().unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/secrets/dependent");
        let mut number = 0;
        while stopped.recv_timeout(Duration::from_millis(300)).is_err() {
            number += 1;
            let label = json!({ "metadata": { "labels": { "n": number.to_string() } } });
            api.send("PATCH", &path, Some(&label)).unwrap();
        }
    });
    let run = end(child);
    let took = since.elapsed();
    let _ = stop.send(());
    busy.join().unwrap();
    holds("watch-stale-stall", run);
    assert!(took < Duration::from_secs(40), "{took:?}");
    fire.free();
}

#[test]
fn a_watch_that_tells_nonsense_is_followed_by_a_fresh_list() {
    let fire = Fire::new("fire-garbage");
    fire.proxy.times(
        3,
        Asked::is_watch,
        Fault::lines(|_| vec!["{\"type\":\"ADDED\",\"object\":{".to_owned()]),
    );
    let child = fire.under_way(&[]);
    fire.free();
    let result = holds("watch-garbage", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
}

// Credentials and clocks.

#[test]
fn a_credential_plugin_is_run_again_when_its_token_is_refused() {
    let fire = Fire::new("fire-renewed");
    fire.pair(&[HOLD]);
    let folder = tempfile::tempdir().unwrap();
    let run = fire.world.plane().run_as("admin").unwrap();
    let count = folder.path().join("count");
    let script = folder.path().join("plugin");
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": { "token": run.token() },
    });
    fs::write(&script, format!("#!/bin/sh\necho run >> {}\necho '{credential}'\n", count.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = run.kubeconfig_for(&fire.proxy.url(), fire.proxy.authority());
    config["users"][0]["user"] = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": script, "interactiveMode": "Never",
    } });
    let kubeconfig = folder.path().join(format!("{}.kubeconfig", run.id));
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let mut command = fire.command(&["--policy", "foreground"]);
    command.env("KUBECONFIG", kubeconfig);
    let child = launch(&fire.world, command);
    fire.world.until("it is under way", || !is_untouched(&fire.world, "Secret/dependent"));
    let runs = || fs::read_to_string(&count).unwrap().lines().count();
    assert_eq!(runs(), 1);
    fire.proxy.once(anything, Fault::refusal(401, "Unauthorized", "Unauthorized"));
    fire.proxy.cut_all();
    fire.world.until("the plugin is asked again", || runs() == 2);
    fire.free();
    let result = holds("token-renewed", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert_eq!(runs(), 2);
}

#[test]
fn who_is_not_let_in_any_more_is_told_that_the_end_is_not_verified() {
    let fire = Fire::new("fire-expired");
    let child = fire.under_way(&["--stall-timeout", "4s"]);
    fire.proxy.always(anything, Fault::refusal(401, "Unauthorized", "Unauthorized"));
    fire.proxy.cut_all();
    let result = holds("token-expired", end(child));
    assert_eq!(
        (names(&result["remaining"]), &result["deleted"]),
        (BOTH.map(str::to_owned).to_vec(), &json!([]))
    );
    fire.free();
}

/// This command under a clock that is wrong by so much; none without Debian's `faketime`.
fn at_another_time(offset: &str, command: &Command) -> Option<Command> {
    let known =
        Command::new("faketime").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if known.is_err() {
        use std::io::Write as _;
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a wrong clock is not tried, because there is no `faketime`"
        );
        return None;
    }
    let mut wrapped = Command::new("faketime");
    wrapped.args(["-f", offset]).arg(command.get_program()).args(command.get_args()).env_clear();
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    wrapped.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(wrapped)
}

#[test]
fn a_clock_that_is_wrong_by_an_hour_misleads_nobody() {
    let fire = Fire::new("fire-clock");
    fire.pair(&[HOLD]);
    let command = fire.command(&["--policy", "foreground", "--stall-timeout", "4s"]);
    let Some(command) = at_another_time("-1h", &command) else { return };
    let since = Instant::now();
    holds("clock-behind", fire.world.finish(command));
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    fire.free();
    fire.world.gone("ConfigMap/own");

    // With a grace period of 12 s nothing has stalled after 2.
    let node = fire.world.bare_node();
    let mut pod = fire.world.metadata("own", &[], &[]);
    pod["name"] = json!("own");
    fire.world.create(
        "Pod",
        json!({ "metadata": pod, "spec": {
            "terminationGracePeriodSeconds": 12, "nodeName": node,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "example.test/image:1" }],
        } }),
    );
    let arguments = ["delete", "pod/own", "--yes", "-o", "json", "--stall-timeout", "2s"];
    let command = at_another_time("+1h", &fire.world.command_through(&fire.proxy, &arguments)).unwrap();
    let result = holds("clock-ahead", fire.world.finish(command));
    assert!(result["elapsedSeconds"].as_f64().unwrap() >= 12.0, "{}", result["elapsedSeconds"]);
    fire.world.delete_raw("Pod/own", &json!({ "gracePeriodSeconds": 0 }));
}

// The cluster changes meanwhile.

#[test]
fn a_target_that_is_replaced_before_the_delete_arrives_is_refused_and_the_other_one_lives() {
    let fire = Fire::new("fire-replaced");
    fire.world.thing("ConfigMap", "own", &[], &[]);
    let namespace = fire.world.namespace.clone();
    fire.proxy.once(
        proxy::delete("configmaps"),
        Fault::before(move || {
            let api = ControlPlane::shared().api().unwrap();
            let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
            api.send("DELETE", &format!("{collection}/own"), None).unwrap();
            let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "own" } });
            api.create(&collection, &body).unwrap();
        }),
    );
    let run = fire.run(&[]);
    assert!(run.stderr.contains("was replaced meanwhile"), "{}", run.stderr);
    let result = holds("target-replaced", run);
    assert_eq!(result["deleted"], json!([]));
    assert!(is_untouched(&fire.world, "ConfigMap/own"));
}

#[test]
fn dependents_that_are_made_during_the_wait_are_tracked() {
    let fire = Fire::new("fire-made");
    let child = fire.under_way(&[]);
    fire.world.thing("Secret", "late", &["ConfigMap/own!"], &[HOLD]);
    fire.free();
    fire.world.gone("Secret/dependent");
    std::thread::sleep(Duration::from_secs(1));
    assert!(fire.world.get("ConfigMap/own").is_some(), "the late one blocks it");
    fire.world.free("Secret/late");
    let result = holds("dependents-made", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert!(fire.world.get("Secret/late").is_none());
}

#[test]
fn who_gets_other_owners_during_the_wait_survives_and_is_reported() {
    let fire = Fire::new("fire-owners");
    fire.world.thing("ConfigMap", "other", &[], &[]);
    fire.world.thing("ConfigMap", "own", &[], &[HOLD]);
    // In background nothing is touched before the owner is gone.
    for name in ["adopted", "freed", "dependent"] {
        fire.world.thing("Secret", name, &["ConfigMap/own"], &[]);
    }
    fire.world.thing("Secret", "below", &["Secret/adopted"], &[]);
    let child = fire.start(&[]);
    fire.world.until("it is under way", || {
        !is_untouched(&fire.world, "ConfigMap/own") && fire.proxy.count(proxy::watch("secrets")) > 0
    });
    let other = fire.world.owner("ConfigMap/other");
    fire.world.patch("Secret/adopted", &json!({ "metadata": { "ownerReferences": [other] } }));
    fire.world.patch("Secret/freed", &json!({ "metadata": { "ownerReferences": null } }));
    fire.world.free("ConfigMap/own");
    let result = holds("owners-changed", end(child));
    assert_eq!(names(&result["deleted"]), BOTH);
    assert_eq!(names(&result["unexpected"]), ["Secret/adopted", "Secret/below", "Secret/freed"]);
    for name in ["Secret/adopted", "Secret/below", "Secret/freed"] {
        assert!(is_untouched(&fire.world, name), "{name}");
    }
}

#[test]
fn a_kept_object_that_vanishes_is_reported() {
    let fire = Fire::new("fire-vanishes");
    fire.world.thing("ConfigMap", "other", &[], &[]);
    fire.world.thing("ConfigMap", "own", &[], &[HOLD]);
    fire.world.thing("Secret", "kept", &["ConfigMap/own", "ConfigMap/other"], &[]);
    let child = fire.start(&[]);
    fire.world.until("it is under way", || !is_untouched(&fire.world, "ConfigMap/own"));
    fire.world.delete_raw("Secret/kept", &json!({}));
    fire.world.free("ConfigMap/own");
    let result = holds("kept-vanishes", end(child));
    assert_eq!((names(&result["unexpected"]), &result["kept"]), (vec!["Secret/kept".to_owned()], &json!([])));
}

#[test]
fn two_runs_on_the_same_target_both_see_it_through() {
    let fire = Fire::new("fire-two");
    fire.pair(&[HOLD]);
    let children: Vec<Child> = (0..2).map(|_| fire.start(&["--policy", "foreground"])).collect();
    fire.world.until("it is under way", || !is_untouched(&fire.world, "Secret/dependent"));
    fire.free();
    for child in children {
        let result = holds("two-runs", end(child));
        assert_eq!(names(&result["deleted"]), BOTH);
    }
}

// Signals and output.

#[test]
fn a_signal_before_the_delete_deletes_nothing_and_says_so() {
    for signal in [interrupt, terminate] {
        let fire = Fire::new("fire-signal-snapshot");
        fire.pair(&[]);
        fire.proxy.always(proxy::list("secrets"), Fault::Swallow);
        let child = fire.start(&[]);
        fire.world.until("it reads", || fire.proxy.count(proxy::list("secrets")) > 0);
        signal(&child);
        let since = Instant::now();
        let run = end(child);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert!(run.stderr.contains("nothing was deleted: interrupted"), "{}", run.stderr);
        let result = holds("interrupt-snapshot", run);
        assert_eq!(result["remaining"], json!([]));
        assert!(is_untouched(&fire.world, "ConfigMap/own"));
    }
}

#[test]
fn a_signal_before_a_wait_has_begun_says_that_the_deletion_goes_on() {
    let fire = Fire::new("fire-signal-early");
    fire.world.thing("ConfigMap", "own", &[], &[HOLD]);
    fire.world.delete_raw("ConfigMap/own", &json!({}));
    fire.proxy.always(proxy::list("secrets"), Fault::Swallow);
    let command = fire.world.command_through(&fire.proxy, &["wait", "cm/own", "-o", "json"]);
    let child = launch(&fire.world, command);
    fire.world.until("it reads", || fire.proxy.count(proxy::list("secrets")) > 0);
    terminate(&child);
    let run = end(child);
    assert!(run.stderr.contains("goes on without us"), "{}", run.stderr);
    holds("interrupt-wait-early", run);
    fire.world.free("ConfigMap/own");
}

#[test]
fn a_signal_during_the_delete_says_that_what_was_accepted_goes_on() {
    for signal in [interrupt, terminate] {
        let fire = Fire::new("fire-signal-delete");
        fire.pair(&[]);
        fire.proxy.always(proxy::delete("configmaps"), Fault::Swallow);
        let child = fire.start(&[]);
        fire.world.until("it deletes", || fire.proxy.count(proxy::delete("configmaps")) > 0);
        signal(&child);
        let since = Instant::now();
        let run = end(child);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert!(run.stderr.contains("goes on without us"), "{}", run.stderr);
        let result = holds("interrupt-delete", run);
        assert_eq!(
            (&result["deleted"], names(&result["remaining"])),
            (&json!([]), BOTH.map(str::to_owned).to_vec())
        );
    }
}

#[test]
fn a_signal_during_the_wait_says_what_is_known() {
    for signal in [interrupt, terminate] {
        let fire = Fire::new("fire-signal-wait");
        let child = fire.under_way(&[]);
        signal(&child);
        let run = end(child);
        assert!(run.stderr.contains("goes on without us"), "{}", run.stderr);
        let result = holds("interrupt-wait", run);
        assert_eq!(names(&result["remaining"]), BOTH);
        fire.free();
    }
}

/// Nobody reads the pipe that the document goes to, so that the first signal's answer never gets through.
#[test]
fn a_second_signal_ends_at_once_whatever_is_still_written() {
    let fire = Fire::new("fire-signal-twice");
    fire.world.thing("ConfigMap", "own", &[], &[HOLD]);
    // More than a pipe holds.
    for number in 0..350 {
        fire.world.thing("Secret", &format!("s-{number}-{}", "x".repeat(150)), &["ConfigMap/own"], &[]);
    }
    let mut child = fire.start(&[]);
    fire.world.until("it is under way", || !is_untouched(&fire.world, "ConfigMap/own"));
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "it waits for somebody to read");
    interrupt(&child);
    let since = Instant::now();
    let code = child.wait().unwrap().code().unwrap_or(-1);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    holds("interrupt-twice", Run { code, stdout: String::new(), stderr: String::new() });
    fire.world.free("ConfigMap/own");
}

#[test]
fn what_cannot_be_shown_is_not_deleted_and_what_cannot_be_reported_is_an_error() {
    let fire = Fire::new("fire-stdout");
    fire.pair(&[]);
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = fire.world.command(&["delete", "cm/own", "--yes"]);
    let output = command.stdout(full()).output().unwrap();
    let run = |output: std::process::Output| Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    let ended = run(output);
    assert!(ended.stderr.contains("cannot write the output: No space left"), "{}", ended.stderr);
    holds("stdout-full-before", ended);
    assert!(is_untouched(&fire.world, "ConfigMap/own"));

    let mut command = fire.world.command(&["delete", "cm/own", "--yes", "-o", "json"]);
    let ended = run(command.stdout(full()).output().unwrap());
    assert!(ended.stderr.contains("cannot write the output: No space left"), "{}", ended.stderr);
    holds("stdout-full-after", ended);
    fire.world.gone("ConfigMap/own");
    fire.world.gone("Secret/dependent");

    fire.pair(&[]);
    let plain = fire.world.command(&["delete", "cm/own", "--yes", "-o", "json"]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" >&-"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = run(command.output().unwrap());
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    holds("stdout-closed", ended);
    fire.world.gone("Secret/dependent");
}
