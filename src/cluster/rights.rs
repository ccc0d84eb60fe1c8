//! What the caller may list. Asked only after a list was refused, and used only to spare lists that are as surely
//! refused: whoever may read little does not ask a hundred kinds in vain.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

use super::connect::Cluster;
use super::request::Request;
use crate::model::catalog::Resource;

/// The rights of the caller, as far as they are known.
pub struct Rights<'c> {
    cluster: &'c Cluster,
    /// The namespace that the review speaks of.
    namespace: String,
    doubtful: AtomicBool,
    rules: OnceCell<Option<Vec<Rule>>>,
}

impl<'c> Rights<'c> {
    /// Rights that nobody has doubted yet. `namespace` is the one that is listed; for lists of the whole cluster any:
    /// what is granted everywhere is granted in it, too.
    pub fn new(cluster: &'c Cluster, namespace: &str) -> Self {
        Self {
            cluster,
            namespace: namespace.to_owned(),
            doubtful: AtomicBool::new(false),
            rules: OnceCell::new(),
        }
    }

    /// A list was refused.
    pub fn doubt(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    /// Whether a list of this resource would surely be refused: a complete review grants it nowhere. False where
    /// nothing was refused yet, and wherever the answer is not certain.
    pub async fn forbid_list(&self, resource: &Resource, namespace: Option<&str>) -> bool {
        if !self.doubtful.load(Ordering::Relaxed) || namespace.is_some_and(|name| name != self.namespace) {
            return false;
        }
        let rules = self.rules.get_or_init(|| review(self.cluster, &self.namespace)).await;
        rules.as_ref().is_some_and(|rules| !rules.iter().any(|rule| rule.allows("list", resource)))
    }
}

/// One rule of a SelfSubjectRulesReview (`api/authorization/v1/types.go`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
}

impl Rule {
    /// A rule for single names counts as one for all: it may allow a list after all.
    fn allows(&self, verb: &str, resource: &Resource) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|own| own == "*" || own == one);
        has(&self.verbs, verb)
            && has(&self.api_groups, &resource.group)
            && has(&self.resources, &resource.plural)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    incomplete: bool,
    evaluation_error: String,
    resource_rules: Vec<Rule>,
}

impl Default for Status {
    /// What no server said is not complete.
    fn default() -> Self {
        Self { incomplete: true, evaluation_error: String::new(), resource_rules: Vec::new() }
    }
}

/// All rules that hold for the caller in a namespace; none where they could not be read completely. An authorizer
/// that knows no rules (a webhook) makes every answer incomplete.
async fn review(cluster: &Cluster, namespace: &str) -> Option<Vec<Rule>> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let request = Request::new(http::Method::POST, path).body("application/json", &body).once();
    complete(&cluster.send(request).await.ok()?.body)
}

fn complete(body: &[u8]) -> Option<Vec<Rule>> {
    let Review { status } = serde_json::from_slice(body).ok()?;
    (!status.incomplete && status.evaluation_error.is_empty()).then_some(status.resource_rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::catalog;

    fn may_list(rules: &str, api_version: &str, kind: &str) -> Option<bool> {
        let catalog = catalog();
        let resource = catalog.served(api_version, kind).expect("served");
        let rules = complete(rules.as_bytes())?;
        Some(rules.iter().any(|rule| rule.allows("list", resource)))
    }

    #[test]
    fn a_complete_review_says_what_may_be_listed() {
        let rules = r#"{"status": {"incomplete": false, "nonResourceRules": [], "resourceRules": [
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]},
            {"verbs": ["*"], "apiGroups": ["example.test"], "resources": ["*"]},
            {"verbs": ["get"], "apiGroups": ["*"], "resources": ["secrets"]},
            {"verbs": ["list"], "apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": ["one"]}]}}"#;
        assert_eq!(may_list(rules, "v1", "Pod"), Some(true));
        assert_eq!(may_list(rules, "example.test/v1", "Widget"), Some(true));
        assert_eq!(may_list(rules, "v1", "Secret"), Some(false));
        assert_eq!(may_list(rules, "apps/v1", "Deployment"), Some(false));
        assert_eq!(may_list(rules, "batch/v1", "Job"), Some(true), "perhaps");
    }

    #[test]
    fn an_incomplete_review_says_nothing() {
        for review in [
            r#"{"status": {"incomplete": true, "resourceRules": []}}"#,
            r#"{"status": {"incomplete": false, "evaluationError": "no", "resourceRules": []}}"#,
            r#"{"kind": "Status"}"#,
            "<html>",
        ] {
            assert_eq!(may_list(review, "v1", "Pod"), None, "{review}");
        }
    }
}
