//! Watches: one a kind and namespace, metadata only, from the snapshot's resourceVersion, so that nothing between
//! snapshot and DELETE is lost. Expired versions are listed again; where watching is not allowed we look again and
//! again; a broken connection is tried anew for as long as we are wanted (reference C.3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::mpsc::UnboundedSender;

use super::connect::Cluster;
use super::events::{Event, EventReader};
use super::metadata;
use super::request::Request;
use super::wire;
use crate::error::Trouble;
use crate::model::catalog::Resource;
use crate::model::object::{Object, Uid};
use crate::model::progress::Observation;

/// The server closes a watch after this time; we resume from the last bookmark.
const SERVER_TIMEOUT_SECONDS: u32 = 290;
/// After so long a silence we look for ourselves: a connection may be dead and nobody tells (a proxy or a firewall that
/// forgot it), and what goes meanwhile would never be seen. Doubles with each look that finds nothing new.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// The longest time between two such looks: less than the minute between two bookmarks, which may come through where
/// nothing else does.
const LONGEST_LOOK: Duration = Duration::from_secs(40);
/// The same where nothing in particular is waited for. Longer than the server's own limit there is no silence.
const IDLE: Duration = Duration::from_secs(300);
/// A look that costs the server much comes less often: at most this part of the time is spent on it.
const SHARE: u32 = 60;
/// How long one of them may take.
const LOOK: Duration = Duration::from_secs(20);
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
    let (first_look, longest_look) =
        if scope.objects.is_empty() { (IDLE, IDLE) } else { (FIRST_LOOK, LONGEST_LOOK) };
    let mut silence = first_look;
    let mut cost = Duration::ZERO;
    let mut lost = false;
    while !sender.is_closed() {
        if version.is_empty() {
            let asked = Instant::now();
            match look(&cluster, &scope, &sender).await {
                Ok(fresh) => {
                    version = fresh;
                    cost = asked.elapsed();
                }
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
        let followed = follow(&cluster, &scope, &sender, &mut version, &mut lost, silence).await;
        let looked = std::mem::replace(&mut silence, first_look);
        match followed {
            Ok(Ended::Closed) => {}
            Ok(Ended::Silent) => {
                // A new connection and a fresh list; nothing is lost that the old one may still have told.
                silence = (looked * 2).min(longest_look.max(cost * SHARE).min(IDLE));
                version.clear();
                continue;
            }
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

/// How a watch ended that nothing went wrong with.
enum Ended {
    /// The server closed it: its time is over, or nobody wants it any more.
    Closed,
    /// It said nothing for so long that it is time to look.
    Silent,
}

/// One watch request, until the server closes it or says nothing for too long. `version` follows the events.
async fn follow(
    cluster: &Cluster,
    scope: &Scope,
    sender: &UnboundedSender<Observation>,
    version: &mut String,
    lost: &mut bool,
    silence: Duration,
) -> Result<Ended, Trouble> {
    let path = format!(
        "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={SERVER_TIMEOUT_SECONDS}&resourceVersion={version}",
        scope.resource.collection_path(scope.namespace.as_deref())
    );
    let (head, mut chunks) = cluster.stream(Request::get(path).accept(wire::ACCEPT_METADATA)).await?;
    if std::mem::take(lost) {
        let _ = sender.send(Observation::Back { resource: scope.resource.qualified() });
    }
    let mut events = EventReader::new(&scope.resource, &head.content_type);
    loop {
        let next = tokio::select! {
            next = tokio::time::timeout(silence, chunks.next()) => next,
            () = sender.closed() => return Ok(Ended::Closed),
        };
        match next {
            Err(_) => return Ok(Ended::Silent),
            Ok(None) => return Ok(Ended::Closed),
            Ok(Some(chunk)) => events.push(&chunk?),
        }
        while let Some(event) = events.next_event()? {
            match event {
                Event::Seen(object) => {
                    object.resource_version.clone_into(version);
                    let _ = sender.send(Observation::Seen(Box::new(object)));
                }
                Event::Gone(object) => {
                    *version = object.resource_version;
                    let _ = sender.send(Observation::Gone(object.uid));
                }
                Event::Bookmark(reached) => *version = reached,
            }
        }
    }
}

/// As [`relist`], but a server that says nothing is given up.
async fn look(
    cluster: &Cluster,
    scope: &Scope,
    sender: &UnboundedSender<Observation>,
) -> Result<String, Trouble> {
    tokio::time::timeout(LOOK, relist(cluster, scope, sender))
        .await
        .unwrap_or_else(|_| Err(no_answer(&format!("no list within {} s", LOOK.as_secs()))))
}

/// Lists the scope again: what is not there any more is gone.
async fn relist(
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
            match look(cluster, scope, sender).await {
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

/// Whether no waiting helps: a right is missing, or the server cannot do that at all. Credentials that have expired
/// (401) may be renewed meanwhile, by their plugin or by whoever writes the token's file.
pub fn is_not_allowed(trouble: &Trouble) -> bool {
    matches!(trouble.code(), Some(403 | 405))
}

fn report(sender: &UnboundedSender<Observation>, scope: &Scope, trouble: &Trouble) {
    let resource = scope.resource.qualified();
    let _ = sender.send(Observation::Lost { resource, gap: metadata::gap(&scope.resource, trouble) });
}

fn no_answer(message: &str) -> Trouble {
    Trouble::NoAnswer { message: message.to_owned(), hint: None }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::cluster::testing::{Reply, Server};
    use crate::model::testing::snapshot;

    fn object(version: &str) -> Value {
        json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": { "name": "own", "namespace": "x", "uid": "ConfigMap/own", "resourceVersion": version },
        })
    }

    fn list(version: &str, items: &[Value]) -> Reply {
        let body = json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": { "resourceVersion": version }, "items": items,
        });
        Reply::json(200, body)
    }

    /// A watch that says this and is then closed by the server.
    fn events(events: &[(&str, Value)]) -> Reply {
        let lines =
            events.iter().map(|(kind, object)| format!("{}\n", json!({"type": kind, "object": object})));
        let headers = vec![("Content-Type", "application/json".to_owned())];
        Reply::Whole(200, headers, lines.collect::<String>().into_bytes())
    }

    fn expired() -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old" })
    }

    fn forbidden() -> Reply {
        Reply::refusal(403, "Forbidden", "you may not")
    }

    /// Watches a ConfigMap from version 5 on until so much was observed; what was observed, and what was asked.
    async fn watched(script: Vec<Reply>, count: usize) -> (Vec<String>, Vec<String>) {
        let server = Server::start(script);
        let object = snapshot("ConfigMap/own").objects.remove(0);
        let scope = Scope {
            resource: object.resource.clone(),
            namespace: Some("x".to_owned()),
            resource_version: "5".to_owned(),
            objects: vec![object],
        };
        let (sender, mut receiver) = unbounded_channel();
        let watching = tokio::spawn(watch(server.cluster().await, scope, sender));
        let mut observed = Vec::new();
        while observed.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(20), receiver.recv()).await;
            observed.push(match next.expect("an observation in time").expect("an observation") {
                Observation::Seen(object) => format!("seen {} {}", object.name, object.resource_version),
                Observation::Gone(uid) => format!("gone {uid}"),
                Observation::Listed { resource, objects, .. } => {
                    format!("listed {resource} {}", objects.len())
                }
                Observation::Unreadable { gap, .. } => format!("unreadable {}", gap.reason),
                Observation::Lost { gap, .. } => format!("lost {}", gap.reason),
                Observation::Back { .. } => "back".to_owned(),
            });
        }
        drop(receiver);
        watching.abort();
        let asked = server.seen().into_iter().map(|seen| {
            let path = seen.line.split(' ').nth(1).unwrap_or_default().to_owned();
            let version = path.split_once("resourceVersion=").map(|(_, version)| version.to_owned());
            match version {
                Some(version) => format!("watch {version}"),
                None if path.ends_with("/own") => "get".to_owned(),
                None => "list".to_owned(),
            }
        });
        (observed, asked.collect())
    }

    #[tokio::test]
    async fn a_clean_close_goes_on_from_the_last_version_bookmarks_included() {
        let first = events(&[("MODIFIED", object("7")), ("BOOKMARK", object("9"))]);
        let (observed, asked) = watched(vec![first, events(&[("DELETED", object("12"))])], 2).await;
        assert_eq!(observed, ["seen own 7", "gone ConfigMap/own"]);
        assert_eq!(asked[..2], ["watch 5", "watch 9"]);
    }

    /// It comes as HTTP 200 with one ERROR event, or as HTTP 410 (reference C.3). kubectl waits on.
    #[tokio::test]
    async fn an_expired_version_is_answered_with_a_fresh_list() {
        for refusal in [events(&[("ERROR", expired())]), Reply::json(410, expired())] {
            let (observed, asked) =
                watched(vec![refusal, list("20", &[]), events(&[("ADDED", object("21"))])], 3).await;
            assert_eq!(observed, ["back", "listed configmaps 0", "seen own 21"]);
            assert_eq!(asked[..3], ["watch 5", "list", "watch 20"]);
        }
    }

    #[tokio::test]
    async fn where_watching_is_forbidden_lists_are_asked_and_then_each_object() {
        let script = vec![
            forbidden(),
            list("20", &[object("6")]),
            forbidden(),
            Reply::json(200, object("6")),
            Reply::refusal(404, "NotFound", "it is gone"),
        ];
        let (observed, asked) = watched(script, 6).await;
        let expected = ["back", "listed configmaps 1", "back", "seen own 6", "back", "gone ConfigMap/own"];
        assert_eq!(observed, expected);
        assert_eq!(asked, ["watch 5", "list", "list", "get", "get"]);
    }

    #[tokio::test]
    async fn where_nothing_may_be_looked_at_the_kind_is_unreadable_and_never_empty() {
        let (observed, asked) = watched(vec![forbidden(), forbidden(), forbidden()], 1).await;
        assert_eq!(observed, ["unreadable Forbidden"]);
        assert_eq!(asked, ["watch 5", "list", "get"]);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_lost_until_a_fresh_list_comes() {
        let script = vec![Reply::BreaksOff(""), list("20", &[object("6")]), events(&[])];
        let (observed, asked) = watched(script, 3).await;
        assert_eq!(observed, ["lost NoAnswer", "back", "listed configmaps 1"]);
        assert_eq!(asked[..2], ["watch 5", "list"]);
    }

    #[tokio::test]
    async fn a_server_error_is_lost_too_and_does_not_count_as_gone() {
        let refusal = Reply::refusal(500, "InternalError", "conversion webhook failed");
        let (observed, _) = watched(vec![refusal, list("20", &[object("6")]), events(&[])], 3).await;
        assert_eq!(observed, ["lost InternalError", "back", "listed configmaps 1"]);
    }

    /// A connection that a firewall has forgotten looks like one on which nothing happens.
    #[tokio::test]
    async fn a_watch_that_says_nothing_any_more_is_followed_by_a_fresh_list_and_another_watch() {
        let script =
            vec![Reply::ThenSilence(vec!["\n"]), list("20", &[]), events(&[("ADDED", object("21"))])];
        let (observed, asked) = watched(script, 3).await;
        assert_eq!(observed, ["back", "listed configmaps 0", "seen own 21"]);
        assert_eq!(asked[..3], ["watch 5", "list", "watch 20"]);
    }

    #[tokio::test]
    async fn a_kind_that_is_no_longer_served_has_no_objects() {
        let gone = || Reply::refusal(404, "NotFound", "the server could not find the requested resource");
        let (observed, _) = watched(vec![gone(), gone()], 2).await;
        assert_eq!(observed, ["back", "listed configmaps 0"]);
    }

    #[tokio::test]
    async fn a_server_that_closes_every_watch_at_once_is_not_asked_without_end() {
        let started = Instant::now();
        let script = (0..5).map(|_| events(&[("MODIFIED", object("6"))])).collect();
        let (observed, _) = watched(script, 4).await;
        assert_eq!(observed.len(), 4);
        assert!(started.elapsed() > FIRST_PAUSE * 3, "{:?}", started.elapsed());
    }
}
