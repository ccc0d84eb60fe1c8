//! Situations, their facts, and what is said of them. The server is a function from questions to replies.

use serde_json::json;

use super::*;
use crate::model::facts::Identity;
use crate::model::testing::{at, graph, now};

/// A healthy server: dry runs pass, the controller manager leads, nothing else is there.
pub(super) fn healthy(question: &Question) -> Reply {
    match question {
        Question::Get(path) | Question::Lease(path) if path.ends_with("kube-controller-manager") => lease(2),
        Question::Get(path) if path.contains("/events") => ok(json!({ "items": [] })),
        Question::Table(_) => ok(json!({ "columnDefinitions": [{ "name": "Name" }], "rows": [] })),
        Question::Get(path) if path.contains("webhookconfigurations") => ok(json!({ "items": [] })),
        Question::Get(_) => refused(404, "not found"),
        Question::Access { .. } => ok(json!({ "status": { "allowed": true } })),
        Question::Canary { .. } => ok(json!({ "collected": true })),
        _ => ok(json!({})),
    }
}

pub(super) fn ok(body: serde_json::Value) -> Reply {
    Reply::Answer { body, date: Some(now()) }
}

pub(super) fn refused(code: u16, message: &str) -> Reply {
    Reply::Refused { code, reason: String::new(), message: message.to_owned() }
}

pub(super) fn lease(seconds_ago: i64) -> Reply {
    let renewed = now() - jiff::SignedDuration::from_secs(seconds_ago);
    ok(
        json!({ "spec": { "holderIdentity": "kcm-1", "leaseDurationSeconds": 15, "renewTime": renewed.to_string() } }),
    )
}

/// The diagnosis of these targets (named as in the graph's text) by a server of this behaviour.
pub(super) fn diagnosis(text: &str, targets: &[&str], server: impl Fn(&Question) -> Reply) -> Diagnosis {
    let graph = graph(text);
    let targets = targets.iter().map(|name| graph.object(at(&graph, name)).reference()).collect();
    let case = Case { targets, now: now(), ..Case::default() };
    examined(&graph, &case, server)
}

pub(super) fn examined(graph: &OwnerGraph, case: &Case, server: impl Fn(&Question) -> Reply) -> Diagnosis {
    let mut facts = Facts::default();
    for _ in 0..8 {
        let (diagnosis, questions) = inquire(graph, case, &facts);
        if questions.is_empty() {
            return diagnosis;
        }
        for question in questions {
            let asked = match &question {
                Question::Again { question, .. } => question,
                question => question,
            };
            let reply = server(asked);
            facts.insert(question, reply);
        }
    }
    panic!("the rules never stop asking");
}

fn only(diagnosis: &Diagnosis) -> &Finding {
    assert_eq!(diagnosis.findings.len(), 1, "{:#?}", diagnosis.findings);
    &diagnosis.findings[0]
}

fn names(chain: &[ObjectRef]) -> Vec<String> {
    chain.iter().map(ObjectRef::short).collect()
}

fn commands(finding: &Finding) -> Vec<&str> {
    finding.remedies.iter().filter_map(|remedy| remedy.command.as_deref()).collect()
}

fn denies_finalizer(question: &Question) -> Reply {
    match question {
        Question::RemoveFinalizer { .. } => {
            refused(500, "admission webhook \"digester.test.io\" denied the request: no secret \"cred0\"")
        }
        Question::Get(path) if path.ends_with("/mutatingwebhookconfigurations") => ok(json!({ "items": [
            { "metadata": { "name": "digester" }, "webhooks": [{ "name": "digester.test.io" }] },
        ] })),
        _ => healthy(question),
    }
}

#[test]
fn the_ci_pod_whose_webhook_denies_the_collectors_patch() {
    let diagnosis = diagnosis(
        "Pod/build-1 terminating finalizer=foregroundDeletion grace=0",
        &["Pod/build-1"],
        denies_finalizer,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::AdmissionDenied, Verdict::Proven));
    let actor = finding.by.as_ref().unwrap();
    assert_eq!(actor.webhook.as_deref(), Some("digester.test.io"));
    assert_eq!(actor.configuration.as_deref(), Some("digester"));
    assert_eq!(actor.finalizer.as_deref(), Some("foregroundDeletion"));
    assert_eq!(
        finding.evidence[0].text,
        "admission webhook \"digester.test.io\" denied the request: no secret \"cred0\""
    );
    assert_eq!(commands(finding)[0], "kubectl cascade delete -n x pod/build-1 --policy background");
    assert!(finding.remedies[0].risk.is_some());
    assert_eq!(diagnosis.objects[0].state, State::Stuck);
}

#[test]
fn the_way_out_is_not_offered_where_it_is_refused_too() {
    let server = |question: &Question| match question {
        Question::Delete { .. } => refused(403, "admission webhook \"w\" denied the request: no"),
        _ => denies_finalizer(question),
    };
    let diagnosis =
        diagnosis("ConfigMap/a terminating finalizer=foregroundDeletion", &["ConfigMap/a"], server);
    assert!(commands(only(&diagnosis)).iter().all(|command| !command.contains("--policy")));
}

