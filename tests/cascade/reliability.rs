//! The table of `docs/reliability.md`: each fault that a test makes, and how the run ends. The tests assert what stands
//! here, by [`holds`]; the page is compared with it.
//!
//! `CASCADE_WRITE_DOCS=1 cargo test --test cascade reliability` writes the page anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use serde_json::Value;

use crate::contract;
use crate::support::Run;

/// One fault.
struct Row {
    id: &'static str,
    /// What happens.
    fault: &'static str,
    /// What the program makes of it.
    answer: &'static str,
    /// The outcome in the document; empty where there is none.
    outcome: &'static str,
    exit: i32,
}

const fn row(
    id: &'static str,
    fault: &'static str,
    answer: &'static str,
    outcome: &'static str,
    exit: i32,
) -> Row {
    Row { id, fault, answer, outcome, exit }
}

const TABLE: &[(&str, &[Row])] = &[
    (
        "Servers",
        &[
            row(
                "snapshot-broken",
                "API server killed and started again in mid-snapshot",
                "broken reads are repeated",
                "complete",
                0,
            ),
            row(
                "snapshot-lost",
                "API server killed in mid-snapshot, and away for good",
                "nothing is deleted on a guess about the target; error",
                "",
                1,
            ),
            row(
                "killed-before-delete",
                "API server killed before the DELETE, started again",
                "the object is looked at, found untouched, and only then deleted",
                "complete",
                0,
            ),
            row(
                "killed-before-answer",
                "API server killed between DELETE and answer, started again",
                "found by UID to be accepted; never sent twice",
                "complete",
                0,
            ),
            row(
                "restart-mid-watch",
                "API server killed and started again in mid-watch",
                "listed again, followed to the end",
                "complete",
                0,
            ),
            row(
                "down-too-long",
                "API server away for longer than `--stall-timeout`",
                "an error of the connection, not a stall of the cascade",
                "unverified",
                1,
            ),
            row(
                "down-time-limit",
                "API server away until `--timeout`",
                "the time limit holds",
                "timed-out",
                3,
            ),
            row(
                "frozen-time-limit",
                "API server frozen: connections open, no word",
                "the time limit holds",
                "timed-out",
                3,
            ),
            row(
                "etcd-restart",
                "etcd killed and started again",
                "errors of the server are waited out",
                "complete",
                0,
            ),
            row(
                "manager-restart",
                "controller manager killed in mid-cascade, started again",
                "waited for",
                "complete",
                0,
            ),
            row(
                "manager-gone",
                "no controller manager at all",
                "stalls, with the collector as the cause",
                "stalled",
                3,
            ),
            row(
                "leader-killed",
                "two controller managers, the leader killed",
                "the other one takes over",
                "complete",
                0,
            ),
            row(
                "collector-slow",
                "the collector stops for moments shorter than `--stall-timeout`",
                "slow is not stalled",
                "complete",
                0,
            ),
        ],
    ),
    (
        "Connections and answers",
        &[
            row(
                "delete-cut",
                "the connection breaks before the DELETE gets through",
                "looked at, untouched, sent again",
                "complete",
                0,
            ),
            row(
                "delete-answer-cut",
                "the DELETE is accepted, its answer lost",
                "found by UID; sent once",
                "complete",
                0,
            ),
            row(
                "delete-answer-cut-gone",
                "the same, and the object goes at once",
                "gone is gone; sent once",
                "complete",
                0,
            ),
            row(
                "delete-lost",
                "after the DELETE nothing is heard any more",
                "whether it was accepted is not known, and said so",
                "unverified",
                1,
            ),
            row(
                "delete-slow",
                "the answer to the DELETE takes longer than `--request-timeout`",
                "looked at; every DELETE bears the UID",
                "complete",
                0,
            ),
            row(
                "delete-500-done",
                "500 to a DELETE that was carried out",
                "found by UID; sent once",
                "complete",
                0,
            ),
            row(
                "delete-500",
                "500 to every DELETE",
                "error, in the server's words; nothing was deleted",
                "refused",
                1,
            ),
            row(
                "delete-503",
                "503 to the first DELETE, in foreground",
                "looked at before it is sent again",
                "complete",
                0,
            ),
            row(
                "delete-504-done",
                "504 to a DELETE that was carried out",
                "found by UID; sent once",
                "complete",
                0,
            ),
            row(
                "delete-429",
                "429 with and without `Retry-After`",
                "asked again after the pause that the server wants",
                "complete",
                0,
            ),
            row(
                "delete-429-always",
                "429 that asks for a minute's pause",
                "error; nothing was deleted",
                "refused",
                1,
            ),
            row(
                "release-answer-cut",
                "the answer to `release`'s patch is lost",
                "the object is looked at; sent once",
                "",
                0,
            ),
            row(
                "list-503",
                "500, 503 and 504 to lists, a few times",
                "asked again; what stays unreadable is a gap",
                "complete-with-gaps",
                0,
            ),
            row("list-truncated", "a list breaks off once", "listed again", "complete", 0),
            row(
                "list-slow",
                "a list takes longer than `--request-timeout`",
                "that kind is a gap, the answer says so",
                "complete-with-gaps",
                0,
            ),
            row(
                "list-pages",
                "the server pages, the continue token expires, objects come meanwhile",
                "listed from the beginning",
                "complete",
                0,
            ),
            row(
                "target-slow",
                "the target's own GET takes longer than `--request-timeout`",
                "error before anything was sent",
                "",
                1,
            ),
            row("large-object", "objects with 240 KiB of metadata", "as any other", "complete", 0),
            row(
                "tls-unknown",
                "a certificate of an unknown authority",
                "said in words, with what to do",
                "",
                1,
            ),
            row("tls-plain", "a server that does not speak TLS", "said in words, with what to do", "", 1),
        ],
    ),
    (
        "Watches",
        &[
            row("watch-expired", "410 inside a 200 stream", "listed again", "complete", 0),
            row(
                "watch-closed",
                "closed cleanly, again and again",
                "goes on from the last version",
                "complete",
                0,
            ),
            row(
                "watch-dark",
                "half-open: all connections die without a word",
                "a fresh look after 10 s of silence, then less often",
                "complete",
                0,
            ),
            row(
                "watch-mute",
                "no watch ever tells anything",
                "fresh looks alone lead to the end",
                "complete",
                0,
            ),
            row(
                "watch-bookmarks",
                "bookmarks come, events do not",
                "fresh looks alone lead to the end",
                "complete",
                0,
            ),
            row(
                "watch-duplicates",
                "events come twice and out of order",
                "what is gone stays gone; old news is no progress",
                "complete",
                0,
            ),
            row(
                "watch-stale-stall",
                "old events are told for ever, and nothing moves",
                "stalls all the same",
                "stalled",
                3,
            ),
            row("watch-garbage", "events that are no JSON", "listed again", "complete", 0),
        ],
    ),
    (
        "Rights, credentials, clocks",
        &[
            row("no-watch", "no right to watch", "polls", "complete-with-gaps", 0),
            row("no-list", "no right to list either", "single GETs", "complete-with-gaps", 0),
            row(
                "right-lost",
                "the rights are taken away in mid-wait",
                "not verifiable, never called gone",
                "unverified",
                3,
            ),
            row(
                "token-renewed",
                "401 in mid-wait, the credential plugin has a new token",
                "the plugin is run again",
                "complete",
                0,
            ),
            row(
                "token-expired",
                "401 from some moment on",
                "not verifiable, never called gone",
                "unverified",
                3,
            ),
            row(
                "clock-behind",
                "the client's clock an hour behind",
                "times count by the server's `Date`: stalls when it should",
                "stalled",
                3,
            ),
            row(
                "clock-ahead",
                "the client's clock an hour ahead, a grace period runs",
                "not called stalled before it ends",
                "stalled",
                3,
            ),
        ],
    ),
    (
        "The cluster changes meanwhile",
        &[
            row(
                "target-replaced",
                "another object bears the target's name before the DELETE arrives",
                "409 by UID: refused, the other one untouched",
                "refused",
                4,
            ),
            row(
                "dependents-made",
                "dependents are made during the wait",
                "tracked to their end",
                "complete",
                0,
            ),
            row(
                "owners-changed",
                "ownerReferences are changed during the wait",
                "the forecast is corrected, `unexpected`",
                "complete",
                0,
            ),
            row("kept-vanishes", "a kept object vanishes", "`unexpected`", "complete", 0),
            row("two-runs", "two runs on the same target at once", "both see it through", "complete", 0),
        ],
    ),
    (
        "The process itself",
        &[
            row(
                "interrupt-snapshot",
                "SIGINT or SIGTERM while it reads",
                "nothing was deleted, and it says so",
                "interrupted",
                130,
            ),
            row(
                "interrupt-wait-early",
                "the same, of `wait`",
                "says that whatever is being deleted goes on",
                "interrupted",
                130,
            ),
            row(
                "interrupt-delete",
                "SIGINT or SIGTERM while the DELETE is under way",
                "says what goes on without us",
                "interrupted",
                130,
            ),
            row(
                "interrupt-wait",
                "SIGINT or SIGTERM while it waits",
                "says what it knows and what goes on",
                "interrupted",
                130,
            ),
            row("interrupt-lost", "SIGINT while the connection is lost", "ends at once", "interrupted", 130),
            row(
                "interrupt-twice",
                "a second SIGINT, while nobody reads what it writes",
                "ends at once",
                "",
                130,
            ),
            row(
                "stdout-full-before",
                "no space for the forecast on standard output",
                "nothing is deleted that could not be shown",
                "",
                1,
            ),
            row(
                "stdout-full-after",
                "no space for the document at the end",
                "an error, after the deletion",
                "",
                1,
            ),
            row(
                "reader-gone",
                "the reader of standard output goes away (`| head`)",
                "goes on; no error",
                "",
                0,
            ),
            row("stdout-closed", "standard output closed", "done without it", "", 0),
        ],
    ),
];

