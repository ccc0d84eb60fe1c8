//! A request that would free an object is refused: by a webhook, a policy, a mutator, validation, or because the
//! stored object cannot be read (F1 to F5, F8, F9, F17, F19, F20, F24). The proof is the dry run of that very
//! request; the answer names the author, or nobody is named.

use super::candidate::Suspects;
use super::collector::PUT_BACK;
use super::inquiry::Inquiry;
use super::reading::{Reading, read_real};
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::command::Caller;
use crate::model::facts::{Identity, Question, Reply};
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectRef};

/// What is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused<'f> {
    /// The removal of a finalizer.
    Finalizer(&'f str),
    /// The DELETE of the object, by the controller that has to send it.
    Delete,
    /// The DELETE that the caller means to send.
    Request,
    /// The removal of an ownerReference.
    Reference,
}

impl Refused<'_> {
    fn words(self) -> String {
        match self {
            Self::Finalizer(name) => format!("the removal of its finalizer {name}"),
            Self::Delete | Self::Request => "its DELETE".to_owned(),
            Self::Reference => "the removal of its ownerReference".to_owned(),
        }
    }

    pub(super) fn operation(self) -> &'static str {
        if matches!(self, Self::Delete | Self::Request) { "DELETE" } else { "UPDATE" }
    }

    /// Whether the object of the request has a deletionTimestamp; others are to get theirs by it, or are to stay.
    fn is_on_terminating(self) -> bool {
        matches!(self, Self::Finalizer(_))
    }

    /// What whoever refuses should let pass.
    fn exempt(self) -> String {
        if self.is_on_terminating() {
            format!("the {} of objects that have a deletionTimestamp", self.operation())
        } else if self == Self::Request {
            format!("this {}", self.operation())
        } else {
            format!("this {} by the garbage collector and the namespace controller", self.operation())
        }
    }
}

/// The cause behind a refusal, and its actor as far as the answer names one.
pub(super) fn cause_of(reading: &Reading) -> Option<(Cause, Actor)> {
    let actor = Actor::default();
    Some(match reading {
        Reading::WebhookDenied { webhook } => {
            (Cause::AdmissionDenied, Actor { webhook: Some(webhook.clone()), ..actor })
        }
        Reading::WebhookUnreachable { webhook } => {
            (Cause::AdmissionUnreachable, Actor { webhook: Some(webhook.clone()), ..actor })
        }
        Reading::PolicyDenied { policy, binding } => (
            Cause::AdmissionDenied,
            Actor { policy: Some(policy.clone()), binding: binding.clone(), ..actor },
        ),
        Reading::Mutated | Reading::PutBack | Reading::Forbidden => (Cause::AdmissionDenied, actor),
        Reading::Invalid => (Cause::ObjectInvalid, actor),
        Reading::Conversion | Reading::Unstorable { .. } | Reading::Corrupt => (Cause::KindUnreadable, actor),
        Reading::StorageFull => (Cause::StorageFull, actor),
        Reading::RightsMissing => (Cause::CollectorForbidden, actor),
        Reading::Accepted | Reading::Gone | Reading::NotAllowed | Reading::Nothing => return None,
    })
}

