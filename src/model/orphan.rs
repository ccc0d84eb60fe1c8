//! What earlier deletions left behind, and nothing will collect: Pods of Jobs that were deleted without a policy or
//! with orphan, and objects whose ownerReferences the collector cannot or will not act on.

use serde::Serialize;
use serde_json::Value;

use super::catalog::{Gap, split_api_version};
use super::command::Caller;
use super::diagnosis::Cause;
use super::graph::{OwnerGraph, OwnerState};
use super::object::{Object, ObjectRef, OwnerReference, Timestamp, Uid};

/// The labels by which the Job controller finds its Pods; the second was the only one before Kubernetes 1.27.
const JOB_UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const JOB_NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// An owner that is gone: all that is known of it is what its dependent says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FormerOwner {
    /// `group/version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID; empty where nothing tells it.
    pub uid: Uid,
    /// Whether the name is a guess.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

/// An object that was left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The object.
    pub reference: ObjectRef,
    /// Why nothing will collect it.
    pub cause: Cause,
    /// What it belonged to; none for a cycle.
    pub of: Option<FormerOwner>,
    /// creationTimestamp.
    pub created: Option<Timestamp>,
    /// A complete command to remove it.
    pub command: String,
}

/// The whole answer of `orphans`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orphans {
    /// What was left behind.
    pub objects: Vec<Orphan>,
    /// Kinds that could not be read.
    pub gaps: Vec<Gap>,
}

/// Finds what was left behind among these objects. An object that only looks so because its owner could not be read
/// is not claimed. Findings of cause `owner-absent` are certain only if a later look shows them again: the collector
/// may be on its way.
pub fn orphans(graph: &OwnerGraph, caller: &Caller) -> Orphans {
    let snapshot = graph.snapshot();
    let mut objects = Vec::new();
    let leaked_cycles = graph.leaked_cycles();
    for (index, object) in graph.objects().iter().enumerate() {
        // What is Terminating goes, or is a matter of `diagnose`.
        if object.is_terminating() || object.resource.is_event() || snapshot.outside.contains(&object.uid) {
            continue;
        }
        let Some((cause, of)) =
            left_by_job(graph, object).or_else(|| never_collected(graph, index, &leaked_cycles))
        else {
            continue;
        };
        objects.push(Orphan {
            reference: object.reference(),
            cause,
            of,
            created: object.created,
            command: caller.command_on("kubectl delete", object, &[]),
        });
    }
    Orphans { objects, gaps: snapshot.gaps.clone() }
}

/// Claims that look like those of a StatefulSet that is not there any more: `TEMPLATE-STATEFULSET-ORDINAL`, without an
/// owner. Whether one made them shows only in the whole object: see [`claim_left_behind`].
pub fn claim_candidates(graph: &OwnerGraph) -> Vec<usize> {
    let candidate = |claim: &Object| {
        claim.is("", "PersistentVolumeClaim")
            && !claim.is_terminating()
            && claim.owners.is_empty()
            && ordinal_stem(&claim.name).is_some_and(|stem| {
                let namespace = claim.namespace.as_deref();
                let owners = graph.objects().iter().filter(|object| {
                    object.is("apps", "StatefulSet") && object.namespace.as_deref() == namespace
                });
                // A living one of a fitting name keeps its claims, those of ordinals that it has no more included.
                graph.snapshot().was_listed("apps", "StatefulSet", namespace)
                    && graph.snapshot().was_listed("", "Pod", namespace)
                    && !is_in_use(graph, claim)
                    && !owners.into_iter().any(|owner| stem.ends_with(&format!("-{}", owner.name)))
            })
    };
    (0..graph.objects().len()).filter(|index| candidate(graph.object(*index))).collect()
}

/// Whether a Pod of the set is still there, `SET-ORDINAL` for the claim `TEMPLATE-SET-ORDINAL`, which a set that was
/// deleted with orphan leaves running, or any Pod that mounts the claim.
fn is_in_use(graph: &OwnerGraph, claim: &Object) -> bool {
    let pods = graph.objects().iter().filter(|pod| pod.is("", "Pod") && pod.namespace == claim.namespace);
    pods.into_iter().any(|pod| {
        let details = graph.snapshot().details.pods.get(&pod.uid);
        ordinal_stem(&format!("-{}", pod.name)).is_some() && claim.name.ends_with(&format!("-{}", pod.name))
            || details.is_some_and(|details| details.claims.contains(&claim.name))
    })
}

