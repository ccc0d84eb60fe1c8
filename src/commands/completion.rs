//! Words at a shell's prompt: verbs, flags and their values, kinds, and names from the cluster.
//!
//! kubectl runs the program `kubectl_complete-cascade` with the words behind `kubectl cascade`, the last one
//! possibly empty, and reads one candidate a line, a TAB and a description behind it, and in the end `:` and a number
//! (kubectl `pkg/cmd/plugin_completion.go`; the number is cobra's ShellCompDirective). This program is that one
//! under another name; the shell scripts of `completion SHELL` speak the same protocol through `__complete`.
//!
//! Whatever fails is silent: nobody wants an error in the middle of a line.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{self, ArgValueCompleter, CompletionCandidate};

use super::connection;
use super::session::print_stdout;
use crate::cli::{Cli, CompletionArgs, ConnectionArgs, Shell};
use crate::cluster::connect::Cluster;
use crate::cluster::{discovery, kubeconfig, metadata};
use crate::error::{ExitCode, Failure};
use crate::model::catalog::{Catalog, Resource};
use crate::model::command::quote;
use crate::model::target;
use crate::render::completion;

/// The name under which kubectl looks for the completion of a plugin.
const SHIM: &str = "kubectl_complete-cascade";
/// The hidden verb of the shell scripts.
const VERB: &str = "__complete";
/// Longer than this nobody waits for a word.
const PATIENCE: Duration = Duration::from_millis(1000);

/// cobra's ShellCompDirectiveDefault: where there are no candidates, files are meant.
const FILES: u8 = 0;
/// cobra's ShellCompDirectiveNoFileComp.
const NO_FILES: u8 = 4;
/// The same, with ShellCompDirectiveNoSpace: the word goes on.
const NO_SPACE: u8 = 6;

/// Prints the completion script of a shell.
///
/// # Errors
/// Standard output cannot be written to.
pub fn script(args: &CompletionArgs) -> Result<ExitCode, Failure> {
    let script = match args.shell {
        Shell::Bash => include_str!("completion/kubectl-cascade.bash"),
        Shell::Zsh => include_str!("completion/kubectl-cascade.zsh"),
        Shell::Fish => include_str!("completion/kubectl-cascade.fish"),
    };
    print_stdout(|out| io::Write::write_all(out, script.as_bytes()))?;
    Ok(ExitCode::Done)
}

/// The words to complete, where this is a completion's call and no command line.
pub fn words(arguments: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut arguments = arguments.into_iter();
    let program = arguments.next()?;
    let mut rest: Vec<OsString> = arguments.collect();
    let is_shim = Path::new(&program).file_stem().is_some_and(|name| name == SHIM);
    if !is_shim {
        if rest.first().is_none_or(|word| word != VERB) {
            return None;
        }
        rest.remove(0);
    }
    if rest.is_empty() {
        rest.push(OsString::new());
    }
    Some(rest)
}

/// Prints the candidates for the last word. Always succeeds.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let (candidates, directive) = candidates(words);
    let _ = print_stdout(|out| completion::write_candidates(out, &candidates, directive));
    ExitCode::Done
}

/// The candidates, each with its description, and what the shell may add.
fn candidates(words: Vec<OsString>) -> (Vec<(String, String)>, u8) {
    let last = words.len() - 1;
    let wants_flag = words[last].to_string_lossy().starts_with('-');
    let asked = Arc::new(Asked::read(&words[..last]));
    let arguments = std::iter::once("kubectl-cascade".into()).chain(words).collect();
    let found = engine::complete(&mut command(&asked), arguments, last + 1, None).unwrap_or_default();
    let text = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy().into_owned();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        (value, help.lines().next().unwrap_or_default().to_owned())
    };
    // As in kubectl, flags are offered to those who begin one.
    let candidates =
        found.iter().map(text).filter(|(value, _)| wants_flag || !value.starts_with('-')).collect();
    (candidates, asked.directive.load(Ordering::Relaxed))
}

