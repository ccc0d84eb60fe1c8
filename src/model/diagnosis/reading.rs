//! Reading a dry run's answer: who refuses, if anybody (the table "Reading P1's answer" of the reference, B.0). Only
//! the server's words decide; where they name nobody, nobody is named.

use crate::model::facts::{Identity, Question, Reply};

/// What an answer to a dry run means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// The request would be accepted now.
    Accepted,
    /// The object is not there any more, or it is another one by now.
    Gone,
    /// A webhook answered `allowed: false`; its failurePolicy does not matter (F1).
    WebhookDenied {
        /// Its name.
        webhook: String,
    },
    /// A fail-closed webhook could not be called (F2).
    WebhookUnreachable {
        /// Its name.
        webhook: String,
    },
    /// A ValidatingAdmissionPolicy denies, or its expression fails (F4).
    PolicyDenied {
        /// Its name.
        policy: String,
        /// The binding, where the answer names it.
        binding: Option<String>,
    },
    /// Something changed an immutable field on the way (F3): the answer shows what, not who.
    Mutated,
    /// The request is accepted, and yet its answer still has what should be removed: something puts it back on the way.
    PutBack,
    /// The stored object does not validate any more (F5).
    Invalid,
    /// An admission plugin inside the API server, or a server of another make, refuses.
    Forbidden,
    /// The collector, or whoever we acted as, lacks the right (F19).
    RightsMissing,
    /// We lack the right to ask.
    NotAllowed,
    /// The conversion webhook of the kind fails (F17); the object itself is healthy.
    Conversion,
    /// The dry run may pass, but what it asks for cannot be stored: the conversion to the version of the storage fails.
    Unstorable {
        /// What was read in that version.
        source: String,
        /// Whether that is known to be the version of the storage.
        surely: bool,
    },
    /// The stored bytes cannot be decoded (F17).
    Corrupt,
    /// etcd has no space left (F24).
    StorageFull,
    /// No answer to build on: a conflict, throttling, no connection, or not asked.
    Nothing,
}

impl Reading {
    /// Whether somebody refuses the request: proof that whoever needs it accepted is refused, too.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Accepted | Self::Gone | Self::NotAllowed | Self::Nothing)
    }
}

/// Reads the answer to a dry run that was sent with this identity.
pub(super) fn read(reply: &Reply, identity: Identity) -> Reading {
    match read_real(reply, identity) {
        // Whether it lets the real request pass, nobody knows.
        Reading::WebhookDenied { .. } if reply.trouble().is_some_and(|words| speaks_of_dry_runs(&words)) => {
            Reading::Nothing
        }
        reading => reading,
    }
}

/// Reads the answer to a request that was none.
pub(super) fn read_real(reply: &Reply, identity: Identity) -> Reading {
    let Reply::Refused { code, message, .. } = reply else {
        return if matches!(reply, Reply::Answer { .. }) { Reading::Accepted } else { Reading::Nothing };
    };
    let message = message.as_str();
    if let Some(author) = author(message) {
        return author;
    }
    if message.contains("conversion webhook for ") {
        return Reading::Conversion;
    }
    if message.contains("database space exceeded") {
        return Reading::StorageFull;
    }
    if message.contains("corrupt object") || message.contains("object not decodable") {
        return Reading::Corrupt;
    }
    match code {
        404 | 410 => Reading::Gone,
        409 if message.contains("UID in precondition") => Reading::Gone,
        403 if message.contains("cannot impersonate") => Reading::NotAllowed,
        403 => match (message.contains("User \""), identity) {
            (true, Identity::Caller) => Reading::NotAllowed,
            (true, _) if identity.user().is_some_and(|user| message.contains(user)) => Reading::RightsMissing,
            (true, _) => Reading::NotAllowed,
            (false, _) => Reading::Forbidden,
        },
        401 => Reading::NotAllowed,
        422 if is_immutable(message) => Reading::Mutated,
        422 => Reading::Invalid,
        _ => Reading::Nothing,
    }
}

