//! What holds other objects without owning them: a Namespace its contents (B.3), a CustomResourceDefinition its
//! instances (B.4). What is stuck inside is the leaf; the container stands at the head of the chain. A Namespace's
//! conditions lie while Pods remain, so the objects themselves are looked at, never the conditions alone.

use serde_json::Value;

use super::admission::{Refused, cause_of};
use super::inquiry::{Inquiry, span};
use super::reading::read;
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::facts::{Identity, Question, Reply};
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, ObjectRef};

/// The finalizer by which the API server keeps a CRD until its instances are gone.
const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The finalizer by which the namespace controller keeps a Namespace until it is empty.
const KUBERNETES: &str = "kubernetes";
/// Before this age a Namespace without conditions says nothing: its controller begins after 5 s (reference N9), in
/// seconds.
const FIRST_SYNC_SECONDS: i64 = 15;
/// The namespace controller looks again within a minute (reference B.0); twice that is no coincidence, in seconds.
const NEXT_SYNC_SECONDS: i64 = 120;

impl Inquiry<'_> {
    /// Explains a Terminating Namespace, the last of the chain.
    pub(super) fn namespace(&mut self, index: usize, chain: &[ObjectRef]) {
        let graph = self.graph;
        let object = graph.object(index);
        let whole = self.whole(index);
        let (pods, others): (Vec<usize>, Vec<usize>) = (0..graph.objects().len())
            .filter(|inside| graph.object(*inside).namespace.as_deref() == Some(object.name.as_str()))
            .filter(|inside| !graph.object(*inside).resource.is_event())
            .partition(|inside| graph.object(*inside).is("", "Pod"));
        let waits_for_pods = !pods.is_empty();
        let cause =
            if waits_for_pods { Cause::NamespaceWaitsForPods } else { Cause::NamespaceWaitsForContent };
        let before = self.findings.len();
        let mut undeleted = Vec::new();
        // While Pods remain, nothing else is touched (B.3); what is Terminating already holds it all the same.
        for &inside in pods.iter().chain(&others) {
            if graph.object(inside).is_terminating() {
                if !self.is_explained(inside) {
                    let chain = self.chain_inside(chain, inside);
                    self.explain(inside, &chain);
                }
            } else if graph.object(inside).is("", "Pod") || !waits_for_pods {
                undeleted.push(inside);
            } else {
                self.begin(inside);
            }
        }
        self.refused_contents(chain, &undeleted);
        let behind = others.iter().filter(|inside| !graph.object(**inside).is_terminating()).count();
        for finding in &mut self.findings[before..] {
            finding.also(cause);
            if waits_for_pods && finding.object.kind == "Pod" && behind > 0 {
                finding.evidence(
                    format!("contents of namespace {}", object.name),
                    format!("{behind} other objects wait behind its Pods and are not touched before"),
                );
            }
        }
        let conditions = Conditions::of(whole);
        if let Some(finding) = self.dead_api(chain, &conditions) {
            self.say(finding);
        }
        if self.findings.len() > before {
            return;
        }
        if let Some(finding) = self.quiet_namespace(index, chain, &conditions, &undeleted) {
            self.say(finding);
        }
    }

    /// The Terminating Namespace that a live object is in: it goes with it, whoever deletes it.
    pub(super) fn going_namespace(&self, index: usize) -> Option<usize> {
        let graph = self.graph;
        let name = graph.object(index).namespace.as_deref()?;
        (0..graph.objects().len()).find(|other| {
            let other = graph.object(*other);
            other.is("", "Namespace") && other.name == name && other.is_terminating()
        })
    }

    /// Explains a live object in a Terminating Namespace: what holds that keeps it, too.
    pub(super) fn goes_with_namespace(&mut self, target: &ObjectRef, namespace: usize) {
        let reference = self.graph.object(namespace).reference();
        let chain = [target.clone(), reference.clone()];
        if !self.begin(namespace) {
            return;
        }
        if self.case.moving.contains_key(&reference.uid) {
            self.progressing(&chain);
        } else {
            self.namespace(namespace, &chain);
        }
    }

    /// The contents whose DELETE is refused: they keep the Namespace (N4).
    fn refused_contents(&mut self, chain: &[ObjectRef], undeleted: &[usize]) {
        let graph = self.graph;
        let Some(namespace) = chain.last() else { return };
        for &inside in undeleted {
            if self.is_explained(inside) || !self.examines(inside, namespace) {
                continue;
            }
            let chain = self.chain_inside(chain, inside);
            let subject = self.as_collected(graph.object(inside));
            let question = |identity| Question::Delete { subject: subject.clone(), identity };
            let tried = self.try_as(Identity::NamespaceController, question);
            let Some((question, reading, reply)) = tried.and_then(|tried| tried.refused) else { continue };
            if let Some(finding) = self.refusal(&chain, Refused::Delete, &question, &reading, reply) {
                self.begin(inside);
                self.say(finding);
            }
        }
    }

    /// Discovery fails because an aggregated API does not answer (N3): the Namespace cannot know that it is empty.
    fn dead_api(&mut self, chain: &[ObjectRef], conditions: &Conditions<'_>) -> Option<Finding> {
        let failure = conditions.is_true("NamespaceDeletionDiscoveryFailure")?;
        let namespace = chain.last()?;
        let services = self.read("/apis/apiregistration.k8s.io/v1/apiservices");
        let dead = services.and_then(|list| {
            list["items"].as_array()?.iter().find(|service| {
                let unavailable = Conditions::of(Some(service)).status("Available") == Some("False");
                unavailable && service["spec"]["service"].is_object()
            })
        });
        let name = dead
            .and_then(|service| service["metadata"]["name"].as_str().map(str::to_owned))
            .or_else(|| stale_group(failure));
        let verdict = if name.is_some() { Verdict::Proven } else { Verdict::Consistent };
        let who = name.clone().unwrap_or_else(|| "an aggregated API".to_owned());
        let mut finding = Finding::new(
            Cause::ApiServiceUnavailable,
            verdict,
            chain,
            namespace,
            format!(
                "{} does not end: the API {who} does not answer, so nobody can say whether the namespace still holds \
                 objects of it",
                namespace.short()
            ),
        );
        finding.evidence("condition NamespaceDeletionDiscoveryFailure", failure);
        if let Some(message) = dead.and_then(|service| Conditions::of(Some(service)).message("Available")) {
            finding.evidence(format!("condition Available of APIService {who}"), message);
        }
        if let Some(name) = name {
            finding.remedies.push(Remedy::command(
                self.cluster_command("kubectl get", &[&format!("apiservice/{name}"), "-o", "yaml"]),
                format!("bring the server behind the APIService {name} back"),
            ));
            finding.remedies.push(
                Remedy::command(
                    self.cluster_command("kubectl delete", &[&format!("apiservice/{name}")]),
                    "or, if that server is gone for good, remove its APIService",
                )
                .risk("what it stored stays in its own storage, and nobody can reach it any more"),
            );
            finding.by = Some(Actor { api_service: Some(name), ..Actor::default() });
        }
        Some(finding)
    }

    /// Nothing inside is Terminating or refused: finalizers of the Namespace itself, or its controller.
    fn quiet_namespace(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        conditions: &Conditions<'_>,
        undeleted: &[usize],
    ) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let namespace = object.reference();
        if let Some(text) = conditions.is_true("NamespaceDeletionContentFailure") {
            // The server's own words; the object they speak of is not among what could be read.
            let reply = Reply::Refused { code: 500, reason: String::new(), message: text.to_owned() };
            let (cause, actor) = cause_of(&read(&reply, Identity::Caller))
                .unwrap_or((Cause::NamespaceWaitsForContent, Actor::default()));
            let mut finding = Finding::new(
                cause,
                Verdict::Consistent,
                chain,
                &namespace,
                format!("{} does not end: its controller cannot delete its contents", namespace.short()),
            )
            .by(actor);
            finding.also(Cause::NamespaceWaitsForContent);
            finding.evidence("condition NamespaceDeletionContentFailure", text);
            finding.remedies.push(Remedy::text("repair what the condition names"));
            return Some(finding);
        }
        let remaining = ["NamespaceFinalizersRemaining", "NamespaceContentRemaining"]
            .into_iter()
            .filter_map(|name| conditions.is_true(name).map(|text| (name, text)))
            .collect::<Vec<_>>();
        if undeleted.is_empty() && !remaining.is_empty() {
            let mut finding = Finding::new(
                Cause::NamespaceWaitsForContent,
                Verdict::Consistent,
                chain,
                &namespace,
                format!(
                    "{} still holds objects that are not among what could be read here",
                    namespace.short()
                ),
            );
            for (name, text) in remaining {
                finding.evidence(format!("condition {name}"), text);
            }
            finding.remedies.push(Remedy::text(
                "look at the objects that the conditions name, with the rights to read them",
            ));
            return Some(finding);
        }
        if undeleted.is_empty()
            && let Some(finding) = self.namespace_finalizer(index, chain)
        {
            return Some(finding);
        }
        let age = self.age(object);
        let mut finding = Finding::new(
            Cause::NamespaceControllerDown,
            Verdict::Consistent,
            chain,
            &namespace,
            format!("{} waits for the namespace controller, which has not acted", namespace.short()),
        );
        let stale = self.stale_lease(&mut finding);
        if stale {
            finding.verdict = Verdict::Proven;
            finding.also(Cause::CollectorDown);
        } else if age < FIRST_SYNC_SECONDS || (!conditions.is_empty() && age < NEXT_SYNC_SECONDS) {
            let mut finding = Finding::new(
                Cause::Progressing,
                Verdict::Consistent,
                chain,
                &namespace,
                format!("{} is being emptied: its controller comes round within a minute", namespace.short()),
            );
            finding.remedies.push(Remedy::text("wait a minute"));
            return Some(finding);
        }
        finding.evidence(
            "status.conditions",
            if conditions.is_empty() {
                format!("none, {} after its deletion", span(age))
            } else {
                "none of them is True".to_owned()
            },
        );
        finding.remedies.push(Remedy::text("restart or repair kube-controller-manager"));
        Some(finding)
    }

    /// A finalizer of the Namespace itself, in its metadata (N5) or its spec (N6).
    fn namespace_finalizer(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let namespace = object.reference();
        let whole = self.whole(index);
        let in_spec: Vec<String> = whole
            .and_then(|whole| whole["spec"]["finalizers"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|finalizer| finalizer.as_str())
            .filter(|finalizer| *finalizer != KUBERNETES)
            .map(str::to_owned)
            .collect();
        if object.foreign_finalizers().next().is_some() {
            let mut finding = self.finalizers(index, chain)?;
            if finding.cause == Cause::FinalizerHeld {
                finding.cause = Cause::NamespaceFinalizer;
            } else {
                finding.also(Cause::NamespaceFinalizer);
            }
            finding.evidence(
                "spec.finalizers",
                if in_spec.is_empty() { "none but its controller's".to_owned() } else { in_spec.join(", ") },
            );
            return Some(finding);
        }
        let own = [FOREGROUND_FINALIZER, ORPHAN_FINALIZER].iter().any(|own| object.has_finalizer(own));
        if in_spec.is_empty() {
            return if own { self.own_finalizer(index, chain) } else { None };
        }
        let finalizer = in_spec[0].clone();
        let mut finding = Finding::new(
            Cause::NamespaceFinalizer,
            Verdict::Proven,
            chain,
            &namespace,
            format!(
                "{} has waited {} for whoever serves {finalizer} in its spec.finalizers",
                namespace.short(),
                span(self.age(object))
            ),
        )
        .by(Actor { finalizer: Some(finalizer), finalizers: in_spec.clone(), ..Actor::default() });
        finding.evidence("spec.finalizers", in_spec.join(", "));
        finding
            .remedies
            .push(Remedy::text("start or repair the controller that serves it; it removes the entry itself"));
        Some(finding)
    }

    /// Explains a Terminating CustomResourceDefinition: its instances hold it, not ownership (C1, C2).
    pub(super) fn definition(&mut self, index: usize, chain: &[ObjectRef]) {
        let graph = self.graph;
        let object = graph.object(index);
        let (plural, group) = object.name.split_once('.').unwrap_or((object.name.as_str(), ""));
        let before = self.findings.len();
        let mut live = 0;
        for inside in 0..graph.objects().len() {
            let instance = graph.object(inside);
            if instance.resource.plural != plural || instance.resource.group != group {
                continue;
            }
            if !instance.is_terminating() {
                live += 1;
            } else if !self.is_explained(inside) {
                let chain = self.chain_inside(chain, inside);
                self.explain(inside, &chain);
            }
        }
        let never = Remedy::text(format!("do not remove {CRD_CLEANUP} from the CRD")).risk(
            "its instances become unreachable and stay in etcd; they come back when the CRD is created again",
        );
        for finding in &mut self.findings[before..] {
            finding.also(Cause::CrdWaitsForInstances);
            finding.remedies.push(never.clone());
        }
        if self.findings.len() > before {
            return;
        }
        let conditions = Conditions::of(self.whole(index));
        let terminating = conditions.message("Terminating").unwrap_or_default().to_owned();
        let gap = graph.snapshot().gaps.iter().find(|gap| gap.group == group && gap.resource == plural);
        let leaf = object.reference();
        if object.has_finalizer(CRD_CLEANUP) {
            let unreadable = terminating.contains("could not list instances")
                || gap.is_some_and(|gap| gap.reason != "Forbidden");
            let cause = if unreadable { Cause::KindUnreadable } else { Cause::CrdWaitsForInstances };
            let readable_and_empty = gap.is_none() && live == 0;
            let verdict = match cause {
                Cause::KindUnreadable => Verdict::Proven,
                _ if gap.is_some() => Verdict::Unknown,
                _ => Verdict::Consistent,
            };
            let mut finding = Finding::new(
                cause,
                verdict,
                chain,
                &leaf,
                if cause == Cause::KindUnreadable {
                    format!("{} waits for its instances, and they cannot be read", leaf.short())
                } else if readable_and_empty {
                    format!(
                        "{} has no instances left; the API server looks again within a minute",
                        leaf.short()
                    )
                } else {
                    format!("{} waits until its {live} instances are gone", leaf.short())
                },
            );
            if let Some(gap) = gap {
                finding.evidence(format!("LIST {}.{}", gap.resource, gap.group), gap.message.clone());
            }
            if !terminating.is_empty() {
                finding.evidence("condition Terminating", terminating);
            }
            finding.remedies.push(if cause == Cause::KindUnreadable {
                Remedy::text(
                    "restore the conversion webhook, or set spec.conversion.strategy of the CRD to None (fields may be lost)",
                )
            } else {
                Remedy::text("wait a minute, then look again")
            });
            finding.remedies.push(never);
            self.say(finding);
            return;
        }
        if let Some(finding) = self.finalizers(index, chain) {
            self.say(finding);
        }
    }

    /// The chain from a container to an object inside it, through its owners where these are inside, too.
    fn chain_inside(&self, above: &[ObjectRef], inside: usize) -> Vec<ObjectRef> {
        let mut chain = above.to_vec();
        let inside = self.graph.object(inside).reference();
        // A target that is itself what does not go.
        chain.retain(|link| link.uid != inside.uid);
        chain.push(inside);
        chain
    }
}

