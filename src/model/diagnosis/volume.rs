//! Claims, volumes and load balancers: finalizers whose controllers wait for something that is no ownerReference
//! (reference B.6, B.7).

use super::inquiry::{Inquiry, span};
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::object::{Object, ObjectRef};

/// How a claim's protection is spelled.
pub(super) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// How a volume's protection is spelled.
pub(super) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

impl Inquiry<'_> {
    /// A claim stays while any scheduled Pod names it, finished or not. None where no Pod in view does.
    pub(super) fn claim_in_use(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let leaf = object.reference();
        let details = &graph.snapshot().details.pods;
        let users: Vec<usize> = (0..graph.objects().len())
            .filter(|pod| graph.object(*pod).namespace == object.namespace)
            .filter(|pod| {
                details
                    .get(&graph.object(*pod).uid)
                    .is_some_and(|pod| !pod.node.is_empty() && pod.claims.contains(&object.name))
            })
            .collect();
        let first = *users.first()?;
        let describe = |pod: usize| {
            let phase = details.get(&graph.object(pod).uid).map(|pod| pod.phase.clone()).unwrap_or_default();
            format!("{} ({phase})", graph.object(pod).reference().short())
        };
        let mut finding = Finding::new(
            Cause::ClaimInUse,
            Verdict::Proven,
            chain,
            &leaf,
            format!(
                "{} is kept while a Pod mounts it, finished or not: {}",
                leaf.short(),
                users.iter().take(5).map(|pod| describe(*pod)).collect::<Vec<_>>().join(", ")
            ),
        )
        .by(Actor { pod: Some(graph.object(first).name.clone()), ..Actor::default() });
        for &pod in users.iter().take(5) {
            let node = details.get(&graph.object(pod).uid).map(|pod| pod.node.clone()).unwrap_or_default();
            finding.evidence(
                format!("spec.volumes of {}", graph.object(pod).reference().short()),
                format!("persistentVolumeClaim {}; spec.nodeName {node}", object.name),
            );
        }
        for &pod in users.iter().take(5) {
            let user = graph.object(pod);
            let text = format!("delete {}: the claim is then free", user.reference().short());
            finding.remedies.push(if user.is_terminating() {
                Remedy::command(
                    self.command("kubectl cascade diagnose", user, &[]),
                    format!("{} is being deleted already: see why it stays", user.reference().short()),
                )
            } else {
                Remedy::command(self.command("kubectl cascade delete", user, &[]), text).risk(
                    match user.owners.iter().find(|owner| owner.controller) {
                        Some(owner) => format!(
                            "{}/{} makes a Pod in its place, which waits for a claim of this name, or gets an empty one: \
                             scale it down first",
                            owner.kind, owner.name
                        ),
                        None => "the Pod and its logs are gone".to_owned(),
                    },
                )
            });
        }
        Some(finding)
    }

    /// A volume stays while it is bound. None where it is not, or where that cannot be read.
    pub(super) fn volume_bound(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let whole = self.whole(index)?;
        let phase = whole["status"]["phase"].as_str().unwrap_or_default();
        if phase != "Bound" {
            return None;
        }
        let leaf = object.reference();
        let claim = &whole["spec"]["claimRef"];
        let text = |field: &str| claim[field].as_str().unwrap_or_default();
        let mut finding = Finding::new(
            Cause::VolumeBound,
            Verdict::Proven,
            chain,
            &leaf,
            format!(
                "{} is kept while it is bound to the claim {}/{}",
                leaf.short(),
                text("namespace"),
                text("name")
            ),
        )
        .by(Actor::default());
        finding.evidence("status.phase", phase);
        finding.evidence("spec.claimRef", format!("{}/{}", text("namespace"), text("name")));
        let named = |object: &Object| {
            object.is("", "PersistentVolumeClaim")
                && object.namespace.as_deref() == Some(text("namespace"))
                && object.name == text("name")
                && claim["uid"].as_str().is_none_or(|uid| *object.uid.as_str() == *uid)
        };
        let going = (0..graph.objects().len())
            .find(|index| named(graph.object(*index)) && graph.object(*index).is_terminating());
        if let Some(going) = going {
            // It is being deleted already: what holds it holds the volume, too.
            let mut chain = chain.to_vec();
            chain.push(graph.object(going).reference());
            if self.begin(going)
                && let Some(mut held) = self.finalizers(going, &chain)
            {
                held.also(Cause::VolumeBound);
                for evidence in finding.evidence {
                    held.evidence(format!("{} of {}", evidence.source, leaf.short()), evidence.text);
                }
                return Some(held);
            }
            finding.remedies.push(Remedy::command(
                self.command("kubectl cascade diagnose", graph.object(going), &[]),
                "the claim is being deleted already: see why it stays",
            ));
            return Some(finding);
        }
        let command = self.case.caller.command(
            "kubectl cascade delete",
            Some(text("namespace")),
            &[&format!("persistentvolumeclaim/{}", text("name"))],
        );
        finding.remedies.push(
            Remedy::command(command, "delete the claim first")
                .risk("the data on the volume may be deleted with it"),
        );
        Some(finding)
    }

    /// A disk or an attachment that its driver has not released.
    pub(super) fn not_released(&mut self, index: usize, finalizer: &str, chain: &[ObjectRef]) -> Finding {
        let object = self.graph.object(index);
        let leaf = object.reference();
        let driver = finalizer.strip_prefix("external-attacher/").unwrap_or("its CSI driver");
        let mut finding = Finding::new(
            Cause::VolumeNotReleased,
            Verdict::Consistent,
            chain,
            &leaf,
            format!(
                "{} has waited {} for {driver} to release what is behind it ({finalizer})",
                leaf.short(),
                span(self.age(object))
            ),
        )
        .by(Actor::default());
        if let Some(whole) = self.whole(index) {
            for (source, text) in [
                ("status.phase", &whole["status"]["phase"]),
                ("status.message", &whole["status"]["message"]),
                ("status.detachError", &whole["status"]["detachError"]["message"]),
            ] {
                if let Some(text) = text.as_str() {
                    finding.evidence(source, text);
                }
            }
        }
        finding
            .remedies
            .push(Remedy::text(format!("make sure that {driver} runs on this cluster, and read its log")));
        finding.remedies.extend(self.remove_finalizer(index, finalizer));
        finding
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::diagnosis::tests::{diagnosis, healthy, ok};
    use crate::model::facts::Question;

    #[test]
    fn a_finished_pod_on_a_node_holds_its_claim_and_an_unscheduled_one_does_not() {
        let claim = "PersistentVolumeClaim/data terminating finalizer=kubernetes.io/pvc-protection\n";
        let done = format!("{claim}Pod/user1 node=n1 phase=Succeeded claim=data");
        let held = diagnosis(&done, &["PersistentVolumeClaim/data"], healthy);
        assert_eq!(held.findings[0].cause, Cause::ClaimInUse);
        assert_eq!(held.findings[0].by.as_ref().unwrap().pod.as_deref(), Some("user1"));
        let command = held.findings[0].remedies[0].command.as_deref();
        assert_eq!(command, Some("kubectl cascade delete -n x pod/user1"));
        let waiting = format!("{claim}Pod/user1 claim=data");
        let other = diagnosis(&waiting, &["PersistentVolumeClaim/data"], healthy);
        assert_eq!(other.findings[0].cause, Cause::FinalizerHeld);
    }

    #[test]
    fn a_bound_volume_waits_for_its_claim() {
        let text = "PersistentVolume/v terminating finalizer=kubernetes.io/pv-protection";
        let diagnosis = diagnosis(text, &["PersistentVolume/v"], |question| match question {
            Question::Get(path) if path == "/api/v1/persistentvolumes/v" => ok(json!({
                "metadata": { "uid": "PersistentVolume/v" }, "status": { "phase": "Bound" },
                "spec": { "claimRef": { "namespace": "x", "name": "data" } },
            })),
            _ => healthy(question),
        });
        let finding = &diagnosis.findings[0];
        assert_eq!((finding.cause, finding.verdict), (Cause::VolumeBound, Verdict::Proven));
        let command = finding.remedies[0].command.as_deref();
        assert_eq!(command, Some("kubectl cascade delete -n x persistentvolumeclaim/data"));
    }

    #[test]
    fn a_bound_volume_whose_claim_is_being_deleted_waits_for_what_holds_the_claim() {
        let text = "PersistentVolume/v terminating finalizer=kubernetes.io/pv-protection
            PersistentVolumeClaim/data terminating finalizer=kubernetes.io/pvc-protection
            Pod/user1 node=n1 claim=data";
        let server = |question: &Question| match question {
            Question::Get(path) if path == "/api/v1/persistentvolumes/v" => ok(json!({
                "metadata": { "uid": "PersistentVolume/v" }, "status": { "phase": "Bound" },
                "spec": { "claimRef": { "namespace": "x", "name": "data" } },
            })),
            _ => healthy(question),
        };
        for targets in [&["PersistentVolume/v"][..], &["PersistentVolume/v", "PersistentVolumeClaim/data"]] {
            let diagnosis = diagnosis(text, targets, server);
            assert_eq!(diagnosis.findings.len(), 1, "{diagnosis:#?}");
            let finding = &diagnosis.findings[0];
            assert_eq!((finding.cause, finding.verdict), (Cause::ClaimInUse, Verdict::Proven));
            assert_eq!(finding.also, [Cause::VolumeBound]);
            let chain: Vec<String> = finding.chain.iter().map(ObjectRef::short).collect();
            assert_eq!(chain, ["PersistentVolume/v", "PersistentVolumeClaim/data"]);
            assert_eq!(finding.by.as_ref().unwrap().finalizer.as_deref(), Some(CLAIM_PROTECTION));
            let command = finding.remedies[0].command.as_deref();
            assert_eq!(command, Some("kubectl cascade delete -n x pod/user1"));
        }
        // The claim comes first: one finding each, and none says to delete what is being deleted.
        let diagnosis = diagnosis(text, &["PersistentVolumeClaim/data", "PersistentVolume/v"], server);
        let commands = diagnosis.findings.iter().flat_map(|finding| &finding.remedies);
        let commands: Vec<&str> = commands.filter_map(|remedy| remedy.command.as_deref()).collect();
        assert_eq!(
            commands,
            [
                "kubectl cascade delete -n x pod/user1",
                "kubectl cascade diagnose -n x persistentvolumeclaim/data"
            ]
        );
    }

    #[test]
    fn a_disk_that_its_driver_has_not_released() {
        let text =
            "PersistentVolume/v terminating finalizer=external-provisioner.volume.kubernetes.io/finalizer";
        let diagnosis = diagnosis(text, &["PersistentVolume/v"], healthy);
        assert_eq!(diagnosis.findings[0].cause, Cause::VolumeNotReleased);
        assert!(diagnosis.findings[0].remedies.last().unwrap().risk.as_ref().unwrap().contains("cost"));
    }

    #[test]
    fn a_service_waits_for_the_cloud() {
        let text = "Service/s terminating finalizer=service.kubernetes.io/load-balancer-cleanup";
        let diagnosis = diagnosis(text, &["Service/s"], healthy);
        assert_eq!(diagnosis.findings[0].cause, Cause::LoadBalancerCleanup);
    }
}
