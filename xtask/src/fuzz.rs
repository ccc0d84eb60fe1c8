//! Random ownership graphs against the real collector, as many as wanted.

use std::time::{SystemTime, UNIX_EPOCH};

use control_plane::Error;

use crate::steps::run_cargo;

/// How many graphs, and which.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many graphs to create, forecast and delete.
    #[arg(long, default_value_t = 1000)]
    graphs: u64,
    /// The seed of the first graph; each further one has the next. Without it the clock decides.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the test that `cargo xtask test` runs, too, with these numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let graphs = arguments.graphs.to_string();
    let seed = arguments.seed.unwrap_or(now).to_string();
    let test = ["test", "--test", "cascade", "forecast::random_graphs_end_as_forecast"];
    let test = [&test[..], &["--", "--exact", "--nocapture"]].concat();
    run_cargo(&test, &[("FORECAST_GRAPHS", graphs.as_str()), ("FORECAST_SEED", seed.as_str())])
}
