//! Which cluster, which user, which namespace: kubeconfig files, the pod's own service account and the connection
//! flags, put together as kubectl does (`client-go/tools/clientcmd/client_config.go`, `loader.go`, `overrides.go`).
//!
//! kube reads kubeconfig files, too, but from the process's own environment and without kubectl's flags; and it
//! stumbles over a missing file in `KUBECONFIG`, an empty value, a server without a scheme. Here the environment is
//! an argument, so that every rule is a test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::connect::ConnectionOptions;
use crate::error::Failure;
use crate::model::command::VIEW;

/// Where a pod finds its own credentials.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the process's surroundings say about the connection; read once, so that nothing else looks at them.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `KUBECONFIG`, a list of paths.
    pub kubeconfig: Option<OsString>,
    /// The home directory, for `.kube/config`.
    pub home: Option<PathBuf>,
    /// `HTTP_PROXY` or `http_proxy`.
    pub http_proxy: Option<String>,
    /// `HTTPS_PROXY` or `https_proxy`.
    pub https_proxy: Option<String>,
    /// `NO_PROXY` or `no_proxy`.
    pub no_proxy: Option<String>,
    /// `KUBERNETES_SERVICE_HOST`: set inside a pod.
    pub service_host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`: set inside a pod.
    pub service_port: Option<String>,
    /// `POD_NAMESPACE`, which wins over the service account's namespace.
    pub pod_namespace: Option<String>,
    /// The directory of the pod's service account.
    pub service_account: PathBuf,
    /// Whether somebody can answer a credential plugin's question.
    pub stdin_is_terminal: bool,
}

impl Environment {
    /// The surroundings of this process.
    pub fn of_process() -> Self {
        // The upper-case spelling wins, as in Go's net/http.
        let either = |upper: &str, lower: &str| {
            [upper, lower]
                .into_iter()
                .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        };
        let one = |name: &str| either(name, name);
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            http_proxy: either("HTTP_PROXY", "http_proxy"),
            https_proxy: either("HTTPS_PROXY", "https_proxy"),
            no_proxy: either("NO_PROXY", "no_proxy"),
            service_host: one("KUBERNETES_SERVICE_HOST"),
            service_port: one("KUBERNETES_SERVICE_PORT"),
            pod_namespace: one("POD_NAMESPACE"),
            service_account: PathBuf::from(SERVICE_ACCOUNT),
            stdin_is_terminal: std::io::IsTerminal::is_terminal(&std::io::stdin()),
        }
    }
}

/// The one cluster and user that a run talks to, flags applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// The context they come from; none inside a pod, or where flags alone say everything.
    pub(crate) context: Option<String>,
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// The user.
    pub(crate) user: AuthInfo,
    /// The namespace that applies where `-n` is not given.
    pub(crate) namespace: Option<String>,
}

/// Reads what there is to read and applies the flags.
///
/// # Errors
/// A file that cannot be read or is no kubeconfig, a name that no file defines, flags that contradict each other, or
/// nothing that names a server.
pub(crate) fn choose(options: &ConnectionOptions, environment: &Environment) -> Result<Choice, Failure> {
    let files = Files::find(options, environment);
    let mut choice = match files.read()? {
        Some(kubeconfig) => select(kubeconfig, options, &files)?,
        // A pod that mounts no kubeconfig must not act on its own cluster when a flag asks for another one.
        None if options.names_a_kubeconfig_entry() => return Err(files.nothing_found()),
        None if options.server.is_some() => select(Kubeconfig::default(), options, &files)?,
        None => in_pod(environment).ok_or_else(|| files.nothing_found())?,
    };
    apply_flags(&mut choice, options)?;
    if choice.cluster.server.is_none() {
        return Err(Failure::error("no server is configured for the selected cluster")
            .hint("name it with --server, or set it in the kubeconfig"));
    }
    Ok(choice)
}

/// What a kubeconfig defines, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The contexts.
    pub contexts: Vec<String>,
    /// The clusters.
    pub clusters: Vec<String>,
    /// The users.
    pub users: Vec<String>,
}

/// The names that `--context`, `--cluster` and `--user` can take.
///
/// # Errors
/// A file that cannot be read or is no kubeconfig.
pub fn names(options: &ConnectionOptions, environment: &Environment) -> Result<Names, Failure> {
    let read = Files::find(options, environment).read()?.unwrap_or_default();
    Ok(Names {
        contexts: read.contexts.into_iter().map(|context| context.name).collect(),
        clusters: read.clusters.into_iter().map(|cluster| cluster.name).collect(),
        users: read.auth_infos.into_iter().map(|user| user.name).collect(),
    })
}

/// The kubeconfig files to read, in order of precedence.
struct Files {
    paths: Vec<PathBuf>,
    /// Named by `--kubeconfig`, hence required.
    required: bool,
}

impl Files {
    fn find(options: &ConnectionOptions, environment: &Environment) -> Self {
        if let Some(path) = &options.kubeconfig {
            return Self { paths: vec![path.clone()], required: true };
        }
        let listed: Vec<PathBuf> = environment
            .kubeconfig
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        let paths = if listed.is_empty() {
            environment.home.iter().map(|home| home.join(".kube").join("config")).collect()
        } else {
            listed
        };
        Self { paths, required: false }
    }

    /// Reads and merges; `None` when there is no file at all. A missing file of `KUBECONFIG` is skipped, as in
    /// kubectl; one named by `--kubeconfig` is an error.
    fn read(&self) -> Result<Option<Kubeconfig>, Failure> {
        let mut merged: Option<Kubeconfig> = None;
        for path in &self.paths {
            if !self.required && !path.exists() {
                continue;
            }
            let mut next = Kubeconfig::read_from(path).map_err(|error| unreadable(path, &error))?;
            next.current_context = next.current_context.filter(|name| !name.is_empty());
            merged = Some(match merged {
                None => next,
                Some(first) => first.merge(next).map_err(|error| unreadable(path, &error))?,
            });
        }
        Ok(merged)
    }

    fn named(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    fn nothing_found(&self) -> Failure {
        let message = if self.paths.is_empty() {
            "no cluster is configured: there is neither KUBECONFIG nor a home directory".to_owned()
        } else {
            format!("no cluster is configured: no kubeconfig at {}", self.named())
        };
        Failure::error(message)
            .hint("name a kubeconfig with --kubeconfig or KUBECONFIG, or a server with --server")
    }
}

/// A kubeconfig file that cannot be used, named.
fn unreadable(path: &Path, error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::ReadConfig(cause, _) => Failure::error(format!(
            "cannot read the kubeconfig {}: {cause}",
            path.display()
        ))
        .hint("check the path and its permissions; it comes from --kubeconfig, KUBECONFIG or ~/.kube/config"),
        KubeconfigError::Parse(cause) => {
            // The parser draws the offending lines below its first one; they may hold credentials.
            let text = cause.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Failure::error(format!("the kubeconfig {} is not valid: {first}", path.display()))
                .hint(format!("{VIEW} shows whether kubectl can read it"))
        }
        other => Failure::error(format!("the kubeconfig {} cannot be merged: {other}", path.display()))
            .hint("apiVersion must be v1 and kind Config in all files of KUBECONFIG"),
    }
}

/// Looks the context, cluster and user up. What a flag names must exist; a context's user need not (client-go's
/// `required`).
fn select(kubeconfig: Kubeconfig, options: &ConnectionOptions, files: &Files) -> Result<Choice, Failure> {
    let absent = |what: &str, name: &str, known: Vec<&str>| {
        let failure = Failure::error(format!("{what} {name:?} does not exist in {}", files.named()));
        if known.is_empty() {
            failure.hint(format!("{VIEW} shows what the kubeconfig defines"))
        } else {
            failure.hint(format!("known: {}", known.join(", ")))
        }
    };
    let context_name = options.context.clone().or(kubeconfig.current_context);
    let context = match &context_name {
        Some(name) => {
            Some(kubeconfig.contexts.iter().find(|named| &named.name == name).ok_or_else(|| {
                absent("context", name, kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect())
            })?)
        }
        None if options.server.is_some() || options.cluster.is_some() => None,
        None => {
            let failure = Failure::error(format!("no current context is set in {}", files.named()));
            let known: Vec<&str> = kubeconfig.contexts.iter().map(|named| named.name.as_str()).collect();
            return Err(failure.hint(format!(
                "choose one with --context; known: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )));
        }
    };
    let context = context.and_then(|named| named.context.clone()).unwrap_or_default();

    let cluster_name = options.cluster.as_ref().unwrap_or(&context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|named| &named.name == cluster_name);
    let cluster = match cluster {
        Some(named) => named.cluster.clone().unwrap_or_default(),
        None if options.cluster.is_none() && options.server.is_some() => Cluster::default(),
        None => {
            let known = kubeconfig.clusters.iter().map(|named| named.name.as_str()).collect();
            return Err(absent("cluster", cluster_name, known));
        }
    };

    let user_name = options.user.as_ref().or(context.user.as_ref());
    let user = user_name.and_then(|name| kubeconfig.auth_infos.iter().find(|named| &named.name == name));
    let user = match (user, &options.user) {
        (Some(named), _) => named.auth_info.clone().unwrap_or_default(),
        (None, None) => AuthInfo::default(),
        (None, Some(name)) => {
            let known = kubeconfig.auth_infos.iter().map(|named| named.name.as_str()).collect();
            return Err(absent("user", name, known));
        }
    };
    Ok(Choice {
        context: context_name,
        cluster: without_empty(&cluster),
        user: without_empty(&user),
        namespace: context.namespace.filter(|namespace| !namespace.is_empty()),
    })
}

/// The pod's own cluster and service account (`client-go/rest/config.go`, InClusterConfig).
fn in_pod(environment: &Environment) -> Option<Choice> {
    let (host, port) = (environment.service_host.as_ref()?, environment.service_port.as_ref()?);
    let file = |name: &str| environment.service_account.join(name).to_str().map(str::to_owned);
    let token_file = file("token")?;
    if !Path::new(&token_file).exists() {
        return None;
    }
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let mounted = || std::fs::read_to_string(environment.service_account.join("namespace")).ok();
    Some(Choice {
        context: None,
        cluster: Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: file("ca.crt"),
            ..Cluster::default()
        },
        user: AuthInfo { token_file: Some(token_file), ..AuthInfo::default() },
        namespace: environment
            .pod_namespace
            .clone()
            .or_else(mounted)
            .map(|namespace| namespace.trim().to_owned())
            .filter(|namespace| !namespace.is_empty()),
    })
}

/// Lets the flags win, with client-go's rules for what a flag also clears.
fn apply_flags(choice: &mut Choice, options: &ConnectionOptions) -> Result<(), Failure> {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let insecure = options.insecure_skip_tls_verify == Some(true);
    if insecure && options.certificate_authority.is_some() {
        return Err(Failure::usage(
            "--certificate-authority and --insecure-skip-tls-verify contradict each other",
        )
        .hint("give the one or the other"));
    }
    let cluster = &mut choice.cluster;
    if insecure || options.certificate_authority.is_some() {
        cluster.insecure_skip_tls_verify = Some(insecure);
        cluster.certificate_authority = options.certificate_authority.as_ref().map(text);
        cluster.certificate_authority_data = None;
    } else if options.insecure_skip_tls_verify == Some(false) {
        cluster.insecure_skip_tls_verify = Some(false);
    }
    if options.server.is_some() || options.tls_server_name.is_some() {
        // Another server is seldom known by the name that the kubeconfig has for its own.
        cluster.tls_server_name = options.tls_server_name.clone();
    }
    if let Some(server) = &options.server {
        cluster.server = Some(server.clone());
    }
    if options.disable_compression.is_some() {
        cluster.disable_compression = options.disable_compression;
    }

    let user = &mut choice.user;
    if let Some(path) = &options.client_certificate {
        user.client_certificate = Some(text(path));
        user.client_certificate_data = None;
    }
    if let Some(path) = &options.client_key {
        user.client_key = Some(text(path));
        user.client_key_data = None;
    }
    if let Some(token) = &options.token {
        // kube would prefer a provider and a password to it; kubectl lets the flag win. A client certificate stays,
        // as in kubectl.
        user.token = Some(token.clone().into());
        user.token_file = None;
        user.exec = None;
        user.auth_provider = None;
        user.username = None;
        user.password = None;
    }
    if options.as_user.is_some() {
        user.impersonate = options.as_user.clone();
    }
    if options.as_uid.is_some() {
        user.impersonate_uid = options.as_uid.clone();
    }
    if !options.as_groups.is_empty() {
        user.impersonate_groups = Some(options.as_groups.clone());
    }
    if !options.as_user_extra.is_empty() {
        let mut extra = std::collections::HashMap::<String, Vec<String>>::new();
        for (key, value) in &options.as_user_extra {
            extra.entry(key.clone()).or_default().push(value.clone());
        }
        user.impersonate_user_extra = Some(extra);
    }
    let attributes = user.impersonate_uid.is_some()
        || user.impersonate_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.impersonate_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if user.impersonate.is_none() && attributes {
        return Err(Failure::usage("--as-group, --as-uid and --as-user-extra need --as, too")
            .hint("add --as USER: the server impersonates a user, never a group alone"));
    }
    Ok(())
}

/// Go takes `""` for unset everywhere in a kubeconfig; kube takes it for a value (an empty CA bundle trusts nobody,
/// an empty token is sent). Drops such fields.
fn without_empty<T: Serialize + DeserializeOwned + Clone>(part: &T) -> T {
    let tidy = || {
        let mut value = serde_json::to_value(part).ok()?;
        value.as_object_mut()?.retain(|_, field| field != &Value::String(String::new()));
        serde_json::from_value(value).ok()
    };
    tidy().unwrap_or_else(|| part.clone())
}

#[cfg(test)]
mod tests;
