//! In which order `--assist` may send the deletes that the collector would send: the same objects, and never before
//! their turn. Background goes top-down, each object once its owners are gone; foreground bottom-up, each once its
//! doomed dependents are gone, and the targets last: all that the collector has left to do for them then is to take
//! `foregroundDeletion` off, and in its queue that stands behind everything that is gone already.

use std::collections::{BTreeMap, BTreeSet};

use super::forecast::{Fate, Forecast, Holder};
use super::graph::OwnerGraph;
use super::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, Uid};
use super::policy::Policy;

/// The order of the deletes.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// The objects that we may delete, as the forecast saw them.
    mine: BTreeMap<Uid, Object>,
    /// Whose end each of them still awaits.
    awaits: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Who awaits whose end.
    awaited_by: BTreeMap<Uid, Vec<Uid>>,
    /// Targets of a foreground deletion, which are deleted already.
    last: BTreeSet<Uid>,
    policy: Option<Policy>,
}

impl Order {
    /// The order for this forecast. Only objects that certainly go without help, or wait for a kubelet alone, are
    /// ours; neither is what a Namespace or a definition takes along by itself. Under `orphan` nothing is.
    pub fn new(graph: &OwnerGraph, forecast: &Forecast) -> Self {
        let mut order = Self { policy: Some(forecast.policy), ..Self::default() };
        if forecast.policy == Policy::Orphan {
            return order;
        }
        let fates: BTreeMap<usize, Fate> =
            forecast.entries.iter().map(|entry| (entry.object, entry.fate)).collect();
        let doomed = |index: usize| fates.get(&index).is_some_and(|fate| fate.is_doomed());
        let targets: BTreeSet<usize> = forecast.targets.iter().copied().collect();
        for entry in &forecast.entries {
            let waits_for_kubelet = entry.held_by.iter().all(|holder| matches!(holder, Holder::Node(_)));
            let goes = entry.fate == Fate::Deleted || (entry.fate == Fate::Held && waits_for_kubelet);
            let object = graph.object(entry.object);
            let owned = graph.owners(entry.object).any(|(_, resolved)| resolved.owner.is_some_and(doomed));
            if !goes || !entry.certain || !owned || targets.contains(&entry.object) || object.is_terminating()
            {
                continue;
            }
            let awaited: BTreeSet<Uid> = match forecast.policy {
                Policy::Background => {
                    let owners = graph.owners(entry.object).filter_map(|(_, resolved)| resolved.owner);
                    owners
                        .filter(|owner| doomed(*owner))
                        .map(|owner| graph.object(owner).uid.clone())
                        .collect()
                }
                _ => {
                    let dependents = graph.dependents(entry.object).iter().copied();
                    dependents
                        .filter(|index| doomed(*index))
                        .map(|index| graph.object(index).uid.clone())
                        .collect()
                }
            };
            order.add(object, awaited);
        }
        if forecast.policy == Policy::Foreground {
            order.add_targets(graph, forecast);
        }
        order
    }

    /// A target of a foreground deletion may go once every other object of the plan that goes is gone.
    fn add_targets(&mut self, graph: &OwnerGraph, forecast: &Forecast) {
        let is_target = |index: usize| forecast.targets.contains(&index);
        let others: BTreeSet<Uid> = forecast
            .entries
            .iter()
            .filter(|entry| entry.fate.is_doomed() && !is_target(entry.object))
            .map(|entry| graph.object(entry.object).uid.clone())
            .collect();
        for entry in forecast.entries.iter().filter(|entry| is_target(entry.object)) {
            let object = graph.object(entry.object);
            let goes_by_itself = entry.fate == Fate::Deleted && entry.certain && !object.is_terminating();
            if goes_by_itself && !others.is_empty() {
                self.last.insert(object.uid.clone());
                self.add(object, others.clone());
            }
        }
    }

    fn add(&mut self, object: &Object, awaited: BTreeSet<Uid>) {
        for uid in &awaited {
            self.awaited_by.entry(uid.clone()).or_default().push(object.uid.clone());
        }
        self.awaits.insert(object.uid.clone(), awaited);
        self.mine.insert(object.uid.clone(), object.clone());
    }

    /// Whether this is a target that is deleted already, and only waits for `foregroundDeletion` to be taken off.
    pub fn is_last(&self, object: &Object) -> bool {
        self.last.contains(&object.uid)
    }

    /// What may be deleted at once.
    pub fn first(&self) -> Vec<Object> {
        let ready = self.awaits.iter().filter(|(_, awaited)| awaited.is_empty());
        ready.map(|(uid, _)| self.mine[uid].clone()).collect()
    }