impl Inquiry<'_> {
    /// The finding for a refused dry run about the leaf of this chain. None where nothing was refused.
    pub(super) fn refusal(
        &mut self,
        chain: &[ObjectRef],
        what: Refused<'_>,
        question: &Question,
        reading: &Reading,
        reply: &Reply,
    ) -> Option<Finding> {
        let (cause, mut actor) = cause_of(reading)?;
        let leaf = chain.last()?;
        let configurations = match &actor.webhook {
            Some(webhook) => self.configurations(webhook, leaf, what.operation()),
            None => Vec::new(),
        };
        let configuration = match configurations.as_slice() {
            [(kind, name)] => {
                actor.configuration = Some(name.clone());
                Some(format!("{kind}/{name}"))
            }
            several => {
                actor.candidates = several.iter().map(|(_, name)| name.clone()).collect();
                None
            }
        };
        let mut look = configuration;
        let converts = matches!(reading, Reading::Conversion | Reading::Unstorable { .. });
        if converts
            && let Some(&index) = self.graph.by_uid(&leaf.uid).first()
            && let Some((place, definition)) = self.conversion_webhook(self.graph.object(index))
        {
            look = Some(format!("customresourcedefinition/{definition}"));
            actor.webhook = Some(place);
            actor.configuration = Some(definition);
        }
        if let Refused::Finalizer(name) = what {
            actor.finalizer = Some(name.to_owned());
            if let Some(&index) = self.graph.by_uid(&leaf.uid).first() {
                actor.finalizers = self.graph.object(index).finalizers.clone();
            }
        }
        let identity = match question {
            Question::RemoveFinalizer { identity, .. }
            | Question::Delete { identity, .. }
            | Question::RemoveReference { identity, .. } => *identity,
            _ => Identity::Caller,
        };
        let summary = summary(leaf, what, reading, &actor, identity);
        let mut finding = Finding::new(cause, Verdict::Proven, chain, leaf, summary);
        let words = reply.trouble().unwrap_or_else(|| PUT_BACK.to_owned());
        match reading {
            Reading::Unstorable { source, surely } => {
                finding.evidence(source.clone(), words);
                let unproven =
                    "proves nothing: a dry run stores nothing, so it converts nothing to the stored version";
                finding.evidence(question.source(), unproven);
                if !surely {
                    finding.verdict = Verdict::Consistent;
                }
            }
            _ => finding.evidence(question.source(), words),
        }
        if let Refused::Finalizer(name) = what
            && converts
            && ![FOREGROUND_FINALIZER, ORPHAN_FINALIZER].contains(&name)
        {
            finding.also(Cause::FinalizerHeld);
        }
        // The answer shows what was changed or refused, not by whom.
        let suspects = match reading {
            Reading::Mutated | Reading::PutBack | Reading::Invalid => Some(Suspects::Mutators),
            Reading::Forbidden => Some(Suspects::All),
            _ => None,
        };
        if let Some(suspects) = suspects {
            actor.candidates = self.candidates(leaf, what.operation(), suspects);
            if !actor.candidates.is_empty() {
                finding.evidence(
                    format!("admission configurations that match {} of it", what.operation()),
                    actor.candidates.join(", "),
                );
            }
        }
        let fails = reply.trouble().is_some_and(|words| words.contains("resulted in error"));
        // The server's own rule, for example that `default` is never deleted: nothing lets it pass.
        let is_a_rule =
            what == Refused::Request && *reading == Reading::Forbidden && actor.candidates.is_empty();
        if !is_a_rule {
            finding.remedies = self.repairs(what, reading, look.as_deref(), fails);
        }
        finding.by = Some(actor);
        Some(finding)
    }

    /// How to make the refusing actor accept the request.
    /// `fails`: an expression of a policy or a matchCondition cannot be evaluated.
    fn repairs(
        &self,
        what: Refused<'_>,
        reading: &Reading,
        configuration: Option<&str>,
        fails: bool,
    ) -> Vec<Remedy> {
        let operation = what.operation();
        let show = |kind: &str, name: &str| {
            self.cluster_command("kubectl get", &[&format!("{kind}/{name}"), "-o", "yaml"])
        };
        let look = configuration.map(|name| self.cluster_command("kubectl get", &[name, "-o", "yaml"]));
        let remedy = match reading {
            Reading::WebhookDenied { webhook } => Remedy {
                command: look,
                text: format!(
                    "{} the webhook {webhook} {}, or let it accept {} (a cluster administrator can exempt the namespace \
                     or the operation)",
                    if what == Refused::Request { "meet what" } else { "restore what" },
                    if what == Refused::Request { "demands" } else { "misses" },
                    what.exempt()
                ),
                risk: None,
            },
            Reading::WebhookUnreachable { webhook } => Remedy {
                command: look,
                text: format!(
                    "bring the server of the webhook {webhook} back; if it is gone for good, remove its configuration"
                ),
                risk: Some("without the configuration nothing checks these objects any more".to_owned()),
            },
            Reading::PolicyDenied { policy, .. } if fails => Remedy {
                command: Some(show("validatingadmissionpolicy", policy)),
                text: format!(
                    "repair the expression of the policy {policy}: it cannot be evaluated on this object"
                ),
                risk: None,
            },
            Reading::PolicyDenied { policy, .. } if what == Refused::Request => Remedy {
                command: Some(show("validatingadmissionpolicy", policy)),
                text: format!("meet what the policy {policy} demands, or let it accept {}", what.exempt()),
                risk: None,
            },
            Reading::PolicyDenied { policy, .. } => Remedy {
                command: Some(show("validatingadmissionpolicy", policy)),
                text: format!(
                    "let the policy {policy} accept {} ({})",
                    what.exempt(),
                    if what.is_on_terminating() {
                        "a matchCondition with !has(object.metadata.deletionTimestamp)"
                    } else {
                        "a matchCondition on request.userInfo.username"
                    }
                ),
                risk: None,
            },
            Reading::Mutated => Remedy::text(
                "find the mutating webhook or policy that changes the field which the server's answer shows, and restrict \
                 it to CREATE or exempt objects that have a deletionTimestamp",
            ),
            Reading::PutBack => Remedy::text(
                "find the mutating webhook or policy that puts it back, and restrict it to CREATE or exempt objects that \
                 have a deletionTimestamp",
            ),
            Reading::Invalid => Remedy::text(
                "make the object valid in the same patch that removes the finalizer, or relax the schema of its kind",
            ),
            Reading::Conversion | Reading::Unstorable { .. } => Remedy {
                command: look,
                text: "restore the conversion webhook of the kind; or set spec.conversion.strategy of its CRD to None (fields \
                       may be lost). The object is healthy: never use the unsafe delete for it"
                    .to_owned(),
                risk: None,
            },
            Reading::Corrupt => Remedy::text(
                "restore the object in etcd or the key that decrypts it; only if that is impossible, a cluster \
                 administrator can use the unsafe delete (ignoreStoreReadErrorWithClusterBreakingPotential)",
            ),
            Reading::StorageFull => {
                Remedy::text("defragment etcd or raise its quota, then clear its NOSPACE alarm")
            }
            Reading::RightsMissing => Remedy::text(
                "restore the controller's rights: the ClusterRoleBindings system:controller:* are made anew when the \
                 API server starts",
            ),
            _ if fails => Remedy::text(
                "repair the matchCondition whose expression the server's answer shows: it cannot be evaluated on this object",
            ),
            _ => Remedy::text(format!(
                "find the admission plugin whose words the server's answer repeats, and let it accept this {operation}"
            )),
        };
        vec![remedy]
    }
}

