//! Model values to text, JSON and pictures; the only room that knows a terminal.

mod age;
mod counts;
mod fate;
pub mod gaps;
pub mod json;
pub mod look;
pub mod names;
pub mod sanitize;
mod table;
mod text;
pub mod tree;
mod yaml;
