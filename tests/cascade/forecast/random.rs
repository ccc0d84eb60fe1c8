//! Random ownership graphs: what they hold, how they are made from a seed, how they get smaller, how they are
//! written down. Pure, so that the explorer of the model and the tests on the control plane share it.

use super::Policy;

/// A small generator of our own (splitmix64): the same graphs for the same seed for all time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or_default()
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// What kind an object is of. Those that the collector treats alike are here because the API server does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    Secret,
    ServiceAccount,
    Lease,
    /// A custom resource: the collector patches it in another way.
    Widget,
    /// No scheduler runs: it stays without a node.
    Pod,
    /// On a Node that nobody is behind.
    PodOnNode,
    /// Cluster-scoped.
    ClusterRole,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Lease => "Lease",
            Self::Widget => "Widget",
            Self::Pod | Self::PodOnNode => "Pod",
            Self::ClusterRole => "ClusterRole",
        }
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Lease => "coordination.k8s.io",
            Self::Widget => "example.test",
            Self::ClusterRole => "rbac.authorization.k8s.io",
            _ => "",
        }
    }

    pub(crate) fn api_version(self) -> String {
        self.in_version("v1")
    }

    pub(crate) fn in_version(self, version: &str) -> String {
        match self.group() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::ServiceAccount => "serviceaccounts",
            Self::Lease => "leases",
            Self::Widget => "widgets",
            Self::Pod | Self::PodOnNode => "pods",
            Self::ClusterRole => "clusterroles",
        }
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self != Self::ClusterRole
    }
}

/// What is wrong, or unusual, with an ownerReference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    /// Nothing.
    None,
    /// Name and UID of nobody.
    Absent,
    /// The owner's name, nobody's UID.
    WrongUid,
    /// The owner's UID, nobody's name.
    WrongName,
    /// The owner's UID and name, another kind.
    WrongKind,
    /// A version that nobody serves, of a group that is served.
    UnservedVersion,
    /// A group that nobody serves.
    UnknownGroup,
    /// The other version in which Widgets are served; nothing for other kinds.
    OtherVersion,
}

/// One ownerReference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Index of the owner.
    pub(crate) to: usize,
    pub(crate) twist: Twist,
    pub(crate) block: bool,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) kind: Kind,
    /// In the graph's other namespace.
    pub(crate) elsewhere: bool,
    pub(crate) owners: Vec<Reference>,
    /// Carries finalizer H, which nobody serves.
    pub(crate) held: bool,
    /// Carries `foregroundDeletion` or `orphan` while it lives.
    pub(crate) preset: Option<Policy>,
    /// Was deleted with this policy before the graph is looked at.
    pub(crate) deleted: Option<Policy>,
}

/// A graph and what is deleted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) things: Vec<Thing>,
    pub(crate) targets: Vec<usize>,
    pub(crate) policy: Policy,
}

const POLICIES: [Policy; 3] = [Policy::Background, Policy::Foreground, Policy::Orphan];

impl Graph {
    /// The graph of a seed: two to `most` objects.
    pub(crate) fn random(seed: u64, most: usize) -> Self {
        let random = &mut Random::new(seed);
        let count = 2 + random.below(most - 1);
        // What is rare comes to few graphs, but there more than once.
        let strange = if random.percent(30) { 25 } else { 0 };
        let held = random.pick(&[0, 15, 30]);
        let preset = random.pick(&[0, 0, 25]);
        let deleted = random.pick(&[0, 30]);
        let blocking = random.pick(&[50, 80, 100]);
        let cyclic = random.pick(&[0, 10, 30]);
        let exotic = random.pick(&[0, 0, 30]);
        let things = (0..count)
            .map(|index| {
                let kind = random_kind(random, exotic);
                let owners = random_owners(random, index, count, cyclic, strange, blocking);
                Thing {
                    kind,
                    elsewhere: strange > 0 && kind.is_namespaced() && random.percent(6),
                    owners,
                    held: random.percent(held),
                    preset: random
                        .percent(preset)
                        .then(|| random.pick(&[Policy::Foreground, Policy::Orphan])),
                    deleted: random.percent(deleted).then(|| random.pick(&POLICIES)),
                }
            })
            .map(|mut thing| {
                // Without a finalizer or kubelet it would be gone before the graph is looked at.
                if matches!(thing.deleted, Some(Policy::Background | Policy::Orphan)) {
                    thing.held |= thing.kind != Kind::PodOnNode;
                }
                thing
            })
            .collect();
        let mut targets = vec![if random.percent(65) { 0 } else { random.below(count) }];
        if random.percent(15) {
            let second = random.below(count);
            if !targets.contains(&second) {
                targets.push(second);
            }
        }
        let policy = random.pick(&[
            Policy::Background,
            Policy::Background,
            Policy::Foreground,
            Policy::Foreground,
            Policy::Foreground,
            Policy::Orphan,
        ]);
        Self { things, targets, policy }
    }