/// A claim that a controller of the controller manager made: without an owner, that can only be the StatefulSet
/// controller (the other one that makes claims, for ephemeral volumes, makes the Pod their owner). `whole` is the
/// claim as the server has it.
pub fn claim_left_behind(claim: &Object, whole: &Value, caller: &Caller) -> Option<Orphan> {
    let managers = whole["metadata"]["managedFields"].as_array()?;
    let made_by_controller = managers.iter().any(|entry| {
        entry["manager"] == "kube-controller-manager"
            && entry["fieldsV1"]["f:spec"]["f:resources"].is_object()
    });
    if !made_by_controller || whole["metadata"]["uid"] != *claim.uid.as_str() {
        return None;
    }
    let (owner, guessed) = set_of(ordinal_stem(&claim.name)?, claim)?;
    Some(Orphan {
        reference: claim.reference(),
        cause: Cause::ClaimLeftBehind,
        of: Some(FormerOwner {
            api_version: "apps/v1".to_owned(),
            kind: "StatefulSet".to_owned(),
            name: owner.to_owned(),
            uid: Uid::from(""),
            guessed,
        }),
        created: claim.created,
        command: caller.command_on("kubectl delete", claim, &[]),
    })
}

/// The set's name in `TEMPLATE-SET`, and whether it is a guess: where the template's name ends is not written down. The
/// set's selector stands on the claim as labels, and mostly has the set's name as a value
/// (`pkg/controller/statefulset/stateful_set_utils.go`, getPersistentVolumeClaims); else most templates have one word.
fn set_of<'s>(stem: &'s str, claim: &Object) -> Option<(&'s str, bool)> {
    let suffixes: Vec<&str> = stem.match_indices('-').map(|(at, _)| &stem[at + 1..]).collect();
    let labelled = suffixes.iter().find(|suffix| claim.labels.values().any(|value| value == **suffix));
    let owner = labelled.or(suffixes.first())?;
    Some((owner, labelled.is_none() && suffixes.len() > 1))
}

/// `data-db` of `data-db-0`.
fn ordinal_stem(name: &str) -> Option<&str> {
    let (stem, ordinal) = name.rsplit_once('-')?;
    let is_ordinal = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    (is_ordinal && stem.contains('-')).then_some(stem)
}

/// A Pod without owners whose labels name a Job that is not there by UID (G1). A new Job of the same name has another
/// UID, and so have its Pods.
fn left_by_job(graph: &OwnerGraph, pod: &Object) -> Option<(Cause, Option<FormerOwner>)> {
    if !pod.is("", "Pod") || !pod.owners.is_empty() {
        return None;
    }
    let label = |names: [&str; 2]| names.iter().find_map(|name| pod.labels.get(*name)).cloned();
    let uid = Uid::from(label(JOB_UID_LABELS)?);
    let jobs_known = graph.snapshot().was_listed("batch", "Job", pod.namespace.as_deref());
    if !jobs_known || !graph.by_uid(&uid).is_empty() {
        return None;
    }
    let of = FormerOwner {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: label(JOB_NAME_LABELS).unwrap_or_default(),
        uid,
        guessed: false,
    };
    Some((Cause::OrphanedByDefault, Some(of)))
}

