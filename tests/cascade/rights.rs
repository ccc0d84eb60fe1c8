//! `docs/rights.md` is true: the commands run as a service account that has exactly the roles printed there.

use std::path::Path;

use control_plane::webhook::{Webhook, deny};
use serde_json::{Value, json};

use crate::conduct::bind;
use crate::support::{Run, World, entry};

/// A service account of the test's own, with what of the page's roles was bound to it.
struct Reader<'world> {
    world: &'world World,
    token: String,
}

impl<'world> Reader<'world> {
    /// With these roles in the test's namespace, and those in the whole cluster.
    fn new(world: &'world World, here: &[&str], everywhere: &[&str]) -> Self {
        let page =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rights.md")).unwrap();
        for block in page.split("```yaml\n").skip(1) {
            let manifest = block.split("```").next().unwrap();
            if manifest.contains("kind: ClusterRole") {
                world.kubectl().apply(manifest).unwrap();
            }
        }
        let namespace = world.namespace.as_str();
        world.create("ServiceAccount", json!({ "metadata": { "name": "reader" } }));
        let account = format!("--serviceaccount={namespace}:reader");
        for role in here {
            let role_flag = format!("--clusterrole={role}");
            world
                .kubectl()
                .run(&["create", "rolebinding", role, "-n", namespace, &role_flag, &account])
                .unwrap();
        }
        for role in everywhere {
            let (name, role_flag) = (format!("{namespace}-{role}"), format!("--clusterrole={role}"));
            world.kubectl().run(&["create", "clusterrolebinding", &name, &role_flag, &account]).unwrap();
        }
        let token = world.kubectl().run(&["create", "token", "reader", "-n", namespace]).unwrap();
        Self { world, token: token.trim().to_owned() }
    }

    fn cascade(&self, arguments: &[&str]) -> Run {
        self.world.cascade(&[arguments, &["--token", &self.token]].concat())
    }
}

fn gaps(document: &Value) -> Vec<&str> {
    document["gaps"].as_array().unwrap().iter().map(|gap| gap["resource"].as_str().unwrap()).collect()
}

#[test]
fn viewing_needs_the_role_view_and_nothing_is_missing() {
    let world = World::new("rights-view");
    world.thing("ConfigMap", "app", &[], &[]);
    world.thing("Secret", "app", &["ConfigMap/app"], &[]);
    let reader = Reader::new(&world, &["cascade-view"], &[]);
    let tree = reader.cascade(&["tree", "cm/app", "-o", "json"]).expect(0).json();
    assert_eq!((gaps(&tree).len(), tree["objects"].as_array().unwrap().len()), (0, 2), "{tree:#}");
    let plan = reader.cascade(&["delete", "cm/app", "--dry-run", "-o", "json"]).expect(0).json();
    assert!(gaps(&plan).is_empty(), "{plan:#}");
    let orphans = reader.cascade(&["orphans", "-o", "json"]).expect(0).json();
    assert!(gaps(&orphans).is_empty(), "{orphans:#}");
    let refused = reader.cascade(&["delete", "cm/app", "--yes"]).expect(1);
    assert!(refused.stderr.contains("cannot delete resource \"configmaps\""), "{}", refused.stderr);
    assert!(world.get("ConfigMap/app").is_some());
}

#[test]
fn in_one_namespace_only_foreground_has_gaps_for_what_is_cluster_scoped() {
    let world = World::new("rights-foreground");
    for name in ["one", "two"] {
        world.thing("ConfigMap", name, &[], &[]);
    }
    let reader = Reader::new(&world, &["cascade-view", "cascade-delete"], &[]);
    let searched = |policy: &str| {
        let plan =
            reader.cascade(&["delete", "cm/one", "--policy", policy, "--dry-run", "-o", "json"]).expect(0);
        let plan = plan.json();
        (plan["searched"]["clusterScoped"].clone(), gaps(&plan).contains(&"clusterroles"))
    };
    assert_eq!(searched("background"), (json!(false), false));
    assert_eq!(searched("orphan"), (json!(false), false));
    assert_eq!(searched("foreground"), (json!(true), true));
    let outcome = |name: &str, policy: &str| {
        let run = reader.cascade(&["delete", name, "--policy", policy, "--yes", "-o", "json"]).expect(0);
        run.json()["outcome"].clone()
    };
    assert_eq!(outcome("cm/one", "background"), "complete");
    assert_eq!(outcome("cm/two", "foreground"), "complete-with-gaps");
}

