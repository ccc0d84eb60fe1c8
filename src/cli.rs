//! The command line: every clap struct. Clap types go no further than `commands/`; man pages, completions and the
//! README's flag tables are generated from here.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Preview, run and debug cascading deletion in Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "kubectl-cascade", bin_name = "kubectl cascade", version, max_term_width = 80)]
// Of a flag given twice the last counts, as in kubectl.
#[command(arg_required_else_help = true, disable_help_subcommand = true, args_override_self = true)]
#[command(after_help = "\
Words:
  dependent   an object that names another one in its metadata.ownerReferences
  owner       the object it names; the garbage collector deletes dependents after it

Exit codes:
  0 done   1 error   2 usage   3 not finished, or something is stuck
  4 refused: what was refused is as it was   130 interrupted")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// How to reach the cluster.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// When to colour the output; NO_COLOR and CLICOLOR_FORCE are honoured, too.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// Tell of every request to the API server on standard error, and of each that is sent once more
    #[arg(short = 'v', long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_name = "LEVEL")]
    pub verbose: Option<u8>,
}

/// When to colour the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that can.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show what depends on an object, or the forest of a whole namespace
    Tree(TreeArgs),
    /// Forecast, confirm, delete, watch until all is gone, and say why if it stalls
    Delete(DeleteArgs),
    /// Watch a deletion that is already under way until all is gone
    Wait(WaitArgs),
    /// Say why an object is not gone, and the safest way out
    Diagnose(DiagnoseArgs),
    /// Remove one blocking finalizer, checked and confirmed
    Release(ReleaseArgs),
    /// Find what earlier deletions left behind
    Orphans(OrphansArgs),
    /// Print a script that completes words at the shell's prompt
    Completion(CompletionArgs),
    /// Print the version of the plugin and of the server
    Version(VersionArgs),
}

/// Which objects, in kubectl's own grammar.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// TYPE/NAME, or TYPE NAME..., or TYPE with -l, --field-selector or --all
    #[arg(value_name = "TARGET", help_heading = Resettable::Reset)]
    pub targets: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Only objects with these fields
    #[arg(long, value_name = "FIELDS")]
    pub field_selector: Option<String>,
    /// All objects of the named types
    #[arg(long)]
    pub all: bool,
    /// Objects named in this manifest, or in the manifests of this directory; - reads standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub filenames: Vec<String>,
    /// Descend into the directories given with -f
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Kustomizations are not supported: build first, then pipe into -f -
    #[arg(short = 'k', long = "kustomize", value_name = "DIR", hide = true)]
    pub kustomize: Option<String>,
    /// Look in all namespaces; beside a named target: for its dependents and blockers (the target is in that of -n)
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// `tree`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What hangs on a Job
  kubectl cascade tree job/nightly
  # The forest of a namespace
  kubectl cascade tree -n ci
  # What a foreground delete of it would do, object by object
  kubectl cascade tree deployment/web --policy foreground
  # A picture
  kubectl cascade tree deployment/web -o dot | dot -Tsvg > web.svg
  # Of a saved cluster, without a server
  kubectl get deploy,rs,pods -A -o json | kubectl cascade tree --snapshot -")]
