//! Sending the DELETEs so that afterwards it is known what became of each: where an answer does not come, or leaves open
//! whether the server has carried it out, the object itself is asked, by UID, before anything is sent again.

use std::time::{Duration, Instant};

use super::delete::policy_under_way;
use super::ending;
use super::session::Session;
use crate::cluster::deletion::{self, DeleteOptions};
use crate::cluster::metadata;
use crate::cluster::request::Answer;
use crate::error::Trouble;
use crate::model::object::Object;
use crate::render::notes;

/// How often a DELETE is sent at most, each time after a look that found the object untouched.
const TRIES: usize = 4;
/// The first pause before another look; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What became of one DELETE.
pub enum Sent {
    /// The server has accepted it; with its answer where that came through.
    Accepted(Option<Answer>),
    /// The object is gone, or another one bears its name.
    Gone,
    /// The server refuses; its own words.
    Refused(Trouble),
    /// Whether it was accepted cannot be found out: there is no answer any more, or there never is one to this.
    Unknown(Trouble),
}

/// Sends one DELETE and finds out what became of it, for so long at most without any answer.
pub async fn delete(session: &Session, object: &Object, options: DeleteOptions, patience: Duration) -> Sent {
    let mut tries = 0;
    loop {
        tries += 1;
        let trouble = match deletion::delete(&session.cluster, object, options).await {
            Ok(answer) => return Sent::Accepted(Some(answer)),
            // Gone meanwhile: that is what was wanted. (A webhook may refuse with a 404, too.)
            Err(trouble) if trouble.is_not_found() && !ending::is_admission(&trouble) => return Sent::Gone,
            Err(trouble) if !leaves_open(&trouble) => return Sent::Refused(trouble),
            Err(trouble) => trouble,
        };
        session.note(|out| notes::write_unclear(out, session.stderr, object, &ending::words(&trouble)));
        match look(session, object, options, patience).await {
            Ok(Seen::Gone) => return Sent::Gone,
            Ok(Seen::Accepted) => return Sent::Accepted(None),
            Ok(Seen::Untouched) if tries < TRIES => {}
            // It may still be on its way.
            Ok(Seen::Untouched) if trouble.code().is_none() => return Sent::Unknown(trouble),
            Ok(Seen::Untouched) => return Sent::Refused(trouble),
            Err(trouble) => return Sent::Unknown(trouble),
        }
    }
}

/// Whether the request may have been carried out all the same. A server that fails may have written before (etcd's
/// "request timed out"), and whatever stands before it may have passed it on. Admission's refusals come before any
/// write, some of them as a 500.
pub fn leaves_open(trouble: &Trouble) -> bool {
    trouble.code().is_none_or(|code| code >= 500) && !ending::is_admission(trouble)
}

/// What a look at the object tells of a DELETE that was sent.
enum Seen {
    Gone,
    Accepted,
    Untouched,
}

/// Looks until there is an answer.
async fn look(
    session: &Session,
    object: &Object,
    options: DeleteOptions,
    patience: Duration,
) -> Result<Seen, Trouble> {
    let since = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause).await;
        let namespace = object.namespace.as_deref();
        let found = metadata::get(&session.cluster, &object.resource, namespace, &object.name).await;
        match found {
            Ok(None) => return Ok(Seen::Gone),
            Ok(Some(found)) if found.uid != object.uid => return Ok(Seen::Gone),
            Ok(Some(found)) => {
                // One that was Terminating before must show the policy that it is switched to.
                let accepted = found.is_terminating()
                    && (!object.is_terminating() || policy_under_way(&found) == options.policy);
                return Ok(if accepted { Seen::Accepted } else { Seen::Untouched });
            }
            Err(trouble) if !leaves_open(&trouble) || since.elapsed() >= patience => return Err(trouble),
            Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}
