//! Watches: one a kind and namespace, metadata only, from the snapshot's resourceVersion, so that nothing between
//! snapshot and DELETE is lost. Expired versions are listed again; where watching is not allowed we look again and
//! again; a broken connection is tried anew for as long as we are wanted (reference C.3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde::Deserialize;
use tokio::sync::mpsc::UnboundedSender;

use super::connect::Cluster;
use super::metadata;
use super::request::{Request, Trouble};
use super::wire;
use crate::model::catalog::Resource;
use crate::model::object::{Object, Uid};
use crate::model::progress::Observation;

/// The server closes a watch after this time; we resume from the last bookmark.
const SERVER_TIMEOUT_SECONDS: u32 = 290;
/// Longer than the server's own limit there is no silence (bookmarks come every minute): the connection is dead.
const IDLE: Duration = Duration::from_secs(300);
/// The first pause before another try; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A watch that ended sooner did not end because its time was over.
const SHORT: Duration = Duration::from_secs(5);
/// How often we look where watching is not allowed.
const POLL: Duration = Duration::from_secs(1);

/// What one watch covers.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The namespace; none for all, or for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Where to begin; empty: list first.
    pub resource_version: String,
    /// The doomed objects in it, for looking one by one where listing is not allowed either.
    pub objects: Vec<Object>,
}

/// Watches until the receiver is dropped.
pub async fn watch(cluster: Cluster, scope: Scope, sender: UnboundedSender<Observation>) {
    let mut version = scope.resource_version.clone();
    let mut pause = FIRST_PAUSE;
    let mut lost = false;
    while !sender.is_closed() {
        if version.is_empty() {
            match relist(&cluster, &scope, &sender).await {
                Ok(fresh) => version = fresh,
                Err(trouble) if is_not_allowed(&trouble) => {
                    return poll(&cluster, &scope, &sender, &trouble).await;
                }
                Err(trouble) => {
                    lost = true;
                    report(&sender, &scope, &trouble);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
        }
        let started = Instant::now();
        match follow(&cluster, &scope, &sender, &mut version, &mut lost).await {
            Ok(()) => {}
            Err(trouble) if is_not_allowed(&trouble) => {
                return poll(&cluster, &scope, &sender, &trouble).await;
            }
            // The kind itself is gone, and its objects with it; or the version has expired.
            Err(trouble) if trouble.is_not_found() || trouble.is_gone() => version.clear(),
            Err(trouble) => {
                lost = true;
                report(&sender, &scope, &trouble);
                // Whatever went wrong, a fresh list puts it right.
                version.clear();
            }
        }
        // A server that closes every watch at once is not asked without end.
        if started.elapsed() > SHORT {
            pause = FIRST_PAUSE;
        } else {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// One watch request, until the server closes it. `version` follows the events.
async fn follow(
    cluster: &Cluster,
    scope: &Scope,
    sender: &UnboundedSender<Observation>,
    version: &mut String,
    lost: &mut bool,
) -> Result<(), Trouble> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={SERVER_TIMEOUT_SECONDS}&resourceVersion={version}",
        scope.resource.collection_path(scope.namespace.as_deref())
    );
    let request = Request::get(path)
        .accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    let (_, mut chunks) = cluster.stream(request).await?;
    if std::mem::take(lost) {
        let _ = sender.send(Observation::Back { resource: scope.resource.qualified() });
    }
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let next = tokio::select! {
            next = tokio::time::timeout(IDLE, chunks.next()) => next,
            () = sender.closed() => return Ok(()),
        };
        let chunk = match next {
            Err(_) => return Err(no_answer("the watch was silent for too long")),
            Ok(None) => return Ok(()),
            Ok(Some(chunk)) => chunk?,
        };
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            event(&line, scope, sender, version)?;
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a serde_json::value::RawValue,
}

fn event(
    line: &[u8],
    scope: &Scope,
    sender: &UnboundedSender<Observation>,
    version: &mut String,
) -> Result<(), Trouble> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let event: Event<'_> = serde_json::from_slice(line)
        .map_err(|error| no_answer(&format!("a watch event could not be decoded: {error}")))?;
    if event.kind == "ERROR" {
        // An expired version comes as HTTP 200 with this one event (reference C.3).
        let status = serde_json::from_str(event.object.get()).unwrap_or_default();
        return Err(Trouble::from_status(&status, 500));
    }
    let object = wire::decode_json_object(event.object.get().as_bytes(), &scope.resource)?.object;
    object.resource_version.clone_into(version);
    match event.kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let _ = sender.send(Observation::Seen(Box::new(object)));
        }
        "DELETED" => {
            let _ = sender.send(Observation::Gone(object.uid));
        }
        _ => {}
    }
    Ok(())
}