/// Who refuses, by the server's own words. Webhooks and policies may put any text behind their names, that of another
/// refusal, too: the first name counts.
fn author(message: &str) -> Option<Reading> {
    let policy = |words: &str| {
        let (at, policy) = quoted_after(message, words, '\'')?;
        let binding = quoted_after(&message[at..], "with binding ", '\'').map(|(_, binding)| binding);
        Some((at, Reading::PolicyDenied { policy, binding }))
    };
    let webhook = |words: &str, reading: fn(String) -> Reading| {
        quoted_after(message, words, '"').map(|(at, webhook)| (at, reading(webhook)))
    };
    let named = [
        webhook("admission webhook ", |webhook| Reading::WebhookDenied { webhook }),
        webhook("failed calling webhook ", |webhook| Reading::WebhookUnreachable { webhook }),
        policy("ValidatingAdmissionPolicy "),
        policy("policy ").filter(|_| message.contains("denied request")),
    ];
    named.into_iter().flatten().min_by_key(|(at, _)| *at).map(|(_, reading)| reading)
}

/// Whether a refusal is about the dry run and not about the request: the API server's own words where a webhook has
/// side effects, or those of a webhook that wants no dry runs.
pub(super) fn speaks_of_dry_runs(message: &str) -> bool {
    let message = message.to_lowercase();
    ["dry run", "dry-run", "dryrun"].iter().any(|words| message.contains(words))
}

/// Whether the answer to a removal still has what should be removed, so that the request, accepted or not, changes
/// nothing: a mutating webhook or policy put it back on the way.
pub(super) fn is_put_back(question: &Question, reply: &Reply) -> bool {
    let Some(body) = reply.body() else { return false };
    let metadata = &body["metadata"];
    match question {
        Question::RemoveFinalizer { finalizer, .. } => {
            metadata["finalizers"].as_array().into_iter().flatten().any(|own| own == finalizer.as_str())
        }
        Question::RemoveReference { owner, .. } => {
            let references = metadata["ownerReferences"].as_array().into_iter().flatten();
            references.into_iter().any(|reference| reference["uid"] == owner.as_str())
        }
        _ => false,
    }
}

