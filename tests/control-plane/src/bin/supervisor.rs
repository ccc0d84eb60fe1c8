//! Runs the servers of one control plane and ends them when its standard input closes.

use std::process::ExitCode;

fn main() -> ExitCode {
    control_plane::supervisor_main()
}
