//! The connection: one [`Cluster`] a run, made from kubeconfig, environment and kubectl's connection flags.
//!
//! kube's client brings TLS, authentication, proxies, compression and the base address. Around it, rules of ours
//! where kubectl differs: see [`crate::cluster::kubeconfig`] and [`crate::cluster::proxy`]. Retries and time limits
//! live in [`crate::cluster::request`].

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use kube::Config;
use kube::client::{ClientBuilder, ConfigExt};
use kube::config::{AuthInfo, ExecAuthCluster, ExecInteractiveMode};
use secrecy::ExposeSecret;
use tower::buffer::BufferLayer;

use crate::cluster::clock::Clock;
use crate::cluster::kubeconfig::{Choice, Environment, choose};
use crate::cluster::pace::Pace;
use crate::cluster::proxy::proxy_for;
use crate::error::{self, Failure};
use crate::model::traffic::Traffic;

/// What the name of the client is in audit logs and in `managedFields`.
const USER_AGENT: &str = concat!("kubectl-cascade/", env!("CARGO_PKG_VERSION"));

/// kubectl's connection flags, as far as they were given.
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    /// `-n`.
    pub namespace: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
    /// `--user`.
    pub user: Option<String>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `-s`; a scheme may be missing.
    pub server: Option<String>,
    /// `--token`.
    pub token: Option<String>,
    /// `--tls-server-name`.
    pub tls_server_name: Option<String>,
    /// `--certificate-authority`.
    pub certificate_authority: Option<PathBuf>,
    /// `--client-certificate`.
    pub client_certificate: Option<PathBuf>,
    /// `--client-key`.
    pub client_key: Option<PathBuf>,
    /// `--insecure-skip-tls-verify`.
    pub insecure_skip_tls_verify: Option<bool>,
    /// `--as`.
    pub as_user: Option<String>,
    /// `--as-group`.
    pub as_groups: Vec<String>,
    /// `--as-uid`.
    pub as_uid: Option<String>,
    /// `--as-user-extra`, keys and values.
    pub as_user_extra: Vec<(String, String)>,
    /// How long a request may take.
    pub request_timeout: RequestTimeout,
    /// `--disable-compression`.
    pub disable_compression: Option<bool>,
}

impl ConnectionOptions {
    /// Whether a flag names something that only a kubeconfig can define.
    pub(crate) fn names_a_kubeconfig_entry(&self) -> bool {
        self.context.is_some() || self.cluster.is_some() || self.user.is_some()
    }
}

/// How long a request may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestTimeout {
    /// Nothing was said: give up on a server that sends nothing at all for 90 s. The API server itself ends every
    /// request but a watch after 60 s (kube-apiserver `--request-timeout`), so only a dead connection is that silent.
    #[default]
    WhenSilent,
    /// `--request-timeout=0`: never give up.
    Never,
    /// From sending the request to the last byte of the answer.
    After(Duration),
}

/// Whoever is told of every request.
pub(crate) type Observer = Arc<dyn Fn(&Traffic) + Send + Sync>;

