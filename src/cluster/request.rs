//! One request to the API server and its answer, whole or as a stream. Everything in this room goes through here:
//! kube's client brings connection, TLS and authentication; the bytes are ours, so that lists can be decoded slimly
//! and refusals quoted verbatim.
//!
//! A server that is busy is asked again a few times, but only where that repeats nothing: a read always, anything
//! else when the server has surely not begun with it. kube's own retries would be silent for minutes, and would
//! repeat a refusal that only looks like being busy (F17).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep, timeout_at};

use crate::cluster::connect::{Cluster, Observer, RequestTimeout};
use crate::cluster::pace::Turn;
use crate::cluster::protobuf;
use crate::error::{self, Trouble};
use crate::model::traffic::{Ended, Traffic};

/// How often a request is sent at most.
const TRIES: u32 = 5;
/// How often it is sent at most to a server that is merely busy: flow control lets everybody through in the end.
const TRIES_WHILE_BUSY: u32 = 40;
/// Pause before the second try where the server names none; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// So long it grows.
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(3);
/// The longest pause that we take on a server's word; who asks for more gets no further try.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a read is sent at most while connections break.
const BROKEN_TRIES: u32 = 3;
/// The same for what much hangs on: 17 s, in which a server can be replaced.
const PATIENT_TRIES: u32 = 12;
/// The longest pause between them.
const LONGEST_BROKEN_PAUSE: Duration = Duration::from_secs(2);
/// The pause after the first of these; doubles with each further one.
const BROKEN_PAUSE: Duration = Duration::from_millis(200);
/// How long a server may send nothing before we take the connection for dead, unless the user says otherwise.
const SILENCE: Duration = Duration::from_secs(90);
/// So much of a refusal that is no Status object is shown.
const EXCERPT: usize = 300;
/// So much of an answer that is read whole is taken; lists of objects are decoded as they come instead.
const LONGEST_ANSWER: usize = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// So much of a refusal is read.
const LONGEST_REFUSAL: usize = 1 << 20;

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
    /// Take the first answer, even if the server says that it is busy.
    pub once: bool,
    /// Wait while the server is being replaced: much hangs on this answer.
    pub patient: bool,
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
            once: false,
            patient: false,
        }
    }

    /// Do not ask again: the refusal itself is what is wanted.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// While connections break, try for some seconds longer.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
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

    /// Whether it stays open until somebody ends it. The API server judges by the query, too
    /// (`apiserver/pkg/endpoints/request/requestinfo.go`).
    fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| matches!(pair, "watch" | "watch=1" | "watch=true"))
    }

    /// Act as this user with these groups, instead of whom `--as` names.
    #[must_use]
    pub fn impersonate(mut self, user: impl Into<String>, groups: Vec<String>) -> Self {
        self.impersonate = Some((user.into(), groups));
        self
    }
}

/// The head of a successful (2xx) answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// `Date` of the server, for comparing with times it wrote.
    pub date: Option<jiff::Timestamp>,
    /// Texts of the `Warning` headers.
    pub warnings: Vec<String>,
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

impl Cluster {
    /// Sends one request and reads the whole answer. A busy server is asked again a few times.
    ///
    /// # Errors
    /// The server refuses, or does not answer in time.
    pub async fn send(&self, request: Request) -> Result<Answer, Trouble> {
        let mut perhaps_done = false;
        let mut tried = 1;
        loop {
            let trouble = match self.send_once(&request).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            if perhaps_done && says_it_is_gone(&trouble) {
                return Ok(deleted_meanwhile());
            }
            match pause_before_next(&request, &trouble, tried) {
                Some(pause) => self.pause(&request, pause).await,
                None => return Err(trouble),
            }
            // Whoever turns a DELETE away with a 503 may have passed it on before.
            perhaps_done |= request.method == Method::DELETE && trouble.code() == Some(503);
            tried += 1;
        }
    }

    async fn send_once(&self, request: &Request) -> Result<Answer, Trouble> {
        let turn = self.pace.turn().await;
        let started = Instant::now();
        let (head, body, mut exchange) = self.open(request, started, &turn).await?;
        if head.content_type.starts_with("text/html") {
            // A log-in page or a captive portal in front of the server, not the server.
            return Err(Trouble::NoAnswer {
                message: format!("{} answered with a web page instead of the Kubernetes API", self.server()),
                hint: Some(
                    "something in front of the server wants you to log in, or --server names something else"
                        .into(),
                ),
            });
        }
        let mut body = body.into_data_stream();
        let mut bytes = bytes::BytesMut::new();
        while let Some(chunk) = self.within(started, body.next()).await? {
            bytes.extend_from_slice(&chunk.map_err(|error| self.no_answer(&error))?);
            exchange.read(bytes.len());
            if bytes.len() > LONGEST_ANSWER {
                return Err(Trouble::NoAnswer {
                    message: format!("{} answers without end", self.server()),
                    hint: Some(
                        "something in front of it may be broken, or it is no Kubernetes API".to_owned(),
                    ),
                });
            }
        }
        let Head { status, content_type, date, warnings } = head;
        Ok(Answer { status, content_type, date, warnings, body: bytes.freeze() })
    }

