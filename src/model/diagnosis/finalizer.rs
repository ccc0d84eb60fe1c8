//! A finalizer that is not the collector's own holds an object (F6, F25, T6, T7, B.7): who serves it, who set it,
//! whether anything that looks like its controller runs, and what its removal leaves behind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::admission::Refused;
use super::container::is_container_finalizer;
use super::inquiry::{Inquiry, span};
use super::volume::{CLAIM_PROTECTION, VOLUME_PROTECTION};
use super::{Actor, Cause, Finding, Remedy, Verdict};
use crate::model::catalog::escaped;
use crate::model::facts::{Identity, Question, Subject};
use crate::model::object::{Object, ObjectRef};

/// The finalizer of Pods that a Job still has to count.
pub(super) const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The name under which a Job's own controller stands in its `spec.managedBy`.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// So many names of workloads of a kind are looked at more closely.
const MOST_WORKLOADS: usize = 5;

/// The finalizer of Services that have a load balancer in a cloud.
const LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// A finalizer that Kubernetes itself, or a well-known add-on, serves (reference B.7).
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The finalizer; of the drivers' ones there are many.
    name: &'static str,
    /// On which kind; on others nobody serves it.
    kind: &'static str,
    /// Who removes it.
    pub server: &'static str,
    /// What for.
    pub waits_for: &'static str,
    /// What its removal by anybody else leaves behind.
    pub leaves: &'static str,
}

const KNOWN: [Known; 8] = [
    Known {
        name: JOB_TRACKING,
        kind: "Pod",
        server: "the Job controller of the controller manager",
        waits_for: "the Pod to be counted for its Job",
        leaves: "a Job that still runs may count this Pod wrongly",
    },
    Known {
        name: CLAIM_PROTECTION,
        kind: "PersistentVolumeClaim",
        server: "the PVC protection controller of the controller manager",
        waits_for: "every scheduled Pod that mounts the claim to be deleted, finished ones too",
        leaves: "a Pod may lose its storage while it runs",
    },
    Known {
        name: VOLUME_PROTECTION,
        kind: "PersistentVolume",
        server: "the PV protection controller of the controller manager",
        waits_for: "the volume to be no longer bound to a claim",
        leaves: "a claim may lose its volume",
    },
    Known {
        name: LOAD_BALANCER,
        kind: "Service",
        server: "the cloud controller manager",
        waits_for: "the cloud load balancer to be deleted",
        leaves: "the cloud load balancer may stay and cost money: check it there first",
    },
    Known {
        name: "networking.k8s.io/service-cidr-finalizer",
        kind: "ServiceCIDR",
        server: "the ServiceCIDR controller of the controller manager",
        waits_for: "no IPAddress of the range to be in use",
        leaves: "Services may hold addresses outside every range",
    },
    Known {
        name: "resource.kubernetes.io/delete-protection",
        kind: "ResourceClaim",
        server: "the resource claim controller of the controller manager",
        waits_for: "the claim to be unreserved and deallocated",
        leaves: "a device may stay allocated",
    },
    Known {
        name: "scheduling.k8s.io/podgroup-protection",
        kind: "PodGroup",
        server: "the Pod group controller of the controller manager",
        waits_for: "the Pods of the group to be gone",
        leaves: "its Pods lose their group",
    },
    Known {
        name: "kubernetes.io/vac-protection",
        kind: "VolumeAttributesClass",
        server: "the VolumeAttributesClass protection controller of the controller manager",
        waits_for: "no claim or volume to use the class",
        leaves: "claims name a class that does not exist",
    },
];

/// The finalizers of the drivers of volumes.
const OF_DRIVERS: Known = Known {
    name: "",
    kind: "",
    server: "the driver of the volume",
    waits_for: "the disk, or its attachment to a machine, to be released",
    leaves: "the disk, or its attachment to a machine, stays and costs money",
};

fn known(finalizer: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == finalizer)
}

/// Who serves a well-known finalizer, and what its removal leaves behind.
pub fn served(finalizer: &str) -> Option<&'static Known> {
    known(finalizer).or_else(|| is_volume_finalizer(finalizer).then_some(&OF_DRIVERS))
}

