//! An admission webhook on loopback, which a test or the demo writes as one function.
//!
//! ```no_run
//! use control_plane::{ControlPlane, Webhook, webhook};
//!
//! let plane = ControlPlane::shared();
//! let webhook = Webhook::start(webhook::deny("not on a Friday")).expect("a webhook");
//! let configuration = webhook.validating("friday.example.com", "my-namespace", &["UPDATE"], &["pods"]);
//! plane.kubectl().apply(&configuration.to_string()).expect("registered");
//! ```
//!
//! A webhook that cannot be reached needs no server: start one, register it, drop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::api::Api;
use crate::build::{FINGERPRINT_OF_NOTHING, fingerprint_of};
use crate::error::Error;
use crate::https::{Response, Server};

/// What a webhook answers.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Lets the request pass unchanged.
    Allow,
    /// Lets it pass with these JSON Patch operations applied; for a mutating webhook.
    Patch(Value),
    /// Refuses it.
    Deny {
        /// The HTTP status that the client of the API server gets.
        code: u16,
        /// What the API server puts behind `admission webhook "..." denied the request: `.
        message: String,
    },
    /// Never answers, so that the API server gives up after the webhook's `timeoutSeconds`.
    Hang,
}

/// A running webhook. Dropping it closes its port and every open connection.
pub struct Webhook {
    server: Server,
    calls: Arc<AtomicUsize>,
}

impl Webhook {
    /// Starts a webhook. The handler gets the `request` of each AdmissionReview: `operation`, `namespace`,
    /// `object`, `oldObject`, `userInfo`, `dryRun` and so on.
    ///
    /// # Errors
    /// When no port of 127.0.0.1 can be had.
    pub fn start(handler: impl Fn(&Value) -> Decision + Send + Sync + 'static) -> Result<Self, Error> {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let server = Server::start("webhook", move |message| {
            let review: Value = serde_json::from_slice(&message.body)?;
            counted.fetch_add(1, Ordering::Relaxed);
            let uid = &review["request"]["uid"];
            let response = match handler(&review["request"]) {
                Decision::Allow => json!({ "uid": uid, "allowed": true }),
                Decision::Patch(operations) => json!({
                    "uid": uid, "allowed": true,
                    "patchType": "JSONPatch", "patch": BASE64.encode(operations.to_string())
                }),
                Decision::Deny { code, message } => {
                    json!({ "uid": uid, "allowed": false, "status": { "code": code, "message": message } })
                }
                Decision::Hang => return Ok(Response::Hang),
            };
            let kind = "AdmissionReview";
            let answer = json!({ "apiVersion": "admission.k8s.io/v1", "kind": kind, "response": response });
            Ok(Response::Json(200, answer))
        })?;
        Ok(Self { server, calls })
    }

    /// The URL of a path on this webhook, for `clientConfig.url`.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{}", self.server.address(), path.trim_start_matches('/'))
    }

    /// What the API server has to trust, for `clientConfig.caBundle`.
    pub fn ca_bundle_base64(&self) -> String {
        BASE64.encode(self.server.authority())
    }

    /// How many requests it has been asked about.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// A ValidatingWebhookConfiguration that sends it these operations (`CREATE`, `UPDATE`, `DELETE`) on these
    /// resources of one namespace, in any API group, and fails closed. The configuration and the webhook in it have
    /// the same name, which needs two dots.
    pub fn validating(&self, name: &str, namespace: &str, operations: &[&str], resources: &[&str]) -> Value {
        self.configuration("ValidatingWebhookConfiguration", name, namespace, operations, resources)
    }

    /// A MutatingWebhookConfiguration; otherwise as [`Webhook::validating`].
    pub fn mutating(&self, name: &str, namespace: &str, operations: &[&str], resources: &[&str]) -> Value {
        self.configuration("MutatingWebhookConfiguration", name, namespace, operations, resources)
    }

    fn configuration(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
        operations: &[&str],
        resources: &[&str],
    ) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": { "name": name },
            "webhooks": [{
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "clientConfig": { "url": self.url("/admit"), "caBundle": self.ca_bundle_base64() },
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "rules": [{
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "operations": operations,
                    "resources": resources,
                    "scope": "*"
                }]
            }]
        })
    }
}

