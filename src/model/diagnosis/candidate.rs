//! Which admission configurations match a request, as far as configurations may be read (reference B.7a). Used where
//! the server's answer names nobody: these are candidates, never a proof. matchConditions are not evaluated; who has
//! some only may match.

use std::collections::BTreeMap;

use serde_json::Value;

use super::inquiry::Inquiry;
use crate::model::catalog::{Resource, escaped};
use crate::model::object::ObjectRef;

/// Which configurations could be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspects {
    /// Those that change objects.
    Mutators,
    /// Those that change or refuse.
    All,
}

impl<'a> Inquiry<'a> {
    /// The names of the configurations that match this operation on this object, in the order in which the API server
    /// asks them.
    pub(super) fn candidates(&mut self, leaf: &ObjectRef, operation: &str, who: Suspects) -> Vec<String> {
        let Some(request) = self.request(leaf, operation) else { return Vec::new() };
        let mut kinds = vec![("mutatingadmissionpolicies", true), ("mutatingwebhookconfigurations", false)];
        if who == Suspects::All {
            kinds.push(("validatingadmissionpolicies", true));
            kinds.push(("validatingwebhookconfigurations", false));
        }
        let mut names = Vec::new();
        for (kind, is_policy) in kinds {
            let list = self.read(format!("/apis/admissionregistration.k8s.io/v1/{kind}"));
            let bindings = is_policy.then(|| {
                let path = kind.replace("policies", "policybindings");
                self.read(format!("/apis/admissionregistration.k8s.io/v1/{path}"))
            });
            for item in items(list) {
                let matched = match bindings {
                    Some(bindings) => request.is_matched_by_policy(item, items(bindings)),
                    None => items_of(&item["webhooks"]).filter_map(|hook| request.is_matched_by(hook)).max(),
                };
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                match matched {
                    Some(true) => names.push(name.to_owned()),
                    Some(false) => names.push(format!("{name} (may match)")),
                    None => {}
                }
            }
        }
        names
    }

    /// The configurations that a webhook of this name stands in and that match this operation on this object, by kind
    /// and name, where configurations may be read. Names of webhooks need not be unique among configurations.
    pub(super) fn configurations(
        &mut self,
        webhook: &str,
        leaf: &ObjectRef,
        operation: &str,
    ) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            let list = self.read(format!("/apis/admissionregistration.k8s.io/v1/{kind}"));
            for item in items(list) {
                let hook = items_of(&item["webhooks"]).find(|hook| hook["name"] == *webhook);
                if let (Some(hook), Some(name)) = (hook, item["metadata"]["name"].as_str()) {
                    found.push((kind.trim_end_matches('s'), name.to_owned(), hook));
                }
            }
        }
        if found.len() > 1
            && let Some(request) = self.request(leaf, operation)
        {
            found.retain(|(_, _, hook)| request.is_matched_by(hook).is_some());
        }
        found.into_iter().map(|(kind, name, _)| (kind, name)).collect()
    }

    /// What configurations are held against.
    fn request<'r>(&mut self, leaf: &ObjectRef, operation: &'r str) -> Option<Request<'r>>
    where
        'a: 'r,
    {
        let graph = self.graph;
        let object = graph.object(*graph.by_uid(&leaf.uid).first()?);
        let namespace = leaf.namespace.as_deref().map(|name| {
            let labels = self.read(format!("/api/v1/namespaces/{}", escaped(name)));
            labels_of(labels.map_or(&Value::Null, |namespace| &namespace["metadata"]["labels"]))
        });
        Some(Request { resource: &object.resource, operation, namespace, labels: &object.labels })
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.into_iter().flat_map(|list| items_of(&list["items"]))
}

