//! The garbage collector could act and does not: it is down, has lost its rights, is refused, waits in back-off, or
//! its picture is stale (F18 to F22, G8). By exclusion: these are asked only after the request itself was accepted
//! and nothing in the ownerReferences explains the stall.

use std::sync::Arc;

use serde_json::Value;

use super::admission::{Refused, cause_of};
use super::candidate::Suspects;
use super::inquiry::{Inquiry, span};
use super::reading::{Reading, is_put_back, read};
use super::{Actor, Cause, Evidence, Finding, Probing, Remedy, Verdict};
use crate::model::facts::{Identity, Question, Reply, Subject};
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, ObjectRef, Timestamp, Uid};

/// The Lease that the leading controller manager renews every few seconds (reference P6).
pub(super) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
/// The collector's back-off is capped at 1000 s; past twice that it is no longer back-off (reference B.0).
const BACK_OFF_SECONDS: i64 = 2000;

/// What stands in the place of an answer that accepts a removal and does not carry it out.
pub(super) const PUT_BACK: &str = "accepted, but the answer still has what should be removed";

/// So long a deletion may simply be waiting for its turn in a busy collector, in seconds.
const BUSY_SECONDS: i64 = 5;

/// What came of a request, sent as a dry run by the caller and by whoever has to send it in earnest.
pub(super) struct Tried<'a> {
    /// Who refuses it, if it is refused to whoever has to send it.
    pub(super) refused: Option<(Question, Reading, &'a Reply)>,
    /// Whether somebody's dry run passed.
    accepted: bool,
    /// Whether we could act as the one who has to send it, and that passed.
    impersonated: bool,
    /// Whether the refusal comes and goes: the same request, sent again by the same user, passes.
    pub(super) intermittent: bool,
    /// The answers that are not the refusal.
    pub(super) notes: Vec<(String, String)>,
}

impl Tried<'_> {
    /// Adds what else was answered, and that a refusal comes and goes; `also` is what is true in between.
    pub(super) fn add_to(&self, finding: &mut Finding, also: Cause) {
        if self.intermittent {
            finding.verdict = Verdict::Consistent;
            finding.also(also);
            finding.summary =
                format!("{}, but not always: the same dry run passes at other times", finding.summary);
        }
        for (source, text) in &self.notes {
            finding.evidence(source.clone(), text.clone());
        }
    }
}

/// What the Lease tells.
pub(super) enum Lease {
    Stale(String),
    Fresh(String),
    Unknown,
}

impl<'a> Inquiry<'a> {
    /// Explains a Terminating object that holds only the collector's own finalizer and is blocked by nothing.
    pub(super) fn own_finalizer(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let finalizer =
            [FOREGROUND_FINALIZER, ORPHAN_FINALIZER].into_iter().find(|own| object.has_finalizer(own))?;
        let subject = self.as_collected(object);
        let question = |identity| Question::RemoveFinalizer {
            subject: subject.clone(),
            finalizer: finalizer.to_owned(),
            identity,
        };
        let mut finding = self.refused_or_idle(index, chain, Refused::Finalizer(finalizer), question)?;
        if finding.is_vague() {
            self.unreadable_dependents(&mut finding);
        }
        if let Some(mut remedy) = self.background(index, None) {
            if matches!(
                finding.cause,
                Cause::AdmissionDenied | Cause::AdmissionUnreachable | Cause::ObjectInvalid
            ) {
                remedy.text.push_str(" without asking UPDATE admission");
            }
            finding.remedies.insert(0, remedy);
        }
        Some(finding)
    }

    /// A kind whose objects exist and cannot be read may hold a blocking dependent: the collector waits for it, and
    /// nobody sees it (F17). A kind that we may not read, or whose server is silent, is no such sign.
    fn unreadable_dependents(&self, finding: &mut Finding) {
        let says = ["conversion webhook", "(re)initializing", "corrupt object", "not decodable"];
        let gaps = &self.graph.snapshot().gaps;
        let Some(gap) = gaps.iter().find(|gap| says.iter().any(|words| gap.message.contains(words))) else {
            return;
        };
        let kind = format!("{}.{}", gap.resource, gap.group);
        let before = std::mem::replace(&mut finding.cause, Cause::KindUnreadable);
        finding.also.retain(|cause| *cause != Cause::KindUnreadable);
        if before != Cause::Progressing {
            finding.also(before);
        }
        finding.summary = format!(
            "{} waits, and {kind} cannot be read: a dependent of that kind may hold it",
            finding.object.short()
        );
        finding.evidence.insert(0, Evidence { source: format!("LIST {kind}"), text: gap.message.clone() });
        finding.remedies.clear();
        finding.remedies.push(Remedy::text(
            "restore the conversion webhook of that kind, or set spec.conversion.strategy of its CRD to None (fields may \
             be lost). Its objects are healthy: never use the unsafe delete for them",
        ));
    }