#[test]
fn only_the_collector_is_refused_and_acting_as_it_proves_so() {
    let server = |question: &Question| match question {
        Question::RemoveFinalizer { identity: Identity::Collector, .. } => {
            refused(403, "admission webhook \"auth.test\" denied the request: unknown user")
        }
        _ => healthy(question),
    };
    let diagnosis =
        diagnosis("ConfigMap/a terminating finalizer=foregroundDeletion", &["ConfigMap/a"], server);
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::AdmissionDenied, Verdict::Proven));
    assert!(finding.evidence.iter().any(|evidence| evidence.text.contains("only the collector is refused")));
}

#[test]
fn without_the_right_to_act_as_the_collector_its_refusal_is_only_consistent() {
    let server = |question: &Question| match question {
        Question::RemoveFinalizer { identity: Identity::Collector, .. } => refused(
            403,
            "serviceaccounts \"generic-garbage-collector\" is forbidden: User \"ada\" cannot impersonate resource \"serviceaccounts\"",
        ),
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => {
            refused(403, "User \"ada\" cannot get resource \"leases\"")
        }
        Question::Access { .. } => {
            refused(403, "User \"ada\" cannot create resource \"subjectaccessreviews\"")
        }
        _ => healthy(question),
    };
    let diagnosis =
        diagnosis("ConfigMap/a terminating finalizer=foregroundDeletion", &["ConfigMap/a"], server);
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::AdmissionDenied, Verdict::Consistent));
    assert!(finding.also.contains(&Cause::CollectorDown));
    assert_eq!(diagnosis.unchecked.len(), 4, "{:#?}", diagnosis.unchecked);
    assert!(commands(finding)[0].ends_with("--policy background"));
}

#[test]
fn a_held_dependent_blocks_its_foreground_owner() {
    let diagnosis = diagnosis(
        "Pod/build-1 terminating finalizer=foregroundDeletion grace=0
         Secret/s terminating finalizer=example.test/hold <- Pod/build-1!",
        &["Pod/build-1"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::FinalizerHeld, Verdict::Proven));
    assert_eq!(names(&finding.chain), ["Pod/build-1", "Secret/s"]);
    assert_eq!(finding.object.short(), "Secret/s");
    assert!(finding.summary.contains("blockOwnerDeletion"));
    let commands = commands(finding);
    assert_eq!(commands[0], "kubectl cascade delete -n x pod/build-1 --policy background");
    // What ends the wait for good stands first.
    assert!(finding.remedies[0].text.starts_with("start or repair the controller that serves"));
    assert!(finding.remedies[1].risk.as_ref().unwrap().contains("Secret/s stays Terminating"));
    assert!(!finding.remedies[1].text.contains("admission"));
    assert_eq!(
        *commands.last().unwrap(),
        "kubectl cascade release -n x secret/s --finalizer example.test/hold"
    );
}

#[test]
fn what_frees_the_owner_alone_names_all_that_stays() {
    let diagnosis = diagnosis(
        "Deployment/d terminating finalizer=foregroundDeletion
         ReplicaSet/r terminating finalizer=foregroundDeletion <- Deployment/d!*
         Pod/p terminating finalizer=example.test/hold grace=0 <- ReplicaSet/r!*",
        &["Deployment/d"],
        healthy,
    );
    let risk = only(&diagnosis).remedies[1].risk.as_deref();
    let all = "frees Deployment/d alone: ReplicaSet/r and Pod/p stay Terminating until the cause of Pod/p is solved";
    assert_eq!(risk, Some(all));
}

#[test]
fn an_orphan_deletion_is_never_to_be_ended_in_background_which_deletes_what_should_stay() {
    let denies = |question: &Question| match question {
        Question::RemoveReference { .. } => refused(403, "admission webhook \"w\" denied the request: no"),
        _ => denies_finalizer(question),
    };
    let down = |question: &Question| match question {
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => lease(60),
        _ => healthy(question),
    };
    let dependent = "\nConfigMap/d <- ConfigMap/o!";
    let beside = "\nConfigMap/d <- ConfigMap/o!, ConfigMap/other\nConfigMap/other";
    for below in ["", dependent, beside] {
        let text = format!("ConfigMap/o terminating finalizer=orphan{below}");
        let servers: [&dyn Fn(&Question) -> Reply; 3] = [&denies, &down, &healthy];
        for server in servers {
            let diagnosis = diagnosis(&text, &["ConfigMap/o"], server);
            let finding = only(&diagnosis);
            assert!(!finding.remedies.is_empty(), "{finding:#?}");
            assert!(commands(finding).iter().all(|command| !command.contains("--policy")), "{finding:#?}");
        }
    }
}