/// Refuses everything with code 403.
pub fn deny(message: &str) -> impl Fn(&Value) -> Decision + Send + Sync + 'static {
    let message = message.to_owned();
    move |_| Decision::Deny { code: 403, message: message.clone() }
}

/// Refuses users whose name ends so, such as `:generic-garbage-collector`, and lets others pass: a refusal that no
/// dry run of ours can reproduce.
pub fn deny_user_suffix(suffix: &str, message: &str) -> impl Fn(&Value) -> Decision + Send + Sync + 'static {
    let (suffix, message) = (suffix.to_owned(), message.to_owned());
    move |request| match request["userInfo"]["username"].as_str() {
        Some(user) if user.ends_with(&suffix) => Decision::Deny { code: 403, message: message.clone() },
        _ => Decision::Allow,
    }
}

/// For a mutating webhook on Pods: adds a variable to the first container at every UPDATE. As a Pod's containers
/// may not change, the API server then refuses the update as invalid (422).
pub fn inject_env(name: &str) -> impl Fn(&Value) -> Decision + Send + Sync + 'static {
    let variable = json!({ "name": name, "value": "injected" });
    move |request| {
        if request["operation"] != "UPDATE" {
            return Decision::Allow;
        }
        let path = "/spec/containers/0/env";
        match request["object"]["spec"]["containers"][0]["env"].as_array() {
            Some(_) => {
                Decision::Patch(json!([{ "op": "add", "path": format!("{path}/-"), "value": variable }]))
            }
            None => Decision::Patch(json!([{ "op": "add", "path": path, "value": [variable] }])),
        }
    }
}

/// For a mutating webhook on Pods: pins each image by a digest, as the image-digest resolvers do that ask the
/// registry with the Pod's pull Secrets. Those up to v0.1.13 of one of them fail when such a Secret is missing, and
/// look it up before they look at any image, at every CREATE and UPDATE, whether or not the Pod is being deleted
/// (deletion-semantics.md, section 0).
pub fn image_digest_resolver(api: Api) -> impl Fn(&Value) -> Decision + Send + Sync + 'static {
    move |request| {
        if !matches!(request["operation"].as_str(), Some("CREATE" | "UPDATE")) {
            return Decision::Allow;
        }
        let namespace = request["namespace"].as_str().unwrap_or_default();
        let spec = &request["object"]["spec"];
        for secret in spec["imagePullSecrets"].as_array().into_iter().flatten() {
            let name = secret["name"].as_str().unwrap_or_default();
            let cause = match api.get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}")) {
                Ok(Some(_)) => continue,
                Ok(None) => format!("secrets \"{name}\" not found"),
                Err(error) => error.to_string(),
            };
            return Decision::Deny {
                code: 500,
                message: format!("could not create keychain: could not create k8schain: {cause}"),
            };
        }
        let pinned = spec["containers"].as_array().into_iter().flatten().enumerate().filter_map(
            |(index, container)| {
                let image = container["image"].as_str().filter(|image| !image.contains('@'))?;
                // Looks like a digest and is the same for the same image, which is all that anybody here needs.
                let digest =
                    format!("{:016x}", fingerprint_of(FINGERPRINT_OF_NOTHING, image.as_bytes())).repeat(4);
                let path = format!("/spec/containers/{index}/image");
                Some(json!({ "op": "replace", "path": path, "value": format!("{image}@sha256:{digest}") }))
            },
        );
        match pinned.collect::<Vec<_>>() {
            none if none.is_empty() => Decision::Allow,
            operations => Decision::Patch(operations.into()),
        }
    }
}
