//! The Pods that a Job leaves behind when it is deleted the way many operators do.

use control_plane::Error;

use super::Story;
use super::stage::Stage;

pub(super) const STORY: Story = Story { name: "job", title: "A Job goes and leaves its Pods behind", tell };

fn tell(stage: &Stage<'_>) -> Result<(), Error> {
    stage.say("A Job with three Pods.")?;
    stage.file("nightly.yaml", include_str!("../../manifests/nightly.yaml"))?;
    stage.run("kubectl apply -f nightly.yaml")?;
    stage.run("kubectl wait --for=condition=Complete job/nightly --timeout=60s")?;

    stage.say(
        "An operator deletes it without a propagation policy, as client libraries do. For Jobs the API server then \
         orphans the Pods.",
    )?;
    let path = format!("/apis/batch/v1/namespaces/{}/jobs/nightly", stage.namespace());
    stage.run(&format!("kubectl delete --raw {path} > deleted.json"))?;
    stage.run("kubectl wait --for=delete job/nightly --timeout=60s")?;
    stage.run("kubectl get pods")?.must_say("nightly-")?;

    stage.say("What did earlier deletions leave behind?")?;
    stage.run_exiting(3, "kubectl cascade orphans --exit-code")?.must_say("nightly-")?;
    stage.run("kubectl delete pods --selector batch.kubernetes.io/job-name=nightly")?;

    stage.say("The same Job again, deleted with a policy that is always sent.")?;
    stage.run("kubectl apply -f nightly.yaml")?;
    stage.run("kubectl wait --for=condition=Complete job/nightly --timeout=60s")?;
    stage.run("kubectl cascade delete job/nightly --yes")?;
    stage.run("test -z \"$(kubectl get jobs,pods -o name)\" && echo nothing is left")?;
    stage.run("kubectl cascade orphans --exit-code").map(drop)
}
