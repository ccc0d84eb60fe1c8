//! Objects as they come over the wire, decoded only as far as deletion needs them: protobuf where the server speaks
//! it (a metadata list of 6,000 Pods takes a tenth of the time it takes as JSON), JSON as the fallback. Both give
//! the same model objects. managedFields, specs and all else are skipped without being built.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use prost::Message;
use serde::Deserialize;

use super::protobuf::{self, MAGIC, PROTOBUF};
use super::request::Answer;
use crate::error::Trouble;
use crate::model::catalog::Resource;
use crate::model::object::{Labels, Object, OwnerReference, PodDetails, Timestamp};

/// Asks for metadata only: protobuf, else JSON, else (a server that knows no such view) the whole objects.
pub const ACCEPT_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// The same for one object.
pub const ACCEPT_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Asks for whole objects, protobuf first.
pub const ACCEPT_WHOLE: &str = "application/vnd.kubernetes.protobuf,application/json";

/// No item is longer: the storage takes no object of more than a few megabytes. A length is whatever a server says.
const LONGEST_ITEM: usize = 64 << 20;
/// No list in JSON that can be held is longer.
const LONGEST_JSON: usize = 2 << 30;

/// One decoded object, with what only Pods have.
#[derive(Debug)]
pub struct Decoded {
    /// Its metadata.
    pub object: Object,
    /// For Pods that were asked for whole.
    pub pod: Option<PodDetails>,
}

/// A decoded list.
#[derive(Debug, Default)]
pub struct DecodedList {
    /// resourceVersion of the list.
    pub resource_version: String,
    /// Where the next page begins; empty on the last.
    pub next: String,
    /// The objects.
    pub items: Vec<Decoded>,
}

/// Decodes a list while its body streams in, item by item, so that no more of the body is held than one item: whole
/// bodies would take several times the memory of what is kept of them.
#[derive(Debug)]
pub struct ListReader {
    resource: Arc<Resource>,
    format: Format,
    /// Whether the envelope held a list at all.
    found: bool,
    buffer: BytesMut,
    shared: Shared,
    list: DecodedList,
}

/// What many objects of a list have in common, kept once.
#[derive(Debug, Default)]
struct Shared {
    namespaces: HashSet<Arc<str>>,
    owners: HashSet<Arc<[OwnerReference]>>,
    labels: HashSet<Arc<Labels>>,
}

/// The one that was there before, where there is one that equals it.
fn kept<T: ?Sized + Eq + Hash>(known: &mut HashSet<Arc<T>>, new: Arc<T>) -> Arc<T> {
    if let Some(old) = known.get(&new) {
        return Arc::clone(old);
    }
    known.insert(Arc::clone(&new));
    new
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Nothing to stream: a server that answers JSON is rare, and a JSON list has its version anywhere.
    Json,
    /// Before the magic bytes.
    Magic,
    /// In the `runtime.Unknown` envelope, before a field.
    Envelope,
    /// In the envelope's `raw`, which is the list: so many bytes are left of it.
    List(usize),
}

impl ListReader {
    /// A reader of a list of this resource, whose answer has this content type.
    pub fn new(resource: &Arc<Resource>, content_type: &str) -> Self {
        let format = if content_type.starts_with(PROTOBUF) { Format::Magic } else { Format::Json };
        Self {
            resource: Arc::clone(resource),
            format,
            found: false,
            buffer: BytesMut::new(),
            shared: Shared::default(),
            list: DecodedList::default(),
        }
    }

