//! Archives whose bytes depend on their content alone: one order, one owner, one time for all.
//!
//! Written by hand, as the two formats are small, and libraries for them like to record the machine.

use std::io::{self, Write as _};

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc, GzBuilder};

/// 1980-01-01, the first day that a zip archive can name: seconds since 1970, and MS-DOS' own form.
const SECONDS: u64 = 315_532_800;
const DOS_DATE: u16 = (1 << 5) | 1;
/// "Unknown", so that the machine that packs is not recorded.
const NO_SYSTEM: u8 = 255;

/// One file of an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its path in the archive, with slashes.
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) executable: bool,
}

impl Entry {
    fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }
}

/// The entries in their one order.
fn sorted(entries: &[Entry]) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|one, other| one.path.cmp(&other.path));
    sorted
}

/// A tar archive in gzip (POSIX.1-1988 ustar, RFC 1952).
pub(super) fn tar_gz(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new().mtime(0).operating_system(NO_SYSTEM);
    let mut out: GzEncoder<Vec<u8>> = gzip.write(Vec::new(), Compression::best());
    for entry in sorted(entries) {
        out.write_all(&tar_header(entry)?)?;
        out.write_all(&entry.content)?;
        let beyond = entry.content.len() % BLOCK;
        if beyond > 0 {
            out.write_all(&[0; BLOCK][beyond..])?;
        }
    }
    out.write_all(&[0; 2 * BLOCK])?;
    out.finish()
}

const BLOCK: usize = 512;

fn tar_header(entry: &Entry) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    if entry.path.len() > 100 {
        return Err(io::Error::other(format!("the name {} is too long for a tar archive", entry.path)));
    }
    put(0, entry.path.as_bytes());
    put(100, format!("{:07o}\0", entry.mode()).as_bytes());
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{:011o}\0", entry.content.len()).as_bytes());
    put(136, format!("{SECONDS:011o}\0").as_bytes());
    // The sum is counted as if it were blank.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// A zip archive (PKWARE's APPNOTE, 4.3), deflated.
pub(super) fn zip(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let entries = sorted(entries);
    for entry in &entries {
        let mut sum = Crc::new();
        sum.update(&entry.content);
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&entry.content)?;
        let packed = packed.finish()?;
        // Version 2.0, no flags, deflated, midnight; then what the directory repeats.
        let mut common = Vec::new();
        for word in [20, 0, 8, 0, DOS_DATE] {
            common.extend(word.to_le_bytes());
        }
        for number in [sum.sum(), small(packed.len())?, small(entry.content.len())?] {
            common.extend(number.to_le_bytes());
        }
        common.extend(u16::try_from(entry.path.len()).map_err(io::Error::other)?.to_le_bytes());
        common.extend([0, 0]);

        let offset = small(out.len())?;
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(entry.path.as_bytes());
        out.extend(packed);

        directory.extend(b"PK\x01\x02");
        // Made by version 2.0 on Unix, which is what the mode below is read by.
        directory.extend([20, 3]);
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | entry.mode()) << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.path.as_bytes());
    }
    let (start, length) = (small(out.len())?, small(directory.len())?);
    let count = u16::try_from(entries.len()).map_err(io::Error::other)?.to_le_bytes();
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count);
    out.extend(count);
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    Ok(out)
}

fn small(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn entry(path: &str, content: &[u8], executable: bool) -> Entry {
        Entry { path: path.to_owned(), content: content.to_vec(), executable }
    }

    fn entries() -> Vec<Entry> {
        let long = "many words, ".repeat(10_000);
        vec![
            entry("program", long.as_bytes(), true),
            entry("man/a.1", b".TH A\n", false),
            entry("EMPTY", b"", false),
        ]
    }

    #[test]
    fn the_same_content_gives_the_same_bytes_in_whatever_order_it_comes() {
        let mut turned = entries();
        turned.reverse();
        for pack in [tar_gz, zip] {
            let (one, other) = (pack(&entries()).unwrap(), pack(&turned).unwrap());
            assert!(one == other && one.len() < 2_000, "{}", one.len());
            turned[0].executable = !turned[0].executable;
            assert!(pack(&turned).unwrap() != one, "the mode is part of the content");
            turned[0].executable = !turned[0].executable;
        }
    }

    /// What the usual program makes of an archive: the list of its files, and their contents. `None` where there is no such program.
    fn unpacked(archive: &[u8], name: &str, program: &str, arguments: &[&str]) -> Option<Vec<Entry>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), archive).unwrap();
        let ran = Command::new(program).args(arguments).current_dir(folder.path()).output();
        let Ok(ran) = ran else {
            let _ = writeln!(io::stderr(), "skipped: there is no program {program} to unpack {name}");
            return None;
        };
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        Some(
            entries()
                .into_iter()
                .map(|entry| Entry {
                    content: std::fs::read(folder.path().join(&entry.path)).unwrap(),
                    ..entry
                })
                .collect(),
        )
    }

    #[test]
    fn the_usual_programs_unpack_it() {
        let all = [
            unpacked(&tar_gz(&entries()).unwrap(), "a.tar.gz", "tar", &["-xzf", "a.tar.gz"]),
            unpacked(&zip(&entries()).unwrap(), "a.zip", "unzip", &["-q", "a.zip"]),
        ];
        for found in all.into_iter().flatten() {
            for (found, packed) in found.iter().zip(entries()) {
                assert!(found.content == packed.content, "{}", packed.path);
            }
        }
    }
}
