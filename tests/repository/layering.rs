//! Three folders are three permissions: what each room of `src/` may name.

use crate::files::{code, rust, text};

/// Whether a word stands in a line of code, and not as a part of a longer word.
fn names(line: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let joins =
        |one: Option<char>, other: Option<char>| one.is_some_and(is_word) && other.is_some_and(is_word);
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !joins(before.chars().next_back(), word.chars().next())
            && !joins(word.chars().next_back(), after.chars().next())
    })
}

/// Where files of these folders name one of these words.
fn offences(folders: &[&str], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in folders.iter().flat_map(|folder| rust(folder)) {
        let text = text(&path);
        for (number, line) in code(&text) {
            for word in words.iter().filter(|word| names(line, word)) {
                found.push(format!("{path}:{number} names {word}: {}", line.trim()));
            }
        }
    }
    found
}

#[track_caller]
fn none_names(folders: &[&str], words: &[&str]) {
    let found = offences(folders, words);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

const PRINTING: [&str; 5] = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];

#[test]
fn a_forbidden_word_is_found_where_it_stands_and_only_there() {
    assert!(names("use tokio::time;", "tokio"));
    assert!(names("    println!(\"x\");", "println!"));
    assert!(!names("let tokio_like = 1;", "tokio"));
    assert!(!names("let instantly = Instants::new();", "Instant"));
    assert!(!offences(&["src/cluster"], &["tokio::"]).is_empty(), "the search finds nothing at all");
    assert_eq!(code("a // tokio\n//! tokio\n\nb"), [(1, "a "), (4, "b")]);
}

#[test]
fn the_model_is_pure() {
    let outside = [
        "kube::",
        "tokio::",
        "futures::",
        "http::",
        "std::io",
        "std::fs",
        "std::net",
        "std::env",
        "std::process",
        "std::thread",
        "Instant",
        "SystemTime",
        "Timestamp::now",
        "Zoned::now",
        "async fn",
        ".await",
        "crate::cluster",
        "crate::commands",
        "crate::render",
        "crate::cli",
    ];
    none_names(&["src/model"], &outside);
    none_names(&["src/model"], &PRINTING);
}

#[test]
fn only_rendering_knows_the_terminal() {
    let terminal = ["anstyle::", "anstream::", "indicatif::", "dialoguer::", "console::"];
    none_names(
        &["src/model", "src/cluster", "src/commands", "src/main.rs", "src/cli.rs", "src/error.rs"],
        &terminal,
    );
    none_names(&["src"], &PRINTING);
}

#[test]
fn rendering_asks_nobody() {
    none_names(
        &["src/render"],
        &["kube::", "tokio::", "hyper_util::", "tower::", "crate::cluster", "crate::commands", "crate::cli"],
    );
}

#[test]
fn the_command_line_goes_no_further_than_the_commands() {
    none_names(
        &["src/model", "src/cluster", "src/render"],
        &["clap::", "clap_complete::", "crate::cli", "crate::commands"],
    );
    none_names(&["src/cluster"], &["crate::render"]);
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<String> = ["src", "tests", "xtask"]
        .iter()
        .flat_map(|folder| rust(folder))
        // A `tests.rs` beside its module is that module's.
        .filter(|path| !(path.starts_with("src/") && path.ends_with("/tests.rs")))
        .filter(|path| !text(path).starts_with("//! "))
        .collect();
    assert!(silent.is_empty(), "without a line of //! at the top: {silent:?}");
}

#[test]
fn no_machine_is_mentioned() {
    let home = std::env::var("HOME").unwrap_or_default();
    let here = crate::files::root().to_string_lossy().into_owned();
    let mut places = vec![["/ro", "ot/"].concat(), ["/Us", "ers/"].concat(), here];
    places.extend(Some(format!("{home}/")).filter(|home| home.len() > 2));
    let mentioned: Vec<String> = crate::files::below("")
        .into_iter()
        .filter(|path| std::fs::read_to_string(crate::files::root().join(path)).is_ok())
        .flat_map(|path| {
            let text = text(&path);
            let found = places.iter().find(|place| text.contains(place.as_str())).cloned();
            found.map(|place| format!("{path} mentions {place}"))
        })
        .collect();
    assert!(mentioned.is_empty(), "{mentioned:?}");
}

/// What a terminal of Windows can show, how what was typed is dropped, and which signals end a run. Everything else is left to libraries that know all
/// platforms.
#[test]
fn what_differs_between_platforms_is_in_two_files() {
    let words =
        ["cfg!(windows)", "cfg(windows)", "cfg(unix)", "cfg(not", "target_os", "target_family", "std::os"];
    let found = offences(&["src"], &words);
    let elsewhere = |offence: &&String| {
        let file = offence.split(':').next().unwrap_or_default();
        !["src/render/look.rs", "src/commands/interrupt.rs"].contains(&file) && !file.ends_with("/tests.rs")
    };
    let elsewhere: Vec<&String> = found.iter().filter(elsewhere).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
    assert!(found.len() > 1, "the search finds nothing at all");
}
