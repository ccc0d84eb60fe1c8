//! What is true of the repository without a cluster: its layers, its documentation, its generated files.
//!
//! `cargo xtask docs` writes the generated files; without that, these tests compare them.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub, reason = "tests")]

mod documentation;
mod files;
mod generated;
mod layering;