#[test]
fn a_dependent_of_what_should_be_gone_and_is_refused_waits_for_it_and_is_no_cause() {
    let full = graph(
        "CronJob/c
         Job/j <- CronJob/c!*
         Pod/p <- Job/j!*",
    );
    let server = |question: &Question| match question {
        Question::Delete { subject, .. } if subject.name == "j" => {
            refused(403, "admission webhook \"w\" denied the request: no")
        }
        _ => healthy(question),
    };
    let reference = |name: &str| full.object(at(&full, name)).reference();
    for doomed in [["Job/j", "Pod/p"], ["Pod/p", "Job/j"]] {
        let mut snapshot = full.snapshot().clone();
        snapshot.objects.retain(|object| object.name != "c");
        let doomed = doomed.map(reference).to_vec();
        let case = Case { targets: vec![reference("CronJob/c")], doomed, now: now(), ..Case::default() };
        let diagnosis = examined(&OwnerGraph::new(snapshot), &case, server);
        let finding = only(&diagnosis);
        assert_eq!((finding.cause, finding.object.short().as_str()), (Cause::AdmissionDenied, "Job/j"));
        assert!(finding.also.contains(&Cause::DependentsWaitForOwner));
        assert!(finding.evidence.iter().any(|evidence| evidence.text.ends_with("for example Pod/p")));
    }
}

#[test]
fn what_is_gone_is_not_said_to_be_blocked() {
    let full = graph("ConfigMap/z1\nConfigMap/z2 terminating finalizer=example.test/hold <- ConfigMap/z1!");
    let reference = |name: &str| full.object(at(&full, name)).reference();
    let mut snapshot = full.snapshot().clone();
    snapshot.objects.retain(|object| object.name != "z1");
    let (targets, doomed) = (vec![reference("ConfigMap/z1")], vec![reference("ConfigMap/z2")]);
    let case = Case { targets, doomed, now: now(), ..Case::default() };
    let diagnosis = examined(&OwnerGraph::new(snapshot), &case, healthy);
    assert!(!only(&diagnosis).summary.contains("blocks"), "{}", only(&diagnosis).summary);
}

#[test]
fn a_refused_patch_beats_the_finalizer_it_would_remove_and_no_removal_is_offered() {
    let diagnosis = diagnosis(
        "Job/j terminating finalizer=foregroundDeletion
         Pod/p terminating finalizer=batch.kubernetes.io/job-tracking grace=0 <- Job/j!*",
        &["Job/j"],
        denies_finalizer,
    );
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::AdmissionDenied);
    assert_eq!(names(&finding.chain), ["Job/j", "Pod/p"]);
    assert_eq!(finding.by.as_ref().unwrap().finalizer.as_deref(), Some("batch.kubernetes.io/job-tracking"));
    assert!(
        commands(finding).iter().all(|command| !command.contains("release") && !command.contains("--force"))
    );
}

#[test]
fn a_background_delete_stops_at_a_held_owner_and_foreground_would_go_on() {
    let diagnosis = diagnosis(
        "ConfigMap/mid terminating finalizer=example.test/hold
         ConfigMap/leaf <- ConfigMap/mid!",
        &["ConfigMap/mid"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::FinalizerHeld);
    assert_eq!(finding.also, [Cause::DependentsWaitForOwner]);
    assert!(commands(finding).contains(&"kubectl cascade delete -n x configmap/mid --policy foreground"));
}

#[test]
fn a_stalled_background_delete_explains_what_its_gone_target_left() {
    let full = graph(
        "ConfigMap/top
         ConfigMap/mid terminating finalizer=example.test/hold <- ConfigMap/top!
         ConfigMap/leaf <- ConfigMap/mid!",
    );
    let top = full.object(at(&full, "ConfigMap/top")).reference();
    let doomed = ["ConfigMap/mid", "ConfigMap/leaf"].map(|name| full.object(at(&full, name)).reference());
    let mut snapshot = full.snapshot().clone();
    snapshot.objects.retain(|object| object.name != "top");
    let case = Case { targets: vec![top], doomed: doomed.to_vec(), now: now(), ..Case::default() };
    let diagnosis = examined(&OwnerGraph::new(snapshot), &case, healthy);
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::FinalizerHeld);
    assert_eq!(names(&finding.chain), ["ConfigMap/top", "ConfigMap/mid"]);
    assert_eq!(diagnosis.objects[0].state, State::Gone);
}

#[test]
fn the_dependents_delete_is_denied() {
    let server = |question: &Question| match question {
        Question::Delete { subject, .. } if subject.name == "r1" => {
            refused(500, "Internal error occurred: failed calling webhook \"v.test\": service not found")
        }
        _ => healthy(question),
    };
    let diagnosis = diagnosis(
        "ConfigMap/vol terminating finalizer=foregroundDeletion
         Widget/r1 <- ConfigMap/vol!",
        &["ConfigMap/vol"],
        server,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::AdmissionUnreachable, Verdict::Proven));
    assert_eq!(finding.object.short(), "Widget/r1");
    let last = finding.remedies.last().unwrap();
    assert!(last.command.as_ref().unwrap().contains("configmap/vol --policy background"));
    assert!(last.risk.as_ref().unwrap().contains("Widget/r1 stays behind"));
}

