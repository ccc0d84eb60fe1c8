//! The two probes that write, only with `--probe=canary`: a ConfigMap that the collector must delete (P7), and one
//! whose end makes it look at a stuck owner again (P8). Both clean up after themselves.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{JSON, METADATA, body, dry_delete, reply};
use crate::cluster::connect::Cluster;
use crate::cluster::request::Request;
use crate::model::catalog::{Resource, escaped};
use crate::model::facts::{Reply, Subject};
use crate::model::object::Uid;

/// How long the collector gets. It takes well under a second when it is idle (reference P7, P8).
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Creates a ConfigMap whose owner does not exist and sees whether it is collected. The answer's body holds
/// `collected` (true, false, or null where that cannot be said) and `text`.
pub(super) async fn canary(cluster: &Cluster, namespace: &str) -> Reply {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "kubectl-cascade-no-such-owner", "uid": random_uid(),
    });
    let created = match create(cluster, namespace, owner).await {
        Ok(subject) => subject,
        Err(refused) => return refused,
    };
    let collected = wait_until_gone(cluster, &created).await;
    let text = match collected {
        Some(true) => "collected".to_owned(),
        Some(false) => format!("ConfigMap {} was still there after {} s", created.name, PATIENCE.as_secs()),
        None => "whether it was collected could not be read".to_owned(),
    };
    let mut answer = json!({ "collected": collected, "text": text });
    if collected != Some(true) {
        // A policy that refuses the DELETE of ConfigMaps looks like a dead collector.
        if let Err(trouble) = cluster.send(dry_delete(&created)).await {
            answer = json!({ "collected": null, "text": reply(Err(trouble)).trouble() });
        }
        remove(cluster, &created).await;
    }
    Reply::Answer { body: answer, date: None }
}

/// Creates and deletes a dependent of this object, waits a little, and answers with the object as it stands then.
pub(super) async fn nudge(cluster: &Cluster, subject: &Subject) -> Reply {
    let Some(namespace) = &subject.namespace else {
        return Reply::NotAsked("only an object in a namespace can be nudged".to_owned());
    };
    let owner = json!({
        "apiVersion": subject.resource.api_version(), "kind": subject.resource.kind,
        "name": subject.name, "uid": subject.uid,
    });
    let created = match create(cluster, namespace, owner).await {
        Ok(created) => created,
        Err(refused) => return refused,
    };
    remove(cluster, &created).await;
    wait_until_gone(cluster, subject).await;
    reply(cluster.send(Request::get(subject.path()).accept(METADATA)).await)
}

async fn create(cluster: &Cluster, namespace: &str, owner: Value) -> Result<Subject, Reply> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "generateName": "kubectl-cascade-canary-", "ownerReferences": [owner] },
    });
    let path = format!("/api/v1/namespaces/{}/configmaps", escaped(namespace));
    match cluster.send(Request::new(Method::POST, path).body(JSON, &map)).await {
        Ok(answer) => {
            let metadata = body(&answer)["metadata"].clone();
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            Ok(Subject {
                resource: std::sync::Arc::new(config_maps()),
                namespace: Some(namespace.to_owned()),
                name: text("name"),
                uid: Uid::from(text("uid")),
            })
        }
        Err(trouble) => Err(reply(Err(trouble))),
    }
}

async fn remove(cluster: &Cluster, created: &Subject) {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        "preconditions": { "uid": created.uid },
    });
    // Already gone is as good; a refusal was shown by the dry run before.
    let _ = cluster.send(Request::new(Method::DELETE, created.path()).body(JSON, &options)).await;
}

/// Whether the object is gone by UID before our patience ends; none where that cannot be read.
async fn wait_until_gone(cluster: &Cluster, subject: &Subject) -> Option<bool> {
    let end = Instant::now() + PATIENCE;
    loop {
        match cluster.send(Request::get(subject.path()).accept(METADATA)).await {
            Ok(answer) if body(&answer)["metadata"]["uid"] == *subject.uid.as_str() => {}
            Ok(_) => return Some(true),
            Err(trouble) if trouble.is_not_found() => return Some(true),
            Err(_) => return None,
        }
        if Instant::now() > end {
            return Some(false);
        }
        sleep(PAUSE).await;
    }
}

fn config_maps() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ["create", "delete", "get"].map(str::to_owned).into(),
    }
}

/// A UID that no object has. The hasher's random keys are random enough for that.
fn random_uid() -> String {
    let half = || RandomState::new().hash_one(0u8);
    let text = format!("{:016x}{:016x}", half(), half());
    format!("{}-{}-4{}-a{}-{}", &text[..8], &text[8..12], &text[13..16], &text[17..20], &text[20..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_random_uid_looks_like_one_and_never_comes_twice() {
        let (one, two) = (super::random_uid(), super::random_uid());
        assert_eq!(one.len(), 36);
        assert_ne!(one, two);
    }
}
