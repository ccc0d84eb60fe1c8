//! The plugin on a real terminal: the question and its answers, the region that redraws, the cursor given back.

use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use control_plane::ControlPlane;
use kubectl_cascade::model::command::quote;
use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use serde_json::json;

use crate::delete::is_untouched;
use crate::diagnosis::{definition, instance, open_schema};
use crate::invariants::Begun;
use crate::support::{HOLD, PATIENCE, Run, World};

/// The plugin with a terminal of its own.
struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<(Mutex<Vec<u8>>, Condvar)>,
    reader: JoinHandle<()>,
    begun: Begun,
}

impl Terminal {
    fn start(world: &World, arguments: &[&str]) -> Self {
        Self::sized(world, arguments, Size::new(24, 80), &[("TERM", "xterm-256color")])
    }

    fn sized(world: &World, arguments: &[&str], size: Size, environment: &[(&str, &str)]) -> Self {
        let plain = world.command(arguments);
        let words: Vec<&str> = plain.get_args().map(|word| word.to_str().unwrap()).collect();
        Self::run(plain.get_program().to_str().unwrap(), &words, &plain, size, environment)
    }

    /// Any program, in the environment of a command of the plugin.
    fn run(
        program: &str,
        words: &[&str],
        like: &std::process::Command,
        size: Size,
        environment: &[(&str, &str)],
    ) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(size).unwrap();
        let mut command = Command::new(program).args(words).env_clear();
        for (name, value) in like.get_envs() {
            command = command.env(name, value.unwrap());
        }
        for (name, value) in environment {
            command = command.env(name, value);
        }
        let child = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let seen = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let (source, shared) = (Arc::clone(&pty), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Linux says EIO when the other side is closed.
            while let Ok(count @ 1..) = (&*source).read(&mut buffer) {
                shared.0.lock().unwrap().extend_from_slice(&buffer[..count]);
                shared.1.notify_all();
            }
        });
        let begun = Begun::of(ControlPlane::shared(), like);
        Self { pty, child, seen, reader, begun }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.seen.0.lock().unwrap()).into_owned()
    }

    /// Waits until this appears.
    #[track_caller]
    fn expect(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.seen.0.lock().unwrap();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {text:?} in:\n{}", String::from_utf8_lossy(&seen));
            seen = self.seen.1.wait_timeout(seen, left).unwrap().0;
        }
    }

    fn send(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end: the exit code, and everything that was shown.
    fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        self.reader.join().unwrap();
        let output = String::from_utf8_lossy(&self.seen.0.lock().unwrap()).into_owned();
        self.begun.check(&Run { code, stdout: output.clone(), stderr: String::new() });
        (code, output)
    }
}

/// Whether the terminal is as it was: the cursor is visible, nothing is left coloured.
#[track_caller]
fn assert_given_back(output: &str) {
    let (hidden, shown) = (output.rfind("\u{1b}[?25l"), output.rfind("\u{1b}[?25h"));
    assert!(hidden.is_none() || hidden < shown, "the cursor stays hidden: {output:?}");
    let last = output.rsplit("\u{1b}[").find_map(|sequence| sequence.split_once('m').map(|(code, _)| code));
    let is_style = |code: &&str| code.chars().all(|character| character.is_ascii_digit() || character == ';');
    let style = last.filter(is_style).unwrap_or_default();
    assert!(matches!(style, "" | "0"), "the last style stays: {style:?}");
    assert!(!output.contains("\u{1b}[?1049h") || output.contains("\u{1b}[?1049l"));
}

/// Whether there is a colour or another style in it; moving the cursor is none.
fn is_styled(output: &str) -> bool {
    let style = |sequence: &str| {
        let end = sequence.find(|character: char| !(character.is_ascii_digit() || character == ';'));
        end.is_some_and(|end| sequence[end..].starts_with('m'))
    };
    output.split("\u{1b}[").skip(1).any(style)
}

#[test]
fn a_plain_yes_deletes() {
    let world = World::new("pty-yes");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "dependent", &["ConfigMap/own!"], &[]);
    for answer in ["y\r", "yes\r", "Y\r"] {
        if world.get("ConfigMap/own").is_none() {
            world.thing("ConfigMap", "own", &[], &[]);
        }
        let terminal = Terminal::start(&world, &["delete", "cm/own"]);
        terminal.expect("[y/N]");
        terminal.send(answer);
        let (code, output) = terminal.end();
        assert_eq!(code, 0, "{output}");
        let question = lines(&output).join(" ");
        assert!(
            question.contains("Delete ConfigMap/own") && question.contains("policy background?"),
            "{output}"
        );
        assert!(output.contains("done: "), "{output}");
        assert_given_back(&output);
        assert!(world.get("ConfigMap/own").is_none(), "{answer:?}");
    }
}

