//! The walk from roots to rows. It keeps its own stack, so that no chain of owners is too deep for it, and shows each
//! object once: where it turns up again, it is referred to.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fate;
use super::Picture;
use crate::model::collector::content;
use crate::model::forecast::Fate;
use crate::model::graph::{OwnerGraph, OwnerState};

/// More siblings of a kind than this are shown as one line.
pub(super) const MOST_SIBLINGS: usize = 10;

/// Which objects a tree of these roots shows when nothing is grouped: roots first, then breadth first. Depth and
/// filter as in [`TreeOptions`]; of a `forest`, whose roots nobody named, the filter takes roots, too.
pub fn shown(
    graph: &OwnerGraph,
    roots: &[usize],
    depth: Option<usize>,
    matching: Option<&BTreeSet<usize>>,
    forest: bool,
) -> Vec<usize> {
    let visible = visible(graph, if forest { &[] } else { roots }, matching);
    let mut seen = vec![false; graph.objects().len()];
    let mut level: Vec<usize> = Vec::new();
    let mut add = |index: usize, level: &mut Vec<usize>| {
        if visible[index] && !std::mem::replace(&mut seen[index], true) {
            level.push(index);
        }
    };
    roots.iter().for_each(|root| add(*root, &mut level));
    let mut order = Vec::new();
    let mut left = depth.unwrap_or(usize::MAX);
    while !level.is_empty() {
        let mut next = Vec::new();
        if left > 0 {
            for index in &level {
                graph.dependents(*index).iter().for_each(|dependent| add(*dependent, &mut next));
            }
            if order.is_empty() && !forest {
                let contents = level.iter().filter_map(|root| content(graph, *root)).flatten();
                contents.for_each(|member| add(member, &mut next));
            }
        }
        left = left.saturating_sub(1);
        order.append(&mut level);
        level = next;
    }
    order
}

