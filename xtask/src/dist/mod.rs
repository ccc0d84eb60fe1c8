//! `cargo xtask dist`: what a release consists of, in `target/dist/`.
//!
//! An archive a platform (program, licence, completion shim, manual pages), its SHA-256, and the manifest that krew
//! installs from. The same program gives the same archive, byte by byte. Each platform is built on a machine of its
//! own (`.github/workflows/release.yml`); `--collect --complete` then writes the manifest of all.

mod archive;
#[cfg(unix)]
mod check;
mod manifest;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use control_plane::Error;

use crate::{say, steps};
use archive::Entry;

/// Links lead here until somebody says where releases are.
const NOWHERE: &str = "https://example.invalid/kubectl-cascade";

/// The options of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Build for this target of Rust instead of this machine's own.
    #[arg(long, value_name = "TRIPLE", conflicts_with = "collect")]
    target: Option<String>,
    /// Where the releases are; the manifest links to them.
    #[arg(long, value_name = "URL", default_value = NOWHERE)]
    home: String,
    /// Build nothing: take the archives that are in target/dist.
    #[arg(long)]
    collect: bool,
    /// Fail where the archive of a platform is missing.
    #[arg(long)]
    complete: bool,
    /// Have the manifest judged by krew's own validator, then install the archive with krew, use it, and uninstall it.
    #[cfg(unix)]
    #[arg(long)]
    check: bool,
}

/// A platform that we release for.
struct Platform {
    /// As Go and krew call it.
    os: &'static str,
    arch: &'static str,
    /// As Rust calls it.
    target: &'static str,
}

const PLATFORMS: [Platform; 6] = [
    Platform { os: "linux", arch: "amd64", target: "x86_64-unknown-linux-gnu" },
    Platform { os: "linux", arch: "arm64", target: "aarch64-unknown-linux-gnu" },
    Platform { os: "darwin", arch: "amd64", target: "x86_64-apple-darwin" },
    Platform { os: "darwin", arch: "arm64", target: "aarch64-apple-darwin" },
    Platform { os: "windows", arch: "amd64", target: "x86_64-pc-windows-msvc" },
    Platform { os: "windows", arch: "arm64", target: "aarch64-pc-windows-msvc" },
];

impl Platform {
    fn is_windows(&self) -> bool {
        self.os == "windows"
    }

    fn program(&self) -> &'static str {
        if self.is_windows() { "kubectl-cascade.exe" } else { "kubectl-cascade" }
    }

    fn archive(&self, version: &str) -> String {
        let end = if self.is_windows() { "zip" } else { "tar.gz" };
        format!("kubectl-cascade_{version}_{}_{}.{end}", self.os, self.arch)
    }

    /// The platforms whose C library can be linked statically; a program for Linux then runs on any distribution.
    fn is_static(&self) -> bool {
        self.os != "darwin"
    }
}

/// Builds, packs, and writes sums and manifest.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let folder = folder();
    fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    if !arguments.collect {
        let platform = platform(arguments.target.as_deref())?;
        let mut program = PathBuf::new();
        steps::step(&format!("build for {}", platform.target), || {
            program = build(platform)?;
            Ok(())
        })?;
        pack(platform, &program, &folder)?;
    }
    let archives = archives(&folder)?;
    let missing: Vec<String> = PLATFORMS
        .iter()
        .map(|platform| platform.archive(&version()))
        .filter(|name| !archives.iter().any(|archive| archive.archive == *name))
        .collect();
    if arguments.complete && !missing.is_empty() {
        return Err(Error::new(format!("{} has no {}", folder.display(), missing.join(", "))));
    }
    let sums: String =
        archives.iter().map(|archive| format!("{}  {}\n", archive.sha256, archive.archive)).collect();
    write(&folder.join("SHA256SUMS"), sums.as_bytes())?;
    let text = manifest::filled(&template()?, &version(), &arguments.home, &archives);
    write(&folder.join("cascade.yaml"), text.as_bytes())?;
    say(&format!("{}\nmanifest: {}", sums.trim_end(), folder.join("cascade.yaml").display()))?;
    #[cfg(unix)]
    if arguments.check {
        check::run(&folder, &archives)?;
    }
    Ok(())
}

/// `v0.1.0`, as the workspace's crates have one version.
fn version() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}

fn folder() -> PathBuf {
    control_plane::target().join("dist")
}

fn template() -> Result<String, Error> {
    let path = control_plane::workspace().join("krew/cascade.yaml");
    fs::read_to_string(&path).map_err(failed("read", &path))
}

fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::new(format!("cannot {attempt} {}: {cause}", path.display()))
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    fs::write(path, content).map_err(failed("write", path))
}

/// The platform of a target, or of this machine.
fn platform(target: Option<&str>) -> Result<&'static Platform, Error> {
    let target = match target {
        Some(target) => target.to_owned(),
        None => host()?,
    };
    PLATFORMS.iter().find(|platform| platform.target == target).ok_or_else(|| {
        let targets = PLATFORMS.map(|platform| platform.target).join(", ");
        Error::new(format!("there is no release for {target}")).with_hint(format!("one of {targets}"))
    })
}

