//! The library behind the `kubectl cascade` plugin: what depends on a Kubernetes object, what a delete will do to
//! it all, whether it is really gone, and why it is not.
//!
//! Four rooms, four permissions:
//! - [`model`] is pure: values in, values out; no client, no I/O, no clock.
//! - [`cluster`] asks the API server, one kind of question a file, and answers in model types.
//! - [`render`] shows model values to a person or a script, and is the only room that knows a terminal.
//! - [`commands`] has a file a verb; each reads top to bottom as its pipeline.
//!
//! [`cli`] holds every clap struct, [`error`] the one failure type and the exit codes.

pub mod cli;
pub mod cluster;
pub mod commands;
pub mod error;
pub mod model;
pub mod render;
