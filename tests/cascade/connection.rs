//! The connection against a real API server: TLS, every kind of credential, impersonation, compression, watches.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control_plane::{Component, ControlPlane, Options};
use futures::StreamExt as _;
use http::Method;
use kubectl_cascade::cluster::connect::{Cluster, ConnectionOptions};
use kubectl_cascade::cluster::kubeconfig::Environment;
use kubectl_cascade::cluster::request::Request;
use kubectl_cascade::error::Failure;
use kubectl_cascade::error::Trouble;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

async fn connect(options: &ConnectionOptions) -> Cluster {
    Cluster::connect_from(options, &Environment::default()).await.expect("a cluster")
}

fn admin() -> ConnectionOptions {
    let kubeconfig = ControlPlane::shared().kubeconfig_path().to_owned();
    ConnectionOptions { kubeconfig: Some(kubeconfig), ..ConnectionOptions::default() }
}

/// Who the server takes us for.
async fn who_am_i(cluster: &Cluster, change: impl FnOnce(Request) -> Request) -> Result<Value, Trouble> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::new(Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let answer = cluster.send(change(request.body("application/json", &review))).await?;
    let review: Value = serde_json::from_slice(&answer.body).expect("JSON");
    Ok(review["status"]["userInfo"].clone())
}

async fn name_of(cluster: &Cluster) -> Value {
    who_am_i(cluster, |request| request).await.expect("an answer")["username"].clone()
}

/// An authority of our own and its certificate as a file.
fn authority(folder: &Path) -> (Issuer<'static, KeyPair>, PathBuf) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "another authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let path = folder.join("authority.crt");
    fs::write(&path, params.self_signed(&key).expect("a certificate").pem()).expect("written");
    (Issuer::new(params, key), path)
}

#[tokio::test]
async fn a_kubeconfig_with_an_authority_and_a_token_reaches_the_api_server() {
    let cluster = connect(&admin()).await;
    let answer = cluster.send(Request::get("/version")).await.expect("an answer");
    let version: Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(version["major"], "1");
    assert!(answer.date.is_some());
    assert_eq!(name_of(&cluster).await, "admin");
}

#[tokio::test]
async fn a_server_of_another_authority_or_name_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, path) = authority(folder.path());
    let cases = [
        (
            ConnectionOptions { certificate_authority: Some(path), ..admin() },
            "is signed by an unknown authority",
            "--certificate-authority",
        ),
        (
            ConnectionOptions { tls_server_name: Some("elsewhere.example.com".into()), ..admin() },
            "is for another name",
            "--tls-server-name",
        ),
    ];
    for (options, message, hint) in cases {
        let trouble = connect(&options).await.send(Request::get("/version")).await.expect_err("no trust");
        let failure = Failure::from(trouble);
        assert!(failure.message.starts_with("Unable to connect to the server: "), "{failure}");
        assert!(failure.message.contains(message), "{failure}");
        assert!(failure.hint.expect("a hint").contains(hint));
    }
    let insecure = ConnectionOptions {
        tls_server_name: Some("elsewhere.example.com".into()),
        insecure_skip_tls_verify: Some(true),
        ..admin()
    };
    assert_eq!(name_of(&connect(&insecure).await).await, "admin");
    let known = ConnectionOptions { tls_server_name: Some("kubernetes.default.svc".into()), ..admin() };
    assert_eq!(name_of(&connect(&known).await).await, "admin");
}

#[tokio::test]
async fn a_token_that_the_server_does_not_know_says_so() {
    let options = ConnectionOptions { token: Some("nobody's".into()), ..admin() };
    let trouble = connect(&options).await.send(Request::get("/api")).await.expect_err("refused");
    let failure = Failure::from(trouble);
    assert_eq!(failure.message, "You must be logged in to the server (Unauthorized)");
    assert!(failure.hint.is_some());
}