/// The target that rustc builds for unless told otherwise.
fn host() -> Result<String, Error> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|cause| Error::new(format!("cannot run rustc: {cause}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::new("rustc does not say what it builds for"))
}

/// Builds the program and returns its path.
fn build(platform: &Platform) -> Result<PathBuf, Error> {
    // With the target named, these are for the program alone, not for what builds it.
    let mut flags = Vec::new();
    if platform.is_static() {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
    }
    // Panics name source files; where those were on the machine that built is nobody's business.
    if let Some(home) = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(cargo_home) {
        flags.push(format!("--remap-path-prefix={}=/cargo", home.display()));
    }
    let workspace = control_plane::workspace();
    flags.push(format!("--remap-path-prefix={}=/kubectl-cascade", workspace.display()));
    let arguments =
        ["build", "--release", "--locked", "--bin", "kubectl-cascade", "--target", platform.target];
    steps::run_cargo(&arguments, &[("CARGO_ENCODED_RUSTFLAGS", &flags.join("\x1f"))])?;
    Ok(control_plane::target().join(platform.target).join("release").join(platform.program()))
}

fn cargo_home() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".cargo"))
}

/// Writes the archive of a platform and says how large it is.
fn pack(platform: &Platform, program: &Path, to: &Path) -> Result<(), Error> {
    let entries = entries(platform, program)?;
    let packed = if platform.is_windows() { archive::zip(&entries) } else { archive::tar_gz(&entries) };
    let name = platform.archive(&version());
    let packed = packed.map_err(|cause| Error::new(format!("cannot pack {name}: {cause}")))?;
    let size = fs::metadata(program).map_err(failed("look at", program))?.len();
    say(&format!("{name}: {} kB, the program in it {} kB", packed.len() / 1000, size / 1000))?;
    write(&to.join(name), &packed)
}

/// What is in an archive.
fn entries(platform: &Platform, program: &Path) -> Result<Vec<Entry>, Error> {
    let workspace = control_plane::workspace();
    let shim =
        if platform.is_windows() { "kubectl_complete-cascade.cmd" } else { "kubectl_complete-cascade" };
    let mut files = vec![
        (platform.program().to_owned(), program.to_path_buf(), true),
        (shim.to_owned(), workspace.join("krew").join(shim), true),
        ("LICENSE".to_owned(), workspace.join("LICENSE"), false),
    ];
    let manual = workspace.join("man");
    for page in fs::read_dir(&manual).map_err(failed("list", &manual))? {
        let page = page.map_err(failed("list", &manual))?;
        files.push((format!("man/{}", page.file_name().display()), page.path(), false));
    }
    let entry = |(path, file, executable): (String, PathBuf, bool)| {
        let content = fs::read(&file).map_err(failed("read", &file))?;
        Ok(Entry { path, content, executable })
    };
    files.into_iter().map(entry).collect()
}

/// The archives of this version that there are.
fn archives(folder: &Path) -> Result<Vec<manifest::Platform>, Error> {
    let mut archives = Vec::new();
    for platform in &PLATFORMS {
        let archive = platform.archive(&version());
        let path = folder.join(&archive);
        if !path.exists() {
            continue;
        }
        let content = fs::read(&path).map_err(failed("read", &path))?;
        archives.push(manifest::Platform {
            os: platform.os,
            arch: platform.arch,
            archive,
            sha256: sha256(&content),
            program: platform.program(),
        });
    }
    Ok(archives)
}

fn sha256(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archive_has_all_that_belongs_in_it() {
        for platform in &PLATFORMS {
            // Any file serves as the program here.
            let program = control_plane::workspace().join("Cargo.toml");
            let entries = entries(platform, &program).unwrap();
            let find = |path: &str| entries.iter().find(|entry| entry.path == path);
            assert!(find(platform.program()).unwrap().executable);
            assert!(
                entries
                    .iter()
                    .any(|entry| entry.path.starts_with("kubectl_complete-cascade") && entry.executable)
            );
            assert!(find("LICENSE").unwrap().content.len() > 1000);
            assert!(!find("man/kubectl-cascade-delete.1").unwrap().executable);
            assert!(platform.archive("v1.0.0").starts_with("kubectl-cascade_v1.0.0_"));
        }
    }

    #[test]
    fn the_sum_is_the_one_that_everybody_counts() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn the_release_is_built_for_every_platform_and_nothing_else() {
        let workflow = include_str!("../../../.github/workflows/release.yml");
        for platform in &PLATFORMS {
            assert!(workflow.contains(&format!("target: {}\n", platform.target)), "{}", platform.target);
        }
        assert_eq!(workflow.matches("target: ").count(), PLATFORMS.len());
    }
}
