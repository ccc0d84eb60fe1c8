//! One run of the rules: what they may look at, what they ask, what they say. Every rule works on an [`Inquiry`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::{
    Actor, Case, Cause, Diagnosed, Diagnosis, DryRun, Evidence, Finding, Probing, State, Unchecked, Verdict,
};
use crate::model::catalog::escaped;
use crate::model::diagnosis::event::quoted;
use crate::model::diagnosis::reading::{Reading, is_put_back, read};
use crate::model::facts::{Facts, Identity, Question, Reply, Subject};
use crate::model::forecast::forecast;
use crate::model::graph::{OwnerGraph, OwnerState};
use crate::model::object::{Object, ObjectRef, Uid};
use crate::model::policy::Policy;

/// So many objects of one kind in the same state are examined one by one; the others are taken to be alike.
const EXAMINED: usize = 5;

/// So long a Pod on a missing node is nothing to worry about: Pod GC removes it (reference T3: 40 s of quarantine and
/// a loop of 20 s), in seconds after its deletionTimestamp.
pub(super) const MISSING_NODE_SECONDS: i64 = 120;

static READ_ONLY: LazyLock<Reply> =
    LazyLock::new(|| Reply::NotAsked("dry runs were excluded by --probe=read".to_owned()));
static NO_CANARY: LazyLock<Reply> =
    LazyLock::new(|| Reply::NotAsked("it writes: only with --probe=canary".to_owned()));

/// What tells whether two objects are in the same state.
type Class = (String, String, Vec<String>, bool, Vec<OwnerState>, Option<String>, Uid);

/// How many objects of a class were examined, and the others.
type Classes = BTreeMap<Class, (usize, Vec<ObjectRef>)>;

/// What was explained so far, and what was noted on the way.
pub(super) type Explained = (BTreeSet<usize>, BTreeSet<Unchecked>, Classes, BTreeMap<Uid, Class>);

/// The state of one run of all rules.
pub(super) struct Inquiry<'a> {
    pub(super) graph: &'a OwnerGraph,
    pub(super) case: &'a Case,
    facts: &'a Facts,
    pub(super) findings: Vec<Finding>,
    wanted: BTreeSet<Question>,
    unchecked: BTreeSet<Unchecked>,
    explained: BTreeSet<usize>,
    /// What the server said to dry runs of the DELETE of live targets.
    pub(super) dry_runs: BTreeMap<Uid, DryRun>,
    classes: Classes,
    class_of: BTreeMap<Uid, Class>,
    canary: bool,
}

impl<'a> Inquiry<'a> {
    pub(super) fn new(graph: &'a OwnerGraph, case: &'a Case, facts: &'a Facts) -> Self {
        Self {
            graph,
            case,
            facts,
            findings: Vec::new(),
            wanted: BTreeSet::new(),
            unchecked: BTreeSet::new(),
            explained: BTreeSet::new(),
            dry_runs: BTreeMap::new(),
            classes: BTreeMap::new(),
            class_of: BTreeMap::new(),
            canary: false,
        }
    }