#[test]
fn kubernetes_own_view_leaves_secrets_a_gap() {
    let world = World::new("rights-own-view");
    world.thing("ConfigMap", "app", &[], &[]);
    let reader = Reader::new(&world, &["view"], &[]);
    let tree = reader.cascade(&["tree", "cm/app", "-o", "json"]).expect(0).json();
    assert!(gaps(&tree).contains(&"secrets"), "{tree:#}");
}

#[test]
fn deleting_needs_no_right_on_the_dependents() {
    let world = World::new("rights-delete");
    world.thing("ConfigMap", "app", &[], &[]);
    world.thing("Secret", "app", &["ConfigMap/app"], &[]);
    let reader = Reader::new(&world, &["cascade-view"], &[]);
    let only = ["create", "role", "config", "-n", &world.namespace, "--verb=delete", "--resource=configmaps"];
    world.kubectl().run(&only).unwrap();
    let account = format!("--serviceaccount={}:reader", world.namespace);
    let bind = ["create", "rolebinding", "config", "-n", &world.namespace, "--role=config", &account];
    world.kubectl().run(&bind).unwrap();
    let result = reader.cascade(&["delete", "cm/app", "--yes", "-o", "json"]).expect(0).json();
    assert_eq!(result["outcome"], "complete", "{result:#}");
    assert_eq!(result["deleted"].as_array().unwrap().len(), 2);
}

#[test]
fn keeping_and_releasing_need_the_role_delete() {
    let world = World::new("rights-patch");
    world.thing("ConfigMap", "app", &[], &[]);
    world.thing("Secret", "app", &["ConfigMap/app"], &[]);
    let reader = Reader::new(&world, &["cascade-view", "cascade-delete"], &[]);
    reader.cascade(&["delete", "cm/app", "--keep", "secret/app", "--yes"]).expect(0);
    assert!(world.get("ConfigMap/app").is_none() && world.get("Secret/app").is_some());

    world.thing("ConfigMap", "held", &[], &["example.test/hold"]);
    world.delete_raw("ConfigMap/held", &json!({}));
    let refused = reader.cascade(&["release", "cm/held", "-o", "json"]).expect(4).json();
    let digest = refused["digest"].as_str().unwrap();
    reader.cascade(&["release", "cm/held", "--confirm", digest]).expect(0);
    world.gone("ConfigMap/held");
}

#[test]
fn a_cause_is_proven_with_the_role_delete_and_named_with_the_role_diagnose() {
    let world = World::new("rights-diagnose");
    let webhook = Webhook::start(deny("not on a Friday")).unwrap();
    let name = "friday.example.test";
    world
        .kubectl()
        .apply(&webhook.validating(name, &world.namespace, &["UPDATE"], &["configmaps"]).to_string())
        .unwrap();
    world.thing("ConfigMap", "app", &[], &[]);
    world.until("the webhook is called", || {
        let patch =
            ["-n", &world.namespace, "annotate", "cm", "app", "a=b", "--overwrite", "--dry-run=server"];
        world.kubectl().run(&patch).is_err()
    });
    world.delete_raw("ConfigMap/app", &json!({ "propagationPolicy": "Foreground" }));
    let diagnose = |reader: &Reader<'_>| {
        let arguments = ["diagnose", "cm/app", "-o", "json", "--observe", "1s"];
        let diagnosis = reader.cascade(&arguments).expect(3).json();
        diagnosis["findings"][0].clone()
    };

    let reader = Reader::new(&world, &["cascade-view"], &[]);
    let finding = diagnose(&reader);
    assert_ne!(finding["verdict"], "proven", "{finding:#}");

    let account = format!("--serviceaccount={}:reader", world.namespace);
    let here =
        ["create", "rolebinding", "delete", "-n", &world.namespace, "--clusterrole=cascade-delete", &account];
    world.kubectl().run(&here).unwrap();
    let finding = diagnose(&reader);
    assert_eq!(
        (&finding["cause"], &finding["verdict"]),
        (&json!("admission-denied"), &json!("proven")),
        "{finding:#}"
    );
    assert_eq!(finding["by"]["webhook"], name);
    assert_eq!(finding["by"]["configuration"], Value::Null);

    let binding = format!("{}-diagnose", world.namespace);
    let everywhere = ["create", "clusterrolebinding", &binding, "--clusterrole=cascade-diagnose", &account];
    world.kubectl().run(&everywhere).unwrap();
    let finding = diagnose(&reader);
    assert_eq!(finding["by"]["configuration"], name, "{finding:#}");
}