/// A cluster to ask.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) connection: Arc<Connection>,
    /// What time it is there.
    pub(crate) clock: Clock,
    /// User agent.
    pub(crate) headers: HeaderMap,
    /// Who every request acts as; replaced where one request acts as somebody else.
    pub(crate) impersonation: HeaderMap,
    pub(crate) request_timeout: RequestTimeout,
    /// Told of every request.
    pub(crate) observer: Option<Observer>,
    /// Shared by all clones: the server is one.
    pub(crate) pace: Arc<Pace>,
    namespace: String,
    namespace_given: bool,
    context: Option<String>,
    server: String,
    impersonated: Option<String>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Nothing that could hold a credential.
        formatter.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects as kubectl would with the same flags and surroundings. Sends nothing yet, but runs a credential
    /// plugin where the kubeconfig names one.
    ///
    /// # Errors
    /// The kubeconfig, a flag, a certificate or the plugin is unusable; the failure names it.
    pub async fn connect(options: &ConnectionOptions) -> Result<Self, Failure> {
        Self::connect_from(options, &Environment::of_process()).await
    }

    /// As [`Self::connect`], with the surroundings as an argument.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_from(
        options: &ConnectionOptions,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let choice = choose(options, environment)?;
        let impersonation = impersonation_headers(&choice.user)?;
        let impersonated = choice.user.impersonate.clone();
        let config = config(&choice, environment)?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let given = options.namespace.clone().filter(|namespace| !namespace.is_empty());
        let client = client(config, &choice).await?;
        let renewable = choice.user.exec.is_some()
            || choice.user.auth_provider.is_some()
            || choice.user.token_file.is_some();
        let namespace = given.clone().or_else(|| choice.namespace.clone());
        let context = choice.context.clone();
        let source = renewable.then(|| Source { choice, environment: environment.clone() });
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        Ok(Self {
            connection: Arc::new(Connection::new(client, source)),
            clock: Clock::new(),
            headers,
            impersonation,
            request_timeout: options.request_timeout,
            observer: None,
            pace: Arc::default(),
            namespace_given: given.is_some(),
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            context,
            server,
            impersonated,
        })
    }

    /// A cluster behind a client of the caller's making, for instance a mock, with `default` as its namespace.
    pub fn with_client(client: kube::Client) -> Self {
        Self {
            connection: Arc::new(Connection::new(client, None)),
            clock: Clock::new(),
            headers: HeaderMap::new(),
            impersonation: HeaderMap::new(),
            request_timeout: RequestTimeout::default(),
            observer: None,
            pace: Arc::default(),
            namespace: "default".to_owned(),
            namespace_given: false,
            context: None,
            server: "http://localhost".to_owned(),
            impersonated: None,
        }
    }

    /// The same cluster, where this is told of every request from now on.
    #[must_use]
    pub fn observed(mut self, observer: impl Fn(&Traffic) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The namespace that applies: `-n`, else the context's, else the pod's own, else `default`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether `-n` was given.
    pub fn namespace_was_given(&self) -> bool {
        self.namespace_given
    }

    /// The context in use; none inside a pod, or where flags alone say everything.
    pub fn context_name(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The API server's address, without a trailing slash.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What time it is there: our own time, unless the server's answers bear another date.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// The user whom every request acts as, where that is not the caller.
    pub fn impersonated_user(&self) -> Option<&str> {
        self.impersonated.as_deref()
    }
}

/// The client in use, and where fresh credentials come from.
pub(crate) struct Connection {
    current: Mutex<(u64, kube::Client)>,
    source: Option<Source>,
    /// Held while credentials are renewed: many requests find out at the same time.
    renewing: tokio::sync::Mutex<Option<Instant>>,
}

/// What a client is made from anew where its credentials can be: a plugin, or a file that somebody writes.
struct Source {
    choice: Choice,
    environment: Environment,
}

/// A plugin whose credentials were refused is not run again sooner.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(5);

impl Connection {
    fn new(client: kube::Client, source: Option<Source>) -> Self {
        Self { current: Mutex::new((0, client)), source, renewing: tokio::sync::Mutex::new(None) }
    }

    /// The client, and how often it was renewed.
    pub(crate) fn current(&self) -> (u64, kube::Client) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server does not take the credentials of this client (any more): whether there are others now. As client-go
    /// does, which asks a plugin again after a 401 (`plugin/pkg/client/auth/exec/exec.go`, maybeRefreshCreds).
    pub(crate) async fn renew(&self, refused: u64) -> bool {
        let Some(source) = &self.source else { return false };
        let mut last = self.renewing.lock().await;
        if self.current().0 != refused {
            return true;
        }
        if last.is_some_and(|last| last.elapsed() < BETWEEN_RENEWALS) {
            return false;
        }
        *last = Some(Instant::now());
        let Ok(config) = config(&source.choice, &source.environment) else { return false };
        let Ok(client) = client(config, &source.choice).await else { return false };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = (refused + 1, client);
        true
    }
}

/// Sets the client up.
async fn client(config: Config, choice: &Choice) -> Result<kube::Client, Failure> {
    // A plugin may open a browser and wait for its user; meanwhile Ctrl-C must be heard.
    match tokio::task::spawn_blocking(move || quietly(|| authenticated(config))).await {
        Ok(Some(Ok((builder, auth_layer)))) => {
            let builder = builder.with_layer(&BufferLayer::new(1024));
            Ok(match auth_layer {
                Some(layer) => builder.with_layer(&layer).build(),
                None => builder.build(),
            })
        }
        Ok(Some(Err(error))) => Err(error::of_setup(&error, choice.user.exec.as_ref())),
        // kube panics on what a credential plugin must not return, for example a token of two lines.
        Ok(None) | Err(_) => {
            Err(Failure::error("could not set the connection up: the credentials cannot be sent")
                .hint("look at what the credential plugin of this kubeconfig returns"))
        }
    }
}

/// kube's own layers without its retries, and the layer that authenticates.
type Layers = (ClientBuilder<kube_service::Generic>, Option<kube::client::middleware::AuthLayer>);

/// The service type that kube's builder makes; kube does not export its name.
mod kube_service {
    use http::{Request, Response};
    use kube::client::{Body, DynBody};
    use tower::BoxError;
    use tower::util::BoxService;

    pub(super) type Generic = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;
}

/// Does this work, and nothing is printed if it panics: then there is no result.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    // What it had in hand when it panicked is given up with it.
    let result = panic::catch_unwind(AssertUnwindSafe(work)).ok();
    QUIET.set(false);
    result
}

