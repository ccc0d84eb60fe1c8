//! The custom resource whose controller is gone, and the CRD that waits for it.

use control_plane::Error;

use super::Story;
use super::stage::Stage;

pub(super) const STORY: Story =
    Story { name: "finalizer", title: "A resource that cannot be deleted, and its CRD", tell };

const CRD: &str = "crd/databases.shop.example.com";

fn tell(stage: &Stage<'_>) -> Result<(), Error> {
    stage.say(
        "A custom resource with a finalizer. The operator that would remove it was uninstalled long ago.",
    )?;
    stage.file("crd.yaml", include_str!("../../manifests/database-crd.yaml"))?;
    stage.file("orders.yaml", include_str!("../../manifests/database.yaml"))?;
    stage.run("kubectl apply -f crd.yaml")?;
    stage.run(&format!("kubectl wait --for=condition=Established {CRD} --timeout=60s"))?;
    stage.run("kubectl apply -f orders.yaml")?;

    stage.say("Somebody cleans up the CRD, too. Both stay.")?;
    stage.run(&format!("kubectl delete {CRD} --wait=false"))?;
    stage
        .run_exiting(3, &format!("kubectl cascade diagnose {CRD} -A"))?
        .must_say("Database/orders")?
        .must_say("shop.example.com/cleanup")?;

    stage.say(
        "Remove that one finalizer. Without a terminal the plugin does not ask; it prints the command that confirms.",
    )?;
    let refused = stage
        .run_exiting(4, "kubectl cascade release database/orders --finalizer shop.example.com/cleanup")?
        .command_starting("kubectl cascade release", "--confirm")?;
    stage.run(&refused)?;

    stage.say("The CRD goes by itself.")?;
    stage.run(&format!("kubectl wait --for=delete {CRD} --timeout=60s"))?;
    stage.run(&format!("kubectl cascade wait {CRD} --timeout 60s")).map(drop)
}
