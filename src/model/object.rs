//! Objects as far as deletion is concerned: identity, owners, finalizers, times; and a snapshot of many, with what
//! could not be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::catalog::{Catalog, Gap, Resource};

/// A moment in time. The model never asks for the current one: it is always an argument.
pub type Timestamp = jiff::Timestamp;

/// The finalizer that the API server sets for a foreground deletion and the collector removes
/// (`apimachinery/pkg/apis/meta/v1/types.go`, FinalizerDeleteDependents).
pub const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// The finalizer that the API server sets for an orphaning deletion and the collector removes
/// (`apimachinery/pkg/apis/meta/v1/types.go`, FinalizerOrphanDependents).
pub const ORPHAN_FINALIZER: &str = "orphan";

/// A UID: the identity of one object for all time. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Arc<str>);

impl Uid {
    /// The text of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Uid({})", self.0)
    }
}

impl Serialize for Uid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A reference to one object, as it stands in every document of the output contract.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// `group/version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; absent for cluster-scoped objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
}

impl ObjectRef {
    /// `Kind/name`, how texts name an object.
    pub fn short(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// `group/version` of the owner, as written in the reference.
    pub api_version: String,
    /// Kind of the owner, as written in the reference.
    pub kind: String,
    /// Name of the owner, as written in the reference.
    pub name: String,
    /// UID of the owner.
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether it holds a foreground deletion of the owner; unset counts as false (reference A.4).
    pub block_owner_deletion: bool,
}

/// Labels, by key.
pub type Labels = BTreeMap<String, String>;

/// One object's metadata, as far as deletion is concerned.
#[derive(Debug, Clone)]
pub struct Object {
    /// The resource it was read as.
    pub resource: Arc<Resource>,
    /// Namespace; none for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
    /// resourceVersion when it was read.
    pub resource_version: String,
    /// ownerReferences in their order. Shared: siblings have the same.
    pub owners: Arc<[OwnerReference]>,
    /// finalizers in their order.
    pub finalizers: Vec<String>,
    /// Labels. Shared: siblings often have the same.
    pub labels: Arc<Labels>,
    /// creationTimestamp.
    pub created: Option<Timestamp>,
    /// deletionTimestamp: set means Terminating.
    pub deleted: Option<Timestamp>,
    /// deletionGracePeriodSeconds.
    pub grace_seconds: Option<i64>,
}

impl Object {
    /// Its reference for output.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: self.resource.api_version(),
            kind: self.resource.kind.clone(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Whether it has a deletionTimestamp.
    pub fn is_terminating(&self) -> bool {
        self.deleted.is_some()
    }

    /// Whether it carries this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// The finalizers that are not the collector's own (`foregroundDeletion`, `orphan`).
    pub fn foreign_finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers
            .iter()
            .map(String::as_str)
            .filter(|name| *name != FOREGROUND_FINALIZER && *name != ORPHAN_FINALIZER)
    }

    /// Whether it is the given kind of the given group.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.is(group, kind)
    }
}

/// How the server itself prints an object (its Table): what is shown beside the metadata. Texts of the cluster, not
/// yet sanitized.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Ready, as the server words it, for example `1/1`; empty where the kind has no such column.
    pub ready: String,
    /// Status, as the server words it, for example `Running`; empty where the kind has no such column.
    pub status: String,
}

/// What metadata does not tell of a Pod, but its deletion depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDetails {
    /// `spec.nodeName`; empty while unscheduled. Only a Pod on a node waits for a kubelet (reference A.1).
    pub node: String,
    /// Phase Succeeded or Failed: its grace period is forced to 0 (`pkg/registry/core/pod/strategy.go`).
    pub finished: bool,
    /// `status.phase`.
    pub phase: String,
    /// `spec.terminationGracePeriodSeconds`, in seconds.
    pub grace_seconds: i64,
    /// Names of the PersistentVolumeClaims it mounts; a generic ephemeral volume counts by its claim's name.
    pub claims: Vec<String>,
    /// A mirror Pod of a static Pod (annotation `kubernetes.io/config.mirror`).
    pub mirror: bool,
}

