//! Who owns whom. Two matchings, as in the collector (`collector-rules.md`, 1): whether an owner is *alive* is
//! decided by apiVersion, kind, namespace, name and then UID; who *hangs* on whom (is woken, blocks, is orphaned) by
//! UID alone, across namespaces.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::catalog::{Resource, split_api_version};
use super::object::{Details, Lookup, LookupKey, Object, OwnerReference, Snapshot, Uid};

/// What an ownerReference resolves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerState {
    /// The owner exists and is not being deleted.
    Live,
    /// The owner exists and has a deletionTimestamp.
    Terminating,
    /// No such object.
    Absent,
    /// An object with that UID exists, but of another kind or name.
    Mismatch,
    /// An object with that UID exists, but in another namespace.
    OtherNamespace,
    /// A namespaced owner of a cluster-scoped object.
    Scope,
    /// The reference's apiVersion is not served.
    Unserved,
    /// The owner could not be read.
    Unknown,
}

impl OwnerState {
    /// Whether the collector's GET finds the owner: apiVersion, kind, namespace, name and UID all fit.
    pub fn is_found(self) -> bool {
        matches!(self, Self::Live | Self::Terminating)
    }

    /// Whether the collector takes the reference for dangling: 404, or the name exists with another UID.
    pub fn is_dangling(self) -> bool {
        matches!(self, Self::Absent | Self::Mismatch | Self::OtherNamespace)
    }
}

/// An ownerReference, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// What it resolves to.
    pub state: OwnerState,
    /// The index of the owner, where it was found; of the object with that UID, where only that fits.
    pub owner: Option<usize>,
}

/// The objects of a snapshot and their ownerReferences, both ways. Built once, in linear time.
#[derive(Debug, Clone, Default)]
pub struct OwnerGraph {
    snapshot: Snapshot,
    by_uid: HashMap<Uid, Vec<usize>>,
    resolved: Vec<Vec<Resolved>>,
    dependents: Vec<Vec<usize>>,
    waiting_for: HashMap<Uid, Vec<usize>>,
}

impl OwnerGraph {
    /// Builds the graph. Objects are ordered by kind, namespace, name and UID, so that every answer is the same for
    /// the same cluster, however the lists came in.
    pub fn new(mut snapshot: Snapshot) -> Self {
        snapshot.objects.sort_by(|left, right| {
            by_kind(&left.resource, &right.resource)
                .then_with(|| left.namespace.cmp(&right.namespace))
                .then_with(|| left.name.cmp(&right.name))
                .then_with(|| left.uid.cmp(&right.uid))
        });
        // Events are served in two groups with one UID; two objects of different kinds that share a UID stay two
        // (an aggregated API may hand out one UID twice: case C32).
        snapshot.objects.dedup_by(|later, earlier| {
            later.uid == earlier.uid
                && later.resource.kind == earlier.resource.kind
                && later.namespace == earlier.namespace
                && later.name == earlier.name
        });
        let mut by_uid: HashMap<Uid, Vec<usize>> = HashMap::with_capacity(snapshot.objects.len());
        let mut by_name: HashMap<(&str, &str, Option<&str>, &str), usize> =
            HashMap::with_capacity(snapshot.objects.len());
        for (index, object) in snapshot.objects.iter().enumerate() {
            by_uid.entry(object.uid.clone()).or_default().push(index);
            let resource = &object.resource;
            by_name
                .insert((&resource.group, &resource.kind, object.namespace.as_deref(), &object.name), index);
        }
        let mut resolved = Vec::with_capacity(snapshot.objects.len());
        let mut dependents = vec![Vec::new(); snapshot.objects.len()];
        let mut waiting_for: HashMap<Uid, Vec<usize>> = HashMap::new();
        for (index, object) in snapshot.objects.iter().enumerate() {
            let mut states = Vec::with_capacity(object.owners.len());
            for reference in object.owners.iter() {
                states.push(resolve(&snapshot, &by_uid, &by_name, object, reference));
                let hung = waiting_for.entry(reference.uid.clone()).or_default();
                if hung.last() != Some(&index) {
                    hung.push(index);
                    for owner in by_uid.get(&reference.uid).into_iter().flatten() {
                        dependents[*owner].push(index);
                    }
                }
            }
            resolved.push(states);
        }
        Self { by_uid, resolved, dependents, waiting_for, snapshot }
    }

