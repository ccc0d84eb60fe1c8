//! Random cascades under random faults, for as long as wanted.

use std::time::{SystemTime, UNIX_EPOCH};

use control_plane::Error;

use crate::steps::run_cargo;

/// How long, and which.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// For how many minutes.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// The seed of all that is random. Without it the clock decides.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the test that `cargo xtask test` runs for two minutes, too, with these numbers.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seconds = arguments.minutes.saturating_mul(60).to_string();
    let seed = arguments.seed.unwrap_or(now).to_string();
    let test = ["test", "--test", "cascade", "soak::random_cascades_under_random_faults_keep_their_word"];
    let test = [&test[..], &["--", "--exact", "--nocapture"]].concat();
    run_cargo(&test, &[("SOAK_SECONDS", seconds.as_str()), ("SOAK_SEED", seed.as_str())])
}