/// One row of the picture, small: its text is made when it is written.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) depth: usize,
    /// The last of its siblings.
    pub(super) last: bool,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// An object, below the one that it is drawn under.
    Object { index: usize, parent: Option<usize>, showing: Showing, cut: usize },
    /// An owner that is not there, or not readable: all that is known is the reference.
    Ghost { dependent: usize, position: usize },
    /// Siblings of one kind (and one fate).
    Group { members: Vec<usize> },
    /// What hangs on a group, of one fate.
    Below { members: Vec<usize> },
    /// Objects without dependents.
    Rest { members: Vec<usize> },
    /// Roots of a forest that there is no room for.
    More { members: Vec<usize> },
    /// What follows is in this container, not owned by it.
    Contents { container: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Showing {
    First,
    Again,
    Cycle,
}

enum Item {
    Object(usize),
    Group(Vec<usize>),
    Rest(Vec<usize>),
    Contents(Vec<usize>),
}

struct Frame {
    items: std::vec::IntoIter<Item>,
    /// Whose dependents these are.
    object: Option<usize>,
    depth: usize,
}

impl Picture<'_> {
    /// Depth first, with a stack of its own. `most_trees` is how many roots of a kind of a forest are drawn.
    pub(super) fn walk(&self, roots: &[usize], most_trees: usize) -> Vec<Node> {
        let mut nodes = Vec::new();
        let mut seen = vec![false; self.graph.objects().len()];
        let mut unopened = vec![false; self.graph.objects().len()];
        let mut on_path = vec![false; self.graph.objects().len()];
        let roots = self.items(roots, self.options.forest, most_trees);
        let mut stack = vec![Frame { items: roots.into_iter(), object: None, depth: 0 }];
        while let Some(frame) = stack.last_mut() {
            let Some(item) = frame.items.next() else {
                if let Some(object) = frame.object {
                    on_path[object] = false;
                }
                stack.pop();
                continue;
            };
            let (depth, parent, last) = (frame.depth, frame.object, frame.items.as_slice().is_empty());
            match item {
                Item::Object(index) => {
                    let showing = match (on_path[index], seen[index]) {
                        (true, _) => Showing::Cycle,
                        (false, true) => Showing::Again,
                        (false, false) => Showing::First,
                    };
                    seen[index] = true;
                    let within = self.options.depth.is_none_or(|limit| depth < limit);
                    let mut children = Vec::new();
                    let mut cut = 0;
                    // What the depth cut off above may be opened where it is nearer to a root.
                    if showing == Showing::First || (unopened[index] && within && showing == Showing::Again) {
                        let dependents = self.visible_dependents(index);
                        let contents = if depth == 0 && !self.options.forest {
                            self.contents(index, &seen)
                        } else {
                            Vec::new()
                        };
                        if within {
                            unopened[index] = false;
                            children = self.items(&dependents, false, MOST_SIBLINGS);
                            if !contents.is_empty() {
                                children.push(Item::Contents(contents));
                            }
                        } else {
                            unopened[index] = true;
                            cut = dependents.len() + contents.len();
                        }
                    }
                    nodes.push(Node { depth, last, body: Body::Object { index, parent, showing, cut } });
                    if !children.is_empty() {
                        on_path[index] = true;
                        stack.push(Frame {
                            items: children.into_iter(),
                            object: Some(index),
                            depth: depth + 1,
                        });
                    }
                }
                Item::Group(members) => {
                    members.iter().for_each(|member| seen[*member] = true);
                    let mut below = Vec::new();
                    let mut next = members.clone();
                    while let Some(index) = next.pop() {
                        for dependent in self.visible_dependents(index) {
                            if !std::mem::replace(&mut seen[dependent], true) {
                                below.push(dependent);
                                next.push(dependent);
                            }
                        }
                    }
                    nodes.push(Node { depth, last, body: Body::Group { members } });
                    let fates = self.by_fate(below);
                    let rows = fates.len();
                    nodes.extend(fates.into_iter().enumerate().map(|(row, members)| Node {
                        depth: depth + 1,
                        last: row + 1 == rows,
                        body: Body::Below { members },
                    }));
                }
                Item::Rest(members) => {
                    members.iter().for_each(|member| seen[*member] = true);
                    nodes.push(Node { depth, last, body: Body::Rest { members } });
                }
                Item::Contents(roots) => {
                    let container = parent.unwrap_or_default();
                    nodes.push(Node { depth, last, body: Body::Contents { container } });
                    let items = self.items(&roots, true, MOST_SIBLINGS).into_iter();
                    stack.push(Frame { items, object: None, depth: depth + 1 });
                }
            }
        }
        nodes
    }

    /// Siblings as rows: each of its own, or many of a kind as one; of a forest, those without dependents as one.
    fn items(&self, siblings: &[usize], forest: bool, most: usize) -> Vec<Item> {
        let mut siblings: Vec<usize> =
            siblings.iter().copied().filter(|index| self.visible[*index]).collect();
        if self.options.expand {
            return siblings.into_iter().map(Item::Object).collect();
        }
        let mut rest = Vec::new();
        if forest {
            (rest, siblings) = siblings.into_iter().partition(|index| self.is_unremarkable(*index));
        }
        let mut kinds: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        let kind_of = |index: usize| {
            let resource = &self.graph.object(index).resource;
            (resource.kind.as_str(), resource.group.as_str())
        };
        siblings.iter().for_each(|index| kinds.entry(kind_of(*index)).or_default().push(*index));
        let mut items = Vec::new();
        // In the order in which the kinds come first.
        for index in &siblings {
            let Some(members) = kinds.remove(&kind_of(*index)) else { continue };
            if members.len() <= most {
                items.extend(members.into_iter().map(Item::Object));
                continue;
            }
            items.extend(self.by_fate(members).into_iter().map(|members| match members.as_slice() {
                [only] => Item::Object(*only),
                _ => Item::Group(members),
            }));
        }
        items.extend(self.by_fate(rest).into_iter().map(Item::Rest));
        items
    }

    /// Keeps the trees of a forest that fit into so many rows, and counts the roots of the others.
    pub(super) fn fold(&self, nodes: Vec<Node>, room: usize) -> Vec<Node> {
        let mut trees: Vec<Vec<Node>> = Vec::new();
        for node in nodes {
            match trees.last_mut() {
                Some(tree) if node.depth > 0 => tree.push(node),
                _ => trees.push(vec![node]),
            }
        }
        let is_rest = |tree: &[Node]| matches!(tree[0].body, Body::Rest { .. });
        let mut used: usize = trees.iter().filter(|tree| is_rest(tree)).map(Vec::len).sum();
        let (mut kept, mut rest, mut folded) = (Vec::new(), Vec::new(), Vec::new());
        for tree in trees {
            if is_rest(&tree) {
                rest.extend(tree);
            } else if used + tree.len() <= room {
                used += tree.len();
                kept.extend(tree);
            } else {
                match &tree[0].body {
                    Body::Object { index, .. } => folded.push(*index),
                    Body::Group { members } => folded.extend(members),
                    _ => {}
                }
            }
        }
        let more = self.by_fate(folded).into_iter().map(|members| Node {
            depth: 0,
            last: false,
            body: Body::More { members },
        });
        kept.into_iter().chain(more).chain(rest).collect()
    }

    /// Whether one of a forest may disappear in a line of counts: nothing hangs on it, it is not Terminating, its
    /// owners are no riddle, and it has no fate that needs a reason.
    pub(super) fn is_unremarkable(&self, index: usize) -> bool {
        let fate = self.entries.get(&index).map(|entry| entry.fate);
        let riddle = |state: OwnerState| !state.is_found() && state != OwnerState::Unknown;
        self.visible_dependents(index).is_empty()
            && !self.graph.object(index).is_terminating()
            && !self.graph.owners(index).any(|(_, resolved)| riddle(resolved.state))
            && matches!(fate, None | Some(Fate::Deleted | Fate::Kept | Fate::CollectedAnyway))
    }

    /// Parts of one fate each; all in one where there is no forecast.
    fn by_fate(&self, members: Vec<usize>) -> Vec<Vec<usize>> {
        let mut fates: BTreeMap<Option<(Fate, bool)>, Vec<usize>> = BTreeMap::new();
        for member in members {
            let fate = self.entries.get(&member).map(|entry| (entry.fate, fate::waits_for_kubelets(entry)));
            fates.entry(fate).or_default().push(member);
        }
        fates.into_values().collect()
    }

    pub(super) fn visible_dependents(&self, index: usize) -> Vec<usize> {
        self.graph.dependents(index).iter().copied().filter(|dependent| self.visible[*dependent]).collect()
    }

    /// What a Namespace or CustomResourceDefinition takes along without owning it: its roots.
    fn contents(&self, index: usize, seen: &[bool]) -> Vec<usize> {
        let members = content(self.graph, index).unwrap_or_default();
        let members: Vec<usize> =
            members.into_iter().filter(|member| self.visible[*member] && !seen[*member]).collect();
        self.graph.roots_among(&members)
    }
}