    /// What may be deleted now that this object is gone.
    pub fn after(&mut self, gone: &Uid) -> Vec<Object> {
        let mut ready = Vec::new();
        for waiting in self.awaited_by.remove(gone).unwrap_or_default() {
            let Some(awaited) = self.awaits.get_mut(&waiting) else { continue };
            if awaited.remove(gone) && awaited.is_empty() {
                ready.push(self.mine[&waiting].clone());
            }
        }
        ready
    }

    /// The policy that the collector would send for this object, now that it is its turn: a pre-set finalizer is
    /// honoured under background (`garbagecollector.go`, attemptToDeleteItem), and below a foreground owner it is
    /// stripped (`collector-rules.md`, 9), when no dependent is left that it could matter to.
    pub fn policy_for(&self, object: &Object) -> Policy {
        match self.policy {
            Some(Policy::Background) if object.has_finalizer(ORPHAN_FINALIZER) => Policy::Orphan,
            Some(Policy::Background) if object.has_finalizer(FOREGROUND_FINALIZER) => Policy::Foreground,
            _ => Policy::Background,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::forecast::forecast;
    use super::super::testing::{at, graph, label};
    use super::*;

    fn order(text: &str, target: &str, policy: Policy) -> (OwnerGraph, Order) {
        let graph = graph(text);
        let order = Order::new(&graph, &forecast(&graph, &[at(&graph, target)], policy));
        (graph, order)
    }

    fn labels(objects: &[Object]) -> Vec<String> {
        objects.iter().map(label).collect()
    }

    const CHAIN: &str = "ConfigMap/top\nConfigMap/mid <- ConfigMap/top!\nSecret/leaf <- ConfigMap/mid!";

    #[test]
    fn background_goes_top_down_once_the_root_is_gone() {
        let (_, mut order) = order(CHAIN, "ConfigMap/top", Policy::Background);
        assert!(order.first().is_empty());
        assert_eq!(labels(&order.after(&"ConfigMap/top".into())), ["ConfigMap/mid"]);
        assert_eq!(labels(&order.after(&"ConfigMap/mid".into())), ["Secret/leaf"]);
    }

    #[test]
    fn foreground_goes_bottom_up_and_the_target_when_all_else_is_gone() {
        let (_, mut order) = order(CHAIN, "ConfigMap/top", Policy::Foreground);
        assert_eq!(labels(&order.first()), ["Secret/leaf"]);
        assert_eq!(labels(&order.after(&"Secret/leaf".into())), ["ConfigMap/mid"]);
        let last = order.after(&"ConfigMap/mid".into());
        assert_eq!(labels(&last), ["ConfigMap/top"]);
        assert!(order.is_last(&last[0]));
    }

    #[test]
    fn a_foreground_target_with_a_finalizer_of_its_own_or_beside_something_held_is_left_to_the_collector() {
        for text in [
            "ConfigMap/o finalizer=a/h\nSecret/d <- ConfigMap/o!",
            "ConfigMap/o\nSecret/d <- ConfigMap/o!\nSecret/held finalizer=a/h <- ConfigMap/o",
        ] {
            let (_, mut order) = order(text, "ConfigMap/o", Policy::Foreground);
            assert_eq!(labels(&order.first()), ["Secret/d"]);
            assert!(order.after(&"Secret/d".into()).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_kept_held_or_uncertain_is_left_to_the_collector() {
        let text = "ConfigMap/o\nConfigMap/b
                    Secret/kept <- ConfigMap/o!, ConfigMap/b
                    Secret/held finalizer=a/h <- ConfigMap/o!
                    Pod/p node=n1 <- ConfigMap/o!";
        let (_, mut order) = order(text, "ConfigMap/o", Policy::Background);
        assert_eq!(
            labels(&order.after(&"ConfigMap/o".into())),
            ["Pod/p"],
            "a Pod that a kubelet holds goes, too"
        );
    }

    #[test]
    fn an_object_with_two_doomed_owners_waits_for_both() {
        let text = "ConfigMap/o\nConfigMap/a <- ConfigMap/o\nConfigMap/b <- ConfigMap/o\nSecret/d <- ConfigMap/a, ConfigMap/b";
        let (_, mut order) = order(text, "ConfigMap/o", Policy::Background);
        assert_eq!(order.after(&"ConfigMap/o".into()).len(), 2);
        assert!(order.after(&"ConfigMap/a".into()).is_empty());
        assert_eq!(labels(&order.after(&"ConfigMap/b".into())), ["Secret/d"]);
    }

    #[test]
    fn orphan_has_nothing_to_assist() {
        let (_, order) = order(CHAIN, "ConfigMap/top", Policy::Orphan);
        assert!(order.first().is_empty());
    }
}
