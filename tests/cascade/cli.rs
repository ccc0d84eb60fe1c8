//! The command line by itself: usage errors, hints, help and version. Nothing here may delete anything.

use std::process::Command;

use crate::delete::{is_untouched, plan};
use crate::support::{Run, World};

/// Runs the plugin without any cluster.
fn alone(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-cascade"));
    command.args(arguments).env_clear().env("HOME", "/nonexistent").env("LC_ALL", "C.UTF-8");
    command.env("COLUMNS", "80");
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Asserts that it is a usage error which says this and leaves standard output empty.
#[track_caller]
fn usage(arguments: &[&str], words: &[&str]) {
    let run = alone(arguments).expect(2);
    assert_eq!(run.stdout, "", "{arguments:?}");
    for word in words {
        assert!(run.stderr.contains(word), "{arguments:?}: no {word:?} in: {}", run.stderr);
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error_before_anybody_is_asked() {
    usage(&["delete", "cm/x", "--now", "--grace-period", "5"], &["--now", "--grace-period", "hint:"]);
    usage(&["delete", "cm/x", "--force", "--grace-period", "5"], &["--force", "hint:"]);
    usage(&["delete", "cm/x", "--timeout", "soon"], &["--timeout", "invalid duration", "hint:"]);
    usage(&["delete", "cm/x", "--timeout", "30"], &["--timeout", "missing unit", "hint:"]);
    usage(&["delete", "cm/x", "--stall-timeout", "0"], &["--stall-timeout", "hint:"]);
    usage(&["delete", "cm/x", "--stall-timeout", "-5s"], &["--stall-timeout", "hint:"]);
    usage(&["wait", "cm/x", "--timeout", "1x"], &["--timeout", "unknown unit", "hint:"]);
    usage(&["delete", "cm/x", "--timeout=-5s"], &["--timeout", "may not be negative", "hint:"]);
    usage(&["wait", "cm/x", "--timeout=-5s"], &["--timeout", "may not be negative", "hint:"]);
    usage(&["delete", "cm/x", "--grace-period=-7"], &["-7", "--grace-period", "hint:"]);
    usage(&["tree", "cm/x", "--depth", "0"], &["--depth", "hint:"]);
    usage(&["tree", "cm/x", "--depth=-1"], &["--depth"]);
    usage(&["delete", "cm/x", "--policy", "sideways"], &["sideways", "background"]);
    usage(&["delete", "cm/x", "--policy", "orphan", "--cascade=foreground"], &["--cascade", "--policy"]);
    usage(&["delete", "cm/x", "--policy"], &["--policy"]);
    usage(&["delete", "cm/x", "--dry-run=maybe"], &["maybe", "client"]);
    usage(&["delete", "cm/x", "-o", "xml"], &["xml", "json"]);
    usage(&["tree", "cm/x", "--depth", "deep"], &["--depth"]);
    usage(&["tree", "cm/x", "--no-such-flag"], &["--no-such-flag"]);
    usage(&["uproot", "cm/x"], &["uproot"]);
    usage(&["delete", "cm/x", "--wait=perhaps"], &["perhaps"]);
    usage(&["delete", "-k", "dir"], &["kustom", "hint:"]);
    usage(&["tree", "-k", "dir"], &["kustom", "hint:"]);
}

/// The slip that kubectl's own users make all the time.
#[test]
fn a_value_behind_a_space_of_a_flag_that_wants_an_equals_sign_is_told_with_the_command_that_was_meant() {
    usage(
        &["delete", "cm/x", "--cascade", "orphan"],
        &["hint: kubectl cascade delete cm/x --cascade=orphan\n"],
    );
    usage(
        &["delete", "--dry-run", "server", "cm", "x", "--token", "hunter2"],
        &[
            "--dry-run takes its value only behind \"=\"",
            "hint: kubectl cascade delete --dry-run=server cm x\n",
        ],
    );
    usage(&["delete", "cm", "x", "--wait", "false"], &["hint: kubectl cascade delete cm x --wait=false\n"]);
}

#[cfg(target_os = "linux")]
#[test]
fn help_and_version_that_cannot_be_written_are_errors() {
    for arguments in
        [&["--help"][..], &["-h"], &["delete", "--help"], &["--version"], &["completion", "bash"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-cascade"));
        command
            .args(arguments)
            .env_clear()
            .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: cannot write the output: "), "{arguments:?}: {stderr}");
    }
}

#[test]
fn what_cannot_be_read_as_targets_is_a_usage_error_and_deletes_nothing() {
    let world = World::new("cli-targets");
    world.thing("ConfigMap", "own", &[], &[]);
    for arguments in [
        &["delete", "--yes"][..],
        &["delete", "cm/own", "-l", "app=x", "--yes"],
        &["delete", "cm/own", "--all", "--yes"],
        &["delete", "cm", "-l", "app=x", "--all", "--yes"],
        &["delete", "cm", "own", "secret/x", "--yes"],
        &["delete", "cm", "--all", "-f", "x.yaml", "--yes"],
        &["wait", "-o", "json"],
    ] {
        let run = world.cascade(arguments);
        assert!(matches!(run.code, 1 | 2), "{arguments:?}: {run:#?}");
        assert_eq!(run.stdout, "", "{arguments:?}");
        assert!(
            run.stderr.contains("error:") && run.stderr.contains("hint:"),
            "{arguments:?}: {}",
            run.stderr
        );
    }
    assert!(is_untouched(&world, "ConfigMap/own"));
}

#[test]
fn bare_flags_mean_what_they_mean_in_kubectl() {
    let world = World::new("cli-bare");
    world.thing("ConfigMap", "own", &[], &[]);
    let dry = plan(&world, &["cm/own", "--dry-run"], 0);
    assert_eq!(dry["policy"], "background");
    assert_eq!(plan(&world, &["cm/own", "--cascade"], 0)["policy"], "background");
    assert_eq!(plan(&world, &["cm/own", "--cascade=orphan"], 0)["policy"], "orphan");
    assert_eq!(plan(&world, &["cm/own", "--cascade=false"], 0)["policy"], "orphan", "kubectl's old spelling");
    assert_eq!(plan(&world, &["--cascade=foreground", "cm/own"], 0)["policy"], "foreground");
    assert_eq!(plan(&world, &["--policy", "foreground", "cm/own"], 0)["policy"], "foreground");
    assert_eq!(plan(&world, &["cm/own", "--dry-run=client"], 0)["kind"], "Plan");
    // kubectl's switches take a value, too.
    assert_eq!(
        plan(&world, &["cm/own", "cm/absent", "--ignore-not-found=true", "--dry-run"], 0)["kind"],
        "Plan"
    );
    world.cascade(&["delete", "cm/absent", "--ignore-not-found=false", "--yes"]).expect(1);
    // `--cascade cm/own` is a bare flag followed by a target, not a policy called cm/own.
    assert_eq!(plan(&world, &["--cascade", "cm/own"], 0)["policy"], "background");
    assert_eq!(plan(&world, &["--dry-run", "cm/own"], 0)["targets"][0]["name"], "own");
    assert!(is_untouched(&world, "ConfigMap/own"));
    // And a timeout of zero is none.
    world.cascade(&["delete", "cm/own", "--yes", "--timeout", "0"]).expect(0);
}

#[test]
fn a_grace_period_of_zero_without_force_lets_the_kubelet_confirm() {
    let world = World::new("cli-grace");
    let node = world.bare_node();
    world.pod("p", Some(&node), &[], &[]);
    world.cascade(&["delete", "pod/p", "--yes", "--grace-period=0", "--wait=false"]).expect(0);
    let pod = world.get("Pod/p").unwrap();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 1, "{pod:#}");
    world.cascade(&["delete", "pod/p", "--yes", "--grace-period=0", "--force", "--timeout", "20s"]).expect(0);
}

#[test]
fn without_a_cluster_the_failure_is_one_sentence_and_a_hint() {
    for arguments in [
        &["tree", "cm/x", "--server", "https://127.0.0.1:1"][..],
        &["delete", "cm/x", "--yes", "-o", "json", "--server", "https://127.0.0.1:1"],
        &["wait", "cm/x", "-o", "json", "--server", "https://127.0.0.1:1"],
    ] {
        let run = alone(arguments).expect(1);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains("127.0.0.1:1 was refused"), "{}", run.stderr);
        assert_eq!(run.stderr.lines().filter(|line| line.starts_with("hint: ")).count(), 1, "{}", run.stderr);
    }
    let run = alone(&["tree", "cm/x", "--kubeconfig", "/nonexistent/config"]).expect(1);
    assert!(run.stderr.contains("/nonexistent/config"), "{}", run.stderr);
}

#[test]
fn version_needs_no_cluster_for_its_own() {
    let run = alone(&["version", "--client"]).expect(0);
    assert_eq!(run.stdout, format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(
        alone(&["--version"]).expect(0).stdout,
        format!("kubectl-cascade {}\n", env!("CARGO_PKG_VERSION"))
    );
    let world = World::new("cli-version");
    let run = world.cascade(&["version"]).expect(0);
    assert!(run.stdout.contains("Server Version: v1."), "{}", run.stdout);
    let document = world.cascade(&["version", "-o", "json"]).expect(0).json();
    assert!(document.is_object(), "{document}");
}

/// The whole help fits 80 columns, says what the words mean, and is what users read first.
#[test]
fn every_verb_has_help_that_fits_eighty_columns() {
    for verb in ["", "tree", "delete", "wait", "diagnose", "orphans", "release", "version"] {
        for flag in ["--help", "-h"] {
            let arguments: Vec<&str> = [verb, flag].into_iter().filter(|word| !word.is_empty()).collect();
            let run = alone(&arguments).expect(0);
            assert_eq!(run.stderr, "", "{arguments:?}");
            assert!(run.stdout.contains("Usage: kubectl cascade"), "{}", run.stdout);
            let wide: Vec<&str> = run.stdout.lines().filter(|line| line.chars().count() > 80).collect();
            assert_eq!(wide, Vec::<&str>::new(), "{arguments:?}");
        }
    }
    let run = alone(&[]).expect(2);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("Usage: kubectl cascade"), "{}", run.stderr);
}

/// A pipe that nobody writes to: whoever reads it as a kubeconfig waits for ever.
#[cfg(unix)]
#[test]
fn the_plugins_own_version_reads_no_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("config");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-cascade"))
        .args(["version", "--client", "--server", "nonsense://", "--kubeconfig"])
        .arg(&pipe)
        .env("KUBECONFIG", &pipe)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ended =
        control_plane::eventually("it answers", crate::support::PATIENCE, || child.try_wait().unwrap());
    let _ = child.kill();
    assert_eq!(ended.unwrap().code(), Some(0));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_short_help_of_wait_reads_like_this() {
    let run = alone(&["wait", "-h"]).expect(0);
    let own = run.stdout.split("Connection:").next().unwrap();
    insta::assert_snapshot!(own, @r#"
    Watch a deletion that is already under way until all is gone

    Usage: kubectl cascade wait [OPTIONS] [TARGET]...

    Arguments:
      [TARGET]...  TYPE/NAME, or TYPE NAME..., or TYPE with -l, --field-selector or
                   --all

    Options:
      -h, --help  Print help (see more with '--help')

    Target:
      -l, --selector <LABELS>
              Only objects with these labels
          --field-selector <FIELDS>
              Only objects with these fields
          --all
              All objects of the named types
      -f, --filename <FILE|DIR|->
              Objects named in this manifest, or in the manifests of this directory;
              - reads standard input
      -R, --recursive
              Descend into the directories given with -f
      -A, --all-namespaces
              Look in all namespaces; beside a named target: for its dependents and
              blockers (the target is in that of -n)

    Waiting:
          --timeout <DURATION>
              Give up after this time, counted from the start, of a delete from when
              it is accepted (reading the cluster before that may take as long,
              too); 0 never does [default: 0s]
          --stall-timeout <DURATION>
              Diagnose when nothing has changed for this long [default: 60s]
          --probe <PROBE>
              How far probes may go when a stall is diagnosed [default: dry-run]
              [possible values: read, dry-run, canary]

    Output:
      -o, --output <FORMAT>  Output format [possible values: json, name]
    "#);
}

#[test]
fn the_help_of_the_whole_names_verbs_words_and_exit_codes() {
    let run = alone(&["-h"]).expect(0);
    let own = run.stdout.split("Connection:").next().unwrap();
    insta::assert_snapshot!(own, @r#"
    Preview, run and debug cascading deletion in Kubernetes

    Usage: kubectl cascade [OPTIONS] <COMMAND>

    Commands:
      tree        Show what depends on an object, or the forest of a whole namespace
      delete      Forecast, confirm, delete, watch until all is gone, and say why if
                  it stalls
      wait        Watch a deletion that is already under way until all is gone
      diagnose    Say why an object is not gone, and the safest way out
      release     Remove one blocking finalizer, checked and confirmed
      orphans     Find what earlier deletions left behind
      completion  Print a script that completes words at the shell's prompt
      version     Print the version of the plugin and of the server

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    "#);
    for words in ["dependent ", "owner ", "3 not finished", "130 interrupted"] {
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
}
