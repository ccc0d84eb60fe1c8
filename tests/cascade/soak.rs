//! Random cascades under random faults, for as long as wanted: what must hold after every run holds here, too. Run it
//! longer with `cargo xtask soak`.
//!
//! A control plane of its own, whose servers are stopped and started now and then; workers, each behind a proxy that
//! fails at random; and one run that waits all the time, whose memory and handles must not grow.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use control_plane::{Asked, Component, ControlPlane, Fault, Options, Proxy, proxy};
use serde_json::{Value, json};

use crate::contract;
use crate::invariants::Begun;
use crate::support::{HOLD, Run, names};

/// Seconds in a plain test run.
const SECONDS: u64 = 120;
/// Workers side by side.
const WORKERS: u64 = 3;
/// Objects of a cascade at most.
const MOST: usize = 8;
/// The longest that one run may take: its limits are far below.
const LONGEST_RUN: Duration = Duration::from_secs(150);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// The plugin; with `SOAK_PROGRAM` another build of it.
fn program() -> OsString {
    std::env::var_os("SOAK_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_kubectl-cascade").into())
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Random numbers that a seed repeats (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn moment(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.next() % most)
    }
}

/// What is shared.
struct Soak {
    plane: &'static ControlPlane,
    until: Instant,
    over: AtomicBool,
    counts: Mutex<BTreeMap<String, usize>>,
    wrong: Mutex<Vec<String>>,
}

impl Soak {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst) && Instant::now() < self.until
    }

    fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }

    /// Sends a request of the harness itself until the servers are there to answer it; what exists or is gone already
    /// is as good.
    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match self.plane.api().unwrap().send(method, path, body) {
                Ok(answer) if answer.status < 300 || [404, 409].contains(&answer.status) => {
                    return answer.body;
                }
                answer => assert!(Instant::now() < deadline, "{method} {path}: {answer:?}"),
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn create(&self, collection: &str, body: &Value) -> Value {
        let created = self.send("POST", collection, Some(body));
        if created["metadata"]["uid"].is_string() {
            return created;
        }
        // An answer was lost: it is there already.
        let name = body["metadata"]["name"].as_str().unwrap();
        self.send("GET", &format!("{collection}/{name}"), None)
    }
}

/// One object of a cascade.
struct Thing {
    kind: &'static str,
    path: String,
    held: bool,
}

/// A random cascade under `cm/t0`.
fn cascade(soak: &Soak, random: &mut Random, namespace: &str) -> Vec<Thing> {
    let namespaces = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    soak.create("/api/v1/namespaces", &namespaces);
    let mut things: Vec<Thing> = Vec::new();
    let mut references: Vec<Value> = Vec::new();
    // Somebody outside, who lives on.
    let mut names = vec!["other".to_owned()];
    names.extend((0..2 + random.below(MOST - 1)).map(|number| format!("t{number}")));
    for (number, name) in names.iter().enumerate() {
        let kind = if number < 2 || random.once_in(2) { "ConfigMap" } else { "Secret" };
        let plural = if kind == "Secret" { "secrets" } else { "configmaps" };
        let mut owners: Vec<Value> = Vec::new();
        for owner in references.iter().skip(1) {
            if random.once_in(2) || owners.is_empty() {
                let mut owner: Value = owner.clone();
                owner["blockOwnerDeletion"] = json!(random.once_in(2));
                owners.push(owner);
            }
        }
        if number > 1 && random.once_in(6) {
            owners.push(references[0].clone());
        }
        let held = number > 0 && random.once_in(4);
        let finalizers: &[&str] = if held { &[HOLD] } else { &[] };
        let body = json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": { "name": name, "ownerReferences": owners, "finalizers": finalizers },
        });
        let collection = format!("/api/v1/namespaces/{namespace}/{plural}");
        let created = soak.create(&collection, &body);
        references.push(json!({
            "apiVersion": "v1", "kind": kind, "name": name, "uid": created["metadata"]["uid"],
        }));
        things.push(Thing { kind, path: format!("{collection}/{name}"), held });
    }
    things
}