#[test]
fn a_controller_manager_that_stopped_renewing_its_lease_is_down() {
    let server = |question: &Question| match question {
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => lease(60),
        _ => healthy(question),
    };
    let diagnosis = diagnosis(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         Secret/d <- ConfigMap/o!",
        &["ConfigMap/o"],
        server,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::CollectorDown, Verdict::Proven));
    assert_eq!(names(&finding.chain), ["ConfigMap/o", "Secret/d"]);
}

#[test]
fn nothing_refuses_and_the_collector_is_alive_so_it_backs_off_or_is_stale_by_age() {
    let text = "ConfigMap/o terminating finalizer=foregroundDeletion";
    let young = diagnosis(text, &["ConfigMap/o"], healthy);
    let finding = only(&young);
    assert_eq!(
        (finding.cause, finding.also.as_slice(), finding.verdict),
        (Cause::CollectorBackoff, [Cause::CollectorStale].as_slice(), Verdict::Consistent)
    );
    let graph = graph(text);
    let targets = vec![graph.object(0).reference()];
    let later = now() + jiff::SignedDuration::from_secs(3000);
    let case = Case { targets, now: later, ..Case::default() };
    let old = examined(&graph, &case, |question| match question {
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => {
            ok(json!({ "spec": { "holderIdentity": "k", "renewTime": now().to_string() } }))
        }
        _ => healthy(question),
    });
    assert_eq!(only(&old).cause, Cause::CollectorStale);
    assert_eq!(only(&old).also, [Cause::CollectorBackoff]);
}

#[test]
fn a_reference_to_a_kind_that_nobody_serves_freezes_the_dependent() {
    let diagnosis = diagnosis(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         Secret/d <- ConfigMap/o!, gone.test/v9#Thing/t@u9",
        &["ConfigMap/o"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::OwnerKindUnserved, Verdict::Proven));
    assert_eq!(finding.object.short(), "Secret/d");
}

#[test]
fn a_cluster_scoped_dependent_of_a_namespaced_owner_is_never_collected() {
    let diagnosis = diagnosis(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         ClusterRole/c <- x:ConfigMap/o!",
        &["ConfigMap/o"],
        healthy,
    );
    assert_eq!(only(&diagnosis).cause, Cause::ClusterScopedDependent);
    assert_eq!(
        commands(only(&diagnosis))[0],
        "kubectl cascade delete clusterrole.rbac.authorization.k8s.io/c"
    );
}

#[test]
fn an_object_that_owns_itself_waits_for_itself() {
    let diagnosis = diagnosis(
        "ConfigMap/o terminating finalizer=foregroundDeletion <- ConfigMap/o!",
        &["ConfigMap/o"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::OwnsItself);
    assert!(commands(finding)[0].starts_with("kubectl patch -n x configmap/o"));
    assert!(commands(finding)[1].ends_with("--policy background"));
}

#[test]
fn two_objects_below_a_gone_target_that_own_each_other_are_leaked() {
    let full = graph(
        "ConfigMap/top
         ConfigMap/a <- ConfigMap/top!, ConfigMap/b!
         ConfigMap/b <- ConfigMap/top!, ConfigMap/a!",
    );
    let top = full.object(at(&full, "ConfigMap/top")).reference();
    let doomed = ["ConfigMap/a", "ConfigMap/b"].map(|name| full.object(at(&full, name)).reference());
    let mut snapshot = full.snapshot().clone();
    snapshot.objects.retain(|object| object.name != "top");
    let case = Case { targets: vec![top], doomed: doomed.to_vec(), now: now(), ..Case::default() };
    let diagnosis = examined(&OwnerGraph::new(snapshot), &case, healthy);
    assert_eq!(diagnosis.findings.len(), 2);
    assert!(diagnosis.findings.iter().all(|finding| finding.cause == Cause::OwnershipCycle));
}

#[test]
fn a_pod_within_its_grace_period_waits_and_is_not_stuck() {
    let text = "Pod/p terminating grace=30 node=n1";
    let graph = graph(text);
    let deleted = graph.object(0).deleted.unwrap();
    let case = Case {
        targets: vec![graph.object(0).reference()],
        now: deleted - jiff::SignedDuration::from_secs(20),
        ..Case::default()
    };
    let server = |question: &Question| match question {
        Question::Get(path) if path == "/api/v1/nodes/n1" => ok(json!({ "status": {} })),
        _ => healthy(question),
    };
    let diagnosis = examined(&graph, &case, server);
    assert_eq!(only(&diagnosis).cause, Cause::GracePeriod);
    assert_eq!(diagnosis.objects[0].state, State::Waiting);
}

#[test]
fn a_pod_past_its_grace_period_is_explained_by_its_node() {
    let node = |body: Option<serde_json::Value>| {
        move |question: &Question| match question {
            Question::Get(path) if path == "/api/v1/nodes/n1" => {
                body.clone().map_or(refused(404, "nodes \"n1\" not found"), ok)
            }
            _ => healthy(question),
        }
    };
    let ready = |status: &str| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let text = "Pod/p terminating grace=30 node=n1";
    for (body, cause, state) in [
        (Some(json!({ "status": {} })), Cause::NodeUnreachable, State::Stuck),
        (Some(ready("Unknown")), Cause::NodeUnreachable, State::Stuck),
        (Some(ready("True")), Cause::KubeletStuck, State::Stuck),
        // One minute past its deletionTimestamp: Pod GC still has time.
        (None, Cause::NodeMissing, State::Waiting),
    ] {
        let diagnosis = diagnosis(text, &["Pod/p"], node(body));
        let finding = only(&diagnosis);
        assert_eq!((finding.cause, diagnosis.objects[0].state), (cause, state));
        assert_eq!(finding.by.as_ref().unwrap().node.as_deref(), Some("n1"));
    }
}

#[test]
fn a_dead_node_first_then_the_finalizer_that_is_left() {
    let diagnosis =
        diagnosis("Pod/p terminating grace=30 node=n1 finalizer=example.test/hold", &["Pod/p"], |question| {
            match question {
                Question::Get(path) if path == "/api/v1/nodes/n1" => ok(json!({ "status": {} })),
                _ => healthy(question),
            }
        });
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::NodeUnreachable);
    assert_eq!(finding.also, [Cause::FinalizerHeld]);
}

