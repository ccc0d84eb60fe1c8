//! `--keep`: a dependent that should survive loses its ownerReferences to what goes, before anything goes. Which
//! references those are, and what the delete does then.

use std::collections::{BTreeMap, BTreeSet};

use super::command::Caller;
use super::forecast::{Entry, Fate, Forecast, Warning, forecast};
use super::graph::{OwnerGraph, OwnerState};
use super::object::{Object, Uid};
use super::policy::DeleteWish;
use crate::error::Failure;

/// The references that one object loses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its index in the graph.
    pub object: usize,
    /// The owners that it no longer refers to.
    pub owners: BTreeSet<Uid>,
    /// The one of them that is its living controller, as `Kind/name`: it may want it back.
    pub controller: Option<String>,
}

/// What is kept, and how.
#[derive(Debug, Clone, Default)]
pub struct Keeping {
    /// The references that are removed, an entry for each object to keep.
    pub removals: Vec<Removal>,
    /// The graph without them.
    without: Option<OwnerGraph>,
}

impl Keeping {
    /// Finds the references that the objects in `keep` must lose to survive this delete.
    ///
    /// # Errors
    /// Usage where one of them survives anyway, or cannot be saved: it is a target, is being deleted already, or goes with
    /// its container whatever it refers to.
    pub fn new(
        graph: &OwnerGraph,
        targets: &[usize],
        wish: impl Into<DeleteWish>,
        keep: &[usize],
        caller: &Caller,
    ) -> Result<Self, Failure> {
        let wish = wish.into();
        if keep.is_empty() {
            return Ok(Self::default());
        }
        let plan = forecast(graph, targets, wish);
        for index in keep {
            check(graph, &plan, *index, keep)?;
        }
        let all = removals(graph, keep, &doomed(&plan));
        // What hangs below one that is kept is kept with it, and need not lose that reference.
        let needed = removals(graph, keep, &doomed(&forecast(&without(graph, &all), targets, wish)));
        for removals in [needed, all] {
            let after = without(graph, &removals);
            let doomed = doomed(&forecast(&after, targets, wish));
            if keep.iter().all(|index| !doomed.contains(index)) {
                return Ok(Self { removals, without: Some(after) });
            }
        }
        let names: Vec<String> = keep.iter().map(|index| graph.object(*index).reference().short()).collect();
        let export = keep
            .iter()
            .map(|index| caller.command_on("kubectl get", graph.object(*index), &["-o", "yaml"]))
            .collect::<Vec<_>>();
        Err(Failure::usage(format!(
            "--keep cannot save {}: it goes whatever it refers to, with its Namespace, its definition, or as it is already \
             without a living owner",
            names.join(", ")
        ))
        .hint(format!("export it first: {}", export.join("  and  "))))
    }

    /// The forecast of the delete, once the references are gone. With nothing to keep it is the plain one.
    pub fn forecast(&self, graph: &OwnerGraph, targets: &[usize], wish: impl Into<DeleteWish>) -> Forecast {
        let graph = self.without.as_ref().unwrap_or(graph);
        let mut plan = forecast(graph, targets, wish);
        for removal in &self.removals {
            let entry = Entry {
                object: removal.object,
                fate: Fate::Orphaned,
                certain: true,
                otherwise: Vec::new(),
                held_by: Vec::new(),
                reason: "--keep: loses its owner first".to_owned(),
            };
            match plan.entries.iter_mut().find(|entry| entry.object == removal.object) {
                Some(own) => *own = entry,
                None => plan.entries.push(entry),
            }
            if let Some(controller) = &removal.controller {
                plan.warnings.push(adoption(graph.object(removal.object), controller));
            }
        }
        let kept: Vec<usize> = self.removals.iter().map(|removal| removal.object).collect();
        for below in graph.closure(&kept) {
            let object = graph.object(below);
            if plan.entry(below).is_none() && !object.is_terminating() {
                plan.entries.push(Entry {
                    object: below,
                    fate: Fate::Kept,
                    certain: true,
                    otherwise: Vec::new(),
                    held_by: Vec::new(),
                    reason: "what --keep saves owns it".to_owned(),
                });
            }
        }
        plan
    }

    /// The references are gone: gives the graph that tells so.
    pub fn take_graph(&mut self) -> Option<OwnerGraph> {
        self.without.take()
    }
}

