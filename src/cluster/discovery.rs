//! What the server serves: two aggregated discovery requests, side by side, in the server's own order of priority.
//!
//! An old or proxied server answers the legacy documents instead; then every group version is asked for itself. A
//! group that cannot tell is a gap, never an error: it is often the very cause of a stall, and the collector
//! stumbles over it, too.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use serde::Deserialize;

use crate::cluster::connect::Cluster;
use crate::cluster::request::Request;
use crate::error::Failure;
use crate::error::Trouble;
use crate::model::catalog::{Catalog, Gap, Resource};
use crate::model::target::check_name;

/// Aggregated discovery where the server has it (1.30; 1.26 as beta), else the legacy documents.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";
/// How many group versions are asked at once where each has to be asked for itself.
const AT_ONCE: usize = 16;
/// How long an API whose server is down may take to say so, before we stop asking it for its own words.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the server for everything that it serves. A group that does not answer becomes a gap.
///
/// # Errors
/// Only when nothing can be learnt at all: there is no connection, the credentials are not accepted, or both
/// discovery requests are refused.
pub async fn catalog(cluster: &Cluster) -> Result<Catalog, Failure> {
    let (core, named) = futures::join!(document(cluster, "/api"), document(cluster, "/apis"));
    let (core, named) = match (core, named) {
        (Err(trouble), other) | (other, Err(trouble)) if is_fatal(&trouble) || other.is_err() => {
            return Err(trouble.into());
        }
        both => both,
    };
    let mut found = Found::default();
    for (answer, group) in [(core, ""), (named, "*")] {
        match answer {
            Ok(document) => found.read(document),
            Err(trouble) => found.gaps.push(gap(group, None, trouble)),
        }
    }

    // What the two documents do not tell is asked for one by one, in the same order.
    let asked: Vec<(String, String)> = found.entries.iter().filter_map(Entry::unread).collect();
    let answers: Vec<Result<Vec<Resource>, Trouble>> =
        futures::stream::iter(asked.iter().map(|(group, version)| resources(cluster, group, version)))
            .buffered(AT_ONCE)
            .collect()
            .await;
    Ok(found.finish(answers))
}

/// Whether a failed request means that no other one will fare better.
fn is_fatal(trouble: &Trouble) -> bool {
    matches!(trouble.code(), None | Some(401))
}

/// Reads one of the two discovery documents.
async fn document(cluster: &Cluster, path: &str) -> Result<Document, Trouble> {
    let answer = cluster.send(Request::get(path).accept(ACCEPT)).await?;
    serde_json::from_slice(&answer.body)
        .map_err(|error| no_answer(format!("the answer to GET {path} is no discovery document: {error}")))
}

/// Reads what one group version serves, in the legacy form that every server has.
async fn resources(cluster: &Cluster, group: &str, version: &str) -> Result<Vec<Resource>, Trouble> {
    let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let request = Request::get(&path).once();
    let answer = tokio::time::timeout(PATIENCE, cluster.send(request))
        .await
        .map_err(|_| no_answer(format!("no answer to GET {path} within {} s", PATIENCE.as_secs())))??;
    let list: LegacyList = serde_json::from_slice(&answer.body)
        .map_err(|error| no_answer(format!("the answer to GET {path} is no APIResourceList: {error}")))?;
    Ok(list.resources.into_iter().filter_map(|resource| resource.read(group, version)).collect())
}

/// Whether these can be parts of a path, as everything that Kubernetes itself serves: a name such as `..` of a hostile
/// server could lead to another server's objects.
fn is_path(parts: &[&str]) -> bool {
    parts.iter().all(|part| part.is_empty() || check_name(part).is_ok())
}

fn no_answer(message: String) -> Trouble {
    Trouble::NoAnswer { message, hint: None }
}

/// The gap that a failed request leaves.
fn gap(group: &str, version: Option<&str>, trouble: Trouble) -> Gap {
    let (reason, message) = match trouble {
        Trouble::NoAnswer { message, .. } => ("NoAnswer".to_owned(), message),
        Trouble::Status { code, reason, message, .. } if reason.is_empty() => match code {
            503 => ("ServiceUnavailable".to_owned(), message),
            code => (format!("HTTP {code}"), message),
        },
        Trouble::Status { reason, message, .. } => (reason, message),
    };
    Gap { resource: "*".into(), group: group.into(), version: version.map(str::to_owned), reason, message }
}

