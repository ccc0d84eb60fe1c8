//! One file a verb; each reads top to bottom as its pipeline. What several verbs share stands beside them: the
//! session, the subject (targets and graph), following a deletion, its ending.

pub mod completion;
pub mod connection;
pub mod delete;
pub mod diagnose;
pub mod ending;
pub mod flags;
pub mod follow;
pub mod input;
pub mod interrupt;
pub mod keep;
pub mod manifest;
pub mod offline;
pub mod orphans;
pub mod picture;
pub mod question;
pub mod release;
pub mod sending;
pub mod session;
pub mod subject;
pub mod tree;
pub mod version;
pub mod wait;
pub mod watching;
pub mod words;

use std::ffi::OsString;
use std::io::{self, Write as _};

use crate::cli::{Cli, Verb};
use crate::error::{ExitCode, Failure};
use crate::model::target::BareType;
use crate::render::failure::write_failure;
use crate::render::look::{ColorWhen, Look};
use session::{Session, color_when, unwritable};

/// Runs the command line, prints a failure if there is one, and gives the exit code. `words` are what it was read from.
pub async fn run(cli: &Cli, words: &[OsString]) -> ExitCode {
    let run = async {
        words::check(words)?;
        dispatch(cli).await
    };
    match run.await {
        Ok(code) => code,
        Err(failure) => fail(cli, &failure),
    }
}

/// The operating system refused what an asynchronous runtime needs.
pub fn no_runtime(cli: &Cli, error: &io::Error) -> ExitCode {
    fail(cli, &Failure::error(format!("cannot start: {error}")))
}

/// There is nothing to run: help or the version was wanted, which are no errors (clap knows which is which, and where
/// each is printed), or the command line is wrong.
pub fn not_parsed(error: &clap::Error) -> ExitCode {
    let written = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() {
        return ExitCode::Usage;
    }
    match unwritable(written) {
        Ok(()) => ExitCode::Done,
        Err(failure) => report(ColorWhen::Auto, &failure),
    }
}

/// What can be refused before anybody is asked, and before a cluster is looked for.
fn check(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::Tree(args) => tree::check(args),
        Verb::Delete(args) => delete::check(args),
        Verb::Wait(args) => wait::check(args),
        Verb::Diagnose(args) => diagnose::check(args),
        Verb::Release(args) => manifest::check(&args.target, BareType::Refused),
        Verb::Orphans(_) | Verb::Version(_) | Verb::Completion(_) => Ok(()),
    }
}

async fn dispatch(cli: &Cli) -> Result<ExitCode, Failure> {
    check(&cli.verb)?;
    match &cli.verb {
        Verb::Tree(args) if args.snapshot.is_some() => offline::tree(cli, args),
        Verb::Orphans(args) if args.snapshot.is_some() => offline::orphans(cli, args),
        Verb::Tree(args) => tree::run(&Session::open(cli).await?, args).await,
        Verb::Delete(args) => delete::run(&Session::open(cli).await?, args).await,
        Verb::Wait(args) => wait::run(&Session::open(cli).await?, args).await,
        Verb::Completion(args) => completion::script(args),
        Verb::Version(args) => version::run(cli, args).await,
        Verb::Diagnose(args) => diagnose::run(&Session::open(cli).await?, args).await,
        Verb::Release(args) => release::run(&Session::open(cli).await?, args).await,
        Verb::Orphans(args) => orphans::run(&Session::open(cli).await?, args).await,
    }
}

fn fail(cli: &Cli, failure: &Failure) -> ExitCode {
    let caller = connection::caller(&cli.connection);
    report(color_when(cli), &failure.clone().to_caller(&caller, cli.connection.namespace.as_deref()))
}

fn report(color: ColorWhen, failure: &Failure) -> ExitCode {
    // There is nowhere left to report that standard error is closed.
    let _ = write_failure(&mut io::stderr().lock(), Look::stderr(color), failure);
    failure.kind.exit_code()
}