/// A controller that finds an object without an owner, but with the labels that it looks for, makes it its own again
/// (`kubernetes/pkg/controller/controller_ref_manager.go`, ClaimObject).
fn adoption(object: &Object, controller: &str) -> Warning {
    Warning {
        code: "may-be-adopted-again".to_owned(),
        message: format!(
            "{} is to be kept, but {controller} controls it and may make it its own again; then nothing is deleted",
            object.reference().short()
        ),
        object: Some(object.reference()),
    }
}

/// The kinds whose controllers adopt whatever has their labels, at once and always while they are not being deleted. (A
/// Job does so only until it is finished.)
const ADOPTERS: [(&str, &str); 5] = [
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("", "ReplicationController"),
];

/// The living controller of an object that would take it back at once, unless it is kept, too.
fn adopter<'a>(graph: &'a OwnerGraph, index: usize, keep: &[usize]) -> Option<&'a Object> {
    graph
        .owners(index)
        .filter(|(reference, resolved)| reference.controller && resolved.state == OwnerState::Live)
        .filter_map(|(_, resolved)| resolved.owner.filter(|owner| !keep.contains(owner)))
        .map(|owner| graph.object(owner))
        .find(|owner| ADOPTERS.iter().any(|(group, kind)| owner.is(group, kind)))
}

fn doomed(plan: &Forecast) -> BTreeSet<usize> {
    let goes = |entry: &&Entry| {
        let fates = [entry.fate].into_iter().chain(entry.otherwise.iter().copied());
        fates.into_iter().any(|fate| fate.is_doomed() || fate == Fate::CollectedAnyway)
    };
    plan.entries.iter().filter(goes).map(|entry| entry.object).collect()
}

/// Whether the delete takes this object, so that there is something to save.
fn check(graph: &OwnerGraph, plan: &Forecast, index: usize, keep: &[usize]) -> Result<(), Failure> {
    let object = graph.object(index);
    let short = object.reference().short();
    if plan.targets.contains(&index) {
        return Err(Failure::usage(format!("--keep {short}: that is what is to be deleted"))
            .hint("leave it out of the targets, or leave --keep out"));
    }
    if object.is_terminating() {
        return Err(Failure::usage(format!(
            "--keep {short}: it is being deleted already, and nothing can undo that"
        ))
        .hint("leave --keep out"));
    }
    if let Some(entry) = plan.entry(index)
        && let Some(owner) = adopter(graph, index, keep)
        && entry.fate.is_doomed()
    {
        let owner = owner.reference().short();
        return Err(Failure::usage(format!(
            "--keep {short}: {owner} controls it and would make it its own again at once"
        ))
        .hint(format!(
            "change the labels by which {owner} finds it: it is let go then and needs no --keep; or use --policy orphan"
        )));
    }
    match plan.entry(index) {
        None => Err(not_taken(&short, "it does not depend on what is to be deleted")),
        Some(entry) if doomed(plan).contains(&index) && entry.fate != Fate::CollectedAnyway => Ok(()),
        Some(entry) => Err(not_taken(&short, &format!("{}: {}", entry.fate.as_str(), entry.reason))),
    }
}

/// The failure for something to keep that the delete would not take.
pub fn not_taken(short: &str, why: &str) -> Failure {
    Failure::usage(format!("--keep {short}: the delete would not take it ({why})"))
        .hint("leave --keep out, or see with --dry-run what would go")
}

/// What each of these must lose: its references to owners that go, and those that lead nowhere or to an owner that is
/// going for another reason, for with these alone the collector would delete it. References among the kept ones stay.
fn removals(graph: &OwnerGraph, keep: &[usize], doomed: &BTreeSet<usize>) -> Vec<Removal> {
    let removal = |index: &usize| {
        let goes = |state: OwnerState, owner: Option<usize>| {
            let kept = owner.is_some_and(|owner| keep.contains(&owner));
            let going =
                owner.is_some_and(|owner| doomed.contains(&owner)) || state == OwnerState::Terminating;
            !kept && (going || state.is_dangling())
        };
        let gone: Vec<_> =
            graph.owners(*index).filter(|(_, resolved)| goes(resolved.state, resolved.owner)).collect();
        Removal {
            object: *index,
            owners: gone.iter().map(|(reference, _)| reference.uid.clone()).collect(),
            controller: gone
                .iter()
                .find(|(reference, resolved)| reference.controller && resolved.state == OwnerState::Live)
                .map(|(reference, _)| format!("{}/{}", reference.kind, reference.name)),
        }
    };
    keep.iter().map(removal).collect()
}

