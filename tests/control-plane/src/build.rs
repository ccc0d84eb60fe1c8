//! Builds the servers from their Go modules, once for each version of them.
//!
//! The modules beside this crate (`servers`, `etcd`, `kwok`, and `krew` for the packaging) pin every version. A build
//! lands in `target/control-plane/<module>-<key>/`, where the key covers the module's `go.mod` and `go.sum`, the Go
//! release and the platform: whoever changes one of them gets a new build, everyone else the cached one.
//!
//! Older servers are built on demand, `CASCADE_TEST_KUBERNETES=v1.30.14`. Their module is written below `target/`:
//! what Kubernetes requires of its own libraries stands in its `go.mod`, and one release of them all has one version.

use std::borrow::Cow;
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

/// A module of its own, so that servers of every version can share it.
const ETCD: Module = Module {
    name: "etcd",
    of: "go.etcd.io/etcd/server/v3",
    programs: &[("server", "etcd", "go.etcd.io/etcd/server/v3")],
};

const KWOK: Module = Module {
    name: "kwok",
    of: "sigs.k8s.io/kwok",
    programs: &[("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")],
};

/// What installs the plugin as its users do, and what the plugin index asks of its manifest.
const KREW: Module = Module {
    name: "krew",
    of: "sigs.k8s.io/krew",
    programs: &[
        ("krew", "krew", "sigs.k8s.io/krew/cmd/krew"),
        ("validate-krew-manifest", "validate-krew-manifest", "sigs.k8s.io/krew/cmd/validate-krew-manifest"),
    ],
};

/// Asks for servers of another version than the one that `servers/go.mod` pins.
pub const KUBERNETES: &str = "CASCADE_TEST_KUBERNETES";

/// The stages that kwok plays, as folders of its module. Job Pods complete, others run until they are deleted.
const STAGES: &[&str] =
    &["kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/pod/fast"];

/// Where the built programs are.
#[derive(Clone, Debug)]
pub struct Binaries {
    servers: PathBuf,
    etcd: PathBuf,
    kwok: PathBuf,
}

impl Binaries {
    /// The path of one program: `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kubectl`
    /// or `kwok`.
    pub fn path(&self, program: &str) -> PathBuf {
        let folder = match program {
            "etcd" => &self.etcd,
            "kwok" => &self.kwok,
            _ => &self.servers,
        };
        folder.join(program)
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
    let servers = match other_kubernetes()? {
        Some(version) => built_version(&version)?,
        None => built(&SERVERS)?,
    };
    Ok(Binaries { servers, etcd: built(&ETCD)?, kwok: built(&KWOK)? })
}

/// The folder of `krew` and `validate-krew-manifest`, built where they are missing.
///
/// # Errors
/// As for [`binaries`].
pub fn krew() -> Result<PathBuf, Error> {
    built(&KREW)
}

/// The version of Kubernetes that [`binaries`] gives, such as `v1.37.2`.
///
/// # Errors
/// When [`KUBERNETES`] holds no version, or the pinned one cannot be read.
pub fn kubernetes() -> Result<String, Error> {
    if let Some(version) = other_kubernetes()? {
        return Ok(version);
    }
    let manifest = read(&source(&SERVERS).join("go.mod"))?;
    pinned(&manifest, SERVERS.of)
        .map(str::to_owned)
        .ok_or_else(|| Error::new(format!("no version of {} is pinned", SERVERS.of)))
}

/// What [`KUBERNETES`] asks for.
fn other_kubernetes() -> Result<Option<String>, Error> {
    match std::env::var(KUBERNETES) {
        Ok(version) if minor(&version).is_some() => Ok(Some(version)),
        Ok(version) => Err(Error::new(format!("{KUBERNETES} is \"{version}\", which is no version"))
            .with_hint("a released one, such as v1.30.14")),
        Err(_) => Ok(None),
    }
}

/// 30, of `v1.30.14`.
pub(crate) fn minor(version: &str) -> Option<u32> {
    let mut parts = version.strip_prefix("v1.")?.split('.');
    let (minor, patch) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u32>().ok());
    (patch.is_some() && parts.next().is_none()).then_some(minor)
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

fn source(module: &Module) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(module.name)
}

fn built(module: &Module) -> Result<PathBuf, Error> {
    let source = source(module);
    let manifest = read(&source.join("go.mod"))?;
    let sums = read(&source.join("go.sum"))?;
    let version = pinned(&manifest, module.of).ok_or_else(|| {
        Error::new(format!("{} pins no version of {}", source.join("go.mod").display(), module.of))
    })?;
    let platform = platform()?;
    let key = fingerprint(&[&manifest, &sums, &platform]);
    let name = format!("{}-{key:016x}", module.name);
    cached(module.name, &name, |building| {
        build(module, version, &platform, Sources::Pinned(&source), building)
    })
}

/// Servers of a version that no module here pins.
fn built_version(version: &str) -> Result<PathBuf, Error> {
    let platform = platform()?;
    let key = fingerprint(&[version, &platform]);
    let name = format!("{}-{version}-{key:016x}", SERVERS.name);
    cached(SERVERS.name, &name, |building| build(&SERVERS, version, &platform, Sources::Written, building))
}

/// The Go release and what it builds for.
fn platform() -> Result<String, Error> {
    go(&workspace(), &["env", "GOVERSION", "GOOS", "GOARCH"])
}