#[test]
fn what_was_typed_before_the_question_stood_is_no_answer() {
    let world = World::new("pty-early");
    world.thing("ConfigMap", "own", &[], &[]);
    let plain = world.command(&["delete", "cm/own"]);
    let line: Vec<String> = std::iter::once(plain.get_program())
        .chain(plain.get_args())
        .map(|word| quote(&word.to_string_lossy()))
        .collect();
    // The shell waits, and reads none of it.
    let folder = tempfile::tempdir().unwrap();
    let typed = folder.path().join("typed");
    let script =
        format!("echo ready; until [ -e {} ]; do sleep 0.1; done; exec {}", typed.display(), line.join(" "));
    let terminal =
        Terminal::run("/bin/sh", &["-c", &script], &plain, Size::new(24, 80), &[("TERM", "xterm-256color")]);
    terminal.expect("ready");
    terminal.send("y\r");
    // The terminal's echo.
    terminal.expect("ready\r\ny\r\n");
    std::fs::write(&typed, "").unwrap();
    terminal.expect("[y/N]");
    terminal.send("n\r");
    let (code, output) = terminal.end();
    assert_eq!(code, 4, "{output}");
    assert!(is_untouched(&world, "ConfigMap/own"), "{output}");
}

#[test]
fn anything_else_is_a_no() {
    let world = World::new("pty-no");
    world.thing("ConfigMap", "own", &[], &[]);
    for answer in ["\r", "n\r", "yep\r", "own\r", " \r"] {
        let terminal = Terminal::start(&world, &["delete", "cm/own"]);
        terminal.expect("[y/N]");
        terminal.send(answer);
        let (code, output) = terminal.end();
        assert_eq!(code, 4, "{answer:?}: {output}");
        assert!(output.contains("nothing was deleted"), "{output}");
        assert_given_back(&output);
        assert!(is_untouched(&world, "ConfigMap/own"), "{answer:?}");
    }
}

#[test]
fn ctrl_c_and_the_end_of_input_at_the_question_delete_nothing() {
    let world = World::new("pty-ctrl-c");
    world.thing("ConfigMap", "own", &[], &[]);
    for (key, expected) in [("\u{3}", &[130][..]), ("y\u{3}", &[130]), ("\u{4}\r", &[4, 130])] {
        let terminal = Terminal::start(&world, &["delete", "cm/own"]);
        terminal.expect("[y/N]");
        terminal.send(key);
        let (code, output) = terminal.end();
        assert!(expected.contains(&code), "{key:?}: {code} {output}");
        assert_given_back(&output);
        assert!(is_untouched(&world, "ConfigMap/own"), "{key:?}");
    }
}

#[test]
fn a_namespace_asks_for_its_name() {
    let world = World::new("pty-name");
    let target = format!("ns/{}", world.namespace);
    let terminal = Terminal::start(&world, &["delete", &target]);
    terminal.expect("to confirm");
    terminal.send("y\r");
    assert_eq!(terminal.end().0, 4);
    assert!(is_untouched(&world, &format!("Namespace/{}", world.namespace)));
    let terminal = Terminal::start(&world, &["delete", &target]);
    terminal.expect("to confirm");
    terminal.send(&format!("{}\r", world.namespace));
    let (code, output) = terminal.end();
    assert_eq!(code, 0, "{output}");
    assert!(world.get(&format!("Namespace/{}", world.namespace)).is_none());
}

/// The collector does not count here: a definition takes its instances along whoever owns them.
#[test]
fn an_instance_that_was_made_while_the_question_stood_is_not_deleted_with_its_definition() {
    let world = World::new("pty-instance");
    let name = definition(&world, open_schema());
    let target = format!("crd/{name}");
    for (made, shown) in [("first", "deletes every instance of it"), ("second", "Graph ×1")] {
        let terminal = Terminal::start(&world, &["delete", &target]);
        terminal.expect("to confirm");
        assert!(terminal.output().contains(shown), "{}", terminal.output());
        instance(&world, made, &[]);
        terminal.send(&format!("{name}\r"));
        let (code, output) = terminal.end();
        assert_eq!(code, 4, "{output}");
        let words = lines(&output).join(" ");
        assert!(words.contains(&format!("Graph/{made} came to hang on what you delete")), "{output}");
        world.kubectl().run(&["-n", &world.namespace, "get", &name, made]).unwrap();
    }
}