/// Runs a credential plugin once where there is one. kube's own way runs it three times: for the header, for a
/// client certificate and for its expiry (kube#1088). So the layer is taken first, and the rest is built from a
/// configuration that no longer knows the plugin. Without a layer the plugin answered with a certificate, which
/// only kube's own way can use.
fn authenticated(config: Config) -> Result<Layers, kube::Error> {
    let auth_layer = config.auth_layer()?;
    let mut rest = config;
    rest.default_retry = false;
    if auth_layer.is_some() {
        let credentials = &mut rest.auth_info;
        credentials.exec = None;
        credentials.auth_provider = None;
        credentials.token = None;
        credentials.token_file = None;
        credentials.username = None;
        credentials.password = None;
    }
    Ok((ClientBuilder::try_from(rest)?, auth_layer))
}

/// kube's configuration for this choice. Built field by field: kube's own constructor looks at the process's proxy
/// variables, judges them wrongly and fails on some.
fn config(choice: &Choice, environment: &Environment) -> Result<Config, Failure> {
    let cluster = &choice.cluster;
    let url = server_url(cluster.server.as_deref().unwrap_or_default())?;
    let mut config = Config::new(url.clone());
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name = cluster.tls_server_name.clone();
    config.proxy_url = proxy_for(&url, cluster.proxy_url.as_deref(), environment)?;
    // client-go sends no credentials over plain HTTP (client_config.go, IsConfigTransportTLS), and neither do we:
    // they would be readable on the way.
    let secure = url.scheme_str() == Some("https");
    if secure {
        config.auth_info = credentials(choice, environment)?;
    }
    config.root_cert = if secure && !config.accept_invalid_certs {
        trusted(choice)?
    } else {
        // No certificate will be checked, so a machine without any must do.
        Some(Vec::new())
    };
    Ok(config)
}

/// The server's address; `https://` where no scheme is given. kube would panic without a scheme.
fn server_url(server: &str) -> Result<Uri, Failure> {
    let server = server.trim();
    let with_scheme = if server.contains("://") { server.to_owned() } else { format!("https://{server}") };
    let url = with_scheme.parse::<Uri>().ok().filter(|url| {
        matches!(url.scheme_str(), Some("https" | "http"))
            && url.host().is_some_and(|host| !host.is_empty())
            && url.query().is_none()
            && !url.authority().is_some_and(|authority| authority.as_str().contains('@'))
    });
    url.ok_or_else(|| {
        // What stands before an @ may be a password.
        let named = if server.contains('@') {
            "an address with a user in it".to_owned()
        } else {
            format!("{server:?}")
        };
        Failure::error(format!("{named} is not the address of an API server"))
            .hint("write https://HOST:PORT in --server, or as the cluster's server in the kubeconfig")
    })
}

/// The certificates that the server's may be signed with; `None` for those that the machine trusts.
fn trusted(choice: &Choice) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    let cluster = &choice.cluster;
    let origin = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (Some(_), _) => "certificate-authority-data".to_owned(),
        (None, Some(path)) => format!("certificate-authority {path}"),
        (None, None) => return Ok(None),
    };
    let hint = "it must hold certificates in PEM, in a kubeconfig's -data field encoded in base64";
    let unusable = |cause: &dyn std::fmt::Display| {
        Failure::error(format!("cannot use the {origin}: {cause}")).hint(hint)
    };
    let pem = ExecAuthCluster::try_from(cluster)
        .map_err(|error| unusable(&error::innermost(&error)))?
        .certificate_authority_data
        .unwrap_or_default();
    let blocks = pem::parse_many(pem).map_err(|error| unusable(&error))?;
    let certificates: Vec<Vec<u8>> = blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE")
        .map(|block| block.into_contents())
        .collect();
    if certificates.is_empty() {
        return Err(unusable(&"there is no certificate in it"));
    }
    Ok(Some(certificates))
}

