//! Where a story plays: a namespace, a folder with its manifests, and a shell that finds kubectl and the plugin.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use control_plane::{ControlPlane, Error, Kubectl};

use crate::say;

/// One story's surroundings.
pub(crate) struct Stage<'plane> {
    plane: &'plane ControlPlane,
    namespace: &'static str,
    folder: PathBuf,
}

impl<'plane> Stage<'plane> {
    /// Makes the story's namespace, in which all its commands work unless they say otherwise.
    pub(crate) fn new(plane: &'plane ControlPlane, namespace: &'static str) -> Result<Self, Error> {
        let kubectl = plane.kubectl();
        kubectl.run(&["create", "namespace", namespace])?;
        kubectl.run(&["config", "set-context", "--current", "--namespace", namespace])?;
        // Beside the kubeconfig, so that it goes when the control plane does.
        let folder = plane.kubeconfig_path().with_file_name(format!("demo-{namespace}"));
        fs::create_dir(&folder)
            .map_err(|cause| Error::new(format!("cannot create {}: {cause}", folder.display())))?;
        Ok(Self { plane, namespace, folder })
    }

    /// The control plane.
    pub(crate) fn plane(&self) -> &'plane ControlPlane {
        self.plane
    }

    /// For what happens behind the scenes.
    pub(crate) fn kubectl(&self) -> &'plane Kubectl {
        self.plane.kubectl()
    }

    /// The story's namespace.
    pub(crate) fn namespace(&self) -> &'static str {
        self.namespace
    }

    /// Tells what goes on.
    pub(crate) fn say(&self, text: &str) -> Result<(), Error> {
        say(&format!("\n# {}", text.replace('\n', "\n# ")))
    }

    /// Puts a manifest beside the commands, for `kubectl apply -f`.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, text)
            .map_err(|cause| Error::new(format!("cannot write {}: {cause}", path.display())))
    }

    /// Runs a command that has to succeed, and returns what it printed.
    pub(crate) fn run(&self, command: &str) -> Result<Printed, Error> {
        self.run_exiting(0, command)
    }

    /// Runs a command that has to end with this exit code, and returns what it printed.
    pub(crate) fn run_exiting(&self, expected: i32, command: &str) -> Result<Printed, Error> {
        say(&format!("\n$ {command}"))?;
        let failed = |cause: std::io::Error| Error::new(format!("cannot run `{command}`: {cause}"));
        let mut child = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.folder)
            .envs(self.kubectl().environment())
            .env("PATH", programs(self.plane) + ":" + &std::env::var("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (sender, lines) = mpsc::channel();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        drop(sender);
        let mut text = String::new();
        for line in lines {
            say(&line)?;
            text.push_str(&line);
            text.push('\n');
        }
        let status = child.wait().map_err(failed)?;
        if expected != 0 {
            say(&format!("[exit code {}]", status.code().unwrap_or(-1)))?;
        }
        if status.code() == Some(expected) {
            Ok(Printed { command: command.to_owned(), text })
        } else {
            Err(Error::new(format!("`{command}` should have exited with {expected}: {status}")))
        }
    }
}

/// What a command printed, on both streams.
pub(crate) struct Printed {
    command: String,
    text: String,
}

impl Printed {
    /// Fails unless this text is in it.
    pub(crate) fn must_say(self, expected: &str) -> Result<Self, Error> {
        if self.text.contains(expected) {
            Ok(self)
        } else {
            Err(Error::new(format!("`{}` should have printed \"{expected}\"", self.command)))
        }
    }

    /// A command in it that a user would copy: the rest of the line from `start` on.
    pub(crate) fn command_starting(&self, start: &str, with: &str) -> Result<String, Error> {
        let found = self.text.lines().filter_map(|line| line.find(start).map(|at| line[at..].trim_end()));
        found.into_iter().find(|command| command.contains(with)).map(str::to_owned).ok_or_else(|| {
            Error::new(format!("`{}` should have printed a command \"{start} ... {with}\"", self.command))
        })
    }
}

/// The folders of kubectl and of the plugin, as for `PATH`.
pub(crate) fn programs(plane: &ControlPlane) -> String {
    let kubectl = plane.kubectl().program();
    let plugin = control_plane::target().join("debug");
    let folders = [plugin.as_path(), kubectl.parent().unwrap_or(kubectl)];
    folders.map(|folder| folder.display().to_string()).join(":")
}