    /// Explains a live object that the collector should delete: nothing in its references speaks against it.
    pub(super) fn undeleted(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let subject = self.as_collected(object);
        let question = |identity| Question::Delete { subject: subject.clone(), identity };
        let mut finding = self.refused_or_idle(index, chain, Refused::Delete, question)?;
        if finding.is_vague() {
            self.late(index, chain, &mut finding);
        }
        if let Some(remedy) = self.background_on_target(chain) {
            finding.remedies.push(remedy);
        }
        Some(finding)
    }

    /// The controller manager ends when it cannot renew its Lease, and cannot while admission refuses that: webhooks on
    /// every kind, whose server is gone, do.
    fn refused_lease(&mut self, chain: &[ObjectRef], leaf: &ObjectRef) -> Option<Finding> {
        let question = Question::Touch(LEASE.to_owned());
        let (reading, reply) = self.probe(&question)?;
        let (cause, mut actor) = cause_of(&reading)?;
        let lease = ObjectRef {
            api_version: "coordination.k8s.io/v1".to_owned(),
            kind: "Lease".to_owned(),
            namespace: Some("kube-system".to_owned()),
            name: "kube-controller-manager".to_owned(),
            uid: Uid::from(""),
        };
        let mut command = None;
        if let Some(webhook) = &actor.webhook {
            match self.configurations(webhook, &lease, "UPDATE").as_slice() {
                [(kind, name)] => {
                    command =
                        Some(self.cluster_command("kubectl get", &[&format!("{kind}/{name}"), "-o", "yaml"]));
                    actor.configuration = Some(name.clone());
                }
                several => actor.candidates = several.iter().map(|(_, name)| name.clone()).collect(),
            }
        }
        let who = match (&actor.webhook, &actor.policy) {
            (Some(webhook), _) if cause == Cause::AdmissionUnreachable => {
                format!("the webhook {webhook} cannot be called")
            }
            (Some(webhook), _) => format!("the webhook {webhook} refuses it"),
            (_, Some(policy)) => format!("the policy {policy} refuses it"),
            _ => "the server refuses it".to_owned(),
        };
        let mut finding = Finding::new(
            cause,
            Verdict::Proven,
            chain,
            leaf,
            format!(
                "{} waits for the garbage collector, and kube-controller-manager cannot renew its Lease: {who}",
                leaf.short()
            ),
        );
        finding.also(Cause::CollectorDown);
        finding.evidence(question.source(), reply.trouble().unwrap_or_default());
        finding.remedies.push(Remedy {
            command,
            text: "let the UPDATE of Leases in kube-system pass: exempt that namespace, or bring the server that is asked \
                   back; then kube-controller-manager leads again, once it is started again where nobody does so"
                .to_owned(),
            risk: None,
        });
        finding.by = Some(actor);
        Some(finding)
    }

    /// A dependent that was made after the foreground deletion of its owner began is not looked at when it appears, but
    /// when the owner is looked at next, which is when something else that blocks it goes (reference A.5, F16).
    fn late(&self, index: usize, chain: &[ObjectRef], finding: &mut Finding) {
        let graph = self.graph;
        let object = graph.object(index);
        let Some(owner) = chain.iter().rev().nth(1).and_then(|owner| graph.by_uid(&owner.uid).first()) else {
            return;
        };
        let (owner, owner_index) = (graph.object(*owner), *owner);
        let after = |deleted| object.created.is_some_and(|created| created > deleted);
        // Times are whole seconds; who watched knows better.
        let is_late = owner.deleted.is_some_and(after)
            || self.case.created_later.iter().any(|later| later.uid == object.uid);
        if !owner.has_finalizer(FOREGROUND_FINALIZER) || !is_late {
            return;
        }
        let name = object.reference().short();
        let others = graph.dependents(owner_index).iter().any(|other| {
            *other != index && graph.blocks(*other, &owner.uid) && graph.object(*other).is_terminating()
        });
        let made = format!("{name} was made after the deletion of {} began", owner.reference().short());
        if others {
            finding.also.clear();
            finding.cause = Cause::Progressing;
            finding.summary = format!(
                "{made}: the garbage collector deletes it when it looks at its owner next, which is when another dependent goes"
            );
            finding.remedies = vec![Remedy::text("nothing: solve what holds the other dependents")];
        } else {
            finding.remedies.push(Remedy::command(
                self.command("kubectl cascade delete", object, &[]),
                format!("{made}; delete it yourself: its owner is then looked at again"),
            ));
        }
        finding.evidence(
            format!("metadata.creationTimestamp of {name}"),
            format!(
                "{}, after the deletionTimestamp {} of {}",
                object.created.unwrap_or_default(),
                owner.deleted.unwrap_or_default(),
                owner.reference().short()
            ),
        );
    }