pub struct TreeArgs {
    /// Which objects
    #[command(flatten)]
    pub target: TargetArgs,
    /// Go upwards, to the owners, instead
    #[arg(long, help_heading = "What is shown")]
    pub owners: bool,
    /// Show so many levels; 1 is the root and its dependents
    #[arg(long, value_name = "N", help_heading = "What is shown")]
    pub depth: Option<usize>,
    /// Add what a delete with this policy would do to each object
    #[arg(long, value_enum, value_name = "POLICY")]
    pub policy: Option<PolicyArg>,
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t = TreeFormat::Tree, value_name = "FORMAT",
          help_heading = "Output")]
    pub output: TreeFormat,
    /// Show all siblings, not only ten of a kind
    #[arg(long, help_heading = "What is shown")]
    pub expand: bool,
    /// Leave the column headers out
    #[arg(long, help_heading = "Output")]
    pub no_headers: bool,
    /// A column for each of these labels (repeatable, or separated by commas)
    #[arg(short = 'L', long, value_name = "LABELS", value_delimiter = ',', help_heading = "Output")]
    pub label_columns: Vec<String>,
    /// Only objects of these kinds: types, categories, API groups, or patterns with * and ? (repeatable, or separated
    /// by commas); what lies between them is shown dimmed
    #[arg(long, value_name = "KINDS", value_delimiter = ',', help_heading = "What is shown")]
    pub include: Vec<String>,
    /// No objects of these kinds
    #[arg(long, value_name = "KINDS", value_delimiter = ',', help_heading = "What is shown")]
    pub exclude: Vec<String>,
    /// Draw it again whenever it changes, until its objects are gone; off a terminal each changed tree follows the last
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Not of the cluster, but of this file: what kubectl get printed with -o json or -o yaml; - reads standard input. All
    /// its namespaces without -n; no kubeconfig is read
    #[arg(long, value_name = "FILE|-")]
    pub snapshot: Option<String>,
}

/// What `tree` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TreeFormat {
    /// The tree with its columns
    Tree,
    /// More columns: finalizers, blocking, UID
    Wide,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// kind.group/name, one a line
    Name,
    /// A graph for Graphviz
    Dot,
    /// A flowchart for Mermaid
    Mermaid,
}

/// A propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The object first, its dependents when it is gone
    #[value(alias = "true")]
    Background,
    /// The dependents first, the object when no blocking one is left
    Foreground,
    /// The object alone; its dependents stay, without an owner
    #[value(alias = "false")]
    Orphan,
}

/// How a dry run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Do not dry-run
    None,
    /// Forecast only
    Client,
    /// Forecast, and ask the server's admission
    Server,
}

/// What `delete`, `wait`, `diagnose` and `orphans` print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One JSON document
    Json,
    /// kind.group/name, one a line
    Name,
}

/// How far probes may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Probe {
    /// Only GET and LIST
    Read,
    /// Also dry runs, which leave nothing behind
    #[default]
    DryRun,
    /// Also short-lived ConfigMaps, where something is stuck, to see whether the garbage collector works
    Canary,
}

/// How `delete` and `wait` follow a deletion.
#[derive(Debug, Args)]
pub struct FollowArgs {
    /// Give up after this time, counted from the start, of a delete from when it is accepted (reading the cluster before
    /// that may take as long, too); 0 never does
    #[arg(
        long,
        default_value = "0s",
        value_name = "DURATION",
        allow_hyphen_values = true,
        help_heading = "Waiting"
    )]
    pub timeout: String,
    /// Diagnose when nothing has changed for this long
    #[arg(
        long,
        default_value = "60s",
        value_name = "DURATION",
        allow_hyphen_values = true,
        help_heading = "Waiting"
    )]
    pub stall_timeout: String,
    /// How far probes may go when a stall is diagnosed
    #[arg(long, value_enum, default_value_t = Probe::DryRun, value_name = "PROBE", help_heading = "Waiting")]
    pub probe: Probe,
}

/// `delete`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # What would happen, without doing it
  kubectl cascade delete job/nightly --dry-run
  # Delete, and return when the Job and all that depends on it is gone
  kubectl cascade delete job/nightly
  # Dependents first
  kubectl cascade delete deployment/web --policy foreground
  # All but one
  kubectl cascade delete database/orders --keep secret/orders-backup-key")]
