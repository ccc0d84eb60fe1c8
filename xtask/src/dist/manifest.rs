//! krew's manifest, from its template.

use std::collections::BTreeMap;

/// What an archive adds to the manifest.
#[derive(Debug)]
pub(super) struct Platform {
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    /// The archive's name.
    pub(super) archive: String,
    /// Its SHA-256, lower-case hexadecimal.
    pub(super) sha256: String,
    /// The plugin's name in it.
    pub(super) program: &'static str,
}

/// Where the entry begins that stands for all platforms.
const ENTRY: &str = "  - selector:\n";

/// The template filled: what stands in braces, and one entry a platform. Its own comment is left out.
pub(super) fn filled(template: &str, version: &str, home: &str, platforms: &[Platform]) -> String {
    let text: String =
        template.lines().skip_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let (head, entry) = text.split_once(ENTRY).unwrap_or((&text, ""));
    let common = BTreeMap::from([("version", version), ("home", home)]);
    let mut out = replaced(head, &common);
    for platform in platforms {
        let mut values = common.clone();
        values.extend([
            ("os", platform.os),
            ("arch", platform.arch),
            ("archive", &platform.archive),
            ("sha256", &platform.sha256),
            ("program", platform.program),
        ]);
        out.push_str(ENTRY);
        out.push_str(&replaced(entry, &values));
    }
    out
}

fn replaced(text: &str, values: &BTreeMap<&str, &str>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled_for_each_platform() {
        let platform = |os, program| Platform {
            os,
            arch: "arm64",
            archive: format!("x_{os}.tar.gz"),
            sha256: "ab".repeat(32),
            program,
        };
        let template = include_str!("../../../krew/cascade.yaml");
        let platforms = [platform("linux", "kubectl-cascade"), platform("windows", "kubectl-cascade.exe")];
        let text = filled(template, "v1.2.3", "https://example.com/c", &platforms);
        assert!(text.starts_with("apiVersion: krew."), "{text}");
        assert!(!text.replace("${KREW_ROOT:-$HOME/.krew}", "").contains(['{', '}']), "{text}");
        assert_eq!(text.matches("  - selector:").count(), 2);
        assert!(
            text.contains("    uri: \"https://example.com/c/releases/download/v1.2.3/x_windows.tar.gz\"\n"),
            "{text}"
        );
        assert!(text.ends_with("    bin: \"kubectl-cascade.exe\"\n"), "{text}");
    }

    /// The index wants one line, and cuts it where it is too long for a list.
    #[test]
    fn the_short_description_is_short() {
        let template = include_str!("../../../krew/cascade.yaml");
        let short = template.lines().find_map(|line| line.strip_prefix("  shortDescription: ")).unwrap();
        assert!(short.len() <= 50, "{short}");
    }
}
