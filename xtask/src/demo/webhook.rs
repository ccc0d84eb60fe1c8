//! The CI Pod that stays Terminating because of a webhook that knows nothing of deletion.

use control_plane::webhook::{Webhook, image_digest_resolver};
use control_plane::{Error, eventually};
use serde_json::json;
use std::time::Duration;

use super::Story;
use super::stage::Stage;

pub(super) const STORY: Story =
    Story { name: "webhook", title: "A CI Pod that a webhook keeps from going", tell };

const WEBHOOK: &str = "digester.example.com";

fn tell(stage: &Stage<'_>) -> Result<(), Error> {
    stage.say(
        "An image-digest resolver is a mutating webhook: at every CREATE and UPDATE of a Pod it looks up the Pod's \
         pull Secrets.",
    )?;
    // It answers until the story ends.
    let _resolver = register(stage)?;
    stage.run(&format!("kubectl get mutatingwebhookconfiguration {WEBHOOK}"))?;

    stage.say(
        "A CI runner starts a job's Pod, and makes it the owner of the job's credentials and Services.",
    )?;
    stage.file("job.yaml", include_str!("../../manifests/ci-job.yaml"))?;
    stage.run("kubectl apply -f job.yaml")?;
    stage.run("kubectl wait --for=condition=Ready pod/runner-1 --timeout=60s")?;
    adopt(stage)?;
    stage.run("kubectl cascade tree pod/runner-1")?.must_say("Secret/runner-1-credentials")?;

    stage.say(
        "The job is over and the runner deletes the Pod in foreground. The collector deletes the dependents first, \
         the pull Secret among them; then it has to take its finalizer off the Pod. That is an UPDATE.",
    )?;
    stage
        .run_exiting(3, "kubectl cascade delete pod/runner-1 --policy foreground --yes --stall-timeout 10s")?
        .must_say(WEBHOOK)?
        .must_say("secrets \"runner-1-credentials\" not found")?;
    stage.run("kubectl get pod runner-1")?.must_say("Terminating")?;

    stage.say(
        "The way out that needs no admin: the same deletion with another policy asks no UPDATE webhook.",
    )?;
    stage.run("kubectl cascade delete pod/runner-1 --policy background --yes")?;
    stage.run("test -z \"$(kubectl get pod,secret,service -o name)\" && echo nothing is left")?;
    stage.run(&format!("kubectl delete mutatingwebhookconfiguration {WEBHOOK}")).map(drop)
}

/// Starts the resolver, and returns when the API server calls it.
fn register(stage: &Stage<'_>) -> Result<Webhook, Error> {
    let resolver = Webhook::start(image_digest_resolver(stage.plane().api()?.clone()))?;
    let configuration = resolver.mutating(WEBHOOK, stage.namespace(), &["CREATE", "UPDATE"], &["pods"]);
    stage.kubectl().apply(&configuration.to_string())?;
    // A webhook works from the moment the API server has heard of it.
    eventually("the API server calls the webhook", Duration::from_secs(30), || {
        stage.kubectl().run(&["run", "nobody", "--image=none", "--dry-run=server"]).ok()?;
        (resolver.calls() > 0).then_some(())
    })?;
    Ok(resolver)
}

/// The story's situation before anything is deleted. The webhook answers until it is dropped.
pub(crate) fn set_up(stage: &Stage<'_>) -> Result<Webhook, Error> {
    let resolver = register(stage)?;
    stage.kubectl().apply(include_str!("../../manifests/ci-job.yaml"))?;
    stage.kubectl().run(&["wait", "--for=condition=Ready", "pod/runner-1", "--timeout=60s"])?;
    adopt(stage)?;
    Ok(resolver)
}

/// Sets the ownerReferences, as the runner does once it knows the Pod's UID.
fn adopt(stage: &Stage<'_>) -> Result<(), Error> {
    let pod = stage.kubectl().get(&["pod", "runner-1"])?;
    let patch = json!({ "metadata": { "ownerReferences": [{
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "runner-1",
        "uid": pod["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true
    }] } });
    let dependents = [
        "secret/runner-1-credentials",
        "configmap/runner-1-scripts",
        "service/runner-1-build",
        "service/runner-1-db",
    ];
    for dependent in dependents {
        stage.kubectl().run(&["patch", dependent, "--type=merge", "--patch", &patch.to_string()])?;
    }
    Ok(())
}