    /// Sends one request and hands the answer's body on as it arrives: for watches and for lists that are decoded
    /// while they stream. A busy server is asked again a few times before anything has arrived. The time limit
    /// covers the whole body, except a watch's, which is silent for as long as nothing happens: its reader guards it.
    ///
    /// # Errors
    /// The server refuses, or does not answer in time. Within the stream: the connection broke, or was silent for
    /// too long; nothing follows such an item.
    pub async fn stream(
        &self,
        request: Request,
    ) -> Result<(Head, impl Stream<Item = Result<Bytes, Trouble>> + Send + Unpin + use<>), Trouble> {
        let mut tried = 1;
        let (head, body, exchange, started) = loop {
            let turn = self.pace.turn().await;
            let started = Instant::now();
            let trouble = match self.open(&request, started, &turn).await {
                Ok((head, body, exchange)) => break (head, body, exchange, started),
                Err(trouble) => trouble,
            };
            drop(turn);
            match pause_before_next(&request, &trouble, tried) {
                Some(pause) => self.pause(&request, pause).await,
                None => return Err(trouble),
            }
            tried += 1;
        };
        let cluster = self.clone();
        let watch = request.is_watch();
        let open = Some((body.into_data_stream(), exchange, 0));
        let chunks = stream::unfold(open, move |open| {
            let cluster = cluster.clone();
            async move {
                let (mut body, mut exchange, mut length) = open?;
                let next =
                    if watch { Ok(body.next().await) } else { cluster.within(started, body.next()).await };
                match next {
                    Ok(Some(Ok(bytes))) => {
                        length += bytes.len();
                        exchange.read(length);
                        Some((Ok(bytes), Some((body, exchange, length))))
                    }
                    Ok(Some(Err(error))) => Some((Err(cluster.no_answer(&error)), None)),
                    Ok(None) => None,
                    Err(trouble) => Some((Err(trouble), None)),
                }
            }
        });
        Ok((head, Box::pin(chunks)))
    }

    /// Sends one request, and returns as soon as the head of a 2xx answer is there. Where the server does not take
    /// our credentials and there are others by now, it is sent with those.
    async fn open(
        &self,
        request: &Request,
        started: Instant,
        turn: &Turn<'_>,
    ) -> Result<(Head, kube::client::Body, Exchange), Trouble> {
        let (generation, client) = self.connection.current();
        match self.open_with(client, request, started, turn).await {
            Err(trouble) if trouble.code() == Some(401) && self.connection.renew(generation).await => {
                self.open_with(self.connection.current().1, request, started, turn).await
            }
            answer => answer,
        }
    }

    async fn open_with(
        &self,
        client: kube::Client,
        request: &Request,
        started: Instant,
        turn: &Turn<'_>,
    ) -> Result<(Head, kube::client::Body, Exchange), Trouble> {
        let mut tried = 1;
        let (response, mut exchange) = loop {
            let http_request = self.http_request(request)?;
            let exchange = Exchange::new(self.observer.clone(), request, started);
            match self.within(started, client.send(http_request)).await? {
                Ok(response) => break (response, exchange),
                // A server that is being replaced, or one behind a balancer that is gone.
                Err(error) if request.may_be_broken(tried) && error::broke(&error) => {
                    drop(exchange);
                    let pause = BROKEN_PAUSE * 2u32.saturating_pow(tried - 1);
                    self.pause(request, pause.min(LONGEST_BROKEN_PAUSE)).await;
                    tried += 1;
                }
                Err(error) => return Err(self.no_answer(&error)),
            }
        };
        let (parts, body) = response.into_parts();
        exchange.answered(parts.status, request.is_watch());
        if parts.status != StatusCode::TOO_MANY_REQUESTS {
            turn.went_well();
        }
        let date = jiff::fmt::rfc2822::DateTimeParser::new()
            .parse_timestamp(text_of(&parts.headers, &header::DATE))
            .ok();
        if let Some(date) = date {
            self.clock.read(date);
        }
        if parts.status.is_success() {
            let head = Head {
                status: parts.status.as_u16(),
                content_type: text_of(&parts.headers, &header::CONTENT_TYPE).to_owned(),
                date,
                warnings: warnings(&parts.headers),
            };
            return Ok((head, body, exchange));
        }
        let mut refusal = Vec::new();
        let mut body = body.into_data_stream();
        // A refusal that breaks off is still a refusal.
        while let Ok(Some(Ok(chunk))) = self.within(started, body.next()).await {
            refusal.extend_from_slice(&chunk);
            exchange.read(refusal.len());
            if refusal.len() > LONGEST_REFUSAL {
                break;
            }
        }
        let trouble = refusal_of(parts.status, &parts.headers, &refusal);
        if is_busy(&trouble) {
            turn.was_too_much();
        }
        Err(trouble)
    }