/// Asserts that a run ended as the table says of this fault; returns its document, null where there is none.
#[track_caller]
pub fn holds(id: &str, run: Run) -> Value {
    let rows = TABLE.iter().flat_map(|(_, rows)| rows.iter());
    let row = rows.into_iter().find(|row| row.id == id).unwrap_or_else(|| panic!("no row {id}"));
    let run = run.expect(row.exit);
    if row.outcome.is_empty() {
        return Value::Null;
    }
    let document = run.json();
    contract::result(&document);
    assert_eq!(document["outcome"], row.outcome, "{id}: {document:#}\n{}", run.stderr);
    document
}

fn table() -> String {
    let mut text = String::new();
    for (group, rows) in TABLE {
        write!(text, "### {group}\n\n| fault | what is made of it | outcome | exit |\n|---|---|---|---|\n")
            .unwrap();
        for Row { fault, answer, outcome, exit, .. } in *rows {
            let outcome = if outcome.is_empty() { "none" } else { outcome };
            writeln!(text, "| {fault} | {answer} | {outcome} | {exit} |").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_reliability_page_says_what_the_tests_assert() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Each row is asserted by some test: its name stands there.
    let mut sources = String::new();
    for file in fs::read_dir(root.join("tests/cascade")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() && path.file_stem().unwrap() != "reliability" {
            sources += &fs::read_to_string(path).unwrap();
        }
    }
    let rows: Vec<&Row> = TABLE.iter().flat_map(|(_, rows)| rows.iter()).collect();
    let untested: Vec<&str> =
        rows.iter().map(|row| row.id).filter(|id| !sources.contains(&format!("\"{id}\""))).collect();
    assert!(untested.is_empty(), "no test makes these faults: {untested:?}");
    let names: BTreeSet<&str> = rows.iter().map(|row| row.id).collect();
    assert_eq!(names.len(), rows.len(), "two rows have the same name");

    let path = root.join("docs/reliability.md");
    let page = fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- generated: faults -->\n", "<!-- end -->");
    let from = page.find(start).expect("the start marker") + start.len();
    let length = page[from..].find(end).expect("the end marker");
    let mut now = page.clone();
    now.replace_range(from..from + length, &format!("\n{}", table()));
    if env::var_os("CASCADE_WRITE_DOCS").is_some() {
        fs::write(&path, &now).unwrap();
    } else {
        assert!(now == page, "docs/reliability.md differs from the table; see the top of this file");
    }
}