/// The command line, with what to offer for the values that depend on the cluster or the disk.
fn command(asked: &Arc<Asked>) -> Command {
    let with = |offer: fn(&Asked, &str) -> Vec<Offer>| {
        let asked = Arc::clone(asked);
        ArgValueCompleter::new(move |word: &OsStr| {
            let word = word.to_string_lossy();
            offer(&asked, &word).into_iter().filter(|offer| offer.fits(&word)).map(Offer::candidate).collect()
        })
    };
    let prepare = |command: Command| {
        command.mut_args(|arg| match arg.get_id().as_str() {
            "targets" | "keep" => arg.add(with(Asked::targets)),
            "include" | "exclude" => arg.add(with(Asked::kinds)),
            "finalizer" => arg.add(with(Asked::finalizers)),
            "namespace" => arg.add(with(Asked::namespaces)),
            "context" => arg.add(with(|asked, _| asked.kubeconfig_names(|names| names.contexts))),
            "cluster" => arg.add(with(|asked, _| asked.kubeconfig_names(|names| names.clusters))),
            "user" => arg.add(with(|asked, _| asked.kubeconfig_names(|names| names.users))),
            "filenames"
            | "snapshot"
            | "kubeconfig"
            | "certificate_authority"
            | "client_certificate"
            | "client_key" => arg.add(with(Asked::files)),
            // A bare --policy has a meaning; who asks for its value does not want the next target.
            "policy" => arg.num_args(1),
            _ => arg,
        })
    };
    prepare(Cli::command()).mut_subcommands(prepare)
}

/// A candidate.
struct Offer {
    value: String,
    help: String,
}

impl Offer {
    fn new(value: impl Into<String>, help: impl Into<String>) -> Self {
        Self { value: value.into(), help: help.into() }
    }

    /// Whether the word can become it. A name that a shell or a terminal could take for something else is not offered.
    fn fits(&self, word: &str) -> bool {
        self.value.starts_with(word) && (self.value.is_empty() || quote(&self.value) == self.value)
    }

    fn candidate(self) -> CompletionCandidate {
        let help = Some(self.help).filter(|help| !help.is_empty()).map(Into::into);
        CompletionCandidate::new(self.value).help(help)
    }
}

/// What the words before the last one say.
#[derive(Default)]
struct Asked {
    verb: String,
    connection: ConnectionArgs,
    targets: Vec<String>,
    directive: AtomicU8,
}

impl Asked {
    /// Reads them as far as they make sense; the line is not finished.
    fn read(words: &[OsString]) -> Self {
        let arguments = std::iter::once("kubectl-cascade".into()).chain(words.iter().cloned());
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(arguments);
        let mut asked = Self { directive: AtomicU8::new(NO_FILES), ..Self::default() };
        let Ok(matches) = matches else { return asked };
        let innermost: &ArgMatches = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        asked.verb = matches.subcommand_name().unwrap_or_default().to_owned();
        asked.connection = ConnectionArgs::from_arg_matches(innermost).unwrap_or_default();
        if let Ok(Some(targets)) = innermost.try_get_many::<String>("targets") {
            asked.targets = targets.cloned().collect();
        }
        asked
    }

    /// Asks the cluster, for as long as one waits for a word.
    fn cluster<T: Default, F: Future<Output = Result<T, Failure>>>(
        &self,
        ask: impl FnOnce(Cluster) -> F,
    ) -> T {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return T::default();
        };
        let answer = runtime.block_on(async {
            let asking = async { ask(connection::connect(&self.connection).await?).await };
            tokio::time::timeout(PATIENCE, asking).await
        });
        runtime.shutdown_background();
        answer.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// `TYPE/NAME`, a `TYPE`, or a `NAME` behind its type.
    fn targets(&self, word: &str) -> Vec<Offer> {
        if let Some((kind, _)) = word.split_once('/') {
            let prefix = format!("{kind}/");
            return self.names(kind).into_iter().map(|name| Offer::new(prefix.clone() + &name, "")).collect();
        }
        match self.targets.split_first() {
            None => self.kinds(word),
            Some((first, _)) if first.contains('/') => {
                self.directive.store(NO_SPACE, Ordering::Relaxed);
                let slash = |kind: Offer| Offer::new(kind.value + "/", kind.help);
                self.kinds(word).into_iter().map(slash).collect()
            }
            Some((first, given)) => {
                let names = self.names(first).into_iter();
                names.filter(|name| !given.contains(name)).map(|name| Offer::new(name, "")).collect()
            }
        }
    }

