//! The table that a run prints: medians, and ratios to ours of the same run.

use std::fmt;

use crate::measure::Measured;

/// A titled table.
pub struct Table {
    title: String,
    rows: Vec<[String; 9]>,
}

impl Table {
    /// The medians of these, the first being ours, the second the floor where there is one.
    pub fn of(title: &str, all: &[Measured]) -> Self {
        let seconds = |one: &Measured| median(one.runs.iter().map(|run| run.seconds));
        let ours = all.first().map_or(f64::NAN, seconds);
        let floor = all.get(1).map_or(f64::NAN, seconds);
        let row = |one: &Measured| {
            let codes: Vec<i64> = one.runs.iter().map(|run| run.code).filter(|code| *code != 0).collect();
            let memory = median(one.runs.iter().map(|run| run.kibibytes as f64)) * 1024.0 / 1e6;
            [
                one.name.clone(),
                format!("{:.3} s", seconds(one)),
                format!("{:.2}", seconds(one) / ours),
                if floor.is_nan() { String::new() } else { format!("{:.2}", seconds(one) / floor) },
                format!("{:.3} s", median(one.runs.iter().map(|run| run.processor_seconds))),
                format!("{memory:.1} MB"),
                format!("{:.0}", median(one.runs.iter().map(|run| run.requests))),
                one.traffic.map_or_else(String::new, |(connections, bytes)| {
                    format!("{:.2} MB, {connections}", bytes as f64 / 1e6)
                }),
                if codes.is_empty() { String::new() } else { format!("exit codes {codes:?}") },
            ]
        };
        Self { title: title.to_owned(), rows: all.iter().map(row).collect() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n### {}\n", self.title)?;
        writeln!(
            out,
            "| | median time | times ours | times the floor | processor time | peak memory | requests | on the wire, connections | |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(out, "| {} |", row.join(" | ")))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