#[tokio::test]
async fn a_missing_right_reads_the_same_whatever_the_encoding_asked_for() {
    let kubeconfig = ControlPlane::shared().kubeconfig_for("limited").expect("a user");
    let options = ConnectionOptions { kubeconfig: Some(kubeconfig), ..ConnectionOptions::default() };
    let cluster = connect(&options).await;
    let metadata = ["as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json"];
    for accept in [
        "application/json".to_owned(),
        format!("application/vnd.kubernetes.protobuf;{},{}", metadata[0], metadata[1]),
    ] {
        let request = Request::get("/api/v1/namespaces/default/secrets").accept(accept);
        let trouble = cluster.send(request).await.expect_err("refused");
        assert_eq!(
            trouble,
            Trouble::Status {
                code: 403,
                reason: "Forbidden".into(),
                message:
                    "secrets is forbidden: User \"limited\" cannot list resource \"secrets\" in API group \
                          \"\" in the namespace \"default\""
                        .into(),
                retry_after: None,
            }
        );
    }
}

#[tokio::test]
async fn one_request_acts_as_the_collector_and_the_others_as_the_flags_say() {
    let options = ConnectionOptions {
        as_user: Some("jane".into()),
        as_groups: vec!["dev".into()],
        as_uid: Some("7".into()),
        as_user_extra: vec![("example.com/scopes".into(), "view".into())],
        ..admin()
    };
    let cluster = connect(&options).await;
    let jane = who_am_i(&cluster, |request| request).await.expect("an answer");
    assert_eq!(
        (&jane["username"], &jane["uid"], &jane["extra"]["example.com/scopes"]),
        (&json!("jane"), &json!("7"), &json!(["view"]))
    );
    assert_eq!(jane["groups"], json!(["dev", "system:authenticated"]));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let groups = vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    let acting =
        who_am_i(&cluster, |request| request.impersonate(collector, groups)).await.expect("an answer");
    assert_eq!(acting["username"], collector);
    assert_eq!(acting["groups"], json!(["system:serviceaccounts", "system:authenticated"]));
    assert_eq!(acting["uid"], Value::Null);
    assert_eq!(acting["extra"], Value::Null);
}

#[tokio::test]
async fn a_long_list_reads_the_same_compressed_streamed_and_plain() {
    let plane = ControlPlane::shared();
    plane.kubectl().run(&["create", "namespace", "long-list"]).expect("a namespace");
    for name in ["a", "b", "c", "d"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "long-list"},
                         "data": {"text": "x".repeat(60_000)}});
        plane.kubectl().apply(&map.to_string()).expect("applied");
    }
    let list = || Request::get("/api/v1/namespaces/long-list/configmaps?labelSelector=!a");
    let items = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON")["items"].clone();
    let compressed = connect(&admin()).await;
    let plain = connect(&ConnectionOptions { disable_compression: Some(true), ..admin() }).await;
    let expected = items(&plain.send(list()).await.expect("an answer").body);
    assert!(expected.as_array().expect("a list").len() >= 4);
    assert_eq!(items(&compressed.send(list()).await.expect("an answer").body), expected);
    let (head, mut stream) = compressed.stream(list()).await.expect("a stream");
    assert_eq!(head.content_type, "application/json");
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        body.extend_from_slice(&chunk.expect("a chunk"));
    }
    assert_eq!(items(&body), expected);
}

#[tokio::test]
async fn a_watch_says_what_happens_as_it_happens_whatever_the_request_timeout() {
    let plane = ControlPlane::shared();
    plane.kubectl().run(&["create", "namespace", "watched"]).expect("a namespace");
    let limit = kubectl_cascade::cluster::connect::RequestTimeout::After(Duration::from_secs(2));
    let cluster = connect(&ConnectionOptions { request_timeout: limit, ..admin() }).await;
    let watch = Request::get("/api/v1/namespaces/watched/secrets?watch=1&timeoutSeconds=30");
    let (_, mut events) = cluster.stream(watch).await.expect("a watch");
    tokio::time::sleep(Duration::from_secs(3)).await;
    plane.kubectl().run(&["create", "secret", "generic", "late", "-n", "watched"]).expect("a secret");
    let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("in time");
    let event: Value = serde_json::from_slice(&event.expect("an event").expect("no trouble")).expect("JSON");
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("late")));
    let nothing = Request::get("/apis/nobody.example.com/v1/things?watch=1");
    assert!(cluster.stream(nothing).await.err().expect("refused").is_not_found());
}

