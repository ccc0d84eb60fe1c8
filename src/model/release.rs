//! Removing one finalizer by hand: which one, whether that may be offered at all, what it leaves behind, and the patch
//! that does it and nothing else.

use serde::Serialize;
use serde_json::{Value, json};

use super::collector::{DEFINITION_FINALIZER, NAMESPACE_FINALIZER};
use super::command::Caller;
use super::diagnosis::{Actor, Diagnosis, Evidence, Remedy, served};
use super::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, ObjectRef};
use crate::error::Failure;

/// The whole answer of `release`. The fields are a contract (design section 3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// The object; none where a selector matched nothing.
    pub target: Option<ObjectRef>,
    /// The finalizer in question.
    pub finalizer: String,
    /// What `--confirm` must be given; empty where it is refused for good.
    pub digest: String,
    /// Whether the finalizer was removed.
    pub applied: bool,
    /// What its removal leaves behind, in a sentence.
    pub leaves_behind: String,
    /// What happens to the object then, in a sentence.
    pub effect: String,
    /// Who refuses the removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// The complete command that confirms the removal; only where nothing but the confirmation is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// How the object stands after the removal.
    pub after: Option<Diagnosis>,
}

/// Why the finalizer is not removed, and what does better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Who refuses; none where it is `release` itself, or where the server's answer names nobody.
    pub by: Option<Actor>,
    /// Why, in a sentence.
    pub reason: String,
    /// The server's own words.
    pub evidence: Vec<Evidence>,
    /// What does better.
    pub remedies: Vec<Remedy>,
}

/// What the command line comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This finalizer may be removed, if the server accepts it.
    Remove(String),
    /// This one is never removed by hand.
    Never {
        /// Which.
        finalizer: String,
        /// What its removal would leave behind.
        leaves_behind: String,
        /// Why, and what does better.
        refusal: Box<Refusal>,
    },
}

/// Finds the finalizer that is meant: the named one, or the only one there is.
///
/// # Errors
/// Usage where there are several and none is named; an error where there is none, or not the named one.
pub fn choose(object: &Object, named: Option<&str>, caller: &Caller) -> Result<Choice, Failure> {
    let short = object.reference().short();
    let is_namespace = object.is("", "Namespace");
    let list = || object.finalizers.join(", ");
    let finalizer = match (named, object.finalizers.as_slice()) {
        (Some(named), own) if own.iter().any(|own| own == named) => named,
        // It stands in spec.finalizers of every Namespace, and is all that holds most of them.
        (Some(NAMESPACE_FINALIZER), _) | (None, []) if is_namespace => NAMESPACE_FINALIZER,
        (Some(named), []) => {
            return Err(Failure::error(format!("{short} has no finalizer {named}: it has none"))
                .hint(look_hint(object, caller)));
        }
        (Some(named), _) => {
            return Err(Failure::error(format!("{short} has no finalizer {named}"))
                .hint(format!("it has {}", list())));
        }
        (None, [only]) => only,
        (None, []) => {
            return Err(Failure::error(format!("{short} has no finalizer")).hint(look_hint(object, caller)));
        }
        (None, several) => {
            let lines: Vec<String> = several
                .iter()
                .map(|finalizer| {
                    caller.command_on("kubectl cascade release", object, &["--finalizer", finalizer])
                })
                .collect();
            return Err(Failure::usage(format!("{short} has several finalizers: {}", list())).hint(format!(
                "remove one at a time, the one whose controller is gone: {}",
                lines.join("  or  ")
            )));
        }
    };
    Ok(match never(object, finalizer, caller) {
        Some((leaves_behind, refusal)) => {
            Choice::Never { finalizer: finalizer.to_owned(), leaves_behind, refusal: Box::new(refusal) }
        }
        None => Choice::Remove(finalizer.to_owned()),
    })
}

fn look_hint(object: &Object, caller: &Caller) -> String {
    if object.is_terminating() {
        let command = caller.command_on("kubectl cascade diagnose", object, &[]);
        format!("no finalizer holds it: {command}")
    } else {
        "nothing holds it: it can be deleted".to_owned()
    }
}

