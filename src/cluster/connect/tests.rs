use super::*;
use crate::error::FailureKind;
use std::fs;
use std::path::Path;

fn choice(server: &str) -> Choice {
    let cluster = kube::config::Cluster { server: Some(server.into()), ..Default::default() };
    Choice { cluster, ..Choice::default() }
}

fn url(server: &str) -> Result<String, Failure> {
    config(&choice(server), &Environment::default()).map(|config| config.cluster_url.to_string())
}

#[test]
fn a_server_without_a_scheme_is_reached_over_https_and_nonsense_is_refused() {
    assert_eq!(url("example.com:6443").unwrap(), "https://example.com:6443/");
    assert_eq!(
        url(" https://example.com/k8s/clusters/c-1 ").unwrap(),
        "https://example.com/k8s/clusters/c-1"
    );
    assert_eq!(url("[fd00::1]:6443").unwrap(), "https://[fd00::1]:6443/");
    assert_eq!(url("http://127.0.0.1:8001").unwrap(), "http://127.0.0.1:8001/");
    for server in
        ["", "ftp://example.com", "https://", "https:// x", "https://a?b=c", "https://u:p@h", "://", "/etc"]
    {
        let failure = url(server).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error, "{server}");
        assert!(failure.hint.is_some());
        assert!(!failure.message.contains("u:p"), "a password may not be repeated: {failure}");
    }
}

#[test]
fn credentials_do_not_travel_over_plain_http() {
    let mut choice = choice("http://10.0.0.1:8080");
    choice.user.token = Some("s3cret".to_owned().into());
    assert!(config(&choice, &Environment::default()).unwrap().auth_info.token.is_none());
    choice.cluster.server = Some("https://10.0.0.1:8443".into());
    assert!(config(&choice, &Environment::default()).unwrap().auth_info.token.is_some());
}

#[test]
fn the_environments_proxy_is_judged_by_the_servers_address() {
    let environment = Environment {
        https_proxy: Some("http://proxy.corp:3128".into()),
        no_proxy: Some("inside.example.com,".into()),
        ..Environment::default()
    };
    let proxy = |server: &str| config(&choice(server), &environment).unwrap().proxy_url;
    assert_eq!(proxy("https://api.inside.example.com"), None);
    assert_eq!(proxy("https://127.0.0.1:6443"), None);
    assert_eq!(proxy("https://outside.example.com").unwrap(), "http://proxy.corp:3128");
}

#[test]
fn a_missing_or_wrong_file_is_named_together_with_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let absent = directory.path().join("absent").to_str().unwrap().to_owned();
    let refused = |change: &dyn Fn(&mut Choice), part: &str| {
        let mut choice = choice("https://example.com");
        change(&mut choice);
        let failure = config(&choice, &Environment::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(failure.message.contains(part), "{failure}");
        assert!(failure.hint.is_some(), "{failure}");
    };
    let no_pem = file("no.pem", "hello");
    refused(
        &|c| c.cluster.certificate_authority = Some(absent.clone()),
        &format!("certificate-authority {absent}"),
    );
    refused(&|c| c.cluster.certificate_authority = Some(no_pem.clone()), "there is no certificate in it");
    refused(&|c| c.cluster.certificate_authority_data = Some("%%%".into()), "certificate-authority-data");
    refused(&|c| c.user.token_file = Some(absent.clone()), &format!("tokenFile {absent}"));
    refused(&|c| c.user.client_certificate = Some(absent.clone()), &format!("client-certificate {absent}"));
    refused(&|c| c.user.client_certificate = Some(no_pem.clone()), "a client-certificate but no client-key");
    refused(&|c| c.user.client_key = Some(no_pem.clone()), "a client-key but no client-certificate");
}

#[test]
fn a_token_file_that_ends_in_a_line_break_is_sent_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let mut choice = choice("https://example.com");
    choice.user.token_file = path.to_str().map(str::to_owned);
    for (text, sent_by_us) in [("t0ken\n", true), ("t0ken", false)] {
        fs::write(&path, text).unwrap();
        let user = config(&choice, &Environment::default()).unwrap().auth_info;
        assert_eq!((user.token.is_some(), user.token_file.is_none()), (sent_by_us, sent_by_us));
    }
}

#[test]
fn a_token_that_no_header_can_carry_is_refused_wherever_it_is_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "two\nlines\n").unwrap();
    let mut from_file = choice("https://example.com");
    from_file.user.token_file = path.to_str().map(str::to_owned);
    let mut given = choice("https://example.com");
    given.user.token = Some("a\nb".to_owned().into());
    for choice in [from_file, given] {
        let failure = config(&choice, &Environment::default()).unwrap_err();
        assert!(failure.message.contains("no HTTP header can carry"), "{failure}");
    }
}

/// A kubeconfig whose credential plugin appends a line to a file each time it runs.
#[cfg(unix)]
fn with_plugin(directory: &Path, script: &str, mode: &str) -> ConnectionOptions {
    use std::os::unix::fs::PermissionsExt;
    let plugin = directory.join("plugin");
    fs::write(&plugin, format!("#!/bin/sh\necho run >> {}/runs\n{script}\n", directory.display())).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let kubeconfig = directory.join("config");
    let text = format!(
        r#"
current-context: c
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./plugin
      installHint: install it from example.com
      interactiveMode: {mode}
      provideClusterInfo: true
"#
    );
    fs::write(&kubeconfig, text).unwrap();
    ConnectionOptions { kubeconfig: Some(kubeconfig), ..ConnectionOptions::default() }
}

