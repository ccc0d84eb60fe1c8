//! The tree of what hangs on what, as text: `walk` makes rows, and here are the columns beside them.

mod diagram;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use super::age::age;
use super::counts::{by_kind, number};
use super::fate;
use super::look::{Look, Role};
use super::table::{self, Row};
use super::text::Line;
use crate::model::forecast::{Entry, Forecast};
use crate::model::graph::{OwnerGraph, OwnerState, Resolved};
use crate::model::object::{Columns, Object, OwnerReference, Timestamp, Uid};
pub(super) use diagram::{ArrowKind, Tone};
pub use diagram::{Diagram, diagram};
use walk::{Body, MOST_SIBLINGS, Node, Showing, upward, visible};
pub use walk::{shown, shown_upward};

/// A forest of more trees than this is also kept to about so many lines.
const MOST_TREES: usize = 60;
/// Rows of a forest of even more kinds than that; a few lines of counts follow.
const MOST_ROWS: usize = 45;
/// Levels that are drawn with branches of their own; deeper ones say their level instead, so that a chain of
/// thousands stays readable and its text grows with its length, not with the square of it.
const MOST_BRANCHES: usize = 24;

/// What to show of a tree.
#[derive(Debug, Clone, Copy)]
pub struct TreeOptions<'a> {
    /// The moment that ages are counted to.
    pub now: Timestamp,
    /// How the server prints each object; who is not in it gets empty cells.
    pub columns: &'a BTreeMap<Uid, Columns>,
    /// Adds what a delete would do to each object.
    pub forecast: Option<&'a Forecast>,
    /// The roots were found, not named: those without dependents form one line of counts.
    pub forest: bool,
    /// No grouping and no line of counts.
    pub expand: bool,
    /// So many levels; 1 is the roots and their dependents.
    pub depth: Option<usize>,
    /// Adds FINALIZERS, BLOCKS and UID.
    pub wide: bool,
    /// All namespaces were asked for: which one an object is in is said even where they are all in one.
    pub everywhere: bool,
    /// No line of headers.
    pub no_headers: bool,
    /// A column for each of these labels.
    pub labels: &'a [String],
    /// Only these objects; what lies between them and a root is shown dimmed. None shows all.
    pub matching: Option<&'a BTreeSet<usize>>,
}

impl<'a> TreeOptions<'a> {
    /// The usual columns, nothing left out.
    pub fn new(now: Timestamp, columns: &'a BTreeMap<Uid, Columns>) -> Self {
        Self {
            now,
            columns,
            forecast: None,
            forest: false,
            expand: false,
            depth: None,
            wide: false,
            everywhere: false,
            no_headers: false,
            labels: &[],
            matching: None,
        }
    }
}

/// The tree as text: `NAMESPACE NAME READY STATUS AGE`, the first where there are several; with a forecast also
/// FATE; [`TreeOptions::wide`] adds FINALIZERS, BLOCKS and UID.
pub fn write_tree(
    out: &mut impl io::Write,
    look: Look,
    graph: &OwnerGraph,
    roots: &[usize],
    options: &TreeOptions<'_>,
) -> io::Result<()> {
    Picture::new(look, graph, roots, options, false).write(out)
}

/// The tree of a plan: NAME and FATE, and STATUS where something is Terminating already.
pub(super) fn write_plan_tree(
    out: &mut impl io::Write,
    look: Look,
    graph: &OwnerGraph,
    roots: &[usize],
    options: &TreeOptions<'_>,
) -> io::Result<()> {
    Picture::new(look, graph, roots, options, true).write(out)
}

/// The way up from these objects to their roots, with what each ownerReference resolves to.
pub fn write_owners(
    out: &mut impl io::Write,
    look: Look,
    graph: &OwnerGraph,
    objects: &[usize],
    options: &TreeOptions<'_>,
) -> io::Result<()> {
    let mut picture = Picture::new(look, graph, &[], options, false);
    picture.nodes = upward(graph, objects, options.depth);
    picture.upward = true;
    picture.namespaces = picture.spans_namespaces();
    picture.write(out)
}