/// Lists the scope again: what is not there any more is gone.
pub async fn relist(
    cluster: &Cluster,
    scope: &Scope,
    sender: &UnboundedSender<Observation>,
) -> Result<String, Trouble> {
    let list = match metadata::list(cluster, &scope.resource, scope.namespace.as_deref(), "").await {
        Ok(list) => list,
        Err(trouble) if trouble.is_not_found() => wire::DecodedList::default(),
        Err(trouble) => return Err(trouble),
    };
    let _ = sender.send(Observation::Back { resource: scope.resource.qualified() });
    let _ = sender.send(Observation::Listed {
        resource: scope.resource.qualified(),
        namespace: scope.namespace.clone(),
        objects: list.items.into_iter().map(|item| item.object).collect(),
    });
    if list.resource_version.is_empty() {
        // Only a kind that is no longer served lists nothing at all; do not ask too often whether it is back.
        tokio::time::sleep(POLL).await;
    }
    Ok(list.resource_version)
}

/// Where watching is not allowed: list, or where that is not allowed either, look at each object.
async fn poll(cluster: &Cluster, scope: &Scope, sender: &UnboundedSender<Observation>, refusal: &Trouble) {
    let mut left: Vec<(Uid, &Object)> =
        scope.objects.iter().map(|object| (object.uid.clone(), object)).collect();
    let mut may_list = true;
    let mut pause = POLL;
    while !sender.is_closed() {
        if may_list {
            match relist(cluster, scope, sender).await {
                Err(trouble) if is_not_allowed(&trouble) => may_list = false,
                Err(trouble) => report(sender, scope, &trouble),
                Ok(_) => {}
            }
        }
        if !may_list {
            let mut still = Vec::new();
            for (uid, object) in std::mem::take(&mut left) {
                match metadata::get(cluster, &scope.resource, object.namespace.as_deref(), &object.name).await
                {
                    Ok(None) => {
                        let _ = sender.send(Observation::Back { resource: scope.resource.qualified() });
                        let _ = sender.send(Observation::Gone(uid));
                    }
                    Ok(Some(found)) => {
                        let _ = sender.send(Observation::Back { resource: scope.resource.qualified() });
                        if found.uid == uid {
                            still.push((uid, object));
                        }
                        let _ = sender.send(Observation::Seen(Box::new(found)));
                    }
                    Err(trouble) if is_not_allowed(&trouble) => {
                        let gap = metadata::gap(&scope.resource, refusal);
                        let resource = scope.resource.qualified();
                        let _ = sender.send(Observation::Unreadable { resource, gap });
                        return;
                    }
                    Err(trouble) => {
                        report(sender, scope, &trouble);
                        still.push((uid, object));
                    }
                }
            }
            left = still;
            if left.is_empty() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = sender.closed() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether no waiting helps: a right is missing, or the server cannot do that at all.
pub fn is_not_allowed(trouble: &Trouble) -> bool {
    matches!(trouble.code(), Some(401 | 403 | 405))
}

fn report(sender: &UnboundedSender<Observation>, scope: &Scope, trouble: &Trouble) {
    let resource = scope.resource.qualified();
    let _ = sender.send(Observation::Lost { resource, gap: metadata::gap(&scope.resource, trouble) });
}

fn no_answer(message: &str) -> Trouble {
    Trouble::NoAnswer { message: message.to_owned(), hint: None }
}