/// What a filter lets through: the matching objects, and all that leads up from them; the roots always.
pub(super) fn visible(graph: &OwnerGraph, roots: &[usize], matching: Option<&BTreeSet<usize>>) -> Vec<bool> {
    let Some(matching) = matching else { return vec![true; graph.objects().len()] };
    let mut visible = vec![false; graph.objects().len()];
    let mut next: Vec<usize> = matching.iter().copied().collect();
    next.iter().for_each(|index| visible[*index] = true);
    while let Some(index) = next.pop() {
        for reference in graph.object(index).owners.iter() {
            for owner in graph.by_uid(&reference.uid) {
                if !std::mem::replace(&mut visible[*owner], true) {
                    next.push(*owner);
                }
            }
        }
    }
    roots.iter().for_each(|root| visible[*root] = true);
    visible
}

/// The way up, as rows: owners below their dependents.
pub(super) fn upward(graph: &OwnerGraph, objects: &[usize], depth: Option<usize>) -> Vec<Node> {
    /// Of this dependent, the reference at this position; none is an object we start from.
    type Step = (usize, Option<(usize, usize)>);
    let mut nodes = Vec::new();
    let mut seen = vec![false; graph.objects().len()];
    let mut on_path = vec![false; graph.objects().len()];
    let start: Vec<Step> = objects.iter().map(|object| (*object, None)).collect();
    let mut stack: Vec<(std::vec::IntoIter<Step>, Option<usize>)> = vec![(start.into_iter(), None)];
    while let Some((steps, below)) = stack.last_mut() {
        let Some((object, reference)) = steps.next() else {
            if let Some(object) = below {
                on_path[*object] = false;
            }
            stack.pop();
            continue;
        };
        let last = steps.as_slice().is_empty();
        let at = stack.len() - 1;
        let (index, parent) = match reference {
            None => (object, None),
            Some((dependent, position)) => {
                let owner = graph.owners(dependent).nth(position).and_then(|(_, resolved)| resolved.owner);
                let Some(owner) = owner else {
                    nodes.push(Node { depth: at, last, body: Body::Ghost { dependent, position } });
                    continue;
                };
                (owner, Some(dependent))
            }
        };
        let showing = match (on_path[index], seen[index]) {
            (true, _) => Showing::Cycle,
            (false, true) => Showing::Again,
            (false, false) => Showing::First,
        };
        seen[index] = true;
        nodes.push(Node { depth: at, last, body: Body::Object { index, parent, showing, cut: 0 } });
        if showing == Showing::First && depth.is_none_or(|limit| at < limit) {
            let owners = 0..graph.object(index).owners.len();
            let steps: Vec<Step> = owners.map(|position| (index, Some((index, position)))).collect();
            on_path[index] = true;
            stack.push((steps.into_iter(), Some(index)));
        }
    }
    nodes
}

/// The topmost owners of some objects, and all objects on the way up to them, as [`super::write_owners()`] shows them.
pub fn shown_upward(graph: &OwnerGraph, objects: &[usize], depth: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let mut seen = vec![false; graph.objects().len()];
    let mut shown = Vec::new();
    for node in upward(graph, objects, depth) {
        if let Body::Object { index, .. } = node.body
            && !std::mem::replace(&mut seen[index], true)
        {
            shown.push(index);
        }
    }
    (graph.roots_among(&shown), shown)
}