    /// The answer to a question. None means: not asked yet; the rules run again when it is known.
    pub(super) fn ask(&mut self, question: &Question) -> Option<&'a Reply> {
        if question.is_write() && self.case.probing == Probing::Read {
            return Some(&READ_ONLY);
        }
        if question.is_canary() && self.case.probing != Probing::Canary {
            return Some(&NO_CANARY);
        }
        self.canary |= question.is_canary();
        let reply = self.facts.get(question);
        if reply.is_none() {
            self.wanted.insert(question.clone());
        }
        reply
    }

    /// The body of an answer; what could not be read is noted as unchecked, an absent object is not.
    pub(super) fn read(&mut self, path: impl Into<String>) -> Option<&'a serde_json::Value> {
        let question = Question::Get(path.into());
        let reply = self.ask(&question)?;
        if reply.body().is_none() && !reply.is_absent() {
            self.note(&question, reply);
        }
        reply.body()
    }

    /// The answer to a dry run, read; where it says nothing, that is noted as unchecked.
    pub(super) fn probe(&mut self, question: &Question) -> Option<(Reading, &'a Reply)> {
        let identity = match question {
            Question::RemoveFinalizer { identity, .. }
            | Question::Delete { identity, .. }
            | Question::RemoveReference { identity, .. } => *identity,
            _ => Identity::Caller,
        };
        let reply = self.ask(question)?;
        let reading = if is_put_back(question, reply) { Reading::PutBack } else { read(reply, identity) };
        if matches!(reading, Reading::NotAllowed | Reading::Nothing) {
            self.note(question, reply);
        }
        if matches!(reading, Reading::Accepted | Reading::Nothing)
            && let Some(unstorable) = self.unstorable(question)?
        {
            return Some(unstorable);
        }
        Some((reading, reply))
    }

    /// Notes that this question found no answer to build on.
    pub(super) fn note(&mut self, question: &Question, reply: &Reply) {
        if let Some(why) = reply.trouble() {
            self.unchecked(question.source(), why);
        }
    }

    /// Notes a check that could not be made.
    pub(super) fn unchecked(&mut self, check: impl Into<String>, why: impl Into<String>) {
        self.unchecked.insert(Unchecked { check: check.into(), why: why.into() });
    }

    /// Marks an object as explained; false where it was already.
    pub(super) fn begin(&mut self, index: usize) -> bool {
        self.explained.insert(index)
    }

    /// What was explained so far.
    pub(super) fn progress(&self) -> Explained {
        (self.explained.clone(), self.unchecked.clone(), self.classes.clone(), self.class_of.clone())
    }

    /// Takes back what was explained since; what was asked meanwhile stays asked.
    pub(super) fn back_to(&mut self, before: Explained) {
        (self.explained, self.unchecked, self.classes, self.class_of) = before;
    }

    /// Whether an object was explained already.
    pub(super) fn is_explained(&self, index: usize) -> bool {
        self.explained.contains(&index)
    }

    /// Whether this object is to be examined itself. Of many in the same state only the first few are.
    pub(super) fn examines(&mut self, index: usize, target: &ObjectRef) -> bool {
        let object = self.graph.object(index);
        let node = self.graph.snapshot().details.pods.get(&object.uid).map(|pod| pod.node.clone());
        let mut finalizers = object.finalizers.clone();
        finalizers.sort();
        let class: Class = (
            object.resource.qualified(),
            object.namespace.as_deref().unwrap_or_default().to_owned(),
            finalizers,
            object.is_terminating(),
            self.graph.owners(index).map(|(_, resolved)| resolved.state).collect(),
            node,
            target.uid.clone(),
        );
        self.class_of.insert(object.uid.clone(), class.clone());
        let (examined, alike) = self.classes.entry(class).or_default();
        if *examined < EXAMINED {
            *examined += 1;
            return true;
        }
        alike.push(object.reference());
        false
    }

    /// Whether an object should be gone: it is Terminating, or the case says that it is doomed.
    pub(super) fn is_doomed(&self, index: usize) -> bool {
        let object = self.graph.object(index);
        object.is_terminating() || self.case.doomed.iter().any(|doomed| doomed.uid == object.uid)
    }

    /// How long ago this object got its deletionTimestamp, in whole seconds; 0 where it has none or a later one.
    /// A Pod's deletionTimestamp already contains its grace period.
    pub(super) fn age(&self, object: &Object) -> i64 {
        object.deleted.map_or(0, |deleted| (self.case.now.as_second() - deleted.as_second()).max(0))
    }

    /// The object itself, whole.
    pub(super) fn whole(&mut self, index: usize) -> Option<&'a serde_json::Value> {
        let subject = Subject::of(self.graph.object(index));
        let body = self.read(subject.path())?;
        // Another object of the same name says nothing about this one.
        (body["metadata"]["uid"] == *subject.uid.as_str()).then_some(body)
    }

    /// The newest Events about an object that can bear on its deletion, as supporting evidence.
    pub(super) fn events(&mut self, index: usize) -> Vec<Evidence> {
        let object = self.graph.object(index);
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector=involvedObject.uid%3D{}",
            escaped(namespace),
            escaped(object.uid.as_str())
        );
        let Some(reply) = self.ask(&Question::Get(path)) else { return Vec::new() };
        let events = reply.body().and_then(|body| body["items"].as_array());
        events.map(|events| quoted(events, object)).unwrap_or_default()
    }

    /// Adds a finding.
    pub(super) fn say(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Puts the answer together.
    pub(super) fn finish(mut self) -> (Diagnosis, Vec<super::Question>) {
        self.wait_for_turn();
        self.gather_alike();
        if self.case.probing == Probing::Canary && !self.canary {
            self.unchecked("canary", "not made: nothing here waits for the garbage collector alone");
        }
        let objects = self.case.targets.iter().map(|target| self.diagnosed(target)).collect();
        // What is stuck comes before what only takes its time.
        let mut sorted = std::mem::take(&mut self.findings);
        sorted.sort_by_key(|finding| self.is_waiting(finding));
        // Several reasons on one leaf: every repair comes before any last resort.
        sorted.iter_mut().for_each(|finding| finding.remedies.sort_by_key(super::Remedy::stands_last));
        self.findings = sorted;
        let findings = std::mem::take(&mut self.findings);
        let diagnosis = Diagnosis {
            objects,
            findings,
            unchecked: self.unchecked.into_iter().collect(),
            gaps: self.graph.snapshot().gaps.clone(),
        };
        (diagnosis, self.wanted.into_iter().collect())
    }

    /// What nothing refuses, while the collector is busy below another target, most likely waits for its turn only.
    fn wait_for_turn(&mut self) {
        let is_busy = |target: &&ObjectRef| {
            self.case.moving.contains_key(&target.uid) || self.case.emptied.contains(&target.uid)
        };
        let Some(busy) = self.case.targets.iter().find(is_busy) else { return };
        let busy = if self.case.moving.contains_key(&busy.uid) {
            format!("is busy below {}", busy.short())
        } else {
            format!("was busy below {} a moment ago", busy.short())
        };
        for finding in &mut self.findings {
            if matches!(finding.cause, Cause::CollectorBackoff | Cause::CollectorStale)
                && finding.verdict != Verdict::Proven
            {
                finding.also = vec![finding.cause];
                finding.cause = Cause::Progressing;
                finding.summary = format!(
                    "{} waits for its turn, most likely: no dry run of it is refused, and the garbage collector {busy}",
                    finding.object.short()
                );
                finding.remedies = vec![super::Remedy::text("wait")];
            }
        }
    }

    /// Many objects in the same state with one cause are one finding with examples, not 212 findings.
    fn gather_alike(&mut self) {
        let mut kept: Vec<Finding> = Vec::new();
        for finding in std::mem::take(&mut self.findings) {
            let class = self.class_of.get(&finding.object.uid).cloned();
            let crowd = class.as_ref().and_then(|class| self.classes.get(class)).map(|(_, alike)| alike);
            let crowded = crowd.is_some_and(|alike| !alike.is_empty());
            let first = kept.iter_mut().find(|first| {
                crowded
                    && first.cause == finding.cause
                    && first.verdict == finding.verdict
                    && first.by == finding.by
                    && self.class_of.get(&first.object.uid) == class.as_ref()
            });
            match first {
                Some(first) => first.alike.push(finding.object),
                None => kept.push(finding),
            }
        }
        let mut told = BTreeSet::new();
        for finding in &mut kept {
            let Some(class) = self.class_of.get(&finding.object.uid) else { continue };
            if let Some((_, alike)) = self.classes.get(class)
                && told.insert(class.clone())
            {
                finding.alike.extend(alike.iter().cloned());
                finding.unexamined = alike.len();
            }
        }
        self.findings = kept;
    }

    fn diagnosed(&self, target: &ObjectRef) -> Diagnosed {
        let Some(&index) = self.graph.by_uid(&target.uid).first() else {
            // Gone by UID; what should have gone along with it is explained by the findings.
            return Diagnosed::new(target.clone(), State::Gone);
        };
        let namespace = self.going_namespace(index).map(|namespace| self.graph.object(namespace).uid.clone());
        let is_live = !self.graph.object(index).is_terminating();
        if is_live && namespace.is_none() {
            let plan = forecast(self.graph, &[index], Policy::Background);
            let held = plan.entry(index).map(|entry| entry.held_by.clone()).unwrap_or_default();
            let dry_run = self.dry_runs.get(&target.uid).copied().unwrap_or(DryRun::Unknown);
            return Diagnosed {
                would_hold: Some(held),
                dry_run: Some(dry_run),
                ..Diagnosed::new(target.clone(), State::Live)
            };
        }
        let below: BTreeSet<&Uid> =
            self.graph.closure(&[index]).into_iter().map(|member| &self.graph.object(member).uid).collect();
        let relevant: Vec<&Finding> = self
            .findings
            .iter()
            .filter(|finding| {
                let goes_with = |link: &ObjectRef| is_live && Some(&link.uid) == namespace.as_ref();
                below.contains(&finding.object.uid)
                    || finding.chain.iter().any(|link| link.uid == target.uid || goes_with(link))
            })
            .collect();
        let waiting = !relevant.is_empty() && relevant.iter().all(|finding| self.is_waiting(finding));
        // What is made anew as fast as it goes moves, and is stuck all the same.
        let anew = relevant.iter().any(|finding| finding.cause == Cause::DependentsRecreated);
        let refused = relevant.iter().any(|finding| finding.is_refusal());
        let moves = self.case.moving.contains_key(&target.uid) && !anew && !refused;
        let state = if waiting || moves { State::Waiting } else { State::Stuck };
        Diagnosed::new(target.clone(), state)
    }

    /// Whether a finding describes something that ends by itself soon.
    fn is_waiting(&self, finding: &Finding) -> bool {
        match finding.cause {
            Cause::Progressing | Cause::GracePeriod => true,
            // Pod GC removes it: about 40 s of quarantine and a loop of 20 s (reference T3).
            Cause::NodeMissing => {
                let pods = self.graph.by_uid(&finding.object.uid);
                pods.iter().all(|pod| self.age(self.graph.object(*pod)) < MISSING_NODE_SECONDS)
            }
            _ => false,
        }
    }
}