/// The finalizers that are never removed by hand, because another way is better (reference S.3).
fn never(object: &Object, finalizer: &str, caller: &Caller) -> Option<(String, Refusal)> {
    let short = object.reference().short();
    let is_definition = object.is("apiextensions.k8s.io", "CustomResourceDefinition");
    let is_live = !object.is_terminating();
    let diagnose =
        |text: &str| vec![Remedy::command(caller.command_on("kubectl cascade diagnose", object, &[]), text)];
    let (leaves, reason, remedies) = match finalizer {
        FOREGROUND_FINALIZER | ORPHAN_FINALIZER if is_live => (
            "nothing: it is not being deleted",
            format!(
                "{short} is not being deleted, and {finalizer} does nothing until it is; it holds nothing, and the policy of \
                 a delete outranks it"
            ),
            Vec::new(),
        ),
        DEFINITION_FINALIZER if is_definition && is_live => (
            "instances in etcd that nobody can reach, and that come back when the definition is created again",
            format!(
                "{short} is not being deleted; when it is, the API server removes {finalizer} as soon as no instance is left"
            ),
            diagnose("see what would hold it if it were deleted"),
        ),
        NAMESPACE_FINALIZER if object.is("", "Namespace") && is_live => (
            "objects in etcd that nobody can reach, and that come back when a namespace of that name is created again",
            format!(
                "{short} is not being deleted; when it is, the namespace controller removes {finalizer} from its \
                 spec.finalizers as soon as the namespace is empty"
            ),
            diagnose("see what would hold it if it were deleted"),
        ),
        FOREGROUND_FINALIZER => (
            "dependents that should have gone first",
            format!(
                "the garbage collector sets and removes {finalizer}, and a patch of it passes the same admission that \
                 may be refusing the collector; a delete with the background policy takes it off without asking anybody"
            ),
            vec![with_policy(object, "background", caller).risk(
                "what still depends on it is collected afterwards, in background, or stays until its own cause is solved",
            )],
        ),
        ORPHAN_FINALIZER => (
            "nothing: the dependents that still refer to it would be deleted, which the orphan policy was to prevent",
            format!(
                "the garbage collector removes {finalizer} when every dependent of {short} has lost its reference; \
                 without it, by whatever way, the collector deletes every dependent that still refers to it"
            ),
            diagnose("see which dependent still refers to it, and why; let the collector finish"),
        ),
        DEFINITION_FINALIZER if is_definition => (
            "instances in etcd that nobody can reach, and that come back when the definition is created again",
            format!(
                "the API server removes {finalizer} as soon as no instance is left; what holds {short} is an instance"
            ),
            diagnose("see which instances are left, and what holds them"),
        ),
        NAMESPACE_FINALIZER if object.is("", "Namespace") => (
            "objects in etcd that nobody can reach, and that come back when a namespace of that name is created again",
            format!(
                "the namespace controller removes {finalizer} from spec.finalizers as soon as the namespace is empty; what holds {short} is \
                 in it, or an API that does not answer"
            ),
            diagnose("see what is left in it, and what holds that"),
        ),
        _ => return None,
    };
    // What a Namespace has in spec.finalizers is not among them, and was not read.
    let evidence = object.has_finalizer(finalizer).then(|| Evidence {
        source: format!("metadata.finalizers of {short}"),
        text: Value::from(object.finalizers.clone()).to_string(),
    });
    let refusal = Refusal { by: None, reason, evidence: evidence.into_iter().collect(), remedies };
    Some((leaves.to_owned(), refusal))
}

/// Deleting a Terminating object again with another policy. A Pod that waits for its kubelet takes a policy only together with a shorter
/// grace period (reference C.4).
fn with_policy(object: &Object, policy: &str, caller: &Caller) -> Remedy {
    let mut rest = vec!["--policy", policy];
    let waits = object.is("", "Pod") && object.grace_seconds.unwrap_or(0) > 1;
    if waits {
        rest.extend(["--grace-period", "1"]);
    }
    Remedy::command(
        caller.command_on("kubectl cascade delete", object, &rest),
        format!("delete it again with the {policy} policy"),
    )
}

/// What is left behind where this finalizer is removed instead of served.
pub fn leaves_behind(finalizer: &str) -> String {
    served(finalizer).map_or_else(
        || "what its controller would have cleaned up stays, outside the cluster too".to_owned(),
        |known| known.leaves.to_owned(),
    )
}

/// What happens to the object once the finalizer is off. `with_it` counts the objects that go after it.
pub fn effect(object: &Object, finalizer: &str, with_it: usize) -> String {
    let short = object.reference().short();
    let others: Vec<&str> =
        object.finalizers.iter().map(String::as_str).filter(|own| *own != finalizer).collect();
    if !object.is_terminating() {
        return format!(
            "{short} is not being deleted and stays; when it is deleted, nothing of what {finalizer} stands for is done"
        );
    }
    if !others.is_empty() {
        return format!("{short} stays until {} is off, too", others.join(", "));
    }
    let goes = if object.is("", "Pod") && object.grace_seconds.unwrap_or(0) > 0 {
        format!("{short} goes when its kubelet confirms that its containers have ended")
    } else if object.is("", "Namespace") {
        format!("{short} goes as soon as it is empty")
    } else {
        format!("{short} goes at once")
    };
    match with_it {
        0 => goes,
        1 => format!("{goes}, and 1 object that depends on it after it"),
        more => format!("{goes}, and {more} objects that depend on it after it"),
    }
}

