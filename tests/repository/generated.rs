//! What is generated from the command line's own definition: the manual pages, and the README's tables.
//!
//! `CASCADE_WRITE_DOCS=1` writes them; that is what `cargo xtask docs` does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::{env, fs};

use clap::{Arg, Args, Command, CommandFactory as _};
use kubectl_cascade::cli::{Cli, TargetArgs};
use kubectl_cascade::error::ExitCode;

use crate::files::{root, text};

/// Every exit code, in order.
pub const EXIT_CODES: [ExitCode; 6] = [
    ExitCode::Done,
    ExitCode::Error,
    ExitCode::Usage,
    ExitCode::Unfinished,
    ExitCode::Refused,
    ExitCode::Interrupted,
];

/// What an exit code means.
fn meaning(code: ExitCode) -> &'static str {
    match code {
        ExitCode::Done => {
            "Done: every object that the forecast dooms is gone. `tree`, `orphans`: answered. `diagnose`: nothing is \
             stuck. Also a selector without a match, and of `wait` an object that is not there: it says which."
        }
        ExitCode::Error => {
            "An error: no connection, a missing right, an unknown kind, an object that is not there (of `wait`: 0)."
        }
        ExitCode::Usage => {
            "The command line is wrong. Nothing was asked of the server, or nothing that changes it."
        }
        ExitCode::Unfinished => {
            "Not finished: stalled, timed out, or not verifiable. `diagnose`: something is stuck. `orphans \
             --exit-code`: there are some."
        }
        ExitCode::Refused => {
            "Refused: declined, no `--yes` without a terminal, replaced meanwhile, or admission refuses. What was \
             refused is as it was; of several targets, others may have been deleted."
        }
        ExitCode::Interrupted => "Interrupted; what goes on without us is said.",
    }
}