/// Whether a 422 speaks of a field that may not change. The patch changes metadata alone, so somebody else did.
fn is_immutable(message: &str) -> bool {
    [
        "may not change fields other than",
        "may not add or remove containers",
        "updates may not change",
        "updates to statefulset spec for fields other than",
        "field is immutable",
        "may not be changed",
        "may not be updated",
        // A new finalizer is refused on what is being deleted, and no removal adds one
        // (apimachinery/pkg/api/validation/objectmeta.go, ValidateObjectMetaAccessorUpdate).
        "no new finalizers can be added",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// The quoted word that follows these words, and where they stand.
fn quoted_after(message: &str, words: &str, quote: char) -> Option<(usize, String)> {
    let at = message.find(words)?;
    let rest = message[at + words.len()..].strip_prefix(quote)?;
    Some((at, rest[..rest.find(quote)?].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, message: &str) -> Reply {
        Reply::Refused { code, reason: String::new(), message: message.to_owned() }
    }

    #[test]
    fn a_denying_webhook_is_named_whatever_code_it_answers_with() {
        for code in [400, 403, 409, 500] {
            let reply =
                refused(code, "admission webhook \"digester.test.io\" denied the request: no pull secret");
            assert_eq!(
                read(&reply, Identity::Caller),
                Reading::WebhookDenied { webhook: "digester.test.io".into() }
            );
        }
    }

    #[test]
    fn a_webhook_that_quotes_a_missing_right_of_its_own_is_still_the_one_that_denies() {
        let reply = refused(
            403,
            "admission webhook \"w\" denied the request: User \"x\" cannot get resource \"secrets\"",
        );
        assert_eq!(read(&reply, Identity::Caller), Reading::WebhookDenied { webhook: "w".into() });
    }

    #[test]
    fn a_webhook_that_cannot_be_called_is_unreachable() {
        let reply = refused(
            500,
            "Internal error occurred: failed calling webhook \"a.b\": failed to call webhook: connection refused",
        );
        assert_eq!(read(&reply, Identity::Caller), Reading::WebhookUnreachable { webhook: "a.b".into() });
    }

    #[test]
    fn a_policy_is_named_with_its_binding() {
        let reply = refused(
            422,
            "jobs.batch \"j\" is forbidden: ValidatingAdmissionPolicy 'lock' with binding 'lock-all' denied request: no",
        );
        assert_eq!(
            read(&reply, Identity::Caller),
            Reading::PolicyDenied { policy: "lock".into(), binding: Some("lock-all".into()) }
        );
    }

    #[test]
    fn of_several_names_in_one_refusal_the_first_is_the_author() {
        let policy = refused(
            422,
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: admission webhook \"innocent\" denied the \
             request: does not support dry run",
        );
        let author = Reading::PolicyDenied { policy: "p".into(), binding: Some("b".into()) };
        assert_eq!(read(&policy, Identity::Caller), author);
        let webhook = refused(
            403,
            "admission webhook \"relay\" denied the request: failed calling webhook \"innocent\": refused",
        );
        assert_eq!(read(&webhook, Identity::Caller), Reading::WebhookDenied { webhook: "relay".into() });
    }

    #[test]
    fn a_new_finalizer_in_a_removal_was_added_on_the_way() {
        let reply = refused(
            422,
            "ConfigMap \"c\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is \
             being deleted, found new finalizers []string{\"mesh.test/protect\"}",
        );
        assert_eq!(read(&reply, Identity::Caller), Reading::Mutated);
    }

    #[test]
    fn a_changed_immutable_field_means_that_something_mutated_the_object_on_the_way() {
        let reply = refused(
            422,
            "Pod \"x\" is invalid: spec: Forbidden: pod updates may not change fields other than `image`",
        );
        assert_eq!(read(&reply, Identity::Caller), Reading::Mutated);
    }

    #[test]
    fn a_custom_resource_that_misses_a_field_is_invalid() {
        let reply = refused(422, "Graph.example.test \"x\" is invalid: spec: Required value");
        assert_eq!(read(&reply, Identity::Caller), Reading::Invalid);
    }

    #[test]
    fn our_own_missing_right_is_no_refusal_of_anybody_else() {
        let ours = refused(
            403,
            "pods \"x\" is forbidden: User \"ada\" cannot patch resource \"pods\" in API group \"\" in the namespace \"ci\"",
        );
        assert_eq!(read(&ours, Identity::Caller), Reading::NotAllowed);
        let impersonation = refused(
            403,
            "serviceaccounts \"generic-garbage-collector\" is forbidden: User \"ada\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"kube-system\"",
        );
        assert_eq!(read(&impersonation, Identity::Collector), Reading::NotAllowed);
    }

    #[test]
    fn a_right_that_the_collector_misses_is_found_by_acting_as_it() {
        let reply = refused(
            403,
            "pods \"x\" is forbidden: User \"system:serviceaccount:kube-system:generic-garbage-collector\" cannot patch resource \"pods\" in API group \"\" in the namespace \"ci\"",
        );
        assert_eq!(read(&reply, Identity::Collector), Reading::RightsMissing);
    }

    #[test]
    fn an_object_behind_a_dead_conversion_webhook_is_not_corrupt() {
        let reply = refused(
            500,
            "StorageError: corrupt object, Code: 6: conversion webhook for example.test/v1, Kind=Graph failed: refused",
        );
        assert_eq!(read(&reply, Identity::Caller), Reading::Conversion);
    }

    #[test]
    fn whoever_refuses_the_real_request_refuses_whatever_the_words_say_of_dry_runs() {
        let reply = refused(403, "admission webhook \"w\" denied the request: try a dry run first");
        assert_eq!(read(&reply, Identity::Caller), Reading::Nothing);
        let webhook = Reading::WebhookDenied { webhook: "w".into() };
        assert_eq!(read_real(&reply, Identity::Caller), webhook);
    }

    #[test]
    fn what_says_nothing_proves_nothing() {
        for reply in [
            refused(409, "the object has been modified"),
            refused(400, "admission webhook \"w\" does not support dry run"),
            refused(400, "admission webhook \"w\" denied the request: Dry-run is not welcome here"),
            Reply::NoAnswer("connection refused".into()),
            Reply::NotAsked("--probe=read".into()),
        ] {
            assert_eq!(read(&reply, Identity::Caller), Reading::Nothing);
        }
    }
}
