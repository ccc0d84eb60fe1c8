//! The README's trees and its chapter on troubleshooting are what the program really prints: the situations are set up
//! on a control plane of their own, the sessions compared. What differs from run to run (ages, times, ports, the random
//! part of names) does not count.
//!
//! `CASCADE_WRITE_DOCS=1 cargo test --test cascade examples` writes them anew.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use control_plane::{ControlPlane, Options, SIMULATED_NODE, Webhook, webhook};
use serde_json::{Value, json};

use crate::diagnosis::{BACKGROUND, FOREGROUND, Registered, delete, until_held};
use crate::support::{PATIENCE, World};

/// What stands in the place of the random ends of Pods' names, in order.
const ENDS: [&str; 4] = ["4xkq2", "9fvcd", "hzn8c", "xr6hd"];

/// The README while its examples are made.
struct Readme {
    plane: &'static ControlPlane,
    examples: Vec<(&'static str, String)>,
    /// What is replaced in the output: Pods' names, addresses.
    replace: Vec<(String, String)>,
}

impl Readme {
    /// A namespace of exactly this name, with what its controllers put into it.
    fn namespace(&self, name: &str) -> World {
        let world = World::named(self.plane, name);
        world.until("the namespace has its ServiceAccount and ConfigMap", || {
            world.get("ServiceAccount/default").is_some() && world.get("ConfigMap/kube-root-ca.crt").is_some()
        });
        world
    }

    /// Gives the Pods of a namespace the ends that they have in the README; their order by name stays.
    fn settle_pods(&mut self, world: &World) {
        let list = world.kubectl().run(&["-n", &world.namespace, "get", "pods", "-o", "name"]).unwrap();
        let mut pods: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("pod/")).collect();
        pods.sort_unstable();
        for (pod, end) in pods.into_iter().zip(ENDS) {
            let stem = pod.rsplit_once('-').unwrap().0;
            self.replace.push((pod.to_owned(), format!("{stem}-{end}")));
        }
    }

    /// One command and what it prints, as a session; `shown` is how a user types it.
    fn run(&self, world: &World, shown: &str, arguments: &[&str], code: i32) -> String {
        let run = world.cascade(arguments).expect(code);
        let mut text = format!("$ {shown}\n{}{}", run.stdout, run.stderr);
        if code != 0 {
            text.push_str(&format!("[exit code {code}]\n"));
        }
        for (from, to) in &self.replace {
            text = text.replace(from, to);
        }
        text
    }

    /// An example of one command.
    fn example(&mut self, name: &'static str, world: &World, command: &str, code: i32) {
        let arguments: Vec<&str> = command.split(' ').collect();
        let text = self.run(world, &format!("kubectl cascade {command}"), &arguments, code);
        self.examples.push((name, text));
    }
}

/// The page with every example between `<!-- example: NAME -->` and `<!-- end -->` set to its text.
fn page_with(page: &str, examples: &[(&str, String)]) -> String {
    let mut page = page.to_owned();
    for (name, text) in examples {
        let start = format!("<!-- example: {name} -->\n");
        let from =
            page.find(&start).unwrap_or_else(|| panic!("the README has no marker {start}")) + start.len();
        let length = page[from..].find("<!-- end -->").unwrap();
        page.replace_range(from..from + length, &format!("\n```\n{}```\n\n", text));
    }
    page
}

/// A page without what differs from run to run: ages, lengths of time, times, UIDs, and the widths that follow from them.
fn without_time(page: &str) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let settled = words.iter().enumerate().map(|(index, word)| {
            let next =
                words.get(index + 1).map_or("", |next| next.trim_end_matches([',', ';', '.', ':', ')']));
            let core = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_uid = core.len() == 36 && core.matches('-').count() == 4;
            let is_time = core.len() >= 20 && core.ends_with('Z') && core[..4].parse::<u16>().is_ok();
            if is_age(word) {
                "AGE".to_owned()
            } else if ["s", "min"].contains(&next) && core.parse::<f64>().is_ok() {
                word.replace(core, "N")
            } else if is_time || is_uid {
                word.replace(core, "TIME")
            } else {
                (*word).to_owned()
            }
        });
        settled.collect::<Vec<_>>().join(" ")
    };
    page.lines().map(line).collect()
}

