//! The rows of a tree as a diagram: boxes and arrows from owner to dependent, for [`super::super::dot`] and
//! [`super::super::mermaid`]. Grouping, depth and filter are those of the text, so that five hundred Pods are one box
//! here, too.

use std::collections::HashMap;

use super::super::counts::by_kind;
use super::super::fate;
use super::super::look::Look;
use super::walk::{Body, Node, upward};
use super::{Picture, TreeOptions, state_name, terminating};
use crate::model::forecast::Fate;
use crate::model::graph::{OwnerGraph, OwnerState, Resolved};
use crate::model::object::OwnerReference;

/// What is drawn. Boxes are numbered in their order; texts are harmless to a terminal.
#[derive(Debug, Default)]
pub struct Diagram {
    pub(in crate::render) boxes: Vec<Shape>,
    pub(in crate::render) arrows: Vec<Arrow>,
}

/// An object, or several as one.
#[derive(Debug)]
pub(in crate::render) struct Shape {
    /// The lines of its text.
    pub(in crate::render) lines: Vec<String>,
    pub(in crate::render) tone: Tone,
}

/// What a box is coloured for; the text says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::render) enum Tone {
    Plain,
    /// Filtered out, and only there to connect; or not an object.
    Dim,
    /// Terminating, or held.
    Caution,
    /// It goes.
    Bad,
    /// It stays.
    Good,
}

/// From an owner to its dependent, or from a container to its content.
#[derive(Debug)]
pub(in crate::render) struct Arrow {
    pub(in crate::render) from: usize,
    pub(in crate::render) to: usize,
    pub(in crate::render) kind: ArrowKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::render) enum ArrowKind {
    /// Holds a foreground deletion of the owner.
    Blocks,
    /// An ownerReference that does not.
    Owns,
    /// An ownerReference that the collector does not follow; what it resolves to.
    Wrong(&'static str),
    /// No ownerReference at all.
    Contains,
}

/// The diagram of the tree below `roots`, or, where `owners` is set, of the way up from them.
pub fn diagram(graph: &OwnerGraph, roots: &[usize], options: &TreeOptions<'_>, owners: bool) -> Diagram {
    let mut picture = Picture::new(Look::PLAIN, graph, if owners { &[] } else { roots }, options, false);
    if owners {
        picture.nodes = upward(graph, roots, options.depth);
        picture.upward = true;
        picture.namespaces = picture.spans_namespaces();
    }
    picture.diagram()
}

impl Picture<'_> {
    fn diagram(&self) -> Diagram {
        let mut diagram = Diagram::default();
        let mut objects: HashMap<usize, usize> = HashMap::new();
        // The shape of each level on the way to the current row, and the object that it stands for.
        let mut path: Vec<(usize, Option<usize>)> = Vec::new();
        for node in &self.nodes {
            path.truncate(node.depth);
            let number = match &node.body {
                Body::Object { index, .. } => {
                    *objects.entry(*index).or_insert_with(|| diagram.add(self.object_shape(*index)))
                }
                _ => diagram.add(self.other_shape(node)),
            };
            if let Some((above, owner)) = path.last().copied() {
                let (from, to) = if self.upward { (number, above) } else { (above, number) };
                diagram.arrows.push(Arrow { from, to, kind: self.arrow_kind(node, owner) });
            }
            path.push((number, node.object()));
        }
        diagram
    }

    fn object_shape(&self, index: usize) -> Shape {
        let object = self.graph.object(index);
        let columns = self.options.columns.get(&object.uid);
        let mut lines = vec![self.name(object)];
        if let Some(namespace) = object.namespace.as_deref().filter(|_| self.namespaces) {
            lines.push(format!("in {namespace}"));
        }
        let ready = columns.map_or("", |columns| &columns.ready);
        let status = if object.is_terminating() {
            terminating(object)
        } else {
            columns.map_or("", |columns| &columns.status).to_owned()
        };
        lines.push(format!("{ready} {status}").trim().to_owned());
        let entry = self.entries.get(&index);
        lines.extend(entry.map(|entry| fate::sentence(self.look, entry).render(self.look)));
        if !self.upward {
            // Owners that are not there have no shape of their own here.
            lines.extend(self.graph.owners(index).filter(|(_, resolved)| resolved.owner.is_none()).map(
                |(reference, resolved)| {
                    format!("owner {}/{}: {}", reference.kind, reference.name, state_name(resolved.state))
                },
            ));
        }
        let tone = match entry.map(|entry| entry.fate) {
            _ if self.options.matching.is_some_and(|matching| !matching.contains(&index)) => Tone::Dim,
            Some(fate) => fate_tone(fate),
            None if object.is_terminating() => Tone::Caution,
            None => Tone::Plain,
        };
        Shape::new(lines, tone)
    }

    /// What is no single object.
    fn other_shape(&self, node: &Node) -> Shape {
        let counted = |members: &[usize]| {
            let mut lines = vec![by_kind(self.look, self.graph, members).render(self.look)];
            let fate = self.entries.get(&members[0]).map(|entry| entry.fate);
            lines.extend(fate.map(|fate| fate::word(self.look, fate).render(self.look)));
            Shape::new(lines, fate.map_or(Tone::Plain, fate_tone))
        };
        match &node.body {
            Body::Group { members } => {
                let mut counted = counted(members);
                counted.lines.push(self.statuses(members));
                counted.tidy()
            }
            Body::Below { members } | Body::More { members } => counted(members),
            Body::Rest { members } => {
                let mut counted = counted(members);
                counted.lines.insert(0, "without dependents:".to_owned());
                counted
            }
            Body::Contents { container } => {
                let object = self.graph.object(*container);
                let what = if object.is("", "Namespace") { "in" } else { "instances of" };
                Shape::new(vec![format!("{what} {}, not owned by it", object.name)], Tone::Dim)
            }
            Body::Ghost { dependent, position } => {
                let owner = self.graph.owners(*dependent).nth(*position);
                let lines = owner.map_or_else(Vec::new, |(reference, resolved)| {
                    vec![
                        format!("{}/{}", reference.kind, reference.name),
                        state_name(resolved.state).to_owned(),
                    ]
                });
                Shape::new(lines, Tone::Bad)
            }
            Body::Object { .. } => Shape::new(Vec::new(), Tone::Plain),
        }
    }

    fn arrow_kind(&self, node: &Node, above: Option<usize>) -> ArrowKind {
        let block = |members: &[usize]| {
            above.is_some_and(|owner| {
                let uid = &self.graph.object(owner).uid;
                members.iter().all(|member| self.graph.blocks(*member, uid))
            })
        };
        match &node.body {
            Body::Group { members } if block(members) => ArrowKind::Blocks,
            Body::Object { index, parent: Some(parent), .. } => {
                let (owner, dependent) = if self.upward { (*index, *parent) } else { (*parent, *index) };
                let uid = &self.graph.object(owner).uid;
                let reference = self.graph.owners(dependent).find(|(reference, _)| reference.uid == *uid);
                reference.map_or(ArrowKind::Owns, of_reference)
            }
            // That it leads nowhere stands in its shape.
            Body::Ghost { dependent, position } => match self.graph.owners(*dependent).nth(*position) {
                Some((reference, _)) if reference.block_owner_deletion => ArrowKind::Blocks,
                _ => ArrowKind::Owns,
            },
            Body::Object { parent: None, .. }
            | Body::Contents { .. }
            | Body::Rest { .. }
            | Body::More { .. } => ArrowKind::Contains,
            Body::Group { .. } | Body::Below { .. } => ArrowKind::Owns,
        }
    }
}

