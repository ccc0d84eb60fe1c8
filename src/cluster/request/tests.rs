use super::*;
use crate::cluster::connect::ConnectionOptions;
use crate::cluster::kubeconfig::Environment;
use crate::cluster::testing::{Reply, Server};
use crate::error::Failure;
use futures::TryStreamExt;
use serde_json::json;

fn ok() -> Reply {
    Reply::json(200, json!({"kind": "PodList"}))
}

fn delete(policy: &str) -> Request {
    Request::new(Method::DELETE, "/api/v1/namespaces/ci/pods/x")
        .body("application/json", &json!({"propagationPolicy": policy, "preconditions": {"uid": "u1"}}))
}

fn patch() -> Request {
    Request::new(Method::PATCH, "/api/v1/namespaces/ci/pods/x")
        .body("application/merge-patch+json", &json!({"metadata": {"finalizers": null}}))
}

const POD_GONE: &str = r#"pods "x" not found"#;

#[tokio::test]
async fn an_answer_brings_its_date_and_warnings() {
    let reply = ok()
        .header("Date", "Mon, 30 Nov 2026 14:41:14 GMT")
        .header("Warning", r#"299 - "deleting a \"thing\"", 299 - "second, with a comma""#)
        .header("Warning", r#"299 - "third" "Mon, 30 Nov 2026 14:41:14 GMT""#);
    let server = Server::start(vec![reply]);
    let answer = server.cluster().await.send(Request::get("/api/v1/pods?limit=1")).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.content_type, "application/json");
    assert_eq!(answer.date.unwrap().to_string(), "2026-11-30T14:41:14Z");
    assert_eq!(answer.warnings, [r#"deleting a "thing""#, "second, with a comma", "third"]);
    assert_eq!(answer.body, r#"{"kind":"PodList"}"#);
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /api/v1/pods?limit=1 HTTP/1.1");
    assert_eq!(seen[0].header("accept"), ["application/json"]);
    assert_eq!(seen[0].header("user-agent"), [concat!("kubectl-cascade/", env!("CARGO_PKG_VERSION"))]);
}

#[tokio::test]
async fn a_body_goes_out_whole_with_its_content_type() {
    let server = Server::start(vec![ok()]);
    server.cluster().await.send(delete("Background")).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.header("content-type"), ["application/json"]);
    assert_eq!(seen.body, r#"{"propagationPolicy":"Background","preconditions":{"uid":"u1"}}"#);
}

#[tokio::test]
async fn a_refusal_is_quoted_verbatim() {
    let message = r#"admission webhook "digest.example.com" denied the request: no pull secret"#;
    let server = Server::start(vec![Reply::refusal(403, "Forbidden", message)]);
    let trouble = server.cluster().await.send(patch()).await.unwrap_err();
    assert!(trouble.is_forbidden());
    assert_eq!(
        trouble,
        Trouble::Status { code: 403, reason: "Forbidden".into(), message: message.into(), retry_after: None }
    );
    assert_eq!(Failure::from(trouble).message, format!("Error from server (Forbidden): {message}"));
}

#[tokio::test]
async fn a_refusal_in_protobuf_is_read_like_one_in_json() {
    // Fields by hand: Unknown{typeMeta 1, raw 2}, Status{status 2, message 3, reason 4, details 5, code 6}.
    let field = |tag: u8, bytes: &[u8]| [&[tag << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let status = [
        field(1, b""),
        field(2, b"Failure"),
        field(3, b"pods is forbidden"),
        field(4, b"Forbidden"),
        field(5, &[field(3, b"pods"), vec![5 << 3, 7]].concat()),
        vec![6 << 3, 0x93, 0x03],
    ]
    .concat();
    let body = [b"k8s\0".to_vec(), field(1, &field(1, b"v1")), field(2, &status)].concat();
    let server = Server::start(vec![Reply::Whole(403, vec![], body)]);
    let trouble = server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap_err();
    assert_eq!(
        trouble,
        Trouble::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: "pods is forbidden".into(),
            retry_after: Some(7)
        }
    );
}

#[tokio::test]
async fn a_refusal_that_is_no_status_is_shown_as_its_text_cut_short() {
    let long = format!("<html>{}</html>\n", "ü".repeat(1000));
    let server = Server::start(vec![
        Reply::Whole(404, vec![], b"404 page not found\n".to_vec()),
        Reply::Whole(502, vec![], long.into_bytes()),
        Reply::Whole(401, vec![], vec![]),
    ]);
    let cluster = server.cluster().await;
    let message = |trouble: Trouble| match trouble {
        Trouble::Status { message, .. } => message,
        Trouble::NoAnswer { .. } => panic!("{trouble:?}"),
    };
    let send = || cluster.send(Request::get("/version"));
    assert_eq!(message(send().await.unwrap_err()), "404 page not found");
    let cut = message(send().await.unwrap_err());
    assert!(cut.starts_with("<html>üü") && cut.ends_with("ü..."), "{cut}");
    assert_eq!(cut.chars().count(), 303);
    assert_eq!(message(send().await.unwrap_err()), "the server answered 401 (Unauthorized) without a text");
}

#[tokio::test]
async fn a_log_in_page_is_not_taken_for_an_answer() {
    let page =
        Reply::Whole(200, vec![("Content-Type", "text/html; charset=utf-8".into())], b"<html>".to_vec());
    let server = Server::start(vec![page]);
    let trouble = server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap_err();
    assert!(Failure::from(trouble).message.contains("a web page instead"));
}

#[tokio::test]
async fn a_busy_server_is_asked_again_whatever_the_method() {
    for request in [Request::get("/api/v1/pods"), delete("Foreground"), patch()] {
        let busy = || Reply::refusal(429, "TooManyRequests", "too many requests, please try again later");
        let server = Server::start(vec![busy(), busy(), ok()]);
        let answer = server.cluster().await.send(request).await;
        assert!(answer.is_ok());
        assert_eq!(server.seen().len(), 3);
        assert_eq!(server.seen()[0].body, server.seen()[2].body);
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_given_up_after_five_tries() {
    let server =
        Server::start((0..9).map(|_| Reply::refusal(503, "ServiceUnavailable", "not ready")).collect());
    let trouble = server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap_err();
    assert_eq!(trouble.code(), Some(503));
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn the_servers_own_pause_is_kept() {
    let server = Server::start(vec![
        Reply::refusal(429, "TooManyRequests", "too many requests").header("Retry-After", "1"),
        ok(),
    ]);
    let before = Instant::now();
    server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap();
    assert!(before.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_busy_server_is_asked_less_at_once_and_a_conversion_error_is_no_sign_of_it() {
    let busy = Reply::refusal(429, "TooManyRequests", "too many requests");
    let server = Server::start(vec![busy, ok()]);
    let cluster = server.cluster().await;
    assert_eq!(cluster.pace.limit(), None);
    cluster.send(Request::get("/api/v1/pods")).await.unwrap();
    // One was under way, was turned away, and went well the second time.
    assert_eq!(cluster.pace.limit(), Some(2));

    let refusal = Reply::refusal(429, "TooManyRequests", "conversion webhook for example.com/v1 failed");
    let server = Server::start(vec![refusal]);
    let cluster = server.cluster().await;
    cluster.send(Request::get("/api/v1/pods")).await.unwrap_err();
    assert_eq!(cluster.pace.limit(), None);
}

#[tokio::test]
async fn a_server_that_stays_busy_for_longer_than_other_troubles_are_borne_is_waited_for() {
    let busy = || Reply::refusal(429, "TooManyRequests", "too many requests");
    let server = Server::start(vec![busy(), busy(), busy(), busy(), busy(), ok()]);
    server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap();
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn a_server_that_asks_for_a_long_pause_is_not_made_to_wait_in_silence() {
    let busy = Reply::refusal(429, "TooManyRequests", "too many requests").header("Retry-After", "600");
    let server = Server::start(vec![busy]);
    let trouble = server.cluster().await.send(Request::get("/api/v1/pods")).await.unwrap_err();
    assert!(matches!(trouble, Trouble::Status { code: 429, retry_after: Some(600), .. }), "{trouble:?}");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_429_that_carries_a_conversion_error_is_not_asked_again() {
    let message = "storage is (re)initializing: conversion webhook for example.com/v1, Kind=Thing failed: Post \
                   \"https://hook.ns.svc:443/convert?timeout=30s\": dial tcp: connection refused";
    let refusal = Reply::refusal(429, "TooManyRequests", message).header("Retry-After", "1");
    let server = Server::start(vec![refusal]);
    let trouble = server.cluster().await.send(Request::get("/apis/example.com/v1/things")).await.unwrap_err();
    assert!(trouble.is_conversion_error());
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_write_that_may_have_been_carried_out_is_not_repeated() {
    for (request, code) in
        [(patch(), 503), (patch(), 504), (delete("Background"), 504), (delete("Foreground"), 503)]
    {
        let server = Server::start(vec![Reply::refusal(code, "", "try later")]);
        let trouble = server.cluster().await.send(request).await.unwrap_err();
        assert_eq!(trouble.code(), Some(code));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_repeated_delete_that_finds_its_object_gone_has_succeeded() {
    let conflict = r#"Operation cannot be fulfilled on pods "x": Precondition failed: UID in precondition: u1, UID in object meta: u2"#;
    for gone in [Reply::refusal(404, "NotFound", POD_GONE), Reply::refusal(409, "Conflict", conflict)] {
        let server = Server::start(vec![Reply::refusal(503, "ServiceUnavailable", "leader changed"), gone]);
        let answer = server.cluster().await.send(delete("Background")).await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(server.seen().len(), 2);
    }
}

#[tokio::test]
async fn a_delete_that_finds_nothing_at_once_or_after_a_429_has_not_succeeded() {
    let gone = || Reply::refusal(404, "NotFound", POD_GONE);
    let busy = Reply::refusal(429, "TooManyRequests", "too many requests");
    for script in [vec![gone()], vec![busy, gone()]] {
        let server = Server::start(script);
        assert!(server.cluster().await.send(delete("Background")).await.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn one_request_that_acts_as_somebody_else_sends_nothing_of_the_configured_identity() {
    let server = Server::start(vec![ok(), ok()]);
    let cluster = server
        .cluster_with(ConnectionOptions {
            as_user: Some("jane".into()),
            as_groups: vec!["dev".into(), "ops".into()],
            as_uid: Some("7".into()),
            as_user_extra: vec![("Example.com/scopes".into(), "view".into())],
            ..ConnectionOptions::default()
        })
        .await;
    assert_eq!(cluster.impersonated_user(), Some("jane"));
    cluster.send(Request::get("/api/v1/pods")).await.unwrap();
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let groups = vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    cluster.send(Request::get("/api/v1/pods").impersonate(collector, groups)).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("impersonate-user"), ["jane"]);
    assert_eq!(seen[0].header("impersonate-group"), ["dev", "ops"]);
    assert_eq!(seen[0].header("impersonate-uid"), ["7"]);
    assert_eq!(seen[0].header("impersonate-extra-example.com%2fscopes"), ["view"]);
    assert_eq!(seen[1].header("impersonate-user"), [collector]);
    assert_eq!(seen[1].header("impersonate-group"), ["system:serviceaccounts", "system:authenticated"]);
    assert_eq!(seen[1].headers.iter().filter(|(name, _)| name.starts_with("impersonate")).count(), 3);
}

#[tokio::test]
async fn compression_is_asked_for_except_in_watches_and_where_it_is_off() {
    let server = Server::start(vec![ok(), ok(), ok()]);
    let cluster = server.cluster().await;
    cluster.send(Request::get("/api/v1/pods")).await.unwrap();
    drop(cluster.stream(Request::get("/api/v1/pods?watch=1&resourceVersion=5")).await.unwrap());
    let off = ConnectionOptions { disable_compression: Some(true), ..ConnectionOptions::default() };
    server.cluster_with(off).await.send(Request::get("/api/v1/pods")).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("accept-encoding"), ["gzip"]);
    assert_eq!(seen[1].header("accept-encoding"), ["identity"]);
    assert!(seen[2].header("accept-encoding").iter().all(|encoding| !encoding.contains("gzip")));
}

fn impatient() -> ConnectionOptions {
    ConnectionOptions {
        request_timeout: RequestTimeout::After(Duration::from_millis(200)),
        ..ConnectionOptions::default()
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_given_up() {
    for silent in [Reply::Silence, Reply::ThenSilence(vec![r#"{"kind":"#])] {
        let server = Server::start(vec![silent]);
        let trouble =
            server.cluster_with(impatient()).await.send(Request::get("/api/v1/pods")).await.unwrap_err();
        let failure = Failure::from(trouble);
        assert!(failure.message.contains("did not answer within 200ms"), "{failure}");
        assert!(failure.hint.unwrap().contains("--request-timeout"));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_list_that_streams_is_limited_too_but_a_watch_may_be_silent() {
    let server =
        Server::start(vec![Reply::ThenSilence(vec!["one", "two"]), Reply::ThenSilence(vec!["three"])]);
    let cluster = server.cluster_with(impatient()).await;
    let (head, mut list) = cluster.stream(Request::get("/api/v1/pods")).await.unwrap();
    assert_eq!(head.status, 200);
    let mut text = Vec::new();
    let trouble = loop {
        match list.next().await.unwrap() {
            Ok(bytes) => text.extend_from_slice(&bytes),
            Err(trouble) => break trouble,
        }
    };
    assert_eq!(text, b"onetwo");
    assert!(Failure::from(trouble).message.contains("200ms"));
    assert!(list.next().await.is_none());

    let (_, mut watch) = cluster.stream(Request::get("/api/v1/pods?watch=true")).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap(), "three");
    let more = tokio::time::timeout(Duration::from_millis(500), watch.next()).await;
    assert!(more.is_err(), "a silent watch goes on: {more:?}");
}

#[tokio::test]
async fn a_stream_is_refused_before_it_begins() {
    let server = Server::start(vec![Reply::refusal(410, "Expired", "too old resource version: 1 (9)")]);
    let refused = server.cluster().await.stream(Request::get("/api/v1/pods?watch=1")).await;
    assert!(refused.err().unwrap().is_gone());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer() {
    let server = Server::start(vec![Reply::BreaksOff(r#"{"items":["#), Reply::BreaksOff("abc")]);
    let cluster = server.cluster().await;
    let trouble = cluster.send(Request::get("/api/v1/pods")).await.unwrap_err();
    let failure = Failure::from(trouble);
    assert!(
        failure.message.contains(&server.address.to_string()) && failure.message.contains("broke"),
        "{failure}"
    );
    assert!(!failure.message.contains("Error("), "{failure}");
    let (_, body) = cluster.stream(Request::get("/api/v1/pods")).await.unwrap();
    assert!(body.try_collect::<Vec<Bytes>>().await.is_err());
}

#[tokio::test]
async fn a_refused_connection_reads_as_in_kubectl() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for scheme in ["http", "https"] {
        let options = ConnectionOptions {
            server: Some(format!("{scheme}://{address}")),
            insecure_skip_tls_verify: Some(true),
            ..Default::default()
        };
        let cluster = Cluster::connect_from(&options, &Environment::default()).await.unwrap();
        let failure = Failure::from(cluster.send(Request::get("/version")).await.unwrap_err());
        assert_eq!(
            failure.message,
            format!(
                "The connection to the server {address} was refused - did you specify the right host or port?"
            )
        );
        assert!(failure.hint.is_some());
    }
}

#[tokio::test]
async fn a_server_without_tls_behind_https_is_explained() {
    let server = Server::start(vec![]);
    let options = ConnectionOptions {
        server: Some(format!("https://{}", server.address)),
        insecure_skip_tls_verify: Some(true),
        ..Default::default()
    };
    let cluster = Cluster::connect_from(&options, &Environment::default()).await.unwrap();
    let failure = Failure::from(cluster.send(Request::get("/version")).await.unwrap_err());
    assert!(failure.hint.is_some());
    assert!(!failure.message.contains("Connect)"), "{failure}");
}

#[tokio::test]
async fn a_path_that_is_no_path_is_an_error_and_no_panic() {
    let server = Server::start(vec![]);
    let trouble = server.cluster().await.send(Request::get("/api/v1/pods/a b")).await.unwrap_err();
    assert!(Failure::from(trouble).message.contains("cannot send a request"));
    assert!(server.seen().is_empty());
}

/// A proxy that opens a tunnel to this server whatever name it is asked for, or refuses; and the names it was asked.
fn proxy(to: Option<std::net::SocketAddr>) -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, BufReader, Write as _, copy};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(client.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).unwrap();
        }
        sender.send(head).unwrap();
        let Some(to) = to else {
            client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
            return;
        };
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let mut upstream = std::net::TcpStream::connect(to).unwrap();
        let mut back = upstream.try_clone().unwrap();
        std::thread::spawn(move || copy(&mut back, &mut client));
        let _ = copy(&mut reader, &mut upstream);
    });
    (format!("http://ann:p%40ss@{address}"), asked)
}

async fn behind(proxy: &str) -> Cluster {
    let options =
        ConnectionOptions { server: Some("http://api.example.invalid:8080".into()), ..Default::default() };
    let environment = Environment {
        http_proxy: Some(proxy.into()),
        no_proxy: Some("other.invalid,".into()),
        ..Default::default()
    };
    Cluster::connect_from(&options, &environment).await.unwrap()
}

#[tokio::test]
async fn the_environments_proxy_leads_to_a_server_that_only_it_can_find() {
    let server = Server::start(vec![ok()]);
    let (url, asked) = proxy(Some(server.address));
    behind(&url).await.send(Request::get("/api/v1/pods")).await.unwrap();
    let asked = asked.recv().unwrap();
    assert!(asked.starts_with("CONNECT api.example.invalid:8080 "), "{asked}");
    // ann:p@ss
    assert!(
        asked.to_lowercase().contains("proxy-authorization: basic") && asked.contains("YW5uOnBAc3M="),
        "{asked}"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_or_is_not_there_is_blamed_and_not_the_server() {
    let (refusing, _asked) = proxy(None);
    let absent = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for url in [refusing, absent] {
        let trouble = behind(&url).await.send(Request::get("/api/v1/pods")).await.unwrap_err();
        let failure = Failure::from(trouble);
        assert!(
            failure.message.starts_with(
                "Unable to connect to the server: the proxy does not lead to api.example.invalid:8080: "
            ),
            "{failure}"
        );
        assert!(failure.hint.unwrap().contains("HTTPS_PROXY"));
    }
}

#[tokio::test]
async fn a_server_name_that_nobody_knows_is_explained() {
    let options =
        ConnectionOptions { server: Some("http://api.example.invalid:8080".into()), ..Default::default() };
    let cluster = Cluster::connect_from(&options, &Environment::default()).await.unwrap();
    let failure = Failure::from(cluster.send(Request::get("/version")).await.unwrap_err());
    assert_eq!(failure.message, "Unable to connect to the server: no such host: api.example.invalid:8080");
    assert!(failure.hint.is_some());
}

/// A cluster that writes down what it tells.
async fn observed(server: &Server) -> (Cluster, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let written = std::sync::Arc::clone(&told);
    let cluster = server.cluster().await.observed(move |traffic| {
        let line = match traffic {
            Traffic::Request { method, path, end, .. } => format!("{method} {path} {end:?}"),
            Traffic::Again { method, path, pause } => format!("{method} {path} again in {pause:?}"),
        };
        written.lock().unwrap().push(line);
    });
    (cluster, told)
}

#[tokio::test]
async fn whoever_wants_to_see_it_is_told_of_every_try_and_every_pause_and_of_no_body() {
    let server = Server::start(vec![
        Reply::refusal(429, "TooManyRequests", "busy"),
        ok(),
        Reply::refusal(403, "Forbidden", "s3cret"),
        Reply::BreaksOff("{"),
    ]);
    let (cluster, told) = observed(&server).await;
    cluster.send(Request::get("/api/v1/secrets?limit=1")).await.unwrap();
    cluster.send(delete("Background")).await.unwrap_err();
    cluster.send(Request::get("/api")).await.unwrap_err();
    let told = told.lock().unwrap().join("\n");
    assert_eq!(
        told,
        format!(
            "GET /api/v1/secrets?limit=1 Answered {{ status: 429, bytes: {} }}\n\
             GET /api/v1/secrets?limit=1 again in 100ms\n\
             GET /api/v1/secrets?limit=1 Answered {{ status: 200, bytes: 18 }}\n\
             DELETE /api/v1/namespaces/ci/pods/x Answered {{ status: 403, bytes: {} }}\n\
             GET /api Answered {{ status: 200, bytes: 1 }}",
            refusal_length("TooManyRequests", "busy", 429),
            refusal_length("Forbidden", "s3cret", 403),
        )
    );
}

fn refusal_length(reason: &str, message: &str, code: u16) -> usize {
    match Reply::refusal(code, reason, message) {
        Reply::Whole(_, _, body) => body.len(),
        _ => 0,
    }
}

#[tokio::test]
async fn a_stream_is_told_when_it_ends_and_a_watch_when_it_opens() {
    let list = Reply::json(200, json!({"kind": "PodList", "items": []}));
    let server = Server::start(vec![list, Reply::ThenSilence(vec!["{}"])]);
    let (cluster, told) = observed(&server).await;
    let (_, chunks) = cluster.stream(Request::get("/api/v1/pods")).await.unwrap();
    assert!(told.lock().unwrap().is_empty(), "it has not ended");
    chunks.try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(*told.lock().unwrap(), ["GET /api/v1/pods Answered { status: 200, bytes: 29 }"]);
    let watch = cluster.stream(Request::get("/api/v1/pods?watch=1")).await.unwrap();
    assert_eq!(told.lock().unwrap()[1], "GET /api/v1/pods?watch=1 Open { status: 200 }");
    drop(watch);
    assert_eq!(told.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn no_answer_is_told_too() {
    let server = Server::start(vec![Reply::Silence]);
    let limit = RequestTimeout::After(Duration::from_millis(50));
    let (mut cluster, told) = observed(&server).await;
    cluster.request_timeout = limit;
    cluster.send(Request::get("/api")).await.unwrap_err();
    assert_eq!(*told.lock().unwrap(), ["GET /api NoAnswer"]);
}

#[tokio::test]
async fn an_answer_without_end_is_given_up_and_so_is_a_refusal() {
    let endless = vec![b' '; 5 << 20];
    let server =
        Server::start(vec![Reply::Whole(200, vec![], endless.clone()), Reply::Whole(403, vec![], endless)]);
    let cluster = server.cluster().await;
    let failure = Failure::from(cluster.send(Request::get("/api")).await.unwrap_err());
    assert!(failure.message.contains("answers without end") && failure.hint.is_some(), "{failure}");
    let trouble = cluster.send(Request::get("/api")).await.unwrap_err();
    assert!(
        matches!(&trouble, Trouble::Status { code: 403, message, .. } if message.len() < 1000),
        "{trouble:?}"
    );
}
