//! The pure heart: what objects are, who owns whom, what the collector will do, how far a deletion has come, and
//! what a stall means. Nothing here asks a server, reads a file, looks at a clock or prints.

pub mod assist;
pub mod catalog;
pub mod collector;
pub mod command;
pub mod diagnosis;
pub mod duration;
#[cfg(test)]
mod explorer;
pub mod facts;
pub mod filter;
pub mod follow;
pub mod forecast;
pub mod graph;
pub mod keep;
pub mod kinds;
pub mod object;
pub mod orphan;
pub mod policy;
pub mod progress;
pub mod release;
pub mod result;
pub mod selector;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;
pub mod traffic;
pub mod visible;
pub mod warning;