impl Node {
    fn object(&self) -> Option<usize> {
        match self.body {
            Body::Object { index, .. } => Some(index),
            _ => None,
        }
    }
}

fn of_reference((reference, resolved): (&OwnerReference, Resolved)) -> ArrowKind {
    match resolved.state {
        OwnerState::Live | OwnerState::Terminating if reference.block_owner_deletion => ArrowKind::Blocks,
        OwnerState::Live | OwnerState::Terminating => ArrowKind::Owns,
        state => ArrowKind::Wrong(state_name(state)),
    }
}

fn fate_tone(fate: Fate) -> Tone {
    match fate {
        Fate::Deleted | Fate::CollectedAnyway => Tone::Bad,
        Fate::Held | Fate::Waits | Fate::Leaked => Tone::Caution,
        Fate::Kept | Fate::Orphaned => Tone::Good,
    }
}

impl Diagram {
    fn add(&mut self, new: Shape) -> usize {
        self.boxes.push(new);
        self.boxes.len() - 1
    }
}

impl Shape {
    fn new(lines: Vec<String>, tone: Tone) -> Self {
        Self { lines, tone }.tidy()
    }

    /// Without empty lines, and harmless.
    fn tidy(mut self) -> Self {
        self.lines.retain(|line| !line.is_empty());
        for line in &mut self.lines {
            *line = super::super::sanitize::line(line).into_owned();
        }
        self
    }
}