/// C35: the object is replaced while the question stands.
#[test]
fn an_object_that_was_replaced_before_the_answer_is_not_deleted() {
    let world = World::new("pty-replaced");
    world.thing("ConfigMap", "own", &[], &[]);
    let terminal = Terminal::start(&world, &["delete", "cm/own"]);
    terminal.expect("[y/N]");
    world.delete_raw("ConfigMap/own", &json!({}));
    world.thing("ConfigMap", "own", &[], &[]);
    terminal.send("y\r");
    let (code, output) = terminal.end();
    assert_eq!(code, 4, "{output}");
    assert!(output.contains("was replaced meanwhile") && output.contains("nothing was deleted"), "{output}");
    assert!(is_untouched(&world, "ConfigMap/own"));
    assert!(output.contains("made again by something else: "), "{output}");
    assert!(!output.contains("still there"), "by its UID it is gone: {output}");
}

#[test]
fn who_asks_to_be_asked_is_asked_whatever_yes_says() {
    let world = World::new("pty-interactive");
    world.thing("ConfigMap", "own", &[], &[]);
    let terminal = Terminal::start(&world, &["delete", "cm/own", "--yes", "-i"]);
    terminal.expect("[y/N]");
    terminal.send("n\r");
    let (code, output) = terminal.end();
    assert_eq!(code, 4, "{output}");
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn a_dependent_that_came_while_the_question_stood_was_not_shown_and_is_not_deleted() {
    let world = World::new("pty-late");
    world.thing("ConfigMap", "own", &[], &[]);
    let terminal = Terminal::start(&world, &["delete", "cm/own"]);
    terminal.expect("[y/N]");
    world.thing("Secret", "late", &["ConfigMap/own"], &[]);
    terminal.send("y\r");
    let (code, output) = terminal.end();
    assert_eq!(code, 4, "{output}");
    assert!(output.contains("Secret/late came to hang on what you delete"), "{output}");
    assert!(is_untouched(&world, "ConfigMap/own") && is_untouched(&world, "Secret/late"));
}

#[test]
fn an_object_that_went_before_the_answer_is_what_was_wanted() {
    let world = World::new("pty-gone");
    world.thing("ConfigMap", "own", &[], &[]);
    let terminal = Terminal::start(&world, &["delete", "cm/own"]);
    terminal.expect("[y/N]");
    world.delete_raw("ConfigMap/own", &json!({}));
    terminal.send("y\r");
    let (code, output) = terminal.end();
    assert_eq!(code, 0, "{output}");
}

#[test]
fn the_region_redraws_and_ctrl_c_gives_the_terminal_back() {
    let world = World::new("pty-region");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    world.thing("Secret", "free", &["ConfigMap/own!"], &[]);
    let terminal = Terminal::start(&world, &["delete", "cm/own", "--policy", "foreground", "--yes"]);
    terminal.expect("1 of 3 objects gone");
    terminal.expect(HOLD);
    terminal.send("\u{3}");
    let (code, output) = terminal.end();
    assert_eq!(code, 130, "{output}");
    assert!(output.contains("interrupted: 1 of 3 objects gone"), "{output}");
    assert!(output.contains("goes on without us"), "{output}");
    assert_given_back(&output);
    world.free("Secret/held");
}

#[test]
fn no_line_of_the_region_is_wider_than_a_narrow_terminal() {
    let world = World::new("pty-narrow");
    let name = "a-rather-long-name-of-a-config-map-that-does-not-fit-into-the-line";
    world.thing("ConfigMap", name, &[], &[HOLD]);
    let target = format!("cm/{name}");
    let arguments = ["delete", target.as_str(), "--yes", "--stall-timeout", "2s"];
    let terminal = Terminal::sized(&world, &arguments, Size::new(10, 40), &[("TERM", "xterm-256color")]);
    terminal.expect("0 of 1 object");
    let region = terminal.output();
    let region = &region[region.find("0 of 1 object").unwrap()..];
    let line = region.lines().nth(1).unwrap_or_default();
    assert!(line.chars().filter(|c| !c.is_control()).count() < 60, "{line:?}");
    let (code, output) = terminal.end();
    assert_eq!(code, 3, "{output}");
    assert_given_back(&output);
    world.free(&format!("ConfigMap/{name}"));
}

/// What was written, line by line, without styles: a line ends where the cursor is moved away.
fn lines(output: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = output;
    while let Some(at) = rest.find("\u{1b}[") {
        text.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(sequence.len() - 1);
        if !sequence[end..].starts_with('m') {
            text.push('\n');
        }
        rest = &sequence[end + 1..];
    }
    text.push_str(rest);
    text.split(['\n', '\r']).map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_terminal_that_gets_smaller_in_mid_run_gets_shorter_lines() {
    let world = World::new("pty-resized");
    world.thing("ConfigMap", "a-name-that-fits-at-first", &[], &[]);
    let owner = ["ConfigMap/a-name-that-fits-at-first!"];
    world.thing("Secret", "held-until-later-in-this-test", &owner, &[HOLD]);
    world.thing("Secret", "held-until-the-very-end", &owner, &[HOLD]);
    let arguments = ["delete", "cm/a-name-that-fits-at-first", "--policy", "foreground", "--yes"];
    let terminal = Terminal::start(&world, &arguments);
    terminal.expect("waits for finalizer example.test/hold");
    terminal.pty.resize(Size::new(10, 36)).unwrap();
    let before = terminal.output().len();
    world.free("Secret/held-until-later-in-this-test");
    terminal.expect("1 of 3");
    world.free("Secret/held-until-the-very-end");
    let (code, output) = terminal.end();
    assert_eq!(code, 0, "{output}");
    // The region pads its lines to the width instead of ending them. The one that was on its way when the size changed
    // may still be a wide one; some later one must fit.
    let after = lines(&output[before..]);
    let fits = |region: &&String| {
        let cells: Vec<char> = region.chars().collect();
        let rows: Vec<String> = cells.chunks(36).map(|row| row.iter().collect()).collect();
        let starts = ["█", "  ConfigMap/a-name-that-fits", "    Secret/held-until-the-very-end"];
        rows.len() == starts.len() && rows.iter().zip(starts).all(|(row, start)| row.starts_with(start))
    };
    assert!(after.iter().filter(|line| line.contains("1 of 3")).any(|region| fits(&region)), "{after:#?}");
    assert_given_back(&output);
}

#[test]
fn colour_can_be_forced_through_a_pipe_and_no_colour_is_stronger() {
    let world = World::new("pty-forced");
    world.thing("ConfigMap", "one", &[], &[]);
    let piped = |environment: &[(&str, &str)]| {
        let mut command = world.command(&["tree", "cm/one"]);
        command.envs(environment.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(!is_styled(&piped(&[])));
    assert!(is_styled(&piped(&[("CLICOLOR_FORCE", "1")])));
    assert!(!is_styled(&piped(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")])));
}

/// `| head -1` takes the first line and goes; the deletion and its region do not mind.
#[test]
fn a_reader_that_goes_away_neither_ends_the_deletion_nor_spoils_the_terminal() {
    let world = World::new("pty-head");
    world.thing("ConfigMap", "own", &[], &[]);
    world.thing("Secret", "held", &["ConfigMap/own!"], &[HOLD]);
    let plain = world.command(&["delete", "cm/own", "--policy", "foreground", "--yes"]);
    let words = std::iter::once(plain.get_program()).chain(plain.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let script = format!("{} | head -1", words.join(" "));
    let environment = [("TERM", "xterm-256color"), ("PATH", "/usr/bin:/bin")];
    let terminal = Terminal::run("sh", &["-c", &script], &plain, Size::new(24, 80), &environment);
    terminal.expect("0 of 2 objects gone");
    terminal.expect(HOLD);
    world.free("Secret/held");
    let (_, output) = terminal.end();
    assert!(!output.contains("panicked") && !output.contains("error"), "{output}");
    assert_given_back(&output);
    world.gone("ConfigMap/own");
}

#[test]
fn a_dumb_terminal_gets_plain_lines_and_no_colour_means_none() {
    let world = World::new("pty-dumb");
    world.thing("ConfigMap", "held", &[], &[HOLD]);
    let arguments = ["delete", "cm/held", "--yes", "--stall-timeout", "1s"];
    let terminal = Terminal::sized(&world, &arguments, Size::new(24, 80), &[("TERM", "dumb")]);
    let (code, output) = terminal.end();
    assert_eq!(code, 3, "{output}");
    assert!(!output.contains('\u{1b}'), "{output:?}");
    let environment = [("TERM", "xterm-256color"), ("NO_COLOR", "1")];
    let terminal = Terminal::sized(&world, &["tree", "cm/held"], Size::new(24, 80), &environment);
    let (_, output) = terminal.end();
    assert!(!is_styled(&output), "{output:?}");
    let terminal = Terminal::start(&world, &["tree", "cm/held"]);
    assert!(is_styled(&terminal.end().1), "colour is the default on a terminal");
    let terminal = Terminal::start(&world, &["tree", "cm/held", "--color", "never"]);
    assert!(!is_styled(&terminal.end().1));
    world.free("ConfigMap/held");
}