/// The folder of this name in the cache, filled by `fill` where it is missing.
fn cached(lock: &str, name: &str, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
    let cache = target().join("control-plane");
    fs::create_dir_all(&cache).map_err(Error::doing(format!("cannot create {}", cache.display())))?;
    let done = cache.join(name);
    if done.is_dir() {
        return Ok(done);
    }

    // The lock is released when the file is closed, also when this process is killed.
    let lock = cache.join(format!("{lock}.lock"));
    let lock = File::create(&lock)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::doing(format!("cannot lock {}", lock.display())))?;
    if !done.is_dir() {
        let building = tempfile::Builder::new()
            .prefix("building-")
            .tempdir_in(&cache)
            .map_err(Error::doing(format!("cannot create a folder in {}", cache.display())))?;
        fill(building.path())?;
        // Readers look for the folder without the lock, so that it must appear whole.
        let building = building.keep();
        fs::rename(&building, &done).map_err(Error::doing(format!("cannot create {}", done.display())))?;
    }
    drop(lock);
    Ok(done)
}

/// Where a build's `go.mod` is.
enum Sources<'folder> {
    /// Beside this crate, with the sums of all it needs.
    Pinned(&'folder Path),
    /// Nowhere yet.
    Written,
}

fn build(
    module: &Module,
    version: &str,
    platform: &str,
    sources: Sources<'_>,
    to: &Path,
) -> Result<(), Error> {
    let names = module.programs.iter().map(|program| program.1).collect::<Vec<_>>().join(", ");
    let release = platform.lines().next().unwrap_or("go");
    note(&format!(
        "building {names} ({} {version}) with {release}; the first time this takes some minutes",
        module.of
    ));
    let began = Instant::now();

    // A written module gets its indirect requirements and sums from the build itself; they stay beside the programs.
    let (source, mode) = match sources {
        Sources::Pinned(source) => (Cow::Borrowed(source), "-mod=readonly"),
        Sources::Written => {
            write_module(version, &to.join("go.mod"))?;
            (Cow::Owned(to.to_path_buf()), "-mod=mod")
        }
    };
    let output = format!("{}/", to.display());
    let flags = link_flags(version);
    let mut arguments = vec!["build", mode, "-trimpath", "-ldflags", &flags, "-o", &output];
    arguments.extend(module.programs.iter().map(|program| program.2));
    go(&source, &arguments)?;
    for (built, stored, _) in module.programs {
        let (from, stored) = (to.join(built), to.join(stored));
        fs::rename(&from, &stored).map_err(Error::doing(format!("cannot rename {}", from.display())))?;
    }
    if module.name == KWOK.name {
        copy_stages(&source, to)?;
    }
    note(&format!("built {names} in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// Writes the `go.mod` of a version of Kubernetes. Its own one takes the libraries that are developed with it from a
/// folder of the repository; a release of v1.30.14 has published each of them as v0.30.14.
fn write_module(version: &str, to: &Path) -> Result<(), Error> {
    let kubernetes = format!("{}@{version}", SERVERS.of);
    let manifest = go(&workspace(), &["list", "-m", "-f", "{{.GoMod}}", &kubernetes]).map_err(|error| {
        error.with_hint(format!("is {version} a release of Kubernetes, and can Go reach its module proxy?"))
    })?;
    let libraries = staged(&read(Path::new(&manifest))?);
    let programs = SERVERS.programs.iter().map(|program| program.2).collect();
    let text = module_text(version, &libraries, programs);
    fs::write(to, text).map_err(Error::doing(format!("cannot write {}", to.display())))
}

/// The libraries that Kubernetes' `go.mod` replaces by a folder of its own.
fn staged(manifest: &str) -> Vec<String> {
    let words = manifest.lines().map(|line| line.trim().trim_start_matches("replace ").split_whitespace());
    words
        .filter_map(|mut words| match (words.next(), words.next(), words.next()) {
            (Some(name), Some("=>"), Some(folder)) if folder.starts_with("./staging/") => {
                Some(name.to_owned())
            }
            _ => None,
        })
        .collect()
}

fn module_text(version: &str, libraries: &[String], programs: Vec<&str>) -> String {
    let of_libraries = version.replacen("v1.", "v0.", 1);
    let lines = |lines: Vec<String>| lines.iter().map(|line| format!("\t{line}\n")).collect::<String>();
    format!(
        "module kubectl-cascade.invalid/control-plane/servers\n\ngo 1.26.0\n\ngodebug default=go1.26\n\n\
         tool (\n{})\n\nrequire {} {version}\n\nreplace (\n{})\n",
        lines(programs.into_iter().map(str::to_owned).collect()),
        SERVERS.of,
        lines(libraries.iter().map(|name| format!("{name} => {name} {of_libraries}")).collect()),
    )
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
    fn a_version_has_three_numbers() {
        assert_eq!(minor("v1.30.14"), Some(30));
        for wrong in ["1.30.14", "v1.30", "v1.x.0", "v1.30.14.1", "v2.0.0", "latest", ""] {
            assert_eq!(minor(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_written_module_takes_the_libraries_of_the_same_release() {
        let of_kubernetes = "module k8s.io/kubernetes\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\t\
                             example.com/x => example.com/y v1.0.0\n)\n\nreplace k8s.io/kms => ./staging/src/k8s.io/kms\n";
        let libraries = staged(of_kubernetes);
        assert_eq!(libraries, ["k8s.io/api", "k8s.io/kms"]);
        let text = module_text("v1.30.14", &libraries, vec!["k8s.io/kubernetes/cmd/kubectl"]);
        assert!(text.contains("\tk8s.io/kms => k8s.io/kms v0.30.14\n"), "{text}");
        assert_eq!(pinned(&text, "k8s.io/kubernetes"), Some("v1.30.14"));
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
