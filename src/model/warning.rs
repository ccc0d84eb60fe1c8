//! What a person should know before saying yes: what the fates of a forecast mean, where that surprises people.

use std::collections::{BTreeMap, BTreeSet};

use super::collector::is_holding_finalizer;
use super::forecast::{Fate, Forecast, Warning, grace_period, some_of};
use super::graph::{OwnerGraph, OwnerState};
use super::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, PodDetails};
use super::policy::{DeleteWish, Policy};

/// So many names stand in one sentence.
const MOST_NAMES: usize = 3;

/// The Namespaces that the server's admission never lets anybody delete
/// (`apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`; the list is given by
/// `pkg/kubeapiserver/options/admission.go`).
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The warnings of a forecast, in the order of their weight.
pub fn warnings(graph: &OwnerGraph, forecast: &Forecast, wish: DeleteWish) -> Vec<Warning> {
    let fates = forecast.entries.iter().map(|entry| (entry.object, entry.fate)).collect();
    let mut plan = Plan { graph, forecast, wish, fates, warnings: Vec::new() };
    plan.immortal_namespaces();
    plan.what_is_created_again();
    plan.wishes_that_are_dropped();
    plan.finalizers_that_protect_no_dependents();
    plan.dependents_that_go_before_containers();
    plan.claims_of_stateful_sets();
    plan.containers();
    plan.pods_on_nodes();
    plan.pods_that_keep_running();
    plan.data();
    plan.gaps();
    plan.warnings
}

/// What a controller does when its dependent is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    /// Makes it again.
    AtOnce,
    /// Makes others at their time.
    OnSchedule,
    /// It could not be read.
    Perhaps,
}

struct Plan<'a> {
    graph: &'a OwnerGraph,
    forecast: &'a Forecast,
    wish: DeleteWish,
    fates: BTreeMap<usize, Fate>,
    warnings: Vec<Warning>,
}

