//! What a contributor runs: `cargo xtask test`, `demo`, `bench`, `docs`, `fuzz-forecast`, `soak`, `pictures`, `dist`.

#[cfg(unix)]
mod demo;
mod dist;
mod fuzz;
#[cfg(unix)]
mod pictures;
mod soak;
mod steps;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use control_plane::Error;

/// Tasks of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check everything as CI does: the servers, the format, the lints, all tests.
    Test {
        /// Test against servers of this version, such as v1.30.14, instead of the newest; they are built when they are
        /// missing. Only the tests are run.
        #[arg(long, value_name = "VERSION")]
        kubernetes: Option<String>,
    },
    /// Build the servers where they are missing.
    #[command(hide = true)]
    Servers,
    /// Write what is generated from the command line: man/ and the README's tables.
    Docs,
    /// Show the plugin at work on a real control plane.
    #[cfg(unix)]
    Demo(demo::Arguments),
    /// Make the documentation's pictures from real runs: docs/pictures/.
    #[cfg(unix)]
    Pictures,
    /// Pack a release: archive, sum and krew's manifest in target/dist.
    Dist(dist::Arguments),
    /// Compare the forecast with the real collector on random ownership graphs.
    FuzzForecast(fuzz::Arguments),
    /// Delete random cascades under random faults, and check that every run keeps its word.
    Soak(soak::Arguments),
    /// Measure the plugin on a control plane of its own; `--help` after `--` tells what.
    Bench {
        /// Handed to the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test { kubernetes: None } => steps::test(),
        Task::Test { kubernetes: Some(version) } => steps::test_on(&version),
        Task::Servers => steps::servers(),
        Task::Docs => steps::docs(),
        #[cfg(unix)]
        Task::Demo(arguments) => demo::run(&arguments),
        #[cfg(unix)]
        Task::Pictures => pictures::run(),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::FuzzForecast(arguments) => fuzz::run(&arguments),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::Bench { arguments } => steps::bench(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error closed there is nobody left to tell.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes one line for the reader.
fn say(text: &str) -> Result<(), Error> {
    writeln!(io::stdout(), "{text}").map_err(|cause| Error::new(format!("cannot write: {cause}")))
}
