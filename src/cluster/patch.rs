//! The two changes that are ever made to an object's metadata: one finalizer is removed (`release`), or ownerReferences
//! are (`--keep`). Both are JSON patches that test the UID and what they change, so that they hit this very object as it
//! was looked at, or nothing.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::connect::Cluster;
use super::probes::no_dry_run;
use super::request::{Answer, Request};
use crate::error::Trouble;
use crate::model::facts::Reply;
use crate::model::object::{Object, Uid};

const JSON_PATCH: &str = "application/json-patch+json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Sends a JSON patch.
///
/// # Errors
/// 404 where the object is gone; where a test of the patch fails, see [`is_test_failure`]; else what the server says.
pub async fn send(cluster: &Cluster, object: &Object, patch: &Value) -> Result<Answer, Trouble> {
    cluster.send(request(object, patch, "")).await
}

/// Sends it as a dry run: asks validation and admission, changes nothing. None where the server of this kind is not
/// known to understand dry runs, so that none was sent.
///
/// # Errors
/// As [`send`].
pub async fn dry_run(cluster: &Cluster, object: &Object, patch: &Value) -> Result<Option<Answer>, Trouble> {
    match no_dry_run(cluster, &object.resource).await {
        Some(Reply::NotAsked(_)) => Ok(None),
        _ => cluster.send(request(object, patch, "?dryRun=All")).await.map(Some),
    }
}

fn request(object: &Object, patch: &Value, query: &str) -> Request {
    let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
    Request::new(Method::PATCH, format!("{path}{query}")).accept(METADATA).body(JSON_PATCH, patch)
}

/// Whether a patch was turned away because the object is no longer as it was: a `test` of it failed
/// (`apiserver/pkg/endpoints/handlers/patch.go`, applyJSPatch: a 422 that says nothing of the object), or somebody wrote
/// at the same moment.
pub fn is_test_failure(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Status { code: 422, message, .. } => message.contains("due to an error in our request"),
        _ => trouble.is_conflict(),
    }
}

/// The patch that takes the references to these owners off, made from the object as it is now; none where it has no
/// such reference.
///
/// # Errors
/// It cannot be read (404 where it is gone), or another object bears its name (409).
pub async fn without_references(
    cluster: &Cluster,
    object: &Object,
    owners: &BTreeSet<Uid>,
) -> Result<Option<Value>, Trouble> {
    let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
    let answer = cluster.send(Request::get(path).accept(METADATA)).await?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let metadata = &body["metadata"];
    if metadata["uid"] != *object.uid.as_str() {
        return Err(Trouble::Status {
            code: 409,
            reason: "Conflict".to_owned(),
            message: format!("another object has the name {} now", object.name),
            retry_after: None,
        });
    }
    Ok(removal(metadata, owners))
}

fn removal(metadata: &Value, owners: &BTreeSet<Uid>) -> Option<Value> {
    let references = metadata["ownerReferences"].as_array()?;
    let goes =
        |reference: &&Value| reference["uid"].as_str().is_some_and(|uid| owners.contains(&Uid::from(uid)));
    let rest: Vec<&Value> = references.iter().filter(|reference| !goes(reference)).collect();
    if rest.len() == references.len() {
        return None;
    }
    let path = "/metadata/ownerReferences";
    let change = if rest.is_empty() {
        json!({ "op": "remove", "path": path })
    } else {
        json!({ "op": "replace", "path": path, "value": rest })
    };
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": metadata["uid"] },
        { "op": "test", "path": path, "value": references },
        change,
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uids(uids: &[&str]) -> BTreeSet<Uid> {
        uids.iter().map(|uid| Uid::from(*uid)).collect()
    }

    #[test]
    fn references_are_removed_by_uid_and_the_others_stay_as_they_are() {
        let metadata = json!({ "uid": "u", "ownerReferences": [
            { "uid": "u1", "kind": "Job" }, { "uid": "u2", "extra": true }, { "uid": "u1", "kind": "Twin" },
        ] });
        let patch = removal(&metadata, &uids(&["u1"])).unwrap();
        assert_eq!(patch[0], json!({ "op": "test", "path": "/metadata/uid", "value": "u" }));
        assert_eq!(patch[1]["value"], metadata["ownerReferences"]);
        assert_eq!(
            patch[2],
            json!({ "op": "replace", "path": "/metadata/ownerReferences", "value": [{ "uid": "u2", "extra": true }] })
        );
        assert_eq!(
            removal(&metadata, &uids(&["u1", "u2"])).unwrap()[2],
            json!({ "op": "remove", "path": "/metadata/ownerReferences" })
        );
    }

    #[test]
    fn nothing_is_patched_where_there_is_no_such_reference() {
        let metadata = json!({ "uid": "u", "ownerReferences": [{ "uid": "u1" }] });
        assert_eq!(removal(&metadata, &uids(&["u9"])), None);
        assert_eq!(removal(&json!({ "uid": "u" }), &uids(&["u1"])), None);
    }
}