impl Inquiry<'_> {
    /// Explains the foreign finalizers of a Terminating object. None where it has none.
    pub(super) fn finalizers(&mut self, index: usize, chain: &[ObjectRef]) -> Option<Finding> {
        let graph = self.graph;
        let object = graph.object(index);
        let foreign: Vec<&str> =
            object.foreign_finalizers().filter(|name| !is_container_finalizer(object, name)).collect();
        let mut findings: Vec<Finding> = Vec::new();
        let mut refused = false;
        for finalizer in &foreign {
            let (finding, is_refusal) = self.finalizer(index, finalizer, chain);
            // A refused patch beats the finalizers that wait for something else.
            if is_refusal && !refused {
                findings.insert(0, finding);
            } else {
                findings.push(finding);
            }
            refused |= is_refusal;
        }
        let mut findings = findings.into_iter();
        let mut first = findings.next()?;
        for next in findings {
            first.then(next);
        }
        self.cross_namespace(index, chain, &mut first);
        Some(first)
    }

    /// What holds it is its finalizer; that it holds an owner of another namespace is a wrong reference (F12).
    fn cross_namespace(&mut self, index: usize, chain: &[ObjectRef], finding: &mut Finding) {
        let graph = self.graph;
        let object = graph.object(index);
        let namespace = object.namespace.as_deref();
        let Some(owner) = chain.iter().rev().nth(1).filter(|owner| {
            owner.namespace.is_some() && namespace.is_some() && owner.namespace.as_deref() != namespace
        }) else {
            return;
        };
        if finding.cause == Cause::FinalizerHeld {
            finding.cause = Cause::CrossNamespaceOwner;
            finding.also(Cause::FinalizerHeld);
        } else {
            finding.also(Cause::CrossNamespaceOwner);
        }
        let Some(position) = object.owners.iter().position(|reference| reference.uid == owner.uid) else {
            return;
        };
        finding.evidence(
            format!("metadata.ownerReferences of {}", finding.object.short()),
            format!(
                "{} (UID {}) is in namespace {}, not in {}",
                owner.short(),
                owner.uid,
                owner.namespace.as_deref().unwrap_or_default(),
                namespace.unwrap_or_default()
            ),
        );
        finding.remedies.push(
            Remedy::command(
                self.remove_reference(index, position, &owner.uid),
                format!("drop the reference to {}: it is invalid across namespaces", owner.short()),
            )
            .risk(format!("frees {} alone", owner.short())),
        );
    }

    /// Explains one finalizer; true where its removal is refused.
    fn finalizer(&mut self, index: usize, finalizer: &str, chain: &[ObjectRef]) -> (Finding, bool) {
        let graph = self.graph;
        let object = graph.object(index);
        let leaf = object.reference();
        let question = |identity| Question::RemoveFinalizer {
            subject: Subject::of(object),
            finalizer: finalizer.to_owned(),
            identity,
        };
        let is_served = known(finalizer).is_none_or(|known| known.kind == leaf.kind);
        let tried = if finalizer == JOB_TRACKING && is_served {
            self.try_as(Identity::JobController, question)
        } else {
            self.try_as_some_controller(question)
        };
        if let Some(tried) = &tried
            && let Some((question, reading, reply)) = &tried.refused
            && let Some(mut finding) =
                self.refusal(chain, Refused::Finalizer(finalizer), question, reading, reply)
        {
            tried.add_to(&mut finding, Cause::FinalizerHeld);
            finding.remedies.extend(self.background_on_target(chain));
            return (finding, true);
        }
        let notes = tried.map(|tried| tried.notes).unwrap_or_default();
        let special = match finalizer {
            _ if !is_served => None,
            JOB_TRACKING => Some(self.job_tracking(index, chain)),
            CLAIM_PROTECTION => self.claim_in_use(index, chain),
            VOLUME_PROTECTION => self.volume_bound(index, chain),
            _ if is_volume_finalizer(finalizer) => Some(self.not_released(index, finalizer, chain)),
            _ => None,
        };
        let mut finding = match special {
            Some(finding) => finding,
            None => self.held(index, finalizer, chain),
        };
        if finding.object.uid != leaf.uid {
            // Something else is what does not move, and all is said of it.
            return (finding, false);
        }
        finding.evidence(
            format!("metadata.finalizers of {}", leaf.short()),
            Value::from(object.finalizers.clone()).to_string(),
        );
        if notes.iter().any(|(_, text)| text.contains("about who asks")) {
            // Its controller may be let through or not: nobody but itself could tell.
            finding.also(Cause::AdmissionDenied);
        }
        for (source, text) in notes {
            finding.evidence(source, text);
        }
        self.author(index, finalizer, &mut finding);
        for event in self.events(index) {
            finding.evidence(event.source, event.text);
        }
        if let Some(remedy) = self.background_on_target(chain) {
            // What ends the wait for good comes before what frees only the owner.
            let place = finding.remedies.len().min(1);
            finding.remedies.insert(place, remedy);
        }
        if let Some(actor) = &mut finding.by {
            actor.finalizer = Some(finalizer.to_owned());
            actor.finalizers = object.finalizers.clone();
        }
        (finding, false)
    }

    /// A finalizer whose controller has not acted.
    fn held(&mut self, index: usize, finalizer: &str, chain: &[ObjectRef]) -> Finding {
        let object = self.graph.object(index);
        let leaf = object.reference();
        let age = span(self.age(object));
        let blocking = match chain.iter().rev().nth(1) {
            Some(owner) if self.graph.blocks(index, &owner.uid) && self.waits_in_foreground(&owner.uid) => {
                format!(", and blocks {} (blockOwnerDeletion: true)", owner.short())
            }
            _ => String::new(),
        };
        let mut finding = Finding::new(Cause::FinalizerHeld, Verdict::Proven, chain, &leaf, String::new())
            .by(Actor::default());
        match known(finalizer) {
            // A known name on an object of another kind: nobody looks for it there.
            Some(known) if known.kind != leaf.kind => {
                finding.summary = format!(
                    "{} has waited {age}: {} removes the finalizer {finalizer} from objects of kind {} alone, and nobody is \
                     known to serve it here{blocking}",
                    leaf.short(),
                    known.server,
                    known.kind
                );
                finding.remedies.extend(self.remove_finalizer(index, finalizer));
            }
            Some(known) => {
                finding.summary = format!(
                    "{} has waited {age} for {}, which removes the finalizer {finalizer}; it waits for {}{blocking}",
                    leaf.short(),
                    known.server,
                    known.waits_for
                );
                finding
                    .remedies
                    .push(Remedy::text(format!("make sure that {} runs, and give it time", known.server)));
                if finalizer == LOAD_BALANCER {
                    finding.cause = Cause::LoadBalancerCleanup;
                } else if self.stale_lease(&mut finding) {
                    finding.also(Cause::CollectorDown);
                }
                finding.remedies.extend(self.remove_finalizer(index, finalizer));
            }
            None => {
                self.served_group(index, finalizer, &mut finding);
                let runs = self.controllers(index, finalizer, &mut finding);
                finding.summary = format!(
                    "{} has waited {age} for the controller of the finalizer {finalizer}{blocking}{runs}",
                    leaf.short()
                );
                finding.remedies.push(Remedy::text(format!(
                    "start or repair the controller that serves {finalizer}: it cleans up and removes the finalizer itself"
                )));
                finding.remedies.extend(self.remove_finalizer(index, finalizer));
            }
        }
        finding
    }

    /// The Job controller has not counted a Pod (reference T6).
    fn job_tracking(&mut self, index: usize, chain: &[ObjectRef]) -> Finding {
        let graph = self.graph;
        let object = graph.object(index);
        let leaf = object.reference();
        let mut finding = Finding::new(
            Cause::JobTracking,
            Verdict::Consistent,
            chain,
            &leaf,
            format!(
                "{} has waited {} for the Job controller, which alone removes {JOB_TRACKING}",
                leaf.short(),
                span(self.age(object))
            ),
        )
        .by(Actor::default());
        let controller = object.owners.iter().find(|owner| owner.controller);
        let other = controller.filter(|owner| !(owner.kind == "Job" && owner.api_version == "batch/v1"));
        if other.is_none() && self.stale_lease(&mut finding) {
            finding.also(Cause::CollectorDown);
        }
        if let Some(owner) = other {
            finding.verdict = Verdict::Proven;
            finding.summary = format!(
                "{}: its controller is {}/{}, no Job, so the Job controller never removes {JOB_TRACKING}",
                finding.summary, owner.kind, owner.name
            );
        }
        if let Some(manager) = self.managed_elsewhere(index, &mut finding) {
            finding.remedies.push(Remedy::text(format!(
                "make sure that {manager} runs: it has to remove {JOB_TRACKING} in the Job controller's place"
            )));
        } else if other.is_none() {
            finding
                .remedies
                .push(Remedy::text("make sure that kube-controller-manager runs, and give it time"));
        }
        finding.remedies.extend(self.remove_finalizer(index, JOB_TRACKING));
        finding
    }

    /// The controller that a Pod's Job is left to by `spec.managedBy`: the Job controller then leaves its Pods alone
    /// (`pkg/controller/job/job_controller.go`, syncOrphanPod).
    fn managed_elsewhere(&mut self, index: usize, finding: &mut Finding) -> Option<String> {
        let graph = self.graph;
        let object = graph.object(index);
        let job = object.owners.iter().find(|owner| owner.controller && owner.kind == "Job")?;
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", escaped(namespace), escaped(&job.name));
        let whole = self.read(path)?;
        let manager = whole["spec"]["managedBy"].as_str().filter(|manager| *manager != JOB_CONTROLLER)?;
        if whole["metadata"]["uid"] != *job.uid.as_str() {
            return None;
        }
        finding.verdict = Verdict::Proven;
        finding.evidence(format!("spec.managedBy of Job/{}", job.name), manager);
        finding.summary = format!(
            "{} has waited {} for {manager}, which manages Job/{} in the Job controller's place, to remove {JOB_TRACKING}",
            object.reference().short(),
            span(self.age(object)),
            job.name
        );
        Some(manager.to_owned())
    }

    /// Who wrote the finalizer, and when, by managedFields.
    fn author(&mut self, index: usize, finalizer: &str, finding: &mut Finding) {
        let Some(whole) = self.whole(index) else { return };
        let key = format!("v:\"{finalizer}\"");
        let entries = whole["metadata"]["managedFields"].as_array().into_iter().flatten();
        let entry = entries
            .filter(|entry| entry["fieldsV1"]["f:metadata"]["f:finalizers"].get(&key).is_some())
            .max_by_key(|entry| entry["time"].as_str().unwrap_or_default());
        if let Some(entry) = entry {
            let manager = entry["manager"].as_str().unwrap_or_default();
            let time = entry["time"].as_str().unwrap_or_default();
            finding.evidence("metadata.managedFields", format!("{finalizer} was set by {manager} at {time}"));
            if let Some(actor) = &mut finding.by {
                actor.manager = Some(manager.to_owned());
            }
        }
        // Many operators say in their status why they do not finish.
        let conditions = whole["status"]["conditions"].as_array().into_iter().flatten();
        for condition in conditions.filter(|condition| speaks_of_deletion(condition)).take(3) {
            finding.evidence(
                format!("status condition {}", condition["type"].as_str().unwrap_or_default()),
                condition["message"].as_str().unwrap_or_default(),
            );
        }
    }

    /// The API group that the finalizer's domain belongs to, where one is served: its CRDs or its API server come from
    /// whoever serves the finalizer, most likely.
    fn served_group(&mut self, index: usize, finalizer: &str, finding: &mut Finding) {
        let graph = self.graph;
        let catalog = &graph.snapshot().catalog;
        let Some((domain, _)) = finalizer.split_once('/') else { return };
        let is_of = |group: &str| {
            // A group of two labels and more is somebody's own; `k8s.io` and the like are not.
            group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        let mut kinds: Vec<String> = catalog
            .preferred()
            .filter(|resource| is_of(&resource.group))
            .map(|resource| resource.qualified())
            .collect();
        kinds.sort();
        if kinds.is_empty() {
            return;
        }
        let more = kinds.len().saturating_sub(5);
        let mut names = kinds[..kinds.len() - more].join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        finding.evidence(format!("API groups of the domain {domain}"), format!("served: {names}"));
        let resource = &graph.object(index).resource;
        let definition = graph.objects().iter().find(|definition| {
            definition.is("apiextensions.k8s.io", "CustomResourceDefinition")
                && definition.is_terminating()
                && definition.name == format!("{}.{}", resource.plural, resource.group)
        });
        if let Some(definition) = definition {
            finding.evidence(
                format!("metadata.deletionTimestamp of {}", definition.reference().short()),
                "it is being deleted, too, and waits for its instances",
            );
        }
    }

    /// Whether anything runs that looks like the finalizer's controller: consistent at best, never proven.
    fn controllers(&mut self, index: usize, finalizer: &str, finding: &mut Finding) -> String {
        let object = self.graph.object(index);
        let words = name_words(finalizer, object);
        if words.is_empty() {
            return String::new();
        }
        let mut seen = 0;
        let mut matching = Vec::new();
        for kind in ["deployments", "statefulsets", "daemonsets"] {
            let Some(named) = self.workloads_like(kind, &words) else { continue };
            seen += 1;
            for name in named.into_iter().take(MOST_WORKLOADS) {
                let path = format!("/apis/apps/v1/{kind}?fieldSelector=metadata.name%3D{}", escaped(&name));
                let Some(body) = self.read(path) else { continue };
                let items = body["items"].as_array().into_iter().flatten();
                matching.extend(
                    items.filter(|item| looks_like(item, &words)).map(|item| describe_workload(kind, item)),
                );
            }
        }
        let searched = "Deployments, StatefulSets and DaemonSets of all namespaces";
        match (seen, matching.as_slice()) {
            (3, []) => {
                finding.evidence(searched, format!("none has {} in its name or images", words.join(" or ")));
                "; no Deployment, StatefulSet or DaemonSet of this cluster looks like it".to_owned()
            }
            (_, []) => String::new(),
            (_, found) => {
                let more = match found.len().saturating_sub(5) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let found = found.iter().take(5).cloned().collect::<Vec<_>>().join(", ") + &more;
                finding.evidence(searched, format!("{found} may be its controller"));
                format!("; {found} may be it")
            }
        }
    }
}

