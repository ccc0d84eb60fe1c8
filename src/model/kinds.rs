//! The kinds that every Kubernetes has, for reading a cluster from a file, where there is no discovery. As of 1.37
//! (`kubernetes/pkg/controlplane/instance.go`, `pkg/registry/*/rest`).

use super::catalog::Resource;

/// `group/version`, then `Kind plural [SHORT,...]`; a `-` before a kind: cluster-scoped; a `+`: of the category `all`.
const KINDS: &[(&str, &[&str])] = &[
    (
        "v1",
        &[
            "ConfigMap configmaps cm",
            "Endpoints endpoints ep",
            "Event events ev",
            "LimitRange limitranges limits",
            "-Namespace namespaces ns",
            "-Node nodes no",
            "PersistentVolumeClaim persistentvolumeclaims pvc",
            "-PersistentVolume persistentvolumes pv",
            "+Pod pods po",
            "PodTemplate podtemplates",
            "+ReplicationController replicationcontrollers rc",
            "ResourceQuota resourcequotas quota",
            "Secret secrets",
            "ServiceAccount serviceaccounts sa",
            "+Service services svc",
        ],
    ),
    ("apiregistration.k8s.io/v1", &["-APIService apiservices"]),
    (
        "apps/v1",
        &[
            "ControllerRevision controllerrevisions",
            "+DaemonSet daemonsets ds",
            "+Deployment deployments deploy",
            "+ReplicaSet replicasets rs",
            "+StatefulSet statefulsets sts",
        ],
    ),
    ("events.k8s.io/v1", &["Event events ev"]),
    ("autoscaling/v2", &["+HorizontalPodAutoscaler horizontalpodautoscalers hpa"]),
    ("autoscaling/v1", &["+HorizontalPodAutoscaler horizontalpodautoscalers hpa"]),
    ("batch/v1", &["+CronJob cronjobs cj", "+Job jobs"]),
    ("certificates.k8s.io/v1", &["-CertificateSigningRequest certificatesigningrequests csr"]),
    (
        "networking.k8s.io/v1",
        &[
            "-IngressClass ingressclasses",
            "Ingress ingresses ing",
            "-IPAddress ipaddresses ip",
            "NetworkPolicy networkpolicies netpol",
            "-ServiceCIDR servicecidrs",
        ],
    ),
    ("policy/v1", &["PodDisruptionBudget poddisruptionbudgets pdb"]),
    (
        "rbac.authorization.k8s.io/v1",
        &[
            "-ClusterRoleBinding clusterrolebindings",
            "-ClusterRole clusterroles",
            "RoleBinding rolebindings",
            "Role roles",
        ],
    ),
    (
        "storage.k8s.io/v1",
        &[
            "-CSIDriver csidrivers",
            "-CSINode csinodes",
            "CSIStorageCapacity csistoragecapacities",
            "-StorageClass storageclasses sc",
            "-VolumeAttachment volumeattachments",
            "-VolumeAttributesClass volumeattributesclasses vac",
        ],
    ),
    (
        "admissionregistration.k8s.io/v1",
        &[
            "-MutatingAdmissionPolicy mutatingadmissionpolicies",
            "-MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings",
            "-MutatingWebhookConfiguration mutatingwebhookconfigurations",
            "-ValidatingAdmissionPolicy validatingadmissionpolicies",
            "-ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings",
            "-ValidatingWebhookConfiguration validatingwebhookconfigurations",
        ],
    ),
    ("apiextensions.k8s.io/v1", &["-CustomResourceDefinition customresourcedefinitions crd,crds"]),
    ("scheduling.k8s.io/v1", &["-PriorityClass priorityclasses pc"]),
    ("coordination.k8s.io/v1", &["Lease leases"]),
    ("node.k8s.io/v1", &["-RuntimeClass runtimeclasses"]),
    ("discovery.k8s.io/v1", &["EndpointSlice endpointslices"]),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        &["-FlowSchema flowschemas", "-PriorityLevelConfiguration prioritylevelconfigurations"],
    ),
    (
        "resource.k8s.io/v1",
        &[
            "-DeviceClass deviceclasses",
            "ResourceClaim resourceclaims",
            "ResourceClaimTemplate resourceclaimtemplates",
            "-ResourceSlice resourceslices",
        ],
    ),
];

/// Every kind of the table, in the order of an API server's priorities.
pub fn in_tree() -> Vec<Resource> {
    let mut resources = Vec::new();
    for (api_version, kinds) in KINDS {
        for line in *kinds {
            let mut words = line.split(' ');
            let marked = words.next().unwrap_or_default();
            let mut resource = resource(api_version, marked.trim_start_matches(['-', '+']), true);
            resource.namespaced = !marked.starts_with('-');
            resource.categories = marked.starts_with('+').then(|| "all".to_owned()).into_iter().collect();
            words.next().unwrap_or_default().clone_into(&mut resource.plural);
            resource.short_names = words.flat_map(|short| short.split(',')).map(str::to_owned).collect();
            resources.push(resource);
        }
    }
    resources
}

/// A kind of which only its name is known: its plural is guessed as kubectl guesses it
/// (`apimachinery/pkg/api/meta/restmapper.go`, UnsafeGuessKindToResource).
pub fn resource(api_version: &str, kind: &str, namespaced: bool) -> Resource {
    let (group, version) = super::catalog::split_api_version(api_version);
    let singular = kind.to_lowercase();
    let plural = match singular.chars().last() {
        Some('s') => format!("{singular}es"),
        Some('y') => format!("{}ies", singular.trim_end_matches('y')),
        _ => format!("{singular}s"),
    };
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural,
        singular,
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: ["create", "delete", "get", "list", "patch", "update", "watch"].map(str::to_owned).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_as_resources() {
        let all = in_tree();
        let find = |kind: &str| {
            all.iter().find(|resource| resource.kind == kind).unwrap_or_else(|| panic!("{kind}"))
        };
        let pods = find("Pod");
        assert_eq!((pods.api_version().as_str(), pods.qualified().as_str()), ("v1", "pods"));
        assert!(pods.namespaced && pods.short_names == ["po"] && pods.categories == ["all"]);
        let definitions = find("CustomResourceDefinition");
        assert!(!definitions.namespaced && definitions.short_names == ["crd", "crds"]);
        assert!(
            all.iter()
                .all(|resource| !resource.plural.is_empty()
                    && resource.is_collectable() != resource.is_event())
        );
    }

    #[test]
    fn a_plural_is_guessed_as_kubectl_does() {
        let plural = |kind| resource("example.test/v1", kind, true).plural;
        assert_eq!([plural("Widget"), plural("Policy"), plural("Class")], ["widgets", "policies", "classes"]);
    }
}