pub struct DeleteArgs {
    /// Which objects
    #[command(flatten)]
    pub target: TargetArgs,
    /// How the delete propagates; always sent explicitly
    #[arg(long, value_enum, value_name = "POLICY", default_value = "background", help_heading = "Deletion")]
    pub policy: PolicyArg,
    /// Save this dependent: its ownerReference is removed first (repeatable)
    #[arg(long, value_name = "TARGET", help_heading = "Deletion")]
    pub keep: Vec<String>,
    /// The same in kubectl's spelling; bare it means background
    #[arg(long, value_enum, value_name = "POLICY", num_args = 0..=1, require_equals = true,
          default_missing_value = "background", conflicts_with = "policy", help_heading = "Deletion")]
    pub cascade: Option<PolicyArg>,
    /// Do not ask, unless -i is given, too
    #[arg(short = 'y', long, help_heading = "Confirmation")]
    pub yes: bool,
    /// Ask before deleting (the default on a terminal)
    #[arg(short = 'i', long, help_heading = "Confirmation")]
    pub interactive: bool,
    /// Show the forecast and stop; server also asks admission
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client",
          default_value = "none", value_name = "MODE", help_heading = "Confirmation")]
    pub dry_run: DryRun,
    /// Return only when all is gone
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true",
          action = clap::ArgAction::Set, value_name = "BOOL", help_heading = "Waiting")]
    pub wait: bool,
    /// How long to follow, and how to ask why it stalls
    #[command(flatten)]
    pub follow: FollowArgs,
    /// Help a slow garbage collector: send the deletes that it would send, many at once. Worth it for hundreds of
    /// dependents, since most controller managers are limited to some 20 requests a second. The same objects
    /// survive; you need the right to delete the dependents yourself
    #[arg(long, help_heading = "Deletion")]
    pub assist: bool,
    /// Grace period of the targets that are Pods, in seconds; -1 is the Pod's own, which dependents always have
    #[arg(long, default_value_t = -1, value_name = "SECONDS", allow_hyphen_values = true,
          help_heading = "Deletion")]
    pub grace_period: i64,
    /// The shortest grace period, the same as --grace-period=1
    #[arg(long, help_heading = "Deletion")]
    pub now: bool,
    /// With --grace-period=0: do not wait for the kubelet; two copies of a Pod may run
    #[arg(long, help_heading = "Deletion")]
    pub force: bool,
    /// An object that is not there is no error
    #[arg(long, help_heading = "Deletion")]
    pub ignore_not_found: bool,
    /// Output format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<ReportFormat>,
}

/// `wait`
#[derive(Debug, Args)]
#[command(after_help = "\
What is not there is gone: 0, and named, since it may be a slip of the pen. What
nobody deletes is an error: 1. A Namespace that is being deleted takes along
what is in it, so that is waited for, too.

Examples:
  # Someone else deleted it; return when it and all that goes with it is gone
  kubectl cascade wait job/nightly --timeout 5m
  # The same from what it was made of
  kubectl cascade wait -f nightly.yaml
  # In a script: what is left, and why
  kubectl cascade wait namespace/ci --timeout 10m -o json")]
pub struct WaitArgs {
    /// Which objects
    #[command(flatten)]
    pub target: TargetArgs,
    /// How long to follow, and how to ask why it stalls
    #[command(flatten)]
    pub follow: FollowArgs,
    /// Output format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<ReportFormat>,
}

/// `diagnose`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Everything that is Terminating in the namespace
  kubectl cascade diagnose -n ci
  # One object
  kubectl cascade diagnose pod/build-1
  # A namespace, and what in it does not go
  kubectl cascade diagnose namespace/ci
  # Something is stuck: is the garbage collector at work? Makes short-lived ConfigMaps to see
  kubectl cascade diagnose -n ci --probe canary")]
pub struct DiagnoseArgs {
    /// Which objects; without any, everything that is Terminating
    #[command(flatten)]
    pub target: TargetArgs,
    /// Time between the two looks
    #[arg(
        long,
        default_value = "3s",
        value_name = "DURATION",
        allow_hyphen_values = true,
        help_heading = "Diagnosis"
    )]
    pub observe: String,
    /// An object that is not there is no error
    #[arg(long)]
    pub ignore_not_found: bool,
    /// How far probes may go
    #[arg(long, value_enum, default_value_t = Probe::DryRun, value_name = "PROBE",
          help_heading = "Diagnosis")]
    pub probe: Probe,
    /// Output format; name: the objects that hold the rest
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<ReportFormat>,
}