impl Inquiry<'_> {
    /// The names of the workloads of a kind that have one of these words in their name or images. Read from the server's
    /// own table, which has both and is a hundredth of the objects. None where it may not be read.
    fn workloads_like(&mut self, kind: &str, words: &[String]) -> Option<BTreeSet<String>> {
        let question = Question::Table(format!("/apis/apps/v1/{kind}?includeObject=None"));
        let reply = self.ask(&question)?;
        let Some(rows) = reply.body().and_then(|table| table["rows"].as_array()) else {
            self.note(&question, reply);
            return None;
        };
        let columns = reply.body()?["columnDefinitions"].as_array();
        let column = |name: &str| columns?.iter().position(|column| column["name"] == name);
        let (name, images) = (column("Name")?, column("Images"));
        let cell = |row: &Value, at: Option<usize>| {
            at.and_then(|at| row["cells"][at].as_str()).unwrap_or_default().to_lowercase()
        };
        let fits = |row: &&Value| {
            let images = cell(row, images);
            let name = cell(row, Some(name));
            let mut texts = images.split(',').map(path_of).chain([name.as_str()]);
            texts.any(|text| words.iter().any(|word| text.contains(word.as_str())))
        };
        Some(rows.iter().filter(fits).map(|row| cell(row, Some(name))).collect())
    }
}

