//! Builds the servers from their Go modules, once for each version of them.
//!
//! The two modules beside this crate (`servers` and `kwok`) pin every version. A build lands in
//! `target/control-plane/<module>-<key>/`, where the key covers the module's `go.mod` and `go.sum`, the Go release
//! and the platform: whoever changes one of them gets a new build, everyone else the cached one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::Error;

/// One Go module and the programs that are built from it.
struct Module {
    /// Its folder beside this crate's manifest.
    name: &'static str,
    /// The module path whose version the module pins and is known for.
    of: &'static str,
    /// The name `go build` gives the program, the name it is stored under, and its package.
    programs: &'static [(&'static str, &'static str, &'static str)],
}

const SERVERS: Module = Module {
    name: "servers",
    of: "k8s.io/kubernetes",
    programs: &[
        ("server", "etcd", "go.etcd.io/etcd/server/v3"),
        ("kube-apiserver", "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        (
            "kube-controller-manager",
            "kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
        ("kube-scheduler", "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        ("kubectl", "kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ],
};

const KWOK: Module = Module {
    name: "kwok",
    of: "sigs.k8s.io/kwok",
    programs: &[("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")],
};

/// The stages that kwok plays, as folders of its module. Job Pods complete, others run until they are deleted.
const STAGES: &[&str] =
    &["kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/pod/fast"];

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    servers: PathBuf,
    kwok: PathBuf,
}

impl Binaries {
    /// The path of one program: `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubectl`
    /// or `kwok`.
    pub fn path(&self, program: &str) -> PathBuf {
        if program == "kwok" { self.kwok.join(program) } else { self.servers.join(program) }
    }

    /// The files that tell kwok how its nodes and Pods behave.
    pub(crate) fn stages(&self) -> Result<Vec<PathBuf>, Error> {
        let folder = self.kwok.join("stages");
        let listed = fs::read_dir(&folder)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
            })
            .map_err(Error::doing(format!("cannot list {}", folder.display())))?;
        let mut files = listed;
        files.sort();
        Ok(files)
    }
}

/// Returns the built programs, building what is missing. Several processes may call this at once; one builds, the
/// others wait for it.
///
/// # Errors
/// When Go is missing or too old, a build fails, or the target folder cannot be written.
pub fn binaries() -> Result<Binaries, Error> {
    Ok(Binaries { servers: built(&SERVERS)?, kwok: built(&KWOK)? })
}

/// The workspace this crate was compiled in.
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}

/// Cargo's target folder: `CARGO_TARGET_DIR`, or `target` in the workspace.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    }
}

fn built(module: &Module) -> Result<PathBuf, Error> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(module.name);
    let platform = go(&source, &["env", "GOVERSION", "GOOS", "GOARCH"])?;
    let manifest = read(&source.join("go.mod"))?;
    let sums = read(&source.join("go.sum"))?;
    let key = fingerprint(&[&manifest, &sums, &platform]);

    let cache = target().join("control-plane");
    fs::create_dir_all(&cache).map_err(Error::doing(format!("cannot create {}", cache.display())))?;
    let done = cache.join(format!("{}-{key:016x}", module.name));
    if done.is_dir() {
        return Ok(done);
    }

    // The lock is released when the file is closed, also when this process is killed.
    let lock = cache.join(format!("{}.lock", module.name));
    let lock = File::create(&lock)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::doing(format!("cannot lock {}", lock.display())))?;
    if !done.is_dir() {
        build(module, &source, &manifest, &platform, &cache, &done)?;
    }
    drop(lock);
    Ok(done)
}