/// Lets the proxy fail at random; returns what was chosen.
fn faults(random: &mut Random, proxy: &Proxy) -> Vec<&'static str> {
    let mut chosen = Vec::new();
    let busy = |code: u16| Fault::refusal(code, "ServiceUnavailable", "not now");
    for _ in 0..random.below(4) {
        let resource = *random.one(&["configmaps", "secrets"]);
        chosen.push(match random.below(16) {
            0 => (proxy.once(proxy::delete(resource), Fault::Cut), "DELETE cut").1,
            1 => (proxy.once(proxy::delete(resource), Fault::CutAnswer), "answer to DELETE cut").1,
            2 => (proxy.once(proxy::delete(resource), busy(500).instead()), "500 to a done DELETE").1,
            3 => (proxy.once(proxy::delete(resource), busy(503)), "503 to DELETE").1,
            4 => {
                (proxy.once(proxy::delete(resource), busy(429).header("Retry-After", "1")), "429 to DELETE").1
            }
            5 => {
                (proxy.times(2, proxy::list(resource), Fault::Truncate(random.below(300))), "list truncated")
                    .1
            }
            6 => (proxy.times(2, proxy::list(resource), busy(503)), "503 to a list").1,
            7 => (proxy.times(2, proxy::list(resource), Fault::Delay(random.moment(3000))), "slow list").1,
            8 => (proxy.times(2, proxy::watch(resource), Fault::Mute(random.below(3))), "watch mute").1,
            9 => (proxy.times(2, proxy::watch(resource), Fault::watch_of(&[])), "watch closed").1,
            10 => {
                let expired =
                    json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410, "message": "old" } });
                (proxy.once(proxy::watch(resource), Fault::watch_of(&[expired])), "watch expired").1
            }
            11 => {
                let twice = |line: &str| vec![line.to_owned(), line.to_owned()];
                (proxy.always(proxy::watch(resource), Fault::lines(twice)), "events twice").1
            }
            12 => (proxy.times(2, proxy::get(resource), Fault::Cut), "GET cut").1,
            13 => {
                (proxy.once(Asked::is_watch, Fault::refusal(403, "Forbidden", "no watch")), "watch forbidden")
                    .1
            }
            14 => (proxy.once(proxy::delete(resource), Fault::Delay(random.moment(2500))), "slow DELETE").1,
            _ => {
                (proxy.times(3, proxy::anything, Fault::refusal(401, "Unauthorized", "Unauthorized")), "401")
                    .1
            }
        });
    }
    chosen
}

