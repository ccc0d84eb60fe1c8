//! Which Events can bear on a deletion: those that somebody wrote since it began, and the one that tells of a wrong
//! ownerReference. What is about the object's beginning, or was over before, would only lead astray.

use serde_json::Value;

use super::Evidence;
use crate::model::object::{Object, Timestamp};

/// So many are quoted, the newest first.
const MOST: usize = 3;

/// Tells of a wrong ownerReference, which holds as long as that stands: the collector writes it when it first sees the
/// object (`pkg/controller/garbagecollector/graph_builder.go`, reference A.5).
const OF_REFERENCES: &str = "OwnerRefInvalidNamespace";

/// About placing, starting and providing. Some are written of what is being deleted, too, and hold nothing: the
/// scheduler says that it skips the Pod, a Terminating claim is still looked at for a volume.
const OF_THE_BEGINNING: [&str; 24] = [
    "BackOff",
    "Created",
    "EnsuredLoadBalancer",
    "EnsuringLoadBalancer",
    "ExternalProvisioning",
    "FailedAttachVolume",
    "FailedBinding",
    "FailedCreate",
    "FailedMount",
    "FailedScheduling",
    "NotTriggerScaleUp",
    "Provisioning",
    "ProvisioningFailed",
    "ProvisioningSucceeded",
    "Pulled",
    "Pulling",
    "ScalingReplicaSet",
    "Scheduled",
    "Started",
    "SuccessfulAttachVolume",
    "SuccessfulCreate",
    "TriggeredScaleUp",
    "Unhealthy",
    "WaitForFirstConsumer",
];

/// The newest of these Events about an object that can bear on its deletion, quoted.
pub(super) fn quoted(events: &[Value], object: &Object) -> Vec<Evidence> {
    let began = began(object);
    let mut bearing: Vec<(Timestamp, &Value)> = events
        .iter()
        .filter_map(|event| Some((last_seen(event)?, event)))
        .filter(|(seen, event)| bears(event["reason"].as_str().unwrap_or_default(), *seen, began))
        .collect();
    bearing.sort_by(|(one, _), (other, _)| other.cmp(one));
    let quote = |(seen, event): (Timestamp, &Value)| Evidence {
        source: format!("event {} at {seen}", event["reason"].as_str().unwrap_or_default()),
        text: event["message"].as_str().unwrap_or_default().to_owned(),
    };
    bearing.into_iter().take(MOST).map(quote).collect()
}

fn bears(reason: &str, seen: Timestamp, began: Option<Timestamp>) -> bool {
    let since = began.is_some_and(|began| seen >= began);
    reason == OF_REFERENCES || (since && !OF_THE_BEGINNING.contains(&reason))
}

/// When the deletion was asked for. A deletionTimestamp is that time and the grace period
/// (`apiserver/pkg/registry/rest/delete.go`, BeforeDelete).
fn began(object: &Object) -> Option<Timestamp> {
    let grace = jiff::SignedDuration::from_secs(object.grace_seconds.unwrap_or(0));
    object.deleted?.checked_sub(grace).ok()
}

/// When it was written last, by whichever of its fields says so.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().filter_map(|time| time.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::testing::{graph, now};

    /// An Event of so many seconds ago.
    fn event(reason: &str, seconds_ago: i64) -> Value {
        let seen = now() - jiff::SignedDuration::from_secs(seconds_ago);
        json!({ "reason": reason, "message": format!("{reason}!"), "lastTimestamp": seen.to_string() })
    }

    fn reasons(object: &str, events: &[Value]) -> Vec<String> {
        let quoted = quoted(events, graph(object).object(0));
        quoted.into_iter().map(|evidence| evidence.text.trim_end_matches('!').to_owned()).collect()
    }

    #[test]
    fn what_was_written_since_the_deletion_began_is_quoted_the_newest_first() {
        let events =
            [event("Before", 61), event("CleanupFailed", 60), event("Killing", 2), event("Later", 1)];
        assert_eq!(reasons("Pod/p terminating", &events), ["Later", "Killing", "CleanupFailed"]);
        // The deletionTimestamp contains the grace period.
        assert_eq!(
            reasons("Pod/p terminating grace=30", &[event("Killing", 90), event("Old", 91)]),
            ["Killing"]
        );
    }

    #[test]
    fn what_is_about_the_beginning_is_not_quoted_however_late_it_comes() {
        let events = ["FailedScheduling", "FailedBinding", "BackOff"].map(|reason| event(reason, 1));
        assert_eq!(reasons("Pod/p terminating", &events), [] as [&str; 0]);
    }

    #[test]
    fn a_wrong_reference_is_told_from_the_start_even_of_a_live_object() {
        let events = [event("OwnerRefInvalidNamespace", 3000), event("Other", 1)];
        assert_eq!(reasons("ClusterRole/r", &events), ["OwnerRefInvalidNamespace"]);
    }

    #[test]
    fn each_kind_of_writer_has_a_time_field_of_its_own() {
        let early = (now() - jiff::SignedDuration::from_secs(500)).to_string();
        let late = (now() - jiff::SignedDuration::from_secs(5)).to_string();
        let told = |times: Value| reasons("Pod/p terminating", &[times]).len();
        assert_eq!(told(json!({ "lastTimestamp": null, "eventTime": late })), 1);
        assert_eq!(told(json!({ "eventTime": early, "series": { "lastObservedTime": late } })), 1);
        assert_eq!(told(json!({ "eventTime": early, "lastTimestamp": early })), 0);
        assert_eq!(told(json!({ "message": "without any time" })), 0);
    }
}