/// One group version, in its place in the server's order.
enum Entry {
    /// Its resources are known.
    Read(Vec<Resource>),
    /// It has to be asked for itself: (group, version).
    Unread(String, String),
}

impl Entry {
    fn unread(&self) -> Option<(String, String)> {
        match self {
            Self::Read(_) => None,
            Self::Unread(group, version) => Some((group.clone(), version.clone())),
        }
    }
}

/// What discovery has told so far.
#[derive(Default)]
struct Found {
    entries: Vec<Entry>,
    gaps: Vec<Gap>,
}

impl Found {
    /// Takes up one document, aggregated or legacy, keeping its order.
    fn read(&mut self, document: Document) {
        for group in document.items {
            let name = group.metadata.name;
            for version in group.versions {
                self.entries.push(if version.freshness == "Stale" {
                    // Its server is down: what is cached here is out of date, and the collector does not use it.
                    Entry::Unread(name.clone(), version.version)
                } else {
                    let read = |resource: AggregatedResource| resource.read(&name, &version.version);
                    Entry::Read(version.resources.into_iter().filter_map(read).collect())
                });
            }
        }
        for version in document.versions {
            self.entries.push(Entry::Unread(String::new(), version));
        }
        for group in document.groups {
            let preferred = group.preferred_version.version;
            let (first, rest): (Vec<_>, Vec<_>) =
                group.versions.into_iter().partition(|version| version.version == preferred);
            for version in first.into_iter().chain(rest) {
                self.entries.push(Entry::Unread(group.name.clone(), version.version));
            }
        }
    }

    /// The catalog, with one answer for each entry that was unread, in their order.
    fn finish(self, answers: Vec<Result<Vec<Resource>, Trouble>>) -> Catalog {
        let (mut resources, mut stale, mut gaps) = (Vec::new(), Vec::new(), self.gaps);
        let mut answers = answers.into_iter();
        for entry in self.entries {
            match entry {
                Entry::Read(read) => resources.extend(read),
                Entry::Unread(group, version) => match answers.next() {
                    Some(Ok(read)) => resources.extend(read),
                    Some(Err(trouble)) => {
                        gaps.push(gap(&group, Some(&version), trouble));
                        stale.push((group, version));
                    }
                    None => {}
                },
            }
        }
        Catalog::new(resources, stale, gaps)
    }
}

