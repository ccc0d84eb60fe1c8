//! A release as its users meet it: the manifest judged by krew's own validator, the archive installed by the real
//! krew, the plugin used through the real kubectl, and uninstalled.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use control_plane::{ControlPlane, Error, Options};

use super::manifest::{self, Platform};
use super::{PLATFORMS, failed, host, template, version, write};
use crate::{say, steps};

/// Checks the archives in this folder; installs the one for this machine.
pub(super) fn run(folder: &Path, archives: &[Platform]) -> Result<(), Error> {
    let host = host()?;
    let platform = PLATFORMS.iter().find(|platform| platform.target == host);
    let archive = platform.map(|platform| platform.archive(&version()));
    let archive = archives.iter().find(|found| Some(&found.archive) == archive.as_ref());
    let archive =
        archive.ok_or_else(|| Error::new(format!("there is no archive for this machine, {host}")))?;
    let user = User::new()?;

    steps::step("krew's validator installs every archive", || {
        let home = serve(folder.to_path_buf())?;
        let path = user.folder.path().join("cascade.yaml");
        write(&path, manifest::filled(&template()?, &version(), &home, archives).as_bytes())?;
        user.run(&format!("validate-krew-manifest -manifest {}", path.display())).map(drop)
    })?;
    steps::step("install with krew", || {
        let (manifest, archive) = (folder.join("cascade.yaml"), folder.join(&archive.archive));
        let (manifest, archive) = (manifest.display(), archive.display());
        user.run(&format!("kubectl krew install --manifest={manifest} --archive={archive}"))?;
        // krew wants an index even for what does not come from one; this one is empty and stays here.
        user.run("git init --quiet \"$KREW_ROOT/index/default\"")?;
        user.must_say("kubectl krew list", "cascade")?;
        user.must_say("kubectl plugin list", "/kubectl-cascade")?;
        user.must_say("kubectl cascade version --client", &version())?;
        user.must_say("kubectl cascade --help", "Usage: kubectl cascade")
    })?;
    steps::step("complete words through kubectl", || {
        user.must_say("\"$KREW_ROOT\"/store/cascade/*/kubectl_complete-cascade de", "delete")?;
        user.run("ln -s kubectl-cascade \"$KREW_ROOT/bin/kubectl_complete-cascade\"")?;
        user.must_say("kubectl __complete cascade di", "diagnose")
    })?;
    steps::step("ask a server, by address and by name", || {
        let plane = ControlPlane::start(Options::default())?;
        let kubeconfig = plane.kubeconfig_path().display().to_string();
        let by_name = plane.server_url()?.replace("127.0.0.1", "localhost");
        let command = format!("kubectl cascade tree -n kube-system --kubeconfig {kubeconfig}");
        user.must_say(&command, "ConfigMap")?;
        user.must_say(&format!("{command} --server {by_name}"), "ConfigMap")
    })?;
    steps::step("uninstall with krew", || {
        user.run("kubectl krew uninstall cascade")?;
        user.run("rm \"$KREW_ROOT/bin/kubectl_complete-cascade\"")?;
        user.run("test -z \"$(find \"$KREW_ROOT\" -name '*cascade*')\"").map(drop)
    })
}

/// Somebody with kubectl and krew, and a home of their own.
struct User {
    folder: tempfile::TempDir,
    path: String,
}

impl User {
    fn new() -> Result<Self, Error> {
        let folder = tempfile::tempdir()
            .map_err(|cause| Error::new(format!("cannot create a temporary folder: {cause}")))?;
        let krew = control_plane::krew()?;
        let kubectl = control_plane::binaries()?.path("kubectl");
        // kubectl finds a plugin by its name in PATH.
        let plugin = folder.path().join("kubectl-krew");
        fs::copy(krew.join("krew"), &plugin).map_err(failed("copy krew to", &plugin))?;
        let mut folders = vec![folder.path().join("krew/bin"), folder.path().to_path_buf(), krew];
        folders.extend(kubectl.parent().map(PathBuf::from));
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        let path = std::env::join_paths(folders).map_err(|cause| Error::new(format!("PATH: {cause}")))?;
        Ok(Self { path: path.to_string_lossy().into_owned(), folder })
    }

    /// Runs a command of theirs, which has to succeed, and returns what it printed.
    fn run(&self, command: &str) -> Result<String, Error> {
        say(&format!("$ {command}"))?;
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("HOME", self.folder.path())
            .env("KREW_ROOT", self.folder.path().join("krew"))
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .output()
            .map_err(|cause| Error::new(format!("cannot run `{command}`: {cause}")))?;
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let printed = printed.concat();
        if output.status.success() {
            return Ok(printed);
        }
        Err(Error::new(format!("`{command}` failed ({}):\n{}", output.status, printed.trim_end())))
    }

    fn must_say(&self, command: &str, expected: &str) -> Result<(), Error> {
        let printed = self.run(command)?;
        if printed.contains(expected) {
            return Ok(());
        }
        let printed = printed.trim_end();
        Err(Error::new(format!("`{command}` should have printed \"{expected}\", and printed:\n{printed}")))
    }
}

/// Serves the files of a folder on loopback, until this process ends. A file is known by the last part of the path,
/// as the manifest's links have more of it.
fn serve(folder: PathBuf) -> Result<String, Error> {
    let failed =
        |cause: std::io::Error| Error::new(format!("cannot serve the archives on loopback: {cause}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A client that went away is told by its own failure.
            let _ = answer(&connection, &folder);
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(mut connection: &TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    let mut rest = lines.map_while(Result::ok);
    while rest.next().is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap_or_default();
    let content = fs::read(folder.join(path.rsplit('/').next().unwrap_or_default()));
    let (status, content) = match content {
        Ok(content) => ("200 OK", content),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", content.len());
    connection.write_all(head.as_bytes())?;
    connection.write_all(&content)
}
