//! The events of a watch as they stream in: frames of protobuf, or lines of JSON where the server speaks only that.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use prost::Message;
use serde::Deserialize;

use super::protobuf::{self, PROTOBUF};
use super::wire::{decode_json_object, decode_protobuf_object, unreadable};
use crate::error::Trouble;
use crate::model::catalog::Resource;
use crate::model::object::Object;

/// No event is longer: the storage takes no object of more than a few megabytes.
const LONGEST: usize = 64 << 20;

/// One event.
#[derive(Debug)]
pub enum Event {
    /// Added or changed.
    Seen(Object),
    /// Deleted, in its last state.
    Gone(Object),
    /// Nothing happened until this resourceVersion.
    Bookmark(String),
}

/// Decodes events as bytes arrive, and holds no more than one that is not complete yet.
#[derive(Debug)]
pub struct EventReader {
    resource: Arc<Resource>,
    framed: bool,
    buffer: BytesMut,
}

/// `WatchEvent` (`apimachinery/pkg/apis/meta/v1/generated.proto`); the only message without an envelope.
#[derive(Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, tag = "2")]
    object: Option<RawExtension>,
}

/// `RawExtension` (`apimachinery/pkg/runtime/generated.proto`).
#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: bytes::Bytes,
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a serde_json::value::RawValue,
}

impl EventReader {
    /// A reader of events on this resource, whose answer has this content type.
    pub fn new(resource: &Arc<Resource>, content_type: &str) -> Self {
        let framed = content_type.starts_with(PROTOBUF);
        Self { resource: Arc::clone(resource), framed, buffer: BytesMut::new() }
    }

    /// Takes in what arrived.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next event; none where more must arrive first.
    ///
    /// # Errors
    /// The server ends the watch with a refusal, for example of an expired version, which comes as HTTP 200 with
    /// this one event (reference C.3); or it is not what a Kubernetes API server sends.
    pub fn next_event(&mut self) -> Result<Option<Event>, Trouble> {
        if self.buffer.len() > LONGEST {
            return Err(unreadable("an event is too long"));
        }
        if self.framed { self.next_frame() } else { self.next_line() }
    }

    /// A frame is its length in four bytes, most significant first, and so many bytes
    /// (`apimachinery/pkg/util/framer/framer.go`, NewLengthDelimitedFrameWriter).
    fn next_frame(&mut self) -> Result<Option<Event>, Trouble> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        if length > LONGEST {
            return Err(unreadable("an event is too long"));
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        self.buffer.advance(4);
        let event = WatchEvent::decode(self.buffer.split_to(length)).map_err(unreadable)?;
        let raw = event.object.unwrap_or_default().raw;
        if event.kind == "ERROR" {
            return Err(
                protobuf::status(&raw, 500).unwrap_or_else(|| unreadable("an error without a status"))
            );
        }
        Ok(of_kind(&event.kind, decode_protobuf_object(&raw, &self.resource)?.object))
    }

    fn next_line(&mut self) -> Result<Option<Event>, Trouble> {
        loop {
            let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
            let line = self.buffer.split_to(end + 1);
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event: JsonEvent<'_> = serde_json::from_slice(&line).map_err(unreadable)?;
            if event.kind == "ERROR" {
                let status = serde_json::from_str(event.object.get()).unwrap_or_default();
                return Err(Trouble::from_status(&status, 500));
            }
            let object = decode_json_object(event.object.get().as_bytes(), &self.resource)?.object;
            return Ok(of_kind(&event.kind, object));
        }
    }
}

/// Only a bookmark is neither of the others; a kind of event that is not known yet tells of its version alone.
fn of_kind(kind: &str, object: Object) -> Option<Event> {
    Some(match kind {
        "ADDED" | "MODIFIED" => Event::Seen(object),
        "DELETED" => Event::Gone(object),
        _ => Event::Bookmark(object.resource_version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::snapshot;

    fn resource() -> Arc<Resource> {
        snapshot("ConfigMap/own").objects.remove(0).resource
    }

    /// A message of these length-delimited fields.
    fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, content) in fields {
            bytes.push(number << 3 | 2);
            prost::encoding::encode_varint(content.len() as u64, &mut bytes);
            bytes.extend_from_slice(content);
        }
        bytes
    }

    fn enveloped(raw: &[u8]) -> Vec<u8> {
        [b"k8s\0".as_slice(), &message(&[(2, raw)])].concat()
    }

    fn frame(kind: &str, raw: &[u8]) -> Vec<u8> {
        let event = message(&[(1, kind.as_bytes()), (2, &message(&[(1, raw)]))]);
        [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
    }

    fn object(version: &str) -> Vec<u8> {
        enveloped(&message(&[(1, &message(&[(1, b"own"), (5, b"uid-1"), (6, version.as_bytes())]))]))
    }

    /// What is read of a stream, whatever pieces it comes in.
    fn read(content_type: &str, bytes: &[u8], piece: usize) -> (Vec<String>, Option<Trouble>) {
        let mut reader = EventReader::new(&resource(), content_type);
        let mut told = Vec::new();
        for chunk in bytes.chunks(piece) {
            reader.push(chunk);
            loop {
                match reader.next_event() {
                    Ok(None) => break,
                    Ok(Some(Event::Seen(object))) => told.push(format!("seen {}", object.resource_version)),
                    Ok(Some(Event::Gone(object))) => told.push(format!("gone {}", object.uid)),
                    Ok(Some(Event::Bookmark(version))) => told.push(format!("until {version}")),
                    Err(trouble) => return (told, Some(trouble)),
                }
            }
        }
        (told, None)
    }

    const FRAMES: &str = "application/vnd.kubernetes.protobuf;stream=watch";

    #[test]
    fn frames_and_lines_tell_the_same_whatever_pieces_they_come_in() {
        let frames =
            [frame("ADDED", &object("7")), frame("BOOKMARK", &object("8")), frame("DELETED", &object("9"))]
                .concat();
        let line = |kind: &str, version: &str| {
            let object =
                format!(r#"{{"metadata":{{"name":"own","uid":"uid-1","resourceVersion":"{version}"}}}}"#);
            format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
        };
        let lines =
            [line("ADDED", "7"), line("BOOKMARK", "8"), "\n".to_owned(), line("DELETED", "9")].concat();
        for piece in [1, 3, 1000] {
            let told = ["seen 7", "until 8", "gone uid-1"].map(str::to_owned).to_vec();
            assert_eq!(read(FRAMES, &frames, piece), (told.clone(), None));
            assert_eq!(read("application/json", lines.as_bytes(), piece), (told, None));
        }
    }

    #[test]
    fn an_expired_version_is_the_servers_refusal() {
        let status = enveloped(&message(&[(3, b"too old"), (4, b"Expired")]));
        let (told, trouble) = read(FRAMES, &frame("ERROR", &status), 1000);
        assert!(told.is_empty());
        let expected = Trouble::Status {
            code: 500,
            reason: "Expired".to_owned(),
            message: "too old".to_owned(),
            retry_after: None,
        };
        assert_eq!(trouble, Some(expected));
    }

    #[test]
    fn a_frame_that_claims_to_be_gigantic_is_refused_before_it_is_awaited() {
        let (_, trouble) = read(FRAMES, &[0xff; 8], 8);
        assert!(matches!(trouble, Some(Trouble::NoAnswer { .. })), "{trouble:?}");
    }
}
