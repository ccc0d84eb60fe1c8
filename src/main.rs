//! Parse, build the runtime, run, and give the exit code back. No logic.

use std::process::ExitCode;

use clap::Parser;
use kubectl_cascade::cli::Cli;
use kubectl_cascade::{commands, error};

fn main() -> ExitCode {
    if let Some(words) = commands::completion::words(std::env::args_os()) {
        return ExitCode::from(commands::completion::run(words) as u8);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no errors; clap knows which is which, and where each is printed.
        Err(error) => {
            let code = if error.use_stderr() { error::ExitCode::Usage } else { error::ExitCode::Done };
            let _ = error.print();
            return ExitCode::from(code as u8);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(commands::run(&cli));
            // Watches and abandoned look-ups must not hold the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => commands::no_runtime(&cli, &error),
    };
    ExitCode::from(code as u8)
}