struct Picture<'a> {
    look: Look,
    graph: &'a OwnerGraph,
    options: &'a TreeOptions<'a>,
    entries: HashMap<usize, &'a Entry>,
    ambiguous: BTreeSet<&'a str>,
    visible: Vec<bool>,
    nodes: Vec<Node>,
    namespaces: bool,
    plan: bool,
    upward: bool,
}

impl<'a> Picture<'a> {
    fn new(
        look: Look,
        graph: &'a OwnerGraph,
        roots: &[usize],
        options: &'a TreeOptions<'a>,
        plan: bool,
    ) -> Self {
        let entries = options.forecast.map_or_else(HashMap::new, |forecast| {
            forecast.entries.iter().map(|entry| (entry.object, entry)).collect()
        });
        let mut picture = Self {
            look,
            graph,
            options,
            entries,
            ambiguous: ambiguous_kinds(graph),
            visible: visible(graph, if options.forest { &[] } else { roots }, options.matching),
            nodes: Vec::new(),
            namespaces: false,
            plan,
            upward: false,
        };
        picture.nodes = picture.walk(roots, MOST_SIBLINGS);
        let has_rows = |root: &&usize| !picture.is_unremarkable(**root);
        if options.forest && !options.expand && roots.iter().filter(has_rows).count() > MOST_TREES {
            // Draw fewer of a kind, in the end none.
            for most in [3, 0] {
                if picture.nodes.len() > MOST_TREES {
                    picture.nodes = picture.walk(roots, most);
                }
            }
            if picture.nodes.len() > MOST_TREES {
                let nodes = std::mem::take(&mut picture.nodes);
                picture.nodes = picture.fold(nodes, MOST_ROWS);
            }
        }
        picture.namespaces = picture.spans_namespaces();
        picture
    }

    fn spans_namespaces(&self) -> bool {
        let mut first = None;
        self.objects().any(|index| match (self.graph.object(index).namespace.as_deref(), first) {
            (None, _) => false,
            (Some(_), _) if self.options.everywhere => true,
            (Some(namespace), None) => {
                first = Some(namespace);
                false
            }
            (Some(namespace), Some(first)) => namespace != first,
        })
    }

    /// All objects that the picture speaks of.
    fn objects(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().flat_map(|node| {
            let (one, many): (_, &[usize]) = match &node.body {
                Body::Object { index, .. } => (Some(*index), &[]),
                Body::Group { members }
                | Body::Below { members }
                | Body::Rest { members }
                | Body::More { members } => (None, members),
                Body::Ghost { .. } | Body::Contents { .. } => (None, &[]),
            };
            one.into_iter().chain(many.iter().copied())
        })
    }

    fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        let status = !self.plan || self.objects().any(|index| self.graph.object(index).is_terminating());
        let mut headers: Vec<String> = Vec::new();
        let mut header = |wanted: bool, name: &str| {
            if wanted {
                headers.push(name.to_owned());
            }
        };
        header(self.namespaces, "NAMESPACE");
        header(true, "NAME");
        header(!self.plan, "READY");
        header(status, "STATUS");
        header(!self.plan, "AGE");
        header(self.upward, "OWNER");
        header(self.options.wide, "FINALIZERS");
        header(self.options.wide, "BLOCKS");
        header(self.options.wide, "UID");
        for label in self.options.labels {
            header(true, &label.rsplit('/').next().unwrap_or(label).to_uppercase());
        }
        header(self.options.forecast.is_some(), "FATE");
        let has_cells = self
            .nodes
            .iter()
            .any(|node| !(node.depth == 0 && matches!(node.body, Body::Rest { .. } | Body::More { .. })));
        let headers = Some(headers.as_slice()).filter(|_| has_cells && !self.options.no_headers);
        table::write(out, self.look, headers, || {
            let mut lasts: Vec<bool> = Vec::new();
            self.nodes.iter().enumerate().map(move |(position, node)| {
                lasts.truncate(node.depth);
                let prefix = self.prefix(&lasts, node);
                lasts.push(node.last);
                self.row(position, node, prefix, status)
            })
        })
    }

    fn prefix(&self, lasts: &[bool], node: &Node) -> Line {
        let mut text = String::new();
        let Some(own) = node.depth.checked_sub(1) else { return Line::new() };
        // The roots themselves have no branch.
        for last in lasts.iter().skip(1).take(MOST_BRANCHES.min(own)) {
            text.push_str(if *last { "   " } else { self.look.glyph("│  ", "|  ") });
        }
        text.push_str(if node.last {
            self.look.glyph("└─ ", "`- ")
        } else {
            self.look.glyph("├─ ", "|- ")
        });
        if own > MOST_BRANCHES {
            text.push_str(&format!("(level {}) ", node.depth));
        }
        Line::new().styled(Role::Dim, text)
    }

    fn row(&self, position: usize, node: &Node, prefix: Line, status: bool) -> Row {
        let mut name = prefix;
        match &node.body {
            Body::Rest { members } | Body::More { members } => {
                if node.depth == 0 && position > 0 {
                    name.push(Role::Plain, "and ");
                }
                let what = if matches!(node.body, Body::More { .. }) {
                    number(members.len(), "more tree")
                } else {
                    format!("{} without dependents", number(members.len(), "object"))
                };
                name.push(Role::Plain, format!("{what}: "));
                name.append(by_kind(self.look, self.graph, members));
                match (self.options.forecast, node.depth) {
                    (Some(_), _) => Row::Cells(self.group_cells(name, status, members)),
                    (None, 0) => Row::Open(vec![name]),
                    (None, _) => self.open_row(name),
                }
            }
            Body::Contents { container } => {
                let object = self.graph.object(*container);
                let what = if object.is("", "Namespace") { "in" } else { "instances of" };
                name.push(Role::Dim, format!("{what} {}, not owned by it:", object.name));
                self.open_row(name)
            }
            Body::Ghost { dependent, position } => {
                let owner = self.graph.owners(*dependent).nth(*position);
                let Some((reference, resolved)) = owner else { return self.open_row(name) };
                name.push(Role::Plain, format!("{}/{}", reference.kind, reference.name));
                let object = GhostCells { reference, resolved };
                Row::Cells(self.cells(name, status, None, Some(&object)))
            }
            Body::Object { index, parent, showing, cut } => {
                self.object_name(&mut name, *index, *parent, *showing, *cut, node.depth);
                let owner = parent.filter(|_| self.upward).and_then(|dependent| {
                    let uid = &self.graph.object(*index).uid;
                    self.graph
                        .owners(dependent)
                        .find(|(reference, resolved)| reference.uid == *uid && resolved.owner == Some(*index))
                        .map(|(reference, resolved)| GhostCells { reference, resolved })
                });
                let cells = ObjectCells { index: *index, parent: *parent, showing: *showing };
                let mut cells = self.cells(name, status, Some(&cells), owner.as_ref());
                if self.options.matching.is_some_and(|matching| !matching.contains(index)) {
                    cells.iter_mut().for_each(Line::dimmed);
                }
                Row::Cells(cells)
            }
            Body::Group { members } => {
                let object = self.graph.object(members[0]);
                let kind = self.name(object);
                let kind = kind.split('/').next().unwrap_or_default();
                name.push(Role::Plain, format!("{kind} {}{}", self.look.times(), members.len()));
                let is_terminating = |index: &&usize| self.graph.object(**index).is_terminating();
                let terminating = members.iter().filter(is_terminating).count();
                if terminating > 0 {
                    name.push(Role::Caution, format!(" ({terminating} Terminating)"));
                }
                Row::Cells(self.group_cells(name, status, members))
            }
            Body::Below { members } => {
                name.append(by_kind(self.look, self.graph, members));
                // What the server says of several kinds cannot be told apart in one cell.
                if self.options.forecast.is_some() || self.is_one_kind(members) {
                    Row::Cells(self.group_cells(name, status, members))
                } else {
                    self.open_row(name)
                }
            }
        }
    }

    fn object_name(
        &self,
        name: &mut Line,
        index: usize,
        parent: Option<usize>,
        showing: Showing,
        cut: usize,
        depth: usize,
    ) {
        let object = self.graph.object(index);
        let role = if depth == 0 { Role::Strong } else { Role::Plain };
        name.push(role, self.name(object));
        match showing {
            Showing::First => {}
            Showing::Again => name.push(Role::Dim, " (shown above)"),
            Showing::Cycle => name.push(Role::Caution, " (cycle)"),
        }
        let mut parent = parent.filter(|_| !self.upward).map(|parent| &self.graph.object(parent).uid);
        for (reference, resolved) in self.graph.owners(index) {
            if parent == Some(&reference.uid) {
                parent = None;
                if !resolved.state.is_found() {
                    let state = state_name(resolved.state);
                    name.push(Role::Caution, format!(" (wrong reference: {state})"));
                }
            } else if showing == Showing::First && !resolved.state.is_found() && !self.upward {
                let state = state_name(resolved.state);
                name.push(Role::Caution, format!(" (owner {}/{}: {state})", reference.kind, reference.name));
            }
        }
        if cut > 0 {
            name.push(Role::Dim, format!(" ({} not shown)", number(cut, "dependent")));
        }
    }

    fn name(&self, object: &Object) -> String {
        let resource = &object.resource;
        if self.ambiguous.contains(resource.kind.as_str()) && !resource.group.is_empty() {
            format!("{}.{}/{}", resource.kind, resource.group, object.name)
        } else {
            format!("{}/{}", resource.kind, object.name)
        }
    }

    /// The cells of one object, or of an owner that is not there. Where an object is referred to, they stay empty:
    /// they are where it is shown.
    fn cells(
        &self,
        name: Line,
        status: bool,
        cells: Option<&ObjectCells>,
        owner: Option<&GhostCells<'_>>,
    ) -> Vec<Line> {
        let first = cells.filter(|cells| cells.showing == Showing::First).map(|cells| cells.index);
        let object = first.map(|index| self.graph.object(index));
        let columns = object.and_then(|object| self.options.columns.get(&object.uid));
        let plain = |text: &str| Line::new().plain(text);
        let mut row = Vec::new();
        if self.namespaces {
            let index = cells.map(|cells| cells.index);
            let namespace = index.and_then(|index| self.graph.object(index).namespace.as_deref());
            row.push(plain(namespace.unwrap_or_default()));
        }
        row.push(name);
        if !self.plan {
            row.push(plain(columns.map_or("", |columns| &columns.ready)));
        }
        if status {
            row.push(match object {
                Some(object) if object.is_terminating() => {
                    Line::new().styled(Role::Caution, terminating(object))
                }
                _ => plain(columns.map_or("", |columns| &columns.status)),
            });
        }
        if !self.plan {
            let text = object.map(|object| age(object.created, self.options.now));
            row.push(plain(&text.unwrap_or_default()));
        }
        if self.upward {
            row.push(owner.map_or_else(Line::new, GhostCells::line));
        }
        if self.options.wide {
            row.push(plain(&object.map(|object| object.finalizers.join(",")).unwrap_or_default()));
            let blocks = match (cells, owner) {
                (_, Some(owner)) => Some(owner.reference.block_owner_deletion),
                (Some(ObjectCells { index, parent: Some(parent), .. }), None) if !self.upward => {
                    Some(self.graph.blocks(*index, &self.graph.object(*parent).uid))
                }
                _ => None,
            };
            row.push(plain(blocks.map_or("", |blocks| if blocks { "yes" } else { "no" })));
            let uid = object.map(|object| &object.uid);
            let uid = uid.or(owner.filter(|_| cells.is_none()).map(|owner| &owner.reference.uid));
            row.push(plain(uid.map_or("", Uid::as_str)));
        }
        for label in self.options.labels {
            let value = object.and_then(|object| object.labels.get(label));
            row.push(plain(value.map_or("", String::as_str)));
        }
        if self.options.forecast.is_some() {
            let entry = first.and_then(|index| self.entries.get(&index));
            row.push(entry.map_or_else(Line::new, |entry| fate::sentence(self.look, entry)));
        }
        row
    }

    /// The cells of several objects of one fate.
    fn group_cells(&self, name: Line, status: bool, members: &[usize]) -> Vec<Line> {
        let namespace = |index: usize| self.graph.object(index).namespace.as_deref();
        let mut row = Vec::new();
        if self.namespaces {
            let first = namespace(members[0]);
            let same = members.iter().all(|index| namespace(*index) == first);
            row.push(Line::new().plain(first.filter(|_| same).unwrap_or_default()));
        }
        row.push(name);
        if !self.plan {
            row.push(Line::new());
        }
        if status {
            row.push(Line::new().plain(self.statuses(members)));
        }
        let empty = usize::from(!self.plan)
            + usize::from(self.upward)
            + if self.options.wide { 3 } else { 0 }
            + self.options.labels.len();
        row.extend((0..empty).map(|_| Line::new()));
        if self.options.forecast.is_some() {
            let entries: Vec<&Entry> =
                members.iter().filter_map(|member| self.entries.get(member).copied()).collect();
            row.push(fate::of_group(self.look, &entries));
        }
        row
    }

    /// A row whose text runs on from the column of names.
    fn open_row(&self, name: Line) -> Row {
        Row::Open(if self.namespaces { vec![Line::new(), name] } else { vec![name] })
    }

    fn is_one_kind(&self, members: &[usize]) -> bool {
        let kind = |index: usize| &self.graph.object(index).resource;
        members.iter().all(|index| kind(*index) == kind(members[0]))
    }

    /// `Running ×498, Pending ×2`: what the server says of those that are not Terminating.
    fn statuses(&self, members: &[usize]) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for index in members {
            let object = self.graph.object(*index);
            let columns = self.options.columns.get(&object.uid).filter(|_| !object.is_terminating());
            if let Some(columns) = columns.filter(|columns| !columns.status.is_empty()) {
                *counts.entry(&columns.status).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let texts: Vec<String> = counts
            .iter()
            .take(3)
            .map(|(status, count)| format!("{status} {}{count}", self.look.times()))
            .chain((counts.len() > 3).then(|| "...".to_owned()))
            .collect();
        texts.join(", ")
    }
}

