//! Starts, stops and hands out one control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::api::Api;
use crate::audit::{self, Written};
use crate::build::{self, Binaries};
use crate::certificates::{self, Serving};
use crate::error::Error;
use crate::http::read_message;
use crate::kubectl::Kubectl;
use crate::supervisor::{Sent, Supervisor, excerpt};

/// The Node that kwok plays, unless [`Options::simulated_node`] is off.
pub const SIMULATED_NODE: &str = "simulated";

/// Names a kubeconfig whose cluster [`ControlPlane::shared`] hands out instead of starting one.
const EXTERNAL: &str = "CASCADE_TEST_KUBECONFIG";

/// How long a server may take until it serves. Generous, as a busy machine is no failure.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// How long a server may take to end when asked to, before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The Lease by which controller managers agree on a leader.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// One server of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager, which runs the garbage collector.
    ControllerManager,
    /// A second kube-controller-manager, which waits until the first one no longer leads. Started only by
    /// [`ControlPlane::start_component`].
    StandbyControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok, which plays the kubelet of [`SIMULATED_NODE`].
    Kwok,
}

impl Component {
    /// Every component that a control plane starts with, in the order in which they start.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kwok];

    /// Its name: that of its log and, but for the standby, of its program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::StandbyControllerManager => "standby-kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::StandbyControllerManager => Self::ControllerManager.name(),
            other => other.name(),
        }
    }
}

/// How a control plane differs from the usual one.
#[derive(Clone, Debug)]
pub struct Options {
    /// Lets another controller manager take over after 3 seconds instead of the default 15, and lets one that lost
    /// the API server give up after 2 instead of 10.
    pub fast_lease: bool,
    /// Flags added to those of a component; a later flag overrides an earlier one.
    pub flags: Vec<(Component, String)>,
    /// Users without any right beyond `system:authenticated`, for tests that bind roles to them.
    pub users: Vec<String>,
    /// How many runs of a program under test can be told apart; see [`ControlPlane::run_as`].
    pub runs: usize,
    /// Components that are not started.
    pub without: BTreeSet<Component>,
    /// Whether there is a Node that kwok plays.
    pub simulated_node: bool,
}

impl Default for Options {
    /// Every component with the defaults of Kubernetes, one simulated Node, and the user `limited`.
    fn default() -> Self {
        Self {
            fast_lease: false,
            flags: Vec::new(),
            users: vec!["limited".to_owned()],
            runs: 2000,
            without: BTreeSet::new(),
            simulated_node: true,
        }
    }
}

impl Options {
    /// Adds a flag to a component, such as `--kube-api-qps=200`.
    #[must_use]
    pub fn flag(mut self, component: Component, flag: impl Into<String>) -> Self {
        self.flags.push((component, flag.into()));
        self
    }

    /// Lets the controller manager send 200 requests a second for each controller instead of 20. It then starts its
    /// controllers at once instead of within five seconds, and the collector's speed does not rule that of the tests.
    #[must_use]
    pub fn hurried(self) -> Self {
        self.flag(Component::ControllerManager, "--kube-api-qps=200")
            .flag(Component::ControllerManager, "--kube-api-burst=400")
    }

    /// Does without a component.
    #[must_use]
    pub fn without(mut self, component: Component) -> Self {
        self.without.insert(component);
        self
    }

    /// Adds a user without rights.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.users.push(name.into());
        self
    }

    fn runs(&self, component: Component) -> bool {
        !self.without.contains(&component)
    }
}

/// A running control plane, or a cluster that somebody else runs. Dropping it ends the servers and removes their
/// folder; so does the end of the process, however it comes.
pub struct ControlPlane {
    kubectl: Kubectl,
    cluster: Cluster,
}

enum Cluster {
    Own(Box<Own>),
    /// The folder is for what we derive from its kubeconfig.
    External(tempfile::TempDir),
}

/// What we know of the servers that we started.
struct Own {
    supervisor: Mutex<Supervisor>,
    folder: PathBuf,
    binaries: Binaries,
    options: Options,
    ports: Ports,
    authority: String,
    /// The admin's.
    api: Api,
    /// What all tokens of runs begin with.
    secret: String,
    runs: AtomicUsize,
    audit: Mutex<audit::Log>,
}

/// One run of a program under test, with a token of its own, so that the audit log tells what it has written.
#[derive(Clone, Debug)]
pub struct Run {
    /// Names it in the audit log; empty where there is none.
    pub id: String,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    user: String,
    token: String,
}

