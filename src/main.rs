//! Parse, build the runtime, run, and give the exit code back. No logic.

use std::process::ExitCode;

use clap::Parser;
use kubectl_cascade::cli::Cli;
use kubectl_cascade::commands;

fn main() -> ExitCode {
    if let Some(words) = commands::completion::words(std::env::args_os()) {
        return ExitCode::from(commands::completion::run(words) as u8);
    }
    let words = commands::words::as_kubectl_reads(std::env::args_os());
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(commands::not_parsed(&error) as u8),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(commands::run(&cli, &words));
            // Watches and abandoned look-ups must not hold the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => commands::no_runtime(&cli, &error),
    };
    ExitCode::from(code as u8)
}
