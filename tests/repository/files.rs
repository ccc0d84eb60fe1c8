//! Reads the repository's own files.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file's text, by its path from the root.
#[track_caller]
pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file of the repository below a folder (`""` is the root; a file is itself), as a path from the root with `/`; sorted, without
/// what is built and what git keeps.
pub fn below(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if name == "target" || name == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), found);
            } else {
                found.push(entry.path());
            }
        }
    }
    let mut found = Vec::new();
    let start = root().join(folder);
    if start.is_file() {
        found.push(start);
    } else {
        walk(&start, &mut found);
    }
    let mut paths: Vec<String> = found
        .iter()
        .map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/"))
        .collect();
    paths.sort();
    paths
}

/// The Rust files among them.
pub fn rust(folder: &str) -> Vec<String> {
    below(folder).into_iter().filter(|path| path.ends_with(".rs")).collect()
}

/// The lines of a Rust file that are code: without comments and documentation, each with its number.
pub fn code(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect()
}