/// What happens to the cluster, the connection and the process while a run is under way.
fn live(soak: &Soak, random: &mut Random, things: &[Thing], proxy: &Proxy, child: &mut Child) {
    let began = Instant::now();
    // Some are freed late, some never.
    let free_at = (!random.once_in(5)).then(|| random.moment(6000));
    let dark_at = random.once_in(6).then(|| random.moment(4000));
    let cut_at = random.once_in(6).then(|| random.moment(4000));
    let signal_at = random.once_in(10).then(|| random.moment(5000));
    let adopt_at = random.once_in(6).then(|| random.moment(2000));
    let (mut freed, mut dark, mut cut, mut signalled, mut adopted) = (false, false, false, false, false);
    let due = |at: Option<Duration>, done: &mut bool| {
        let due = !*done && at.is_some_and(|at| began.elapsed() >= at);
        *done |= due;
        due
    };
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LONGEST_RUN {
            soak.wrong
                .lock()
                .unwrap()
                .push(format!("a run that does not end: {:?}", things.first().map(|t| &t.path)));
            child.kill().unwrap();
        }
        if due(free_at, &mut freed) {
            for thing in things.iter().filter(|thing| thing.held) {
                soak.send("PATCH", &thing.path, Some(&json!({ "metadata": { "finalizers": null } })));
            }
        }
        if due(dark_at, &mut dark) {
            proxy.go_dark();
            soak.count("fault: connections die silently");
        }
        if due(cut_at, &mut cut) {
            proxy.cut_all();
            soak.count("fault: connections cut");
        }
        if due(adopt_at, &mut adopted)
            && let Some(thing) = things.iter().skip(2).find(|thing| thing.kind == "Secret")
        {
            soak.send("PATCH", &thing.path, Some(&json!({ "metadata": { "ownerReferences": null } })));
            soak.count("fault: ownerReferences removed");
        }
        if due(signal_at, &mut signalled) {
            let name = if random.once_in(2) { "-INT" } else { "-TERM" };
            let _ = std::process::Command::new("kill").args([name, &child.id().to_string()]).status();
            soak.count("fault: signal");
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// One cascade and the run that deletes it.
fn one(soak: &Soak, random: &mut Random, namespace: &str) {
    let things = cascade(soak, random, namespace);
    let proxy = Proxy::start(soak.plane).unwrap();
    let chosen = faults(random, &proxy);
    let policy = *random.one(&["background", "foreground", "orphan"]);
    let mut arguments = vec!["delete", "cm/t0", "--yes", "-o", "json", "--policy", policy];
    arguments.extend([
        "--stall-timeout",
        *random.one(&["4s", "8s"]),
        "--timeout",
        "60s",
        "--request-timeout",
        "10s",
    ]);
    if random.once_in(4) {
        arguments.push("--assist");
    }
    arguments.extend(["-n", namespace]);
    let run = soak.plane.run_as("admin").unwrap();
    let mut command = std::process::Command::new(program());
    command.args(&arguments).env_clear().env("KUBECONFIG", proxy.kubeconfig(&run).unwrap());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::File::create(output.path().join(name)).unwrap();
    command.stdin(std::process::Stdio::null()).stdout(file("out")).stderr(file("err"));
    let begun = Begun::of(soak.plane, &command);
    let mut child = command.spawn().unwrap();
    live(soak, random, &things, &proxy, &mut child);
    let text = |name: &str| fs::read_to_string(output.path().join(name)).unwrap();
    let run =
        Run { code: child.wait().unwrap().code().unwrap_or(-1), stdout: text("out"), stderr: text("err") };

    soak.count(&format!("exit {}", run.code));
    chosen.iter().for_each(|fault| soak.count(&format!("fault: {fault}")));
    let mut wrong = begun.while_it_moves().violations(&run);
    if !matches!(run.code, 0 | 1 | 3 | 4 | 130) {
        wrong.push(format!("exit code {}", run.code));
    }
    if run.stderr.contains("panicked") {
        wrong.push("it panicked".to_owned());
    }
    match serde_json::from_str::<Value>(&run.stdout) {
        Ok(document) => {
            contract::result(&document);
            let outcome = document["outcome"].as_str().unwrap().to_owned();
            soak.count(&format!("outcome {outcome}"));
            let codes: &[i32] = match outcome.as_str() {
                "complete" | "complete-with-gaps" => &[0],
                "stalled" | "timed-out" => &[3],
                "unverified" => &[1, 3],
                "refused" => &[1, 4],
                "interrupted" => &[130],
                _ => &[],
            };
            if !codes.contains(&run.code) {
                wrong.push(format!("{outcome} with exit code {}", run.code));
            }
            if outcome.starts_with("complete")
                && !names(&document["deleted"]).contains(&"ConfigMap/t0".to_owned())
            {
                wrong.push("complete, and the target is not among the deleted".to_owned());
            }
        }
        // An error before the DELETE has no document.
        Err(_) if run.code == 1 && run.stdout.is_empty() => {
            soak.count("no document");
            if begun.written().iter().any(|written| written.verb == "delete" && !written.dry_run) {
                wrong.push("a DELETE, and no document".to_owned());
            }
        }
        Err(error) => wrong.push(format!("no document: {error}")),
    }
    if !wrong.is_empty() {
        let text = format!("{}\nfaults {chosen:?}, {arguments:?}\n{run:#?}", wrong.join("\n"));
        say(&text);
        soak.wrong.lock().unwrap().push(text);
    }
    for thing in things.iter().filter(|thing| thing.held) {
        soak.send("PATCH", &thing.path, Some(&json!({ "metadata": { "finalizers": null } })));
    }
    soak.send("DELETE", &format!("/api/v1/namespaces/{namespace}"), None);
}

/// Stops and starts servers now and then.
fn chaos(soak: &Soak, random: &mut Random) {
    let mut next = Instant::now() + Duration::from_secs(15);
    while soak.goes_on() {
        thread::sleep(Duration::from_millis(200));
        if Instant::now() < next {
            continue;
        }
        let component = *random.one(&[
            Component::ControllerManager,
            Component::ControllerManager,
            Component::ApiServer,
            Component::Etcd,
        ]);
        soak.count(&format!("fault: {} killed", component.name()));
        soak.plane.kill(component).unwrap();
        thread::sleep(random.moment(6000));
        soak.plane.start_component(component).unwrap();
        let manager = Component::ControllerManager;
        // It ends by itself where it lost the API server for too long.
        if soak.plane.pid(manager).unwrap().is_none() {
            soak.plane.start_component(manager).unwrap();
        }
        next = Instant::now() + Duration::from_secs(20) + random.moment(20_000);
    }
}

/// One look at a process: resident memory in KiB, open handles.
fn measure(pid: u32) -> Option<(u64, usize)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some((resident, fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()))
}

/// A run that waits all the time: watches that die, servers that go and come, and nothing that grows.
fn sleeper(soak: &Soak, random: &mut Random) -> String {
    let namespace = format!("soak-sleeper-{}", std::process::id());
    let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    soak.create("/api/v1/namespaces", &body);
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "t0", "finalizers": [HOLD] } });
    soak.create(&collection, &body);
    let proxy = Proxy::start(soak.plane).unwrap();
    let run = soak.plane.run_as("admin").unwrap();
    let mut command = std::process::Command::new(program());
    command.args(["delete", "cm/t0", "--yes", "-o", "json", "--stall-timeout", "24h", "-n", &namespace]);
    command.env_clear().env("KUBECONFIG", proxy.kubeconfig(&run).unwrap());
    let output = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::File::create(output.path().join(name)).unwrap();
    command.stdin(std::process::Stdio::null()).stdout(file("out")).stderr(file("err"));
    let begun = Begun::of(soak.plane, &command);
    let mut child = command.spawn().unwrap();
    let mut measured = Vec::new();
    let (mut number, mut next) = (0, Instant::now());
    while soak.goes_on() {
        thread::sleep(Duration::from_millis(500));
        measured.extend(measure(child.id()));
        if Instant::now() >= next {
            match random.below(3) {
                0 => proxy.go_dark(),
                1 => proxy.cut_all(),
                _ => {
                    number += 1;
                    let label = json!({ "metadata": { "labels": { "n": format!("n{number}") } } });
                    soak.send("PATCH", &format!("{collection}/t0"), Some(&label));
                }
            }
            next = Instant::now() + random.moment(12_000);
        }
    }
    soak.send("PATCH", &format!("{collection}/t0"), Some(&json!({ "metadata": { "finalizers": null } })));
    let code = child.wait().unwrap().code().unwrap_or(-1);
    let text = |name: &str| fs::read_to_string(output.path().join(name)).unwrap();
    let run = Run { code, stdout: text("out"), stderr: text("err") };
    let mut wrong = begun.violations(&run);
    if code != 0 {
        wrong.push(format!("the long wait ended with {code}: {run:#?}"));
    }
    // The first sixth is the beginning; then the second and the last are compared.
    let sixth = measured.len() / 6;
    let most = |from: usize, to: usize| {
        let part = &measured[from..to];
        (part.iter().map(|one| one.0).max().unwrap_or(0), part.iter().map(|one| one.1).max().unwrap_or(0))
    };
    let (early, late) = (most(sixth, 2 * sixth), most(5 * sixth, measured.len()));
    if late.0 > early.0 + early.0 / 10 + 2048 || late.1 > early.1 + 8 {
        wrong.push(format!("it grows: {early:?} early, {late:?} late (KiB, handles)"));
    }
    soak.wrong.lock().unwrap().extend(wrong);
    format!(
        "the long wait: {} KiB and {} handles at most early, {} KiB and {} late, {} measurements",
        early.0,
        early.1,
        late.0,
        late.1,
        measured.len()
    )
}