/// The group version of "stale GroupVersion discovery: g/v" as the name of its APIService.
fn stale_group(message: &str) -> Option<String> {
    let rest = &message[message.find("stale GroupVersion discovery: ")? + 30..];
    let word = rest.split([',', ' ', ';', ')']).next()?;
    let (group, version) = word.split_once('/')?;
    Some(format!("{version}.{group}"))
}

/// `status.conditions` of an object.
struct Conditions<'a>(Vec<&'a Value>);

impl<'a> Conditions<'a> {
    fn of(object: Option<&'a Value>) -> Self {
        let list = object.and_then(|object| object["status"]["conditions"].as_array());
        Self(list.into_iter().flatten().collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|condition| condition["type"] == name).copied()
    }

    fn status(&self, name: &str) -> Option<&'a str> {
        self.find(name)?["status"].as_str()
    }

    fn message(&self, name: &str) -> Option<&'a str> {
        self.find(name)?["message"].as_str()
    }

    /// The message of a condition that is True.
    fn is_true(&self, name: &str) -> Option<&'a str> {
        (self.status(name)? == "True").then(|| self.message(name).unwrap_or_default())
    }
}

/// Whether a finalizer is explained by what the object contains.
pub(super) fn is_container_finalizer(object: &Object, finalizer: &str) -> bool {
    object.is("apiextensions.k8s.io", "CustomResourceDefinition") && finalizer == CRD_CLEANUP
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::diagnosis::tests::{diagnosis, healthy, ok, refused};
    use crate::model::diagnosis::{Diagnosis, State};

    /// A healthy server that knows this Namespace.
    fn with_namespace(namespace: Value) -> impl Fn(&Question) -> Reply {
        move |question| match question {
            Question::Get(path) if path == "/api/v1/namespaces/x" => ok(namespace.clone()),
            _ => healthy(question),
        }
    }

    fn said(diagnosis: &Diagnosis) -> Vec<(Cause, Vec<Cause>, String)> {
        let findings = diagnosis.findings.iter();
        findings.map(|finding| (finding.cause, finding.also.clone(), finding.object.short())).collect()
    }

    #[test]
    fn a_held_pod_is_the_leaf_of_a_namespace_whatever_the_conditions_say() {
        let lies = json!({
            "metadata": { "uid": "Namespace/x" }, "spec": { "finalizers": ["kubernetes"] },
            "status": { "conditions": [
                { "type": "NamespaceContentRemaining", "status": "False", "message": "All content successfully removed" },
            ] },
        });
        let diagnosis = diagnosis(
            "Namespace/x terminating
             Pod/p terminating finalizer=a.test/b grace=0
             ConfigMap/c
             Secret/s",
            &["Namespace/x"],
            with_namespace(lies),
        );
        assert_eq!(
            said(&diagnosis),
            [(Cause::FinalizerHeld, vec![Cause::NamespaceWaitsForPods], "Pod/p".to_owned())]
        );
        let finding = &diagnosis.findings[0];
        assert_eq!(finding.chain[0].short(), "Namespace/x");
        assert!(finding.evidence.iter().any(|evidence| evidence.text.starts_with("2 other objects wait")));
        assert!(finding.evidence.iter().all(|evidence| !evidence.text.contains("successfully removed")));
    }

    #[test]
    fn content_that_may_not_be_deleted_is_found_by_its_own_dry_run() {
        let denial = "admission webhook \"w\" denied the request: not this one";
        let diagnosis =
            diagnosis("Namespace/x terminating\nConfigMap/c", &["Namespace/x"], |question| match question {
                Question::Delete { .. } => refused(403, denial),
                _ => healthy(question),
            });
        assert_eq!(
            said(&diagnosis),
            [(Cause::AdmissionDenied, vec![Cause::NamespaceWaitsForContent], "ConfigMap/c".to_owned())]
        );
    }

    #[test]
    fn content_whose_delete_is_refused_to_us_alone_is_not_blamed() {
        let diagnosis =
            diagnosis("Namespace/x terminating\nConfigMap/c", &["Namespace/x"], |question| match question {
                Question::Delete { identity: Identity::Caller, .. } => {
                    refused(403, "admission webhook \"w\" denied the request: not you")
                }
                _ => healthy(question),
            });
        assert!(said(&diagnosis).iter().all(|(cause, ..)| *cause != Cause::AdmissionDenied));
    }

    #[test]
    fn an_api_that_does_not_answer_is_named_by_its_service() {
        let namespace = json!({
            "metadata": { "uid": "Namespace/x" },
            "status": { "conditions": [{
                "type": "NamespaceDeletionDiscoveryFailure", "status": "True",
                "message": "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server \
                            APIs: metrics.test/v1beta1: stale GroupVersion discovery: metrics.test/v1beta1",
            }] },
        });
        let diagnosis = diagnosis("Namespace/x terminating", &["Namespace/x"], with_namespace(namespace));
        let finding = &diagnosis.findings[0];
        assert_eq!((finding.cause, finding.verdict), (Cause::ApiServiceUnavailable, Verdict::Proven));
        let by = finding.by.as_ref().unwrap();
        assert_eq!(by.api_service.as_deref(), Some("v1beta1.metrics.test"));
    }

    #[test]
    fn finalizers_of_the_namespace_itself_in_metadata_and_in_spec() {
        let namespace = |finalizers: &[&str]| {
            with_namespace(json!({
                "metadata": { "uid": "Namespace/x" }, "spec": { "finalizers": finalizers },
            }))
        };
        let metadata =
            diagnosis("Namespace/x terminating finalizer=tool.test/auth", &["Namespace/x"], namespace(&[]));
        assert_eq!(metadata.findings[0].cause, Cause::NamespaceFinalizer);
        let spec = diagnosis(
            "Namespace/x terminating",
            &["Namespace/x"],
            namespace(&["kubernetes", "tool.test/auth"]),
        );
        assert_eq!(spec.findings[0].cause, Cause::NamespaceFinalizer);
        let by = spec.findings[0].by.as_ref().unwrap();
        assert_eq!(by.finalizer.as_deref(), Some("tool.test/auth"));
    }

    #[test]
    fn a_namespace_that_its_controller_has_just_begun_with_is_not_stuck() {
        let namespace = json!({
            "metadata": { "uid": "Namespace/x" }, "spec": { "finalizers": ["kubernetes"] },
            "status": { "conditions": [{ "type": "NamespaceContentRemaining", "status": "False" }] },
        });
        let diagnosis =
            diagnosis("Namespace/x terminating\nConfigMap/c", &["Namespace/x"], with_namespace(namespace));
        assert_eq!(diagnosis.findings[0].cause, Cause::Progressing);
        assert_eq!(diagnosis.objects[0].state, State::Waiting);
    }

    #[test]
    fn a_namespace_without_any_condition_after_a_minute_waits_for_its_controller() {
        let namespace =
            json!({ "metadata": { "uid": "Namespace/x" }, "spec": { "finalizers": ["kubernetes"] } });
        let diagnosis = diagnosis("Namespace/x terminating", &["Namespace/x"], with_namespace(namespace));
        assert_eq!(diagnosis.findings[0].cause, Cause::NamespaceControllerDown);
    }

    #[test]
    fn a_held_instance_is_the_leaf_of_its_definition_and_the_clean_up_finalizer_is_advised_against() {
        let diagnosis = diagnosis(
            "CustomResourceDefinition/widgets.example.test terminating \
             finalizer=customresourcecleanup.apiextensions.k8s.io
             Widget/w terminating finalizer=a.test/b",
            &["CustomResourceDefinition/widgets.example.test"],
            healthy,
        );
        assert_eq!(
            said(&diagnosis),
            [(Cause::FinalizerHeld, vec![Cause::CrdWaitsForInstances], "Widget/w".to_owned())]
        );
        let last = diagnosis.findings[0].remedies.last().unwrap();
        assert!(last.text.contains("do not remove") && last.command.is_none());
    }
}
