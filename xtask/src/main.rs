//! What a contributor runs: `cargo xtask test`, `demo`, `bench`, `docs`, `fuzz-forecast`.

mod demo;
mod fuzz;
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
    Test,
    /// Write what is generated from the command line: man/ and the README's tables.
    Docs,
    /// Show the plugin at work on a real control plane.
    Demo(demo::Arguments),
    /// Compare the forecast with the real collector on random ownership graphs.
    FuzzForecast(fuzz::Arguments),
    /// Measure the plugin on a control plane of its own; `--help` after `--` tells what.
    Bench {
        /// Handed to the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test => steps::test(),
        Task::Docs => steps::docs(),
        Task::Demo(arguments) => demo::run(&arguments),
        Task::FuzzForecast(arguments) => fuzz::run(&arguments),
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
