//! The process between us and the servers, so that none of them outlives us.
//!
//! Whoever starts a control plane holds the write end of a pipe to its supervisor. However that process ends
//! (a panic, Ctrl-C, SIGKILL), the kernel closes the pipe; the supervisor then kills the servers and removes the
//! folder. It leads a process group of its own, which keeps a terminal's Ctrl-C away from the servers. Should the
//! supervisor itself be killed, then on Linux the kernel kills the servers (the parent-death signal).
//!
//! Both sides are in this file. They speak one line of JSON a message: a request, then its reply.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::build;
use crate::error::Error;

/// The name of the program, as Cargo builds it.
const PROGRAM: &str = "control-plane-supervisor";

/// Names a folder to which the logs are copied before the control plane's own folder is removed.
const KEEP_LOGS: &str = "CASCADE_TEST_LOGS";

/// Tells whether the program on disk was built from this source; a stale one is built again.
const EDITION: u64 = build::fingerprint_of(build::FINGERPRINT_OF_NOTHING, include_bytes!("supervisor.rs"));

/// What the supervisor is asked.
#[derive(Serialize, Deserialize)]
enum Request {
    /// Start a server whose output goes to `log` (appended).
    Start { name: String, program: PathBuf, arguments: Vec<String>, log: PathBuf },
    /// Send a signal to a server.
    Signal { name: String, signal: Sent },
    /// Ask a server to end, kill it after `grace`, and wait until it is gone.
    Stop { name: String, grace: Duration },
    /// Tell whether a server runs.
    Look { name: String },
}

/// The signals that tests send.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Sent {
    /// Stop running, keep everything: `SIGSTOP`.
    Pause,
    /// Go on: `SIGCONT`.
    Resume,
}

/// What the supervisor answers.
#[derive(Serialize, Deserialize)]
enum Reply {
    /// The first message: it is up, and this folder is the control plane's.
    Ready { edition: u64, folder: PathBuf },
    /// The server runs under this process id.
    Running { pid: u32 },
    /// The server does not run; how it ended, where it ever ran.
    Ended { how: Option<String> },
    /// The request could not be carried out.
    Failed { why: String },
}

