//! The words of the command line, as kubectl users write them: what kubectl's flag library takes and clap does not, and
//! the slip that both of them misread.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::cli::Cli;
use crate::error::Failure;
use crate::model::command::quote;

/// Rewrites what only kubectl's flag library takes: a value on a switch (`--ignore-not-found=true`), and the level of
/// `-v` as a word of its own. After `--` nothing is a flag.
pub fn as_kubectl_reads(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let command = Cli::command();
    let switches: Vec<&Arg> =
        arguments(&command).filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue)).collect();
    let mut read: Vec<OsString> = Vec::new();
    let mut words = words.into_iter();
    for word in words.by_ref() {
        if word == "--" {
            read.push(word);
            break;
        }
        let text = word.to_str().unwrap_or_default();
        let level = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match read.last_mut().filter(|last| level && (*last == "-v" || *last == "--verbose")) {
            Some(verbose) => {
                verbose.push("=");
                verbose.push(&word);
            }
            None => match switch(text, &switches) {
                Some((flag, true)) => read.push(flag.into()),
                Some((_, false)) => {}
                None => read.push(word),
            },
        }
    }
    read.extend(words);
    read
}

/// A switch with one of the values that Go's `strconv.ParseBool` takes.
fn switch<'w>(word: &'w str, switches: &[&Arg]) -> Option<(&'w str, bool)> {
    let (flag, value) = word.split_once('=')?;
    let is = |arg: &&&Arg| {
        flag.strip_prefix("--").is_some_and(|name| arg.get_long() == Some(name))
            || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
    };
    switches.iter().find(is)?;
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some((flag, true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some((flag, false)),
        _ => None,
    }
}

/// Refuses a value that stands behind a space where its flag takes it only behind `=` (`--cascade orphan`): as in
/// kubectl it would be read as the name of an object.
///
/// # Errors
/// There is such a slip: usage, with the command that was meant.
pub fn check(words: &[OsString]) -> Result<(), Failure> {
    let command = Cli::command();
    let words: Vec<&str> =
        words.iter().map_while(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let slip = words.windows(2).position(|pair| {
        arguments(&command).any(|arg| {
            let values = arg.get_possible_values();
            arg.is_require_equals_set()
                && pair[0].strip_prefix("--").is_some_and(|name| arg.get_long() == Some(name))
                && values.iter().any(|value| value.matches(pair[1], false))
        })
    });
    let Some(position) = slip else { return Ok(()) };
    let (flag, value) = (words[position], words[position + 1]);
    let mut meant = vec!["kubectl cascade".to_owned()];
    let mut rest = words.iter().enumerate().skip(1);
    while let Some((index, word)) = rest.next() {
        if *word == "--token" {
            // What we print may be pasted into a ticket.
            rest.next();
        } else if index == position {
            meant.push(format!("{flag}={}", quote(value)));
            rest.next();
        } else if !word.starts_with("--token=") {
            meant.push(quote(word));
        }
    }
    Err(Failure::usage(format!(
        "{flag} takes its value only behind \"=\", as in kubectl: \"{value}\" behind a space is the name of an object"
    ))
    .hint(format!("{}\n(an object of that name is given before {flag})", meant.join(" "))))
}

/// The arguments of all verbs.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_subcommands().flat_map(Command::get_arguments).chain(command.get_arguments())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn read(line: &str) -> String {
        let read = as_kubectl_reads(words(line));
        read.iter().map(|word| word.to_str().unwrap_or("?")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_switch_with_a_value_and_a_level_of_its_own_are_read_as_by_kubectl() {
        for (line, meant) in [
            ("x delete cm/a --ignore-not-found=true --now=false", "x delete cm/a --ignore-not-found"),
            ("x delete cm --all=True -A=1 -R=f", "x delete cm --all -A"),
            ("x tree cm/a -v 6", "x tree cm/a -v=6"),
            ("x tree cm/a -v cm/b", "x tree cm/a -v cm/b"),
            // What takes a value keeps it, and what is none stays for clap to refuse.
            (
                "x delete cm/a --wait=false --all=maybe --color=1",
                "x delete cm/a --wait=false --all=maybe --color=1",
            ),
            ("x delete cm -- --all=true -v 6", "x delete cm -- --all=true -v 6"),
        ] {
            assert_eq!(read(line), meant);
        }
    }

    #[test]
    fn a_value_behind_a_space_is_refused_with_the_command_that_was_meant() {
        for (line, meant) in [
            ("x delete cm/a --cascade orphan", "kubectl cascade delete cm/a --cascade=orphan"),
            ("x delete --dry-run server cm a -n b", "kubectl cascade delete --dry-run=server cm a -n b"),
            ("x delete cm/a --wait false -l a>b", "kubectl cascade delete cm/a --wait=false -l 'a>b'"),
            (
                "x tree cm/a --insecure-skip-tls-verify true",
                "kubectl cascade tree cm/a --insecure-skip-tls-verify=true",
            ),
            (
                "x delete cm/a --token secret --token=secret --cascade false",
                "kubectl cascade delete cm/a --cascade=false",
            ),
        ] {
            let failure = check(&words(line)).expect_err(line);
            assert_eq!(failure.hint.as_deref().and_then(|hint| hint.lines().next()), Some(meant));
        }
        for fine in [
            "x delete cm/a --cascade=orphan",
            "x delete --cascade cm/a",
            "x delete cm orphan --cascade",
            "x delete cm/a --policy orphan",
            "x delete cm --dry-run -- server",
        ] {
            assert_eq!(check(&words(fine)), Ok(()), "{fine}");
        }
    }
}