/// The command line with its verbs, as clap sees it when it runs.
pub fn command() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// The verbs that help shows.
pub fn verbs(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

fn plain(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// `-o, --output <FORMAT>`, `--dry-run[=<MODE>]`.
fn spelling(arg: &Arg) -> String {
    let mut names: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
    names.extend(longs.iter().map(|long| format!("--{long}")));
    let mut spelling = names.join(", ");
    let range = arg.get_num_args().unwrap_or_default();
    if arg.get_action().takes_values() && range.takes_values() {
        let value = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
        spelling += &match (range.min_values(), arg.is_require_equals_set()) {
            (0, true) => format!("[={value}]"),
            (0, false) => format!(" [{value}]"),
            _ => format!(" {value}"),
        };
    }
    spelling
}

fn values(arg: &Arg) -> String {
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let takes = arg.get_action().takes_values();
    let mut parts = Vec::new();
    if takes && !possible.is_empty() && possible != ["true", "false"] {
        parts.push(possible.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "));
    }
    if takes && !default.is_empty() {
        parts.push(format!("default `{}`", default.join(" ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

fn table<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = "| flag | |\n|---|---|\n".to_owned();
    for arg in args {
        let spelling = spelling(arg).replace('|', "\\|");
        writeln!(table, "| `{spelling}` | {}{} |", plain(arg.get_help()), values(arg)).unwrap();
    }
    table
}

fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !arg.is_positional() && !["help", "version"].contains(&arg.get_id().as_str())
}

/// The README's generated parts, by the name in their markers.
pub fn tables() -> Vec<(String, String)> {
    let command = command();
    let target = TargetArgs::augment_args(Command::new("target"));
    let of_target: BTreeSet<&str> = target.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    let mut tables = Vec::new();

    let mut list = "| command | |\n|---|---|\n".to_owned();
    for verb in verbs(&command) {
        let name = verb.get_name();
        writeln!(list, "| [`kubectl cascade {name}`](#{name}) | {} |", plain(verb.get_about())).unwrap();
    }
    tables.push(("commands".to_owned(), list));

    let mut codes = "| code | meaning |\n|---|---|\n".to_owned();
    for code in EXIT_CODES {
        writeln!(codes, "| {} | {} |", code as u8, meaning(code)).unwrap();
    }
    tables.push(("exit codes".to_owned(), codes));

    tables.push(("target flags".to_owned(), table(target.get_arguments().filter(|arg| is_shown(arg)))));
    let global = |arg: &&Arg| arg.is_global_set();
    tables.push((
        "connection flags".to_owned(),
        table(command.get_arguments().filter(global).filter(|arg| is_shown(arg))),
    ));

    let mut flags = String::new();
    for verb in verbs(&command) {
        let has_target = verb.get_arguments().any(|arg| arg.get_id() == "targets");
        let own: Vec<&Arg> = verb
            .get_arguments()
            .filter(|arg| is_shown(arg) && !arg.is_global_set())
            .filter(|arg| !(has_target && of_target.contains(arg.get_id().as_str())))
            .collect();
        writeln!(flags, "### {}\n\n{}.\n", verb.get_name(), plain(verb.get_about())).unwrap();
        let mut usage = verb.clone().render_usage().to_string().replace("Usage: ", "");
        usage.retain(|character| !"<>".contains(character));
        writeln!(flags, "```\n{usage}\n```\n").unwrap();
        if !own.is_empty() {
            writeln!(flags, "{}", table(own.into_iter())).unwrap();
        }
    }
    tables.push(("flags".to_owned(), flags.trim_end().to_owned() + "\n"));
    tables
}

/// The text with everything between its markers replaced by what is generated now.
fn filled(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, table) in tables() {
        let (start, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->");
        let from =
            text.find(&start).unwrap_or_else(|| panic!("the README has no marker {start}")) + start.len();
        let length = text[from..].find(end).unwrap_or_else(|| panic!("no end after {start}"));
        text.replace_range(from..from + length, &format!("\n{table}\n"));
    }
    text
}

/// Text for a manual page: markup out, and what troff would take for a request or an escape escaped.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

/// The examples at the end of a verb's help: a comment, then its command.
fn examples(command: &Command) -> Vec<(String, String)> {
    let help = plain(command.get_after_help());
    let lines = help.split("Examples:").nth(1).unwrap_or_default().lines().map(str::trim);
    let lines: Vec<&str> =
        lines.take_while(|line| !line.ends_with(':')).filter(|line| !line.is_empty()).collect();
    lines
        .windows(2)
        .filter(|pair| pair[0].starts_with('#') && !pair[1].starts_with('#'))
        .map(|pair| (pair[0].trim_start_matches(['#', ' ']).to_owned(), pair[1].to_owned()))
        .collect()
}

fn page(command: &Command, name: &str, others: &[String]) -> String {
    let usage = command.clone().render_usage().to_string().replace("Usage: ", "").replace(['<', '>'], "");
    // The synopsis names no single flag; they follow, each with its meaning.
    let shown = command.clone().display_name(name.to_owned()).override_usage(usage);
    let man = clap_mangen::Man::new(shown)
        .title(name.to_uppercase())
        .section("1")
        .date("")
        .source(format!("kubectl-cascade {}", env!("CARGO_PKG_VERSION")))
        .manual("kubectl cascade");
    let mut page = Vec::new();
    man.render_title(&mut page).unwrap();
    man.render_name_section(&mut page).unwrap();
    man.render_synopsis_section(&mut page).unwrap();
    man.render_description_section(&mut page).unwrap();
    man.render_options_section(&mut page).unwrap();
    let mut page = String::from_utf8(page).unwrap();

    if command.has_subcommands() {
        page.push_str(".SH COMMANDS\n");
        for verb in verbs(command) {
            write!(page, ".TP\n.B {}\n{}.\n", roff(verb.get_name()), roff(&plain(verb.get_about()))).unwrap();
        }
    }
    page.push_str(".SH EXIT STATUS\n");
    for code in EXIT_CODES {
        write!(page, ".TP\n.B {}\n{}\n", code as u8, roff(meaning(code))).unwrap();
    }
    let examples = if command.has_subcommands() {
        verbs(command).filter_map(|verb| examples(verb).into_iter().next()).collect()
    } else {
        examples(command)
    };
    if !examples.is_empty() {
        page.push_str(".SH EXAMPLES\n");
        for (comment, command) in examples {
            write!(page, ".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", roff(&comment), roff(&command))
                .unwrap();
        }
    }
    let mut also: Vec<String> = others.iter().filter(|other| *other != name).cloned().collect();
    also.extend(["kubectl".to_owned(), "kubectl-delete".to_owned()]);
    let also: Vec<String> = also.iter().map(|other| format!(".BR {} (1)", roff(other))).collect();
    writeln!(page, ".SH SEE ALSO\n{}", also.join(",\n")).unwrap();
    page
}

/// The manual pages: path and text.
pub fn manual() -> Vec<(String, String)> {
    let root = command();
    let name = |verb: &Command| format!("kubectl-cascade-{}", verb.get_name());
    let names: Vec<String> =
        std::iter::once("kubectl-cascade".to_owned()).chain(verbs(&root).map(name)).collect();
    let mut pages = vec![(format!("man/{}.1", names[0]), page(&root, &names[0], &names))];
    for verb in verbs(&root) {
        pages.push((format!("man/{}.1", name(verb)), page(verb, &name(verb), &names)));
    }
    pages
}

#[test]
fn what_is_generated_is_what_the_command_line_says() {
    let mut files = manual();
    files.push(("README.md".to_owned(), filled(&text("README.md"))));
    let write = env::var_os("CASCADE_WRITE_DOCS").is_some();
    let expected: BTreeSet<String> = files.iter().map(|(path, _)| path.clone()).collect();
    let mut stale = Vec::new();
    for page in crate::files::below("man").into_iter().filter(|page| !expected.contains(page)) {
        if write {
            fs::remove_file(root().join(&page)).unwrap();
        } else {
            stale.push(page);
        }
    }
    for (path, text) in files {
        let place = root().join(&path);
        if fs::read_to_string(&place).is_ok_and(|found| found == text) {
            continue;
        }
        if write {
            fs::write(&place, text).unwrap();
        } else {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "run `cargo xtask docs`: {stale:?} are not what the command line says");
}

/// The root and its verbs.
fn commands() -> Vec<Command> {
    let root = command();
    let verbs: Vec<Command> = verbs(&root).cloned().collect();
    std::iter::once(root).chain(verbs).collect()
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for mut command in commands() {
        let name = command.get_name().to_owned();
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{name}: {wide:#?}");
            assert!(help.lines().count() > 10, "{name}: {help}");
        }
    }
}

#[test]
fn every_verb_says_what_it_is_for_and_shows_examples() {
    for verb in verbs(&command()) {
        let name = verb.get_name();
        assert!(plain(verb.get_about()).len() > 20, "{name} has no description");
        let examples = examples(verb);
        assert!(examples.len() > 1, "{name} has no examples");
        for (comment, command) in examples {
            assert!(!comment.is_empty() && command.contains("cascade"), "{name}: {command}");
        }
    }
}

/// `Options:` holds what every command has; what is a verb's own is in a group that says what it is about.
#[test]
fn the_flags_of_a_verb_with_many_are_in_groups() {
    for verb in verbs(&command()) {
        let own = |arg: &&Arg| is_shown(arg) && !arg.is_global_set() && arg.get_help_heading().is_none();
        let loose: Vec<String> = verb.get_arguments().filter(own).map(spelling).collect();
        assert!(loose.len() < 4, "{}: {loose:?}", verb.get_name());
    }
}

#[test]
fn man_renders_the_pages_without_a_warning() {
    let has_man = std::process::Command::new("man").arg("--version").output();
    if !has_man.is_ok_and(|output| output.status.success()) {
        let _ = std::io::stderr().write_all(b"skipped: there is no program man to render the manual pages\n");
        return;
    }
    for (path, _) in manual() {
        let rendered = std::process::Command::new("man")
            .args(["--warnings", "-E", "UTF-8", "-l"])
            .arg(root().join(&path))
            .env("MANWIDTH", "80")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&rendered.stdout);
        let warnings = String::from_utf8_lossy(&rendered.stderr);
        assert!(rendered.status.success() && warnings.is_empty(), "{path}: {warnings}");
        assert!(text.contains("EXIT STATUS") && text.lines().count() > 40, "{path}: {text}");
    }
}

#[test]
fn a_line_of_a_manual_page_is_never_taken_for_a_request() {
    assert_eq!(roff(".SH"), "\\&.SH");
    assert_eq!(roff("a\\b --x"), "a\\eb \\-\\-x");
}