    fn http_request(&self, request: &Request) -> Result<http::Request<kube::client::Body>, Trouble> {
        let malformed = |error: http::Error| Trouble::NoAnswer {
            message: format!("cannot send a request for {:?}: {error}", request.path),
            hint: None,
        };
        let accept = if request.accept.is_empty() { "application/json" } else { &request.accept };
        let mut builder = http::Request::builder()
            .method(&request.method)
            .uri(&request.path)
            .header(header::ACCEPT, accept);
        if !request.content_type.is_empty() {
            builder = builder.header(header::CONTENT_TYPE, request.content_type);
        }
        if request.is_watch() {
            // Kubernetes 1.37 compresses each event of a watch for itself; kube's decoder reads only the first.
            builder = builder.header(header::ACCEPT_ENCODING, "identity");
        }
        match &request.impersonate {
            Some((user, groups)) => {
                builder = builder.header("impersonate-user", user);
                for group in groups {
                    builder = builder.header("impersonate-group", group);
                }
            }
            None => {
                for (name, value) in &self.impersonation {
                    builder = builder.header(name, value);
                }
            }
        }
        let mut http_request = builder.body(request.body.clone().into()).map_err(malformed)?;
        for (name, value) in &self.headers {
            http_request.headers_mut().insert(name, value.clone());
        }
        Ok(http_request)
    }

    /// Waits for one step of a request that was started then, as long as the user allows.
    async fn within<T>(&self, started: Instant, step: impl Future<Output = T>) -> Result<T, Trouble> {
        let (limit, said) = match self.request_timeout {
            RequestTimeout::Never => return Ok(step.await),
            RequestTimeout::WhenSilent => (Instant::now() + SILENCE, SILENCE),
            RequestTimeout::After(limit) => match started.checked_add(limit) {
                Some(end) => (end, limit),
                None => return Ok(step.await),
            },
        };
        timeout_at(limit, step).await.map_err(|_| error::too_late(self.server(), said))
    }

    async fn pause(&self, request: &Request, pause: Duration) {
        if let Some(observer) = &self.observer {
            let (method, path) = (request.method.to_string(), request.path.clone());
            observer(&Traffic::Again { method, path, pause });
        }
        sleep(pause).await;
    }

    fn no_answer(&self, error: &kube::Error) -> Trouble {
        error::of_connection(error, self.server())
    }
}

/// A request under way, for whoever wants to see it: it tells of itself when it ends, however it ends. A watch tells
/// when it opens, for it may never end.
struct Exchange {
    observer: Option<Observer>,
    method: Method,
    path: String,
    started: Instant,
    end: Ended,
}

impl Exchange {
    fn new(observer: Option<Observer>, request: &Request, started: Instant) -> Self {
        let path = if observer.is_some() { request.path.clone() } else { String::new() };
        Self { observer, method: request.method.clone(), path, started, end: Ended::NoAnswer }
    }

    fn answered(&mut self, status: StatusCode, stays_open: bool) {
        let code = status.as_u16();
        if stays_open && status.is_success() {
            self.end = Ended::Open { status: code };
            self.tell();
            self.observer = None;
        } else {
            self.end = Ended::Answered { status: code, bytes: 0 };
        }
    }

    /// So much of the answer's body has come.
    fn read(&mut self, length: usize) {
        if let Ended::Answered { bytes, .. } = &mut self.end {
            *bytes = length;
        }
    }