impl Plan<'_> {
    fn warn(&mut self, code: &str, message: String, object: Option<usize>) {
        let object = object.map(|index| self.graph.object(index).reference());
        self.warnings.push(Warning { code: code.to_owned(), message, object });
    }

    fn is_doomed(&self, index: usize) -> bool {
        self.fates.get(&index).is_some_and(|fate| fate.is_doomed())
    }

    fn dooms_a_dependent_of(&self, index: usize) -> bool {
        self.graph.dependents(index).iter().any(|dependent| self.is_doomed(*dependent))
    }

    fn short(&self, index: usize) -> String {
        self.graph.object(index).reference().short()
    }

    fn names(&self, objects: &[usize]) -> String {
        let names: Vec<String> = objects.iter().map(|index| self.short(*index)).collect();
        some_of(&names, MOST_NAMES)
    }

    fn pod(&self, index: usize) -> Option<&PodDetails> {
        self.graph.snapshot().details.pods.get(&self.graph.object(index).uid)
    }

    /// The server refuses their DELETE: nothing of the forecast comes true.
    fn immortal_namespaces(&mut self) {
        for target in self.forecast.targets.clone() {
            let object = self.graph.object(target);
            if object.is("", "Namespace") && IMMORTAL.contains(&object.name.as_str()) {
                let message = format!(
                    "the server never lets {} be deleted: it will refuse, and nothing goes",
                    self.short(target)
                );
                self.warn("namespace-immortal", message, Some(target));
            }
        }
    }

    /// A living controller makes another one as soon as this one is gone (reference G11).
    fn what_is_created_again(&mut self) {
        let mut controlled: BTreeMap<(String, Again, String), Vec<usize>> = BTreeMap::new();
        for target in &self.forecast.targets {
            let object = self.graph.object(*target);
            let finished = self.pod(*target).is_some_and(|pod| pod.finished);
            for (reference, resolved) in self.graph.owners(*target) {
                // What a finished Pod of a Job did is counted already (`pkg/controller/job/job_controller.go`).
                let is_done = finished && reference.kind == "Job";
                let goes_too = resolved.owner.is_some_and(|owner| self.is_doomed(owner));
                if !reference.controller || is_done || goes_too {
                    continue;
                }
                let again = match resolved.state {
                    OwnerState::Live if reference.kind == "CronJob" && object.is("batch", "Job") => {
                        Again::OnSchedule
                    }
                    OwnerState::Live => Again::AtOnce,
                    OwnerState::Unknown => Again::Perhaps,
                    _ => continue,
                };
                let owner = format!("{}/{}", reference.kind, reference.name);
                // To delete a controller that another one makes again helps nothing.
                let top = resolved.owner.map(|owner| self.graph.topmost_controller(owner));
                let above = match top.filter(|top| Some(*top) != resolved.owner && !self.is_doomed(*top)) {
                    Some(top) => format!("{}, which controls that, instead", self.short(top)),
                    None => "that instead".to_owned(),
                };
                controlled.entry((owner, again, above)).or_default().push(*target);
            }
        }
        for ((owner, again, instead), targets) in controlled {
            let one = targets.len() == 1;
            let (is, it) = if one { ("is", "it") } else { ("are", "they") };
            let end = match again {
                Again::AtOnce => {
                    format!("which is alive: {it} will be created again; delete {instead}")
                }
                Again::OnSchedule => {
                    format!(
                        "which is alive: it starts new Jobs on its schedule; delete {instead} to stop them"
                    )
                }
                Again::Perhaps => {
                    format!("which could not be read: if that is alive, {it} will be created again")
                }
            };
            let message = format!("{} {is} controlled by {owner}, {end}", self.names(&targets));
            self.warn("will-be-recreated", message, targets.first().copied().filter(|_| one));
        }
    }

    /// The policy of a DELETE outranks what is set on the object beforehand (reference A.1; collector rules 9 and 11).
    fn wishes_that_are_dropped(&mut self) {
        let policy = self.forecast.policy;
        for target in self.forecast.targets.clone() {
            let object = self.graph.object(target);
            if policy == Policy::Background
                && object.has_finalizer(FOREGROUND_FINALIZER)
                && !object.is_terminating()
            {
                let message = format!(
                    "{} asks for a foreground deletion by its finalizer; background drops that wish (--policy foreground honours it)",
                    self.short(target)
                );
                self.warn("foreground-wish-dropped", message, Some(target));
            }
        }
        let asks_to_orphan: Vec<usize> = self
            .forecast
            .entries
            .iter()
            .map(|entry| entry.object)
            .filter(|index| {
                let object = self.graph.object(*index);
                object.has_finalizer(ORPHAN_FINALIZER)
                    && !object.is_terminating()
                    && policy != Policy::Orphan
                    && self.is_doomed(*index)
                    && self.dooms_a_dependent_of(*index)
            })
            .collect();
        for index in asks_to_orphan {
            let way_out =
                if self.forecast.targets.contains(&index) { " (--policy orphan honours it)" } else { "" };
            let message = format!(
                "{} asks by its finalizer that its dependents stay; {} drops that wish, and they go{way_out}",
                self.short(index),
                policy.as_str()
            );
            self.warn("orphan-wish-dropped", message, Some(index));
        }
    }

    fn finalizers_that_protect_no_dependents(&mut self) {
        if self.forecast.policy != Policy::Foreground {
            return;
        }
        for target in self.forecast.targets.clone() {
            let holds = self.graph.object(target).foreign_finalizers().any(is_holding_finalizer);
            if holds && self.dooms_a_dependent_of(target) {
                let message = format!(
                    "the finalizer of {} does not protect its dependents under foreground: they are deleted at once",
                    self.short(target)
                );
                self.warn("finalizer-does-not-protect-dependents", message, Some(target));
            }
        }
    }

    /// In foreground the collector deletes a Pod's dependents while its kubelet still stops it (cases, fact 4).
    fn dependents_that_go_before_containers(&mut self) {
        if self.forecast.policy != Policy::Foreground {
            return;
        }
        // Where a race decides, it may.
        let goes_at_once: BTreeSet<usize> = self
            .forecast
            .entries
            .iter()
            .filter(|entry| {
                let at_once = |fate: &Fate| matches!(fate, Fate::Deleted | Fate::Held);
                at_once(&entry.fate) || entry.otherwise.iter().any(at_once)
            })
            .map(|entry| entry.object)
            .collect();
        let (mut pods, mut grace) = (Vec::new(), 0);
        for entry in self.forecast.entries.iter().filter(|entry| entry.fate.is_doomed()) {
            let Some(pod) = self.pod(entry.object) else { continue };
            let running = !pod.node.is_empty() && !pod.finished;
            if running && self.graph.dependents(entry.object).iter().any(|index| goes_at_once.contains(index))
            {
                pods.push(entry.object);
                let sent = self.wish.grace_seconds.filter(|_| self.forecast.targets.contains(&entry.object));
                let object = self.graph.object(entry.object);
                grace = grace.max(grace_period(self.graph, object, sent).unwrap_or(pod.grace_seconds));
            }
        }
        let names = self.names(&pods);
        match pods.as_slice() {
            [] => {}
            [pod] => self.warn(
                "dependents-go-before-containers",
                format!("the dependents of {names} go before its containers have stopped ({grace} s grace); background keeps them until then"),
                Some(*pod),
            ),
            _ => self.warn(
                "dependents-go-before-containers",
                format!("the dependents of {names} go before their containers have stopped (up to {grace} s grace); background keeps them until then"),
                None,
            ),
        }
    }

    /// Claims of a StatefulSet are not owned unless its retention policy says `whenDeleted: Delete` (reference G10).
    fn claims_of_stateful_sets(&mut self) {
        let sets: Vec<usize> = self
            .forecast
            .entries
            .iter()
            .map(|entry| entry.object)
            .filter(|index| self.graph.object(*index).is("apps", "StatefulSet") && self.is_doomed(*index))
            .collect();
        if sets.is_empty() {
            return;
        }
        let claims: Vec<usize> = (0..self.graph.objects().len())
            .filter(|index| self.graph.object(*index).is("", "PersistentVolumeClaim"))
            .collect();
        let (mut stay, mut go) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        let mut unowned = false;
        for set in sets {
            let retention = self.graph.snapshot().details.stateful_sets.get(&self.graph.object(set).uid);
            let own = claims.iter().copied().filter(|claim| self.is_claim_of(*claim, set));
            let (going, staying): (Vec<usize>, Vec<usize>) = own.partition(|claim| self.is_doomed(*claim));
            unowned |= !staying.is_empty()
                && self.forecast.policy != Policy::Orphan
                && retention.is_some_and(|retention| retention.delete);
            for (found, (sets, claims)) in [(going, &mut go), (staying, &mut stay)] {
                if !found.is_empty() {
                    sets.push(set);
                    claims.extend(found);
                }
            }
        }
        let note = if unowned { " (whenDeleted is Delete, but nothing on them says so yet)" } else { "" };
        for (code, (sets, claims), verb, note) in
            [("claims-stay", stay, "stay", note), ("claims-go", go, "go, too", "")]
        {
            if sets.is_empty() {
                continue;
            }
            let names: Vec<String> =
                claims.iter().map(|claim| self.graph.object(*claim).name.clone()).collect();
            let message =
                format!("the claims of {} {verb}: {}{note}", self.names(&sets), some_of(&names, MOST_NAMES));
            self.warn(code, message, if sets.len() == 1 { sets.first().copied() } else { None });
        }
    }

    /// `TEMPLATE-STATEFULSET-ORDINAL` (`pkg/controller/statefulset/stateful_set_utils.go`,
    /// getPersistentVolumeClaimName).
    fn is_claim_of(&self, claim: usize, set: usize) -> bool {
        let (claim, set): (&Object, &Object) = (self.graph.object(claim), self.graph.object(set));
        let templates = self.graph.snapshot().details.stateful_sets.get(&set.uid);
        let infix = format!("-{}-", set.name);
        claim.namespace == set.namespace
            && claim.name.rsplit_once(&infix).is_some_and(|(template, ordinal)| {
                !template.is_empty()
                    && templates.is_none_or(|known| known.templates.iter().any(|own| own == template))
                    && !ordinal.is_empty()
                    && ordinal.bytes().all(|byte| byte.is_ascii_digit())
            })
    }

    fn containers(&mut self) {
        for target in self.forecast.targets.clone() {
            let object = self.graph.object(target);
            let what = if object.is("", "Namespace") {
                "everything in it"
            } else if object.is("apiextensions.k8s.io", "CustomResourceDefinition") {
                "every instance of it"
            } else {
                continue;
            };
            let message = format!("deleting {} deletes {what}, whatever the policy", self.short(target));
            self.warn("takes-its-content", message, Some(target));
        }
    }

    /// A Node owns none of its Pods but those of its static manifests. Once it is gone, the Pod garbage collector deletes
    /// the others with grace 0, whether or not their containers have stopped (`pkg/controller/podgc/gc_controller.go`,
    /// gcOrphaned: after a quarantine of 40 s, in a round every 20 s; reference T3).
    fn pods_on_nodes(&mut self) {
        let pods_unread = self.forecast.gaps.iter().any(|gap| gap.resource == "pods" && gap.group.is_empty());
        for target in self.forecast.targets.clone() {
            let node = self.graph.object(target);
            if !node.is("", "Node") {
                continue;
            }
            let details = &self.graph.snapshot().details.pods;
            let on_it = |index: &usize| {
                let object = self.graph.object(*index);
                let pod = details.get(&object.uid).filter(|_| object.is("", "Pod"));
                pod.is_some_and(|pod| pod.node == node.name) && !self.is_doomed(*index)
            };
            let count = (0..self.graph.objects().len()).filter(on_it).count();
            let (what, them, their) = match count {
                0 if pods_unread => ("the Pods, which could not be read, are".to_owned(), "them", "their"),
                0 => continue,
                1 => ("1 Pod is".to_owned(), "it", "its"),
                more => (format!("{more} Pods are"), "them", "their"),
            };
            let message = format!(
                "on {}, {what} not owned by it: about a minute after it is gone, the Pod garbage collector force-deletes \
                 {them}, whether {their} containers have stopped or not, and that is not waited for; drain the node first",
                self.short(target)
            );
            self.warn("pods-on-node", message, Some(target));
        }
    }

    /// Orphaned Pods do not stop (cases C02 and C04).
    fn pods_that_keep_running(&mut self) {
        if self.forecast.policy != Policy::Orphan {
            return;
        }
        let of = |fate: Fate| -> usize {
            let pods = self.forecast.entries.iter().filter(|entry| entry.fate == fate);
            let running = |index: usize| !self.pod(index).is_some_and(|pod| pod.finished);
            pods.filter(|entry| self.graph.object(entry.object).is("", "Pod") && running(entry.object))
                .count()
        };
        let (orphaned, kept) = (of(Fate::Orphaned), of(Fate::Kept));
        let starts_pods = |index: &usize| self.graph.object(*index).is("batch", "CronJob");
        let end = if self.forecast.targets.iter().any(starts_pods) { "; no new ones start" } else { "" };
        if orphaned > 0 {
            let (number, _) = counted(orphaned, "Pod", "");
            self.warn("pods-keep-running", format!("{number} will stay, unowned, and keep running"), None);
        }
        if kept > 0 {
            let (number, verb) = counted(kept, "Pod", "keep");
            self.warn(
                "pods-keep-running",
                format!("{number} below what is orphaned {verb} running{end}"),
                None,
            );
        }
    }

    /// What nobody can make again, counted in plain sight.
    fn data(&mut self) {
        for (kind, code, end) in [
            ("Secret", "secrets-deleted", ""),
            (
                "PersistentVolumeClaim",
                "claims-deleted",
                ", and the data behind them where the volumes are not retained",
            ),
        ] {
            let doomed = self.forecast.doomed();
            let count = doomed.filter(|entry| self.graph.object(entry.object).is("", kind)).count();
            if count > 0 {
                let (number, _) = counted(count, kind, "");
                self.warn(code, format!("{number} will be deleted{end}"), None);
            }
        }
    }

    fn gaps(&mut self) {
        if !self.forecast.gaps.is_empty() {
            let message = "some kinds could not be read: what depends on the target there is unknown, and the forecast incomplete";
            self.warn("kinds-not-read", message.to_owned(), None);
        }
    }
}