    /// Takes in what arrived, and decodes as far as it goes.
    ///
    /// # Errors
    /// It is not what a Kubernetes API server sends.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Trouble> {
        self.buffer.extend_from_slice(chunk);
        while self.step()? {}
        // What is held is one item, but for JSON.
        if self.format == Format::Json && self.buffer.len() > LONGEST_JSON {
            return Err(unreadable("it is too long"));
        }
        Ok(())
    }

    /// The list, once the body has ended.
    ///
    /// # Errors
    /// It ended too early, or is not what a Kubernetes API server sends.
    pub fn finish(mut self) -> Result<DecodedList, Trouble> {
        match self.format {
            Format::Json => {
                let json: JsonList = serde_json::from_slice(&self.buffer).map_err(unreadable)?;
                let list = ListMessage::from(json);
                self.take_metadata(list.metadata.unwrap_or_default());
                let Self { resource, shared, list: known, .. } = &mut self;
                let items = list.items.into_iter().map(|item| item.decoded(resource, shared));
                known.items.extend(items);
            }
            Format::Envelope if self.found && self.buffer.is_empty() => {}
            _ => return Err(unreadable("it ends in the middle")),
        }
        Ok(self.list)
    }

    /// Decodes one piece; false where more must arrive first.
    fn step(&mut self) -> Result<bool, Trouble> {
        match self.format {
            Format::Json => Ok(false),
            Format::Magic if self.buffer.len() < MAGIC.len() => Ok(false),
            Format::Magic if !self.buffer.starts_with(MAGIC) => {
                Err(unreadable("it does not begin as protobuf of Kubernetes does"))
            }
            Format::Magic => {
                self.buffer.advance(MAGIC.len());
                self.format = Format::Envelope;
                Ok(true)
            }
            Format::Envelope => {
                let Some(field) = field(&self.buffer)? else { return Ok(false) };
                if field.number == 2 {
                    self.buffer.advance(field.header);
                    self.format = Format::List(field.length);
                    self.found = true;
                } else if self.buffer.len() < field.whole()? {
                    return Ok(false);
                } else {
                    self.buffer.advance(field.whole()?);
                }
                Ok(true)
            }
            Format::List(0) => {
                self.format = Format::Envelope;
                Ok(true)
            }
            Format::List(left) => {
                let Some(field) = field(&self.buffer)? else { return Ok(false) };
                let whole = field.whole()?;
                if whole > left {
                    return Err(unreadable("an item is longer than its list"));
                }
                if self.buffer.len() < whole {
                    return Ok(false);
                }
                let piece = &self.buffer[field.header..whole];
                match field.number {
                    1 => {
                        let metadata = ListMetaMessage::decode(piece).map_err(unreadable)?;
                        self.take_metadata(metadata);
                    }
                    2 => {
                        let item = ItemMessage::decode(piece).map_err(unreadable)?;
                        self.list.items.push(item.decoded(&self.resource, &mut self.shared));
                    }
                    _ => {}
                }
                self.buffer.advance(whole);
                self.format = Format::List(left - whole);
                Ok(true)
            }
        }
    }

    fn take_metadata(&mut self, metadata: ListMetaMessage) {
        self.list.resource_version = metadata.resource_version;
        self.list.next = metadata.next;
    }
}

/// The head of a protobuf field.
struct Field {
    number: u64,
    /// Bytes before its content.
    header: usize,
    /// Bytes of its content.
    length: usize,
}

impl Field {
    /// Bytes of head and content, which will be held together.
    fn whole(&self) -> Result<usize, Trouble> {
        if self.length > LONGEST_ITEM {
            return Err(unreadable("an item is too long"));
        }
        Ok(self.header + self.length)
    }
}

/// Reads a field's head; none where more must arrive first. All fields that we meet outside of messages are
/// length-delimited or varints.
fn field(bytes: &[u8]) -> Result<Option<Field>, Trouble> {
    let Some((key, key_length)) = varint(bytes)? else { return Ok(None) };
    let Some((value, value_length)) = varint(&bytes[key_length..])? else { return Ok(None) };
    let header = key_length + value_length;
    let length = match key & 7 {
        0 => 0,
        2 => usize::try_from(value).map_err(unreadable)?,
        other => return Err(unreadable(format!("wire type {other} in a list"))),
    };
    Ok(Some(Field { number: key >> 3, header, length }))
}

fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Trouble> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index as u32).min(63);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 10 { Err(unreadable("a number has no end")) } else { Ok(None) }
}

