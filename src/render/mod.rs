//! Model values to text, JSON and pictures; the only room that knows a terminal.

mod age;
pub mod ask;
pub mod completion;
mod counts;
pub mod diagnosis;
pub mod dot;
pub mod failure;
mod fate;
pub mod gaps;
pub mod json;
pub mod listing;
pub mod look;
pub mod mermaid;
pub mod names;
pub mod notes;
pub mod orphans;
pub mod output;
pub mod plan;
pub mod progress;
pub mod release;
pub mod result;
pub mod sanitize;
pub mod screen;
mod table;
mod text;
pub mod tree;
mod yaml;
