//! What every command has at hand: the cluster, the caller's own flags, and where output goes.

use std::io::{self, Write};
use std::time::Instant;

use crate::cli::{Cli, Color};
use crate::cluster::connect::Cluster;
use crate::error::Failure;
use crate::model::command::Caller;
use crate::render::listing::ListingView;
use crate::render::look::{ColorWhen, Look};
use crate::render::output::closed_pipe_is_fine;
use crate::render::progress::ProgressView;
use crate::render::traffic;

use super::connection;

/// Where a command writes: flushed once it has written all.
pub type Sink<'a> = io::BufWriter<&'a mut dyn Write>;

/// A command's surroundings.
pub struct Session {
    /// The API server.
    pub cluster: Cluster,
    /// What a suggested command must repeat.
    pub caller: Caller,
    /// What standard output can show.
    pub stdout: Look,
    /// What standard error can show.
    pub stderr: Look,
    /// Whether every request is told of: then nothing may redraw itself between these lines.
    verbose: bool,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    /// See [`connection::connect`].
    pub async fn open(cli: &Cli) -> Result<Self, Failure> {
        let when = color_when(cli);
        let (stdout, stderr) = (Look::stdout(when), Look::stderr(when));
        let mut cluster = connection::connect(&cli.connection).await?;
        let verbose = cli.verbose.is_some_and(|level| level > 0);
        if verbose {
            let output = Output { stdout, stderr };
            cluster = cluster
                .observed(move |traffic| output.note(|out| traffic::write_traffic(out, stderr, traffic)));
        }
        Ok(Self { cluster, caller: connection::caller(&cli.connection), stdout, stderr, verbose })
    }

    /// Shows how a long snapshot comes along, on standard error.
    pub fn listing(&self) -> ListingView {
        if self.verbose { ListingView::silent(Instant::now()) } else { ListingView::stderr(Instant::now()) }
    }

    /// Shows how a deletion comes along, on standard error.
    pub fn progress(&self) -> ProgressView {
        let now = Instant::now();
        if self.verbose {
            ProgressView::lines(self.stderr, Box::new(io::stderr()), now)
        } else {
            ProgressView::stderr(self.stderr, now)
        }
    }

    /// Where it prints to.
    pub fn output(&self) -> Output {
        Output { stdout: self.stdout, stderr: self.stderr }
    }

    /// Prints a document or a text to standard output.
    ///
    /// # Errors
    /// Standard output cannot be written to; a reader that went away (`| head`) is no error.
    pub fn print(&self, write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) -> Result<(), Failure> {
        self.output().print(write)
    }

    /// Prints a note or a text to standard error.
    pub fn note(&self, write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) {
        self.output().note(write);
    }
}

/// Where a command prints to. All that is needed where there is no cluster.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// What standard output can show.
    pub stdout: Look,
    /// What standard error can show.
    pub stderr: Look,
}

impl Output {
    /// As the command line and the environment say.
    pub fn of(cli: &Cli) -> Self {
        let when = color_when(cli);
        Self { stdout: Look::stdout(when), stderr: Look::stderr(when) }
    }

    /// Prints a document or a text to standard output.
    ///
    /// # Errors
    /// Standard output cannot be written to; a reader that went away (`| head`) is no error.
    pub fn print(self, write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) -> Result<(), Failure> {
        print_stdout(write)
    }

    /// Prints a note or a text to standard error.
    pub fn note(self, write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) {
        // There is nowhere left to report that standard error is closed.
        let _ = print_to(&mut io::stderr().lock(), write);
    }
}

/// What the user said about colour.
pub fn color_when(cli: &Cli) -> ColorWhen {
    match cli.color {
        Color::Auto => ColorWhen::Auto,
        Color::Always => ColorWhen::Always,
        Color::Never => ColorWhen::Never,
    }
}

/// Prints to standard output where there is no session yet.
///
/// # Errors
/// Standard output cannot be written to; a reader that went away (`| head`) is no error.
pub fn print_stdout(write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) -> Result<(), Failure> {
    print_to(&mut io::stdout().lock(), write)
}

fn print_to(out: &mut dyn Write, write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>) -> Result<(), Failure> {
    let mut buffered: Sink<'_> = io::BufWriter::new(out);
    unwritable(write(&mut buffered).and_then(|()| buffered.flush()))
}

/// Words that something could not be written; a reader that went away (`| head`) is no error.
pub fn unwritable(written: io::Result<()>) -> Result<(), Failure> {
    closed_pipe_is_fine(written).map_err(|error| Failure::error(format!("cannot write the output: {error}")))
}