/// A kubeconfig for this plane whose user is the given YAML, in one line.
fn kubeconfig(plane: &ControlPlane, folder: &Path, user: &str) -> ConnectionOptions {
    let authority = folder.join("server-authority.crt");
    fs::write(&authority, plane.authority().expect("ours")).expect("written");
    let path = folder.join("config");
    let server = plane.server_url().expect("ours");
    let text = format!(
        "current-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\", certificate-authority: server-authority.crt}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    );
    fs::write(&path, text).expect("written");
    ConnectionOptions { kubeconfig: Some(path), ..ConnectionOptions::default() }
}

/// A credential plugin that prints this status and counts its runs in the file `runs`.
fn plugin(folder: &Path, status: &Value) {
    let credential =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
    fs::write(folder.join("credential"), credential.to_string()).expect("written");
    let script = format!("#!/bin/sh\necho run >> {0}/runs\ncat {0}/credential\n", folder.display());
    let path = folder.join("plugin");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

const PLUGIN: &str =
    "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}}";

#[tokio::test]
async fn certificates_plugins_and_token_files_all_authenticate() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (issuer, path) = authority(folder);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "certified");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages.push(rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
    fs::write(folder.join("client.crt"), &certificate).expect("written");
    fs::write(folder.join("client.key"), key.serialize_pem()).expect("written");
    let plane = ControlPlane::start(
        Options::default()
            .flag(Component::ApiServer, format!("--client-ca-file={}", path.display()))
            .without(Component::ControllerManager)
            .without(Component::Scheduler)
            .without(Component::Kwok),
    )
    .expect("a control plane");

    let options = kubeconfig(&plane, folder, "{client-certificate: client.crt, client-key: client.key}");
    assert_eq!(name_of(&connect(&options).await).await, "certified");

    let options = ConnectionOptions {
        client_certificate: Some(folder.join("client.crt")),
        client_key: Some(folder.join("client.key")),
        ..kubeconfig(&plane, folder, "{client-certificate-data: bm90aGluZw==, client-key-data: bm90aGluZw==}")
    };
    assert_eq!(name_of(&connect(&options).await).await, "certified");

    let options = kubeconfig(&plane, folder, PLUGIN);
    plugin(folder, &json!({"clientCertificateData": certificate, "clientKeyData": key.serialize_pem()}));
    assert_eq!(name_of(&connect(&options).await).await, "certified");

    let admin = fs::read_to_string(plane.kubeconfig_path()).expect("a kubeconfig");
    let admin: Value = serde_json::from_str(&admin).expect("JSON");
    let token = admin["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
    fs::remove_file(folder.join("runs")).expect("counted");
    plugin(folder, &json!({"token": token, "expirationTimestamp": "2100-01-01T00:00:00Z"}));
    let cluster = connect(&options).await;
    assert_eq!(name_of(&cluster).await, "admin");
    assert_eq!(name_of(&cluster).await, "admin");
    assert_eq!(fs::read_to_string(folder.join("runs")).expect("counted"), "run\n");

    fs::write(folder.join("token"), format!("{token}\n")).expect("written");
    let options = kubeconfig(&plane, folder, "{tokenFile: token}");
    assert_eq!(name_of(&connect(&options).await).await, "admin");
    let options =
        ConnectionOptions { token: Some(token), ..kubeconfig(&plane, folder, "{username: a, password: b}") };
    assert_eq!(name_of(&connect(&options).await).await, "admin");
}
