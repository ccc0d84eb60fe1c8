//! The one request that destroys: DELETE, always with the UID and an explicit policy.

use http::Method;
use serde_json::json;

use super::connect::Cluster;
use super::request::{Answer, Request};
use crate::error::Trouble;
use crate::model::object::Object;
use crate::model::policy::Policy;

/// How to delete.
#[derive(Debug, Clone, Copy)]
pub struct DeleteOptions {
    /// The policy: never left to the server's default, which orphans the Pods of a Job (reference A.2).
    pub policy: Policy,
    /// Grace period in seconds; none leaves it to the object.
    pub grace_seconds: Option<i64>,
    /// Ask admission only.
    pub dry_run: bool,
}

/// Deletes this very object: by UID, so that a successor of the same name is never hit. No resourceVersion
/// precondition: the API server refuses those always where the delete takes the last finalizer off (reference C.2).
///
/// # Errors
/// 404 where it is gone, 409 where another object bears its name now, else what the server says.
pub async fn delete(cluster: &Cluster, object: &Object, options: DeleteOptions) -> Result<Answer, Trouble> {
    delete_version(cluster, object, None, options).await
}

/// The same, and only in this version where one is given.
///
/// # Errors
/// As for [`delete`]; 409 also where the object has changed.
pub async fn delete_version(
    cluster: &Cluster,
    object: &Object,
    version: Option<&str>,
    options: DeleteOptions,
) -> Result<Answer, Trouble> {
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": options.policy.as_api(),
        "preconditions": { "uid": object.uid.as_str() },
    });
    if let Some(version) = version {
        body["preconditions"]["resourceVersion"] = json!(version);
    }
    if let Some(grace) = options.grace_seconds {
        body["gracePeriodSeconds"] = json!(grace);
    }
    if options.dry_run {
        body["dryRun"] = json!(["All"]);
    }
    let path = object.resource.object_path(object.namespace.as_deref(), &object.name);
    cluster.send(Request::new(Method::DELETE, path).body("application/json", &body)).await
}