struct ObjectCells {
    index: usize,
    parent: Option<usize>,
    showing: Showing,
}

struct GhostCells<'a> {
    reference: &'a OwnerReference,
    resolved: Resolved,
}

impl GhostCells<'_> {
    /// `live, controller`.
    fn line(&self) -> Line {
        let role = if self.resolved.state == OwnerState::Live { Role::Plain } else { Role::Caution };
        let line = Line::new().styled(role, state_name(self.resolved.state));
        if self.reference.controller { line.plain(", controller") } else { line }
    }
}

/// `Terminating (foregroundDeletion, example.test/hold)`.
fn terminating(object: &Object) -> String {
    if object.finalizers.is_empty() {
        "Terminating".to_owned()
    } else {
        format!("Terminating ({})", object.finalizers.join(", "))
    }
}

/// As the output contract spells it.
pub(super) fn state_name(state: OwnerState) -> &'static str {
    match state {
        OwnerState::Live => "live",
        OwnerState::Terminating => "terminating",
        OwnerState::Absent => "absent",
        OwnerState::Mismatch => "mismatch",
        OwnerState::OtherNamespace => "other-namespace",
        OwnerState::Scope => "scope",
        OwnerState::Unserved => "unserved",
        OwnerState::Unknown => "unknown",
    }
}

/// Kinds that two groups serve, such as Service in the core and in others: their names need the group.
fn ambiguous_kinds(graph: &OwnerGraph) -> BTreeSet<&str> {
    let mut groups: HashMap<&str, &str> = HashMap::new();
    let mut ambiguous = BTreeSet::new();
    for object in graph.objects() {
        let (kind, group) = (object.resource.kind.as_str(), object.resource.group.as_str());
        if *groups.entry(kind).or_insert(group) != group {
            ambiguous.insert(kind);
        }
    }
    ambiguous
}