/// `1 Pod` and `keeps`, `2 Pods` and `keep`.
fn counted(count: usize, noun: &str, verb: &str) -> (String, String) {
    if count == 1 {
        (format!("1 {noun}"), format!("{verb}s"))
    } else {
        (format!("{count} {noun}s"), verb.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::Gap;
    use super::super::forecast::forecast;
    use super::super::object::Uid;
    use super::super::testing::{at, graph, snapshot};
    use super::*;
    use Policy::{Background, Foreground, Orphan};

    /// `code: message` of each warning.
    fn warned(text: &str, target: &str, policy: Policy) -> Vec<String> {
        let graph = graph(text);
        let forecast = forecast(&graph, &[at(&graph, target)], policy);
        forecast.warnings.iter().map(|warning| format!("{}: {}", warning.code, warning.message)).collect()
    }

    #[test]
    fn what_a_living_controller_makes_again_is_named_with_it() {
        let text = "Deployment/web\nReplicaSet/web-1 <- Deployment/web!*\nPod/p <- ReplicaSet/web-1!*";
        let again = "will-be-recreated: ReplicaSet/web-1 is controlled by Deployment/web, which is alive: it will be created again; delete that instead";
        assert_eq!(warned(text, "ReplicaSet/web-1", Foreground), [again]);
        assert_eq!(warned(text, "Deployment/web", Foreground), [""; 0]);
        // A controller that another one makes again is no way out.
        let above = "will-be-recreated: Pod/p is controlled by ReplicaSet/web-1, which is alive: it will be created again; delete Deployment/web, which controls that, instead";
        assert_eq!(warned(text, "Pod/p", Foreground), [above]);
        // An owner that is not the controller makes nothing.
        assert_eq!(warned("ConfigMap/c\nPod/p <- ConfigMap/c!", "Pod/p", Background), [""; 0]);
        assert_eq!(warned("Job/j terminating\nPod/p <- Job/j!*", "Pod/p", Background), [""; 0]);
    }

    #[test]
    fn many_targets_of_one_controller_are_one_warning() {
        let graph = graph(
            "ReplicaSet/r\nPod/a <- ReplicaSet/r!*\nPod/b <- ReplicaSet/r!*\nPod/c <- ReplicaSet/r!*\nPod/d <- ReplicaSet/r!*",
        );
        let pods: Vec<usize> = ["Pod/a", "Pod/b", "Pod/c", "Pod/d"].map(|pod| at(&graph, pod)).into();
        let warnings = forecast(&graph, &pods, Background).warnings;
        assert_eq!(
            warnings.iter().map(|warning| warning.message.as_str()).collect::<Vec<_>>(),
            [
                "Pod/a, Pod/b, Pod/c and 1 more are controlled by ReplicaSet/r, which is alive: they will be created again; delete that instead"
            ]
        );
        assert_eq!(warnings[0].object, None);
    }

    #[test]
    fn a_job_of_a_cron_job_and_a_finished_pod_of_a_job_do_not_come_back() {
        let text = "CronJob/c\nJob/j <- CronJob/c!*\nPod/p phase=Succeeded <- Job/j!*\nPod/q phase=Running <- Job/j!*";
        let job = warned(text, "Job/j", Background);
        assert!(job[0].contains("starts new Jobs on its schedule"), "{job:?}");
        assert_eq!(warned(text, "Pod/p", Background), [""; 0]);
        assert_eq!(warned(text, "Pod/q", Background).len(), 1);
    }

    #[test]
    fn a_controller_that_could_not_be_read_may_make_it_again() {
        let mut snapshot = snapshot("Pod/p <- Widget/w@u!*");
        let message = String::new();
        let (resource, group) = ("widgets".to_owned(), "example.test".to_owned());
        snapshot.gaps.push(Gap { resource, group, version: None, reason: "Forbidden".to_owned(), message });
        let graph = OwnerGraph::new(snapshot);
        let codes: Vec<String> = forecast(&graph, &[0], Background)
            .warnings
            .into_iter()
            .map(|warning| format!("{} {}", warning.code, warning.message.contains("could not be read")))
            .collect();
        assert_eq!(codes, ["will-be-recreated true", "kinds-not-read true"]);
    }

    #[test]
    fn a_wish_on_the_object_that_the_policy_drops_is_told() {
        let text = "ConfigMap/o finalizer=foregroundDeletion\nSecret/d finalizer=a/h <- ConfigMap/o!";
        let codes = |text: &str, policy| -> Vec<String> {
            let warned = warned(text, "ConfigMap/o", policy);
            warned.iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(codes(text, Background), ["foreground-wish-dropped", "secrets-deleted"]);
        assert_eq!(codes(text, Foreground), ["secrets-deleted"]);
        let orphan = "ConfigMap/o finalizer=orphan\nConfigMap/d <- ConfigMap/o!";
        assert_eq!(codes(orphan, Background), ["orphan-wish-dropped"]);
        assert_eq!(codes(orphan, Orphan), [""; 0]);
        // Below a background owner the wish is honoured, below a foreground one it is not (collector rule 9).
        let below = "ConfigMap/o\nConfigMap/m finalizer=orphan <- ConfigMap/o!\nConfigMap/d <- ConfigMap/m!";
        assert_eq!(codes(below, Background), [""; 0]);
        assert_eq!(codes(below, Foreground), ["orphan-wish-dropped"]);
    }

    #[test]
    fn a_finalizer_of_the_target_protects_no_dependents_in_foreground() {
        let text = "ConfigMap/o finalizer=a/h\nConfigMap/d <- ConfigMap/o!";
        assert!(
            warned(text, "ConfigMap/o", Foreground)[0].starts_with("finalizer-does-not-protect-dependents: ")
        );
        assert_eq!(warned(text, "ConfigMap/o", Background), [""; 0]);
        assert_eq!(warned("ConfigMap/o finalizer=a/h", "ConfigMap/o", Foreground), [""; 0]);
    }

    #[test]
    fn dependents_of_a_running_pod_anywhere_in_the_tree_go_before_it_in_foreground() {
        // Without the flag a race decides; it may go as well.
        let race = "Job/j\nPod/p node=n1 <- Job/j!*\nConfigMap/c <- Pod/p";
        assert_eq!(warned(race, "Job/j", Foreground).len(), 1);
        let below = "Job/j\nPod/p node=n1 <- Job/j!*\nConfigMap/c <- Pod/p!\nPod/free <- Job/j!\nConfigMap/d <- Pod/free!";
        assert_eq!(
            warned(below, "Job/j", Foreground),
            [
                "dependents-go-before-containers: the dependents of Pod/p go before its containers have stopped (30 s grace); background keeps them until then"
            ]
        );
        assert_eq!(warned(below, "Job/j", Background), [""; 0]);
        let finished = "Pod/p node=n1 phase=Succeeded\nConfigMap/c <- Pod/p";
        assert_eq!(warned(finished, "Pod/p", Foreground), [""; 0]);
        let two = "Job/j\nPod/p node=n1 podgrace=60 <- Job/j!\nConfigMap/c <- Pod/p!\nPod/q node=n1 <- Job/j!\nConfigMap/d <- Pod/q!";
        assert_eq!(
            warned(two, "Job/j", Foreground),
            [
                "dependents-go-before-containers: the dependents of Pod/p, Pod/q go before their containers have stopped (up to 60 s grace); background keeps them until then"
            ]
        );
    }

    #[test]
    fn the_grace_period_that_is_sent_counts_for_a_target_and_not_for_its_dependents() {
        let said = |text: &str, target: &str| {
            let graph = graph(text);
            let wish = DeleteWish { policy: Foreground, grace_seconds: Some(1) };
            forecast(&graph, &[at(&graph, target)], wish).warnings.remove(0).message
        };
        let target = said("Pod/p node=n1\nConfigMap/c <- Pod/p!", "Pod/p");
        assert!(target.contains("(1 s grace)"), "{target}");
        let below = said("Job/j\nPod/p node=n1 <- Job/j!*\nConfigMap/c <- Pod/p!", "Job/j");
        assert!(below.contains("(30 s grace)"), "{below}");
    }

    #[test]
    fn claims_of_a_stateful_set_stay_unless_they_name_it_as_their_owner() {
        let claims = "PersistentVolumeClaim/data-db-0\nPersistentVolumeClaim/data-db-x\nPersistentVolumeClaim/mine-db-0";
        let stay = format!("StatefulSet/db retain=true\n{claims}");
        assert_eq!(
            warned(&stay, "StatefulSet/db", Background),
            ["claims-stay: the claims of StatefulSet/db stay: data-db-0"]
        );
        // Without the templates only the form of the name is known.
        let unread = format!("StatefulSet/db\n{claims}");
        assert_eq!(
            warned(&unread, "StatefulSet/db", Background),
            ["claims-stay: the claims of StatefulSet/db stay: data-db-0, mine-db-0"]
        );
        let go = "StatefulSet/db retain=false\nPersistentVolumeClaim/data-db-0 <- StatefulSet/db";
        assert_eq!(
            warned(go, "StatefulSet/db", Background),
            [
                "claims-go: the claims of StatefulSet/db go, too: data-db-0",
                "claims-deleted: 1 PersistentVolumeClaim will be deleted, and the data behind them where the volumes are not retained"
            ]
        );
        assert_eq!(
            warned(go, "StatefulSet/db", Orphan),
            ["claims-stay: the claims of StatefulSet/db stay: data-db-0"]
        );
        let not_yet = "StatefulSet/db retain=false\nPersistentVolumeClaim/data-db-0";
        assert!(
            warned(not_yet, "StatefulSet/db", Background)[0]
                .ends_with("(whenDeleted is Delete, but nothing on them says so yet)")
        );
        // Also where the StatefulSet itself is only a dependent.
        let below = "Widget/w\nStatefulSet/db <- Widget/w!*\nPersistentVolumeClaim/data-db-0";
        assert_eq!(warned(below, "Widget/w", Background).len(), 1);
    }

    #[test]
    fn the_pods_on_a_node_are_counted_unless_they_go_with_it() {
        let text = "Node/n1\nPod/static node=n1 <- Node/n1*\nPod/p node=n1\nother:Pod/q node=n1 phase=Succeeded\nPod/elsewhere node=n2";
        let warned_of = |text: &str| warned(text, "Node/n1", Background);
        assert_eq!(
            warned_of(text),
            [
                "pods-on-node: on Node/n1, 2 Pods are not owned by it: about a minute after it is gone, the Pod garbage \
                 collector force-deletes them, whether their containers have stopped or not, and that is not waited for; \
                 drain the node first"
            ]
        );
        assert!(warned_of("Node/n1\nPod/p node=n1")[0].contains("1 Pod is not owned by it"));
        assert_eq!(warned_of("Node/n1\nPod/static node=n1 <- Node/n1*\nPod/elsewhere node=n2"), [""; 0]);
        let mut snapshot = snapshot("Node/n1");
        let (resource, group, message) = ("pods".to_owned(), String::new(), String::new());
        snapshot.gaps.push(Gap { resource, group, version: None, reason: "Forbidden".to_owned(), message });
        let unread = forecast(&OwnerGraph::new(snapshot), &[0], Background).warnings;
        assert!(unread[0].message.contains("the Pods, which could not be read, are not owned"), "{unread:?}");
    }

    #[test]
    fn orphaned_pods_keep_running() {
        let text = "CronJob/c\nJob/j <- CronJob/c!*\nPod/p <- Job/j!*\nPod/done phase=Succeeded <- Job/j!*";
        assert_eq!(
            warned(text, "Job/j", Orphan).last().map(String::as_str),
            Some("pods-keep-running: 1 Pod will stay, unowned, and keep running")
        );
        assert_eq!(
            warned(text, "CronJob/c", Orphan),
            ["pods-keep-running: 1 Pod below what is orphaned keeps running; no new ones start"]
        );
        assert_eq!(warned(text, "CronJob/c", Background), [""; 0]);
    }

    #[test]
    fn the_namespaces_that_the_server_never_deletes_are_named_first() {
        for (name, refused) in
            [("default", true), ("kube-system", true), ("kube-public", true), ("kube-node-lease", false)]
        {
            let name = format!("Namespace/{name}");
            let warned = warned(&name, &name, Background);
            assert_eq!(warned[0].starts_with("namespace-immortal: "), refused, "{warned:?}");
        }
        assert_eq!(warned("ConfigMap/default", "ConfigMap/default", Background), [""; 0]);
    }

    #[test]
    fn a_namespace_takes_its_content_along() {
        let text = "Namespace/x\nSecret/a\nSecret/b";
        assert_eq!(
            warned(text, "Namespace/x", Background),
            [
                "takes-its-content: deleting Namespace/x deletes everything in it, whatever the policy",
                "secrets-deleted: 2 Secrets will be deleted"
            ]
        );
        let graph = graph(text);
        let forecast = forecast(&graph, &[at(&graph, "Namespace/x")], Background);
        assert_eq!(
            forecast.warnings[0].object.as_ref().map(|object| object.uid.clone()),
            Some(Uid::from("Namespace/x"))
        );
    }

    #[test]
    fn all_secrets_of_a_namespace_are_counted_whoever_owns_them() {
        let counted = "secrets-deleted: 2 Secrets will be deleted";
        for text in [
            "Namespace/x\nSecret/a\nSecret/b <- ConfigMap/gone",
            "Namespace/x terminating\nSecret/a\nSecret/b",
        ] {
            let said = warned(text, "Namespace/x", Background);
            assert!(said.iter().any(|warning| warning == counted), "{text}: {said:?}");
        }
    }
}
