//! Runs the real kubectl, as a user would.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::Error;

/// A kubectl that talks to one cluster as one user.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: PathBuf, kubeconfig: PathBuf, cache: PathBuf) -> Self {
        Self { program, kubeconfig, cache }
    }

    /// The same program with another kubeconfig.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, ..self.clone() }
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kubeconfig it uses.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The environment that makes any client talk to this cluster. The discovery cache is this control plane's own,
    /// as ports are reused.
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [("KUBECONFIG", &self.kubeconfig), ("KUBECACHEDIR", &self.cache)]
    }

    /// A command ready for arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.environment()).stdin(Stdio::null());
        command
    }

    /// Runs it and returns its standard output.
    ///
    /// # Errors
    /// When it cannot be run or fails; the message is kubectl's own.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        self.run_with_input(arguments, "")
    }

    /// Runs it with this text as its standard input and returns its standard output.
    ///
    /// # Errors
    /// As for [`Kubectl::run`].
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        let shown = || format!("kubectl {}", arguments.join(" "));
        let mut child = self
            .command()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::doing(format!("cannot run {}", self.program.display())))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A kubectl that fails early does not read; what it says is in its standard error.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(Error::doing(shown()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Error::new(format!("`{}` failed ({}): {}", shown(), output.status, said.trim_end())))
        }
    }

    /// Applies a manifest, on the server's side.
    ///
    /// # Errors
    /// As for [`Kubectl::run`].
    pub fn apply(&self, manifest: &str) -> Result<String, Error> {
        self.run_with_input(&["apply", "--server-side", "-f", "-"], manifest)
    }

    /// Runs `kubectl get ... -o json` and parses the answer.
    ///
    /// # Errors
    /// As for [`Kubectl::run`], and when the answer is not JSON.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, Error> {
        let arguments = [&["get", "-o", "json"], arguments].concat();
        serde_json::from_str(&self.run(&arguments)?).map_err(Error::doing("kubectl get printed no JSON"))
    }
}
