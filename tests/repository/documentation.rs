//! What the documentation claims: links lead somewhere, and everything there is to name is named.

use std::collections::BTreeSet;

use crate::files::{below, root, text};
use crate::generated;

fn documents() -> Vec<String> {
    below("").into_iter().filter(|path| path.ends_with(".md")).collect()
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let outside = |line: &&str| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return false;
        }
        !fenced
    };
    text.lines().filter(outside).collect::<Vec<_>>().join("\n")
}

/// The targets of a text's links.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose
        .match_indices("](")
        .filter_map(|(at, _)| prose[at + 2..].split(')').next())
        .map(|target| target.split_whitespace().next().unwrap_or_default().to_owned())
        .collect()
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = text(&document);
        for link in links(&text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let folder = root().join(&document);
            let place = if path.is_empty() { folder } else { folder.parent().unwrap().join(path) };
            let leads = place.exists()
                && (fragment.is_empty()
                    || std::fs::read_to_string(&place).is_ok_and(|there| anchors(&there).contains(fragment)));
            if !leads {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(!links(&text("README.md")).is_empty(), "the search finds no link at all");
}

/// The crates that the shipped crate links directly.
fn dependencies() -> BTreeSet<String> {
    let manifest = text("Cargo.toml");
    let sections = ["\n[dependencies]\n", "\n[target.'cfg(unix)'.dependencies]\n"];
    let section = |start| manifest.split(start).nth(1).unwrap().split("\n[").next().unwrap();
    let lines = sections.into_iter().flat_map(|start| section(start).lines());
    lines.filter_map(|line| line.split_once(" =")).map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_direct_dependency_is_named_in_the_readme_with_its_purpose() {
    let readme = text("README.md");
    let table = readme.split("## Dependencies").nth(1).expect("a section on dependencies");
    let table = table.split("\n## ").next().unwrap();
    let mut named = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells.len() == 2 && cells[1].len() > 10, "no purpose: {row}");
        named.extend(cells[0].split(", ").map(|name| name.trim_matches('`').to_owned()));
    }
    assert_eq!(named, dependencies());
}

