//! The forecast against the real collector: random ownership graphs, each really deleted, every object's end
//! compared with its fate. Run more of them with `cargo xtask fuzz-forecast`.

mod arena;
mod random;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::time::Instant;

use kubectl_cascade::model::policy::Policy;

use self::arena::{Arena, Line, Mode, Verdict};
use self::random::Graph;

/// Graphs in a plain test run.
const GRAPHS: u64 = 300;
/// The seed of the first one; each further graph has the next.
const SEED: u64 = 1;
/// Graphs side by side.
const BATCH: usize = 75;
/// How the batches go, in turn.
const MODES: [Mode; 4] = [Mode::Settled, Mode::Assisted, Mode::Settled, Mode::Frozen];
/// Objects of a graph at most.
const MOST: usize = 9;
/// So many wrong graphs are made smaller and shown.
const SHOWN: u64 = 3;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Past the test harness, which holds back what passing tests print.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[derive(Default)]
struct Statistics {
    graphs: usize,
    nothing_left: usize,
    objects: usize,
    uncertain: usize,
    other_holders: usize,
    wrong: usize,
}

impl fmt::Display for Statistics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graphs, nothing_left, objects, uncertain, other_holders, wrong } = self;
        let tenths = uncertain * 1000 / graphs.max(&1);
        write!(
            formatter,
            "{graphs} graphs ({nothing_left} with nothing left to delete), {objects} objects, {wrong} graphs wrong, \
             {uncertain} uncertain ({}.{} %), {other_holders} objects held by others than said",
            tenths / 10,
            tenths % 10
        )
    }
}

#[test]
fn random_graphs_end_as_forecast() {
    let graphs = setting("FORECAST_GRAPHS", GRAPHS);
    let seed = setting("FORECAST_SEED", SEED);
    let shown_at_most = usize::try_from(setting("FORECAST_SHOWN", SHOWN)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let arena = Arena::start().await;
        let began = Instant::now();
        let mut statistics = Statistics::default();
        let mut wrong = Vec::new();
        let seeds: Vec<u64> = (0..graphs).map(|number| seed.wrapping_add(number)).collect();
        for (number, seeds) in seeds.chunks(BATCH).enumerate() {
            let mode = MODES[number % MODES.len()];
            let random = |seed: &u64| {
                let graph = Graph::random(*seed, MOST);
                if mode == Mode::Frozen { graph.calm() } else { graph }
            };
            let batch: Vec<Graph> = seeds.iter().map(random).collect();
            for ((verdict, graph), seed) in arena.run(&batch, mode).await.into_iter().zip(batch).zip(seeds) {
                statistics.graphs += 1;
                statistics.nothing_left += usize::from(verdict.lines.is_empty());
                statistics.objects += verdict.lines.len();
                let others = verdict.lines.iter().filter(|line| line.other_holders).count();
                statistics.other_holders += others;
                if others > 0 && !verdict.is_wrong() {
                    say(&shown(&format!("seed {seed}, {mode:?}"), &graph, &verdict));
                }
                statistics.uncertain += usize::from(verdict.is_uncertain());
                if verdict.is_wrong() {
                    statistics.wrong += 1;
                    say(&shown(&format!("seed {seed}, {mode:?}"), &graph, &verdict));
                    wrong.push((*seed, graph, mode));
                }
            }
            say(&format!("{} graphs after {:.0} s", statistics.graphs, began.elapsed().as_secs_f64()));
        }
        for (seed, graph, mode) in wrong.iter().take(shown_at_most) {
            let (graph, verdict) = smallest(&arena, graph, *mode).await;
            say(&shown(&format!("made smaller, from seed {seed}, {mode:?}"), &graph, &verdict));
            say(&often(&arena, &graph, *mode).await);
        }
        if !wrong.is_empty() {
            keep_log(&arena);
        }
        let summary = format!("from seed {seed} on: {statistics}, {:.0} s", began.elapsed().as_secs_f64());
        say(&summary);
        let seeds: Vec<u64> = wrong.iter().map(|(seed, _, _)| *seed).collect();
        assert!(seeds.is_empty(), "wrong forecasts for seeds {seeds:?}; {summary}");
        assert!(
            statistics.uncertain * 100 <= statistics.graphs * 8 + 100,
            "too many are uncertain; {summary}"
        );
        assert!(
            statistics.other_holders * 200 <= statistics.objects + 200,
            "too many are held otherwise; {summary}"
        );
    });
}

/// Takes away what does not matter, on the real control plane, until nothing more can go.
async fn smallest(arena: &Arena, graph: &Graph, mode: Mode) -> (Graph, Verdict) {
    // Races do not show each time.
    const COPIES: usize = 3;
    let mut graph = graph.clone();
    let mut last = None;
    for _ in 0..12 {
        let smaller = graph.smaller();
        let copies: Vec<Graph> =
            smaller.iter().flat_map(|graph| std::iter::repeat_n(graph.clone(), COPIES)).collect();
        let verdicts = arena.run(&copies, mode).await;
        let Some(position) = verdicts.iter().position(Verdict::is_wrong) else { break };
        graph = copies[position].clone();
        last = Some(verdicts[position].clone());
    }
    let verdict = match last {
        Some(verdict) => verdict,
        None => arena.run(std::slice::from_ref(&graph), mode).await.remove(0),
    };
    (graph, verdict)
}

/// How often the same graph ends in which way.
async fn often(arena: &Arena, graph: &Graph, mode: Mode) -> String {
    let copies = vec![graph.clone(); 20];
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    for verdict in arena.run(&copies, mode).await {
        *ends.entry(verdict.ends()).or_default() += 1;
    }
    let lines: Vec<String> =
        ends.into_iter().map(|(ends, count)| format!("  {count} of 20: {ends}")).collect();
    lines.join("\n")
}

fn shown(what: &str, graph: &Graph, verdict: &Verdict) -> String {
    let mut text = format!("{what}: {}\n{}\nfound and forecast:", graph.notation(), graph.text());
    for line in &verdict.lines {
        let mark = match line {
            Line { wrong: true, .. } => "  <== WRONG",
            Line { other_holders: true, .. } => "  <== held by others than said",
            _ => "",
        };
        let race = if line.certain { String::new() } else { format!(" or {:?}", line.otherwise) };
        text += &format!(
            "\n  {}: {:?}{race}; ended {:?} {:?}, finally {:?}{mark}",
            line.found, line.fate, line.end, line.finalizers, line.finally
        );
    }
    for note in &verdict.notes {
        text += &format!("\n  {note}  <== WRONG");
    }
    text
}

/// With `FORECAST_LOG=path` the collector's log is kept there.
fn keep_log(arena: &Arena) {
    if let Some(path) = std::env::var_os("FORECAST_LOG") {
        let _ = std::fs::copy(arena.log(), path);
    }
}