fn summary(
    leaf: &ObjectRef,
    what: Refused<'_>,
    reading: &Reading,
    actor: &Actor,
    identity: Identity,
) -> String {
    let who = match reading {
        Reading::WebhookDenied { webhook } => format!("the webhook {webhook} refuses"),
        Reading::WebhookUnreachable { webhook } => {
            format!("the webhook {webhook} cannot be called and refuses")
        }
        Reading::PolicyDenied { policy, binding } => match binding {
            Some(binding) => format!("the policy {policy} (binding {binding}) refuses"),
            None => format!("the policy {policy} refuses"),
        },
        Reading::Mutated => {
            "something adds or changes on the way what may not change, so the server refuses".to_owned()
        }
        Reading::PutBack => "the server accepts the request, and something on the way undoes".to_owned(),
        Reading::Invalid => "the stored object no longer validates, so the server refuses".to_owned(),
        Reading::Conversion => "its conversion webhook fails, so the server cannot handle".to_owned(),
        Reading::Unstorable { surely: true, .. } => {
            "its conversion webhook fails, so the server cannot store".to_owned()
        }
        Reading::Unstorable { .. } => {
            "its conversion webhook fails, so the server most likely cannot store".to_owned()
        }
        Reading::Corrupt => "the stored object cannot be read, so the server refuses".to_owned(),
        Reading::StorageFull => "etcd is full and refuses".to_owned(),
        Reading::RightsMissing => {
            format!(
                "{} lacks the right to make this request, so it refuses",
                identity.user().unwrap_or("you")
            )
        }
        _ => "the server refuses".to_owned(),
    };
    let as_whom = match identity {
        Identity::Caller => "",
        Identity::Collector => " when the garbage collector asks for it",
        Identity::JobController => " when the Job controller asks for it",
        Identity::NamespaceController => " when the namespace controller asks for it",
    };
    let configuration =
        actor.configuration.as_ref().map(|name| format!(" (configured in {name})")).unwrap_or_default();
    let is = if what == Refused::Request { "cannot be deleted" } else { "does not go" };
    format!("{} {is}: {who} {}{as_whom}{configuration}", leaf.short(), what.words())
}

/// The finding for a target whose own DELETE was refused.
pub(super) fn refused_delete(target: &ObjectRef, reply: &Reply, caller: &Caller) -> Finding {
    let reading = read_real(reply, Identity::Caller);
    let (cause, actor) = cause_of(&reading).unwrap_or((Cause::Undetermined, Actor::default()));
    let chain = [target.clone()];
    let summary = summary(target, Refused::Request, &reading, &actor, Identity::Caller);
    let mut finding = Finding::new(cause, Verdict::Proven, &chain, target, summary);
    finding.evidence(format!("DELETE {}", target.short()), reply.trouble().unwrap_or_default());
    if let Some(policy) = &actor.policy {
        finding.remedies.push(Remedy::command(
            caller.command(
                "kubectl get",
                None,
                &[&format!("validatingadmissionpolicy/{policy}"), "-o", "yaml"],
            ),
            "see what the policy demands, meet it, and delete again",
        ));
    } else {
        finding.remedies.push(Remedy::text("meet what the server's answer demands, and delete again"));
    }
    finding.by = Some(actor);
    finding
}