#[cfg(unix)]
fn runs(directory: &Path) -> usize {
    fs::read_to_string(directory.join("runs")).unwrap_or_default().lines().count()
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_runs_once_and_is_not_interactive_without_a_terminal() {
    for expiry in ["", r#", "expirationTimestamp": "2100-01-01T00:00:00Z""#] {
        let directory = tempfile::tempdir().unwrap();
        let script = format!(
            r#"echo "$KUBERNETES_EXEC_INFO" > {}/info
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "t"{expiry}}}}}'"#,
            directory.path().display()
        );
        let options = with_plugin(directory.path(), &script, "IfAvailable");
        let cluster = Cluster::connect_from(&options, &Environment::default()).await.unwrap();
        assert_eq!(runs(directory.path()), 1);
        assert_eq!((cluster.context_name(), cluster.server()), (Some("c"), "https://127.0.0.1:1"));
        let info: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(directory.path().join("info")).unwrap()).unwrap();
        assert_eq!(info["spec"]["interactive"], false);
        assert_eq!(info["spec"]["cluster"]["server"], "https://127.0.0.1:1");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_that_fails_is_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let options = with_plugin(directory.path(), "echo 'session expired' >&2; exit 3", "Never");
    let failure = Cluster::connect_from(&options, &Environment::default()).await.unwrap_err();
    assert!(failure.message.contains("plugin failed with exit status: 3: session expired"), "{failure}");
    assert_eq!(failure.hint.as_deref(), Some("install it from example.com"));

    fs::remove_file(directory.path().join("plugin")).unwrap();
    let failure = Cluster::connect_from(&options, &Environment::default()).await.unwrap_err();
    assert!(failure.message.contains("plugin: No such file"), "{failure}");
}

/// What a plugin prints may hold a secret, whether we can read it or not.
#[cfg(unix)]
#[tokio::test]
async fn what_a_credential_plugin_prints_is_never_repeated() {
    let credential = |status: &str| {
        format!(
            r#"echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'"#
        )
    };
    for (script, words) in [
        ("echo 's3cret: [}'".to_owned(), "plugin did not print an ExecCredential"),
        ("echo s3cret".to_owned(), "plugin did not print an ExecCredential"),
        ("printf '\\377s3cret'".to_owned(), "plugin did not print an ExecCredential"),
        (credential(r#""s3cret""#), "plugin did not print an ExecCredential"),
        (credential("null"), "plugin did not print an ExecCredential"),
        (credential(r#"{"token": "s3cret\\nsecond line"}"#), "the credentials cannot be sent"),
        (credential(r#"{"token": "s3cret", "expirationTimestamp": "soon"}"#), "cannot get credentials"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let options = with_plugin(directory.path(), &script, "Never");
        let failure = Cluster::connect_from(&options, &Environment::default()).await.unwrap_err();
        assert!(failure.message.contains(words), "{script}: {failure}");
        assert!(!failure.message.contains("s3cret") && !failure.message.contains("error:"), "{failure}");
        assert!(failure.hint.is_some());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_that_must_ask_is_not_run_without_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let options = with_plugin(directory.path(), "exit 0", "Always");
    let failure = Cluster::connect_from(&options, &Environment::default()).await.unwrap_err();
    assert!(failure.message.contains("standard input is not a terminal"), "{failure}");
    assert_eq!(runs(directory.path()), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn the_token_flag_spares_the_credential_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let options =
        ConnectionOptions { token: Some("t".into()), ..with_plugin(directory.path(), "exit 1", "Never") };
    Cluster::connect_from(&options, &Environment::default()).await.unwrap();
    assert_eq!(runs(directory.path()), 0);
}

#[tokio::test]
async fn the_namespace_is_the_flags_then_the_contexts_then_default() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let text = r#"
current-context: with
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts:
- {name: with, context: {cluster: c, namespace: team}}
- {name: without, context: {cluster: c, namespace: ""}}
"#;
    fs::write(&kubeconfig, text).unwrap();
    let connected = async |context: &str, namespace: Option<&str>| {
        let options = ConnectionOptions {
            kubeconfig: Some(kubeconfig.clone()),
            context: Some(context.into()),
            namespace: namespace.map(str::to_owned),
            ..ConnectionOptions::default()
        };
        let cluster = Cluster::connect_from(&options, &Environment::default()).await.unwrap();
        (cluster.namespace().to_owned(), cluster.namespace_was_given())
    };
    assert_eq!(connected("with", None).await, ("team".into(), false));
    assert_eq!(connected("with", Some("ci")).await, ("ci".into(), true));
    assert_eq!(connected("with", Some("")).await, ("team".into(), false));
    assert_eq!(connected("without", None).await, ("default".into(), false));
}

#[tokio::test]
async fn a_user_to_act_as_that_no_header_can_carry_is_a_usage_error() {
    let options = ConnectionOptions {
        server: Some("http://127.0.0.1:1".into()),
        as_user: Some("jane\r\nX: y".into()),
        ..ConnectionOptions::default()
    };
    let failure = Cluster::connect_from(&options, &Environment::default()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Usage);
}

#[test]
fn a_key_of_extra_information_is_escaped_for_a_headers_name() {
    assert_eq!(escaped("example.com/scopes%"), "example.com%2Fscopes%25");
}
