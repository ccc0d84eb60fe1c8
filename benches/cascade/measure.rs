//! Whole processes: wall time, peak memory, requests that the API server counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Error};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

use crate::link::Link;

/// A command to measure.
#[derive(Clone)]
pub struct Candidate {
    pub name: String,
    kubeconfig: PathBuf,
    words: Vec<String>,
}

impl Candidate {
    pub fn new(name: &str, kubeconfig: &Path, words: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.to_owned(), kubeconfig: kubeconfig.to_owned(), words: words.into_iter().collect() }
    }
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub seconds: f64,
    /// User and system time: hardly moved by what else the machine does.
    pub processor_seconds: f64,
    pub kibibytes: i64,
    pub code: i64,
    /// Requests that the API server counted meanwhile; its own controllers' are among them.
    pub requests: f64,
}

/// All runs of a candidate.
pub struct Measured {
    pub name: String,
    pub runs: Vec<Run>,
    /// Connections and bytes on the wire of one more run, through a link that counts; its time does not.
    pub traffic: Option<(u64, u64)>,
}

/// Runs all candidates in turn, once uncounted and then `runs` times, and once more to see what goes over the wire.
pub fn measure(plane: &ControlPlane, candidates: &[Candidate], runs: usize) -> Result<Vec<Measured>, Error> {
    let mut all: Vec<Measured> = candidates
        .iter()
        .map(|one| Measured { name: one.name.clone(), runs: Vec::new(), traffic: None })
        .collect();
    for round in 0..=runs {
        for (candidate, measured) in candidates.iter().zip(&mut all) {
            let run = once(plane, candidate)?;
            if round > 0 {
                measured.runs.push(run);
            }
        }
    }
    let link = Link::start(plane, "counting", Duration::ZERO)?;
    for (candidate, measured) in candidates.iter().zip(&mut all) {
        let through = Candidate { kubeconfig: link.kubeconfig().to_owned(), ..candidate.clone() };
        once(plane, &through)?;
        measured.traffic = Some(link.take_traffic()).filter(|(connections, _)| *connections > 0);
    }
    Ok(all)
}

/// One run, in a process of its own that knows nothing but this child: so its peak memory is the child's.
pub fn once(plane: &ControlPlane, candidate: &Candidate) -> Result<Run, Error> {
    let doing = |error| Error::new(format!("cannot measure {}: {error}", candidate.name));
    let before = requests(plane);
    let output = Command::new(std::env::current_exe().map_err(doing)?)
        .arg("measure")
        .args(&candidate.words)
        .envs(plane.kubectl().environment())
        .env("KUBECONFIG", &candidate.kubeconfig)
        .stderr(Stdio::inherit())
        .output()
        .map_err(doing)?;
    let requests = requests(plane) - before;
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::new(format!("cannot measure {}: {error}", candidate.name)))?;
    Ok(Run {
        seconds: found["seconds"].as_f64().unwrap_or(f64::NAN),
        processor_seconds: found["processorSeconds"].as_f64().unwrap_or(f64::NAN),
        kibibytes: found["kibibytes"].as_i64().unwrap_or(-1),
        code: found["code"].as_i64().unwrap_or(-1),
        requests,
    })
}

/// The child process of [`once`]: runs the command, throws its output away, and says what it took.
pub fn child(words: &[String]) -> Result<(), Error> {
    let [program, rest @ ..] = words else { return Err(Error::new("measure what?")) };
    let began = Instant::now();
    let status = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| Error::new(format!("cannot run {program}: {error}")))?;
    let seconds = began.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| Error::new(error.to_string()))?;
    let processor: f64 = [usage.user_time(), usage.system_time()]
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .iter()
        .sum();
    let found = json!({
        "seconds": seconds, "processorSeconds": processor, "kibibytes": usage.max_rss(), "code": status.code(),
    });
    println!("{found}");
    Ok(())
}

fn requests(plane: &ControlPlane) -> f64 {
    let metrics = plane.kubectl().run(&["get", "--raw", "/metrics"]).unwrap_or_default();
    let counts = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
