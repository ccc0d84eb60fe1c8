//! Runs other programs one after the other, each with its name and its time.

use std::env;
use std::process::Command;
use std::time::Instant;

use control_plane::Error;

use crate::say;

/// Everything that CI checks, cheapest first except that the servers are built before anything may need them.
pub(crate) fn test() -> Result<(), Error> {
    let began = Instant::now();
    step("build the servers where they are missing", || control_plane::binaries().map(drop))?;
    step("cargo fmt", || cargo(&["fmt", "--all", "--check"]))?;
    step("cargo clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])
    })?;
    let threads = test_threads();
    step("cargo test", || {
        run_cargo(&["test", "--workspace", "--no-fail-fast"], &[("RUST_TEST_THREADS", threads.as_str())])
    })?;
    say(&format!("everything passed in {:.0} s", began.elapsed().as_secs_f64()))
}

/// Two tests a core: most of them wait for the servers most of the time.
fn test_threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    env::var("RUST_TEST_THREADS").unwrap_or_else(|_| (2 * cores).to_string())
}

/// All tests against servers of another version. Builds them in a process of its own, as the version is asked for by
/// its environment.
pub(crate) fn test_on(version: &str) -> Result<(), Error> {
    let version = if version.starts_with('v') { version.to_owned() } else { format!("v{version}") };
    let asked = [(control_plane::KUBERNETES, version.as_str())];
    let began = Instant::now();
    step(&format!("build the servers of {version} where they are missing"), || {
        run_cargo(&["run", "--quiet", "--package", "xtask", "--", "servers"], &asked)
    })?;
    step(&format!("cargo test on {version}"), || {
        run_cargo(&["test", "--workspace", "--no-fail-fast"], &asked)
    })?;
    say(&format!("everything passed on {version} in {:.0} s", began.elapsed().as_secs_f64()))
}

/// Builds the servers where they are missing, and says which.
pub(crate) fn servers() -> Result<(), Error> {
    let binaries = control_plane::binaries()?;
    let server = binaries.path("kube-apiserver");
    say(&format!(
        "Kubernetes {} in {}",
        control_plane::kubernetes()?,
        server.parent().unwrap_or(&server).display()
    ))
}

/// Writes the generated documentation. The tests that compare it know what belongs there; they write it, too.
pub(crate) fn docs() -> Result<(), Error> {
    let test = "generated::what_is_generated_is_what_the_command_line_says";
    let arguments = ["test", "--quiet", "--test", "repository", "--", "--exact", test];
    run_cargo(&arguments, &[("CASCADE_WRITE_DOCS", "1")])
}

/// Builds everything in the release profile and measures.
pub(crate) fn bench(arguments: &[String]) -> Result<(), Error> {
    control_plane::binaries()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo(&[&["bench", "--bench", "cascade", "--"], words.as_slice()].concat())
}

/// Runs one step between a line with its name and a line with its time.
pub(crate) fn step(name: &str, run: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    say(&format!("==> {name}"))?;
    let began = Instant::now();
    let outcome = run();
    let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
    say(&format!("<== {name}: {verdict} in {:.1} s", began.elapsed().as_secs_f64()))?;
    outcome
}

/// Runs the Cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Error> {
    run_cargo(arguments, &[])
}

/// The same with these environment variables.
pub(crate) fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), Error> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let shown = format!("cargo {}", arguments.join(" "));
    let mut command = Command::new(program);
    // What Cargo tells this program of its own package would make build scripts run again that were run without.
    for (name, _) in env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    let status = command
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(control_plane::workspace())
        .status()
        .map_err(|cause| Error::new(format!("cannot run `{shown}`: {cause}")))?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("`{shown}` failed ({status})"))) }
}
