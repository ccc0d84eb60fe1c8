//! Ways out, safest first (reference S.3). Each command is complete and reaches the caller's cluster. What the server
//! would refuse is not offered.

use super::Remedy;
use super::inquiry::Inquiry;
use super::reading::{Reading, speaks_of_dry_runs};
use crate::model::facts::{Identity, Question, Reply, Subject};
use crate::model::forecast::some_of;
use crate::model::object::{FOREGROUND_FINALIZER, Object, ObjectRef, Uid};
use crate::model::release::leaves_behind;

impl Remedy {
    /// Something to do that is no single command of ours.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { command: None, text: text.into(), risk: None }
    }

    /// A command, and what it does.
    pub(in crate::model) fn command(command: String, text: impl Into<String>) -> Self {
        Self { command: Some(command), text: text.into(), risk: None }
    }

    /// Whether it takes something away that is to be served, or warns of that: it stands behind everything else.
    pub(super) fn stands_last(&self) -> bool {
        self.text.starts_with("as the last resort ") || self.text.starts_with("do not ")
    }

    /// What it costs.
    pub(in crate::model) fn risk(mut self, risk: impl Into<String>) -> Self {
        self.risk = Some(risk.into());
        self
    }
}

impl Inquiry<'_> {
    /// A complete command about one object.
    pub(super) fn command(&self, start: &str, object: &Object, rest: &[&str]) -> String {
        self.case.caller.command_on(start, object, rest)
    }

    /// A complete command about one object of a cluster-scoped type.
    pub(super) fn cluster_command(&self, start: &str, rest: &[&str]) -> String {
        self.case.caller.command(start, None, rest)
    }

    /// Whether deleting again with `background` frees this object at once and costs no dependent: only
    /// `foregroundDeletion` is left, and no kubelet has to confirm (reference C.4; S.3). Where `orphan` is left, the
    /// collector would then delete every dependent that still refers to it, which are those that should stay.
    pub(super) fn is_freed_by_background(&self, index: usize) -> bool {
        let object = self.graph.object(index);
        object.is_terminating()
            && object.finalizers.len() == 1
            && object.has_finalizer(FOREGROUND_FINALIZER)
            && !(object.is("", "Pod") && object.grace_seconds.unwrap_or(0) > 0)
            && !object.is("", "Namespace")
    }

    /// Delete again with `background`, if that frees the object and DELETE admission lets it pass. It takes the
    /// collector's finalizer off on the DELETE path, where UPDATE admission and validation are not asked.
    pub(super) fn background(&mut self, index: usize, stays: Option<&str>) -> Option<Remedy> {
        if !self.is_freed_by_background(index) {
            return None;
        }
        let graph = self.graph;
        let object = graph.object(index);
        let question = Question::Delete { subject: Subject::of(object), identity: Identity::Caller };
        // P9: the switch itself is a DELETE and may be refused.
        if self.probe(&question).is_some_and(|(reading, _)| reading.is_refusal()) {
            return None;
        }
        let risk = match stays {
            Some(stays) => format!("frees {} alone: {stays}", object.reference().short()),
            None => "what still depends on it is collected afterwards, in background".to_owned(),
        };
        Some(
            Remedy::command(
                self.command("kubectl cascade delete", object, &["--policy", "background"]),
                format!(
                    "delete {} again with the background policy: that takes {} off",
                    object.reference().short(),
                    object.finalizers[0]
                ),
            )
            .risk(risk),
        )
    }

    /// The same for the target at the head of a chain, where the leaf is another object that stays.
    pub(super) fn background_on_target(&mut self, chain: &[ObjectRef]) -> Option<Remedy> {
        let (first, leaf) = (chain.first()?, chain.last()?);
        if first.uid == leaf.uid {
            return None;
        }
        let index = *self.graph.by_uid(&first.uid).first()?;
        let graph = self.graph;
        let terminating = graph.by_uid(&leaf.uid).iter().any(|leaf| graph.object(*leaf).is_terminating());
        let between: Vec<String> = chain[1..chain.len() - 1].iter().map(ObjectRef::short).collect();
        let stays = match (terminating, between.is_empty()) {
            (true, true) => format!("{} stays Terminating until its own cause is solved", leaf.short()),
            (true, false) => format!(
                "{} and {} stay Terminating until the cause of {} is solved",
                some_of(&between, 3),
                leaf.short(),
                leaf.short()
            ),
            (false, true) => {
                format!("{} stays behind and is collected only when its own cause is solved", leaf.short())
            }
            (false, false) => format!(
                "{} and {} stay behind and go only when the cause of {} is solved",
                some_of(&between, 3),
                leaf.short(),
                leaf.short()
            ),
        };
        self.background(index, Some(&stays))
    }

    /// Delete again with `foreground`: allowed on a Terminating object, and its dependents go before it (G4).
    pub(super) fn foreground(&self, index: usize) -> Remedy {
        let object = self.graph.object(index);
        Remedy::command(
            self.command("kubectl cascade delete", object, &["--policy", "foreground"]),
            format!(
                "delete {} again with the foreground policy: its dependents then go without waiting for it",
                object.reference().short()
            ),
        )
        .risk("dependents go before their owner has finished; the finalizer itself stays")
    }

    /// The command that removes one ownerReference, if it still is the one at this position.
    pub(super) fn remove_reference(&self, index: usize, position: usize, owner: &Uid) -> String {
        let object = self.graph.object(index);
        let path = format!("/metadata/ownerReferences/{position}");
        let patch = serde_json::json!([
            { "op": "test", "path": "/metadata/uid", "value": object.uid },
            { "op": "test", "path": format!("{path}/uid"), "value": owner },
            { "op": "remove", "path": path },
        ]);
        self.command("kubectl patch", object, &["--type=json", "-p", &patch.to_string()])
    }

    /// Remove one finalizer, if its own dry run is not refused: the last resort.
    pub(super) fn remove_finalizer(&mut self, index: usize, finalizer: &str) -> Option<Remedy> {
        let graph = self.graph;
        let object = graph.object(index);
        let question = Question::RemoveFinalizer {
            subject: Subject::of(object),
            finalizer: finalizer.to_owned(),
            identity: Identity::Caller,
        };
        if self.probe(&question).is_some_and(|(reading, reply)| {
            let no_dry_run = reply.trouble().is_some_and(|words| speaks_of_dry_runs(&words))
                && matches!(reply, Reply::Refused { .. });
            reading.is_refusal() || no_dry_run || matches!(reading, Reading::Gone | Reading::NotAllowed)
        }) {
            return None;
        }
        Some(
            Remedy::command(
                self.command("kubectl cascade release", object, &["--finalizer", finalizer]),
                format!("as the last resort remove {finalizer} from {}", object.reference().short()),
            )
            .risk(leaves_behind(finalizer)),
        )
    }
}