/// What metadata does not tell, for the few kinds where it matters.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// By Pod.
    pub pods: BTreeMap<Uid, PodDetails>,
    /// `spec.finalizers` by Namespace.
    pub namespace_finalizers: BTreeMap<Uid, Vec<String>>,
    /// StatefulSets whose `persistentVolumeClaimRetentionPolicy.whenDeleted` is `Delete`, with the names of their
    /// claim templates: those claims go, too. All others keep them (reference G10).
    pub stateful_sets: BTreeMap<Uid, ClaimRetention>,
    /// For CustomResourceDefinitions: (group, kind) of their instances.
    pub definitions: BTreeMap<Uid, (String, String)>,
    /// The Nodes, by name, whose kubelets confirm nothing now. Others are Ready, or nobody looked.
    pub silent_nodes: BTreeMap<String, SilentNode>,
}

/// Why a Node's kubelet confirms nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilentNode {
    /// There is no such Node.
    Absent,
    /// Its condition Ready is not True.
    NotReady,
}

/// What a StatefulSet does with its claims when it is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimRetention {
    /// `whenDeleted: Delete`.
    pub delete: bool,
    /// Names of the claim templates; claims are called `TEMPLATE-STATEFULSET-ORDINAL`.
    pub templates: Vec<String>,
}

/// Where was searched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Searched {
    /// The namespaces that were listed; none means all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether the cluster-scoped kinds were listed.
    pub cluster_scoped: bool,
}

impl Snapshot {
    /// Whether not a single kind could be listed: then nothing is known, and least of all that nothing is there.
    pub fn is_blind(&self) -> bool {
        self.versions.is_empty() && !self.gaps.is_empty()
    }

    /// Whether all objects of this kind in this namespace (none: everywhere, or cluster-scoped) were listed, so that
    /// one that is not among the objects is not there.
    pub fn was_listed(&self, group: &str, kind: &str, namespace: Option<&str>) -> bool {
        let Some(resource) = self.catalog.preferred().find(|resource| resource.is(group, kind)) else {
            // A kind that nobody serves has no objects, unless its server is merely silent.
            return !self.gaps.iter().any(|gap| gap.group == group);
        };
        let covered = match (namespace, resource.namespaced) {
            (None, true) => self.searched.namespaces.is_none(),
            _ => self.searched.covers(resource, namespace),
        };
        covered
            && resource.can("list")
            && !self.gaps.iter().any(|gap| {
                gap.group == resource.group && (gap.resource == resource.plural || gap.resource == "*")
            })
    }
}

impl Searched {
    /// Everything.
    pub fn everywhere() -> Self {
        Self { namespaces: None, cluster_scoped: true }
    }

    /// One namespace, with or without the cluster-scoped kinds.
    pub fn namespace(namespace: impl Into<String>, cluster_scoped: bool) -> Self {
        Self { namespaces: Some(BTreeSet::from([namespace.into()])), cluster_scoped }
    }

    /// Whether objects of this resource in this namespace were among what was searched.
    pub fn covers(&self, resource: &Resource, namespace: Option<&str>) -> bool {
        match (resource.namespaced, namespace, &self.namespaces) {
            (false, _, _) => self.cluster_scoped,
            (true, _, None) => true,
            (true, Some(namespace), Some(namespaces)) => namespaces.contains(namespace),
            (true, None, Some(_)) => false,
        }
    }
}

/// A single look-up of an owner that lay outside what was listed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LookupKey {
    /// API group of the owner.
    pub group: String,
    /// Kind of the owner.
    pub kind: String,
    /// Namespace where it was looked for; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// How such a look-up ended, where no object was found. (A found one is among the snapshot's objects.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The server says that there is no such object.
    Absent,
    /// It could not be read.
    Unreadable,
}

/// The objects of a cluster, or of a part of it, at (nearly) one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// What the server serves.
    pub catalog: Catalog,
    /// The objects, each UID of a kind once.
    pub objects: Vec<Object>,
    /// Kinds that could not be read.
    pub gaps: Vec<Gap>,
    /// Where was searched.
    pub searched: Searched,
    /// resourceVersion of each list, by (qualified resource name, namespace or "" for all): watches begin there.
    pub versions: BTreeMap<(String, String), String>,
    /// Objects that lie outside the searched part: owners that were looked up one by one. They are nobody's root.
    pub outside: BTreeSet<Uid>,
    /// Owners outside the searched part that were looked up one by one and not found.
    pub lookups: BTreeMap<LookupKey, Lookup>,
    /// What metadata does not tell.
    pub details: Details,
}
