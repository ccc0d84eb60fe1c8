//! The output contract (design section 3), field by field: what must be there, what may be there, and nothing else.

use serde_json::Value;

/// Asserts that an object has all of these fields, perhaps some of those (marked with `?`), and no others.
#[track_caller]
fn fields(value: &Value, names: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value:#}"));
    for name in names.iter().filter(|name| !name.ends_with('?')) {
        assert!(object.contains_key(*name), "{name} is missing in {value:#}");
    }
    for name in object.keys() {
        let known = names.iter().any(|known| known.trim_end_matches('?') == name);
        assert!(known, "{name} is not in the contract: {value:#}");
    }
}

#[track_caller]
fn document(value: &Value, kind: &str) {
    assert_eq!(value["apiVersion"], "cascade/v1");
    assert_eq!(value["kind"], kind);
}

#[track_caller]
fn each(list: &Value, check: impl Fn(&Value)) {
    list.as_array().unwrap_or_else(|| panic!("no list: {list}")).iter().for_each(check);
}

#[track_caller]
fn text(value: &Value) {
    assert!(value.is_string(), "no text: {value}");
}

#[track_caller]
fn one_of(value: &Value, known: &[&str]) {
    assert!(known.contains(&value.as_str().unwrap_or("no text")), "{value} is none of {known:?}");
}

/// RFC 3339 in UTC, whole seconds.
#[track_caller]
fn time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    assert_eq!((text.len(), text.ends_with('Z')), (20, true), "{text}");
}

#[track_caller]
fn reference(value: &Value) {
    fields(value, &["apiVersion", "kind", "namespace?", "name", "uid"]);
    ["apiVersion", "kind", "name", "uid"].iter().for_each(|field| text(&value[*field]));
    assert!(!value.as_object().unwrap().contains_key("namespace") || value["namespace"].is_string());
}

#[track_caller]
fn gap(value: &Value) {
    fields(value, &["resource", "group", "version?", "reason", "message"]);
    assert_ne!(value["reason"], "");
}

#[track_caller]
fn holder(value: &Value) {
    fields(value, &["object?", "finalizer?", "node?"]);
    assert_eq!(value.as_object().unwrap().len(), 1, "{value:#}");
    if value["object"].is_object() {
        reference(&value["object"]);
    }
}

const POLICIES: [&str; 3] = ["background", "foreground", "orphan"];
const FATES: [&str; 7] = ["deleted", "held", "waits", "kept", "orphaned", "leaked", "collected-anyway"];

/// A Tree.
#[track_caller]
pub fn tree(value: &Value) {
    document(value, "Tree");
    fields(value, &["apiVersion", "kind", "roots", "objects", "gaps"]);
    each(&value["roots"], text);
    each(&value["gaps"], gap);
    each(&value["objects"], |object| {
        fields(
            object,
            &[
                "ref",
                "resource",
                "owners",
                "dependents",
                "creationTimestamp",
                "deletionTimestamp",
                "finalizers",
                "ready",
                "status",
                "fate?",
                "reason?",
            ],
        );
        reference(&object["ref"]);
        time(&object["creationTimestamp"]);
        if !object["deletionTimestamp"].is_null() {
            time(&object["deletionTimestamp"]);
        }
        ["resource", "ready", "status"].iter().for_each(|field| text(&object[*field]));
        each(&object["dependents"], text);
        each(&object["finalizers"], text);
        if object.get("fate").is_some() {
            one_of(&object["fate"], &FATES);
        }
        each(&object["owners"], |owner| {
            fields(
                owner,
                &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion", "state"],
            );
            assert!(owner["controller"].is_boolean() && owner["blockOwnerDeletion"].is_boolean());
            let states =
                ["live", "terminating", "absent", "mismatch", "other-namespace", "scope", "unserved"];
            one_of(&owner["state"], &[&states[..], &["unknown"]].concat());
        });
    });
    let known = |uid: &Value| value["objects"].as_array().unwrap().iter().any(|o| o["ref"]["uid"] == *uid);
    each(&value["roots"], |root| assert!(known(root), "root {root} is not among the objects"));
}

/// A Plan.
#[track_caller]
pub fn plan(value: &Value) {
    document(value, "Plan");
    fields(value, &["apiVersion", "kind", "policy", "targets", "objects", "warnings", "searched", "gaps"]);
    one_of(&value["policy"], &POLICIES);
    each(&value["targets"], reference);
    each(&value["gaps"], gap);
    each(&value["objects"], |object| {
        fields(object, &["ref", "fate", "certain", "otherwise?", "reason", "heldBy"]);
        reference(&object["ref"]);
        one_of(&object["fate"], &FATES);
        text(&object["reason"]);
        let certain = object["certain"].as_bool().unwrap();
        assert_eq!(certain, object.get("otherwise").is_none(), "{object:#}");
        each(&object["heldBy"], holder);
    });
    each(&value["warnings"], |warning| {
        fields(warning, &["code", "message", "object?"]);
        text(&warning["code"]);
        text(&warning["message"]);
    });
    fields(&value["searched"], &["namespaces", "clusterScoped"]);
    assert!(value["searched"]["namespaces"].is_array() || value["searched"]["namespaces"] == "all");
}

/// A Finding.
#[track_caller]
pub fn finding(value: &Value) {
    fields(
        value,
        &["cause", "also", "verdict", "object", "chain", "summary", "by", "evidence", "remedies", "alike?"],
    );
    one_of(&value["verdict"], &["proven", "consistent", "unknown"]);
    reference(&value["object"]);
    each(&value["chain"], reference);
    assert_eq!(value["chain"].as_array().unwrap().last(), Some(&value["object"]), "the leaf ends the chain");
    each(&value["also"], text);
    text(&value["summary"]);
    assert!(value["by"].is_null() || value["by"].is_object());
    each(&value["evidence"], |evidence| fields(evidence, &["source", "text"]));
    each(&value["remedies"], |remedy| fields(remedy, &["command?", "text", "risk?"]));
}

/// A Result.
#[track_caller]
pub fn result(value: &Value) {
    document(value, "Result");
    let lists = ["deleted", "kept", "orphaned", "leaked", "remaining"];
    let others = ["apiVersion", "kind", "outcome", "policy", "elapsedSeconds", "recreated", "unexpected"];
    fields(value, &[&lists[..], &others, &["findings", "unchecked", "gaps"]].concat());
    let outcomes = ["complete", "complete-with-gaps", "not-waited", "unverified", "stalled", "timed-out"];
    one_of(&value["outcome"], &[&outcomes[..], &["refused", "interrupted"]].concat());
    one_of(&value["policy"], &POLICIES);
    assert!(value["elapsedSeconds"].as_f64().unwrap() >= 0.0);
    lists.iter().for_each(|list| each(&value[*list], reference));
    each(&value["recreated"], |pair| {
        fields(pair, &["was", "now"]);
        reference(&pair["was"]);
        reference(&pair["now"]);
        assert_ne!(pair["was"]["uid"], pair["now"]["uid"]);
    });
    each(&value["unexpected"], |unexpected| {
        fields(unexpected, &["ref", "note"]);
        reference(&unexpected["ref"]);
    });
    each(&value["findings"], finding);
    each(&value["unchecked"], |unchecked| fields(unchecked, &["check", "why"]));
    each(&value["gaps"], gap);
}