/// Our end of the pipe. Dropping it ends the servers and waits until they are gone.
pub(crate) struct Supervisor {
    process: Child,
    /// `None` only while dropping.
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Supervisor {
    /// Starts a supervisor without servers, in a fresh folder of its own.
    pub(crate) fn start() -> Result<Self, Error> {
        let program = beside_us();
        if let Some(program) = &program
            && let Ok(Some(supervisor)) = Self::run(program)
        {
            return Ok(supervisor);
        }
        // `cargo test --test NAME` builds libraries of other packages, not their programs.
        let program = compile()?;
        Self::run(&program)?
            .ok_or_else(|| Error::new(format!("{} is not the one just built", program.display())))
    }

    /// Starts this program; `None` when it was built from other source.
    fn run(program: &Path) -> Result<Option<Self>, Error> {
        let failed = || format!("cannot start {}", program.display());
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not ours: whoever reads our standard error to its end would wait for the supervisor, too.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::doing(failed()))?;
        let (Some(requests), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::new(format!("{}: it has no pipes", failed())));
        };
        let mut supervisor = Self {
            process,
            requests: Some(requests),
            replies: BufReader::new(replies),
            folder: PathBuf::new(),
        };
        match supervisor.reply()? {
            Reply::Ready { edition, folder } if edition == EDITION => {
                supervisor.folder = folder;
                Ok(Some(supervisor))
            }
            Reply::Failed { why } => Err(Error::new(format!("{}: {why}", failed()))),
            _ => Ok(None),
        }
    }

    /// The control plane's folder; the supervisor removes it in the end.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The supervisor's own process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Starts a server and returns its process id.
    pub(crate) fn launch(
        &mut self,
        name: &str,
        program: PathBuf,
        arguments: Vec<String>,
        log: PathBuf,
    ) -> Result<u32, Error> {
        match self.ask(&Request::Start { name: name.to_owned(), program, arguments, log })? {
            Reply::Running { pid } => Ok(pid),
            other => Err(unexpected(name, other)),
        }
    }

    /// Sends a signal to a running server.
    pub(crate) fn signal(&mut self, name: &str, signal: Sent) -> Result<(), Error> {
        match self.ask(&Request::Signal { name: name.to_owned(), signal })? {
            Reply::Running { .. } => Ok(()),
            other => Err(unexpected(name, other)),
        }
    }

    /// Ends a server and returns when it is gone. One that does not run is no error.
    pub(crate) fn stop(&mut self, name: &str, grace: Duration) -> Result<(), Error> {
        match self.ask(&Request::Stop { name: name.to_owned(), grace })? {
            Reply::Ended { .. } => Ok(()),
            other => Err(unexpected(name, other)),
        }
    }

    /// The process id of a server that runs, or how it ended.
    pub(crate) fn look(&mut self, name: &str) -> Result<Result<u32, String>, Error> {
        match self.ask(&Request::Look { name: name.to_owned() })? {
            Reply::Running { pid } => Ok(Ok(pid)),
            Reply::Ended { how } => Ok(Err(how.unwrap_or_else(|| "never started".to_owned()))),
            other => Err(unexpected(name, other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        let failed = || Error::doing("the supervisor of the control plane is gone");
        if let Some(requests) = &mut self.requests {
            write_line(requests, request).map_err(failed())?;
        }
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, Error> {
        let mut line = String::new();
        self.replies
            .read_line(&mut line)
            .and_then(|_| serde_json::from_str(&line).map_err(io::Error::from))
            .map_err(Error::doing("no answer from the supervisor of the control plane"))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.requests.take());
        // It cannot fail for a child that nobody else waits for; and there is nobody to tell.
        let _ = self.process.wait();
    }
}

fn unexpected(name: &str, reply: Reply) -> Error {
    Error::new(match reply {
        Reply::Failed { why } => format!("{name}: {why}"),
        Reply::Ended { how: Some(how) } => format!("{name} does not run: {how}"),
        Reply::Ended { how: None } => format!("{name} does not run"),
        Reply::Ready { .. } | Reply::Running { .. } => {
            format!("{name}: the supervisor's answer makes no sense")
        }
    })
}

/// The program next to the running one: `target/debug/` for a program, `target/debug/deps/` for a test.
fn beside_us() -> Option<PathBuf> {
    let us = std::env::current_exe().ok()?;
    us.ancestors().skip(1).take(2).map(|folder| folder.join(PROGRAM)).find(|path| path.is_file())
}

/// Builds the program and returns where it is.
fn compile() -> Result<PathBuf, Error> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", "control-plane", "--bin", PROGRAM])
        .current_dir(build::workspace())
        .stdin(Stdio::null())
        .output()
        .map_err(Error::doing(format!("cannot run cargo to build {PROGRAM}")))?;
    if !output.status.success() {
        return Err(Error::new(format!(
            "cannot build {PROGRAM}:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        )));
    }
    Ok(build::target().join("debug").join(PROGRAM))
}

/// The supervisor program.
pub(crate) fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "exec") {
        return become_server(arguments);
    }
    let folder = tempfile::Builder::new().prefix("kubectl-cascade-").tempdir();
    let (mut replies, mut servers) = (io::stdout().lock(), Servers::default());
    let first = match &folder {
        Ok(folder) => Reply::Ready { edition: EDITION, folder: folder.path().to_path_buf() },
        Err(error) => Reply::Failed { why: format!("cannot create a temporary folder: {error}") },
    };
    let mut listening = write_line(&mut replies, &first).is_ok();
    let mut requests = io::stdin().lock();
    let mut line = String::new();
    while listening && requests.read_line(&mut line).is_ok_and(|length| length > 0) {
        let reply = match serde_json::from_str(&line) {
            Ok(request) => servers.answer(request),
            Err(error) => Reply::Failed { why: error.to_string() },
        };
        listening = write_line(&mut replies, &reply).is_ok();
        line.clear();
    }
    // The data is thrown away with the folder, so that no server needs time to end well.
    servers.kill_all();
    if let (Ok(folder), Some(to)) = (&folder, std::env::var_os(KEEP_LOGS)) {
        // Nobody is left to tell when this fails.
        let _ = copy_logs(folder.path(), Path::new(&to));
    }
    drop(folder);
    ExitCode::SUCCESS
}

/// Copies the logs of one control plane into a folder that bears the name of its own.
fn copy_logs(from: &Path, to: &Path) -> io::Result<()> {
    let to = to.join(from.file_name().unwrap_or_default());
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|end| end == "log")) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// Becomes the server that the arguments name, after arranging that it dies with its parent.
fn become_server(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let Some(program) = arguments.next() else { return ExitCode::FAILURE };
    #[cfg(target_os = "linux")]
    {
        let parent = arguments.next().and_then(|parent| parent.to_str()?.parse::<i32>().ok());
        let armed = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
        // The parent may have died before the line above.
        let alive = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
        if !armed || alive != parent {
            return ExitCode::FAILURE;
        }
    }
    #[cfg(not(target_os = "linux"))]
    arguments.next();
    let failure = Command::new(program).args(arguments).exec();
    let _ = writeln!(io::stderr(), "{failure}");
    ExitCode::FAILURE
}

#[derive(Default)]
struct Servers {
    running: BTreeMap<String, Child>,
    ended: BTreeMap<String, String>,
}

impl Servers {
    fn answer(&mut self, request: Request) -> Reply {
        match request {
            Request::Start { name, program, arguments, log } => {
                if self.look(&name).is_some() {
                    return Reply::Failed { why: "runs already".to_owned() };
                }
                match spawn(&program, &arguments, &log) {
                    Ok(child) => {
                        let pid = child.id();
                        self.running.insert(name, child);
                        Reply::Running { pid }
                    }
                    Err(error) => {
                        Reply::Failed { why: format!("cannot start {}: {error}", program.display()) }
                    }
                }
            }
            Request::Signal { name, signal } => {
                let Some(pid) = self.look(&name) else { return self.ended(&name) };
                let signal = match signal {
                    Sent::Pause => Signal::STOP,
                    Sent::Resume => Signal::CONT,
                };
                match send(pid, signal) {
                    Ok(()) => Reply::Running { pid },
                    Err(error) => Reply::Failed { why: error.to_string() },
                }
            }
            Request::Stop { name, grace } => {
                if let Some(pid) = self.look(&name) {
                    // A paused server would not see the request to end.
                    let _ = send(pid, Signal::TERM).and_then(|()| send(pid, Signal::CONT));
                    let deadline = Instant::now() + grace;
                    while self.look(&name).is_some() {
                        if Instant::now() >= deadline {
                            let _ = send(pid, Signal::KILL);
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                }
                self.ended(&name)
            }
            Request::Look { name } => match self.look(&name) {
                Some(pid) => Reply::Running { pid },
                None => self.ended(&name),
            },
        }
    }

    /// The process id of a server that still runs.
    fn look(&mut self, name: &str) -> Option<u32> {
        let child = self.running.get_mut(name)?;
        match child.try_wait() {
            Ok(None) => Some(child.id()),
            Ok(Some(status)) => {
                self.running.remove(name);
                self.ended.insert(name.to_owned(), status.to_string());
                None
            }
            Err(error) => {
                self.ended.insert(name.to_owned(), error.to_string());
                None
            }
        }
    }

    fn ended(&self, name: &str) -> Reply {
        Reply::Ended { how: self.ended.get(name).cloned() }
    }

    fn kill_all(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
        }
        for child in self.running.values_mut() {
            let _ = child.wait();
        }
    }
}

/// Starts a server by way of this program's `exec`, which stays the same process.
fn spawn(program: &Path, arguments: &[String], log: &Path) -> io::Result<Child> {
    if !program.is_file() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no such file"));
    }
    let output = File::options().create(true).append(true).open(log)?;
    Command::new(std::env::current_exe()?)
        .arg("exec")
        .arg(program)
        .arg(std::process::id().to_string())
        .args(arguments)
        .current_dir(log.parent().unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
}

fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a process id"))?;
    Ok(kill_process(pid, signal)?)
}

fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// How a server's log begins and ends, for an error message: some servers say what is wrong and then print all
/// their flags.
pub(crate) fn excerpt(log: &Path) -> String {
    const FIRST: usize = 5;
    const LAST: usize = 20;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().collect::<Vec<_>>();
    if lines.len() <= FIRST + LAST {
        return lines.join("\n");
    }
    format!("{}\n[...]\n{}", lines[..FIRST].join("\n"), lines[lines.len() - LAST..].join("\n"))
}