#[test]
fn a_node_that_may_not_be_read_is_unknown() {
    let diagnosis = diagnosis("Pod/p terminating grace=30 node=n1", &["Pod/p"], |question| match question {
        Question::Get(path) if path == "/api/v1/nodes/n1" => {
            refused(403, "nodes \"n1\" is forbidden: User \"ada\" cannot get resource \"nodes\"")
        }
        _ => healthy(question),
    });
    assert_eq!(only(&diagnosis).verdict, Verdict::Unknown);
    assert!(diagnosis.unchecked[0].why.contains("cannot get resource \"nodes\""));
}

#[test]
fn what_moves_is_only_said_to_move() {
    let graph = graph(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         Secret/a <- ConfigMap/o!
         Secret/b <- ConfigMap/o!",
    );
    let target = graph.object(at(&graph, "ConfigMap/o")).reference();
    let moving = [(target.uid.clone(), Pace { left: 95, per_second: Some(14.0) })].into();
    let case = Case { targets: vec![target], moving, now: now(), ..Case::default() };
    let diagnosis = examined(&graph, &case, healthy);
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::Progressing);
    assert!(finding.summary.contains("95 objects are left, at 14.0 a second: about 7 s more"));
    assert_eq!(diagnosis.objects[0].state, State::Waiting);
}

#[test]
fn dependents_that_are_made_anew_are_no_progress() {
    let graph = graph(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         Secret/c7 terminating finalizer=a/b created=2026-01-02T03:04:00Z <- ConfigMap/o!
         Secret/c8 created=2026-01-02T03:04:01Z <- ConfigMap/o!",
    );
    let target = graph.object(at(&graph, "ConfigMap/o")).reference();
    let moving = [(target.uid.clone(), Pace { left: 3, per_second: Some(1.0) })].into();
    let case = Case { targets: vec![target], moving, now: now(), ..Case::default() };
    let diagnosis = examined(&graph, &case, healthy);
    assert_eq!(only(&diagnosis).cause, Cause::DependentsRecreated);
    assert_eq!(diagnosis.objects[0].state, State::Stuck);
}

#[test]
fn read_only_probing_sends_no_dry_run_and_says_so() {
    let graph = graph("ConfigMap/a terminating finalizer=foregroundDeletion");
    let targets = vec![graph.object(0).reference()];
    let case = Case { targets, probing: Probing::Read, now: now(), ..Case::default() };
    let diagnosis = examined(&graph, &case, |question| {
        assert!(!question.is_write(), "{question:?}");
        healthy(question)
    });
    assert!(diagnosis.unchecked.iter().any(|unchecked| unchecked.why.contains("--probe=read")));
    assert!(diagnosis.findings.iter().all(|finding| finding.verdict == Verdict::Unknown));
}

#[test]
fn two_hundred_held_dependents_are_one_finding_and_few_questions() {
    let mut text = "ConfigMap/o terminating finalizer=foregroundDeletion\n".to_owned();
    for number in 0..200 {
        text.push_str(&format!("Secret/s{number} terminating finalizer=a.test/b <- ConfigMap/o!\n"));
    }
    let asked = std::cell::Cell::new(0);
    let diagnosis = diagnosis(&text, &["ConfigMap/o"], |question| {
        asked.set(asked.get() + 1);
        healthy(question)
    });
    assert_eq!(only(&diagnosis).alike.len(), 199);
    let holding: std::collections::BTreeSet<_> = diagnosis.holding().into_iter().collect();
    assert!(diagnosis.holding().len() == 200 && holding.len() == 200);
    assert!(asked.get() < 40, "{} questions", asked.get());
}

