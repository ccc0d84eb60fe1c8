//! One file a verb; each reads top to bottom as its pipeline.

pub mod connection;
pub mod manifest;
