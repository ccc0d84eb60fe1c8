//! I/O: each file asks the API server one kind of question and returns model types.

pub mod connect;
pub mod deletion;
pub mod kubeconfig;
pub mod metadata;
pub(crate) mod proxy;
pub mod request;
#[cfg(test)]
pub(crate) mod testing;
pub mod watch;
pub mod wire;