    /// Names of the kinds that the verb can do something with; behind a comma, those of the last one.
    fn kinds(&self, word: &str) -> Vec<Offer> {
        let before = word.rfind(',').map_or("", |comma| &word[..=comma]);
        let verb = if self.verb == "delete" { "delete" } else { "list" };
        let catalog = self.cluster(async |cluster| discovery::catalog(&cluster).await);
        let resources = catalog.preferred().filter(|resource| resource.can(verb));
        resources
            .flat_map(|resource| spellings(resource, &catalog, &word[before.len()..]))
            .map(|offer| Offer::new(format!("{before}{}", offer.value), offer.help))
            .collect()
    }

    /// Names of the objects of a type, in the namespace of the command line.
    fn names(&self, kind: &str) -> Vec<String> {
        self.objects(kind, None).into_iter().map(|(name, _)| name).collect()
    }

    /// The finalizers of the target.
    fn finalizers(&self, _word: &str) -> Vec<Offer> {
        let target = match self.targets.as_slice() {
            [one] => one.split_once('/'),
            [kind, name] => Some((kind.as_str(), name.as_str())),
            _ => None,
        };
        let found = target.map(|(kind, name)| self.objects(kind, Some(name))).unwrap_or_default();
        found.into_iter().flat_map(|(_, finalizers)| finalizers).map(|name| Offer::new(name, "")).collect()
    }

    /// Name and finalizers of the objects of a type, or of the one of this name.
    fn objects(&self, kind: &str, name: Option<&str>) -> BTreeSet<(String, Vec<String>)> {
        self.cluster(async |cluster| {
            let resource = target::resource(kind, &discovery::catalog(&cluster).await?)?;
            let namespace = Some(cluster.namespace()).filter(|_| resource.namespaced);
            let objects: Vec<_> = match name {
                Some(name) => {
                    metadata::get(&cluster, &resource, namespace, name).await?.into_iter().collect()
                }
                None => {
                    let list = metadata::list(&cluster, &resource, namespace, "").await?;
                    list.items.into_iter().map(|item| item.object).collect()
                }
            };
            Ok(objects.into_iter().map(|object| (object.name.clone(), object.finalizers.clone())).collect())
        })
    }

    fn namespaces(&self, _word: &str) -> Vec<Offer> {
        self.names("namespaces").into_iter().map(|name| Offer::new(name, "")).collect()
    }

    fn kubeconfig_names(&self, which: fn(kubeconfig::Names) -> Vec<String>) -> Vec<Offer> {
        let options = connection::options(&self.connection).unwrap_or_default();
        let names = kubeconfig::names(&options, &kubeconfig::Environment::of_process()).unwrap_or_default();
        which(names).into_iter().map(|name| Offer::new(name, "")).collect()
    }

    /// The shell knows best how to complete the name of a file.
    fn files(&self, _word: &str) -> Vec<Offer> {
        self.directive.store(FILES, Ordering::Relaxed);
        Vec::new()
    }
}

