//! A Pod that waits for its kubelet (reference B.5, T1 to T4, T8): the API server keeps a scheduled Pod until the
//! kubelet confirms that its containers have stopped, by a DELETE with grace 0.

use serde_json::Value;

use super::inquiry::{Inquiry, MISSING_NODE_SECONDS, span};
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::catalog::escaped;
use crate::model::facts::Question;
use crate::model::object::ObjectRef;

/// A Node's condition Ready.
fn ready(node: &Value) -> Option<&Value> {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == "Ready")
}

/// What is wrong with a Node, by its condition Ready; none where nothing is.
fn unready(node: &Value) -> Option<String> {
    let Some(ready) = ready(node) else {
        return Some("has no Ready condition: no kubelet reports for it".to_owned());
    };
    let text = |field: &str| ready[field].as_str().unwrap_or_default();
    (text("status") != "True")
        .then(|| format!("is not Ready since {} ({})", text("lastTransitionTime"), text("message")))
}

impl Inquiry<'_> {
    /// What the Node of live Pods says, where their kubelet would not confirm that they end.
    pub(super) fn would_wait(&mut self, node: &str, pods: &[usize], target: &ObjectRef) -> Option<Finding> {
        let graph = self.graph;
        let question = Question::Get(format!("/api/v1/nodes/{}", escaped(node)));
        let reply = self.ask(&question)?;
        let chain = match pods.first() {
            Some(&pod) if graph.object(pod).uid != target.uid => self.chain_to(pod),
            _ => vec![target.clone()],
        };
        let leaf = chain.last()?.clone();
        let who = match pods.len() {
            1 => leaf.short(),
            count => format!("{}, and {} more Pods on that node,", leaf.short(), count - 1),
        };
        let actor = Actor { node: Some(node.to_owned()), ..Actor::default() };
        if reply.is_absent() {
            let summary = format!(
                "{who} is bound to the node {node}, which does not exist: the Pod garbage collector removes such \
                 Pods within about a minute"
            );
            let mut finding =
                Finding::new(Cause::NodeMissing, Verdict::Proven, &chain, &leaf, summary).by(actor);
            finding.evidence(question.source(), reply.trouble().unwrap_or_default());
            return Some(finding);
        }
        let Some(body) = reply.body() else {
            self.note(&question, reply);
            return None;
        };
        let state = unready(body)?;
        let summary = format!("{who} would wait for the kubelet of {node}, and that node {state}");
        let mut finding =
            Finding::new(Cause::NodeUnreachable, Verdict::Proven, &chain, &leaf, summary).by(actor);
        match ready(body) {
            None => finding.evidence(question.source(), "status.conditions: no condition of type Ready"),
            Some(ready) => finding.evidence("node condition Ready", ready.to_string()),
        }
        finding.remedies.push(Remedy::text(format!("bring the node {node} back before you delete")));
        Some(finding)
    }

    /// Explains a Terminating Pod that a kubelet has not confirmed yet. None where no kubelet is waited for.
    pub(super) fn kubelet(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let grace = object.grace_seconds.unwrap_or(0);
        if !object.is("", "Pod") || grace == 0 || !object.is_terminating() {
            return None;
        }
        let details = graph.snapshot().details.pods.get(&object.uid);
        let whole = self.whole(index);
        let node = details
            .map(|pod| pod.node.clone())
            .filter(|node| !node.is_empty())
            .or_else(|| whole.and_then(|pod| pod["spec"]["nodeName"].as_str()).map(str::to_owned))
            .unwrap_or_default();
        let leaf = object.reference();
        let name = leaf.short();
        let left = object.deleted.map_or(0, |end| end.as_second() - self.case.now.as_second());
        let mirror = details.is_some_and(|pod| pod.mirror)
            || whole
                .is_some_and(|pod| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string());
        if mirror {
            let mut finding = Finding::new(
                Cause::MirrorPod,
                Verdict::Proven,
                chain,
                &leaf,
                format!("{name} is the mirror of a static Pod: the kubelet of {node} makes it anew until its manifest is gone"),
            )
            .by(Actor { node: Some(node.clone()), ..Actor::default() });
            finding.evidence("metadata.annotations", "kubernetes.io/config.mirror");
            finding.remedies.push(Remedy::text(format!("remove its manifest on the node {node}")));
            return Some(finding);
        }
        if node.is_empty() {
            // Not readable, or not scheduled: an unscheduled Pod has no grace period (reference A.1).
            if left > 0 {
                return Some(self.in_grace(chain, &leaf, grace, left, None));
            }
            return None;
        }
        let path = format!("/api/v1/nodes/{}", escaped(&node));
        let question = Question::Get(path);
        let reply = self.ask(&question)?;
        if reply.is_absent() {
            let mut finding = Finding::new(
                Cause::NodeMissing,
                Verdict::Proven,
                chain,
                &leaf,
                format!(
                    "{name} ran on the node {node}, which does not exist any more: the Pod garbage collector removes \
                     such Pods within about a minute"
                ),
            )
            .by(Actor { node: Some(node.clone()), ..Actor::default() });
            finding.evidence(question.source(), reply.trouble().unwrap_or_default());
            finding.remedies.push(Remedy::text(
                "wait: the Pod garbage collector of the controller manager removes it within about a minute",
            ));
            if -left > MISSING_NODE_SECONDS {
                finding.remedies.push(self.force(index));
            }
            return Some(finding);
        }
        if left > 0 {
            return Some(self.in_grace(chain, &leaf, grace, left, Some(&node)));
        }
        let overdue = span(-left);
        let Some(body) = reply.body() else {
            self.note(&question, reply);
            let mut finding = Finding::new(
                Cause::NodeUnreachable,
                Verdict::Unknown,
                chain,
                &leaf,
                format!(
                    "{name} waits for the kubelet of {node}, {overdue} past its grace period; whether that node is alive \
                     could not be read"
                ),
            )
            .by(Actor { node: Some(node.clone()), ..Actor::default() });
            finding.also(Cause::KubeletStuck);
            self.pod_evidence(&mut finding, index);
            finding
                .remedies
                .push(Remedy::text(format!("ask a cluster administrator to look at the node {node}")));
            return Some(finding);
        };
        let ready = ready(body);
        let text =
            |field: &str| ready.map(|ready| ready[field].as_str().unwrap_or_default()).unwrap_or_default();
        let actor = Actor { node: Some(node.clone()), ..Actor::default() };
        let mut finding = if text("status") == "True" {
            let mut finding = Finding::new(
                Cause::KubeletStuck,
                Verdict::Consistent,
                chain,
                &leaf,
                format!(
                    "{name} is {overdue} past its grace period; its node {node} is Ready, but the kubelet has not confirmed \
                     that the containers and volumes are gone"
                ),
            )
            .by(actor);
            finding.evidence("node condition Ready", format!("True since {}", text("lastTransitionTime")));
            finding.remedies.push(Remedy::text(format!(
                "look at the kubelet, the container runtime and the volumes of this Pod on the node {node}"
            )));
            finding
        } else {
            let state = unready(body).unwrap_or_default();
            let mut finding = Finding::new(
                Cause::NodeUnreachable,
                Verdict::Proven,
                chain,
                &leaf,
                format!("{name} waits for the kubelet of {node}, {overdue} past its grace period, and that node {state}"),
            )
            .by(actor);
            match ready {
                None => finding.evidence(question.source(), "status.conditions: no condition of type Ready"),
                Some(ready) => finding.evidence("node condition Ready", ready.to_string()),
            }
            finding.remedies.push(Remedy::text(if object.foreign_finalizers().next().is_none() {
                format!("bring the node {node} back: then this ends by itself")
            } else {
                format!("bring the node {node} back: its kubelet then confirms, and its finalizers remain")
            }));
            finding.remedies.push(
                Remedy::command(
                    self.cluster_command(
                        "kubectl taint",
                        &["node", &node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"],
                    ),
                    "if the machine is certainly off, say so with this taint: its Pods are then removed and their volumes freed",
                )
                .risk("if it is not off, two copies of a Pod may run on the same volume"),
            );
            finding.remedies.push(
                Remedy::command(
                    self.cluster_command("kubectl delete", &[&format!("node/{node}")]),
                    "or delete the Node object, if the machine never comes back",
                )
                .risk("everything on that node is taken for lost"),
            );
            finding
        };
        finding.remedies.extend(self.background_on_target(chain));
        finding.remedies.push(self.force(index));
        self.pod_evidence(&mut finding, index);
        Some(finding)
    }

    fn in_grace(
        &self,
        chain: &[ObjectRef],
        leaf: &ObjectRef,
        grace: i64,
        left: i64,
        node: Option<&str>,
    ) -> Finding {
        let mut finding = Finding::new(
            Cause::GracePeriod,
            Verdict::Proven,
            chain,
            leaf,
            format!("{} is stopping: {} of its grace period of {grace} s are left", leaf.short(), span(left)),
        );
        if let Some(node) = node {
            finding = finding.by(Actor { node: Some(node.to_owned()), ..Actor::default() });
        }
        finding.evidence("metadata.deletionGracePeriodSeconds", grace.to_string());
        finding.remedies.push(Remedy::text(format!("wait {}", span(left))));
        finding
    }

    /// Force: the last resort for a Pod (S.3: only when the node is certainly off).
    fn force(&self, index: usize) -> Remedy {
        let object = self.graph.object(index);
        let left: Vec<&str> = object.foreign_finalizers().collect();
        Remedy::command(
            self.command("kubectl delete", object, &["--force", "--grace-period=0"]),
            if left.is_empty() {
                "as the last resort take the Pod out of the API without its kubelet".to_owned()
            } else {
                format!(
                    "as the last resort no longer wait for its kubelet; that alone does not help, since {} is left, too",
                    left.join(", ")
                )
            },
        )
        .risk("its containers may go on running: two copies of a StatefulSet's Pod may write to one volume")
    }

    /// What the Pod and its Events say, quoted.
    fn pod_evidence(&mut self, finding: &mut Finding, index: usize) {
        let object = self.graph.object(index);
        finding.evidence(
            "metadata.deletionTimestamp",
            object.deleted.map(|end| end.to_string()).unwrap_or_default(),
        );
        if let Some(pod) = self.whole(index) {
            let states = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
            for status in states.take(5) {
                let name = status["name"].as_str().unwrap_or_default();
                finding.evidence(format!("state of container {name}"), status["state"].to_string());
            }
        }
        for event in self.events(index) {
            finding.evidence(event.source, event.text);
        }
    }
}
