//! Kubernetes' envelope around every protobuf message, and the one message that any answer can be: a Status.

use prost::Message;

use crate::error::Trouble;

/// The media type.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Each message begins with these bytes (`apimachinery/pkg/runtime/serializer/protobuf/protobuf.go`).
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// `runtime.Unknown` (`apimachinery/pkg/runtime/generated.proto`).
#[derive(Message)]
pub(super) struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) raw: bytes::Bytes,
}

/// `Status` (`apimachinery/pkg/apis/meta/v1/generated.proto`).
#[derive(Message)]
struct Status {
    // Whatever a webhook wrote: it may be no text.
    #[prost(bytes = "vec", tag = "3")]
    message: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    reason: Vec<u8>,
    #[prost(message, tag = "5")]
    details: Option<Details>,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// `StatusDetails`.
#[derive(Message)]
struct Details {
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

/// The message within the envelope.
///
/// # Errors
/// It is not what a Kubernetes API server sends; a sentence that says why.
pub(super) fn unwrapped(bytes: &[u8]) -> Result<bytes::Bytes, String> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or("it does not begin as protobuf of Kubernetes does")?;
    Unknown::decode(envelope).map(|envelope| envelope.raw).map_err(|error| error.to_string())
}

/// Decodes a refusal; none where it is anything else. `code` stands in where it names none.
pub(super) fn status(body: &[u8], code: u16) -> Option<Trouble> {
    let status = Status::decode(unwrapped(body).ok()?).ok()?;
    Some(Trouble::Status {
        code: u16::try_from(status.code).ok().filter(|code| *code > 0).unwrap_or(code),
        reason: String::from_utf8_lossy(&status.reason).into_owned(),
        message: String::from_utf8_lossy(&status.message).into_owned(),
        retry_after: status
            .details
            .and_then(|details| u64::try_from(details.retry_after_seconds).ok())
            .filter(|seconds| *seconds > 0),
    })
}
