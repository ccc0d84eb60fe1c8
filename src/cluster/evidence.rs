//! The loop of a diagnosis: the rules ask, the server answers, until nothing is left to ask.

use crate::cluster::connect::Cluster;
use crate::cluster::probes;
use crate::cluster::request::Request;
use crate::model::diagnosis::{Case, Diagnosis, inquire};
use crate::model::facts::Facts;
use crate::model::graph::OwnerGraph;

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

/// The server's clock: it wrote the timestamps that ages are counted from, and ours may be wrong.
async fn server_time(cluster: &Cluster) -> Option<jiff::Timestamp> {
    cluster.send(Request::get("/version")).await.ok()?.date
}
