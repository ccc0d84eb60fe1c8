//! The integration tests: the real binary against a real control plane, a namespace a test, safe in parallel.
//!
//! `CASCADE_TEST_KUBECONFIG` runs those that need no control over the servers against an existing cluster instead.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod cli;
mod completion;
mod conduct;
mod connection;
mod contract;
mod delete;
mod diagnosis;
mod diagnosis_admission;
mod diagnosis_api;
mod diagnosis_collector;
mod diagnosis_container;
mod diagnosis_fooled;
mod diagnosis_rare;
mod diagnosis_stall;
mod diagnosis_state;
mod examples;
mod examples_readme;
mod faults;
mod fire;
mod forecast;
#[cfg(unix)]
mod hostile;
mod invariants;
mod keep;
#[cfg(unix)]
mod pty;
mod release;
mod reliability;
mod rights;
mod showing_offline;
mod showing_tree;
mod showing_warnings;
mod soak;
mod support;
mod targets;
mod tree;
mod wait;
