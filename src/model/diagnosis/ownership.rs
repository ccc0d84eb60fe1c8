//! A live object that should be gone: what in its ownerReferences keeps the collector from deleting it (F9 to F14,
//! F23, G2, G4 to G6, G12). Each reference says by itself what it is; only what is left is asked of the server.

use super::inquiry::Inquiry;
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::graph::OwnerState;
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectRef, OwnerReference, Uid};

impl Inquiry<'_> {
    /// Explains a live object at the end of a chain.
    pub(super) fn live(&mut self, index: usize, chain: &[ObjectRef]) {
        let Some(target) = chain.first() else { return };
        if !self.begin(index) || !self.examines(index, target) {
            return;
        }
        if let Some(finding) = self.ownership(index, chain) {
            self.say(finding);
        }
    }

    fn ownership(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let leaf = object.reference();
        let name = leaf.short();
        let owners: Vec<(&OwnerReference, OwnerState)> =
            graph.owners(index).map(|(reference, resolved)| (reference, resolved.state)).collect();
        let found = |cause, text: String| Finding::new(cause, Verdict::Proven, chain, &leaf, text);
        let quote = |finding: &mut Finding, reference: &OwnerReference, note: &str| {
            finding.evidence(
                format!("metadata.ownerReferences of {name}"),
                format!(
                    "{} {}/{} (UID {}, blockOwnerDeletion: {}): {note}",
                    reference.api_version,
                    reference.kind,
                    reference.name,
                    reference.uid,
                    reference.block_owner_deletion
                ),
            );
        };
        let delete = |inquiry: &Self| {
            Remedy::command(
                inquiry.command("kubectl cascade delete", object, &[]),
                format!("delete {name} yourself: its owner is then free"),
            )
        };
        if !object.resource.is_collectable() {
            let mut finding = found(
                Cause::KindNotCollectable,
                format!(
                    "{name} stays: its kind cannot be deleted, listed and watched, so the garbage collector does not see it"
                ),
            );
            finding.evidence(
                "discovery",
                format!("verbs of {}: {:?}", object.resource.qualified(), object.resource.verbs),
            );
            finding.remedies.push(delete(self));
            return Some(finding);
        }
        if let Some((reference, _)) = owners.iter().find(|(_, state)| *state == OwnerState::Unserved) {
            let mut finding = found(
                Cause::OwnerKindUnserved,
                format!(
                    "{name} is never collected: its ownerReference names {} {}, which the server does not serve, and one such \
                     reference stops the garbage collector for the whole object",
                    reference.api_version, reference.kind
                ),
            );
            quote(&mut finding, reference, "not served");
            finding.remedies.push(Remedy::command(
                self.command("kubectl edit", object, &[]),
                format!(
                    "correct the apiVersion of its reference to {}/{} to one that is served, or remove it",
                    reference.kind, reference.name
                ),
            ));
            finding.remedies.push(delete(self));
            finding.remedies.extend(self.background_on_target(chain));
            return Some(finding);
        }
        if let Some((reference, _)) = owners.iter().find(|(_, state)| *state == OwnerState::Scope) {
            let mut finding = found(
                Cause::ClusterScopedDependent,
                format!(
                    "{name} is cluster-scoped and names the namespaced owner {}/{}: such an object is never collected",
                    reference.kind, reference.name
                ),
            );
            quote(&mut finding, reference, "a namespaced owner of a cluster-scoped object");
            for event in self.events(index) {
                finding.evidence(event.source, event.text);
            }
            finding.remedies.push(delete(self));
            finding.remedies.extend(self.background_on_target(chain));
            return Some(finding);
        }
        if let Some((reference, _)) = owners.iter().find(|(_, state)| *state == OwnerState::Unknown) {
            let mut finding = Finding::new(
                Cause::KindUnreadable,
                Verdict::Unknown,
                chain,
                &leaf,
                format!("{name} may wait for {}/{}, which could not be read", reference.kind, reference.name),
            );
            if graph.snapshot().catalog.is_stale(&reference.api_version) {
                finding.cause = Cause::ApiServiceUnavailable;
                finding.verdict = Verdict::Consistent;
                let (group, version) = crate::model::catalog::split_api_version(&reference.api_version);
                let service = format!("{version}.{group}");
                finding.remedies.push(Remedy::command(
                    self.cluster_command("kubectl get", &[&format!("apiservice/{service}"), "-o", "yaml"]),
                    format!("bring the API server behind {service} back; do not remove the reference"),
                ));
                finding.by = Some(Actor { api_service: Some(service), ..Actor::default() });
            }
            quote(&mut finding, reference, "could not be looked up");
            self.unchecked(
                format!("owner {}/{} of {name}", reference.kind, reference.name),
                "it could not be read",
            );
            return Some(finding);
        }
        let solid: Vec<(&OwnerReference, usize)> = graph
            .owners(index)
            .filter(|(reference, resolved)| {
                resolved.state.is_found() && !self.waits_in_foreground(&reference.uid)
            })
            .filter_map(|(reference, resolved)| resolved.owner.map(|owner| (reference, owner)))
            .collect();
        if let Some((reference, _)) = solid.iter().find(|(reference, _)| reference.uid == object.uid) {
            let mut finding =
                found(Cause::OwnsItself, format!("{name} names itself as its owner and is never collected"));
            quote(&mut finding, reference, "its own UID");
            finding.remedies.push(delete(self));
            return Some(finding);
        }
        // An owner that is Terminating without foregroundDeletion keeps its dependents until it is gone (G4).
        if let Some((reference, owner)) =
            solid.iter().find(|(_, owner)| graph.object(*owner).is_terminating())
        {
            if self.is_explained(*owner) {
                return None;
            }
            let mut finding = found(
                Cause::DependentsWaitForOwner,
                format!(
                    "{name} is not touched before its owner {}/{} is gone",
                    reference.kind, reference.name
                ),
            );
            quote(&mut finding, reference, "Terminating, without foregroundDeletion");
            // In foreground the dependents of an owner that is to orphan them would be deleted.
            if !graph.object(*owner).has_finalizer(ORPHAN_FINALIZER) {
                finding.remedies.push(self.foreground(*owner));
            }
            return Some(finding);
        }
        if !solid.is_empty() && graph.is_leaked_cycle(index) {
            let partners =
                solid.iter().map(|(reference, _)| format!("{}/{}", reference.kind, reference.name));
            let partners = partners.collect::<Vec<_>>().join(", ");
            let mut finding = found(
                Cause::OwnershipCycle,
                format!(
                    "{name} is never collected: it and {partners} own each other, so each has a living owner"
                ),
            );
            for (reference, _) in &solid {
                quote(&mut finding, reference, "alive, and owned by this object in turn");
            }
            finding.remedies.push(delete(self));
            return Some(finding);
        }
        if let Some(owner) = self.doomed_owner(index) {
            self.waits_for_live(index, owner);
            return None;
        }
        if let Some((reference, _)) = solid.first() {
            // It should only lose its reference to the owner before it in the chain.
            let owner = chain.iter().rev().nth(1)?.clone();
            if graph.blocks(index, &owner.uid) && !graph.by_uid(&owner.uid).is_empty() {
                return self.unreleased(index, chain, &owner);
            }
            let mut finding = found(
                Cause::KeptByOtherOwner,
                format!("{name} stays: {}/{} owns it, too, and lives", reference.kind, reference.name),
            );
            quote(&mut finding, reference, "alive");
            return Some(finding);
        }
        let mut finding = self.undeleted(index, chain)?;
        if owners.iter().any(|(_, state)| *state == OwnerState::OtherNamespace) {
            finding.also(Cause::CrossNamespaceOwner);
        }
        Some(finding)
    }

    /// Whether this owner waits in foreground: then it does not keep its dependents, and those that block it hold it.
    pub(super) fn waits_in_foreground(&self, owner: &Uid) -> bool {
        self.graph.by_uid(owner).iter().any(|owner| {
            let owner = self.graph.object(*owner);
            owner.is_terminating() && owner.has_finalizer(FOREGROUND_FINALIZER)
        })
    }

    /// A live owner that should be gone, where all owners that are there are such: the dependent is not touched before
    /// they are gone (G4), and is nobody's cause.
    fn doomed_owner(&self, index: usize) -> Option<usize> {
        let graph = self.graph;
        let waits =
            |owner: usize| owner != index && !graph.object(owner).is_terminating() && self.is_doomed(owner);
        let mut owners = graph
            .owners(index)
            .filter(|(_, resolved)| resolved.state.is_found())
            .filter_map(|(_, resolved)| resolved.owner)
            .peekable();
        let first = owners.peek().copied()?;
        owners.all(waits).then_some(first)
    }

    /// Says in the finding of a live owner, which it makes if it has to, that this dependent waits for it.
    fn waits_for_live(&mut self, index: usize, owner: usize) {
        let graph = self.graph;
        if !self.is_explained(owner) {
            let mut above = self.chain_to(owner);
            above.pop();
            self.explain_any(owner, &above);
        }
        let uid = &graph.object(owner).uid;
        let Some(finding) = self.findings.iter_mut().find(|finding| finding.object.uid == *uid) else {
            return;
        };
        if !finding.also.contains(&Cause::DependentsWaitForOwner) {
            finding.also(Cause::DependentsWaitForOwner);
            finding.evidence(
                "dependents",
                format!(
                    "not touched before {} is gone, for example {}",
                    finding.object.short(),
                    graph.object(index).reference().short()
                ),
            );
        }
    }

    /// A foreground owner that blocks itself (F13): it is never looked at again.
    pub(super) fn owns_itself(&mut self, index: usize, chain: &[ObjectRef]) {
        let graph = self.graph;
        let object = graph.object(index);
        let leaf = object.reference();
        let mut finding = Finding::new(
            Cause::OwnsItself,
            Verdict::Proven,
            chain,
            &leaf,
            format!(
                "{} waits for itself: it is among its own ownerReferences, with blockOwnerDeletion: true",
                leaf.short()
            ),
        );
        let position = object.owners.iter().position(|owner| owner.uid == object.uid).unwrap_or(0);
        finding.evidence(
            format!("metadata.ownerReferences of {}", leaf.short()),
            format!("{}/{} (UID {}, blockOwnerDeletion: true)", leaf.kind, leaf.name, leaf.uid),
        );
        let path = format!("/metadata/ownerReferences/{position}");
        let patch = serde_json::json!([
            { "op": "test", "path": "/metadata/uid", "value": object.uid },
            { "op": "test", "path": format!("{path}/uid"), "value": object.uid },
            { "op": "replace", "path": format!("{path}/blockOwnerDeletion"), "value": false },
        ]);
        let patch = patch.to_string();
        finding.remedies.push(Remedy::command(
            self.command("kubectl patch", object, &["--type=json", "-p", &patch]),
            "set blockOwnerDeletion of that reference to false: the garbage collector then lets it go",
        ));
        finding.remedies.extend(self.background(index, None));
        self.say(finding);
    }
}
