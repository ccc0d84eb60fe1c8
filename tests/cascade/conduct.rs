//! The tool's own conduct: rights that are missing, Ctrl-C, a reader that goes away, hostile texts.

use serde_json::{Value, json};

use crate::support::World;

/// Gives the user `limited` these rights in the test's namespace, and waits until they count.
pub fn bind(world: &World, rules: Value) {
    world.create("Role", json!({ "metadata": { "name": "some" }, "rules": rules }));
    world.create(
        "RoleBinding",
        json!({
            "metadata": { "name": "some" },
            "subjects": [{ "kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io" }],
            "roleRef": { "kind": "Role", "name": "some", "apiGroup": "rbac.authorization.k8s.io" },
        }),
    );
    let rule = &rules[0];
    let (verb, resource) = (rule["verbs"][0].as_str().unwrap(), rule["resources"][0].as_str().unwrap());
    let kubectl = world.plane().kubectl_as("limited").unwrap();
    let may = || kubectl.run(&["-n", &world.namespace, "auth", "can-i", verb, resource]).is_ok();
    world.until("the rights count", may);
}
