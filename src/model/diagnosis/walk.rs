//! From each target to the leaves that do not move, in the decision order of the reference (S.2): Pods and their
//! kubelets, foreign finalizers, blocking dependents, the collector's own finalizer, and what should be gone already.

use std::collections::BTreeSet;

use serde_json::Value;

use super::inquiry::Inquiry;
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectRef, Uid};

/// Where no more than so many are left, what moved a moment ago may have been the last that could: that it moved says
/// nothing of the rest.
const FEW: usize = 5;

impl Inquiry<'_> {
    /// Says of what moves only who refuses the rest of it; whatever else would be found may only take its time. True if
    /// somebody does.
    fn refusals(&mut self, target: &ObjectRef, chain: &[ObjectRef]) -> bool {
        let Some(&index) = self.graph.by_uid(&target.uid).first() else { return false };
        if !self.graph.object(index).is_terminating() {
            return false;
        }
        let said = self.findings.len();
        let before = self.progress();
        self.explain(index, chain);
        let found = self.findings.split_off(said);
        self.findings.extend(found.into_iter().filter(Finding::is_refusal));
        let refused = self.findings.len() > said;
        if !refused {
            self.back_to(before);
        }
        refused
    }

    /// Explains everything that the case asks about.
    pub(super) fn run(&mut self) {
        let case = self.case;
        for target in &case.targets {
            let chain = vec![target.clone()];
            if self.recreated(target) {
                continue;
            }
            if let Some(pace) = case.moving.get(&target.uid) {
                if pace.left > FEW || !self.refusals(target, &chain) {
                    self.progressing(&chain);
                }
                continue;
            }
            match self.graph.by_uid(&target.uid).first() {
                Some(&index) if self.graph.object(index).is_terminating() => {
                    let before = (self.findings.len(), self.is_explained(index));
                    self.explain(index, &chain);
                    if before == (self.findings.len(), false) {
                        let finding = self.undetermined(&chain);
                        self.say(finding);
                    }
                }
                Some(&index) => {
                    if let Some(namespace) = self.going_namespace(index) {
                        self.goes_with_namespace(target, namespace);
                    } else if case.foresees {
                        self.foresee(index, target);
                    }
                }
                // Gone by UID: what it leaves behind hangs on its UID (B.2).
                None => {
                    for &dependent in self.graph.dependents_of_uid(&target.uid) {
                        if self.is_doomed(dependent) {
                            self.explain_any(dependent, &chain);
                        }
                    }
                }
            }
        }
        for doomed in &case.doomed {
            let Some(&index) = self.graph.by_uid(&doomed.uid).first() else { continue };
            if self.is_explained(index) || self.is_below_moving(index) {
                continue;
            }
            let mut chain = self.chain_to(index);
            chain.pop();
            self.explain_any(index, &chain);
        }
    }

    /// Explains an object that hangs on the last of the chain.
    pub(super) fn explain_any(&mut self, index: usize, above: &[ObjectRef]) {
        let object = self.graph.object(index);
        let mut chain = above.to_vec();
        chain.push(object.reference());
        if object.is_terminating() {
            self.explain(index, &chain);
        } else {
            self.live(index, &chain);
        }
    }

    /// Explains a Terminating object, the last of the chain.
    pub(super) fn explain(&mut self, index: usize, chain: &[ObjectRef]) {
        let Some(target) = chain.first() else { return };
        if !self.begin(index) {
            return;
        }
        let graph = self.graph;
        let object = graph.object(index);
        if object.is("", "Namespace") {
            return self.namespace(index, chain);
        }
        if object.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            return self.definition(index, chain);
        }
        let foreground = object.has_finalizer(FOREGROUND_FINALIZER);
        let orphan = object.has_finalizer(ORPHAN_FINALIZER);
        let mut blocked = false;
        for &dependent in graph.dependents(index) {
            let blocks =
                graph.blocks(dependent, &object.uid) && graph.object(dependent).resource.is_collectable();
            if foreground && blocks && dependent == index {
                self.owns_itself(index, chain);
                blocked = true;
            } else if foreground && blocks {
                blocked = true;
                self.explain_any(dependent, chain);
            } else if orphan && !graph.object(dependent).is_terminating() {
                blocked |= self.unorphaned(dependent, chain);
            } else if graph.object(dependent).is_terminating() {
                // It does not hold its owner, but it does not go either.
                self.explain_any(dependent, chain);
            }
        }
        let foreign = object.foreign_finalizers().next().is_some();
        if blocked && !foreign && !object.is("", "Pod") {
            return;
        }
        if !self.examines(index, target) {
            return;
        }
        let mut finding = self.kubelet(index, chain);
        let add = |finding: &mut Option<Finding>, next: Finding| match finding {
            Some(first) => first.then(next),
            None => *finding = Some(next),
        };
        if let Some(next) = self.finalizers(index, chain) {
            add(&mut finding, next);
        }
        if (foreground || orphan)
            && !blocked
            && let Some(next) = self.own_finalizer(index, chain)
            && (finding.is_none() || next.verdict == Verdict::Proven)
        {
            add(&mut finding, next);
        }
        if blocked && finding.is_none() {
            return;
        }
        let mut finding = finding.unwrap_or_else(|| self.undetermined(chain));
        if !foreground && !orphan {
            self.waiting_dependents(index, &mut finding);
        }
        self.say(finding);
    }

    /// Live dependents of a Terminating owner without `foregroundDeletion` are not even marked before it is gone (G4).
    fn waiting_dependents(&mut self, index: usize, finding: &mut Finding) {
        let graph = self.graph;
        let waits = |dependent: usize| {
            !graph.object(dependent).is_terminating()
                && graph.owners(dependent).all(|(_, resolved)| {
                    resolved.owner == Some(index)
                        || resolved.state.is_dangling()
                        || !resolved.state.is_found()
                })
        };
        let waiting: Vec<usize> =
            graph.dependents(index).iter().copied().filter(|dependent| waits(*dependent)).collect();
        let Some(first) = waiting.first() else { return };
        for member in graph.closure(&waiting) {
            if !graph.object(member).is_terminating() {
                self.begin(member);
            }
        }
        finding.also(Cause::DependentsWaitForOwner);
        finding.evidence(
            "dependents",
            format!(
                "{} of its dependents are not marked for deletion, for example {}: they wait until it is gone",
                waiting.len(),
                graph.object(*first).reference().short()
            ),
        );
        if finding.cause != Cause::GracePeriod {
            let place = finding.remedies.len().min(1);
            finding.remedies.insert(place, self.foreground(index));
        }
    }

    /// A live dependent of an owner that is to be orphaned: whether removing its reference is refused (A.3, P4).
    fn unorphaned(&mut self, dependent: usize, above: &[ObjectRef]) -> bool {
        let (Some(target), Some(owner)) = (above.first(), above.last()) else { return false };
        if self.is_explained(dependent) || !self.examines(dependent, target) {
            return true;
        }
        let mut chain = above.to_vec();
        chain.push(self.graph.object(dependent).reference());
        if let Some(mut finding) = self.unreleased(dependent, &chain, owner) {
            finding.also.retain(|cause| *cause != Cause::KeptByOtherOwner);
            self.begin(dependent);
            self.say(finding);
        }
        true
    }

    /// Something makes new dependents as fast as they go (F15): they keep a foreground owner for ever. True if so.
    fn recreated(&mut self, target: &ObjectRef) -> bool {
        let graph = self.graph;
        let Some(&root) = graph.by_uid(&target.uid).first() else { return false };
        let waits = |owner: &usize| {
            graph.object(*owner).is_terminating() && graph.object(*owner).has_finalizer(FOREGROUND_FINALIZER)
        };
        let owners = graph.closure(&[root]).into_iter().filter(waits);
        let Some((owner, newest, later)) = owners.into_iter().find_map(|owner| self.made_anew(owner)) else {
            return false;
        };
        let deleted = graph.object(owner).deleted.unwrap_or_default();
        let example = graph.object(newest).reference();
        let mut chain = self.chain_to(owner);
        if chain.first().is_none_or(|first| first.uid != target.uid) {
            chain = vec![target.clone(), graph.object(owner).reference()];
            chain.dedup();
        }
        let leaf = graph.object(owner).reference();
        let manager = self.maker_of(newest);
        let maker = manager.as_deref().map(|manager| format!(" by {manager}")).unwrap_or_default();
        let mut finding = Finding::new(
            Cause::DependentsRecreated,
            Verdict::Proven,
            &chain,
            &leaf,
            format!(
                "{} is held by dependents that are made anew as fast as they go: {} since its deletion began, the newest \
                 {}{maker}",
                leaf.short(),
                later.len(),
                example.short()
            ),
        )
        .by(Actor { manager, ..Actor::default() });
        let created = graph.object(newest).created.map(|created| created.to_string()).unwrap_or_default();
        finding.evidence(
            format!("metadata.creationTimestamp of {}", example.short()),
            format!("{created}, after the deletionTimestamp {deleted} of {}", leaf.short()),
        );
        finding.remedies.push(Remedy::text("stop the controller that creates them, or scale it down"));
        let stays = "what its controller creates later is collected as soon as it appears";
        finding.remedies.extend(self.background(owner, Some(stays)));
        self.say(finding);
        true
    }

    /// Whether blocking dependents of this owner, all of one kind, come after its deletion began and go again: the
    /// owner, the newest of them, and all their UIDs. What only came late and stays is no such thing (F16).
    fn made_anew(&self, owner: usize) -> Option<(usize, usize, BTreeSet<Uid>)> {
        let graph = self.graph;
        let deleted = graph.object(owner).deleted?;
        let uid = &graph.object(owner).uid;
        let is_late = |dependent: &usize| {
            graph.blocks(*dependent, uid)
                && graph.object(*dependent).created.is_some_and(|created| created > deleted)
        };
        let late: Vec<usize> = graph.dependents(owner).iter().copied().filter(is_late).collect();
        let newest = *late.iter().max_by_key(|dependent| graph.object(**dependent).created)?;
        let like = graph.object(newest).reference();
        let alike = |other: &ObjectRef| other.kind == like.kind && other.namespace == like.namespace;
        let present: Vec<usize> =
            late.into_iter().filter(|dependent| alike(&graph.object(*dependent).reference())).collect();
        let seen = self.case.created_later.iter().filter(|created| alike(created));
        let gone: BTreeSet<Uid> = seen
            .filter(|created| graph.by_uid(&created.uid).is_empty())
            .map(|created| created.uid.clone())
            .collect();
        let going = present.iter().any(|dependent| graph.object(*dependent).is_terminating());
        let mut later: BTreeSet<Uid> =
            present.iter().map(|dependent| graph.object(*dependent).uid.clone()).collect();
        let moves = going || !gone.is_empty();
        later.extend(gone);
        (later.len() >= 2 && moves).then_some((owner, newest, later))
    }

    /// Who created an object, or one like it: the object itself may be gone again already.
    fn maker_of(&mut self, index: usize) -> Option<String> {
        let first_manager = |whole: &Value| {
            let entries = whole["metadata"]["managedFields"].as_array()?;
            entries.first()?["manager"].as_str().map(str::to_owned)
        };
        if let Some(whole) = self.whole(index) {
            return first_manager(whole);
        }
        let object = self.graph.object(index);
        let collection = object.resource.collection_path(object.namespace.as_deref());
        let list = self.read(format!("{collection}?limit=500"))?;
        let owners: Vec<&str> = object.owners.iter().map(|owner| owner.uid.as_str()).collect();
        let alike = list["items"].as_array()?.iter().filter(|item| {
            let references = item["metadata"]["ownerReferences"].as_array();
            references
                .into_iter()
                .flatten()
                .any(|owner| owner["uid"].as_str().is_some_and(|uid| owners.contains(&uid)))
        });
        let newest =
            alike.max_by_key(|item| item["metadata"]["creationTimestamp"].as_str().map(str::to_owned))?;
        first_manager(newest)
    }

    /// The last of the chain moves: nothing else is said.
    pub(super) fn progressing(&mut self, chain: &[ObjectRef]) {
        let Some(target) = chain.last() else { return };
        let Some(pace) = self.case.moving.get(&target.uid).copied() else { return };
        let rest = match pace.per_second {
            Some(rate) if rate > 0.0 => {
                let seconds = (pace.left as f64 / rate).ceil() as i64;
                format!(", at {rate:.1} a second: about {} more", super::inquiry::span(seconds))
            }
            _ => String::new(),
        };
        let mut finding = Finding::new(
            Cause::Progressing,
            Verdict::Proven,
            chain,
            target,
            match pace.left {
                1 => format!("the deletion of {} moves: 1 object is left{rest}", target.short()),
                left => format!("the deletion of {} moves: {left} objects are left{rest}", target.short()),
            },
        );
        finding.remedies.push(Remedy::text("wait"));
        self.say(finding);
    }

    /// Everything was checked and nothing found.
    fn undetermined(&self, chain: &[ObjectRef]) -> Finding {
        let leaf = chain.last().or(chain.first()).cloned();
        let leaf = leaf.unwrap_or_else(|| self.case.targets[0].clone());
        let mut finding = Finding::new(
            Cause::Undetermined,
            Verdict::Unknown,
            chain,
            &leaf,
            format!("why {} does not go could not be determined", leaf.short()),
        );
        finding
            .evidence("checked", "grace period and node, finalizers, blocking dependents, ownerReferences");
        finding
    }

    /// The path from a target to this object through its owners; the object alone where no target is above it.
    pub(super) fn chain_to(&self, index: usize) -> Vec<ObjectRef> {
        let graph = self.graph;
        let is_target = |uid: &Uid| self.case.targets.iter().find(|target| target.uid == *uid);
        // Breadth first upwards; each visited object remembers from where it was reached.
        let mut from: std::collections::BTreeMap<usize, Option<usize>> = [(index, None)].into();
        let mut queue = std::collections::VecDeque::from([index]);
        let mut top = None;
        while let Some(current) = queue.pop_front() {
            if is_target(&graph.object(current).uid).is_some() {
                top = Some((current, None));
                break;
            }
            for (reference, _) in graph.owners(current) {
                if let Some(target) =
                    is_target(&reference.uid).filter(|_| graph.by_uid(&reference.uid).is_empty())
                {
                    top = Some((current, Some(target.clone())));
                }
                for &owner in graph.by_uid(&reference.uid) {
                    if let std::collections::btree_map::Entry::Vacant(entry) = from.entry(owner) {
                        entry.insert(Some(current));
                        queue.push_back(owner);
                    }
                }
            }
            if top.is_some() {
                break;
            }
        }
        let Some((mut current, gone)) = top else { return vec![graph.object(index).reference()] };
        let mut chain: Vec<ObjectRef> = gone.into_iter().collect();
        loop {
            chain.push(graph.object(current).reference());
            match from.get(&current).copied().flatten() {
                Some(below) => current = below,
                None => return chain,
            }
        }
    }

    /// Whether this object hangs on a target that moves.
    fn is_below_moving(&self, index: usize) -> bool {
        let chain = self.chain_to(index);
        chain.first().is_some_and(|first| self.case.moving.contains_key(&first.uid))
    }
}
