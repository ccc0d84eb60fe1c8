//! Questions of a diagnosis as requests: reads, dry runs that leave nothing behind, and, where the user allows it, the
//! two probes that write (reference B.0). Every answer is kept verbatim; a refusal is an answer, not an error.

use std::time::Duration;

use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cluster::connect::Cluster;
use crate::cluster::request::{Answer, Request};
use crate::error::Trouble;
use crate::model::catalog::Resource;
use crate::model::facts::{Facts, Identity, Question, Reply, Subject};
use crate::model::object::Uid;

mod canary;

/// So many questions are under way at once.
const AT_ONCE: usize = 8;
/// How often a dry run is sent when the object changes under it, or to see whether its answer changes.
const TRIES: usize = 3;
/// So long a Lease is read at most; some clusters let theirs last longer.
const LONGEST_LEASE: Duration = Duration::from_secs(30);
const LEASE_PAUSE: Duration = Duration::from_millis(500);
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Asks all these questions, a few at a time, and adds the replies to the facts.
pub async fn answer(cluster: &Cluster, questions: Vec<Question>, facts: &mut Facts) {
    let replies: Vec<(Question, Reply)> = stream::iter(questions)
        .map(|question| async move {
            let reply = ask(cluster, &question).await;
            (question, reply)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (question, reply) in replies {
        facts.insert(question, reply);
    }
}

async fn ask(cluster: &Cluster, question: &Question) -> Reply {
    match question {
        Question::Get(path) => reply(cluster.send(Request::get(path.clone())).await),
        Question::Table(path) => reply(cluster.send(Request::get(path.clone()).accept(TABLE)).await),
        Question::Lease(path) => lease(cluster, path).await,
        Question::Touch(path) => {
            let request = Request::new(Method::PATCH, format!("{path}?dryRun=All"));
            reply(cluster.send(request.body(MERGE_PATCH, &json!({}))).await)
        }
        Question::Delete { subject, identity } => {
            if let Some(not_asked) = no_dry_run(cluster, &subject.resource).await {
                return not_asked;
            }
            reply(cluster.send(as_whom(dry_delete(subject), *identity)).await)
        }
        Question::RemoveFinalizer { subject, finalizer, identity } => {
            patch(cluster, subject, *identity, |metadata| without_finalizer(metadata, finalizer)).await
        }
        Question::RemoveReference { subject, owner, identity } => {
            patch(cluster, subject, *identity, |metadata| without_reference(metadata, owner)).await
        }
        Question::Access { identity, verb, group, resource, namespace } => {
            let body = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": identity.user().unwrap_or_default(),
                    "groups": identity.groups(),
                    "resourceAttributes": {
                        "verb": verb, "group": group, "resource": resource, "namespace": namespace,
                    },
                },
            });
            let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
            reply(cluster.send(Request::new(Method::POST, path).body(JSON, &body)).await)
        }
        Question::Again { question, accepted } => again(cluster, question, *accepted).await,
        Question::Canary { namespace } => canary::canary(cluster, namespace).await,
        Question::Nudge(subject) => canary::nudge(cluster, subject).await,
    }
}

/// Asks again, one after the other, until the answer comes out the other way; the last answer where it never does.
async fn again(cluster: &Cluster, question: &Question, accepted: bool) -> Reply {
    let mut last = Reply::NotAsked("not asked again".to_owned());
    for _ in 0..TRIES {
        last = Box::pin(ask(cluster, question)).await;
        if last.body().is_some() != accepted {
            break;
        }
    }
    last
}

/// Reads a Lease until it is renewed or has run out by the server's own clock. A leader renews it every two seconds by
/// default; one that died a moment ago leaves a Lease that still looks fresh.
async fn lease(cluster: &Cluster, path: &str) -> Reply {
    let end = Instant::now() + LONGEST_LEASE;
    let mut first: Option<String> = None;
    loop {
        let answer = match cluster.send(Request::get(path)).await {
            Ok(answer) => answer,
            Err(trouble) => return reply(Err(trouble)),
        };
        let spec = body(&answer)["spec"].clone();
        let renewed = spec["renewTime"].as_str().unwrap_or_default().to_owned();
        let is_renewed = first.get_or_insert_with(|| renewed.clone()) != &renewed;
        let left = match (renewed.parse::<jiff::Timestamp>(), answer.date) {
            (Ok(renewed), Some(date)) => {
                spec["leaseDurationSeconds"].as_i64().unwrap_or(0) - (date.as_second() - renewed.as_second())
            }
            _ => -1,
        };
        let held = spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
        if is_renewed || left < 0 || !held || Instant::now() > end {
            return reply(Ok(answer));
        }
        sleep(LEASE_PAUSE).await;
    }
}