/// Any of the discovery documents: APIGroupDiscoveryList (`items`), APIVersions (`versions`), APIGroupList
/// (`groups`). `api/apidiscovery/v2/types.go`; `apimachinery/pkg/apis/meta/v1/types.go`.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    groups: Vec<LegacyGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    /// The core group has no name, and where it has no metadata either, this is empty.
    #[serde(default)]
    metadata: GroupName,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct GroupName {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

impl AggregatedResource {
    /// None for a resource that only carries subresources: it has no kind and no verbs of its own.
    fn read(self, group: &str, version: &str) -> Option<Resource> {
        let kind = self.response_kind.map(|kind| kind.kind).unwrap_or_default();
        (!kind.is_empty() && !self.verbs.is_empty() && is_path(&[group, version, &self.resource])).then(
            || Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                kind,
                plural: self.resource,
                singular: self.singular_resource,
                short_names: self.short_names,
                categories: self.categories,
                namespaced: self.scope == "Namespaced",
                verbs: self.verbs,
            },
        )
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyGroup {
    name: String,
    #[serde(default)]
    versions: Vec<LegacyVersion>,
    #[serde(default)]
    preferred_version: LegacyVersion,
}

#[derive(Default, Deserialize)]
struct LegacyVersion {
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct LegacyList {
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

impl LegacyResource {
    /// None for a subresource, whose name has a slash.
    fn read(self, group: &str, version: &str) -> Option<Resource> {
        (!self.verbs.is_empty() && is_path(&[group, version, &self.name])).then(|| Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.kind,
            plural: self.name,
            singular: self.singular_name,
            short_names: self.short_names,
            categories: self.categories,
            namespaced: self.namespaced,
            verbs: self.verbs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{Reply, Server};

    fn found(documents: &[&str]) -> Found {
        let mut found = Found::default();
        for text in documents {
            found.read(serde_json::from_str(text).expect("a discovery document"));
        }
        found
    }

    fn legacy(text: &str, group: &str, version: &str) -> Vec<Resource> {
        let list: LegacyList = serde_json::from_str(text).expect("an APIResourceList");
        list.resources.into_iter().filter_map(|resource| resource.read(group, version)).collect()
    }

    #[test]
    fn a_resource_whose_name_leads_elsewhere_in_a_path_is_left_out() {
        for name in ["..", ".", "a/b", "a%2fb"] {
            let list = serde_json::json!({ "resources": [
                { "name": name, "kind": "Evil", "verbs": ["list"] },
                { "name": "pods", "kind": "Pod", "verbs": ["list"] },
            ] });
            let kinds: Vec<String> =
                legacy(&list.to_string(), "", "v1").into_iter().map(|resource| resource.kind).collect();
            assert_eq!(kinds, ["Pod"], "{name}");
            assert!(legacy(&list.to_string(), name, "v1").is_empty(), "{name}");
            let aggregated = serde_json::json!({ "items": [{ "metadata": { "name": "evil.test" }, "versions": [
                { "version": "v1", "resources": [{ "resource": name, "responseKind": { "kind": "Evil" }, "verbs": ["list"] }] },
            ] }] });
            assert!(found(&[&aggregated.to_string()]).finish(Vec::new()).all().is_empty(), "{name}");
        }
    }

    /// How the aggregator answers for an API whose server is down.
    fn down() -> Trouble {
        let message = "service unavailable".to_owned();
        Trouble::Status { code: 503, reason: String::new(), message, retry_after: None }
    }

    fn names(catalog: &Catalog) -> Vec<String> {
        catalog
            .all()
            .iter()
            .map(|resource| format!("{} {}", resource.api_version(), resource.plural))
            .collect()
    }

    const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},
      "items":[{"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
        {"resource":"pods","responseKind":{"group":"","version":"","kind":"Pod"},"scope":"Namespaced",
         "singularResource":"pod","verbs":["create","delete","get","list","patch","watch"],"shortNames":["po"],
         "categories":["all"],"subresources":[{"subresource":"log","responseKind":{"kind":"Pod"},"verbs":["get"]}]},
        {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster",
         "singularResource":"namespace","verbs":["delete","get","list"],"shortNames":["ns"]},
        {"resource":"carriers","responseKind":null,"scope":"Namespaced","singularResource":"","verbs":[],
         "subresources":[{"subresource":"x","responseKind":{"kind":"X"},"verbs":["get"]}]}]}]}]}"#;
    const NAMED: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},
      "items":[
       {"metadata":{"name":"zebra.io"},"versions":[
         {"version":"v2","freshness":"Current","resources":[
           {"resource":"herds","responseKind":{"kind":"Herd"},"scope":"Namespaced","singularResource":"herd",
            "verbs":["delete","get","list","watch"]}]},
         {"version":"v1","freshness":"Current","resources":[
           {"resource":"herds","responseKind":{"kind":"Herd"},"scope":"Namespaced","singularResource":"herd",
            "verbs":["delete","get","list","watch"]}]}]},
       {"metadata":{"name":"metrics.k8s.io"},"versions":[
         {"version":"v1beta1","freshness":"Stale","resources":[
           {"resource":"pods","responseKind":{"kind":"PodMetrics"},"scope":"Namespaced","singularResource":"pod",
            "verbs":["get","list"]}]}]},
       {"metadata":{"name":"aardvark.io"},"versions":[{"version":"v1","freshness":"Current","resources":[]}]}]}"#;

    #[tokio::test]
    async fn an_api_whose_server_is_down_costs_one_question_and_no_error() {
        let json = |text| Reply::json(200, serde_json::from_str(text).expect("a document"));
        let server =
            Server::start(vec![json(CORE), json(NAMED), Reply::json(503, serde_json::json!("down"))]);
        let catalog = catalog(&server.cluster().await).await.expect("a catalog");
        assert_eq!(catalog.gaps().len(), 1);
        assert!(catalog.served("v1", "Pod").is_some() && catalog.served("zebra.io/v2", "Herd").is_some());
        let lines: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
        assert_eq!(lines[2..], ["GET /apis/metrics.k8s.io/v1beta1 HTTP/1.1"]);
    }

    #[tokio::test]
    async fn only_when_nothing_can_be_learnt_is_it_an_error() {
        let refused = || Reply::refusal(403, "Forbidden", "no");
        let server = Server::start(vec![refused(), refused()]);
        let failure = catalog(&server.cluster().await).await.expect_err("nothing was learnt");
        assert_eq!(failure.message, "Error from server (Forbidden): no");
    }

    #[test]
    fn resources_keep_the_servers_order_and_what_only_carries_subresources_is_dropped() {
        let catalog = found(&[CORE, NAMED]).finish(vec![Err(down())]);
        assert_eq!(names(&catalog), ["v1 pods", "v1 namespaces", "zebra.io/v2 herds", "zebra.io/v1 herds"]);
        let pods = &catalog.all()[0];
        assert_eq!(
            (pods.kind.as_str(), pods.singular.as_str(), pods.namespaced, pods.can("watch")),
            ("Pod", "pod", true, true)
        );
        assert_eq!(
            (&pods.short_names[..], &pods.categories[..]),
            (&["po".to_owned()][..], &["all".to_owned()][..])
        );
        assert!(!catalog.all()[1].namespaced);
    }

    #[test]
    fn a_stale_group_is_one_gap_in_the_words_of_its_own_api_service() {
        let catalog = found(&[CORE, NAMED]).finish(vec![Err(down())]);
        assert!(catalog.is_stale("metrics.k8s.io/v1beta1"));
        assert!(!catalog.is_stale("zebra.io/v1"));
        assert_eq!(
            catalog.gaps(),
            [Gap {
                resource: "*".into(),
                group: "metrics.k8s.io".into(),
                version: Some("v1beta1".into()),
                reason: "ServiceUnavailable".into(),
                message: "service unavailable".into(),
            }]
        );
    }

    #[test]
    fn a_stale_group_that_answers_after_all_is_no_gap() {
        let answer = legacy(
            r#"{"kind":"APIResourceList","groupVersion":"metrics.k8s.io/v1beta1","resources":[
                {"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}"#,
            "metrics.k8s.io",
            "v1beta1",
        );
        let catalog = found(&[NAMED]).finish(vec![Ok(answer)]);
        assert!(catalog.gaps().is_empty() && !catalog.is_stale("metrics.k8s.io/v1beta1"));
        assert!(catalog.served("metrics.k8s.io/v1beta1", "PodMetrics").is_some());
    }

    #[test]
    fn the_legacy_documents_are_asked_for_version_by_version_with_the_preferred_one_first() {
        let found = found(&[
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}"#,
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps",
                "versions":[{"groupVersion":"apps/v1beta1","version":"v1beta1"},{"groupVersion":"apps/v1","version":"v1"}],
                "preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}"#,
        ]);
        let asked: Vec<_> = found.entries.iter().filter_map(Entry::unread).collect();
        assert_eq!(
            asked,
            [("", "v1"), ("apps", "v1"), ("apps", "v1beta1")]
                .map(|(group, version)| (group.into(), version.into()))
        );
        let core = legacy(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
                {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"],
                 "shortNames":["po"]},
                {"name":"pods/log","singularName":"","namespaced":true,"kind":"Pod","verbs":["get"]}]}"#,
            "",
            "v1",
        );
        let catalog =
            found.finish(vec![Ok(core), Ok(Vec::new()), Err(no_answer("no answer within 5 s".into()))]);
        assert_eq!(names(&catalog), ["v1 pods"]);
        assert_eq!(catalog.gaps().len(), 1);
        assert!(catalog.is_stale("apps/v1beta1"));
    }
}
