//! Single sentences beside an answer: what was found, joined, or said by the server.

use std::io;

use super::look::{Look, Role};
use super::text::Line;
use crate::model::object::{Object, ObjectRef};
use crate::model::policy::Policy;

/// Nothing matched.
pub fn write_nothing_found(out: &mut impl io::Write, namespace: Option<&str>) -> io::Result<()> {
    let text = match namespace {
        Some(namespace) => format!("No resources found in {namespace} namespace."),
        None => "No resources found".to_owned(),
    };
    Line::new().plain(text).write(out, Look::PLAIN)
}

/// An object that was to be waited for is not there.
pub fn write_absent(
    out: &mut impl io::Write,
    look: Look,
    kind: &str,
    name: &str,
    namespace: Option<&str>,
) -> io::Result<()> {
    let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    Line::new().plain(format!("{kind}/{name} is not there{place}")).write(out, look)
}

/// The objects that were watched are gone.
pub fn write_gone(out: &mut impl io::Write, look: Look, objects: &[Object]) -> io::Result<()> {
    let text = match objects {
        [one] => format!("{} is gone.", one.reference().short()),
        several => format!("All {} objects are gone.", several.len()),
    };
    Line::new().plain(text).write(out, look)
}

/// There is no answer; we go on trying.
pub fn write_lost(out: &mut impl io::Write, look: Look, message: &str) -> io::Result<()> {
    Line::new().plain(format!("{message}; trying again")).write(out, look)
}

/// Kinds that are too many to be watched, by their qualified names.
pub fn write_unwatched(out: &mut impl io::Write, look: Look, kinds: &[String]) -> io::Result<()> {
    let first: Vec<&str> = kinds.iter().take(3).map(String::as_str).collect();
    let text = format!(
        "not watched, because there are too many kinds: {} of them, such as {}",
        kinds.len(),
        first.join(", ")
    );
    Line::new().plain(text).write(out, look)
}

/// The versions of the plugin and, where known, of the server.
pub fn write_versions(out: &mut impl io::Write, client: &str, server: Option<&str>) -> io::Result<()> {
    Line::new().plain(format!("Client Version: v{client}")).write(out, Look::PLAIN)?;
    match server {
        Some(version) => Line::new().plain(format!("Server Version: {version}")).write(out, Look::PLAIN),
        None => Ok(()),
    }
}

/// `--dry-run=server`: admission was asked about the targets alone, since the DELETEs of dependents are the collector's.
pub fn write_admission_accepts(out: &mut impl io::Write, look: Look, targets: usize) -> io::Result<()> {
    let text = match targets {
        1 => "the server would accept this delete; it was not asked about the dependents".to_owned(),
        several => {
            format!("the server would accept these {several} deletes; it was not asked about the dependents")
        }
    };
    Line::new().plain(text).write(out, look)
}

/// The target is already being deleted, as wanted: nothing is sent.
pub fn write_joined(
    out: &mut impl io::Write,
    look: Look,
    object: &Object,
    is_watched: bool,
) -> io::Result<()> {
    let then = if is_watched { "; watching" } else { "" };
    let text = format!("{} is already being deleted this way{then}", object.reference().short());
    Line::new().plain(text).write(out, look)
}

/// The target is not being deleted by itself; it goes with its Namespace.
pub fn write_taken_along(
    out: &mut impl io::Write,
    look: Look,
    namespace: &Object,
    taken: &[&Object],
) -> io::Result<()> {
    let what = match taken {
        [one] => format!("{} goes", one.reference().short()),
        several => format!("{} targets go", several.len()),
    };
    let text = format!("{} is being deleted, and {what} with it; watching", namespace.reference().short());
    Line::new().plain(text).write(out, look)
}

/// The answer to a DELETE did not come, or leaves open whether it was accepted: the object is looked at.
pub fn write_unclear(out: &mut impl io::Write, look: Look, object: &Object, words: &str) -> io::Result<()> {
    let text =
        format!("no clear answer to the DELETE of {}: {words}; looking at it", object.reference().short());
    Line::new().plain(text).write(out, look)
}

/// What the server put into `Warning` headers of its answer to a DELETE.
pub fn write_server_warnings(out: &mut impl io::Write, look: Look, warnings: &[String]) -> io::Result<()> {
    warnings.iter().try_for_each(|warning| Line::new().plain(format!("Warning: {warning}")).write(out, look))
}

/// What `--keep` has changed, though nothing was deleted.
pub fn write_cut(out: &mut impl io::Write, look: Look, cut: &[ObjectRef]) -> io::Result<()> {
    let names: Vec<String> = cut.iter().map(ObjectRef::short).collect();
    let text = format!("warning: already without the ownerReference, by --keep: {}", names.join(", "));
    Line::new().styled(Role::Caution, text).write(out, look)
}

/// Ctrl-C, where standard output holds a document that a program reads.
pub fn write_interrupted(out: &mut impl io::Write, look: Look) -> io::Result<()> {
    Line::new().plain("interrupted: what the server has accepted goes on without us").write(out, look)
}

/// The server answered 200 and changed nothing: a Pod that waits for its kubelet keeps its policy (reference C.4).
pub fn write_switch_without_effect(
    out: &mut impl io::Write,
    look: Look,
    object: &Object,
    policy: Policy,
) -> io::Result<()> {
    let text = format!(
        "The server accepted the switch of {} to {} and changed nothing: a Pod that waits for its kubelet keeps its \
         policy until its grace period is shortened (--grace-period=1).",
        object.reference().short(),
        policy.as_str()
    );
    Line::new().plain(text).write(out, look)
}