    /// What it was built from; `objects` are in the graph's order.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Gives the snapshot back, to add to it and build again.
    pub fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    /// What metadata does not tell, to add to it: who owns whom does not depend on it.
    pub fn details_mut(&mut self) -> &mut Details {
        &mut self.snapshot.details
    }

    /// All objects. An object's position is its index everywhere in the model.
    pub fn objects(&self) -> &[Object] {
        &self.snapshot.objects
    }

    /// One object.
    pub fn object(&self, index: usize) -> &Object {
        &self.snapshot.objects[index]
    }

    /// The objects with this UID: one, but for servers that hand out a UID twice.
    pub fn by_uid(&self, uid: &Uid) -> &[usize] {
        self.by_uid.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The first owner of an object that could not be read: nobody knows whether it is there.
    pub fn unread_owner(&self, index: usize) -> Option<&OwnerReference> {
        self.owners(index)
            .find(|(_, resolved)| resolved.state == OwnerState::Unknown)
            .map(|(reference, _)| reference)
    }

    /// An object's ownerReferences with what they resolve to, in their order.
    pub fn owners(&self, index: usize) -> impl ExactSizeIterator<Item = (&OwnerReference, Resolved)> {
        self.snapshot.objects[index].owners.iter().zip(self.resolved[index].iter().copied())
    }

    /// The objects with an ownerReference to this one's UID, right or wrong, each once, in order.
    pub fn dependents(&self, index: usize) -> &[usize] {
        &self.dependents[index]
    }

    /// The objects with an ownerReference to this UID, whether or not an object with it was seen.
    pub fn dependents_of_uid(&self, uid: &Uid) -> &[usize] {
        self.waiting_for.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Whether this dependent's reference to that UID blocks a foreground deletion.
    pub fn blocks(&self, dependent: usize, owner: &Uid) -> bool {
        self.object(dependent)
            .owners
            .iter()
            .any(|reference| reference.uid == *owner && reference.block_owner_deletion)
    }

    /// Where this very object is: by kind, namespace and name beside its UID. Some objects of aggregated APIs have no UID
    /// at all, or share one (case C32).
    pub fn index_of(&self, object: &Object) -> Option<usize> {
        self.by_uid(&object.uid).iter().copied().find(|index| {
            let found = self.object(*index);
            found.resource.kind == object.resource.kind
                && found.namespace == object.namespace
                && found.name == object.name
        })
    }

    /// The roots and all that hangs on them by UID, each once, breadth first from the roots.
    pub fn closure(&self, roots: &[usize]) -> Vec<usize> {
        let mut seen = vec![false; self.objects().len()];
        let mut order = Vec::new();
        for root in roots {
            if !std::mem::replace(&mut seen[*root], true) {
                order.push(*root);
            }
        }
        let mut next = 0;
        while next < order.len() {
            for dependent in self.dependents(order[next]) {
                if !std::mem::replace(&mut seen[*dependent], true) {
                    order.push(*dependent);
                }
            }
            next += 1;
        }
        order
    }

    /// Whether every living owner above this object leads back to it: each keeps the other alive, and nothing outside
    /// does (reference A.5). An owner that cannot be read counts as a living one.
    pub fn is_leaked_cycle(&self, index: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![index];
        let mut returns = false;
        while let Some(current) = next.pop() {
            let mut owned = false;
            for (_, resolved) in self.owners(current) {
                if resolved.state == OwnerState::Unknown {
                    return false;
                }
                let Some(owner) = resolved.owner.filter(|_| resolved.state == OwnerState::Live) else {
                    continue;
                };
                owned = true;
                returns |= owner == index;
                if seen.insert(owner) {
                    next.push(owner);
                }
            }
            if !owned {
                // A root of its own: it keeps everything below it for good reason.
                return false;
            }
        }
        returns
    }

    /// The controller above all living controllers of an object that make one another again; the object itself where
    /// it has none. A CronJob makes no Job again (`pkg/controller/cronjob/cronjob_controllerv2.go`).
    pub fn topmost_controller(&self, index: usize) -> usize {
        let mut seen = BTreeSet::from([index]);
        let mut top = index;
        loop {
            let is_job = self.object(top).is("batch", "Job");
            let next = self.owners(top).find_map(|(reference, resolved)| {
                let again = reference.controller && !(is_job && reference.kind == "CronJob");
                resolved.owner.filter(|_| again && resolved.state == OwnerState::Live)
            });
            match next {
                Some(next) if seen.insert(next) => top = next,
                _ => return top,
            }
        }
    }

    /// [`Self::is_leaked_cycle`] of all objects at once, in linear time.
    pub fn leaked_cycles(&self) -> Vec<bool> {
        let count = self.objects().len();
        let living = |index: usize| {
            let live = self.owners(index).map(|(_, resolved)| resolved);
            live.filter(|resolved| resolved.state == OwnerState::Live).filter_map(|resolved| resolved.owner)
        };
        // What has no living owner, or one that cannot be read, keeps everything below it for good reason.
        let unknown =
            |index: usize| self.owners(index).any(|(_, resolved)| resolved.state == OwnerState::Unknown);
        let mut next: Vec<usize> =
            (0..count).filter(|index| living(*index).next().is_none() || unknown(*index)).collect();
        let mut kept = vec![false; count];
        next.iter().for_each(|index| kept[*index] = true);
        while let Some(index) = next.pop() {
            for dependent in self.dependents(index) {
                if !kept[*dependent] && living(*dependent).any(|owner| owner == index) {
                    kept[*dependent] = true;
                    next.push(*dependent);
                }
            }
        }
        let mut leaked = vec![false; count];
        for component in components(count, |index| living(index).collect()) {
            let returns = component.len() > 1 || living(component[0]).any(|owner| owner == component[0]);
            component.iter().for_each(|index| leaked[*index] = returns && !kept[*index]);
        }
        leaked
    }

    /// The objects among what was listed that hang on nothing listed, and one of each cycle that nothing else leads
    /// to: from these all others can be reached.
    pub fn roots(&self) -> Vec<usize> {
        let outside = |index: &usize| self.snapshot.outside.contains(&self.object(*index).uid);
        let listed: Vec<usize> = (0..self.objects().len()).filter(|index| !outside(index)).collect();
        self.roots_among(&listed)
    }

    /// The same for a part of the graph: which of `members` hang on no other member.
    pub fn roots_among(&self, members: &[usize]) -> Vec<usize> {
        let mut is_member = vec![false; self.objects().len()];
        for member in members {
            is_member[*member] = true;
        }
        let hangs = |index: usize| {
            let owners = self.object(index).owners.iter().flat_map(|reference| self.by_uid(&reference.uid));
            owners.into_iter().any(|owner| *owner != index && is_member[*owner])
        };
        let mut reached = vec![false; self.objects().len()];
        let mut roots = Vec::new();
        let mut reach = |root: usize, roots: &mut Vec<usize>| {
            if std::mem::replace(&mut reached[root], true) {
                return;
            }
            roots.push(root);
            let mut next = vec![root];
            while let Some(index) = next.pop() {
                for dependent in self.dependents(index) {
                    if is_member[*dependent] && !std::mem::replace(&mut reached[*dependent], true) {
                        next.push(*dependent);
                    }
                }
            }
        };
        // A root is not reached from another one: nothing leads to it.
        members.iter().filter(|member| !hangs(**member)).for_each(|root| reach(*root, &mut roots));
        members.iter().for_each(|member| reach(*member, &mut roots));
        roots.sort_unstable();
        roots
    }
}

/// The strongly connected components (Tarjan's algorithm, without recursion: a chain may be as long as it likes).
fn components(count: usize, ahead: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let (mut number, mut lowest) = (vec![UNSEEN; count], vec![UNSEEN; count]);
    let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
    let (mut components, mut numbered) = (Vec::new(), 0);
    for root in 0..count {
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        if number[root] == UNSEEN {
            path.push((root, ahead(root)));
        }
        while let Some((index, left)) = path.last_mut() {
            let index = *index;
            if number[index] == UNSEEN {
                (number[index], lowest[index]) = (numbered, numbered);
                numbered += 1;
                on_stack[index] = true;
                stack.push(index);
            }
            match left.pop() {
                Some(next) if number[next] == UNSEEN => path.push((next, ahead(next))),
                Some(next) if on_stack[next] => lowest[index] = lowest[index].min(number[next]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((below, _)) = path.last() {
                        lowest[*below] = lowest[*below].min(lowest[index]);
                    }
                    if lowest[index] == number[index] {
                        let start = stack.iter().rposition(|on| *on == index).unwrap_or(0);
                        let component = stack.split_off(start);
                        component.iter().for_each(|member| on_stack[*member] = false);
                        components.push(component);
                    }
                }
            }
        }
    }
    components
}

/// By kind, then group. Objects of one list share their resource, so that most comparisons look no further.
fn by_kind(left: &Arc<Resource>, right: &Arc<Resource>) -> Ordering {
    if Arc::ptr_eq(left, right) {
        return Ordering::Equal;
    }
    (&left.kind, &left.group).cmp(&(&right.kind, &right.group))
}

fn resolve(
    snapshot: &Snapshot,
    by_uid: &HashMap<Uid, Vec<usize>>,
    by_name: &HashMap<(&str, &str, Option<&str>, &str), usize>,
    dependent: &Object,
    reference: &OwnerReference,
) -> Resolved {
    let somewhere = by_uid.get(&reference.uid).and_then(|indices| indices.first().copied());
    let Some(resource) = snapshot.catalog.served(&reference.api_version, &reference.kind) else {
        let state = if snapshot.catalog.is_stale(&reference.api_version) {
            OwnerState::Unknown
        } else {
            OwnerState::Unserved
        };
        return Resolved { state, owner: somewhere };
    };
    if resource.namespaced && dependent.namespace.is_none() {
        return Resolved { state: OwnerState::Scope, owner: somewhere };
    }
    let namespace = if resource.namespaced { dependent.namespace.as_deref() } else { None };
    let (group, _) = split_api_version(&reference.api_version);
    if let Some(index) = by_name.get(&(group, resource.kind.as_str(), namespace, reference.name.as_str())) {
        let owner = &snapshot.objects[*index];
        if owner.uid == reference.uid {
            let state = if owner.is_terminating() { OwnerState::Terminating } else { OwnerState::Live };
            return Resolved { state, owner: Some(*index) };
        }
        return Resolved { state: elsewhere(snapshot, somewhere, dependent), owner: somewhere };
    }
    let key = LookupKey {
        group: group.to_owned(),
        kind: resource.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: reference.name.clone(),
    };
    let looked = match snapshot.lookups.get(&key) {
        Some(Lookup::Absent) => true,
        Some(Lookup::Unreadable) => false,
        None => {
            snapshot.searched.covers(resource, namespace)
                && resource.can("list")
                && !snapshot.gaps.iter().any(|gap| {
                    gap.group == resource.group && (gap.resource == resource.plural || gap.resource == "*")
                })
        }
    };
    let state = if looked { elsewhere(snapshot, somewhere, dependent) } else { OwnerState::Unknown };
    Resolved { state, owner: somewhere }
}

/// The reference's name leads nowhere: does its UID exist at all?
fn elsewhere(snapshot: &Snapshot, somewhere: Option<usize>, dependent: &Object) -> OwnerState {
    match somewhere.map(|index| &snapshot.objects[index]) {
        None => OwnerState::Absent,
        Some(owner) if owner.namespace.is_some() && owner.namespace != dependent.namespace => {
            OwnerState::OtherNamespace
        }
        Some(_) => OwnerState::Mismatch,
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::Gap;
    use super::super::testing::{at, graph, label, snapshot};
    use super::*;

    #[test]
    fn every_object_can_be_reached_from_a_root() {
        let graph = graph(
            "Job/a
             Pod/b <- Job/a
             Pod/c <- Job/gone                  // dangling: nothing in view
             ConfigMap/d <- ConfigMap/e         // a cycle nothing leads to
             ConfigMap/e <- ConfigMap/d
             ConfigMap/f <- ConfigMap/f         // owns itself
             Secret/g <- ConfigMap/e
             other:Secret/h <- x:Job/a          // hangs on it, though wrongly",
        );
        let names: Vec<String> = graph.roots().iter().map(|root| label(graph.object(*root))).collect();
        assert_eq!(names, ["ConfigMap/d", "ConfigMap/f", "Job/a", "Pod/c"]);
        assert_eq!(graph.closure(&graph.roots()).len(), graph.objects().len());
        let part = [at(&graph, "Pod/b"), at(&graph, "Secret/g")];
        assert_eq!(graph.roots_among(&part), part);
    }

    /// A ConfigMap for each, owned by those that these pairs name; owner 9 is of a kind that could not be read, owner 8
    /// is not there.
    fn web(pairs: &[(usize, usize)]) -> OwnerGraph {
        let mut text = String::new();
        for own in 0..7 {
            let owners: Vec<String> = pairs
                .iter()
                .filter(|(dependent, _)| *dependent == own)
                .map(|(_, owner)| match owner {
                    9 => "Widget/unread@w".to_owned(),
                    8 => "ConfigMap/absent@a".to_owned(),
                    owner => format!("ConfigMap/c{owner}"),
                })
                .collect();
            text.push_str(&format!("ConfigMap/c{own} <- {}\n", owners.join(", ")));
        }
        let mut snapshot = snapshot(&text);
        snapshot.gaps.push(Gap {
            resource: "widgets".to_owned(),
            group: "example.test".to_owned(),
            version: None,
            reason: "Forbidden".to_owned(),
            message: String::new(),
        });
        OwnerGraph::new(snapshot)
    }

    proptest::proptest! {
        #[test]
        fn leaked_cycles_are_the_same_looked_for_one_by_one_or_all_at_once(
            pairs in proptest::collection::vec((0_usize..7, 0_usize..10), 0..12),
        ) {
            let graph = web(&pairs);
            let one_by_one: Vec<bool> = (0..7).map(|index| graph.is_leaked_cycle(index)).collect();
            proptest::prop_assert_eq!(graph.leaked_cycles(), one_by_one);
        }
    }

    /// Whoever may create ConfigMaps can make these.
    #[test]
    fn a_long_chain_and_a_large_circle_take_no_longer_than_they_are_long() {
        let chain = |last: &str| -> OwnerGraph {
            let mut text = format!("ConfigMap/c0 <- {last}\n");
            (1..20_000)
                .for_each(|own| text.push_str(&format!("ConfigMap/c{own} <- ConfigMap/c{}\n", own - 1)));
            OwnerGraph::new(snapshot(&text))
        };
        assert!(chain("").leaked_cycles().iter().all(|leaked| !leaked));
        assert!(chain("ConfigMap/c19999").leaked_cycles().iter().all(|leaked| *leaked));
    }
}
