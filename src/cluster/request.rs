//! One request to the API server and its whole answer. Everything in this room goes through here: kube's client
//! brings connection, TLS and authentication; the bytes are ours, so that lists can be decoded slimly and refusals
//! quoted verbatim.

use bytes::Bytes;
use http::Method;

/// One request, before it is sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path and query, for example `/api/v1/namespaces/ci/pods?limit=1`; segments already escaped.
    pub path: String,
    /// `Accept` header; empty means JSON.
    pub accept: String,
    /// `Content-Type` of the body.
    pub content_type: &'static str,
    /// Body; empty for none.
    pub body: Vec<u8>,
    /// Act as somebody else in this one request: user and groups (probe P2).
    pub impersonate: Option<(String, Vec<String>)>,
}

impl Request {
    /// A GET that accepts JSON.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A request without a body that accepts JSON.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            accept: String::new(),
            content_type: "",
            body: Vec::new(),
            impersonate: None,
        }
    }

    /// Accept this media type (or comma list) instead of plain JSON.
    #[must_use]
    pub fn accept(mut self, accept: impl Into<String>) -> Self {
        self.accept = accept.into();
        self
    }

    /// Send this JSON body with the given content type.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: &serde_json::Value) -> Self {
        self.content_type = content_type;
        self.body = body.to_string().into_bytes();
        self
    }

    /// Act as this user with these groups.
    #[must_use]
    pub fn impersonate(mut self, user: impl Into<String>, groups: Vec<String>) -> Self {
        self.impersonate = Some((user.into(), groups));
        self
    }
}

/// A successful (2xx) answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// `Date` of the server, for comparing with times it wrote.
    pub date: Option<jiff::Timestamp>,
    /// Texts of the `Warning` headers.
    pub warnings: Vec<String>,
    /// Body.
    pub body: Bytes,
}

/// Why there is no successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server answered with a failure; its own words.
    Status {
        /// HTTP status code.
        code: u16,
        /// `reason` of the Status object, for example `NotFound`; may be empty.
        reason: String,
        /// `message` of the Status object, verbatim.
        message: String,
    },
    /// There was no answer: connection refused, TLS, time-out, ...; worded for a person.
    NoAnswer(String),
}