fn build(
    module: &Module,
    source: &Path,
    manifest: &str,
    platform: &str,
    cache: &Path,
    done: &Path,
) -> Result<(), Error> {
    let version = pinned(manifest, module.of).ok_or_else(|| {
        Error::new(format!("{} pins no version of {}", source.join("go.mod").display(), module.of))
    })?;
    let names = module.programs.iter().map(|program| program.1).collect::<Vec<_>>().join(", ");
    let release = platform.lines().next().unwrap_or("go");
    note(&format!(
        "building {names} ({} {version}) with {release}; the first time this takes some minutes",
        module.of
    ));
    let began = Instant::now();

    let building = tempfile::Builder::new()
        .prefix("building-")
        .tempdir_in(cache)
        .map_err(Error::doing(format!("cannot create a folder in {}", cache.display())))?;
    let output = format!("{}/", building.path().display());
    let flags = link_flags(version);
    let mut arguments = vec!["build", "-trimpath", "-ldflags", &flags, "-o", &output];
    arguments.extend(module.programs.iter().map(|program| program.2));
    go(source, &arguments)?;
    for (built, stored, _) in module.programs {
        let (from, to) = (building.path().join(built), building.path().join(stored));
        fs::rename(&from, &to).map_err(Error::doing(format!("cannot rename {}", from.display())))?;
    }
    if module.name == KWOK.name {
        copy_stages(source, building.path())?;
    }

    // Readers look for the folder without the lock, so that it must appear whole.
    let building = building.keep();
    fs::rename(&building, done).map_err(Error::doing(format!("cannot create {}", done.display())))?;
    note(&format!("built {names} in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// What `kubectl version` and the API server's `/version` report; without it the servers call themselves v0.0.0,
/// and refuse feature gates and emulation of their own version.
fn link_flags(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
    let package = "k8s.io/component-base/version";
    format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    )
}

fn copy_stages(source: &Path, to: &Path) -> Result<(), Error> {
    let module = PathBuf::from(go(source, &["list", "-m", "-f", "{{.Dir}}", KWOK.of])?);
    let stages = to.join("stages");
    fs::create_dir(&stages).map_err(Error::doing(format!("cannot create {}", stages.display())))?;
    for folder in STAGES {
        let folder = module.join(folder);
        let failed = || Error::doing(format!("cannot copy kwok's stages from {}", folder.display()));
        for entry in fs::read_dir(&folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|end| end == "yaml"))
            else {
                continue;
            };
            if name == "kustomization.yaml" {
                continue;
            }
            // Read and written, as the module cache is read-only and copying would keep that.
            fs::read(&path).and_then(|text| fs::write(stages.join(name), text)).map_err(failed())?;
        }
    }
    Ok(())
}

/// Runs the `go` command in a module's folder and returns its output, trimmed.
fn go(folder: &Path, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(folder)
        .env("CGO_ENABLED", "0")
        .env_remove("GOFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| {
            Error::new(format!("cannot run go: {cause}")).with_hint(
                "the control plane is built from its Go modules; install Go 1.26 or newer (https://go.dev/dl) \
                 and see that `go version` works",
            )
        })?;
    if !output.status.success() {
        return Err(Error::new(format!(
            "`go {}` in {} failed ({}):\n{}",
            arguments.first().unwrap_or(&""),
            folder.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The version that a `go.mod` requires of a module.
fn pinned<'text>(manifest: &'text str, module: &str) -> Option<&'text str> {
    manifest.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next()).flatten().filter(|word| word.starts_with('v'))
    })
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::doing(format!("cannot read {}", path.display())))
}

/// FNV-1a with 64 bits: a cache key that is the same for every release of the standard library.
pub(crate) const fn fingerprint_of(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    hash
}

/// The hash of no bytes at all.
pub(crate) const FINGERPRINT_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn fingerprint(texts: &[&str]) -> u64 {
    texts.iter().fold(FINGERPRINT_OF_NOTHING, |hash, text| {
        // The zero byte keeps "a","bc" apart from "ab","c".
        fingerprint_of(fingerprint_of(hash, text.as_bytes()), &[0])
    })
}

/// One line of progress. A test run may have closed standard error, which is no reason to fail.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "control-plane: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_a_block_and_on_a_line_of_its_own() {
        let manifest =
            "module x\n\nrequire k8s.io/kubernetes v1.37.2\n\nrequire (\n\tsigs.k8s.io/kwok v0.8.0\n)\n";
        assert_eq!(pinned(manifest, "k8s.io/kubernetes"), Some("v1.37.2"));
        assert_eq!(pinned(manifest, "sigs.k8s.io/kwok"), Some("v0.8.0"));
        assert_eq!(pinned(manifest, "k8s.io/api"), None);
    }

    #[test]
    fn the_key_changes_with_every_part_and_with_where_the_parts_end() {
        assert_eq!(fingerprint(&["a", "b"]), fingerprint(&["a", "b"]));
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["a", "c"]));
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
    }

    #[test]
    fn the_version_is_handed_to_the_linker() {
        let flags = link_flags("v1.37.2");
        assert!(flags.contains("version.gitVersion=v1.37.2 "), "{flags}");
        assert!(flags.contains("version.gitMinor=37 "), "{flags}");
    }
}