/// The graph without these references. Every object keeps its index: the order does not depend on references.
fn without(graph: &OwnerGraph, removals: &[Removal]) -> OwnerGraph {
    let removed: BTreeMap<usize, &BTreeSet<Uid>> =
        removals.iter().map(|removal| (removal.object, &removal.owners)).collect();
    let mut snapshot = graph.snapshot().clone();
    for (index, object) in snapshot.objects.iter_mut().enumerate() {
        if let Some(owners) = removed.get(&index) {
            let left = object.owners.iter().filter(|reference| !owners.contains(&reference.uid));
            object.owners = left.cloned().collect();
        }
    }
    OwnerGraph::new(snapshot)
}

#[cfg(test)]
mod tests {
    use super::super::policy::Policy;
    use super::super::testing::{at, graph, label};
    use super::*;
    use crate::error::FailureKind;

    /// Fates as `Kind/name fate`, and what each kept object loses as `Kind/name - UID...`.
    fn kept(text: &str, keep: &[&str], policy: Policy) -> Result<(Vec<String>, Vec<String>), Failure> {
        let graph = graph(text);
        let at_all = |names: &[&str]| names.iter().map(|name| at(&graph, name)).collect::<Vec<_>>();
        let target = at(&graph, "ConfigMap/t");
        let keeping = Keeping::new(&graph, &[target], policy, &at_all(keep), &Caller::default())?;
        let plan = keeping.forecast(&graph, &[target], policy);
        let mut fates: Vec<String> = plan
            .entries
            .iter()
            .map(|entry| format!("{} {}", label(graph.object(entry.object)), entry.fate.as_str()))
            .collect();
        fates.sort();
        let losses = keeping
            .removals
            .iter()
            .map(|removal| {
                let owners: Vec<&str> = removal.owners.iter().map(Uid::as_str).collect();
                format!("{} - {}", label(graph.object(removal.object)), owners.join(", "))
            })
            .collect();
        Ok((fates, losses))
    }