    /// The same without what a collector that stood still meanwhile would get wrong: it learns of each kind's changes
    /// apart, and may be done with a foreground or orphaning deletion before it knows of the dependents.
    pub(crate) fn calm(mut self) -> Self {
        for thing in &mut self.things {
            thing.preset = None;
            thing.deleted = thing.deleted.map(|_| Policy::Background);
            thing.held |= thing.deleted.is_some() && thing.kind != Kind::PodOnNode;
        }
        self
    }

    /// Whether it holds a reference that the collector can never resolve, and so tries again for ever.
    pub(crate) fn has_unserved(&self) -> bool {
        let unserved =
            |reference: &Reference| matches!(reference.twist, Twist::UnservedVersion | Twist::UnknownGroup);
        self.things.iter().any(|thing| thing.owners.iter().any(unserved))
    }

    /// All graphs that are one step smaller, the biggest steps first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        if self.things.len() > 1 {
            smaller.extend((0..self.things.len()).filter_map(|index| self.without(index)));
        }
        if self.targets.len() > 1 {
            for position in 0..self.targets.len() {
                let mut graph = self.clone();
                graph.targets.remove(position);
                smaller.push(graph);
            }
        }
        let mut change = |change: &dyn Fn(&mut Self)| {
            let mut graph = self.clone();
            change(&mut graph);
            if graph != *self {
                smaller.push(graph);
            }
        };
        for (index, thing) in self.things.iter().enumerate() {
            for position in 0..thing.owners.len() {
                change(&|graph| {
                    graph.things[index].owners.remove(position);
                });
            }
            change(&|graph| graph.things[index].deleted = None);
            change(&|graph| graph.things[index].held = false);
            change(&|graph| graph.things[index].preset = None);
            change(&|graph| graph.things[index].elsewhere = false);
            for position in 0..thing.owners.len() {
                change(&|graph| graph.things[index].owners[position].twist = Twist::None);
                change(&|graph| graph.things[index].owners[position].block = false);
            }
            change(&|graph| graph.things[index].kind = Kind::ConfigMap);
        }
        smaller
    }

    fn without(&self, gone: usize) -> Option<Self> {
        let mut graph = self.clone();
        graph.things.remove(gone);
        graph.targets.retain(|target| *target != gone);
        if graph.targets.is_empty() {
            return None;
        }
        let shift = |index: &mut usize| *index -= usize::from(*index > gone);
        graph.targets.iter_mut().for_each(shift);
        for thing in &mut graph.things {
            thing.owners.retain(|reference| reference.to != gone);
            thing.owners.iter_mut().for_each(|reference| shift(&mut reference.to));
        }
        Some(graph)
    }

    /// The graph as the graph notation of the model's tests writes it; what was deleted stands there as it would be
    /// right after its DELETE.
    pub(crate) fn text(&self) -> String {
        let lines = self.things.iter().enumerate().map(|(index, thing)| {
            let mut line = self.label(index);
            match thing.deleted.or(thing.preset) {
                Some(Policy::Foreground) => line += " finalizer=foregroundDeletion",
                Some(Policy::Orphan) => line += " finalizer=orphan",
                _ => {}
            }
            line += if thing.held { " finalizer=example.test/hold" } else { "" };
            line += if thing.kind == Kind::PodOnNode { " node=bare" } else { "" };
            line += if thing.deleted.is_some() { " terminating" } else { "" };
            let owners: Vec<String> =
                thing.owners.iter().map(|reference| self.reference_text(index, reference)).collect();
            if !owners.is_empty() {
                line += &format!(" <- {}", owners.join(", "));
            }
            line
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The graph in the notation of the rules: `1: [0!, 2] H`, and what is deleted.
    pub(crate) fn notation(&self) -> String {
        let things = self.things.iter().enumerate().map(|(index, thing)| {
            let owners: Vec<String> = thing
                .owners
                .iter()
                .map(|reference| {
                    let twist = match reference.twist {
                        Twist::None => String::new(),
                        twist => format!(" {twist:?}"),
                    };
                    format!("{}{}{twist}", reference.to, if reference.block { "!" } else { "" })
                })
                .collect();
            let mut text = index.to_string();
            if !owners.is_empty() {
                text += &format!(": [{}]", owners.join(", "));
            }
            if thing.kind != Kind::ConfigMap {
                text += &format!(" {:?}", thing.kind);
            }
            text += if thing.elsewhere { " elsewhere" } else { "" };
            text += if thing.held { " H" } else { "" };
            if let Some(preset) = thing.preset {
                text += &format!(" preset {}", preset.as_str());
            }
            if let Some(policy) = thing.deleted {
                text += &format!(" already {}", policy.as_str());
            }
            text
        });
        let things: Vec<String> = things.collect();
        format!("{}, {} on {:?}", things.join("; "), self.policy.as_str(), self.targets)
    }

    /// How the model's tests name an object.
    pub(crate) fn label(&self, index: usize) -> String {
        let thing = &self.things[index];
        let place = if thing.elsewhere { "other:" } else { "" };
        format!("{place}{}/{index}", thing.kind.name())
    }

    fn reference_text(&self, from: usize, reference: &Reference) -> String {
        let owner = &self.things[reference.to];
        let kind = owner.kind.name();
        let to = reference.to;
        let uid = self.label(to);
        let flag = if reference.block { "!" } else { "" };
        let apart = owner.kind.is_namespaced() && owner.elsewhere != self.things[from].elsewhere;
        let plain = match (apart, owner.elsewhere) {
            (true, true) => format!("other:{kind}/{to}"),
            (true, false) => format!("x:{kind}/{to}"),
            _ => format!("{kind}/{to}"),
        };
        let text = match reference.twist {
            Twist::None => plain,
            Twist::Absent => format!("{kind}/absent@absent{from}"),
            Twist::WrongUid => format!("{kind}/{to}@wrong{from}"),
            Twist::WrongName => format!("{kind}/wrong@{uid}"),
            Twist::WrongKind => format!("{}/{to}@{uid}", wrong_kind(owner.kind).name()),
            Twist::UnservedVersion => format!("{}#{kind}/{to}@{uid}", owner.kind.in_version("v9")),
            Twist::UnknownGroup => format!("unknown.test/v1#{kind}/{to}@{uid}"),
            Twist::OtherVersion if owner.kind == Kind::Widget => format!("example.test/v2#{plain}"),
            Twist::OtherVersion => plain,
        };
        format!("{text}{flag}")
    }
}

/// A kind that this one is not, of the same scope.
pub(crate) fn wrong_kind(kind: Kind) -> Kind {
    if kind == Kind::Secret { Kind::ConfigMap } else { Kind::Secret }
}

fn random_kind(random: &mut Random, exotic: usize) -> Kind {
    if random.percent(exotic) {
        return random.pick(&[Kind::Pod, Kind::Pod, Kind::PodOnNode, Kind::PodOnNode, Kind::ClusterRole]);
    }
    random.pick(&[
        Kind::ConfigMap,
        Kind::ConfigMap,
        Kind::Secret,
        Kind::ServiceAccount,
        Kind::Lease,
        Kind::Widget,
        Kind::Widget,
    ])
}

fn random_owners(
    random: &mut Random,
    index: usize,
    count: usize,
    cyclic: usize,
    strange: usize,
    blocking: usize,
) -> Vec<Reference> {
    let wanted = random.pick(&[0, 1, 1, 1, 1, 2, 2, 2, 3]);
    let mut owners: Vec<Reference> = Vec::new();
    for _ in 0..wanted {
        // Mostly upwards, which gives trees and diamonds; sometimes anywhere, which gives cycles.
        let to = if random.percent(cyclic) {
            random.below(count)
        } else if index > 0 {
            random.below(index)
        } else {
            continue;
        };
        let twist = if random.percent(strange) {
            random.pick(&[
                Twist::Absent,
                Twist::WrongUid,
                Twist::WrongName,
                Twist::WrongKind,
                Twist::UnservedVersion,
                Twist::UnknownGroup,
                Twist::OtherVersion,
            ])
        } else {
            Twist::None
        };
        // A second reference to the same owner only where it differs in what it names (rule 5).
        if owners.iter().all(|other| other.to != to || (other.twist != twist && strange > 0)) {
            owners.push(Reference { to, twist, block: random.percent(blocking) });
        }
    }
    owners
}
