//! A Deployment: what hangs on it, what a deletion will do, and a deletion that is really over when it returns.

use control_plane::Error;

use super::Story;
use super::stage::Stage;

pub(super) const STORY: Story = Story { name: "deployment", title: "What goes when a Deployment goes", tell };

fn tell(stage: &Stage<'_>) -> Result<(), Error> {
    stage.say("A Deployment with two revisions, and a Service that nobody owns.")?;
    stage.file("web.yaml", include_str!("../../manifests/web.yaml"))?;
    stage.run("kubectl apply -f web.yaml")?;
    stage.run("kubectl rollout status deployment/web --timeout=60s")?;
    stage.run("kubectl set image deployment/web web=registry.example/web:2")?;
    stage.run("kubectl rollout status deployment/web --timeout=60s")?;

    stage.say("What hangs on it?")?;
    stage.run("kubectl cascade tree deployment/web")?.must_say("ReplicaSet/web-")?.must_say("Pod/web-")?;
    stage.run("kubectl cascade tree")?;

    stage.say("What will happen if I delete it? Nothing is deleted yet.")?;
    stage.run("kubectl cascade delete deployment/web --dry-run")?.must_say("Pod/web-")?;
    stage.run("kubectl get deployment web")?;

    stage.say("Delete it, and return when the last Pod is gone.")?;
    stage.run("kubectl cascade delete deployment/web --yes")?;
    stage.run("test -z \"$(kubectl get deployments,replicasets,pods -o name)\" && echo nothing is left")?;
    stage.run("kubectl get service web").map(drop)
}