    fn tell(&self) {
        if let Some(observer) = &self.observer {
            let (method, path, end) = (self.method.to_string(), self.path.clone(), self.end.clone());
            observer(&Traffic::Request { method, path, end, took: self.started.elapsed() });
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Whether the server wants to be asked less. The storage says 429 of objects that it cannot convert, too, and would
/// say so for ever (F17).
fn is_busy(trouble: &Trouble) -> bool {
    trouble.code() == Some(429) && !trouble.is_conversion_error()
}

/// How long to wait before the next try; `None` where there must be none.
fn pause_before_next(request: &Request, trouble: &Trouble, tried: u32) -> Option<Duration> {
    let Trouble::Status { code, retry_after, .. } = trouble else { return None };
    let again = match *code {
        // Flow control turned it away before anything was done.
        429 => is_busy(trouble),
        503 => {
            request.method == Method::GET
                || (request.method == Method::DELETE && !request.asks_for_foreground())
        }
        504 => request.method == Method::GET,
        _ => false,
    };
    let tries = if *code == 429 { TRIES_WHILE_BUSY } else { TRIES };
    let own_pause = || FIRST_PAUSE.saturating_mul(2u32.saturating_pow(tried - 1)).min(LONGEST_OWN_PAUSE);
    let pause = retry_after.map_or_else(own_pause, Duration::from_secs);
    (again && !request.once && tried < tries && pause <= LONGEST_PAUSE).then_some(pause)
}

impl Request {
    /// Whether it may be sent again when the connection breaks: it only reads.
    fn may_be_broken(&self, tried: u32) -> bool {
        let tries = if self.patient { PATIENT_TRIES } else { BROKEN_TRIES };
        self.method == Method::GET && !self.once && tried < tries
    }

    /// Whether it is a DELETE that older servers must not see twice without a look in between (k8s#77081).
    fn asks_for_foreground(&self) -> bool {
        let in_body = serde_json::from_slice::<serde_json::Value>(&self.body)
            .is_ok_and(|body| body["propagationPolicy"] == "Foreground");
        in_body || self.path.contains("propagationPolicy=Foreground")
    }
}

/// Whether a DELETE that may have been carried out before finds its object gone or replaced.
fn says_it_is_gone(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Status { code: 404, .. } => true,
        // apiserver/pkg/storage/interfaces.go, Preconditions.Check.
        Trouble::Status { code: 409, message, .. } => message.contains("UID in precondition"),
        _ => false,
    }
}

/// What the server would have answered to the first try.
fn deleted_meanwhile() -> Answer {
    Answer {
        status: 200,
        content_type: "application/json".to_owned(),
        date: None,
        warnings: Vec::new(),
        body: Bytes::from_static(br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#),
    }
}

/// A header as text; empty where it is absent or no text.
fn text_of<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// From the body of an answer that is not 2xx: a Status object in JSON or protobuf, else whatever text it holds.
fn refusal_of(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Trouble {
    let asked = text_of(headers, &header::RETRY_AFTER).parse::<u64>().ok();
    let mut trouble = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .filter(|value| value["kind"] == "Status")
        .map(|status| Trouble::from_status(&status, code.as_u16()))
        .or_else(|| protobuf::status(body, code.as_u16()))
        .unwrap_or_else(|| Trouble::Status {
            code: code.as_u16(),
            reason: String::new(),
            message: plain_refusal(code, body),
            retry_after: None,
        });
    if let Trouble::Status { retry_after, .. } = &mut trouble {
        *retry_after = asked.or(*retry_after);
    }
    trouble
}

/// A refusal in text or HTML, cut to what a person reads.
fn plain_refusal(code: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if text.is_empty() {
        let meaning = code.canonical_reason().unwrap_or("no reason given");
        return format!("the server answered {} ({meaning}) without a text", code.as_u16());
    }
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}...", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The texts of the `Warning` headers: `299 - "text"`, several a header separated by commas (RFC 7234, 5.5;
/// `apimachinery/pkg/util/net/http.go`, ParseWarningHeaders). Non-ASCII text comes as UTF-8.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut texts = Vec::new();
    for value in headers.get_all(header::WARNING) {
        let value = String::from_utf8_lossy(HeaderValue::as_bytes(value)).into_owned();
        let mut rest = value.as_str();
        while let Some((_, quoted)) = rest.split_once('"') {
            let mut text = String::new();
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, character)) = characters.next() {
                match character {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                    other => text.push(other),
                }
            }
            texts.push(text);
            rest = &quoted[end..];
            // A date in quotes, with a comma in it, may follow the text.
            if let Some((_, behind)) =
                rest.trim_start().strip_prefix('"').and_then(|date| date.split_once('"'))
            {
                rest = behind;
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests;