impl Run {
    /// A kubeconfig for this run and another way to the API server.
    pub fn kubeconfig_for(&self, url: &str, authority: &str) -> Value {
        kubeconfig(url, authority, &self.user, &self.token)
    }

    /// Its bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }
}

struct Ports {
    etcd: u16,
    etcd_peer: u16,
    api: u16,
}

impl ControlPlane {
    /// Starts a control plane and returns when the API server is ready and the controllers lead.
    ///
    /// # Errors
    /// When the servers cannot be built or one of them does not start; the message ends with its log.
    pub fn start(options: Options) -> Result<Self, Error> {
        let binaries = build::binaries()?;
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match Self::attempt(&options, &binaries) {
                // Free ports are found by binding and letting go, so that somebody may take them in between.
                Err(error) if attempts > 0 && error.to_string().contains("address already in use") => {}
                outcome => return outcome,
            }
        }
    }

    /// The control plane that all tests of one binary share: started by the first caller, gone when the process
    /// ends. Its controllers are [hurried](Options::hurried). With `CASCADE_TEST_KUBECONFIG=path` it is that cluster.
    ///
    /// # Panics
    /// When it cannot be started, which leaves nothing to test.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, Error>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| match std::env::var_os(EXTERNAL) {
            Some(path) => Self::external(path.into()),
            None => Self::start(Options::default().hurried()),
        });
        shared.as_ref().unwrap_or_else(|error| panic!("no control plane: {error}"))
    }

    /// Hands out a cluster that somebody else runs. Its components cannot be stopped; kubectl is the one on the
    /// `PATH`, or ours where there is none.
    ///
    /// # Errors
    /// When the kubeconfig does not exist, or there is no kubectl and it cannot be built.
    pub fn external(kubeconfig: PathBuf) -> Result<Self, Error> {
        if !kubeconfig.is_file() {
            return Err(Error::new(format!("there is no kubeconfig {}", kubeconfig.display())));
        }
        let folder = tempfile::tempdir().map_err(Error::doing("cannot create a temporary folder"))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = match std::env::split_paths(&path)
            .map(|folder| folder.join("kubectl"))
            .find(|file| file.is_file())
        {
            Some(program) => program,
            None => build::binaries()?.path("kubectl"),
        };
        let kubectl = Kubectl::new(program, kubeconfig, folder.path().join("kubectl-cache"));
        Ok(Self { kubectl, cluster: Cluster::External(folder) })
    }

    fn attempt(options: &Options, binaries: &Binaries) -> Result<Self, Error> {
        let supervisor = Supervisor::start()?;
        let folder = supervisor.folder().to_path_buf();
        let ports = Ports::free()?;
        let serving = Serving::new("kubectl-cascade tests")?;
        let files = Files { folder: &folder };

        files.write("ca.crt", &serving.authority)?;
        files.write("apiserver.crt", &serving.certificate)?;
        files.write("apiserver.key", &serving.key())?;
        let (private, public) = certificates::service_account_keys()?;
        files.write("service-account.key", &private)?;
        files.write("service-account.pub", &public)?;
        let secret = random_token()?;
        let tokens = files.write_users(options, &ports.url(), &serving.authority, &secret)?;
        files.write("audit-policy.json", &audit::policy().to_string())?;
        files.write_stages(binaries)?;

        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.api));
        let plane = Self {
            kubectl: Kubectl::new(
                binaries.path("kubectl"),
                folder.join("admin.kubeconfig"),
                folder.join("kubectl-cache"),
            ),
            cluster: Cluster::Own(Box::new(Own {
                supervisor: Mutex::new(supervisor),
                binaries: binaries.clone(),
                options: options.clone(),
                authority: serving.authority.clone(),
                api: Api::new(address, serving.client()?, tokens["admin"].clone()),
                secret,
                runs: AtomicUsize::new(0),
                audit: Mutex::new(audit::Log::new(folder.join("audit.log"))),
                folder,
                ports,
            })),
        };
        plane.own()?.start_all()?;
        Ok(plane)
    }

    /// Whether somebody else runs this cluster; its components can then not be controlled.
    pub fn is_external(&self) -> bool {
        matches!(self.cluster, Cluster::External(_))
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig_path(&self) -> &Path {
        self.kubectl.kubeconfig()
    }

    /// The kubeconfig of a user without rights: one of [`Options::users`], or, in a cluster that somebody else
    /// runs, any user, by impersonation.
    ///
    /// # Errors
    /// When there is no such user, or the external kubeconfig cannot be read.
    pub fn kubeconfig_for(&self, user: &str) -> Result<PathBuf, Error> {
        match &self.cluster {
            Cluster::Own(own) if own.options.users.iter().any(|known| known == user) => {
                Ok(own.folder.join(format!("{user}.kubeconfig")))
            }
            Cluster::Own(_) => Err(Error::new(format!("there is no user {user}"))
                .with_hint("users are named in Options::users before the start")),
            Cluster::External(folder) => {
                let view = ["config", "view", "--raw", "--minify", "--flatten", "-o", "json"];
                let mut config: Value = serde_json::from_str(&self.kubectl.run(&view)?)
                    .map_err(Error::doing("kubectl config view printed no JSON"))?;
                config["users"][0]["user"]["as"] = user.into();
                Files { folder: folder.path() }.write(&format!("{user}.kubeconfig"), &config.to_string())
            }
        }
    }

    /// A new run of a program under test, as `admin` or one of [`Options::users`]: the same user and rights, under a
    /// token of its own. In a cluster that somebody else runs, that user's kubeconfig.
    ///
    /// # Errors
    /// When there is no such user, or there were as many runs as [`Options::runs`] allows.
    pub fn run_as(&self, user: &str) -> Result<Run, Error> {
        let Cluster::Own(own) = &self.cluster else {
            let kubeconfig = match user {
                "admin" => self.kubeconfig_path().to_path_buf(),
                user => self.kubeconfig_for(user)?,
            };
            return Ok(Run { id: String::new(), kubeconfig, user: user.to_owned(), token: String::new() });
        };
        if user != "admin" {
            self.kubeconfig_for(user)?;
        }
        let number = own.runs.fetch_add(1, Ordering::Relaxed);
        if number >= own.options.runs {
            return Err(Error::new(format!("there were {number} runs, and tokens for no more"))
                .with_hint("raise Options::runs"));
        }
        let (id, token) = (run_id(number), run_token(&own.secret, user, number));
        let text = kubeconfig(&own.ports.url(), &own.authority, user, &token).to_string();
        let kubeconfig = Files { folder: &own.folder }.write(&format!("{id}.kubeconfig"), &text)?;
        Ok(Run { id, kubeconfig, user: user.to_owned(), token })
    }

    /// What a run has written until now, in order; see [`ControlPlane::run_as`]. Empty in a cluster that somebody else
    /// runs.
    ///
    /// # Errors
    /// When the audit log cannot be read.
    pub fn written_by(&self, run: &str) -> Result<Vec<Written>, Error> {
        match &self.cluster {
            Cluster::External(_) => Ok(Vec::new()),
            Cluster::Own(own) => {
                let mut log = own.audit.lock().unwrap_or_else(PoisonError::into_inner);
                log.of(run).map_err(Error::doing("cannot read the audit log"))
            }
        }
    }

    /// The real kubectl, as the admin.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The real kubectl, as another user; see [`ControlPlane::kubeconfig_for`].
    ///
    /// # Errors
    /// When there is no such user.
    pub fn kubectl_as(&self, user: &str) -> Result<Kubectl, Error> {
        Ok(self.kubectl.with_kubeconfig(self.kubeconfig_for(user)?))
    }

    /// A tiny client of the API server, as the admin.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn api(&self) -> Result<&Api, Error> {
        Ok(&self.own()?.api)
    }

    /// The API server's address, such as `https://127.0.0.1:40123`.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn server_url(&self) -> Result<String, Error> {
        Ok(self.own()?.ports.url())
    }

    /// The certificate authority that the API server's certificate is signed by, as PEM.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn authority(&self) -> Result<&str, Error> {
        Ok(&self.own()?.authority)
    }

    /// The API server's minor version, 37 for `v1.37.2`: what a test asks that needs something newer servers have.
    ///
    /// # Errors
    /// When the server does not tell.
    pub fn minor(&self) -> Result<u32, Error> {
        let answer = self.kubectl.run(&["get", "--raw", "/version"])?;
        let version: Value =
            serde_json::from_str(&answer).map_err(Error::doing("the server's version is no JSON"))?;
        // Some clouds say "30+".
        let minor = version["minor"].as_str().unwrap_or_default().trim_end_matches('+');
        minor.parse().map_err(Error::doing(format!("the server's minor version is \"{minor}\"")))
    }

    /// The path of a component's program.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn bin(&self, component: Component) -> Result<PathBuf, Error> {
        Ok(self.own()?.binaries.path(component.program()))
    }

    /// The file that a component's output is appended to.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn log_path(&self, component: Component) -> Result<PathBuf, Error> {
        Ok(self.own()?.log(component))
    }

    /// The process id of a component that runs; `None` when it does not.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn pid(&self, component: Component) -> Result<Option<u32>, Error> {
        Ok(self.own()?.supervisor().look(component.name())?.ok())
    }

    /// The process id of the supervisor.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn supervisor_pid(&self) -> Result<u32, Error> {
        Ok(self.own()?.supervisor().pid())
    }

    /// Asks a component to end, kills it after five seconds, and returns when it is gone.
    ///
    /// A controller manager that cannot reach the API server for ten seconds ends by itself, as it does everywhere;
    /// nobody starts it again here but [`ControlPlane::start_component`].
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn stop(&self, component: Component) -> Result<(), Error> {
        self.own()?.supervisor().stop(component.name(), STOP_PATIENCE)
    }

    /// Kills a component at once and returns when it is gone.
    ///
    /// # Errors
    /// When somebody else runs this cluster.
    pub fn kill(&self, component: Component) -> Result<(), Error> {
        self.own()?.supervisor().stop(component.name(), Duration::ZERO)
    }

    /// Freezes a component: its process stays and does nothing until [`ControlPlane::resume`].
    ///
    /// # Errors
    /// When somebody else runs this cluster or the component does not run.
    pub fn pause(&self, component: Component) -> Result<(), Error> {
        self.own()?.supervisor().signal(component.name(), Sent::Pause)
    }

    /// Lets a frozen component go on.
    ///
    /// # Errors
    /// When somebody else runs this cluster or the component does not run.
    pub fn resume(&self, component: Component) -> Result<(), Error> {
        self.own()?.supervisor().signal(component.name(), Sent::Resume)
    }

    /// Starts a component that was stopped, with the same ports and data, and returns when it serves.
    ///
    /// # Errors
    /// When somebody else runs this cluster, or the component runs already or does not start.
    pub fn start_component(&self, component: Component) -> Result<(), Error> {
        let own = self.own()?;
        own.launch(component)?;
        own.await_component(component)
    }

    /// Stops a component and starts it again.
    ///
    /// # Errors
    /// As for [`ControlPlane::start_component`].
    pub fn restart(&self, component: Component) -> Result<(), Error> {
        self.stop(component)?;
        self.start_component(component)
    }

    /// Calls etcd by its JSON gateway, past the API server: `kv/put`, `maintenance/alarm` and so on. Keys and values in
    /// requests and answers are in base64: see [`ControlPlane::stored`].
    ///
    /// # Errors
    /// When somebody else runs this cluster, or there is no answer.
    pub fn etcd(&self, call: &str, request: &Value) -> Result<Value, Error> {
        let ask = || -> std::io::Result<Value> {
            let port = self.own().map_err(std::io::Error::other)?.ports.etcd;
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            let body = request.to_string();
            let head = format!(
                "POST /v3/{call} HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes())?;
            let answer = read_message(&mut BufReader::new(stream))?;
            let answer = answer.ok_or(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
            serde_json::from_slice(&answer.body).map_err(std::io::Error::other)
        };
        ask().map_err(Error::doing(format!("etcd {call}")))
    }

    /// A key or value as etcd's gateway takes it.
    pub fn stored(text: &str) -> String {
        BASE64.encode(text)
    }

    fn own(&self) -> Result<&Own, Error> {
        match &self.cluster {
            Cluster::Own(own) => Ok(own),
            Cluster::External(_) => {
                Err(Error::new(format!("{EXTERNAL} names a cluster whose servers are not ours to control")))
            }
        }
    }
}

impl Own {
    fn supervisor(&self) -> MutexGuard<'_, Supervisor> {
        // A panic elsewhere in a test leaves the supervisor as usable as before.
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_all(&self) -> Result<(), Error> {
        let (storage, controllers): (Vec<_>, Vec<_>) = Component::ALL
            .into_iter()
            .filter(|component| self.options.runs(*component))
            .partition(|component| matches!(component, Component::Etcd | Component::ApiServer));
        for group in [storage, controllers] {
            for component in &group {
                self.launch(*component)?;
            }
            for component in &group {
                self.await_component(*component)?;
            }
        }
        if self.options.runs(Component::Kwok) && self.options.simulated_node {
            self.api.create("/api/v1/nodes", &simulated_node())?;
        }
        Ok(())
    }

    fn log(&self, component: Component) -> PathBuf {
        self.folder.join(format!("{}.log", component.name()))
    }

    fn launch(&self, component: Component) -> Result<(), Error> {
        if component == Component::ControllerManager {
            // Left by one that was killed; nobody need wait until it expires. Absent most often.
            self.api.send("DELETE", LEASE, None)?;
        }
        let program = self.binaries.path(component.program());
        let arguments = self.arguments(component);
        self.supervisor().launch(component.name(), program, arguments, self.log(component))?;
        Ok(())
    }

    /// Returns when the component serves, or with its log when it ended instead.
    fn await_component(&self, component: Component) -> Result<(), Error> {
        let deadline = Instant::now() + START_PATIENCE;
        let failed = |how: &str| {
            let log = excerpt(&self.log(component));
            Error::new(format!("{} {how}; its log:\n{log}", component.name()))
        };
        loop {
            if let Err(how) = self.supervisor().look(component.name())? {
                return Err(failed(&format!("ended ({how})")));
            }
            if self.serves(component) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(failed(&format!("does not serve after {} s", START_PATIENCE.as_secs())));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn serves(&self, component: Component) -> bool {
        match component {
            Component::Etcd => TcpStream::connect((Ipv4Addr::LOCALHOST, self.ports.etcd)).is_ok(),
            Component::ApiServer => self.api.ready(),
            Component::ControllerManager => matches!(
                self.api.get(LEASE),
                Ok(Some(lease)) if lease["spec"]["holderIdentity"].as_str().is_some_and(|who| !who.is_empty())
            ),
            // They need no more than the API server, and do not tell.
            Component::StandbyControllerManager | Component::Scheduler | Component::Kwok => true,
        }
    }

    fn arguments(&self, component: Component) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let kubeconfig = |user: &str| format!("--kubeconfig={}", file(&format!("{user}.kubeconfig")));
        let mut arguments = match component {
            Component::Etcd => {
                let client = format!("http://127.0.0.1:{}", self.ports.etcd);
                let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
                vec![
                    format!("--data-dir={}", file("etcd")),
                    format!("--listen-client-urls={client}"),
                    format!("--advertise-client-urls={client}"),
                    format!("--listen-peer-urls={peer}"),
                    format!("--initial-advertise-peer-urls={peer}"),
                    format!("--initial-cluster=default={peer}"),
                    "--unsafe-no-fsync".to_owned(),
                    "--log-level=warn".to_owned(),
                ]
            }
            Component::ApiServer => vec![
                format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={}", self.ports.api),
                // Loopback may not be an endpoint of a Service; nobody in this cluster needs that one.
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                format!("--tls-cert-file={}", file("apiserver.crt")),
                format!("--tls-private-key-file={}", file("apiserver.key")),
                format!("--token-auth-file={}", file("tokens.csv")),
                "--authorization-mode=RBAC".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-signing-key-file={}", file("service-account.key")),
                format!("--service-account-key-file={}", file("service-account.pub")),
                "--disable-admission-plugins=ServiceAccount".to_owned(),
                "--allow-privileged=true".to_owned(),
                "--profiling=false".to_owned(),
                format!("--audit-policy-file={}", file("audit-policy.json")),
                format!("--audit-log-path={}", file("audit.log")),
            ],
            Component::ControllerManager | Component::StandbyControllerManager => {
                let mut arguments = vec![
                    kubeconfig("system:kube-controller-manager"),
                    "--use-service-account-credentials=true".to_owned(),
                    format!("--service-account-private-key-file={}", file("service-account.key")),
                    format!("--root-ca-file={}", file("ca.crt")),
                    "--secure-port=0".to_owned(),
                    "--profiling=false".to_owned(),
                ];
                if self.options.fast_lease {
                    arguments.extend(
                        ["lease-duration=3s", "renew-deadline=2s", "retry-period=500ms"]
                            .map(|setting| format!("--leader-elect-{setting}")),
                    );
                }
                arguments
            }
            Component::Scheduler => vec![
                kubeconfig("system:kube-scheduler"),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
            Component::Kwok => {
                let mut arguments = vec![
                    kubeconfig("kwok"),
                    "--manage-all-nodes=false".to_owned(),
                    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
                    "--server-address=127.0.0.1:0".to_owned(),
                ];
                arguments.push(format!("--config={}", file(STAGES)));
                arguments
            }
        };
        let extra = self.options.flags.iter().filter(|(to, _)| to.program() == component.program());
        arguments.extend(extra.map(|(_, flag)| flag.clone()));
        arguments
    }
}

/// All of kwok's stages, one YAML document each.
const STAGES: &str = "stages.yaml";

/// The files that the servers read, in the control plane's folder.
struct Files<'folder> {
    folder: &'folder Path,
}

impl Files<'_> {
    fn write(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(Error::doing(format!("cannot write {}", path.display())))?;
        Ok(path)
    }

    /// Gives each user a token and a kubeconfig; returns the tokens.
    fn write_users(
        &self,
        options: &Options,
        url: &str,
        authority: &str,
        secret: &str,
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut groups = BTreeMap::from([
            ("admin", "system:masters"),
            ("kwok", "system:masters"),
            ("system:kube-controller-manager", ""),
            ("system:kube-scheduler", ""),
        ]);
        for user in &options.users {
            groups.insert(user, "");
        }
        let (mut tokens, mut lines) = (BTreeMap::new(), String::new());
        for (user, group) in groups {
            let token = random_token()?;
            lines.push_str(&format!("{token},{user},{user},\"{group}\"\n"));
            // Each server keeps its one token; whoever tests something may run it often.
            let runs = if user.starts_with("system:") || user == "kwok" { 0 } else { options.runs };
            let groups = [group, audit::GROUP].into_iter().filter(|group| !group.is_empty());
            let groups = groups.collect::<Vec<_>>().join(",");
            for number in 0..runs {
                let (token, id) = (run_token(secret, user, number), run_id(number));
                lines.push_str(&format!("{token},{user},{id},\"{groups}\"\n"));
            }
            let config = kubeconfig(url, authority, user, &token);
            self.write(&format!("{user}.kubeconfig"), &config.to_string())?;
            tokens.insert(user.to_owned(), token);
        }
        self.write("tokens.csv", &lines)?;
        Ok(tokens)
    }

    fn write_stages(&self, binaries: &Binaries) -> Result<PathBuf, Error> {
        let mut documents = Vec::new();
        for path in binaries.stages()? {
            let failed = Error::doing(format!("cannot read {}", path.display()));
            documents.push(fs::read_to_string(&path).map_err(failed)?);
        }
        self.write(STAGES, &documents.join("\n---\n"))
    }
}

impl Ports {
    /// Ports that nobody listens on at the moment.
    fn free() -> Result<Self, Error> {
        let failed = || Error::doing("cannot find a free port on 127.0.0.1");
        // All are bound before the first is let go, so that they differ.
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?);
        }
        let port = |index: usize| listeners[index].local_addr().map(|address| address.port());
        let found = || Ok(Self { etcd: port(0)?, etcd_peer: port(1)?, api: port(2)? });
        found().map_err(|error: std::io::Error| failed()(error))
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api)
    }
}