#[test]
fn what_holds_is_neither_what_waits_for_it_nor_what_only_takes_its_time() {
    let graph = graph(
        "ConfigMap/a terminating finalizer=foregroundDeletion
         ConfigMap/b terminating finalizer=foregroundDeletion
         Secret/s terminating finalizer=a.test/b <- ConfigMap/a!, ConfigMap/b!
         Pod/p terminating grace=3600 node=n1 <- ConfigMap/b!",
    );
    let targets = graph.objects().iter().map(|object| object.reference()).collect();
    // While the grace period of the Pod runs.
    let now = now() - jiff::SignedDuration::from_secs(100);
    let diagnosis = examined(&graph, &Case { targets, now, ..Case::default() }, |question| match question {
        Question::Get(path) if path == "/api/v1/nodes/n1" => ok(json!({ "status": {} })),
        _ => healthy(question),
    });
    assert!(diagnosis.findings.iter().any(|finding| finding.cause == Cause::GracePeriod));
    assert_eq!(diagnosis.holding().into_iter().map(ObjectRef::short).collect::<Vec<_>>(), ["Secret/s"]);
}

#[test]
fn a_live_target_has_no_findings_but_says_what_would_hold_it() {
    let diagnosis = diagnosis("Secret/s finalizer=example.test/hold", &["Secret/s"], healthy);
    assert!(diagnosis.findings.is_empty());
    assert_eq!(diagnosis.objects[0].state, State::Live);
    assert_eq!(diagnosis.objects[0].would_hold, Some(vec![Holder::Finalizer("example.test/hold".into())]));
}

#[test]
fn a_dependent_with_another_owner_whose_reference_cannot_be_removed() {
    let server = |question: &Question| match question {
        Question::RemoveReference { .. } => refused(
            422,
            "secrets \"d\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
        ),
        _ => healthy(question),
    };
    let diagnosis = diagnosis(
        "ConfigMap/a terminating finalizer=foregroundDeletion
         ConfigMap/b
         Secret/d <- ConfigMap/a!, ConfigMap/b",
        &["ConfigMap/a"],
        server,
    );
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::AdmissionDenied);
    assert_eq!(finding.by.as_ref().unwrap().binding.as_deref(), Some("b"));
    assert_eq!(finding.object.short(), "Secret/d");
}

#[test]
fn a_refusal_of_ours_holds_nothing_where_the_collector_is_let_through() {
    let server = |question: &Question| match question {
        Question::RemoveFinalizer { identity: Identity::Caller, .. } => {
            refused(403, "admission webhook \"people.test\" denied the request: only controllers may do this")
        }
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => lease(60),
        _ => healthy(question),
    };
    let diagnosis =
        diagnosis("ConfigMap/a terminating finalizer=foregroundDeletion", &["ConfigMap/a"], server);
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::CollectorDown, Verdict::Proven));
    assert!(finding.evidence.iter().any(|evidence| evidence.text.contains("only controllers may do this")));
}

#[test]
fn a_refusal_that_is_about_who_asks_does_not_explain_a_finalizer_and_its_removal_is_not_offered() {
    let server = |question: &Question| match question {
        Question::RemoveFinalizer { identity: Identity::Caller, .. } => {
            refused(403, "admission webhook \"people.test\" denied the request: only controllers may do this")
        }
        _ => healthy(question),
    };
    let diagnosis =
        diagnosis("ConfigMap/a terminating finalizer=example.test/hold", &["ConfigMap/a"], server);
    let finding = only(&diagnosis);
    assert_eq!(
        (finding.cause, finding.also.as_slice()),
        (Cause::FinalizerHeld, [Cause::AdmissionDenied].as_slice())
    );
    assert!(commands(finding).is_empty(), "{finding:#?}");
}

#[test]
fn an_unreadable_kind_may_hold_a_foreground_owner_but_a_dead_or_forbidden_one_is_not_blamed() {
    let cause = |reason: &str, message: &str| {
        let mut snapshot = graph("ConfigMap/o terminating finalizer=foregroundDeletion").into_snapshot();
        snapshot.gaps.push(Gap {
            resource: "graphs".into(),
            group: "example.test".into(),
            version: None,
            reason: reason.into(),
            message: message.into(),
        });
        let graph = OwnerGraph::new(snapshot);
        let targets = vec![graph.object(0).reference()];
        let case = Case { targets, now: now(), ..Case::default() };
        examined(&graph, &case, healthy).findings[0].cause
    };
    let broken = "storage is (re)initializing: conversion webhook for example.test/v1, Kind=Graph failed";
    assert_eq!(cause("TooManyRequests", broken), Cause::KindUnreadable);
    assert_eq!(cause("Forbidden", "graphs is forbidden"), Cause::CollectorBackoff);
    assert_eq!(cause("ServiceUnavailable", "the server is currently unable"), Cause::CollectorBackoff);
}