/// Decodes the answer to a list that has been read whole.
///
/// # Errors
/// It is not what a Kubernetes API server sends.
pub fn decode_list(answer: &Answer, resource: &Arc<Resource>) -> Result<DecodedList, Trouble> {
    let mut reader = ListReader::new(resource, &answer.content_type);
    reader.push(&answer.body)?;
    reader.finish()
}

/// Decodes the answer to a GET of one object of this resource.
pub fn decode_one(answer: &Answer, resource: &Arc<Resource>) -> Result<Decoded, Trouble> {
    if answer.content_type.starts_with(PROTOBUF) {
        decode_protobuf_object(&answer.body, resource)
    } else {
        decode_json_object(&answer.body, resource)
    }
}

/// Decodes one object from protobuf in its envelope.
pub fn decode_protobuf_object(bytes: &[u8], resource: &Arc<Resource>) -> Result<Decoded, Trouble> {
    let raw = protobuf::unwrapped(bytes).map_err(unreadable)?;
    Ok(ItemMessage::decode(raw).map_err(unreadable)?.decoded(resource, &mut Shared::default()))
}

/// Decodes one object from JSON, for example from a watch event.
pub fn decode_json_object(json: &[u8], resource: &Arc<Resource>) -> Result<Decoded, Trouble> {
    let item: JsonItem = serde_json::from_slice(json).map_err(unreadable)?;
    Ok(ItemMessage::from(item).decoded(resource, &mut Shared::default()))
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> Trouble {
    Trouble::NoAnswer { message: format!("the server's answer could not be decoded: {error}"), hint: None }
}

// --- protobuf: only the fields we need; prost skips all others ------------------------------------------------

/// `PartialObjectMetadataList`, and any `...List`: they agree in these fields.
#[derive(Clone, PartialEq, Message)]
struct ListMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMetaMessage>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<ItemMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMetaMessage {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    next: String,
}

/// `PartialObjectMetadata`, and a Pod: they agree in `metadata`; the rest is there for Pods only.
#[derive(Clone, PartialEq, Message)]
struct ItemMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMetaMessage>,
    #[prost(message, optional, tag = "2")]
    spec: Option<PodSpecMessage>,
    #[prost(message, optional, tag = "3")]
    status: Option<PodStatusMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMetaMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    created: Option<TimeMessage>,
    #[prost(message, optional, tag = "9")]
    deleted: Option<TimeMessage>,
    #[prost(int64, optional, tag = "10")]
    grace_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: Labels,
    #[prost(message, repeated, tag = "13")]
    owners: Vec<OwnerMessage>,
    #[prost(string, repeated, tag = "14")]
    finalizers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct OwnerMessage {
    // The API server takes any bytes for these, and one object must not make a whole list unreadable.
    #[prost(bytes = "vec", tag = "1")]
    kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    api_version: Vec<u8>,
    #[prost(bool, tag = "6")]
    controller: bool,
    #[prost(bool, tag = "7")]
    block_owner_deletion: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TimeMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PodSpecMessage {
    #[prost(message, repeated, tag = "1")]
    volumes: Vec<VolumeMessage>,
    #[prost(int64, optional, tag = "4")]
    grace_seconds: Option<i64>,
    #[prost(string, tag = "10")]
    node: String,
}

#[derive(Clone, PartialEq, Message)]
struct VolumeMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    source: Option<VolumeSourceMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct VolumeSourceMessage {
    #[prost(message, optional, tag = "10")]
    claim: Option<ClaimMessage>,
    #[prost(message, optional, tag = "29")]
    ephemeral: Option<PresentMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ClaimMessage {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PresentMessage {}

#[derive(Clone, PartialEq, Message)]
struct PodStatusMessage {
    #[prost(bytes = "vec", tag = "1")]
    phase: Vec<u8>,
}

impl ItemMessage {
    fn decoded(self, resource: &Arc<Resource>, shared: &mut Shared) -> Decoded {
        let metadata = self.metadata.unwrap_or_default();
        let pod =
            resource.is("", "Pod").then(|| self.spec.map(|spec| pod(&metadata, spec, self.status))).flatten();
        Decoded { object: metadata.object(resource, shared), pod }
    }
}

/// Bytes that should be text; what is none becomes U+FFFD, as in the API server's own JSON.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl ObjectMetaMessage {
    fn object(self, resource: &Arc<Resource>, shared: &mut Shared) -> Object {
        let owners = self.owners.into_iter().map(|owner| OwnerReference {
            api_version: text(owner.api_version),
            kind: text(owner.kind),
            name: text(owner.name),
            uid: text(owner.uid).into(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        });
        let namespace = (!self.namespace.is_empty()).then(|| self.namespace.into());
        Object {
            resource: Arc::clone(resource),
            namespace: namespace.map(|name| kept(&mut shared.namespaces, name)),
            name: self.name,
            uid: self.uid.into(),
            resource_version: self.resource_version,
            owners: kept(&mut shared.owners, owners.collect()),
            finalizers: self.finalizers,
            labels: kept(&mut shared.labels, Arc::new(self.labels)),
            created: self.created.and_then(TimeMessage::timestamp),
            deleted: self.deleted.and_then(TimeMessage::timestamp),
            grace_seconds: self.grace_seconds,
        }
    }
}

impl TimeMessage {
    /// None for the zero time, which Go writes as a year before our era.
    fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_second(self.seconds).ok().filter(|time| time.as_second() > -62_135_596_800)
    }
}

fn pod(metadata: &ObjectMetaMessage, spec: PodSpecMessage, status: Option<PodStatusMessage>) -> PodDetails {
    let phase = text(status.unwrap_or_default().phase);
    let claims = spec.volumes.into_iter().filter_map(|volume| {
        let source = volume.source?;
        let ephemeral = || source.ephemeral.as_ref().map(|_| format!("{}-{}", metadata.name, volume.name));
        source.claim.as_ref().map(|claim| text(claim.name.clone())).or_else(ephemeral)
    });
    PodDetails {
        claims: claims.collect(),
        node: spec.node,
        finished: matches!(phase.as_str(), "Succeeded" | "Failed"),
        phase,
        // The API server's default (`pkg/apis/core/v1/defaults.go`).
        grace_seconds: spec.grace_seconds.unwrap_or(30),
        // Only the mirror of a static Pod is controlled by its Node (`pkg/kubelet/pod/mirror_client.go`).
        mirror: metadata.owners.iter().any(|owner| owner.kind == b"Node" && owner.controller),
    }
}

// --- JSON: the same fields, then the same path ------------------------------------------------------------------

#[derive(Deserialize)]
struct JsonList {
    #[serde(default)]
    metadata: JsonListMeta,
    #[serde(default, deserialize_with = "null_is_empty")]
    items: Vec<JsonItem>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct JsonItem {
    metadata: JsonMeta,
    // Other kinds may have anything here, also what is no object at all.
    #[serde(default, deserialize_with = "lenient")]
    spec: Option<JsonPodSpec>,
    #[serde(default, deserialize_with = "lenient")]
    status: Option<JsonPodStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(default, deserialize_with = "null_is_empty")]
    labels: Labels,
    #[serde(default, deserialize_with = "null_is_empty")]
    owner_references: Vec<JsonOwner>,
    #[serde(default, deserialize_with = "null_is_empty")]
    finalizers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonOwner {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonPodSpec {
    #[serde(default)]
    volumes: Vec<JsonVolume>,
    termination_grace_period_seconds: Option<i64>,
    #[serde(default)]
    node_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonVolume {
    #[serde(default)]
    name: String,
    persistent_volume_claim: Option<JsonClaim>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonClaim {
    #[serde(default)]
    claim_name: String,
}

#[derive(Deserialize)]
struct JsonPodStatus {
    #[serde(default)]
    phase: String,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(serde_json::Value::deserialize(from)?).ok())
}

impl From<JsonList> for ListMessage {
    fn from(list: JsonList) -> Self {
        let metadata =
            ListMetaMessage { resource_version: list.metadata.resource_version, next: list.metadata.next };
        Self { metadata: Some(metadata), items: list.items.into_iter().map(ItemMessage::from).collect() }
    }
}

impl From<JsonItem> for ItemMessage {
    fn from(item: JsonItem) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| TimeMessage { seconds: time.as_second() });
        let metadata = item.metadata;
        let owners = metadata.owner_references.into_iter().map(|owner| OwnerMessage {
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid.into(),
            api_version: owner.api_version.into(),
            controller: owner.controller.unwrap_or(false),
            block_owner_deletion: owner.block_owner_deletion.unwrap_or(false),
        });
        let volumes = |volumes: Vec<JsonVolume>| {
            volumes.into_iter().map(|volume| VolumeMessage {
                name: volume.name,
                source: Some(VolumeSourceMessage {
                    claim: volume
                        .persistent_volume_claim
                        .map(|claim| ClaimMessage { name: claim.claim_name.into() }),
                    ephemeral: volume.ephemeral.map(|_| PresentMessage {}),
                }),
            })
        };
        Self {
            metadata: Some(ObjectMetaMessage {
                owners: owners.collect(),
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                created: time(metadata.creation_timestamp),
                deleted: time(metadata.deletion_timestamp),
                grace_seconds: metadata.deletion_grace_period_seconds,
                labels: metadata.labels,
                finalizers: metadata.finalizers,
            }),
            spec: item.spec.map(|spec| PodSpecMessage {
                volumes: volumes(spec.volumes).collect(),
                grace_seconds: spec.termination_grace_period_seconds,
                node: spec.node_name,
            }),
            status: item.status.map(|status| PodStatusMessage { phase: status.phase.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::catalog;

    const JSON: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"name":"a","namespace":"x","uid":"u1","resourceVersion":"5","labels":{"l":"v"},
          "creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:30Z",
          "deletionGracePeriodSeconds":30,"finalizers":["a/h"],"managedFields":[{"manager":"m"}],
          "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"u0","controller":true,"blockOwnerDeletion":true}]},
         "spec":{"nodeName":"n","terminationGracePeriodSeconds":5,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}},{"name":"e","ephemeral":{}},{"name":"t","emptyDir":{}}]},
         "status":{"phase":"Succeeded"}},
        {"metadata":{"name":"b","namespace":"x","uid":"u2"},"spec":"what any custom resource may have"}]}"#;

    fn pods() -> Arc<Resource> {
        let catalog = catalog();
        let pods = catalog.all().iter().find(|resource| resource.kind == "Pod");
        Arc::clone(pods.expect("Pods"))
    }

    fn read(content_type: &str, body: &[u8], chunk: usize) -> Result<DecodedList, Trouble> {
        let mut reader = ListReader::new(&pods(), content_type);
        for piece in body.chunks(chunk) {
            reader.push(piece)?;
        }
        reader.finish()
    }

    /// The protobuf that a server would send for the same list: envelope, then the list.
    fn protobuf_body() -> Vec<u8> {
        let json: JsonList = serde_json::from_str(JSON).expect("the JSON above");
        let list = ListMessage::from(json);
        let mut body = MAGIC.to_vec();
        // typeMeta comes first, contentType last; both must be skipped.
        body.extend([0x0a, 3, b'x', b'y', b'z']);
        let unknown = protobuf::Unknown { raw: list.encode_to_vec().into() };
        body.extend(unknown.encode_to_vec());
        body.extend([0x22, 1, b'j']);
        body
    }

    #[test]
    fn protobuf_and_json_give_the_same_objects_however_the_body_is_cut() {
        let json = format!("{:?}", read("application/json", JSON.as_bytes(), 7).expect("JSON"));
        let body = protobuf_body();
        for chunk in [1, 2, 3, 50, body.len()] {
            let list = read(PROTOBUF, &body, chunk).expect("protobuf");
            assert_eq!(format!("{list:?}"), json, "in pieces of {chunk}");
            assert_eq!((list.resource_version.as_str(), list.items.len()), ("7", 2));
            let pod = list.items[0].pod.as_ref().expect("details");
            assert_eq!(
                (pod.claims.join(" "), pod.finished, pod.grace_seconds),
                ("c a-e".to_owned(), true, 5)
            );
        }
    }

    #[test]
    fn a_body_that_breaks_off_or_lies_is_an_error_and_never_an_empty_list() {
        let body = protobuf_body();
        // The last three bytes are a field that says nothing; before it the list is whole.
        let complete = [body.len() - 3];
        for end in (0..body.len()).filter(|end| !complete.contains(end)) {
            assert!(read(PROTOBUF, &body[..end], 16).is_err(), "cut at {end}");
        }
        assert!(read(PROTOBUF, b"<html>", 6).is_err());
        assert!(read("application/json", b"{\"items\":[", 4).is_err());
    }

    /// How many bytes it holds when it gives up, of a body that never ends.
    fn held_of(content_type: &str, head: &[u8]) -> usize {
        let mut reader = ListReader::new(&pods(), content_type);
        let mut pushed = reader.push(head);
        let filler = vec![b' '; 1 << 20];
        while pushed.is_ok() && reader.buffer.len() <= LONGEST_ITEM {
            pushed = reader.push(&filler);
        }
        assert!(pushed.is_err(), "it goes on for ever");
        reader.buffer.capacity()
    }

    #[test]
    fn a_length_that_is_gigantic_or_overflows_is_refused_before_it_is_awaited() {
        for length in [(LONGEST_ITEM + 1) as u64, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX - 3, u64::MAX]
        {
            let field = |number: u8, length: u64| {
                let mut bytes = vec![number << 3 | 2];
                prost::encoding::encode_varint(length, &mut bytes);
                bytes
            };
            let envelope = [MAGIC, &field(1, length)].concat();
            let item = [MAGIC, &field(2, u64::MAX), &field(2, length)].concat();
            let unknown = [MAGIC, &field(2, u64::MAX), &field(7, length)].concat();
            for body in [envelope, item, unknown] {
                assert!(held_of(PROTOBUF, &body) < 1 << 20, "{length}");
            }
        }
        // A list may be as long as it likes: it is not held.
        let mut reader = ListReader::new(&pods(), PROTOBUF);
        let mut head = [MAGIC, &[2 << 3 | 2]].concat();
        prost::encoding::encode_varint(u64::MAX, &mut head);
        reader.push(&head).expect("the head of a list");
        let item = [&[7 << 3 | 2, 0xff, 0x7f][..], &vec![0; 16_383]].concat();
        for _ in 0..1000 {
            reader.push(&item).expect("a field that nobody knows");
        }
        assert!(reader.buffer.capacity() < 1 << 20, "{}", reader.buffer.capacity());
    }

    #[test]
    fn bytes_that_are_no_text_cost_their_letters_and_not_the_list() {
        let owner =
            OwnerMessage { kind: b"Job".to_vec(), name: b"a\xff\xfeb".to_vec(), ..OwnerMessage::default() };
        let metadata =
            ObjectMetaMessage { name: "p".to_owned(), owners: vec![owner], ..ObjectMetaMessage::default() };
        let status = PodStatusMessage { phase: b"\xc3(".to_vec() };
        let item = ItemMessage {
            metadata: Some(metadata),
            spec: Some(PodSpecMessage::default()),
            status: Some(status),
        };
        let list = ListMessage { metadata: None, items: vec![item] };
        let unknown = protobuf::Unknown { raw: list.encode_to_vec().into() };
        let list = read(PROTOBUF, &[MAGIC, &unknown.encode_to_vec()].concat(), 5).expect("a list");
        assert_eq!(list.items[0].object.owners[0].name, "a\u{fffd}\u{fffd}b");
        assert_eq!(list.items[0].pod.as_ref().expect("details").phase, "\u{fffd}(");
    }
}
