//! I/O: each file asks the API server one kind of question and returns model types.

pub mod request;
