//! A live object: what would hold it if it were deleted. The forecast says what waits for whom, a dry run of the DELETE
//! whether admission lets it begin (reference P3), the Lease whether whoever has to do the rest is at work (P6).

use std::collections::BTreeMap;

use super::admission::Refused;
use super::collector::{LEASE, Lease};
use super::inquiry::Inquiry;
use super::reading::Reading;
use super::{Cause, DryRun, Finding, Remedy, Verdict};
use crate::model::facts::{Identity, Question, Subject};
use crate::model::forecast::{Fate, Holder, forecast};
use crate::model::object::ObjectRef;
use crate::model::policy::Policy;

/// So many nodes are asked about.
const MOST_NODES: usize = 20;

impl Inquiry<'_> {
    /// Finds out what the forecast cannot know about a live target: whether its DELETE is refused, and whether somebody
    /// is there to do what the API server does not do itself.
    pub(super) fn foresee(&mut self, index: usize, target: &ObjectRef) {
        let question =
            Question::Delete { subject: Subject::of(self.graph.object(index)), identity: Identity::Caller };
        // Both are asked in one round.
        let tried = self.probe(&question);
        let idle = self.nobody_there(index, target);
        let nodes = self.dead_nodes(index, target);
        if let Some((reading, reply)) = tried {
            let said = match reading {
                Reading::Accepted => DryRun::Accepted,
                _ if reading.is_refusal() => DryRun::Refused,
                _ => DryRun::Unknown,
            };
            self.dry_runs.insert(target.uid.clone(), said);
            let chain = [target.clone()];
            if let Some(finding) = self.refusal(&chain, Refused::Request, &question, &reading, reply) {
                self.say(finding);
            }
        }
        if let Some(finding) = idle {
            self.say(finding);
        }
        nodes.into_iter().for_each(|finding| self.say(finding));
    }

    /// The nodes whose kubelets this deletion would wait for, and that say that nobody would come.
    fn dead_nodes(&mut self, index: usize, target: &ObjectRef) -> Vec<Finding> {
        let plan = forecast(self.graph, &[index], Policy::Background);
        let mut nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for entry in plan.doomed() {
            for holder in &entry.held_by {
                if let Holder::Node(node) = holder {
                    nodes.entry(node).or_default().push(entry.object);
                }
            }
        }
        nodes
            .into_iter()
            .take(MOST_NODES)
            .filter_map(|(node, pods)| self.would_wait(node, &pods, target))
            .collect()
    }

    /// The controller manager is down, and something in this deletion is left to it: dependents, the contents of a
    /// Namespace, a finalizer that one of its controllers always removes.
    fn nobody_there(&mut self, index: usize, target: &ObjectRef) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let plan = forecast(graph, &[index], Policy::Background);
        let below: Vec<usize> =
            plan.doomed().map(|entry| entry.object).filter(|doomed| *doomed != index).collect();
        let goes = plan.entry(index).is_some_and(|entry| entry.fate == Fate::Deleted);
        let finalizer = object.finalizers.first().filter(|_| goes);
        let is_namespace = object.is("", "Namespace");
        if below.is_empty() && finalizer.is_none() && !is_namespace {
            return None;
        }
        let Lease::Stale(text) = self.lease() else { return None };
        let mut chain = vec![target.clone()];
        let (cause, waits) = match below.first() {
            _ if is_namespace => {
                let waits = format!("{} would wait for the namespace controller", target.short());
                (Cause::NamespaceControllerDown, waits)
            }
            Some(&first) => {
                chain = self.chain_to(first);
                let first = graph.object(first).reference().short();
                let who = match below.len() {
                    1 => first,
                    count => format!("{first}, and {} more below {},", count - 1, target.short()),
                };
                (Cause::CollectorDown, format!("{who} would wait for the garbage collector"))
            }
            None => {
                let finalizer = finalizer.map(String::as_str).unwrap_or_default();
                let waits =
                    format!("{} would wait for the controller that removes {finalizer}", target.short());
                (Cause::CollectorDown, waits)
            }
        };
        let leaf = chain.last().unwrap_or(target);
        let summary = format!("{waits}, and kube-controller-manager is not running");
        let mut finding = Finding::new(cause, Verdict::Proven, &chain, leaf, summary);
        finding.evidence(format!("GET {LEASE}"), text);
        finding.remedies.push(Remedy::text("restart or repair kube-controller-manager before you delete"));
        Some(finding)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{examined, healthy, lease, ok, refused};
    use super::super::{Case, Diagnosis, Probing};
    use super::*;
    use crate::model::facts::Reply;
    use crate::model::testing::{at, graph, now};

    fn foreseen(
        text: &str,
        target: &str,
        probing: Probing,
        server: impl Fn(&Question) -> Reply,
    ) -> Diagnosis {
        let graph = graph(text);
        let targets = vec![graph.object(at(&graph, target)).reference()];
        let case = Case { targets, now: now(), probing, foresees: true, ..Case::default() };
        examined(&graph, &case, server)
    }

    fn said(diagnosis: &Diagnosis) -> (Option<DryRun>, Vec<(Cause, String)>) {
        let findings = diagnosis.findings.iter().map(|finding| (finding.cause, finding.object.short()));
        (diagnosis.objects[0].dry_run, findings.collect())
    }

    fn nobody_leads(question: &Question) -> Reply {
        match question {
            Question::Get(path) if path.ends_with("kube-controller-manager") => lease(60),
            _ => healthy(question),
        }
    }

    #[test]
    fn a_delete_that_a_webhook_refuses_is_told_before_anybody_sends_it() {
        let server = |question: &Question| match question {
            Question::Delete { .. } => refused(403, "admission webhook \"w\" denied the request: locked"),
            _ => healthy(question),
        };
        let diagnosis = foreseen("ConfigMap/a", "ConfigMap/a", Probing::DryRun, server);
        let expected = vec![(Cause::AdmissionDenied, "ConfigMap/a".to_owned())];
        assert_eq!(said(&diagnosis), (Some(DryRun::Refused), expected));
        let finding = &diagnosis.findings[0];
        assert_eq!(finding.verdict, Verdict::Proven);
        assert_eq!(finding.summary, "ConfigMap/a cannot be deleted: the webhook w refuses its DELETE");
        assert!(finding.remedies[0].text.contains("this DELETE (a cluster"), "{finding:#?}");
        assert_eq!(diagnosis.objects[0].state, super::super::State::Live);
    }

    #[test]
    fn what_nobody_may_ask_or_nobody_asked_is_unknown_and_unchecked() {
        let missing = "configmaps \"a\" is forbidden: User \"ada\" cannot delete resource \"configmaps\"";
        let server = |question: &Question| match question {
            Question::Delete { .. } => refused(403, missing),
            _ => healthy(question),
        };
        let diagnosis = foreseen("ConfigMap/a", "ConfigMap/a", Probing::DryRun, server);
        assert_eq!(said(&diagnosis), (Some(DryRun::Unknown), vec![]));
        assert_eq!(diagnosis.unchecked[0].why, missing);
        let diagnosis = foreseen("ConfigMap/a", "ConfigMap/a", Probing::Read, |question| {
            assert!(!question.is_write(), "{question:?}");
            healthy(question)
        });
        assert_eq!(said(&diagnosis), (Some(DryRun::Unknown), vec![]));
        assert!(diagnosis.unchecked.len() == 1 && diagnosis.unchecked[0].why.contains("--probe=read"));
    }

    #[test]
    fn dependents_would_wait_for_a_collector_that_is_down() {
        let text = "ConfigMap/a\nSecret/b <- ConfigMap/a!\nSecret/c <- Secret/b!";
        let diagnosis = foreseen(text, "ConfigMap/a", Probing::Read, nobody_leads);
        assert_eq!(said(&diagnosis).1, [(Cause::CollectorDown, "Secret/b".to_owned())]);
        assert!(
            diagnosis.findings[0].summary.starts_with("Secret/b, and 1 more below ConfigMap/a, would wait")
        );
        let diagnosis = foreseen(text, "ConfigMap/a", Probing::DryRun, healthy);
        assert_eq!(said(&diagnosis), (Some(DryRun::Accepted), vec![]));
    }

    #[test]
    fn an_object_that_the_api_server_deletes_alone_needs_no_controller_manager() {
        let server = |question: &Question| match question {
            Question::Get(path) => panic!("nobody needs {path}"),
            _ => nobody_leads(question),
        };
        let diagnosis = foreseen("ConfigMap/a", "ConfigMap/a", Probing::DryRun, server);
        assert_eq!(said(&diagnosis), (Some(DryRun::Accepted), vec![]));
    }

    #[test]
    fn a_live_pod_would_wait_for_a_kubelet_that_is_not_there() {
        let on = |node: Reply| {
            let diagnosis = foreseen("Pod/p node=n1", "Pod/p", Probing::DryRun, |question| match question {
                Question::Get(path) if path == "/api/v1/nodes/n1" => node.clone(),
                _ => healthy(question),
            });
            let summary = diagnosis.findings.first().map(|finding| finding.summary.clone());
            (said(&diagnosis).1.pop().map(|(cause, _)| cause), summary.unwrap_or_default())
        };
        let condition = |status: &str| json!([{ "type": "Ready", "status": status, "message": "stopped" }]);
        let node = |conditions| ok(json!({ "status": { "conditions": conditions } }));
        assert_eq!(on(node(condition("True"))), (None, String::new()));
        let (cause, summary) = on(node(json!([])));
        assert_eq!(cause, Some(Cause::NodeUnreachable));
        assert!(
            summary.contains("Pod/p would wait for the kubelet of n1, and that node has no Ready condition")
        );
        assert!(on(node(condition("Unknown"))).1.contains("(stopped)"));
        let (cause, summary) = on(refused(404, "not found"));
        assert_eq!(cause, Some(Cause::NodeMissing));
        assert!(summary.contains("n1, which does not exist"));
    }

    #[test]
    fn a_namespace_needs_its_controller() {
        let diagnosis = foreseen("Namespace/x", "Namespace/x", Probing::DryRun, nobody_leads);
        assert_eq!(said(&diagnosis).1, [(Cause::NamespaceControllerDown, "Namespace/x".to_owned())]);
    }

    #[test]
    fn a_deletion_that_is_explained_asks_nothing_about_live_targets() {
        let graph = graph("ConfigMap/a");
        let targets = vec![graph.object(0).reference()];
        let case = Case { targets, now: now(), ..Case::default() };
        let diagnosis = examined(&graph, &case, |question| panic!("{question:?}"));
        assert_eq!(diagnosis.objects[0].dry_run, Some(DryRun::Unknown));
    }
}