    fn refused(text: &str, keep: &str) -> Failure {
        let failure = kept(text, &[keep], Policy::Background).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.hint.is_some());
        failure
    }

    #[test]
    fn what_is_kept_is_orphaned_and_all_below_it_stays() {
        let text = "ConfigMap/t\nConfigMap/k <- ConfigMap/t!\nSecret/below <- ConfigMap/k\nSecret/goes <- ConfigMap/t";
        for policy in [Policy::Background, Policy::Foreground] {
            let (fates, losses) = kept(text, &["ConfigMap/k"], policy).unwrap();
            assert_eq!(
                fates,
                ["ConfigMap/k orphaned", "ConfigMap/t deleted", "Secret/below kept", "Secret/goes deleted"]
            );
            assert_eq!(losses, ["ConfigMap/k - ConfigMap/t"]);
        }
    }

    #[test]
    fn a_kept_blocker_no_longer_holds_its_foreground_owner() {
        let text = "ConfigMap/t\nConfigMap/k finalizer=a/b <- ConfigMap/t!";
        let (fates, _) = kept(text, &["ConfigMap/k"], Policy::Foreground).unwrap();
        assert_eq!(fates, ["ConfigMap/k orphaned", "ConfigMap/t deleted"]);
    }

    #[test]
    fn it_loses_every_reference_that_would_doom_it_and_no_other() {
        let text = "ConfigMap/t
                    ConfigMap/m <- ConfigMap/t
                    ConfigMap/alive
                    ConfigMap/going terminating finalizer=a/b
                    ConfigMap/k <- ConfigMap/t, ConfigMap/m, ConfigMap/gone@u9, ConfigMap/going";
        let (_, losses) = kept(text, &["ConfigMap/k"], Policy::Background).unwrap();
        assert_eq!(losses, ["ConfigMap/k - ConfigMap/going, ConfigMap/m, ConfigMap/t, u9"]);
    }

    #[test]
    fn what_hangs_below_a_kept_one_keeps_its_reference_to_it() {
        let text = "ConfigMap/t
                    ConfigMap/a <- ConfigMap/t
                    ConfigMap/b <- ConfigMap/a
                    ConfigMap/c <- ConfigMap/b";
        let (fates, losses) = kept(text, &["ConfigMap/a", "ConfigMap/c"], Policy::Background).unwrap();
        assert_eq!(losses, ["ConfigMap/a - ConfigMap/t", "ConfigMap/c - "]);
        assert_eq!(
            fates,
            ["ConfigMap/a orphaned", "ConfigMap/b kept", "ConfigMap/c orphaned", "ConfigMap/t deleted"]
        );
    }

    #[test]
    fn what_the_delete_would_not_take_is_a_usage_error() {
        let text = "ConfigMap/t
                    ConfigMap/alive
                    ConfigMap/shared <- ConfigMap/t, ConfigMap/alive
                    ConfigMap/going terminating finalizer=a/b <- ConfigMap/t
                    ConfigMap/dangling <- ConfigMap/t@u9";
        assert!(refused(text, "ConfigMap/alive").message.contains("does not depend on"));
        assert!(refused(text, "ConfigMap/shared").message.contains("kept: owned by ConfigMap/alive"));
        assert!(refused(text, "ConfigMap/t").message.contains("that is what is to be deleted"));
        assert!(refused(text, "ConfigMap/going").message.contains("being deleted already"));
        assert!(refused(text, "ConfigMap/dangling").message.contains("does not depend on"));
        let orphaned = kept("ConfigMap/t\nConfigMap/k <- ConfigMap/t", &["ConfigMap/k"], Policy::Orphan);
        assert!(orphaned.unwrap_err().message.contains("orphaned"));
    }

    #[test]
    fn the_content_of_a_namespace_cannot_be_kept() {
        let graph = graph("Namespace/x\nConfigMap/a\nConfigMap/b <- ConfigMap/a");
        let (target, keep) = (at(&graph, "Namespace/x"), at(&graph, "ConfigMap/b"));
        let failure =
            Keeping::new(&graph, &[target], Policy::Background, &[keep], &Caller::default()).unwrap_err();
        assert!(failure.message.contains("--keep cannot save ConfigMap/b"), "{}", failure.message);
    }

    #[test]
    fn whoever_may_want_it_back_is_warned_about() {
        let graph = graph("ConfigMap/t\nConfigMap/k <- ConfigMap/t*\nSecret/s <- ConfigMap/t");
        let (target, k, s) = (at(&graph, "ConfigMap/t"), at(&graph, "ConfigMap/k"), at(&graph, "Secret/s"));
        let keeping =
            Keeping::new(&graph, &[target], Policy::Background, &[k, s], &Caller::default()).unwrap();
        let plan = keeping.forecast(&graph, &[target], Policy::Background);
        let about: Vec<_> = plan
            .warnings
            .iter()
            .filter(|warning| warning.code == "may-be-adopted-again")
            .filter_map(|warning| warning.object.as_ref().map(|object| object.short()))
            .collect();
        assert_eq!(about, ["ConfigMap/k"]);
    }

    #[test]
    fn what_its_controller_would_take_back_at_once_cannot_be_kept() {
        let text =
            "ConfigMap/t\nReplicaSet/r <- ConfigMap/t*\nPod/p <- ReplicaSet/r!*\nSecret/s <- ReplicaSet/r";
        let failure = refused(text, "Pod/p");
        assert!(failure.message.contains("ReplicaSet/r controls it"), "{}", failure.message);
        assert!(failure.hint.unwrap().contains("labels"));
        for free in ["ReplicaSet/r", "Secret/s"] {
            assert!(kept(text, &[free], Policy::Background).is_ok(), "{free}");
        }
        let going =
            "ConfigMap/t\nReplicaSet/r terminating finalizer=a/b <- ConfigMap/t\nPod/p <- ReplicaSet/r!*";
        assert!(kept(going, &["Pod/p"], Policy::Background).is_ok(), "what is being deleted adopts nothing");
    }

    #[test]
    fn with_nothing_to_keep_the_forecast_is_the_plain_one() {
        let graph = graph("ConfigMap/t\nConfigMap/k <- ConfigMap/t");
        let target = at(&graph, "ConfigMap/t");
        let keeping = Keeping::new(&graph, &[target], Policy::Background, &[], &Caller::default()).unwrap();
        let plain = forecast(&graph, &[target], Policy::Background);
        assert_eq!(keeping.forecast(&graph, &[target], Policy::Background).entries, plain.entries);
    }
}
