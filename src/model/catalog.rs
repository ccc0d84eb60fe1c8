//! The kinds that a server serves, as discovery lists them: the vocabulary for naming targets, for listing, and for
//! resolving an ownerReference the way the garbage collector's RESTMapper does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

/// One served resource in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, for example `v1`.
    pub version: String,
    /// Kind, for example `Pod`.
    pub kind: String,
    /// Plural name as in URLs, for example `pods`.
    pub plural: String,
    /// Singular name; may be empty on old servers.
    pub singular: String,
    /// Short names, for example `po`.
    pub short_names: Vec<String>,
    /// Categories, for example `all`.
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// The verbs served: `get`, `list`, `watch`, `delete`, `patch`, ...
    pub verbs: BTreeSet<String>,
}

impl Resource {
    /// `group/version`, or only the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name that tells it from resources of other groups: `jobs.batch`, `pods`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The URL path of its objects: of one namespace, or (of all, or of a cluster-scoped kind) of the whole cluster.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let place = namespace.map(|name| format!("/namespaces/{}", escaped(name))).unwrap_or_default();
        format!("{root}/{}{place}/{}", self.api_version(), self.plural)
    }

    /// The URL path of one object.
    pub fn object_path(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.collection_path(namespace), escaped(name))
    }

    /// Whether it serves this verb.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(verb)
    }

    /// Whether the garbage collector watches it, and therefore collects its objects and lets them block: it needs
    /// delete, list and watch, and must not be an event (`pkg/controller/garbagecollector/garbagecollector.go`,
    /// GetDeletableResources; `graph_builder.go`, ignored resources; reference A.6).
    pub fn is_collectable(&self) -> bool {
        self.can("delete") && self.can("list") && self.can("watch") && !self.is_event()
    }

    /// Events are served in two groups and ignored by the collector (reference A.6).
    pub fn is_event(&self) -> bool {
        self.plural == "events" && (self.group.is_empty() || self.group == "events.k8s.io")
    }

    /// Whether this is the given kind of the given group, in whatever version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

/// A kind that could not be read. An answer with gaps is never called complete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gap {
    /// Plural name; `*` for a whole dead group.
    pub resource: String,
    /// API group; empty for the core group.
    pub group: String,
    /// API version, where only one is affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The server's reason in one word, for example `Forbidden`, `ServiceUnavailable`.
    pub reason: String,
    /// The server's own words.
    pub message: String,
}

/// What a server serves, in its own order of priority (core first), every served version.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    resources: Vec<Arc<Resource>>,
    stale: Vec<(String, String)>,
    gaps: Vec<Gap>,
    by_kind: HashMap<(String, String, String), usize>,
    by_lower_kind: HashMap<(String, String, String), usize>,
}

impl Catalog {
    /// Builds the catalog from resources in the server's order of priority: groups in order, within a group the
    /// preferred version first. `stale` are (group, version) pairs whose content is unknown because their server
    /// does not answer; `gaps` says so to the user.
    pub fn new(resources: Vec<Resource>, stale: Vec<(String, String)>, gaps: Vec<Gap>) -> Self {
        let resources: Vec<Arc<Resource>> = resources.into_iter().map(Arc::new).collect();
        let (mut by_kind, mut by_lower_kind) = (HashMap::new(), HashMap::new());
        for (index, resource) in resources.iter().enumerate() {
            let key = (resource.group.clone(), resource.version.clone(), resource.kind.clone());
            // The first wins, as in the RESTMapper's priority order.
            by_kind.entry(key).or_insert(index);
            let key = (resource.group.clone(), resource.version.clone(), resource.kind.to_lowercase());
            by_lower_kind.entry(key).or_insert(index);
        }
        Self { resources, stale, gaps, by_kind, by_lower_kind }
    }

    /// Every served resource in every version, in the server's order.
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The groups and kinds that discovery could not tell us about.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The resource behind an apiVersion and kind, if exactly this version is served. A kind all in lower case is as
    /// good, for the collector, too (`client-go/restmapper`, NewDiscoveryRESTMapper, adds both).
    pub fn served(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = split_api_version(api_version);
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        let index = self.by_kind.get(&key).or_else(|| self.by_lower_kind.get(&key))?;
        Some(&self.resources[*index])
    }

    /// Whether nobody can say what this group version serves, because its server does not answer.
    pub fn is_stale(&self, api_version: &str) -> bool {
        let (group, version) = split_api_version(api_version);
        self.stale.iter().any(|(stale_group, stale_version)| stale_group == group && stale_version == version)
    }

    /// Each resource once, in the first version that serves it (the one the collector watches, reference A.6).
    pub fn preferred(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let mut seen = BTreeSet::new();
        self.resources.iter().filter(move |resource| seen.insert((&resource.group, &resource.plural)))
    }
}

/// Text as one segment of a URL path, or one value of its query.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Splits `batch/v1` into (`batch`, `v1`) and `v1` into (``, `v1`).
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use crate::model::testing::catalog;

    #[test]
    fn a_path_names_scope_group_and_version_and_no_name_leaves_its_segment() {
        let catalog = catalog();
        let pods = catalog.served("v1", "Pod").expect("served");
        let jobs = catalog.served("batch/v1", "Job").expect("served");
        assert_eq!(pods.collection_path(None), "/api/v1/pods");
        assert_eq!(jobs.collection_path(Some("ci")), "/apis/batch/v1/namespaces/ci/jobs");
        assert_eq!(pods.object_path(Some("a/b"), "x?y"), "/api/v1/namespaces/a%2Fb/pods/x%3Fy");
    }
}