/// A kubeconfig as JSON, which every reader of the YAML form takes.
fn kubeconfig(url: &str, authority: &str, user: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "control-plane",
            "cluster": { "server": url, "certificate-authority-data": BASE64.encode(authority) }
        }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{
            "name": "control-plane",
            "context": { "cluster": "control-plane", "user": user, "namespace": "default" }
        }],
        "current-context": "control-plane"
    })
}

/// A Node without a kubelet; the annotation is the one that kwok looks for.
fn simulated_node() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": SIMULATED_NODE,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": { "kubernetes.io/hostname": SIMULATED_NODE, "kubernetes.io/os": "linux" }
        }
    })
}

fn run_id(number: usize) -> String {
    format!("run-{number}")
}

fn run_token(secret: &str, user: &str, number: usize) -> String {
    format!("{secret}-{user}-{number}")
}

/// A bearer token that other users of this machine cannot guess.
fn random_token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(Error::doing("cannot read /dev/urandom"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Asks again and again until there is an answer, for at most `patience`. `what` completes the sentence "waited in
/// vain until".
///
/// # Errors
/// When the time is over.
pub fn eventually<T>(
    what: &str,
    patience: Duration,
    mut attempt: impl FnMut() -> Option<T>,
) -> Result<T, Error> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = attempt() {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            return Err(Error::new(format!("waited {:.0} s in vain until {what}", patience.as_secs_f64())));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
