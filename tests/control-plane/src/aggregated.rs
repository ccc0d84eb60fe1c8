//! An aggregated API server on loopback, which a test writes as one function.

use serde_json::{Value, json};

use crate::error::Error;
use crate::https::{Response, Server};

/// A running aggregated API server. Dropping it closes its port: its API is then dead.
pub struct AggregatedApi {
    server: Server,
}

impl AggregatedApi {
    /// Starts a server. The handler gets the method and the path, without its query, of each request, discovery
    /// included, and answers with a status and a document.
    ///
    /// # Errors
    /// When no port of 127.0.0.1 can be had.
    pub fn start(
        handler: impl Fn(&str, &str) -> (u16, Value) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let server = Server::start("aggregated API", move |message| {
            let mut words = message.first_line.split(' ');
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let path = path.split('?').next().unwrap_or_default();
            let (status, answer) = handler(method, path);
            Ok(Response::Json(status, answer))
        })?;
        Ok(Self { server })
    }

    /// The Service and the APIService that lead to it. A Service of type ExternalName needs neither endpoints nor a
    /// network of Services.
    pub fn manifests(&self, group: &str, version: &str, namespace: &str) -> [Value; 2] {
        let port = self.server.address().port();
        [
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": "aggregated", "namespace": namespace },
                "spec": { "type": "ExternalName", "externalName": "localhost" },
            }),
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": { "name": format!("{version}.{group}") },
                "spec": {
                    "group": group, "version": version, "insecureSkipTLSVerify": true,
                    "groupPriorityMinimum": 100, "versionPriority": 100,
                    "service": { "name": "aggregated", "namespace": namespace, "port": port },
                },
            }),
        ]
    }
}
