//! The loop of a diagnosis: the rules ask, the server answers, until nothing is left to ask.

use std::collections::BTreeSet;

use crate::cluster::connect::Cluster;
use crate::cluster::metadata::{self, Wanted};
use crate::cluster::probes;
use crate::cluster::request::Request;
use crate::model::diagnosis::{Case, Diagnosis, Finding, Unchecked, inquire, refused};
use crate::model::facts::{Facts, Question, Reply};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Searched, Snapshot, Uid};

/// Each round of answers may lead to further questions; the longest chain of the rules is shorter than this.
const ROUNDS: usize = 8;

/// Explains a case. `graph` must be fresh: what is stuck is read from it, and the probes are about its objects.
/// Sends only what `case.probing` allows. Never fails: what could not be found out is part of the answer.
pub async fn examine(cluster: &Cluster, graph: &OwnerGraph, case: &Case) -> Diagnosis {
    let case = &Case { now: server_time(cluster).await.unwrap_or(case.now), ..case.clone() };
    let mut facts = Facts::default();
    for _ in 0..ROUNDS {
        let (diagnosis, questions) = inquire(graph, case, &facts);
        if questions.is_empty() {
            return diagnosis;
        }
        probes::answer(cluster, questions, &mut facts).await;
    }
    inquire(graph, case, &facts).0
}

/// Explains a case as [`examine`] does; where nothing in view explains it, looks everywhere: a blocking reference from
/// another namespace is invalid, but it blocks (reference F12).
pub async fn explain(cluster: &Cluster, graph: OwnerGraph, case: &Case) -> Diagnosis {
    let diagnosis = examine(cluster, &graph, case).await;
    let narrow = graph.into_snapshot();
    if narrow.searched == Searched::everywhere() || !diagnosis.findings.iter().any(Finding::is_vague) {
        return diagnosis;
    }
    let catalog = narrow.catalog.clone();
    let wanted = Wanted { searched: Searched::everywhere(), pods: true };
    let wide = metadata::graph(cluster, &catalog, &wanted, Vec::new(), &mut |_| {}).await;
    let (wide, unread) = merged(wide.into_snapshot(), narrow);
    let mut wider = examine(cluster, &OwnerGraph::new(wide), case).await;
    if wider.findings.is_empty() || wider.findings.iter().any(Finding::is_vague) {
        let mut diagnosis = diagnosis;
        if unread.is_some() {
            diagnosis.findings.iter_mut().for_each(Finding::may_be_blocked_unseen);
        }
        diagnosis.unchecked.extend(unread);
        return diagnosis;
    }
    wider.gaps = diagnosis.gaps;
    wider.unchecked.extend(unread);
    wider
}

/// What was seen everywhere, and of the kinds that may not be listed everywhere what was seen nearer. The second part
/// says what stayed unseen.
fn merged(mut wide: Snapshot, narrow: Snapshot) -> (Snapshot, Option<Unchecked>) {
    let unread = wide.gaps.iter().find(|gap| !narrow.gaps.contains(gap)).map(|gap| Unchecked {
        check: "blocking dependents in other namespaces".to_owned(),
        why: gap.message.clone(),
    });
    let seen: BTreeSet<Uid> = wide.objects.iter().map(|object| object.uid.clone()).collect();
    for object in narrow.objects {
        let unlisted = wide.gaps.iter().any(|gap| {
            gap.group == object.resource.group
                && (gap.resource == object.resource.plural || gap.resource == "*")
        });
        if unlisted && !seen.contains(&object.uid) {
            wide.objects.push(object);
        }
    }
    for (uid, pod) in narrow.details.pods {
        wide.details.pods.entry(uid).or_insert(pod);
    }
    (wide, unread)
}

/// Who refuses a request of ours, and how to make the server accept it. `question` is the dry run that has the request's
/// meaning, `reply` what the server said. None where that names no refusal, for example because a right is missing.
pub async fn explain_refusal(
    cluster: &Cluster,
    graph: &OwnerGraph,
    case: &Case,
    question: &Question,
    reply: Reply,
) -> Option<Finding> {
    let mut facts = Facts::default();
    facts.insert(question.clone(), reply);
    for _ in 0..ROUNDS {
        let (finding, questions) = refused(graph, case, &facts, question);
        if questions.is_empty() {
            return finding;
        }
        probes::answer(cluster, questions, &mut facts).await;
    }
    refused(graph, case, &facts, question).0
}

/// The server's clock: it wrote the timestamps that ages are counted from, and ours may be wrong.
async fn server_time(cluster: &Cluster) -> Option<jiff::Timestamp> {
    cluster.send(Request::get("/version")).await.ok()?.date
}