#[test]
fn random_cascades_under_random_faults_keep_their_word() {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    let seconds = setting("SOAK_SECONDS", SECONDS);
    let seed = setting("SOAK_SEED", 1);
    let options = Options { fast_lease: true, runs: 20_000, ..Options::default() };
    let options = options.hurried().without(Component::Scheduler).without(Component::Kwok);
    let plane = PLANE.get_or_init(|| ControlPlane::start(options).unwrap());
    let began = Instant::now();
    let soak = Soak {
        plane,
        until: began + Duration::from_secs(seconds),
        over: AtomicBool::new(false),
        counts: Mutex::default(),
        wrong: Mutex::default(),
    };
    let waited = thread::scope(|scope| {
        let soak = &soak;
        scope.spawn(move || chaos(soak, &mut Random(seed ^ 0xc4a0)));
        let waiting = scope.spawn(move || sleeper(soak, &mut Random(seed ^ 0x51ee)));
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_mul(1000).wrapping_add(worker));
                let mut number = 0;
                while soak.goes_on() {
                    number += 1;
                    one(soak, &mut random, &format!("soak-{worker}-{number}"));
                    soak.count("runs");
                }
            });
        }
        let reporting = scope.spawn(move || {
            let mut next = Instant::now() + Duration::from_secs(60);
            while soak.goes_on() {
                thread::sleep(Duration::from_millis(500));
                if Instant::now() >= next {
                    let counts = soak.counts.lock().unwrap();
                    let runs = counts.get("runs").copied().unwrap_or_default();
                    say(&format!("soak: {runs} runs after {:.0} s", began.elapsed().as_secs_f64()));
                    next += Duration::from_secs(60);
                }
            }
        });
        reporting.join().unwrap();
        waiting.join().unwrap()
    });
    let mut summary = format!("soak of {seconds} s, seed {seed}; {waited}\n");
    for (what, count) in soak.counts.lock().unwrap().iter() {
        writeln!(summary, "  {count:5}  {what}").unwrap();
    }
    say(&summary);
    let wrong = soak.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} broke their word; {summary}\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(soak.counts.lock().unwrap()["runs"] > 0);
}