#[test]
fn the_canary_decides_between_back_off_stale_and_down() {
    let graph = graph("ConfigMap/o terminating finalizer=foregroundDeletion");
    let targets = vec![graph.object(0).reference()];
    let case = Case { targets, probing: Probing::Canary, now: now(), ..Case::default() };
    let said = |collected: bool, after: Reply| {
        let diagnosis = examined(&graph, &case, |question| match question {
            Question::Canary { .. } => ok(json!({ "collected": collected, "text": "" })),
            Question::Nudge(_) => after.clone(),
            _ => healthy(question),
        });
        (only(&diagnosis).cause, only(&diagnosis).verdict)
    };
    let there = ok(json!({ "metadata": { "uid": "ConfigMap/o", "finalizers": ["foregroundDeletion"] } }));
    assert_eq!(said(true, refused(404, "gone")), (Cause::CollectorBackoff, Verdict::Proven));
    assert_eq!(said(true, there.clone()), (Cause::CollectorStale, Verdict::Consistent));
    assert_eq!(said(false, there), (Cause::CollectorDown, Verdict::Consistent));
}

#[test]
fn without_canary_nothing_that_writes_is_asked() {
    diagnosis("ConfigMap/o terminating finalizer=foregroundDeletion", &["ConfigMap/o"], |question| {
        assert!(!question.is_canary(), "{question:?}");
        healthy(question)
    });
}