/// `7s`, `3m20s`.
fn is_age(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c))
}

#[test]
fn the_examples_of_the_readme_are_what_is_printed() {
    let plane = ControlPlane::start(Options::default().hurried()).expect("a control plane");
    if plane.minor().unwrap() < 37 {
        let why = "skipped: the README's examples hold the words of Kubernetes 1.37, which differ before\n";
        let _ = std::io::stderr().write_all(why.as_bytes());
        return;
    }
    let mut readme = Readme {
        // Never dropped: the supervisor ends its servers with the tests.
        plane: Box::leak(Box::new(plane)),
        examples: Vec::new(),
        replace: Vec::new(),
    };
    let shop = readme.namespace("shop");
    trees(&mut readme, &shop);
    pods_and_claims(&mut readme);
    admission(&mut readme);
    finalizers(&mut readme);
    left_behind(&mut readme);
    dead_api(&mut readme);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = fs::read_to_string(&path).unwrap();
    let now = page_with(&page, &readme.examples);
    if env::var_os("CASCADE_WRITE_DOCS").is_some() {
        fs::write(&path, &now).unwrap();
        return;
    }
    let (now, page) = (without_time(&now), without_time(&page));
    let differs = now.iter().zip(&page).find(|(now, then)| now != then);
    assert!(
        differs.is_none() && now.len() == page.len(),
        "the README is not what is printed; see the top of this file. First difference: {differs:#?}"
    );
}

/// A Deployment with Pods that run.
fn deployment(world: &World, name: &str, replicas: usize) {
    world.create(
        "Deployment",
        json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "main", "image": "registry.example/web:1" }] },
                },
            },
        }),
    );
    world.until("its Pods run", || {
        world
            .get(&format!("Deployment/{name}"))
            .is_some_and(|deployment| deployment["status"]["readyReplicas"] == replicas)
    });
}

/// A CRD of the group `example.com`, established, without instances.
fn definition(world: &World, plural: &str, kind: &str) {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let name = format!("{plural}.example.com");
    world.create(
        "CustomResourceDefinition",
        json!({
            "metadata": { "name": name },
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {
                    "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
                },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
            },
        }),
    );
    world.until("the CRD is served", || world.kubectl().run(&["-n", &world.namespace, "get", &name]).is_ok());
}

fn instance(world: &World, kind: &str, name: &str, finalizers: &[&str]) {
    let body = json!({
        "apiVersion": "example.com/v1", "kind": kind,
        "metadata": { "name": name, "namespace": world.namespace, "finalizers": finalizers },
    });
    world.kubectl().run_with_input(&["create", "-f", "-"], &body.to_string()).unwrap();
}