#[test]
fn every_direct_dependency_is_used() {
    let sources: String = crate::files::rust("src").iter().map(|path| text(path)).collect();
    // It only chooses the API version that kube is built for.
    let unused: Vec<String> = dependencies()
        .into_iter()
        .filter(|name| name != "k8s-openapi" && !sources.contains(&format!("{}::", name.replace('-', "_"))))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn the_readme_names_no_verb_and_no_flag_that_there_is_not() {
    let command = generated::command();
    let verbs: Vec<&str> = command.get_subcommands().map(|verb| verb.get_name()).collect();
    let mut unknown = Vec::new();
    for document in documents() {
        for line in text(&document).lines() {
            for (at, start) in line.match_indices("kubectl cascade ") {
                let rest = &line[at + start.len()..];
                let verb: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                let after = rest[verb.len()..].chars().next();
                // Upper case stands for any verb; prose goes on in other words.
                if line.trim_start().starts_with(['$', 'k'])
                    && !verb.is_empty()
                    && !verbs.contains(&verb.as_str())
                {
                    unknown.push(format!("{document}: {line}"));
                }
                let Some(verb) = command.get_subcommands().find(|known| known.get_name() == verb) else {
                    continue;
                };
                if after.is_none_or(|c| c == ' ' || c == '`') {
                    let told = rest.split(['`', '|', ';', '#', '>', '$']).next().unwrap_or_default();
                    for word in told.split_whitespace().filter(|word| word.starts_with("--")) {
                        let name = word[2..].split(['=', ',', '.', ')', '[', '"']).next().unwrap_or_default();
                        let known = verb.get_arguments().any(|arg| {
                            arg.get_long_and_visible_aliases().unwrap_or_default().contains(&name)
                        });
                        if !known && !name.is_empty() {
                            unknown.push(format!("{document}: {} has no --{name}", verb.get_name()));
                        }
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_change_log_has_a_place_for_what_is_not_released_yet() {
    let log = text("CHANGELOG.md");
    assert!(log.contains("\n## [Unreleased]\n"));
}

#[test]
fn headings_are_in_sentence_case() {
    // Names that keep their capitals anywhere.
    let proper = [
        "JSON",
        "YAML",
        "CI",
        "CRD",
        "CustomResourceDefinition",
        "Job",
        "Jobs",
        "Pod",
        "Pods",
        "Deployment",
        "Kubernetes",
        "README",
        "DELETE",
        "ClusterRole",
        "ClusterRoles",
        "Tree",
        "Plan",
        "Result",
        "Diagnosis",
        "Orphans",
        "Release",
        "Finding",
        "Unreleased",
        "API",
        "RBAC",
        "Rust",
        "Go",
        "DOT",
        "UID",
    ];
    let mut wrong = Vec::new();
    for document in documents() {
        for line in
            prose(&text(&document)).lines().filter(|line| line.starts_with("## ") || line.starts_with("### "))
        {
            let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
            for word in words.iter().skip(1) {
                let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
                if bare.starts_with(char::is_uppercase) && !word.starts_with('`') && !proper.contains(&bare) {
                    wrong.push(format!("{document}: {line}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_anchor_is_what_a_reader_follows() {
    assert_eq!(anchor("First ten minutes"), "first-ten-minutes");
    assert_eq!(anchor("`tree`, and more"), "tree-and-more");
}

/// The names of an enum's variants as JSON spells them.
fn variants(file: &str, name: &str) -> Vec<String> {
    let source = text(file);
    let body =
        source.split(&format!("pub enum {name} {{")).nth(1).expect("the enum").split("\n}").next().unwrap();
    let kebab = |variant: &str| {
        let mut kebab = String::new();
        for character in variant.chars() {
            if character.is_uppercase() && !kebab.is_empty() {
                kebab.push('-');
            }
            kebab.extend(character.to_lowercase());
        }
        kebab
    };
    crate::files::code(body).iter().map(|(_, line)| kebab(line.trim().trim_end_matches(','))).collect()
}

#[test]
fn the_json_page_names_every_cause_fate_outcome_and_state() {
    let page = text("docs/json.md");
    let enums = [
        ("src/model/diagnosis/mod.rs", "Cause"),
        ("src/model/diagnosis/mod.rs", "Verdict"),
        ("src/model/diagnosis/mod.rs", "State"),
        ("src/model/forecast.rs", "Fate"),
        ("src/model/result.rs", "Outcome"),
        ("src/model/graph.rs", "OwnerState"),
    ];
    for (file, name) in enums {
        let variants = variants(file, name);
        assert!(variants.len() > 2, "{name}");
        let missing: Vec<&String> =
            variants.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

#[test]
fn the_readme_names_the_stories_of_the_demo() {
    let readme = text("README.md");
    let sources: String = crate::files::rust("xtask/src/demo").iter().map(|path| text(path)).collect();
    let names: Vec<&str> =
        sources.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}

/// The dashboard reads the snippet with additional properties allowed by nobody: a slip would cost all plugins.
#[test]
fn the_plugins_for_k9s_have_the_fields_of_its_schema() {
    let page = text("docs/rights.md");
    let block = page.split("```yaml\n").find(|block| block.starts_with("plugins:")).expect("the snippet");
    let block = block.split("```").next().unwrap();
    let document: serde_json::Value = serde_saphyr::from_str(block).expect("YAML");
    let plugins = document["plugins"].as_object().unwrap();
    assert!(plugins.len() > 1 && document.as_object().unwrap().len() == 1);
    for (name, plugin) in plugins {
        let plugin = plugin.as_object().unwrap();
        for (field, value) in plugin {
            let strings = || value.as_array().is_some_and(|list| list.iter().all(|one| one.is_string()));
            let fits = match field.as_str() {
                "shortCut" | "description" | "command" => value.is_string(),
                "confirm" | "dangerous" | "background" | "override" | "overwriteOutput" => value.is_boolean(),
                "scopes" | "args" => strings(),
                _ => false,
            };
            assert!(fits, "{name}: {field}: {value}");
        }
        for field in ["shortCut", "description", "scopes", "command"] {
            assert!(plugin.contains_key(field), "{name} has no {field}");
        }
    }
}