fn items_of(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn labels_of(labels: &Value) -> BTreeMap<String, String> {
    let labels = labels.as_object().into_iter().flatten();
    labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// What a configuration is held against.
struct Request<'r> {
    resource: &'r Resource,
    operation: &'r str,
    /// Labels of the namespace; none for a cluster-scoped object.
    namespace: Option<BTreeMap<String, String>>,
    labels: &'r BTreeMap<String, String>,
}

impl Request<'_> {
    /// Whether a webhook is asked: surely (true), or only if its matchConditions hold (false).
    fn is_matched_by(&self, hook: &Value) -> Option<bool> {
        let any_version = hook["matchPolicy"].as_str() != Some("Exact");
        let rules = items_of(&hook["rules"]).any(|rule| self.is_matched_by_rule(rule, any_version));
        (rules && self.are_selected(hook)).then(|| items_of(&hook["matchConditions"]).next().is_none())
    }

    /// The same for a policy that at least one binding applies.
    fn is_matched_by_policy<'v>(
        &self,
        policy: &Value,
        mut bindings: impl Iterator<Item = &'v Value>,
    ) -> Option<bool> {
        let constraints = &policy["spec"]["matchConstraints"];
        let any_version = constraints["matchPolicy"].as_str() != Some("Exact");
        let rules =
            items_of(&constraints["resourceRules"]).any(|rule| self.is_matched_by_rule(rule, any_version));
        let excluded = items_of(&constraints["excludeResourceRules"])
            .any(|rule| self.is_matched_by_rule(rule, any_version));
        let bound = bindings.any(|binding| {
            binding["spec"]["policyName"] == policy["metadata"]["name"]
                && self.are_selected(&binding["spec"]["matchResources"])
        });
        (rules && !excluded && bound && self.are_selected(constraints))
            .then(|| items_of(&policy["spec"]["matchConditions"]).next().is_none())
    }

    fn is_matched_by_rule(&self, rule: &Value, any_version: bool) -> bool {
        let has = |field: &str, word: &str| items_of(&rule[field]).any(|entry| entry == "*" || entry == word);
        let resource = items_of(&rule["resources"]).filter_map(Value::as_str).any(|entry| {
            // A rule for `pods` does not see `pods/status`; `*/*` and `pods/*` include the object itself.
            entry == "*"
                || entry == "*/*"
                || entry.strip_suffix("/*").unwrap_or(entry) == self.resource.plural
        });
        let scope = match rule["scope"].as_str() {
            Some("Cluster") => !self.resource.namespaced,
            Some("Namespaced") => self.resource.namespaced,
            _ => true,
        };
        has("operations", self.operation)
            && has("apiGroups", &self.resource.group)
            && (any_version || has("apiVersions", &self.resource.version))
            && resource
            && scope
    }

    fn are_selected(&self, holder: &Value) -> bool {
        let namespace = match &self.namespace {
            Some(labels) => selects(&holder["namespaceSelector"], labels),
            None => true,
        };
        namespace && selects(&holder["objectSelector"], self.labels)
    }
}

/// Whether a label selector selects these labels. None selects everything.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let exact = labels_of(&selector["matchLabels"]);
    let fits = exact.iter().all(|(name, value)| labels.get(name) == Some(value));
    fits && items_of(&selector["matchExpressions"]).all(|expression| {
        let own = labels.get(expression["key"].as_str().unwrap_or_default());
        let listed =
            own.is_some_and(|own| items_of(&expression["values"]).any(|value| value == own.as_str()));
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => own.is_some(),
            Some("DoesNotExist") => own.is_none(),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::testing::catalog;

    fn is_asked(hook: Value) -> Option<bool> {
        let catalog = catalog();
        let pods = catalog.served("v1", "Pod").unwrap();
        let labels = [("app".to_owned(), "a".to_owned())].into();
        let namespace = Some([("team".to_owned(), "x".to_owned())].into());
        Request { resource: pods, operation: "UPDATE", namespace, labels: &labels }.is_matched_by(&hook)
    }

    fn hook(resources: &[&str], operations: &[&str]) -> Value {
        json!({ "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources,
        }] })
    }

    #[test]
    fn a_webhook_is_asked_when_operation_and_resource_fit() {
        assert_eq!(is_asked(hook(&["pods"], &["CREATE", "UPDATE"])), Some(true));
        assert_eq!(is_asked(hook(&["*"], &["*"])), Some(true));
        assert_eq!(is_asked(hook(&["pods/*"], &["UPDATE"])), Some(true));
        assert_eq!(is_asked(hook(&["pods/status"], &["UPDATE"])), None);
        assert_eq!(is_asked(hook(&["pods"], &["CREATE"])), None);
    }

    #[test]
    fn selectors_look_at_the_labels_of_namespace_and_object() {
        let mut webhook = hook(&["pods"], &["UPDATE"]);
        webhook["namespaceSelector"] = json!({ "matchLabels": { "team": "x" } });
        webhook["objectSelector"] =
            json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["b"] }] });
        assert_eq!(is_asked(webhook.clone()), Some(true));
        webhook["objectSelector"] =
            json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] });
        assert_eq!(is_asked(webhook), None);
    }

    #[test]
    fn a_webhook_with_match_conditions_only_may_be_asked() {
        let mut webhook = hook(&["pods"], &["UPDATE"]);
        webhook["matchConditions"] = json!([{ "name": "n", "expression": "false" }]);
        assert_eq!(is_asked(webhook), Some(false));
    }
}
