//! I/O: each file asks the API server one kind of question and returns model types.

pub mod assist;
pub(crate) mod clock;
pub mod columns;
pub mod connect;
pub mod deletion;
pub mod details;
pub mod discovery;
pub mod events;
pub mod evidence;
#[cfg(test)]
mod fuzz;
pub mod kubeconfig;
pub mod metadata;
mod pace;
pub mod patch;
pub mod probes;
mod protobuf;
pub(crate) mod proxy;
pub mod request;
pub mod rights;
pub mod saved;
pub mod targets;
#[cfg(test)]
pub(crate) mod testing;
pub mod watch;
pub mod wire;
