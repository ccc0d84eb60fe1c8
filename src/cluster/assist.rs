//! `--assist`: sends the deletes that the collector would send, many at once, and fewer when the server is busy. An
//! object that changed meanwhile is left to the collector.

use std::collections::VecDeque;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use super::connect::Cluster;
use super::deletion::{self, DeleteOptions};
use super::metadata;
use crate::error::Trouble;
use crate::model::assist::Order;
use crate::model::object::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Object, Uid};

/// The most deletes in flight; fewer while the server is busy (`pace`).
const AT_ONCE: usize = 32;

/// What became of one delete.
#[derive(Debug)]
enum Sent {
    /// Accepted, or there was nothing left to delete.
    Done,
    /// The object changed, or the server refuses: the collector's business.
    Left(Option<String>),
    /// The server is busy: again, later.
    Busy(Box<Object>),
}

/// The helping hand.
pub struct Assistant {
    cluster: Cluster,
    order: Order,
    queue: VecDeque<Object>,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    refusal: Option<String>,
}

impl Assistant {
    /// Begins with what may go at once.
    pub fn new(cluster: &Cluster, order: Order) -> Self {
        let queue = order.first().into();
        let in_flight = FuturesUnordered::new();
        Self { cluster: cluster.clone(), order, queue, in_flight, refusal: None }
    }

    /// These objects are gone: whose turn is it now?
    pub fn gone(&mut self, uids: &[Uid]) {
        for uid in uids {
            self.queue.extend(self.order.after(uid));
        }
    }

    /// The first refusal that has not been told yet, in the server's own words.
    pub fn take_refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// Sends what may be sent, and returns after one answer; never returns while there is nothing to do.
    pub async fn work(&mut self) {
        while self.in_flight.len() < AT_ONCE {
            let Some(object) = self.queue.pop_front() else { break };
            let options =
                DeleteOptions { policy: self.order.policy_for(&object), grace_seconds: None, dry_run: false };
            let cluster = self.cluster.clone();
            self.in_flight.push(if self.order.is_last(&object) {
                Box::pin(let_go(cluster, object, options))
            } else {
                Box::pin(send(cluster, object, options))
            });
        }
        match self.in_flight.next().await {
            None => std::future::pending().await,
            Some(Sent::Done) => {}
            Some(Sent::Left(words)) => self.refusal = self.refusal.take().or(words),
            Some(Sent::Busy(object)) => self.queue.push_back(*object),
        }
    }
}

/// One delete, of this very object in this very version. A resourceVersion precondition is not possible where the
/// delete takes a finalizer off (reference C.2), and not needed there: the finalizer keeps the object.
async fn send(cluster: Cluster, object: Object, options: DeleteOptions) -> Sent {
    let namespace = object.namespace.as_deref();
    // Whoever has several owners may have got another since: look again.
    let fresh = if object.owners.len() > 1 {
        match metadata::get(&cluster, &object.resource, namespace, &object.name).await {
            Ok(Some(fresh)) if fresh.uid == object.uid && fresh.owners == object.owners => fresh,
            Ok(_) => return Sent::Left(None),
            Err(trouble) => return outcome(&trouble, &object),
        }
    } else {
        object.clone()
    };
    let first = match delete(&cluster, &fresh, options).await {
        Ok(()) => return Sent::Done,
        Err(trouble) if trouble.is_conflict() => trouble,
        Err(trouble) => return outcome(&trouble, &object),
    };
    // Most changes do not concern the owners (a Pod's status): then once more, as the collector does.
    match metadata::get(&cluster, &object.resource, namespace, &object.name).await {
        Ok(Some(fresh))
            if fresh.uid == object.uid && fresh.owners == object.owners && !fresh.is_terminating() =>
        {
            match delete(&cluster, &fresh, options).await {
                Ok(()) => Sent::Done,
                Err(trouble) => outcome(&trouble, &object),
            }
        }
        Ok(_) => Sent::Left(None),
        Err(_) => outcome(&first, &object),
    }
}

/// Lets a target go that waits in foreground for nobody any more: the DELETE in background takes
/// `foregroundDeletion` off (reference C.4), as the collector would. Whatever else holds it is not ours.
async fn let_go(cluster: Cluster, object: Object, options: DeleteOptions) -> Sent {
    match metadata::get(&cluster, &object.resource, object.namespace.as_deref(), &object.name).await {
        Ok(Some(fresh)) if fresh.uid == object.uid && fresh.finalizers == [FOREGROUND_FINALIZER] => {
            match delete(&cluster, &fresh, options).await {
                Ok(()) => Sent::Done,
                Err(trouble) => outcome(&trouble, &object),
            }
        }
        Ok(_) => Sent::Left(None),
        Err(trouble) => outcome(&trouble, &object),
    }
}

async fn delete(cluster: &Cluster, object: &Object, options: DeleteOptions) -> Result<(), Trouble> {
    let strips = object.has_finalizer(FOREGROUND_FINALIZER) || object.has_finalizer(ORPHAN_FINALIZER);
    let version = (!strips).then_some(object.resource_version.as_str());
    deletion::delete_version(cluster, object, version, options).await.map(|_| ())
}

fn outcome(trouble: &Trouble, object: &Object) -> Sent {
    match trouble.code() {
        Some(404) => Sent::Done,
        Some(409) => Sent::Left(None),
        Some(429) if !trouble.is_conversion_error() => Sent::Busy(Box::new(object.clone())),
        _ => Sent::Left(Some(match trouble {
            Trouble::Status { message, .. } | Trouble::NoAnswer { message, .. } => message.clone(),
        })),
    }
}