#[test]
fn a_pod_whose_controller_is_no_job_keeps_its_job_tracking_for_ever() {
    let diagnosis = diagnosis(
        "ReplicaSet/r
         Pod/p terminating finalizer=batch.kubernetes.io/job-tracking grace=0 <- ReplicaSet/r!*",
        &["Pod/p"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!((finding.cause, finding.verdict), (Cause::JobTracking, Verdict::Proven));
    // The Job controller never comes: it is not to be waited for.
    let ways: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.text.as_str()).collect();
    assert_eq!(ways, ["as the last resort remove batch.kubernetes.io/job-tracking from Pod/p"]);
}

#[test]
fn a_held_dependent_in_another_namespace_is_a_wrong_reference() {
    let diagnosis = diagnosis(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         other:Secret/s terminating finalizer=a.test/b <- x:ConfigMap/o!",
        &["ConfigMap/o"],
        healthy,
    );
    let finding = only(&diagnosis);
    assert_eq!(finding.cause, Cause::CrossNamespaceOwner);
    assert_eq!(finding.also, [Cause::FinalizerHeld]);
}

#[test]
fn what_a_controller_makes_to_clean_up_is_not_made_anew() {
    let diagnosis = diagnosis(
        "Widget/w terminating finalizer=example.test/hold
         Job/cleanup created=2026-01-02T03:04:00Z <- Widget/w!*
         Pod/cleanup-1 created=2026-01-02T03:04:01Z <- Job/cleanup!*",
        &["Widget/w"],
        healthy,
    );
    assert_eq!(only(&diagnosis).cause, Cause::FinalizerHeld);
}

#[test]
fn a_deletion_that_has_just_begun_waits_for_its_turn() {
    let graph = graph("ConfigMap/o terminating finalizer=foregroundDeletion\nSecret/d <- ConfigMap/o!");
    let target = graph.object(at(&graph, "ConfigMap/o"));
    let begun = target.deleted.unwrap();
    let case = Case {
        targets: vec![target.reference()],
        now: begun + jiff::SignedDuration::from_secs(3),
        ..Case::default()
    };
    let diagnosis = examined(&graph, &case, |question| match question {
        Question::Get(path) | Question::Lease(path) if path.contains("leases") => ok(json!({
            "spec": { "holderIdentity": "k", "leaseDurationSeconds": 15, "renewTime": now().to_string() },
        })),
        _ => healthy(question),
    });
    assert_eq!(only(&diagnosis).cause, Cause::Progressing);
    assert_eq!(diagnosis.objects[0].state, State::Waiting);
}

/// A held Widget that was read in v1, of a kind that is served in v2, too, and stored in `stored`.
fn read_in_v1(stored: Option<&str>, probing: Probing) -> Diagnosis {
    use crate::model::catalog::{Catalog, Resource};
    let mut snapshot = graph("Widget/w terminating finalizer=a.test/b").into_snapshot();
    let v1 = (**snapshot.catalog.served("example.test/v1", "Widget").unwrap()).clone();
    let v2 = Resource { version: "v2".into(), ..v1.clone() };
    snapshot.catalog = Catalog::new(vec![v2, v1], Vec::new(), Vec::new());
    let graph = OwnerGraph::new(snapshot);
    let targets = vec![graph.object(0).reference()];
    let case = Case { targets, probing, now: now(), ..Case::default() };
    examined(&graph, &case, |question| match question {
        Question::Get(path) if path.ends_with("/widgets.example.test") => match stored {
            Some(stored) => ok(json!({
                "metadata": { "name": "widgets.example.test" },
                "spec": {
                    "versions": [
                        { "name": "v1", "storage": stored == "v1" }, { "name": "v2", "storage": stored == "v2" },
                    ],
                    "conversion": { "webhook": { "clientConfig": { "url": "https://dead.test/c" } } },
                },
            })),
            None => refused(403, "User \"u\" cannot get resource"),
        },
        Question::Get(path) if path.starts_with("/apis/example.test/v2/") => refused(
            500,
            "conversion webhook for example.test/v1, Kind=Widget failed: Post: connection refused",
        ),
        _ => healthy(question),
    })
}

#[test]
fn a_removal_that_a_dry_run_accepts_and_that_cannot_be_converted_to_the_stored_version() {
    for probing in [Probing::DryRun, Probing::Read] {
        let diagnosis = read_in_v1(Some("v2"), probing);
        let finding = only(&diagnosis);
        assert_eq!(
            (finding.cause, finding.verdict),
            (Cause::KindUnreadable, Verdict::Proven),
            "{finding:#?}"
        );
        assert_eq!(finding.also, [Cause::FinalizerHeld]);
        let by = finding.by.as_ref().unwrap();
        assert_eq!(by.webhook.as_deref(), Some("https://dead.test/c"));
        assert_eq!(by.configuration.as_deref(), Some("widgets.example.test"));
        assert!(finding.evidence[0].text.contains("connection refused"));
        assert!(finding.evidence[0].source.starts_with("GET /apis/example.test/v2/"));
        assert_eq!(commands(finding), ["kubectl get customresourcedefinition/widgets.example.test -o yaml"]);
    }
}

#[test]
fn another_version_that_cannot_be_converted_to_says_nothing_where_it_is_not_the_stored_one() {
    assert_eq!(only(&read_in_v1(Some("v1"), Probing::DryRun)).cause, Cause::FinalizerHeld);
    // Nobody who may not read the definition knows which one it is.
    let unsure = read_in_v1(None, Probing::DryRun);
    assert_eq!((only(&unsure).cause, only(&unsure).verdict), (Cause::KindUnreadable, Verdict::Consistent));
}

#[test]
fn of_several_finalizers_every_controller_is_to_be_repaired_before_any_removal() {
    let diagnosis = diagnosis(
        "ConfigMap/a terminating finalizer=one.test/x finalizer=two.test/y",
        &["ConfigMap/a"],
        healthy,
    );
    let ways: Vec<&str> = only(&diagnosis).remedies.iter().map(|way| &way.text[..5]).collect();
    assert_eq!(ways, ["start", "start", "as th", "as th"]);
}

/// The last step of a deletion that moved a moment ago.
fn last_step(left: usize, server: impl Fn(&Question) -> Reply) -> (Cause, State) {
    let mut text = "ConfigMap/o terminating finalizer=foregroundDeletion\n".to_owned();
    for number in 1..left {
        text.push_str(&format!("Secret/s{number} terminating finalizer=a.test/b <- ConfigMap/o\n"));
    }
    let graph = graph(&text);
    let target = graph.object(at(&graph, "ConfigMap/o")).reference();
    let mut case = Case { targets: vec![target.clone()], now: now(), ..Case::default() };
    if left == 1 {
        case.emptied.insert(target.uid);
    } else {
        case.moving.insert(target.uid, Pace { left, per_second: None });
    }
    let diagnosis = examined(&graph, &case, server);
    (only(&diagnosis).cause, diagnosis.objects[0].state)
}

#[test]
fn a_dependent_that_went_proves_nothing_of_an_owner_whose_last_step_is_refused() {
    assert_eq!(last_step(1, denies_finalizer).1, State::Stuck);
    assert_eq!(last_step(1, denies_finalizer).0, Cause::AdmissionDenied);
    // Nobody refuses: its turn comes.
    assert_eq!(last_step(1, healthy), (Cause::Progressing, State::Waiting));
    assert_eq!(last_step(3, healthy), (Cause::Progressing, State::Waiting));
    // A large cascade that moves is not looked at one by one.
    assert_eq!(last_step(50, denies_finalizer), (Cause::Progressing, State::Waiting));
}

#[test]
fn among_few_that_are_left_what_is_refused_is_said_though_another_one_went() {
    let graph = graph(
        "ConfigMap/o terminating finalizer=foregroundDeletion
         ConfigMap/m terminating finalizer=foregroundDeletion <- ConfigMap/o!",
    );
    let target = graph.object(at(&graph, "ConfigMap/o")).reference();
    let moving = [(target.uid.clone(), Pace { left: 2, per_second: None })].into();
    let case = Case { targets: vec![target], moving, now: now(), ..Case::default() };
    let diagnosis = examined(&graph, &case, denies_finalizer);
    assert_eq!(only(&diagnosis).cause, Cause::AdmissionDenied);
    assert_eq!(diagnosis.objects[0].state, State::Stuck);
}

#[test]
fn a_canary_that_was_allowed_and_is_not_needed_is_said_not_to_be_made() {
    let canary = |text: &str| {
        let graph = graph(text);
        let targets = vec![graph.object(0).reference()];
        let case = Case { targets, probing: Probing::Canary, now: now(), ..Case::default() };
        examined(&graph, &case, healthy).unchecked.iter().any(|check| check.check == "canary")
    };
    assert!(canary("ConfigMap/a terminating finalizer=a.test/b"));
    assert!(!canary("ConfigMap/a terminating finalizer=foregroundDeletion"));
}
