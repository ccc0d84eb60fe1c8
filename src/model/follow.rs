//! A snapshot that is kept up to date by what watches see: `tree --watch`. Nothing that was seen is lost, but only what
//! matters to the picture asks for a new one.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::OwnerGraph;
use super::object::{Object, Snapshot, Uid};
use super::progress::Observation;

/// What was seen since the snapshot, by UID; none for what is gone.
#[derive(Debug, Default)]
pub struct Fresh {
    seen: BTreeMap<Uid, Option<Object>>,
    dirty: bool,
}

/// What of the cluster is in the picture.
#[derive(Debug, Clone, Default)]
pub struct Scenery {
    /// The objects that are shown; none for everything.
    pub shown: Option<BTreeSet<Uid>>,
}

impl Scenery {
    fn holds(&self, uid: &Uid) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.contains(uid))
    }
}

impl Fresh {
    /// Takes up what a watch saw.
    pub fn observe(&mut self, observation: Observation, graph: &OwnerGraph, scenery: &Scenery) {
        match observation {
            Observation::Seen(object) => self.see(*object, scenery),
            Observation::Gone(uid) => self.lose(uid, scenery),
            Observation::Listed { resource, namespace, objects } => {
                let there: BTreeSet<&Uid> = objects.iter().map(|object| &object.uid).collect();
                let was = |object: &&Object| {
                    object.resource.qualified() == resource
                        && (namespace.is_none() || object.namespace.as_deref() == namespace.as_deref())
                };
                let pending = self.seen.values().flatten().filter(was).map(|object| object.uid.clone());
                let gone: Vec<Uid> = graph
                    .objects()
                    .iter()
                    .filter(was)
                    .map(|object| object.uid.clone())
                    .chain(pending)
                    .filter(|uid| !there.contains(uid))
                    .collect();
                gone.into_iter().for_each(|uid| self.lose(uid, scenery));
                objects.into_iter().for_each(|object| self.see(object, scenery));
            }
            Observation::Unreadable { .. } | Observation::Lost { .. } | Observation::Back { .. } => {}
        }
    }

    fn see(&mut self, object: Object, scenery: &Scenery) {
        // Below an owner that is not in the picture nothing is, until that owner comes into it: then all is drawn
        // anew, with what was seen meanwhile.
        self.dirty |=
            scenery.holds(&object.uid) || object.owners.iter().any(|owner| scenery.holds(&owner.uid));
        self.seen.insert(object.uid.clone(), Some(object));
    }

    fn lose(&mut self, uid: Uid, scenery: &Scenery) {
        self.dirty |= scenery.holds(&uid);
        self.seen.insert(uid, None);
    }

    /// Whether the picture may have changed.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Brings the snapshot up to date. Returns whether any of it was a Pod.
    pub fn apply(&mut self, snapshot: &mut Snapshot) -> bool {
        self.dirty = false;
        let mut seen = std::mem::take(&mut self.seen);
        let pods = seen.values().flatten().any(|object| object.is("", "Pod"));
        snapshot.objects.retain_mut(|object| match seen.remove(&object.uid) {
            None => true,
            Some(None) => false,
            Some(Some(fresh)) => {
                *object = fresh;
                true
            }
        });
        snapshot.objects.extend(seen.into_values().flatten());
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{graph, label, snapshot};
    use super::*;

    fn object(text: &str) -> Object {
        snapshot(text).objects.remove(0)
    }

    fn seen(text: &str) -> Observation {
        Observation::Seen(Box::new(object(text)))
    }

    fn names(graph: &OwnerGraph) -> Vec<String> {
        graph.objects().iter().map(label).collect()
    }

    fn shows(uids: &[&str]) -> Scenery {
        Scenery { shown: Some(uids.iter().map(|uid| Uid::from(*uid)).collect()) }
    }

    #[test]
    fn what_is_not_in_the_picture_asks_for_no_new_one_and_is_not_lost() {
        let before = graph("Job/a\nConfigMap/other");
        let scenery = shows(&["Job/a"]);
        let mut fresh = Fresh::default();
        // The Pod's ReplicaSet has not been seen yet: kinds are watched side by side.
        let mut pod = object("Pod/p <- ReplicaSet/r@ReplicaSet/r!");
        pod.uid = Uid::from("Pod/p");
        fresh.observe(Observation::Seen(Box::new(pod)), &before, &scenery);
        fresh.observe(seen("ConfigMap/other finalizer=a/b"), &before, &scenery);
        assert!(!fresh.is_dirty());
        fresh.observe(seen("ReplicaSet/r <- Job/a@Job/a!"), &before, &scenery);
        assert!(fresh.is_dirty());
        let mut snapshot = before.into_snapshot();
        assert!(fresh.apply(&mut snapshot), "a Pod");
        let after = OwnerGraph::new(snapshot);
        assert_eq!(names(&after), ["ConfigMap/other", "Job/a", "Pod/p", "ReplicaSet/r"]);
        assert!(after.object(0).has_finalizer("a/b"));
        assert!(!fresh.is_dirty());
    }

    #[test]
    fn what_goes_goes_once_and_what_nobody_knew_does_not_matter() {
        let before = graph("Job/a\nPod/p <- Job/a");
        let scenery = shows(&["Job/a", "Pod/p"]);
        let mut fresh = Fresh::default();
        fresh.observe(Observation::Gone(Uid::from("Secret/s")), &before, &scenery);
        assert!(!fresh.is_dirty());
        fresh.observe(Observation::Gone(Uid::from("Pod/p")), &before, &scenery);
        assert!(fresh.is_dirty());
        let mut snapshot = before.into_snapshot();
        assert!(!fresh.apply(&mut snapshot));
        assert_eq!(names(&OwnerGraph::new(snapshot)), ["Job/a"]);
    }

    #[test]
    fn a_new_list_tells_what_is_gone_of_its_kind_and_place_alone() {
        let before = graph("Pod/a\nPod/b\nother:Pod/c\nSecret/s");
        let mut fresh = Fresh::default();
        fresh.observe(seen("Pod/late"), &before, &Scenery::default());
        let list = Observation::Listed {
            resource: "pods".into(),
            namespace: Some("x".into()),
            objects: vec![object("Pod/b"), object("Pod/d")],
        };
        fresh.observe(list, &before, &Scenery::default());
        let mut snapshot = before.into_snapshot();
        fresh.apply(&mut snapshot);
        assert_eq!(names(&OwnerGraph::new(snapshot)), ["other:Pod/c", "Pod/b", "Pod/d", "Secret/s"]);
    }
}