fn trees(readme: &mut Readme, shop: &World) {
    deployment(shop, "web", 2);
    readme.settle_pods(shop);
    readme.example("tree-plain", shop, "tree deployment/web", 0);
    readme.example("tree-policy", shop, "tree deployment/web --policy orphan", 0);
    readme.example("tree-include", shop, "tree deployment/web --include pods", 0);
    let pod = shop.kubectl().run(&["-n", "shop", "get", "pods", "-o", "name"]).unwrap();
    let mut pods: Vec<&str> = pod.lines().collect();
    pods.sort_unstable();
    let pod = pods[0];
    let owners =
        readme.run(shop, &format!("kubectl cascade tree {pod} --owners"), &["tree", pod, "--owners"], 0);
    readme.examples.push(("tree-owners", owners));

    // A release whose two parts share a Secret.
    shop.thing("ConfigMap", "release-7", &[], &[]);
    shop.thing("ConfigMap", "api", &["ConfigMap/release-7!"], &[]);
    shop.thing("ConfigMap", "worker", &["ConfigMap/release-7!"], &[]);
    shop.thing("Secret", "login", &["ConfigMap/api!", "ConfigMap/worker!"], &[]);
    readme.example("tree-several-owners", shop, "tree configmap/release-7", 0);
    readme.example("tree-exclude", shop, "tree configmap/release-7 --exclude secrets", 0);
    readme.example("tree-dot", shop, "tree configmap/release-7 -o dot", 0);
    readme.example("tree-mermaid", shop, "tree configmap/release-7 -o mermaid", 0);
    readme.example("tree-forest", shop, "tree", 0);
    readme.example("tree-namespace", shop, "tree namespace/shop --depth 1", 0);

    let jobs = readme.namespace("jobs");
    deployment(&jobs, "crawler", 14);
    readme.example("tree-grouped", &jobs, "tree deployment/crawler", 0);
    readme.example("tree-all", shop, "tree -A --include deployments,replicasets,pods", 0);

    definition(shop, "backups", "Backup");
    instance(shop, "Backup", "monday", &[]);
    instance(shop, "Backup", "tuesday", &[]);
    readme.example("tree-crd", shop, "tree crd/backups.example.com --expand", 0);

    // Saved, and read without a cluster.
    let saved =
        shop.kubectl().run(&["-n", "shop", "get", "deployments,replicasets,pods", "-o", "json"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved.json");
    fs::write(&file, saved).unwrap();
    let file = file.to_str().unwrap();
    let shown = "kubectl get deployments,replicasets,pods -o json > saved.json\n$ kubectl cascade tree --snapshot saved.json";
    let text = readme.run(shop, shown, &["tree", "--snapshot", file], 0);
    readme.examples.push(("tree-snapshot", text));
}

fn pods_and_claims(readme: &mut Readme) {
    let data = readme.namespace("data");
    // A machine that no kubelet reports for.
    data.create("Node", json!({ "metadata": { "name": "node-7" } }));
    data.pod("database-0", Some("node-7"), &[], &[]);
    delete(&data, "Pod/database-0", r#"{"gracePeriodSeconds":1}"#);
    std::thread::sleep(std::time::Duration::from_secs(2));
    readme.example("node-unreachable", &data, "diagnose pod/database-0", 3);
    data.kubectl().run(&["-n", "data", "delete", "pod/database-0", "--force", "--grace-period=0"]).unwrap();

    data.create(
        "PersistentVolumeClaim",
        json!({
            "metadata": { "name": "dump" },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }),
    );
    data.create(
        "Pod",
        json!({
            "metadata": { "name": "restore" },
            "spec": {
                "nodeName": SIMULATED_NODE,
                "containers": [{ "name": "main", "image": "registry.example/restore:1" }],
                "volumes": [{ "name": "dump", "persistentVolumeClaim": { "claimName": "dump" } }],
            },
        }),
    );
    data.until("the Pod runs", || {
        data.get("Pod/restore").is_some_and(|pod| pod["status"]["phase"] == "Running")
    });
    delete(&data, "PersistentVolumeClaim/dump", BACKGROUND);
    readme.example("claim-in-use", &data, "diagnose pvc/dump", 3);
    data.kubectl().run(&["delete", "namespace", "data", "--wait=false"]).unwrap();
}

fn admission(readme: &mut Readme) {
    let ci = readme.namespace("ci");
    ci.pod("runner-1", None, &[], &[]);
    let denying = Webhook::start(webhook::deny("secrets \"runner-1-credentials\" not found")).unwrap();
    let configuration = denying.mutating("digester.example.com", "ci", &["UPDATE"], &["pods"]);
    let registered = Registered::new(&ci, &[configuration]);
    registered.until_update_refused("pod/runner-1");
    delete(&ci, "Pod/runner-1", FOREGROUND);
    readme.example("admission-denied", &ci, "diagnose pod/runner-1", 3);
    registered.remove();

    ci.thing("ConfigMap", "build", &[], &[]);
    let gone = Webhook::start(webhook::deny("never asked")).unwrap();
    let address = gone.url("").trim_start_matches("https://").trim_end_matches('/').to_owned();
    readme.replace.push((address, "127.0.0.1:9443".to_owned()));
    let configuration = gone.validating("checks.example.com", "ci", &["UPDATE"], &["configmaps"]);
    drop(gone);
    let registered = Registered::new(&ci, &[configuration]);
    registered.until_update_refused("cm/build");
    delete(&ci, "ConfigMap/build", FOREGROUND);
    readme.example("admission-unreachable", &ci, "diagnose configmap/build", 3);
    registered.remove();
}

fn finalizers(readme: &mut Readme) {
    let shop = World::existing(readme.plane, "shop");
    instance(&shop, "Backup", "friday", &["backup.example.com/archive"]);
    shop.kubectl().run(&["-n", "shop", "delete", "backups.example.com/friday", "--wait=false"]).unwrap();
    readme.example("finalizer-held", &shop, "diagnose backup/friday", 3);
    shop.kubectl().run(&["delete", "crd/backups.example.com", "--wait=false"]).unwrap();
    shop.until("the other instances are gone", || {
        let left = shop.kubectl().run(&["-n", "shop", "get", "backups.example.com", "-o", "name"]).unwrap();
        left.lines().count() == 1
    });
    readme.example("crd-waits-for-instances", &shop, "diagnose crd/backups.example.com", 3);

    let old = readme.namespace("old-team");
    old.pod("agent", None, &[], &["agent.example.com/deregister"]);
    old.thing("Secret", "agent-key", &[], &[]);
    old.kubectl().run(&["delete", "namespace/old-team", "--wait=false"]).unwrap();
    until_held(&old, "Pod/agent", &["agent.example.com/deregister"]);
    readme.example("namespace-waits-for-pods", &old, "diagnose namespace/old-team", 3);
    old.free("Pod/agent");
}

fn left_behind(readme: &mut Readme) {
    let jobs = World::existing(readme.plane, "jobs");
    jobs.kubectl().run(&["-n", "jobs", "delete", "deployment/crawler"]).unwrap();
    jobs.until("its Pods are gone", || {
        jobs.kubectl().run(&["-n", "jobs", "get", "pods", "-o", "name"]).unwrap().is_empty()
    });
    let template = json!({
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "registry.example/report:1" }] },
    });
    jobs.create("Job", json!({ "metadata": { "name": "nightly" }, "spec": { "template": template } }));
    jobs.until("the Job has finished", || {
        jobs.get("Job/nightly").is_some_and(|job| job["status"]["succeeded"] == 1)
    });
    // What an operator does that deletes a Job without a policy.
    assert_eq!(jobs.delete_raw("Job/nightly", &json!({})), 200);
    jobs.gone("Job/nightly");
    readme.settle_pods(&jobs);
    readme.example("orphaned-by-default", &jobs, "orphans", 0);

    let shop = World::existing(readme.plane, "shop");
    let list = |kind: &str| {
        let names = shop.kubectl().run(&["-n", "shop", "get", kind, "-l", "app=web", "-o", "name"]).unwrap();
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    let replica_set = list("replicasets")[0].clone();
    let shown = format!("kubectl cascade delete {replica_set} --policy foreground --yes");
    let arguments = ["delete", &replica_set, "--policy", "foreground", "--yes"];
    let mut text = readme.run(&shop, &shown, &arguments, 0);
    // The forecast stands in other examples.
    let from = text.find("✓ done").unwrap_or_else(|| panic!("{text}"));
    let command = text.find('\n').unwrap() + 1;
    text.replace_range(command..from, "...\n");
    // Nor does the progress, which was written to standard error meanwhile.
    text.truncate(text.rfind("goes with it\n").unwrap() + "goes with it\n".len());
    readme.examples.push(("recreated-by-owner", text));
}

fn dead_api(readme: &mut Readme) {
    let world = readme.namespace("metrics");
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v1beta1.metrics.example.com" },
        "spec": {
            "group": "metrics.example.com", "version": "v1beta1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "name": "metrics", "namespace": "metrics" },
        },
    });
    world.kubectl().apply(&service.to_string()).unwrap();
    world.until("discovery is stale", || {
        world.kubectl().run(&["get", "--raw", "/apis/metrics.example.com/v1beta1"]).is_err()
    });
    world.kubectl().run(&["delete", "namespace/metrics", "--wait=false"]).unwrap();
    control_plane::eventually("its controller cannot discover everything", PATIENCE, || {
        let namespace: Value = world.get("Namespace/metrics")?;
        let empty = world.get("ConfigMap/kube-root-ca.crt").is_none();
        (empty && namespace["status"]["conditions"].to_string().contains("DiscoveryFailed")).then_some(())
    })
    .unwrap();
    readme.example("api-service-unavailable", &world, "diagnose namespace/metrics", 3);
}
