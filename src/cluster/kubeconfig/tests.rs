use super::*;
use crate::error::FailureKind;
use std::fs;

const ONE: &str = r#"
apiVersion: v1
kind: Config
current-context: blue
clusters:
- name: blue
  cluster: {server: "https://blue:6443", certificate-authority: ca.crt, tls-server-name: blue.internal}
contexts:
- name: blue
  context: {cluster: blue, user: ann, namespace: team}
- name: bare
  context: {cluster: blue, user: nobody, namespace: ""}
users:
- name: ann
  user: {username: ann, password: pw, token: ""}
"#;

const TWO: &str = r#"
apiVersion: v1
kind: Config
current-context: green
clusters:
- name: blue
  cluster: {server: "https://elsewhere:6443"}
- name: green
  cluster: {server: "https://green:6443", certificate-authority-data: "", proxy-url: ""}
contexts:
- name: green
  context: {cluster: green, user: bob}
users:
- name: bob
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5, tokenFile: token}
"#;

/// Files in a directory of their own, and surroundings whose `KUBECONFIG` lists some of them.
struct Home {
    directory: tempfile::TempDir,
    environment: Environment,
}

impl Home {
    fn new(files: &[(&str, &str)], kubeconfig: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let listed = std::env::join_paths(kubeconfig.iter().map(|name| directory.path().join(name))).unwrap();
        let environment = Environment {
            kubeconfig: Some(listed),
            home: Some(directory.path().to_owned()),
            service_account: directory.path().join("serviceaccount"),
            ..Environment::default()
        };
        Self { directory, environment }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn choose(&self, options: &ConnectionOptions) -> Result<Choice, Failure> {
        choose(options, &self.environment)
    }

    /// Makes it a pod's surroundings.
    fn in_pod(mut self) -> Self {
        let account = self.path("serviceaccount");
        fs::create_dir(&account).unwrap();
        fs::write(account.join("token"), "t").unwrap();
        fs::write(account.join("namespace"), "pod-namespace\n").unwrap();
        self.environment.service_host = Some("10.96.0.1".into());
        self.environment.service_port = Some("443".into());
        self
    }
}

fn both() -> Home {
    Home::new(&[("one", ONE), ("two", TWO)], &["one", "two"])
}

fn options(change: impl FnOnce(&mut ConnectionOptions)) -> ConnectionOptions {
    let mut options = ConnectionOptions::default();
    change(&mut options);
    options
}

fn server(choice: &Choice) -> &str {
    choice.cluster.server.as_deref().unwrap()
}

#[test]
fn the_first_file_that_sets_something_wins() {
    let choice = both().choose(&ConnectionOptions::default()).unwrap();
    assert_eq!(choice.context.as_deref(), Some("blue"));
    assert_eq!(server(&choice), "https://blue:6443");
    assert_eq!(choice.namespace.as_deref(), Some("team"));
}

#[test]
fn a_missing_file_of_kubeconfig_is_skipped() {
    let home = Home::new(&[("two", TWO)], &["absent", "two"]);
    assert_eq!(server(&home.choose(&ConnectionOptions::default()).unwrap()), "https://green:6443");
}

#[test]
fn an_empty_current_context_does_not_hide_the_next_files() {
    let home = Home::new(&[("unset", "current-context: \"\"\n"), ("two", TWO)], &["unset", "two"]);
    assert_eq!(home.choose(&ConnectionOptions::default()).unwrap().context.as_deref(), Some("green"));
}

#[test]
fn an_empty_kubeconfig_variable_means_the_home_directory() {
    let mut home = Home::new(&[], &[]);
    home.environment.kubeconfig = Some("".into());
    fs::create_dir(home.path(".kube")).unwrap();
    fs::write(home.path(".kube/config"), TWO).unwrap();
    assert_eq!(server(&home.choose(&ConnectionOptions::default()).unwrap()), "https://green:6443");
}

#[test]
fn the_kubeconfig_flag_is_the_only_file_and_must_exist() {
    let home = both();
    let choice = home.choose(&options(|o| o.kubeconfig = Some(home.path("two")))).unwrap();
    assert_eq!(choice.context.as_deref(), Some("green"));
    let failure = home.choose(&options(|o| o.kubeconfig = Some(home.path("absent")))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Error);
    assert!(failure.message.contains("absent") && failure.message.contains("No such file"), "{failure}");
    assert!(failure.hint.unwrap().contains("--kubeconfig"));
}

#[test]
fn a_file_that_is_no_kubeconfig_is_named_without_its_contents() {
    for text in ["clusters: [\nusers:\n- token: s3cret", "clusters: 5\ntoken: s3cret", "s3cret"] {
        let home = Home::new(&[("bad", text)], &["bad"]);
        let failure = home.choose(&ConnectionOptions::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(failure.message.contains("bad is not valid: "), "{failure}");
        assert!(!failure.message.contains("s3cret") && !failure.message.contains('\n'), "{failure}");
        assert!(failure.hint.is_some());
    }
}

#[test]
fn relative_paths_are_those_of_the_file_they_stand_in() {
    let home = both();
    let choice = home.choose(&ConnectionOptions::default()).unwrap();
    assert_eq!(choice.cluster.certificate_authority, home.path("ca.crt").to_str().map(str::to_owned));
    let choice = home.choose(&options(|o| o.context = Some("green".into()))).unwrap();
    assert_eq!(choice.user.token_file, home.path("token").to_str().map(str::to_owned));
}

#[test]
fn an_empty_value_is_an_absent_one() {
    let home = both();
    let choice = home.choose(&options(|o| o.context = Some("green".into()))).unwrap();
    assert_eq!((choice.cluster.certificate_authority_data, choice.cluster.proxy_url), (None, None));
    let choice = home.choose(&options(|o| o.context = Some("bare".into()))).unwrap();
    assert_eq!(choice.namespace, None);
    assert!(home.choose(&ConnectionOptions::default()).unwrap().user.token.is_none());
}

#[test]
fn a_context_cluster_or_user_that_a_flag_names_must_exist() {
    let home = both();
    let refused = [
        (options(|o| o.context = Some("red".into())), "context \"red\" does not exist", "blue, bare, green"),
        (options(|o| o.cluster = Some("red".into())), "cluster \"red\" does not exist", "blue, green"),
        (options(|o| o.user = Some("eve".into())), "user \"eve\" does not exist", "ann, bob"),
    ];
    for (options, message, known) in refused {
        let failure = home.choose(&options).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(failure.message.starts_with(message), "{failure}");
        assert_eq!(failure.hint.unwrap(), format!("known: {known}"));
    }
}

#[test]
fn the_user_of_a_context_need_not_exist() {
    let choice = both().choose(&options(|o| o.context = Some("bare".into()))).unwrap();
    assert!(choice.user.username.is_none());
}

#[test]
fn a_kubeconfig_without_a_current_context_lists_the_contexts() {
    let home = Home::new(&[("one", &ONE.replace("current-context: blue", ""))], &["one"]);
    let failure = home.choose(&ConnectionOptions::default()).unwrap_err();
    assert!(failure.message.starts_with("no current context is set in "), "{failure}");
    assert!(failure.hint.unwrap().ends_with("known: blue, bare"));
    assert!(home.choose(&options(|o| o.cluster = Some("blue".into()))).is_ok());
}

#[test]
fn cluster_and_user_flags_replace_the_contexts() {
    let choice = both()
        .choose(&options(|o| {
            o.cluster = Some("green".into());
            o.user = Some("bob".into());
        }))
        .unwrap();
    assert_eq!(server(&choice), "https://green:6443");
    assert!(choice.user.client_certificate_data.is_some());
    assert_eq!(choice.namespace.as_deref(), Some("team"));
}

#[test]
fn a_server_flag_needs_no_kubeconfig() {
    let home = Home::new(&[], &[]);
    let choice = home.choose(&options(|o| o.server = Some("localhost:6443".into()))).unwrap();
    assert_eq!(server(&choice), "localhost:6443");
    assert_eq!(choice.context, None);
}

#[test]
fn another_server_is_not_expected_to_have_the_kubeconfigs_server_name() {
    let home = both();
    let choice = home.choose(&ConnectionOptions::default()).unwrap();
    assert_eq!(choice.cluster.tls_server_name.as_deref(), Some("blue.internal"));
    let choice = home.choose(&options(|o| o.server = Some("https://other".into()))).unwrap();
    assert_eq!(choice.cluster.tls_server_name, None);
    let choice = home
        .choose(&options(|o| {
            o.server = Some("https://other".into());
            o.tls_server_name = Some("blue.internal".into());
        }))
        .unwrap();
    assert_eq!(choice.cluster.tls_server_name.as_deref(), Some("blue.internal"));
}

#[test]
fn file_flags_win_over_data_in_the_kubeconfig() {
    let with_data = TWO.replace("certificate-authority-data: \"\"", "certificate-authority-data: Y2E=");
    let home = Home::new(&[("two", &with_data)], &["two"]);
    assert!(home.choose(&ConnectionOptions::default()).unwrap().cluster.certificate_authority_data.is_some());
    let choice = home
        .choose(&options(|o| {
            o.certificate_authority = Some("other-ca.crt".into());
            o.client_certificate = Some("other.crt".into());
            o.client_key = Some("other.key".into());
        }))
        .unwrap();
    assert_eq!(choice.cluster.certificate_authority.as_deref(), Some("other-ca.crt"));
    assert!(choice.cluster.certificate_authority_data.is_none());
    assert_eq!(choice.user.client_certificate.as_deref(), Some("other.crt"));
    assert!(choice.user.client_certificate_data.is_none() && choice.user.client_key_data.is_none());
}

#[test]
fn insecure_clears_the_authority_and_contradicts_the_flag_for_it() {
    let insecure = options(|o| o.insecure_skip_tls_verify = Some(true));
    let choice = both().choose(&insecure).unwrap();
    assert_eq!(choice.cluster.insecure_skip_tls_verify, Some(true));
    assert_eq!(choice.cluster.certificate_authority, None);
    let failure = both()
        .choose(&ConnectionOptions { certificate_authority: Some("ca.crt".into()), ..insecure })
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Usage);
}

#[test]
fn the_token_flag_wins_over_every_other_credential_in_a_header() {
    let exec = r#"
current-context: c
clusters: [{name: c, cluster: {server: "https://c"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users:
- name: u
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: never-run, interactiveMode: Never}
    auth-provider: {name: oidc, config: {}}
    username: ann
    password: pw
    tokenFile: /nowhere
"#;
    let home = Home::new(&[("exec", exec)], &["exec"]);
    let user = home.choose(&options(|o| o.token = Some("flag".into()))).unwrap().user;
    assert!(user.token.is_some());
    assert!(user.exec.is_none() && user.auth_provider.is_none() && user.token_file.is_none());
    assert!(user.username.is_none() && user.password.is_none());
}

#[test]
fn impersonating_a_group_needs_a_user() {
    let failure = both().choose(&options(|o| o.as_groups = vec!["ops".into()])).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Usage);
    let user = both()
        .choose(&options(|o| {
            o.as_user = Some("jane".into());
            o.as_groups = vec!["ops".into()];
            o.as_user_extra = vec![("k".into(), "a".into()), ("k".into(), "b".into())];
        }))
        .unwrap()
        .user;
    assert_eq!(user.impersonate.as_deref(), Some("jane"));
    assert_eq!(user.impersonate_user_extra.unwrap()["k"], ["a", "b"]);
}

#[test]
fn without_any_kubeconfig_a_pod_uses_its_service_account() {
    let home = Home::new(&[], &[]).in_pod();
    let choice = home.choose(&ConnectionOptions::default()).unwrap();
    assert_eq!(server(&choice), "https://10.96.0.1:443");
    assert_eq!(choice.namespace.as_deref(), Some("pod-namespace"));
    assert_eq!(choice.user.token_file, home.path("serviceaccount/token").to_str().map(str::to_owned));
    let mut home = home;
    home.environment.service_host = Some("fd00::1".into());
    assert_eq!(server(&home.choose(&ConnectionOptions::default()).unwrap()), "https://[fd00::1]:443");
}

#[test]
fn a_pod_does_not_fall_back_to_its_own_cluster_when_another_was_asked_for() {
    let home = Home::new(&[], &[]).in_pod();
    assert!(home.choose(&options(|o| o.context = Some("prod".into()))).is_err());
    assert!(home.choose(&options(|o| o.kubeconfig = Some(home.path("absent")))).is_err());
    assert!(home.choose(&options(|o| o.user = Some("ann".into()))).is_err());
    let choice = home.choose(&options(|o| o.server = Some("https://prod".into()))).unwrap();
    assert!(choice.user.token_file.is_none(), "the pod's token must not go to another server");
    // A kubeconfig is what kubectl would use, too.
    let home = Home::new(&[("two", TWO)], &["two"]).in_pod();
    assert_eq!(server(&home.choose(&ConnectionOptions::default()).unwrap()), "https://green:6443");
}

#[test]
fn nothing_that_names_a_cluster_says_where_it_was_looked_for() {
    let home = Home::new(&[], &["absent"]);
    let wanted = options(|o| o.context = Some("prod".into()));
    for options in [ConnectionOptions::default(), wanted] {
        let failure = home.choose(&options).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(
            failure.message.starts_with("no cluster is configured: no kubeconfig at ")
                && failure.message.ends_with("absent")
        );
        assert!(failure.hint.unwrap().contains("--kubeconfig"));
    }
}
