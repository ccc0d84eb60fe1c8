//! The examples of `docs/json.md` are what the program really prints: the situations are set up, the documents
//! compared. What differs from run to run (UIDs, times, the namespace) is given fixed values on both sides.
//!
//! `CASCADE_WRITE_DOCS=1 cargo test --test cascade examples` writes them anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

use crate::contract;
use crate::support::World;

/// The finalizer of the examples.
const HOLD: &str = "shop.example.com/backup";

/// Gives what differs from run to run fixed values, in order of appearance.
struct Stable {
    replace: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
}

impl Stable {
    fn new(world: &World) -> Self {
        Self { replace: vec![(world.namespace.clone(), "shop".to_owned())], uids: BTreeMap::new() }
    }

    fn value(&mut self, name: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.value(name, value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.value(name, item)).collect(),
            Value::Number(_) if name == "elapsedSeconds" => json!(2.0),
            Value::String(_) if name == "digest" => json!("0123456789abcdef"),
            Value::String(text) => json!(self.text(text)),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from, to);
        }
        let words: Vec<String> = text.split(' ').map(|word| self.word(word)).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Seconds that passed: "3 s".
        for index in 1..words.len() {
            if words[index].trim_end_matches([',', ';', '.']) == "s"
                && words[index - 1].parse::<f64>().is_ok()
            {
                words[index - 1] = "3";
            }
        }
        words.join(" ")
    }

    fn word(&mut self, word: &str) -> String {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric());
        let fixed = if is_uid(core) {
            let next = format!("00000000-0000-4000-8000-{:012}", self.uids.len() + 1);
            self.uids.entry(core.to_owned()).or_insert(next).clone()
        } else if core.len() == 20 && core.ends_with('Z') && core[..4].parse::<u16>().is_ok() {
            "2026-11-30T12:00:00Z".to_owned()
        } else if core.len() == 16 && core.chars().all(|c| c.is_ascii_hexdigit()) {
            "0123456789abcdef".to_owned()
        } else {
            return word.to_owned();
        };
        word.replace(core, &fixed)
    }
}

fn is_uid(word: &str) -> bool {
    word.len() == 36
        && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
        && word.matches('-').count() == 4
}

/// The page with every example between `<!-- example: NAME -->` and the end of its block set to this text.
fn page_with(page: &str, examples: &[(&str, String)]) -> String {
    let mut page = page.to_owned();
    for (name, text) in examples {
        let start = format!("<!-- example: {name} -->\n");
        let from =
            page.find(&start).unwrap_or_else(|| panic!("docs/json.md has no marker {start}")) + start.len();
        let length = page[from..].find("<!-- end -->").unwrap();
        page.replace_range(from..from + length, &format!("\n```json\n{text}\n```\n\n"));
    }
    page
}

#[test]
fn the_examples_of_the_json_page_are_what_is_printed() {
    let world = World::new("examples");
    let mut stable = Stable::new(&world);
    let mut examples: Vec<(&str, String)> = Vec::new();
    let mut add = |name: &'static str, document: &Value, stable: &mut Stable| {
        let text = serde_json::to_string_pretty(&stable.value("", document)).unwrap();
        examples.push((name, text));
    };

    // A ConfigMap that owns a Secret.
    world.thing("ConfigMap", "app", &[], &[]);
    world.thing("Secret", "app-login", &["ConfigMap/app!"], &[]);
    let tree = world.cascade(&["tree", "cm/app", "-o", "json"]).expect(0).json();
    contract::tree(&tree);
    add("Tree", &tree, &mut stable);

    // The same, with a finalizer on the Secret.
    let held = json!({ "metadata": { "finalizers": [HOLD] } });
    world.patch("Secret/app-login", &held);
    let arguments = ["delete", "cm/app", "--policy", "foreground"];
    let plan = world.cascade(&[&arguments[..], &["--dry-run", "-o", "json"]].concat()).expect(0).json();
    contract::plan(&plan);
    add("Plan", &plan, &mut stable);

    let stalled = [&arguments[..], &["--yes", "--stall-timeout", "2s", "-o", "json"]].concat();
    let result = world.cascade(&stalled).expect(3).json();
    contract::result(&result);
    let finding = result["findings"][0].clone();
    contract::finding(&finding);
    add("Finding", &finding, &mut stable);
    let mut result = result;
    result["findings"] = json!([]);
    add("Result", &result, &mut stable);

    let diagnosis = world.cascade(&["diagnose", "cm/app", "-o", "json"]).expect(3).json();
    let mut diagnosis = diagnosis;
    diagnosis["findings"] = json!([]);
    add("Diagnosis", &diagnosis, &mut stable);

    let release = world.cascade(&["release", "secret/app-login", "-o", "json"]).expect(4).json();
    add("Release", &release, &mut stable);
    world.free("Secret/app-login");
    world.gone("ConfigMap/app");

    // Pods of a Job that was deleted without a policy.
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "shop.example.com/nightly:1" }] } });
    let job =
        world.create("Job", json!({ "metadata": { "name": "nightly" }, "spec": { "template": template } }));
    world.until("the Job has finished", || {
        world.get("Job/nightly").is_some_and(|job| job["status"]["succeeded"] == 1)
    });
    assert_eq!(world.delete_raw("Job/nightly", &json!({})), 200, "{job}");
    world.gone("Job/nightly");
    let orphans = world.cascade(&["orphans", "-o", "json"]).expect(0).json();
    let pod = orphans["objects"][0]["ref"]["name"].as_str().unwrap().to_owned();
    stable.replace.push((pod, "nightly-x7k2p".to_owned()));
    add("Orphans", &orphans, &mut stable);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = fs::read_to_string(&path).unwrap();
    let now = page_with(&page, &examples);
    if env::var_os("CASCADE_WRITE_DOCS").is_some() {
        fs::write(&path, &now).unwrap();
    } else if now != page {
        let differs = now.lines().zip(page.lines()).find(|(now, then)| now != then);
        panic!(
            "docs/json.md is not what is printed; see the top of this file. First difference: {differs:#?}"
        );
    }
}
