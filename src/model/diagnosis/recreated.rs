//! Gone by UID, but its controller made another (reference G11, T9): no stall, but hardly what was wanted.

use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::command::Caller;
use crate::model::object::{Object, ObjectRef};

/// The finding for a target that is gone, and `now`, which a controller made in its place; none where no controller
/// owns it. `owner` is that controller, or the topmost one that makes that again, where it is known.
pub fn recreated_by_owner(
    was: &ObjectRef,
    now: &Object,
    owner: Option<&Object>,
    caller: &Caller,
) -> Option<Finding> {
    let controller = now.owners.iter().find(|owner| owner.controller)?;
    let successor = now.reference();
    let name = format!("{}/{}", controller.kind, controller.name);
    let summary = if was.name == successor.name {
        format!("{} is gone, but {name} controls it and has made it again", was.short())
    } else {
        format!("{} is gone, but {name} controls it and has made {} instead", was.short(), successor.short())
    };
    let chain = [was.clone(), successor.clone()];
    let mut finding = Finding::new(Cause::RecreatedByOwner, Verdict::Proven, &chain, &successor, summary)
        .by(Actor { owner: Some(name.clone()), ..Actor::default() });
    finding.evidence(
        format!("metadata.ownerReferences of {}", successor.short()),
        format!("{name} (UID {}, controller: true)", controller.uid),
    );
    let top = owner.map_or_else(|| name.clone(), |owner| owner.reference().short());
    let above = if top == name { String::new() } else { format!(", which controls {name},") };
    let text = format!("delete {top}{above} instead, or scale it down");
    finding.remedies.push(match owner {
        Some(owner) => Remedy::command(caller.command_on("kubectl cascade delete", owner, &[]), text)
            .risk(format!("everything that {top} owns goes with it")),
        None => Remedy::text(text),
    });
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{at, graph};

    #[test]
    fn the_controller_of_the_successor_is_named_and_offered() {
        let graph =
            graph("ReplicaSet/r\nPod/a <- ReplicaSet/r!*\nPod/b <- ReplicaSet/r!*\nPod/c <- ReplicaSet/r!");
        let object = |name: &str| graph.object(at(&graph, name));
        let was = object("Pod/a").reference();
        let finding = |now: &str, owner: Option<&Object>| {
            recreated_by_owner(&was, object(now), owner, &Caller::default())
        };
        let other = finding("Pod/b", Some(object("ReplicaSet/r"))).expect("a finding");
        assert_eq!(other.summary, "Pod/a is gone, but ReplicaSet/r controls it and has made Pod/b instead");
        assert_eq!((other.cause, other.object.name.as_str()), (Cause::RecreatedByOwner, "b"));
        assert_eq!(other.by.and_then(|by| by.owner).as_deref(), Some("ReplicaSet/r"));
        let command = other.remedies[0].command.as_deref();
        assert_eq!(command, Some("kubectl cascade delete -n x replicaset.apps/r"));
        let deployment = crate::model::testing::graph("Deployment/d");
        let above = finding("Pod/b", Some(deployment.object(0))).expect("a finding");
        let remedy = &above.remedies[0];
        assert_eq!(
            remedy.text,
            "delete Deployment/d, which controls ReplicaSet/r, instead, or scale it down"
        );
        assert_eq!(remedy.command.as_deref(), Some("kubectl cascade delete -n x deployment.apps/d"));
        assert_eq!(remedy.risk.as_deref(), Some("everything that Deployment/d owns goes with it"));
        let same = finding("Pod/a", None).expect("a finding");
        assert_eq!(same.summary, "Pod/a is gone, but ReplicaSet/r controls it and has made it again");
        assert_eq!(same.remedies[0].command, None);
        assert_eq!(finding("Pod/c", None), None, "an owner that is no controller makes nothing");
    }
}