/// How a kind can be written: its plural, with the group where another kind has taken the bare name; and its short
/// name, for those who have typed just that.
fn spellings(resource: &Arc<Resource>, catalog: &Catalog, word: &str) -> Vec<Offer> {
    let is_found_as = |name: &str| {
        target::resource(name, catalog).is_ok_and(|found| found.is(&resource.group, &resource.kind))
    };
    let plural = if is_found_as(&resource.plural) { resource.plural.clone() } else { resource.qualified() };
    let short = resource.short_names.iter().find(|short| *short == word && is_found_as(short));
    let known_as = if resource.short_names.is_empty() {
        String::new()
    } else {
        format!(" ({})", resource.short_names.join(", "))
    };
    let mut offers =
        vec![Offer::new(plural.clone(), format!("{}{known_as}, {}", resource.kind, resource.api_version()))];
    offers.extend(short.map(|short| Offer::new(short, plural)));
    offers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::catalog;

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(Into::into).collect()
    }

    /// The values offered where no cluster is needed.
    fn offered(line: &[&str]) -> Vec<String> {
        candidates(os(line)).0.into_iter().map(|(value, _)| value).collect()
    }

    #[test]
    fn a_completion_call_is_told_from_a_command_line() {
        assert_eq!(words(os(&["/bin/kubectl_complete-cascade", "tree", ""])), Some(os(&["tree", ""])));
        assert_eq!(words(os(&["kubectl_complete-cascade.exe"])), Some(os(&[""])));
        assert_eq!(words(os(&["kubectl-cascade", "__complete", "tr"])), Some(os(&["tr"])));
        assert_eq!(words(os(&["kubectl-cascade", "tree", "__complete"])), None);
        assert_eq!(words(os(&[])), None);
    }

    #[test]
    fn verbs_flags_and_their_values_need_no_cluster() {
        assert_eq!(offered(&["de"]), ["delete"]);
        assert!(offered(&[""]).contains(&"tree".to_owned()));
        assert!(!offered(&[""]).iter().any(|word| word.starts_with('-') || word.starts_with('_')));
        assert_eq!(offered(&["delete", "job/x", "--pol"]), ["--policy"]);
        assert_eq!(offered(&["delete", "--policy", "f"]), ["foreground"]);
        assert_eq!(offered(&["delete", "job/x", "--policy=o"]), ["--policy=orphan"]);
        assert_eq!(offered(&["delete", "--dry-run=s"]), ["--dry-run=server"]);
        assert_eq!(offered(&["tree", "-o", "w"]), ["wide"]);
        assert_eq!(offered(&["completion", ""]), ["bash", "zsh", "fish"]);
        assert_eq!(offered(&["nonsense", "--"]).len(), offered(&["--"]).len());
    }

    #[test]
    fn files_are_left_to_the_shell() {
        assert_eq!(candidates(os(&["delete", "-f", ""])), (Vec::new(), FILES));
        assert_eq!(candidates(os(&["tree", "--kubeconfig=/"])), (Vec::new(), FILES));
        assert_eq!(candidates(os(&["de"])).1, NO_FILES);
    }

    #[test]
    fn the_words_before_are_read_even_where_the_line_is_not_finished() {
        let asked = Asked::read(&os(&["delete", "-n", "ci", "job", "a", "--context", "prod", "--policy"]));
        assert_eq!((asked.verb.as_str(), asked.targets), ("delete", vec!["job".to_owned(), "a".to_owned()]));
        assert_eq!(asked.connection.namespace.as_deref(), Some("ci"));
        assert_eq!(asked.connection.context.as_deref(), Some("prod"));
        assert_eq!(Asked::read(&os(&["tree", "pod", "-n"])).targets, ["pod"]);
        assert_eq!(Asked::read(&os(&["tree", "--nonsense", "pod"])).verb, "tree");
        assert_eq!(Asked::read(&[]).verb, "");
    }

    #[test]
    fn a_kind_is_offered_as_it_can_be_written() {
        let served = |api_version, kind, short: &str| Resource {
            short_names: vec![short.to_owned()],
            ..Resource::clone(catalog().served(api_version, kind).unwrap())
        };
        let other = Resource { group: "shop.example.com".into(), ..served("v1", "Pod", "po") };
        let resources = vec![served("v1", "Pod", "po"), other, served("batch/v1", "Job", "j")];
        let catalog = Catalog::new(resources, Vec::new(), Vec::new());
        let spelled = |word| {
            let offers = catalog.all().iter().flat_map(|resource| spellings(resource, &catalog, word));
            offers.map(|offer| format!("{}: {}", offer.value, offer.help)).collect::<Vec<_>>()
        };
        let plurals = [
            "pods: Pod (po), v1",
            "pods.shop.example.com: Pod (po), shop.example.com/v1",
            "jobs: Job (j), batch/v1",
        ];
        assert_eq!(spelled("p"), plurals);
        assert_eq!(spelled("po"), [plurals[0], "po: pods", plurals[1], plurals[2]]);
    }

    #[test]
    fn no_name_reaches_the_shell_that_means_something_to_it() {
        assert!(Offer::new("prod", "").fits("pr"));
        assert!(!Offer::new("prod", "").fits("x"));
        assert!(!Offer::new("a b", "").fits("a"));
        assert!(!Offer::new("a\u{202e}b", "").fits("a"));
    }
}
