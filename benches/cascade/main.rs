//! The benchmark: whole processes, interleaved in one run, medians and peak memory, on a control plane of its own.
//! `cargo xtask bench` runs it. What counts are the ratios of one run; single times depend on the machine.
#![allow(clippy::print_stdout, missing_docs, unreachable_pub, reason = "a program for developers")]

mod fixtures;
mod floor;
mod link;
mod measure;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use control_plane::{ControlPlane, Error, Options};
use link::Link;
use measure::{Candidate, measure};
use table::Table;

/// What every fixture hangs on.
const ROOT: &str = "configmap/root";
/// A cluster with many kinds.
const MANY_DEFINITIONS: usize = 1_000;

#[derive(Parser)]
struct Arguments {
    /// Which parts to run; all of them without it
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Counted runs of each command, after one that is not counted
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// CustomResourceDefinitions in the cluster
    #[arg(long, default_value_t = 150)]
    definitions: usize,
    /// Another command to measure beside ours, as NAME=COMMAND; {namespace} and {root} are replaced
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    peers: Vec<String>,
    /// Leave the control plane, and a link of 25 ms before it, running until Enter is pressed: to look closer
    #[arg(long)]
    keep: bool,
    /// Cargo says so to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// `--help`
    Help,
    /// `tree` on a namespace of 11,000 objects, 6,201 of them under one root
    Tree,
    /// `tree` on a namespace of 51,000 objects under one root
    Large,
    /// `tree` on a small namespace, on loopback and over 25 ms
    Link,
    /// The same in a cluster with 1,000 CustomResourceDefinitions
    Definitions,
    /// `delete --assist` of 1,051 objects against the collector alone
    Assist,
    /// The forecast of 200,000 objects, without a server
    Forecast,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let outcome = match words.get(1).map(String::as_str) {
        // We measure ourselves as whole processes, too.
        Some("floor") => floor::run(&words[2..]),
        Some("measure") => measure::child(&words[2..]),
        _ => run(&Arguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let wants = |part: Part| arguments.only.is_empty() || arguments.only.contains(&part);
    if wants(Part::Forecast) {
        forecast();
    }
    if !arguments.keep && Part::value_variants().iter().all(|part| *part == Part::Forecast || !wants(*part)) {
        return Ok(());
    }
    let plane = ControlPlane::start(Options::default())?;
    let kubeconfig = plane.kubeconfig_path().to_owned();
    if wants(Part::Help) {
        let ours = Candidate::new("kubectl-cascade --help", &kubeconfig, [plugin(), "--help".into()]);
        println!("{}", Table::of("help", &measure(&plane, &[ours], arguments.runs)?));
    }
    if [Part::Tree, Part::Large, Part::Link, Part::Definitions].into_iter().any(wants) {
        let began = Instant::now();
        fixtures::definitions(&kubeconfig, 0..arguments.definitions)?;
        println!("made {} definitions in {:.0} s", arguments.definitions, began.elapsed().as_secs_f64());
    }
    if wants(Part::Tree) {
        let made = fixtures::pods(&kubeconfig, "middle", 200, 30)?;
        tree(&plane, &made, "pods", arguments)?;
    }
    if wants(Part::Large) {
        let made = fixtures::config_maps(&kubeconfig, "large", 1_000, 50)?;
        tree(&plane, &made, "configmaps", arguments)?;
    }
    if wants(Part::Link) || wants(Part::Definitions) {
        let made = fixtures::config_maps(&kubeconfig, "small", 3, 3)?;
        if wants(Part::Link) {
            small(&plane, &made, arguments)?;
        }
        if wants(Part::Definitions) {
            fixtures::definitions(&kubeconfig, arguments.definitions..MANY_DEFINITIONS)?;
            println!("the same with {MANY_DEFINITIONS} definitions:");
            small(&plane, &made, arguments)?;
        }
    }
    if wants(Part::Assist) {
        assist(&plane, &kubeconfig)?;
    }
    if arguments.keep {
        keep(&plane)?;
    }
    Ok(())
}

fn small(plane: &ControlPlane, made: &fixtures::Made, arguments: &Arguments) -> Result<(), Error> {
    tree(plane, made, "configmaps", arguments)?;
    let link = Link::start(plane, "slow", link::SLOW)?;
    println!("the same over a link of {} ms round trip:", link::SLOW.as_millis());
    let candidates = candidates(plane, link.kubeconfig(), "small", "configmaps", arguments)?;
    println!("{}", Table::of("small, over the link", &measure(plane, &candidates, arguments.runs)?));
    Ok(())
}

fn keep(plane: &ControlPlane) -> Result<(), Error> {
    let link = Link::start(plane, "slow", link::SLOW)?;
    println!("export KUBECONFIG={}", plane.kubeconfig_path().display());
    println!("over the link: {}", link.kubeconfig().display());
    println!("Enter ends it");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| Error::new(error.to_string()))?;
    Ok(())
}

fn plugin() -> String {
    env!("CARGO_BIN_EXE_kubectl-cascade").to_owned()
}

fn candidates(
    plane: &ControlPlane,
    kubeconfig: &std::path::Path,
    namespace: &str,
    commonest: &str,
    arguments: &Arguments,
) -> Result<Vec<Candidate>, Error> {
    let own = std::env::current_exe().map_err(|error| Error::new(format!("who am I? {error}")))?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let kubectl = plane.kubectl().program().display().to_string();
    let mut candidates = vec![
        Candidate::new("ours", kubeconfig, words(&[&plugin(), "tree", ROOT, "-n", namespace])),
        Candidate::new("floor", kubeconfig, words(&[&own.display().to_string(), "floor", namespace])),
        Candidate::new(
            &format!("kubectl get {commonest}"),
            kubeconfig,
            words(&[&kubectl, "get", commonest, "-n", namespace]),
        ),
    ];
    for peer in &arguments.peers {
        let Some((name, command)) = peer.split_once('=') else {
            return Err(Error::new(format!("--peer {peer}: not NAME=COMMAND")));
        };
        let command = command.replace("{namespace}", namespace).replace("{root}", ROOT);
        candidates.push(Candidate::new(name, kubeconfig, words(&["sh", "-c", &command])));
    }
    Ok(candidates)
}

fn tree(
    plane: &ControlPlane,
    made: &fixtures::Made,
    commonest: &str,
    arguments: &Arguments,
) -> Result<(), Error> {
    println!("made {} objects in {:.0} s", made.objects, made.seconds);
    let kubeconfig: PathBuf = plane.kubeconfig_path().to_owned();
    let candidates = candidates(plane, &kubeconfig, made.namespace, commonest, arguments)?;
    let title = format!("{} ({} objects)", made.namespace, made.objects);
    println!("{}", Table::of(&title, &measure(plane, &candidates, arguments.runs)?));
    Ok(())
}

/// The same tree deleted twice: by the collector alone, and with our help.
fn assist(plane: &ControlPlane, kubeconfig: &std::path::Path) -> Result<(), Error> {
    let mut seconds = Vec::new();
    for (namespace, flag) in [("alone", None), ("assisted", Some("--assist"))] {
        fixtures::config_maps(kubeconfig, namespace, 50, 20)?;
        let words = [&plugin(), "delete", "configmap/root", "-n", namespace, "--yes"].map(str::to_owned);
        let words: Vec<String> = words.into_iter().chain(flag.map(str::to_owned)).collect();
        let run = measure::once(plane, &Candidate::new(namespace, kubeconfig, words))?;
        println!("1,051 objects {namespace}: {:.1} s, exit code {}", run.seconds, run.code);
        seconds.push(run.seconds);
    }
    println!("--assist is {:.1} times faster than the collector alone", seconds[0] / seconds[1]);
    Ok(())
}

fn forecast() {
    use kubectl_cascade::model::forecast::forecast;
    use kubectl_cascade::model::graph::OwnerGraph;
    use kubectl_cascade::model::policy::Policy;
    for (shape, snapshot) in fixtures::snapshots(200_000) {
        let began = Instant::now();
        let graph = OwnerGraph::new(snapshot);
        let built = began.elapsed();
        let root = graph.objects().iter().position(|object| object.name == "0").unwrap_or_default();
        for policy in [Policy::Background, Policy::Foreground] {
            let began = Instant::now();
            let plan = forecast(&graph, &[root], policy);
            println!(
                "forecast of {} objects, {shape}, {}: {:.2} s (graph: {:.2} s)",
                plan.entries.len(),
                policy.as_str(),
                began.elapsed().as_secs_f64(),
                built.as_secs_f64()
            );
        }
    }
}
