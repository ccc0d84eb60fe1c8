//! A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, built
//! from their Go modules. Tests, demo and benchmark share it.
//!
//! ```no_run
//! use control_plane::{Component, ControlPlane};
//!
//! let plane = ControlPlane::shared(); // one for the whole test binary, gone when the process ends
//! plane.kubectl().run(&["create", "namespace", "a"]).expect("a namespace");
//!
//! let mine = ControlPlane::start(Default::default()).expect("a control plane of my own");
//! mine.stop(Component::ControllerManager).expect("no collector from here on");
//! ```
//!
//! What differs from a cluster that kubeadm sets up:
//! - users authenticate with tokens from a file; the admin is in `system:masters`;
//! - the `ServiceAccount` admission plugin is off, so that a Pod need not wait for its namespace's account;
//! - there are no kubelets: kwok plays [`SIMULATED_NODE`], where Pods start and end at once and Pods of Jobs
//!   complete. Other Node objects have nobody behind them: a Pod bound to one of them stays Terminating;
//! - nothing is ever synced to disk.
//!
//! The servers need pipes, signals and process groups of Unix. Elsewhere this crate only builds, for the packaging of
//! a release.

#[cfg(unix)]
mod aggregated;
#[cfg(unix)]
mod api;
#[cfg(unix)]
mod audit;
mod build;
#[cfg(unix)]
mod certificates;
mod error;
#[cfg(unix)]
mod http;
#[cfg(unix)]
mod https;
#[cfg(unix)]
mod kubectl;
#[cfg(unix)]
mod plane;
#[cfg(unix)]
pub mod proxy;
#[cfg(unix)]
mod supervisor;
#[cfg(unix)]
pub mod webhook;

#[cfg(unix)]
pub use aggregated::AggregatedApi;
#[cfg(unix)]
pub use api::{Answer, Api};
#[cfg(unix)]
pub use audit::Written;
pub use build::{Binaries, KUBERNETES, binaries, krew, kubernetes, target, workspace};
pub use error::Error;
#[cfg(unix)]
pub use kubectl::Kubectl;
#[cfg(unix)]
pub use plane::{Component, ControlPlane, Options, Run, SIMULATED_NODE, eventually};
#[cfg(unix)]
pub use proxy::{Asked, Fault, Proxy};
#[cfg(unix)]
pub use webhook::{Decision, Webhook};

/// The program `control-plane-supervisor`; see the supervisor's module for what it is for.
#[doc(hidden)]
pub fn supervisor_main() -> std::process::ExitCode {
    #[cfg(unix)]
    return supervisor::main();
    #[cfg(not(unix))]
    std::process::ExitCode::FAILURE
}