fn is_volume_finalizer(finalizer: &str) -> bool {
    finalizer == "external-provisioner.volume.kubernetes.io/finalizer"
        || finalizer == "kubernetes.io/pv-controller"
        || finalizer.starts_with("external-attacher/")
}

/// The words of a finalizer's domain that may also stand in the name of its controller.
fn name_words(finalizer: &str, object: &Object) -> Vec<String> {
    let domain = finalizer.split('/').next().unwrap_or_default();
    let group = object.resource.group.as_str();
    let generic = [
        "io",
        "com",
        "org",
        "net",
        "dev",
        "k8s",
        "kubernetes",
        "sh",
        "cloud",
        "finalizer",
        "finalizers",
        "www",
        "example",
        "test",
        "local",
        "apps",
        "batch",
        "core",
        "api",
        "app",
        "sigs",
        "x-k8s",
        "cluster",
        "storage",
        "networking",
        "policy",
    ];
    let mut words: Vec<String> = domain
        .split('.')
        .chain(group.split('.'))
        .filter(|word| word.len() > 2 && !generic.contains(word))
        .map(str::to_lowercase)
        .collect();
    words.sort();
    words.dedup();
    words
}

fn looks_like(workload: &Value, words: &[String]) -> bool {
    let mut texts = vec![workload["metadata"]["name"].as_str().unwrap_or_default().to_lowercase()];
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    let images = containers.filter_map(|container| container["image"].as_str());
    texts.extend(images.map(|image| path_of(image).to_lowercase()));
    words.iter().any(|word| texts.iter().any(|text| text.contains(word.as_str())))
}

/// An image without its registry: a company's registry says nothing about which of its programs this is.
fn path_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => image,
    }
}

fn describe_workload(kind: &str, workload: &Value) -> String {
    let text = |field: &str| workload["metadata"][field].as_str().unwrap_or_default();
    let number = |field: &str| workload["status"][field].as_i64().unwrap_or(0);
    let (ready, wanted) = if kind == "daemonsets" {
        (number("numberReady"), number("desiredNumberScheduled"))
    } else {
        (number("readyReplicas"), workload["spec"]["replicas"].as_i64().unwrap_or(1))
    };
    let kind = kind.trim_end_matches('s');
    format!("{kind} {}/{} ({ready} of {wanted} ready)", text("namespace"), text("name"))
}

fn speaks_of_deletion(condition: &Value) -> bool {
    ["type", "reason", "message"].iter().any(|field| {
        let text = condition[*field].as_str().unwrap_or_default().to_lowercase();
        text.contains("delet") || text.contains("finaliz") || text.contains("terminat")
    })
}