/// Who we are, without whom we act as (that is a header of ours). Missing files are named here: kube would find them
/// only deep inside.
fn credentials(choice: &Choice, environment: &Environment) -> Result<AuthInfo, Failure> {
    let mut user = choice.user.clone();
    user.impersonate = None;
    user.impersonate_uid = None;
    user.impersonate_groups = None;
    user.impersonate_user_extra = None;
    if user.token.is_some() {
        user.token_file = None;
    }
    let certificate =
        user.client_certificate_data.is_none().then_some(user.client_certificate.as_ref()).flatten();
    let key = user.client_key_data.is_none().then_some(user.client_key.as_ref()).flatten();
    for (what, path) in
        [("client-certificate", certificate), ("client-key", key), ("tokenFile", user.token_file.as_ref())]
    {
        if let Some(path) = path
            && let Err(error) = std::fs::File::open(path)
        {
            return Err(Failure::error(format!("cannot read the {what} {path}: {error}"))
                .hint("check the path in the kubeconfig or the flag of that name"));
        }
    }
    // client-go cuts white space off (transport/token_source.go); kube sends it and fails. A file without any is
    // left to kube, which reads it again when its token has been replaced.
    if let Some(text) = user.token_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok())
        && (text.trim() != text || text.chars().any(char::is_control))
    {
        user.token = Some(text.trim().to_owned().into());
        user.token_file = None;
    }
    if user.token.as_ref().is_some_and(|token| HeaderValue::from_str(token.expose_secret()).is_err()) {
        return Err(Failure::error("the bearer token holds a character that no HTTP header can carry").hint(
            "it may be two lines, or end in a line feed: look at --token, the kubeconfig or its tokenFile",
        ));
    }
    let has_certificate = user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let has_key = user.client_key.is_some() || user.client_key_data.is_some();
    if has_certificate != has_key {
        let (there, missing) = if has_certificate {
            ("client-certificate", "client-key")
        } else {
            ("client-key", "client-certificate")
        };
        return Err(Failure::error(format!("there is a {there} but no {missing}"))
            .hint(format!("give --{missing}, too, or set it in the kubeconfig")));
    }
    if let Some(exec) = &mut user.exec {
        if exec.provide_cluster_info {
            let cluster = ExecAuthCluster::try_from(&choice.cluster).map_err(|error| {
                Failure::error(format!(
                    "cannot use the cluster's certificate-authority: {}",
                    error::innermost(&error)
                ))
            })?;
            exec.cluster = Some(cluster);
        }
        // kube calls every mode but Never interactive, with or without somebody to answer.
        match exec.interactive_mode {
            Some(ExecInteractiveMode::Always) if !environment.stdin_is_terminal => {
                let command = exec.command.clone().unwrap_or_default();
                return Err(Failure::error(format!(
                    "the credential plugin {command:?} asks questions, but standard input is not a terminal"
                ))
                .hint("run it in a terminal first, or choose another user with --user or --context"));
            }
            Some(ExecInteractiveMode::IfAvailable) | None if !environment.stdin_is_terminal => {
                exec.interactive_mode = Some(ExecInteractiveMode::Never);
            }
            _ => {}
        }
    }
    Ok(user)
}

/// The headers of somebody to act as (`client-go/transport/round_trippers.go`).
fn impersonation_headers(user: &AuthInfo) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let mut add = |name: HeaderName, value: &str| {
        let value = HeaderValue::from_str(value).map_err(|_| {
            Failure::usage(format!("{value:?} cannot be sent as a user, group, UID or extra to impersonate"))
                .hint("control characters are not allowed there")
        })?;
        headers.append(name, value);
        Ok::<(), Failure>(())
    };
    if let Some(name) = &user.impersonate {
        add(HeaderName::from_static("impersonate-user"), name)?;
    }
    if let Some(uid) = &user.impersonate_uid {
        add(HeaderName::from_static("impersonate-uid"), uid)?;
    }
    for group in user.impersonate_groups.iter().flatten() {
        add(HeaderName::from_static("impersonate-group"), group)?;
    }
    for (key, values) in user.impersonate_user_extra.iter().flatten() {
        let name = HeaderName::from_bytes(format!("impersonate-extra-{}", escaped(key)).as_bytes())
            .map_err(|_| Failure::usage(format!("--as-user-extra {key:?} is not a key")))?;
        for value in values {
            add(name.clone(), value)?;
        }
    }
    Ok(headers)
}

/// A key in a header's name: what may not stand there is percent-encoded, and so is the percent sign.
fn escaped(key: &str) -> String {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    key.bytes()
        .map(|byte| if legal(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests;