    /// Explains a live object that has another living owner and should only lose one reference (F9), which holds the
    /// owner at the end of `to`.
    pub(super) fn unreleased(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        to: &ObjectRef,
    ) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let subject = self.as_collected(object);
        let question = |identity| Question::RemoveReference {
            subject: subject.clone(),
            owner: to.uid.clone(),
            identity,
        };
        let mut finding = self.refused_or_idle(index, chain, Refused::Reference, question)?;
        finding.also(Cause::KeptByOtherOwner);
        if let Some(owner) = self.graph.by_uid(&to.uid).first() {
            // It has another living owner.
            let stays = format!(
                "{} keeps a reference to an owner that is gone, and stays for its other owner",
                object.reference().short()
            );
            if let Some(remedy) = self.background(*owner, Some(&stays)) {
                finding.remedies.push(remedy);
            }
        }
        Some(finding)
    }

    /// An object as the collector and the namespace controller address it: in the preferred version of its kind (A.6),
    /// though we may have read it in another one, for example because the preferred one cannot be converted to.
    pub(super) fn as_collected(&self, object: &Object) -> Subject {
        let mut subject = Subject::of(object);
        let mut preferred = self.graph.snapshot().catalog.preferred();
        let own = preferred
            .find(|other| other.group == object.resource.group && other.plural == object.resource.plural);
        if let Some(resource) = own {
            subject.resource = Arc::clone(resource);
        }
        subject
    }

    /// Tries a request as the caller and as whoever has to send it in earnest. Where acting as that one is allowed, its
    /// answer decides: admission may look at who asks (F20), and a refusal of ours alone holds nothing. None while the
    /// answers are not there.
    pub(super) fn try_as(
        &mut self,
        sender: Identity,
        question: impl Fn(Identity) -> Question,
    ) -> Option<Tried<'a>> {
        let (mine, theirs) = (question(Identity::Caller), question(sender));
        // Both are asked in one round.
        let (as_me, as_sender) = (self.probe(&mine), self.probe(&theirs));
        let ((my_reading, my_reply), (their_reading, their_reply)) = (as_me?, as_sender?);
        let words = |reading: &Reading, reply: &Reply| match reading {
            Reading::PutBack => PUT_BACK.to_owned(),
            _ => reply.trouble().unwrap_or_else(|| "accepted".to_owned()),
        };
        let mut tried = Tried {
            refused: None,
            accepted: my_reading == Reading::Accepted || their_reading == Reading::Accepted,
            impersonated: their_reading == Reading::Accepted,
            intermittent: false,
            notes: Vec::new(),
        };
        // Two answers to one request: before that is put down to who asks, the same user asks again.
        let (yes, no) = (Reading::Accepted, |reading: &Reading| reading.is_refusal());
        if (my_reading == yes && no(&their_reading)) || (no(&my_reading) && their_reading == yes) {
            let again = Question::Again { question: Box::new(mine.clone()), accepted: my_reading == yes };
            let reply = self.ask(&again)?;
            let reading = read(reply, Identity::Caller);
            let changed = reading != my_reading && (reading == yes || no(&reading));
            if changed && !is_put_back(&mine, reply) {
                let refused = if no(&my_reading) {
                    tried.notes.push((again.source(), words(&reading, reply)));
                    (mine, my_reading, my_reply)
                } else {
                    tried.notes.push((mine.source(), words(&my_reading, my_reply)));
                    (again, reading, reply)
                };
                tried.intermittent = true;
                tried.refused = Some(refused);
                return Some(tried);
            }
        }
        if matches!(my_reading, Reading::Unstorable { .. }) {
            // Whoever asks.
            tried.refused = Some((mine, my_reading, my_reply));
        } else if their_reading.is_refusal() && my_reading == their_reading {
            let (my_words, their_words) = (words(&my_reading, my_reply), words(&their_reading, their_reply));
            let text = if my_words == their_words { "the same".to_owned() } else { their_words };
            tried.notes.push((theirs.source(), text));
            tried.refused = Some((mine, my_reading, my_reply));
        } else if their_reading.is_refusal() {
            let text = match my_reading {
                Reading::Accepted => format!("accepted: only {} is refused", sender.name()),
                _ => words(&my_reading, my_reply),
            };
            tried.notes.push((mine.source(), text));
            tried.refused = Some((theirs, their_reading, their_reply));
        } else if my_reading.is_refusal() && their_reading != Reading::Accepted {
            tried.refused = Some((mine, my_reading, my_reply));
        } else {
            if their_reading == Reading::Accepted {
                let text = if my_reading.is_refusal() {
                    "accepted: the refusal is about who asks"
                } else {
                    "accepted"
                };
                tried.notes.push((theirs.source(), text.to_owned()));
            }
            if my_reading == Reading::Accepted || my_reading.is_refusal() {
                tried.notes.push((mine.source(), words(&my_reading, my_reply)));
            }
        }
        Some(tried)
    }

    /// The same for a finalizer whose controller we do not know. A refusal of ours proves something unless another
    /// controller passes: then it is about who asks.
    pub(super) fn try_as_some_controller(
        &mut self,
        question: impl Fn(Identity) -> Question,
    ) -> Option<Tried<'a>> {
        let mine = question(Identity::Caller);
        let (reading, reply) = self.probe(&mine)?;
        if matches!(reading, Reading::Unstorable { .. }) {
            let refused = Some((mine, reading, reply));
            let notes = Vec::new();
            return Some(Tried { refused, accepted: false, impersonated: false, intermittent: false, notes });
        }
        if reading.is_refusal() {
            let mut tried = self.try_as(Identity::Collector, question)?;
            if tried.refused.is_some() && !tried.intermittent {
                // That others are refused, too, was only asked to see that it is not about who asks.
                tried.notes.clear();
                let who = "whether the finalizer's own controller is refused, too";
                self.unchecked(who, "who that is cannot be read from the object, so nobody can act as it");
            }
            return Some(tried);
        }
        let accepted = reading == Reading::Accepted;
        let text = "accepted: nothing refuses the removal now";
        let notes = if accepted { vec![(mine.source(), text.to_owned())] } else { Vec::new() };
        Some(Tried { refused: None, accepted, impersonated: false, intermittent: false, notes })
    }

    /// The request as the caller, then as the collector; where both pass, what keeps the collector from sending it.
    fn refused_or_idle(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        what: Refused<'_>,
        question: impl Fn(Identity) -> Question,
    ) -> Option<Finding> {
        let lease = self.lease();
        let tried = self.try_as(Identity::Collector, question)?;
        if let Some((question, reading, reply)) = &tried.refused {
            let mut finding = self.refusal(chain, what, question, reading, reply)?;
            if let Lease::Stale(text) = &lease {
                finding.also(Cause::CollectorDown);
                finding.evidence(format!("GET {LEASE}"), text.clone());
            }
            tried.add_to(&mut finding, Cause::CollectorBackoff);
            return Some(finding);
        }
        let lease = self.watched_lease();
        let mut finding = self.idle(index, chain, what, &lease, tried.accepted, tried.impersonated);
        tried.add_to(&mut finding, Cause::CollectorBackoff);
        Some(finding)
    }

    /// Nobody refuses, and yet the collector does not act.
    fn idle(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        what: Refused<'_>,
        lease: &Lease,
        accepted: bool,
        impersonated: bool,
    ) -> Finding {
        let object = self.graph.object(index);
        let leaf = object.reference();
        let name = leaf.short();
        let act = match what {
            Refused::Delete | Refused::Request => "delete it",
            Refused::Reference => "remove its ownerReference",
            Refused::Finalizer(_) => "remove its finalizer",
        };
        let down = |verdict, text: String| Finding::new(Cause::CollectorDown, verdict, chain, &leaf, text);
        let restart =
            Remedy::text("restart or repair kube-controller-manager: everything waiting is then collected");
        if let Lease::Stale(text) = lease {
            // A full etcd takes no renewal of the Lease either: whoever renews it ends, and is not to blame (F24).
            if self.case.probing == Probing::Canary
                && let Some(finding) = self.canary(index, chain, &leaf, what)
                && finding.cause == Cause::StorageFull
            {
                return finding;
            }
            if let Some(mut finding) = self.refused_lease(chain, &leaf) {
                finding.evidence(format!("GET {LEASE}"), text.clone());
                return finding;
            }
            let mut finding = down(
                Verdict::Proven,
                format!(
                    "{name} waits for the garbage collector to {act}, and kube-controller-manager is not running"
                ),
            );
            finding.evidence(format!("GET {LEASE}"), text.clone());
            finding.remedies.push(restart);
            return finding;
        }
        if let Some(finding) = self.canary(index, chain, &leaf, what) {
            return finding;
        }
        if let Some(finding) = self.rights(index, chain, &leaf, what, impersonated) {
            return finding;
        }
        let known_age = self.age_on(chain);
        let age = known_age.unwrap_or(0);
        if let (true, Lease::Fresh(text)) = (impersonated, lease)
            && known_age.is_some_and(|age| age < BUSY_SECONDS)
        {
            let mut finding = Finding::new(
                Cause::Progressing,
                Verdict::Consistent,
                chain,
                &leaf,
                format!(
                    "{name} waits for its turn: its deletion is {} old, and no dry run is refused",
                    span(age)
                ),
            );
            finding.evidence(format!("GET {LEASE}"), text.clone());
            finding.remedies.push(Remedy::text("wait a few seconds"));
            return finding;
        }
        if self.case.probing != Probing::Canary {
            self.unchecked(
                "whether the garbage collector works, and frees it once it looks again",
                "that takes two short-lived ConfigMaps: only with --probe=canary",
            );
        }
        let mut finding = match (impersonated, lease, what) {
            // The reference's F21 and F22, without a nudge: which one is a matter of age (design section 3).
            (true, Lease::Fresh(_), _) => {
                let (cause, also) = if age < BACK_OFF_SECONDS {
                    (Cause::CollectorBackoff, Cause::CollectorStale)
                } else {
                    (Cause::CollectorStale, Cause::CollectorBackoff)
                };
                let text = if cause == Cause::CollectorBackoff {
                    let next = span(known_age.unwrap_or(1000).clamp(1, 1000));
                    format!(
                        "{name} could go: no dry run of it is refused now. Most likely the garbage collector was refused \
                         before and tries again in growing intervals, at the latest in {next}"
                    )
                } else {
                    format!(
                        "{name} could go: no dry run of it is refused, and it has waited longer than the garbage collector's \
                         longest interval; its picture of the cluster seems stale"
                    )
                };
                let mut finding = Finding::new(cause, Verdict::Consistent, chain, &leaf, text);
                finding.also(also);
                finding.remedies.push(if cause == Cause::CollectorBackoff {
                    Remedy::text(format!("wait {}", span(known_age.unwrap_or(1000).clamp(1, 1000))))
                } else {
                    Remedy::text("restart the leading kube-controller-manager")
                });
                self.possible_refusers(&mut finding, &leaf, what);
                finding.by = None;
                finding
            }
            // C18 without the right to impersonate: the collector did the rest and is kept from this one request.
            (false, _, Refused::Finalizer(_)) if accepted => {
                let mut finding = Finding::new(
                    Cause::AdmissionDenied,
                    Verdict::Consistent,
                    chain,
                    &leaf,
                    format!(
                        "{name} could go: no dependent in view blocks it, and your own dry run of the request passes; so the \
                         garbage collector is refused where you are not, or does not run"
                    ),
                );
                if !matches!(lease, Lease::Fresh(_)) {
                    finding.also(Cause::CollectorDown);
                }
                self.possible_refusers(&mut finding, &leaf, what);
                finding.also(Cause::CollectorBackoff);
                finding.also(Cause::CollectorStale);
                finding.remedies.push(Remedy::text(
                    "ask a cluster administrator to run this diagnosis: whether admission refuses the garbage collector, and \
                     whether kube-controller-manager runs",
                ));
                finding
            }
            _ => {
                let verdict = if accepted { Verdict::Consistent } else { Verdict::Unknown };
                let mut finding = down(
                    if matches!(lease, Lease::Unknown) { Verdict::Unknown } else { verdict },
                    format!(
                        "{name} waits for the garbage collector to {act}; whether the garbage collector works could not be seen"
                    ),
                );
                if matches!(lease, Lease::Fresh(_)) {
                    finding.cause = Cause::CollectorBackoff;
                    finding.also(Cause::CollectorStale);
                }
                finding.remedies.push(Remedy::text(
                    "ask a cluster administrator whether kube-controller-manager runs and what its log says of this object",
                ));
                finding
            }
        };
        if let Lease::Fresh(text) = lease {
            finding.evidence(format!("GET {LEASE}"), text.clone());
        }
        finding
    }

    /// Names the configurations that are asked about the request: what they answer to a dry run need not be what they
    /// answer to the request itself.
    fn possible_refusers(&mut self, finding: &mut Finding, leaf: &ObjectRef, what: Refused<'_>) {
        let candidates = self.candidates(leaf, what.operation(), Suspects::All);
        if candidates.is_empty() {
            return;
        }
        finding.evidence(
            format!("admission configurations that match {} of it", what.operation()),
            format!(
                "{}: they may refuse the request itself where they let its dry run pass",
                candidates.join(", ")
            ),
        );
        finding.by = Some(Actor { candidates, ..Actor::default() });
    }

    /// The age of the deletion that this chain hangs on, in seconds: that of its last member that has one; none where
    /// all of them are gone or live.
    fn age_on(&self, chain: &[ObjectRef]) -> Option<i64> {
        let ages = chain.iter().rev().filter_map(|link| {
            let index = *self.graph.by_uid(&link.uid).first()?;
            let object = self.graph.object(index);
            object.is_terminating().then(|| self.age(object))
        });
        ages.into_iter().next()
    }

    /// The collector's rights (P5), where acting as it was not allowed.
    fn rights(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        leaf: &ObjectRef,
        what: Refused<'_>,
        impersonated: bool,
    ) -> Option<Finding> {
        if impersonated {
            return None;
        }
        let resource = self.graph.object(index).resource.clone();
        let question = Question::Access {
            identity: Identity::Collector,
            verb: if what == Refused::Delete { "delete" } else { "patch" },
            group: resource.group.clone(),
            resource: resource.plural.clone(),
            namespace: leaf.namespace.clone().unwrap_or_default(),
        };
        let reply = self.ask(&question)?;
        match reply.body().map(|body| &body["status"]) {
            Some(status) if status["allowed"] == false => {
                let mut finding = Finding::new(
                    Cause::CollectorForbidden,
                    Verdict::Proven,
                    chain,
                    leaf,
                    format!(
                        "{} does not go: the garbage collector has lost the right to free it",
                        leaf.short()
                    ),
                );
                finding.evidence(question.source(), status.to_string());
                finding.remedies.push(Remedy::text(
                    "restore the ClusterRoleBinding system:controller:generic-garbage-collector: it is made anew when the API \
                     server starts",
                ));
                Some(finding)
            }
            Some(_) => None,
            None => {
                self.note(&question, reply);
                None
            }
        }
    }

    /// Whether the collector collects at all (P7), and whether it frees the object once it looks again (P8); only with
    /// `--probe=canary`.
    fn canary(
        &mut self,
        index: usize,
        chain: &[ObjectRef],
        leaf: &ObjectRef,
        what: Refused<'_>,
    ) -> Option<Finding> {
        let namespace = leaf.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let question = Question::Canary { namespace };
        let reply = self.ask(&question)?;
        let text = reply.body().and_then(|body| body["text"].as_str()).unwrap_or_default().to_owned();
        let name = leaf.short();
        match reply.body().map(|body| &body["collected"]) {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => {
                // A collector with some hundred objects before it does not come to the canary in time either.
                let mut finding = Finding::new(
                    Cause::CollectorDown,
                    Verdict::Consistent,
                    chain,
                    leaf,
                    format!(
                        "{name} waits for the garbage collector, which did not collect the canary: it does not work, or is \
                         busy with a great many objects elsewhere"
                    ),
                );
                finding.evidence(question.source(), text);
                finding.remedies.push(Remedy::text(
                    "where nothing else is being deleted in great numbers, restart or repair kube-controller-manager",
                ));
                return Some(finding);
            }
            _ => {
                // A write is the only probe that sees a full etcd (F24): a dry run stores nothing.
                if read(reply, Identity::Caller) == Reading::StorageFull {
                    let mut finding = Finding::new(
                        Cause::StorageFull,
                        Verdict::Proven,
                        chain,
                        leaf,
                        format!("{name} does not go: etcd is full and refuses every write but a deletion"),
                    );
                    finding.evidence(question.source(), reply.trouble().unwrap_or_default());
                    finding.remedies.push(Remedy::text(
                        "defragment etcd or raise its quota, then clear its NOSPACE alarm",
                    ));
                    return Some(finding);
                }
                if self.case.probing == Probing::Canary {
                    self.unchecked(question.source(), reply.trouble().unwrap_or(text));
                }
                return None;
            }
        }
        let nudge = Question::Nudge(Subject::of(self.graph.object(index)));
        let reply = self.ask(&nudge)?;
        let freed = match reply {
            Reply::Refused { code: 404, .. } => true,
            Reply::Answer { body, .. } => {
                body["metadata"]["uid"] != *leaf.uid.as_str()
                    || self.graph.object(index).finalizers.len()
                        > body["metadata"]["finalizers"].as_array().map_or(0, Vec::len)
            }
            _ => {
                self.note(&nudge, reply);
                return None;
            }
        };
        let (cause, verdict, text) = if freed {
            (
                Cause::CollectorBackoff,
                Verdict::Proven,
                format!(
                    "{name} was only waiting for the garbage collector's next try, and went when it looked again"
                ),
            )
        } else {
            (
                Cause::CollectorStale,
                Verdict::Consistent,
                format!(
                    "{name} could go, and the garbage collector works, but does not free it even when it is made to look \
                     again: its picture of the cluster is stale, or its request is refused where a dry run of it is not"
                ),
            )
        };
        let mut finding = Finding::new(cause, verdict, chain, leaf, text);
        finding.evidence(question.source(), "collected");
        finding.evidence(nudge.source(), if freed { "freed" } else { "no effect" });
        finding.remedies.push(if freed {
            Remedy::text("nothing: it is on its way")
        } else {
            Remedy::text(
                "look for this object in the log of kube-controller-manager: it has the server's answer to the request \
                 itself; if there is none, restart the leader",
            )
        });
        if !freed {
            self.possible_refusers(&mut finding, leaf, what);
            if finding.by.is_some() {
                finding.also(Cause::AdmissionDenied);
            }
        }
        Some(finding)
    }

    /// Whether a controller manager leads (P6), as the Lease stands: one that died a moment ago still seems to.
    pub(super) fn lease(&mut self) -> Lease {
        self.read_lease(&Question::Get(LEASE.to_owned()))
    }

    /// The same, watched until that is certain; asked only where nothing else explains the stall.
    fn watched_lease(&mut self) -> Lease {
        self.read_lease(&Question::Lease(LEASE.to_owned()))
    }

    fn read_lease(&mut self, question: &Question) -> Lease {
        let Some(reply) = self.ask(question) else { return Lease::Unknown };
        let Reply::Answer { body, date } = reply else {
            // Managed clusters hide or rename it.
            self.note(question, reply);
            return Lease::Unknown;
        };
        let spec = &body["spec"];
        let renewed = spec["renewTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let duration = spec["leaseDurationSeconds"].as_i64().unwrap_or(15);
        let Some(renewed) = renewed else {
            self.unchecked("Lease kube-system/kube-controller-manager", "it has no renewTime");
            return Lease::Unknown;
        };
        // Both times are the server's side's; our own clock may be wrong.
        let ago = date.unwrap_or(self.case.now).as_second() - renewed.as_second();
        if holder.is_empty() {
            Lease::Stale(format!("no holder since {renewed}: the controller manager stopped"))
        } else if ago > duration {
            Lease::Stale(format!(
                "last renewed {} ago, at {renewed}, by {holder}; it is valid for {duration} s",
                span(ago)
            ))
        } else {
            Lease::Fresh(format!("renewed {} ago by {holder}", span(ago.max(0))))
        }
    }

    /// Adds the Lease to a finding if it is stale; true then.
    pub(super) fn stale_lease(&mut self, finding: &mut Finding) -> bool {
        match self.watched_lease() {
            Lease::Stale(text) => {
                finding.evidence(format!("GET {LEASE}"), text);
                true
            }
            Lease::Fresh(_) | Lease::Unknown => false,
        }
    }
}