#[test]
fn nothing_of_a_diagnosis_stays_unchecked_with_all_roles() {
    let world = World::new("rights-all");
    world.thing("ConfigMap", "app", &[], &["example.test/hold"]);
    world.thing("ConfigMap", "part", &["ConfigMap/app!"], &["example.test/hold"]);
    world.delete_raw("ConfigMap/app", &json!({ "propagationPolicy": "Foreground" }));
    let everywhere = ["cascade-view", "cascade-delete", "cascade-diagnose", "cascade-as-collector"];
    let reader = Reader::new(&world, &[], &everywhere);
    let arguments = ["diagnose", "cm/app", "-o", "json", "--observe", "1s"];
    let diagnosis = reader.cascade(&arguments).expect(3).json();
    assert_eq!(diagnosis["unchecked"], json!([]), "{diagnosis:#}");
    for name in ["ConfigMap/app", "ConfigMap/part"] {
        world.free(name);
    }
}

#[test]
fn where_nothing_can_be_read_nobody_knows_what_is_there_or_was_left_behind() {
    let world = World::new("rights-none");
    world.thing("ConfigMap", "app", &[], &[]);
    let formats = [&[][..], &["-o", "json"]];
    for (verb, format) in
        ["orphans", "diagnose", "tree"].iter().flat_map(|verb| formats.map(|format| (verb, format)))
    {
        let run = world.cascade_as("limited", &[&[*verb], format].concat()).expect(1);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains("no kind could be read"), "{}", run.stderr);
        assert!(
            run.stderr.contains("not searched: ") && run.stderr.contains("is forbidden"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn what_has_an_owner_that_may_not_be_read_is_not_said_to_stay() {
    let world = World::new("rights-owner");
    bind(
        &world,
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "delete"] }]),
    );
    world.thing("ConfigMap", "own", &[], &[]);
    // It goes with its owner, unseen; and with it what else has no owner but these two.
    world.thing("Secret", "middle", &["ConfigMap/own"], &[]);
    world.thing("ConfigMap", "leaf", &["Secret/middle", "ConfigMap/own"], &[]);
    let shown = world.cascade_as("limited", &["delete", "cm/own", "--dry-run"]).expect(0).stdout;
    let fate = "kept (not certain; else deleted): its owner Secret/middle could not be read";
    assert!(shown.contains(fate), "{shown}");
    let result = world.cascade_as("limited", &["delete", "cm/own", "--yes", "-o", "json"]).expect(0).json();
    assert_eq!(result["outcome"], "complete-with-gaps");
    assert_eq!(result["kept"], json!([]), "{result:#}");
    let note = entry(&result["unexpected"], "ConfigMap/leaf")["note"].as_str().unwrap();
    // It may have gone before the last look.
    assert!(note.contains("Secret/middle could not be read") || note.contains("is gone"), "{result:#}");
    world.gone("ConfigMap/leaf");
}