/// `release`
#[derive(Debug, Args)]
#[command(after_help = "\
Removing a finalizer skips the clean-up that it stands for. `kubectl cascade
diagnose` names safer ways.

Examples:
  # The only finalizer of an object; asks for its name
  kubectl cascade release database/orders
  # One of several
  kubectl cascade release database/orders --finalizer example.com/backup
  # In a script: the first time without --confirm prints the digest to confirm
  kubectl cascade release database/orders --confirm 0123456789abcdef")]
pub struct ReleaseArgs {
    /// Which object
    #[command(flatten)]
    pub target: TargetArgs,
    /// Which finalizer; not needed where there is only one
    #[arg(long, value_name = "NAME")]
    pub finalizer: Option<String>,
    /// Do not ask: this digest of the object, as printed before, confirms; it changes when the object does
    #[arg(long, value_name = "DIGEST")]
    pub confirm: Option<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<ReleaseFormat>,
}

/// What `release` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReleaseFormat {
    /// One JSON document
    Json,
}

/// `orphans`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Pods of Jobs that were deleted without a policy, and other left-overs
  kubectl cascade orphans -n batch
  # In a script: exit code 3 when there are some
  kubectl cascade orphans -A --exit-code -o json
  # Of a saved cluster, without a server
  kubectl get all -A -o json | kubectl cascade orphans --snapshot -")]
pub struct OrphansArgs {
    /// Look in all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Exit with 3 when something was found
    #[arg(long)]
    pub exit_code: bool,
    /// Not in the cluster, but in this file: what kubectl get printed with -o json or -o yaml; - reads standard input. All
    /// its namespaces without -n; no kubeconfig is read
    #[arg(long, value_name = "FILE|-")]
    pub snapshot: Option<String>,
    /// Output format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<ReportFormat>,
}

/// `completion`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # In ~/.bashrc, for the command kubectl-cascade
  source <(kubectl cascade completion bash)
  # For kubectl cascade: kubectl's own completion looks for this name in PATH
  ln -s \"$(command -v kubectl-cascade)\" ~/.local/bin/kubectl_complete-cascade")]
pub struct CompletionArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// The shells for which there is a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// `version`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  # Of the plugin and of the server
  kubectl cascade version
  # Of the plugin alone; no kubeconfig is read
  kubectl cascade version --client
  # For a bug report
  kubectl cascade version -o json")]
pub struct VersionArgs {
    /// Only the plugin's own version, without asking the server
    #[arg(long)]
    pub client: bool,
    /// Output format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub output: Option<VersionFormat>,
}

/// What `version` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VersionFormat {
    /// One JSON document
    Json,
}

/// kubectl's connection flags. A plugin never receives flags placed before its name; these follow the verb.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArgs {
    /// Namespace; without it the context's, else default
    #[arg(short = 'n', long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Path of the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server
    #[arg(short = 's', long, global = true, value_name = "URL")]
    pub server: Option<String>,
    /// Bearer token
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Server name to check its certificate against
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Certificate of the authority that signed the server's
    #[arg(long, global = true, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// Client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// Act as a member of this group (repeatable)
    #[arg(long, global = true, value_name = "GROUP")]
    pub as_group: Vec<String>,
    /// Act as the user with this UID
    #[arg(long, global = true, value_name = "UID")]
    pub as_uid: Option<String>,
    /// Extra information on that user, KEY=VALUE (repeatable)
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub as_user_extra: Vec<String>,
    /// Time for a single request; 0 never gives up
    #[arg(long, global = true, value_name = "DURATION", allow_hyphen_values = true)]
    pub request_timeout: Option<String>,
    /// Do not ask for compressed answers
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub disable_compression: Option<bool>,
}