/// The patch: tests that it is this very object with these very finalizers, and takes the one off.
pub fn patch(object: &Object, finalizer: &str) -> Value {
    let path = "/metadata/finalizers";
    let rest: Vec<&String> = object.finalizers.iter().filter(|own| *own != finalizer).collect();
    let change = if rest.is_empty() {
        json!({ "op": "remove", "path": path })
    } else {
        json!({ "op": "replace", "path": path, "value": rest })
    };
    json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid },
        { "op": "test", "path": path, "value": object.finalizers },
        change,
    ])
}

/// What `--confirm` must be given, so that what was looked at is what is changed: 16 hexadecimal digits over the
/// object's UID, resourceVersion, deletionTimestamp and finalizers, and the finalizer to remove. It guards against a
/// changed object, not against an enemy: FNV-1a.
pub fn digest(object: &Object, finalizer: &str) -> String {
    let deleted = object.deleted.map(|deleted| deleted.to_string()).unwrap_or_default();
    let fields = [object.uid.as_str(), &object.resource_version, &deleted, finalizer];
    let fields = fields.into_iter().chain(object.finalizers.iter().map(String::as_str));
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in fields.flat_map(|field| field.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Whether the object still is as it was shown. Its status may have changed meanwhile; what the question was about
/// may not.
pub fn is_as_shown(shown: &Object, now: &Object) -> bool {
    (&shown.uid, &shown.finalizers, shown.is_terminating())
        == (&now.uid, &now.finalizers, now.is_terminating())
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;
    use crate::error::FailureKind;

    fn object(text: &str) -> Object {
        graph(text).object(0).clone()
    }

    fn chosen(text: &str, named: Option<&str>) -> Result<Choice, Failure> {
        choose(&object(text), named, &Caller::default())
    }

    fn refusal(text: &str, named: Option<&str>) -> Refusal {
        match chosen(text, named) {
            Ok(Choice::Never { refusal, .. }) => *refusal,
            other => panic!("{other:?}"),
        }
    }

    fn commands(refusal: &Refusal) -> Vec<&str> {
        refusal.remedies.iter().filter_map(|remedy| remedy.command.as_deref()).collect()
    }

    #[test]
    fn the_only_finalizer_is_meant_and_a_named_one_among_several() {
        assert_eq!(chosen("ConfigMap/a finalizer=a/b", None), Ok(Choice::Remove("a/b".into())));
        let two = "ConfigMap/a finalizer=a/b finalizer=c/d";
        assert_eq!(chosen(two, Some("c/d")), Ok(Choice::Remove("c/d".into())));
    }

    #[test]
    fn of_several_one_must_be_named_and_each_has_its_command() {
        let failure = chosen("ConfigMap/a finalizer=a/b finalizer=foregroundDeletion", None).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert_eq!(failure.message, "ConfigMap/a has several finalizers: a/b, foregroundDeletion");
        assert!(
            failure.hint.unwrap().contains("kubectl cascade release -n x configmap/a --finalizer a/b  or  ")
        );
    }

    #[test]
    fn what_is_not_there_cannot_be_removed() {
        for (text, named) in [
            ("ConfigMap/a", None),
            ("ConfigMap/a terminating", None),
            ("ConfigMap/a finalizer=a/b", Some("a")),
            ("ConfigMap/a", Some("kubernetes")),
            ("Namespace/a", Some("a/b")),
        ] {
            let failure = chosen(text, named).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Error, "{text}");
            assert!(failure.hint.is_some(), "{text}");
        }
    }

    #[test]
    fn for_the_collectors_finalizers_a_delete_does_better() {
        let foreground = "ConfigMap/a terminating finalizer=foregroundDeletion finalizer=a/b";
        assert_eq!(
            commands(&refusal(foreground, Some("foregroundDeletion"))),
            ["kubectl cascade delete -n x configmap/a --policy background"]
        );
        let orphan = refusal("ConfigMap/a terminating finalizer=orphan", None);
        // A delete in background would delete the very dependents that should stay.
        assert_eq!(commands(&orphan), ["kubectl cascade diagnose -n x configmap/a"]);
        assert!(orphan.reason.contains("deletes every dependent"));
    }

    #[test]
    fn what_is_not_being_deleted_is_held_by_nothing_and_no_delete_is_offered() {
        for finalizer in ["foregroundDeletion", "orphan"] {
            let live = refusal(&format!("ConfigMap/a finalizer={finalizer}"), None);
            assert!(live.reason.starts_with("ConfigMap/a is not being deleted"), "{}", live.reason);
            assert_eq!(live.remedies, []);
        }
        let namespace = refusal("Namespace/a spec=kubernetes", Some("kubernetes"));
        assert!(namespace.reason.starts_with("Namespace/a is not being deleted"), "{}", namespace.reason);
        assert!(namespace.reason.contains("spec.finalizers"));
        assert_eq!(namespace.evidence, []);
        assert_eq!(commands(&namespace), ["kubectl cascade diagnose namespace/a"]);
    }

    #[test]
    fn a_pod_that_waits_for_its_kubelet_takes_the_policy_only_with_a_shorter_grace_period() {
        let pod = "Pod/a terminating grace=30 node=n1 finalizer=foregroundDeletion";
        assert_eq!(
            commands(&refusal(pod, None)),
            ["kubectl cascade delete -n x pod/a --policy background --grace-period 1"]
        );
    }

    #[test]
    fn containers_are_never_robbed_of_their_clean_up() {
        let definition =
            "CustomResourceDefinition/ws.e.test finalizer=customresourcecleanup.apiextensions.k8s.io";
        for (text, named) in [
            (definition, None),
            ("Namespace/a terminating spec=kubernetes", None),
            ("Namespace/a terminating finalizer=a/b spec=kubernetes", Some("kubernetes")),
        ] {
            let refusal = refusal(text, named);
            assert!(commands(&refusal)[0].starts_with("kubectl cascade diagnose "), "{text}");
        }
        // Whatever a controller has put into a Namespace's metadata is a finalizer like any other.
        assert_eq!(
            chosen("Namespace/a finalizer=a/b spec=kubernetes", None),
            Ok(Choice::Remove("a/b".into()))
        );
        // Elsewhere the name means nothing.
        let elsewhere = "ConfigMap/a finalizer=customresourcecleanup.apiextensions.k8s.io";
        assert!(matches!(chosen(elsewhere, None), Ok(Choice::Remove(_))));
    }

    #[test]
    fn the_patch_tests_uid_and_list_and_removes_one() {
        assert_eq!(
            patch(&object("ConfigMap/a finalizer=a/b finalizer=c/d"), "a/b"),
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "ConfigMap/a" },
                { "op": "test", "path": "/metadata/finalizers", "value": ["a/b", "c/d"] },
                { "op": "replace", "path": "/metadata/finalizers", "value": ["c/d"] },
            ])
        );
        assert_eq!(
            patch(&object("ConfigMap/a finalizer=a/b"), "a/b")[2],
            json!({ "op": "remove", "path": "/metadata/finalizers" })
        );
    }

    #[test]
    fn the_digest_changes_when_the_object_or_the_wish_does() {
        let shown = object("ConfigMap/a terminating finalizer=a/b finalizer=c/d");
        let first = digest(&shown, "a/b");
        assert_eq!(first.len(), 16);
        assert!(first.chars().all(|digit| digit.is_ascii_digit() || ('a'..='f').contains(&digit)));
        assert_eq!(first, digest(&shown.clone(), "a/b"));
        let successor = Object { uid: "u2".into(), ..shown.clone() };
        let touched = Object { resource_version: "2".into(), ..shown.clone() };
        let live = Object { deleted: None, ..shown.clone() };
        let fewer = Object { finalizers: vec!["a/b".into()], ..shown.clone() };
        for other in [&successor, &touched, &live, &fewer] {
            assert_ne!(first, digest(other, "a/b"));
        }
        assert_ne!(first, digest(&shown, "c/d"));
        assert!(is_as_shown(&shown, &touched));
        for other in [&successor, &live, &fewer] {
            assert!(!is_as_shown(&shown, other));
        }
    }

    #[test]
    fn the_effect_says_whether_it_goes_and_what_with_it() {
        let after = |text: &str, with_it| effect(&object(text), "a/b", with_it);
        assert_eq!(after("ConfigMap/a terminating finalizer=a/b", 0), "ConfigMap/a goes at once");
        assert_eq!(
            after("ConfigMap/a terminating finalizer=a/b", 2),
            "ConfigMap/a goes at once, and 2 objects that depend on it after it"
        );
        assert_eq!(
            after("ConfigMap/a terminating finalizer=a/b finalizer=c/d", 2),
            "ConfigMap/a stays until c/d is off, too"
        );
        assert!(after("ConfigMap/a finalizer=a/b", 0).contains("is not being deleted and stays"));
        assert!(after("Pod/a terminating finalizer=a/b grace=30", 0).contains("when its kubelet confirms"));
        assert!(after("Namespace/a terminating finalizer=a/b", 0).contains("as soon as it is empty"));
    }

    #[test]
    fn what_is_left_behind_is_known_for_well_known_finalizers() {
        assert!(leaves_behind("service.kubernetes.io/load-balancer-cleanup").contains("load balancer"));
        assert!(leaves_behind("external-attacher/disk.example.test").contains("disk"));
        assert!(leaves_behind("a/b").contains("its controller"));
    }
}