/// An object with owners, none of which is found, that the collector leaves alone.
fn never_collected(
    graph: &OwnerGraph,
    index: usize,
    leaked_cycles: &[bool],
) -> Option<(Cause, Option<FormerOwner>)> {
    let object = graph.object(index);
    let owners: Vec<(&OwnerReference, OwnerState)> =
        graph.owners(index).map(|(reference, resolved)| (reference, resolved.state)).collect();
    if owners.iter().any(|(reference, _)| reference.uid == object.uid) {
        return Some((Cause::OwnsItself, None));
    }
    if leaked_cycles[index] {
        return Some((Cause::OwnershipCycle, None));
    }
    // Somebody with that UID may live where nobody looked, or under another version.
    let lives = |reference: &OwnerReference, state: OwnerState| {
        state.is_found() || state == OwnerState::Unknown || !graph.by_uid(&reference.uid).is_empty()
    };
    if owners.is_empty() || owners.iter().any(|(reference, state)| lives(reference, *state)) {
        return None;
    }
    let of = |(reference, _): &(&OwnerReference, OwnerState)| FormerOwner {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
        guessed: false,
    };
    let with = |state: OwnerState| owners.iter().find(|(_, own)| *own == state).map(of);
    if let Some(of) = with(OwnerState::Unserved) {
        return Some((Cause::OwnerKindUnserved, Some(of)));
    }
    if let Some(of) = with(OwnerState::Scope) {
        let (group, _) = split_api_version(&of.api_version);
        let looked = graph.snapshot().was_listed(group, &of.kind, None);
        return looked.then_some((Cause::ClusterScopedDependent, Some(of)));
    }
    // The collector never sees it (G12).
    let cause = if object.resource.is_collectable() { Cause::OwnerAbsent } else { Cause::KindNotCollectable };
    Some((cause, owners.first().map(of)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::graph;
    use super::*;

    fn found(text: &str) -> Vec<(String, Cause)> {
        let orphans = orphans(&graph(text), &Caller::default());
        orphans.objects.iter().map(|orphan| (orphan.reference.short(), orphan.cause)).collect()
    }

    #[test]
    fn a_pod_of_a_job_that_is_gone_by_uid_was_left_behind_but_never_one_of_the_new_job() {
        let text = "
            Job/etl uid=new
            Pod/old label=batch.kubernetes.io/controller-uid=gone label=batch.kubernetes.io/job-name=etl
            Pod/new label=batch.kubernetes.io/controller-uid=new <- Job/etl!*
            Pod/lost label=batch.kubernetes.io/controller-uid=new";
        assert_eq!(found(text), [("Pod/old".to_owned(), Cause::OrphanedByDefault)]);
        let orphans = orphans(&graph(text), &Caller::default());
        assert_eq!(orphans.objects[0].of.as_ref().unwrap().name, "etl");
        assert_eq!(orphans.objects[0].command, "kubectl delete -n x pod/old");
    }

    #[test]
    fn a_pod_is_not_claimed_where_jobs_could_not_be_read() {
        let mut snapshot = super::super::testing::snapshot("Pod/p label=controller-uid=gone");
        snapshot.gaps.push(Gap {
            resource: "jobs".into(),
            group: "batch".into(),
            version: None,
            reason: "Forbidden".into(),
            message: "no".into(),
        });
        assert!(orphans(&OwnerGraph::new(snapshot), &Caller::default()).objects.is_empty());
    }

    #[test]
    fn references_that_the_collector_never_acts_on() {
        assert_eq!(
            found(
                "Secret/a <- gone.test/v1#ConfigMap/x
                 ClusterRole/b <- ConfigMap/y
                 ConfigMap/c <- ConfigMap/d
                 ConfigMap/d <- ConfigMap/c
                 ConfigMap/e <- ConfigMap/e
                 Fleeting/f <- ConfigMap/z"
            ),
            [
                ("ClusterRole/b".to_owned(), Cause::ClusterScopedDependent),
                ("ConfigMap/c".to_owned(), Cause::OwnershipCycle),
                ("ConfigMap/d".to_owned(), Cause::OwnershipCycle),
                ("ConfigMap/e".to_owned(), Cause::OwnsItself),
                ("Fleeting/f".to_owned(), Cause::KindNotCollectable),
                ("Secret/a".to_owned(), Cause::OwnerKindUnserved),
            ]
        );
    }

    #[test]
    fn a_claim_that_the_stateful_set_controller_made_and_whose_set_is_gone() {
        let text = "
            StatefulSet/web
            PersistentVolumeClaim/data-db-0
            PersistentVolumeClaim/data-web-1
            PersistentVolumeClaim/scratch-0
            PersistentVolumeClaim/data-orphaned-0
            PersistentVolumeClaim/data-orphaned-1
            Pod/orphaned-0
            PersistentVolumeClaim/data-lent-0
            Pod/any claim=data-lent-0";
        let graph = graph(text);
        let names = claim_candidates(&graph)
            .iter()
            .map(|index| graph.object(*index).name.clone())
            .collect::<Vec<_>>();
        assert_eq!(names, ["data-db-0", "data-orphaned-1"]);
        let claim = graph.object(claim_candidates(&graph)[0]);
        let whole = |manager: &str| {
            serde_json::json!({ "metadata": { "uid": claim.uid, "managedFields": [
                { "manager": manager, "fieldsV1": { "f:spec": { "f:resources": {} } } },
            ] } })
        };
        let left = claim_left_behind(claim, &whole("kube-controller-manager"), &Caller::default()).unwrap();
        let of = left.of.unwrap();
        assert_eq!((left.cause, of.name.as_str(), of.guessed), (Cause::ClaimLeftBehind, "db", false));
        assert_eq!(claim_left_behind(claim, &whole("kubectl-create"), &Caller::default()), None);
    }

    #[test]
    fn where_a_templates_name_ends_is_told_by_the_claims_labels_or_guessed() {
        let claim = |text: &str| graph(text).object(0).clone();
        let name = |text: &str| {
            let claim = claim(text);
            let (name, guessed) = set_of(ordinal_stem(&claim.name).unwrap(), &claim).unwrap();
            (name.to_owned(), guessed)
        };
        let labelled = "PersistentVolumeClaim/my-data-db-0 label=app.kubernetes.io/name=db";
        assert_eq!(name(labelled), ("db".to_owned(), false));
        assert_eq!(name("PersistentVolumeClaim/my-data-db-0"), ("data-db".to_owned(), true));
        assert_eq!(name("PersistentVolumeClaim/data-db-0"), ("db".to_owned(), false));
    }

    #[test]
    fn an_owned_object_was_not_left_behind() {
        assert!(found("Job/j\nPod/p <- Job/j!*\nSecret/s <- Pod/p, ConfigMap/gone").is_empty());
    }
}