/// Dry-runs a merge patch of the metadata as the object stands now: the collector, too, reads and then patches with
/// the resourceVersion that it read (`pkg/controller/garbagecollector/operations.go`, removeFinalizer).
async fn patch(
    cluster: &Cluster,
    subject: &Subject,
    identity: Identity,
    change: impl Fn(&Value) -> Option<Value>,
) -> Reply {
    if let Some(not_asked) = no_dry_run(cluster, &subject.resource).await {
        return not_asked;
    }
    let mut last = Reply::NotAsked("the object kept changing".to_owned());
    for _ in 0..TRIES {
        let metadata = match cluster.send(Request::get(subject.path()).accept(METADATA)).await {
            Ok(answer) => body(&answer)["metadata"].clone(),
            Err(trouble) => return reply(Err(trouble)),
        };
        if metadata["uid"] != *subject.uid.as_str() {
            return gone("another object has this name now");
        }
        let Some(mut changed) = change(&metadata) else {
            return gone("what should be removed is not there any more");
        };
        changed["uid"] = json!(subject.uid);
        changed["resourceVersion"] = metadata["resourceVersion"].clone();
        let request = Request::new(Method::PATCH, format!("{}?dryRun=All", subject.path()))
            .body(MERGE_PATCH, &json!({ "metadata": changed }));
        last = reply(cluster.send(as_whom(request, identity)).await);
        if !matches!(&last, Reply::Refused { code: 409, message, .. } if message.contains("has been modified"))
        {
            break;
        }
    }
    last
}

/// The finalizers without this one, as the collector sends them: null where none is left.
fn without_finalizer(metadata: &Value, finalizer: &str) -> Option<Value> {
    let finalizers = metadata["finalizers"].as_array()?;
    let rest: Vec<&Value> = finalizers.iter().filter(|own| **own != *finalizer).collect();
    if rest.len() == finalizers.len() {
        return None;
    }
    Some(json!({ "finalizers": if rest.is_empty() { Value::Null } else { json!(rest) } }))
}

fn without_reference(metadata: &Value, owner: &Uid) -> Option<Value> {
    let references = metadata["ownerReferences"].as_array()?;
    let rest: Vec<&Value> =
        references.iter().filter(|reference| reference["uid"] != *owner.as_str()).collect();
    if rest.len() == references.len() {
        return None;
    }
    Some(json!({ "ownerReferences": if rest.is_empty() { Value::Null } else { json!(rest) } }))
}

/// The background DELETE of one object by UID, as a dry run. Never with a resourceVersion (reference C.2).
fn dry_delete(subject: &Subject) -> Request {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"],
        "propagationPolicy": "Background", "preconditions": { "uid": subject.uid },
    });
    Request::new(Method::DELETE, format!("{}?dryRun=All", subject.path())).body(JSON, &options)
}

fn as_whom(request: Request, identity: Identity) -> Request {
    match identity.user() {
        Some(user) => request.impersonate(user, identity.groups()),
        None => request,
    }
}

/// An aggregated API server may take a dry run for a real one. Kubernetes' own groups and those of CRDs never do; the
/// others must declare the parameter in their OpenAPI document. None where a dry run is safe.
pub(super) async fn no_dry_run(cluster: &Cluster, resource: &Resource) -> Option<Reply> {
    const OWN: [&str; 21] = [
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    ];
    if OWN.contains(&resource.group.as_str()) {
        return None;
    }
    let crd = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        resource.plural, resource.group
    );
    if cluster.send(Request::get(crd).accept(METADATA)).await.is_ok() {
        return None;
    }
    // Not a CRD, or we may not read CRDs; the OpenAPI document may be read by everybody.
    let path = format!("/openapi/v3/apis/{}/{}", resource.group, resource.version);
    let document = match cluster.send(Request::get(path)).await {
        Ok(answer) => body(&answer),
        Err(_) => Value::Null,
    };
    let declared = document["paths"].as_object().into_iter().flatten().any(|(path, operations)| {
        path.ends_with(&format!("/{}/{{name}}", resource.plural))
            && operations["patch"]["parameters"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|parameter| parameter["name"] == "dryRun")
    });
    (!declared).then(|| {
        Reply::NotAsked(format!(
            "the API server of {} does not declare that it knows dry runs, so none was tried",
            resource.qualified()
        ))
    })
}

/// The body as JSON; Null where it is none.
fn body(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or(Value::Null)
}

fn gone(message: &str) -> Reply {
    Reply::Refused { code: 404, reason: "NotFound".to_owned(), message: message.to_owned() }
}

/// An answer or a refusal, verbatim.
pub fn reply(outcome: Result<Answer, Trouble>) -> Reply {
    match outcome {
        Ok(answer) => Reply::Answer { body: body(&answer), date: answer.date },
        Err(Trouble::Status { code, reason, message, .. }) => Reply::Refused { code, reason, message },
        Err(Trouble::NoAnswer { message, .. }) => Reply::NoAnswer(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_sends_null_when_its_finalizer_is_the_last() {
        let metadata = json!({ "finalizers": ["foregroundDeletion"] });
        assert_eq!(without_finalizer(&metadata, "foregroundDeletion"), Some(json!({ "finalizers": null })));
        let metadata = json!({ "finalizers": ["a/b", "foregroundDeletion"] });
        assert_eq!(
            without_finalizer(&metadata, "foregroundDeletion"),
            Some(json!({ "finalizers": ["a/b"] }))
        );
    }

    #[test]
    fn nothing_is_patched_where_the_finalizer_has_gone() {
        assert_eq!(without_finalizer(&json!({ "finalizers": ["a/b"] }), "c/d"), None);
        assert_eq!(without_finalizer(&json!({}), "c/d"), None);
    }

    #[test]
    fn a_reference_is_removed_by_uid_alone() {
        let metadata = json!({ "ownerReferences": [{ "uid": "u1" }, { "uid": "u2" }] });
        assert_eq!(
            without_reference(&metadata, &Uid::from("u1")),
            Some(json!({ "ownerReferences": [{ "uid": "u2" }] }))
        );
    }
}