impl Finding {
    /// A finding about the last object of a chain.
    pub(super) fn new(
        cause: Cause,
        verdict: Verdict,
        chain: &[ObjectRef],
        leaf: &ObjectRef,
        summary: String,
    ) -> Self {
        Self {
            cause,
            also: Vec::new(),
            verdict,
            object: leaf.clone(),
            chain: chain.to_vec(),
            summary,
            by: None,
            evidence: Vec::new(),
            remedies: Vec::new(),
            alike: Vec::new(),
            unexamined: 0,
        }
    }

    /// Names the actor.
    pub(super) fn by(mut self, actor: Actor) -> Self {
        self.by = Some(actor);
        self
    }

    /// Adds a further cause, once.
    pub(super) fn also(&mut self, cause: Cause) {
        if cause != self.cause && !self.also.contains(&cause) {
            self.also.push(cause);
        }
    }

    /// Adds evidence.
    pub(super) fn evidence(&mut self, source: impl Into<String>, text: impl Into<String>) {
        let evidence = Evidence { source: source.into(), text: text.into() };
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
    }

    /// A second reason on the same leaf, which has to be solved after this one.
    pub(super) fn then(&mut self, next: Finding) {
        self.also(next.cause);
        for cause in next.also {
            self.also(cause);
        }
        for evidence in next.evidence {
            self.evidence(evidence.source, evidence.text);
        }
        for remedy in next.remedies {
            if !self.remedies.contains(&remedy) {
                self.remedies.push(remedy);
            }
        }
        if self.by.is_none() {
            self.by = next.by;
        }
        self.summary = format!("{}; then: {}", self.summary, next.summary);
    }
}

/// A length of time for a person.
pub(super) fn span(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
