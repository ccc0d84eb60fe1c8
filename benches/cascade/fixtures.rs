//! What is measured: objects made through plain parallel requests, and snapshots made without a server.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_plane::Error;
use futures::{StreamExt, TryStreamExt};
use http::Method;
use kubectl_cascade::cluster::connect::{Cluster, ConnectionOptions};
use kubectl_cascade::cluster::discovery;
use kubectl_cascade::cluster::request::Request;
use kubectl_cascade::error::Trouble;
use kubectl_cascade::model::catalog::{Catalog, Resource};
use kubectl_cascade::model::object::{Object, OwnerReference, Searched, Snapshot};
use serde_json::{Value, json};

/// Requests in flight.
const AT_ONCE: usize = 32;
/// Definitions that are not served after so long will not be.
const SERVED_WITHIN: Duration = Duration::from_secs(300);
/// The node of the Pods; there is none of that name's kubelet.
const NODE: &str = "bench";

/// A namespace full of objects.
pub struct Made {
    pub namespace: &'static str,
    pub objects: usize,
    pub seconds: f64,
}

/// The CustomResourceDefinitions of these numbers, ten a group; returns once the server serves them all.
pub fn definitions(kubeconfig: &Path, numbers: Range<usize>) -> Result<(), Error> {
    block_on(kubeconfig, async |cluster| {
        let definition = |number: usize| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": format!("things{number}.g{}.bench.test", number / 10) },
                "spec": {
                    "group": format!("g{}.bench.test", number / 10), "scope": "Namespaced",
                    "names": { "plural": format!("things{number}"), "kind": format!("Thing{number}") },
                    "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                        "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
                },
            })
        };
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let last = numbers.end;
        create_all(&cluster, path, numbers.map(definition)).await?;
        let served = |catalog: &Catalog| {
            catalog.preferred().filter(|resource| resource.group.ends_with(".bench.test")).count() >= last
        };
        let deadline = Instant::now() + SERVED_WITHIN;
        loop {
            let catalog =
                discovery::catalog(&cluster).await.map_err(|failure| Error::new(failure.message))?;
            if served(&catalog) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::new(format!("{last} definitions are not served")));
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
}

/// A root, `middle` ConfigMaps below it, `leaves` realistic Pods below each; 3,000 ConfigMaps and 2,000 Secrets of
/// 8 KB beside them.
pub fn pods(kubeconfig: &Path, namespace: &'static str, middle: usize, leaves: usize) -> Result<Made, Error> {
    let began = Instant::now();
    block_on(kubeconfig, async |cluster| {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
        create_all(&cluster, "/api/v1/nodes", [node]).await?;
        let owners = middle_of(&cluster, namespace, middle).await?;
        let pod = |(owner, leaf): (&Value, usize)| pod(owner, leaf);
        let all = owners.iter().flat_map(|owner| (0..leaves).map(move |leaf| (owner, leaf)));
        create_all(&cluster, &format!("/api/v1/namespaces/{namespace}/pods"), all.map(pod)).await?;
        let plain = |number: usize| json!({ "metadata": { "name": format!("beside-{number}") }, "data": { "k": "v" } });
        create_all(&cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), (0..3_000).map(plain))
            .await?;
        let text = "x".repeat(8_000);
        let secret = |number: usize| json!({ "metadata": { "name": format!("beside-{number}") }, "stringData": { "k": text } });
        create_all(&cluster, &format!("/api/v1/namespaces/{namespace}/secrets"), (0..2_000).map(secret))
            .await?;
        Ok(())
    })?;
    let objects = 1 + middle + middle * leaves + 5_000;
    Ok(Made { namespace, objects, seconds: began.elapsed().as_secs_f64() })
}

/// A root, `middle` ConfigMaps below it, `leaves` ConfigMaps below each.
pub fn config_maps(
    kubeconfig: &Path,
    namespace: &'static str,
    middle: usize,
    leaves: usize,
) -> Result<Made, Error> {
    let began = Instant::now();
    block_on(kubeconfig, async |cluster| {
        let owners = middle_of(&cluster, namespace, middle).await?;
        let leaf = |(owner, leaf): (&Value, usize)| {
            let name = format!("{}-leaf-{leaf}", owner["name"].as_str().unwrap_or_default());
            json!({ "metadata": { "name": name, "ownerReferences": [owner] } })
        };
        let all = owners.iter().flat_map(|owner| (0..leaves).map(move |leaf| (owner, leaf)));
        create_all(&cluster, &format!("/api/v1/namespaces/{namespace}/configmaps"), all.map(leaf)).await?;
        Ok(())
    })?;
    let objects = 1 + middle + middle * leaves;
    Ok(Made { namespace, objects, seconds: began.elapsed().as_secs_f64() })
}

/// The namespace, the root and the middle; returns ownerReferences to the middle.
async fn middle_of(cluster: &Cluster, namespace: &str, middle: usize) -> Result<Vec<Value>, Error> {
    create_all(cluster, "/api/v1/namespaces", [json!({ "metadata": { "name": namespace } })]).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let root = create_all(cluster, &path, [json!({ "metadata": { "name": "root" } })]).await?;
    let root = &root[0];
    let between = |number: usize| json!({ "metadata": { "name": format!("middle-{number}"), "ownerReferences": [root] } });
    create_all(cluster, &path, (0..middle).map(between)).await
}

fn pod(owner: &Value, leaf: usize) -> Value {
    let name = format!("{}-pod-{leaf}", owner["name"].as_str().unwrap_or_default());
    let variables: Vec<Value> = (0..20)
        .map(|number| json!({ "name": format!("VARIABLE_{number}"), "value": "a value of some length" }))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": "registry.example.test/team/image:1.2.3", "env": variables,
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
        })
    };
    json!({
        "metadata": {
            "name": name, "ownerReferences": [owner],
            "labels": { "app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": name, "tier": "backend" },
            "annotations": { "example.test/note": "an annotation as many systems write them" },
        },
        "spec": {
            "nodeName": NODE, "tolerations": [{ "operator": "Exists" }],
            "containers": [container("main"), container("sidecar")],
            "volumes": [{ "name": "scratch", "emptyDir": {} }],
        },
    })
}

/// Creates all of them in this collection; returns ownerReferences to them, in their order.
async fn create_all(
    cluster: &Cluster,
    path: &str,
    bodies: impl IntoIterator<Item = Value>,
) -> Result<Vec<Value>, Error> {
    futures::stream::iter(bodies)
        .map(|body| async move {
            let request = Request::new(Method::POST, path).body("application/json", &body);
            let answer = cluster.send(request).await.map_err(|trouble| match trouble {
                Trouble::Status { message, .. } | Trouble::NoAnswer { message, .. } => Error::new(message),
            })?;
            let made: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            Ok(json!({
                "apiVersion": made["apiVersion"], "kind": made["kind"], "name": made["metadata"]["name"],
                "uid": made["metadata"]["uid"], "blockOwnerDeletion": true, "controller": true,
            }))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

fn block_on(kubeconfig: &Path, work: impl AsyncFnOnce(Cluster) -> Result<(), Error>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Error::new(error.to_string()))?.block_on(async {
        let options =
            ConnectionOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ConnectionOptions::default() };
        work(Cluster::connect(&options).await.map_err(|failure| Error::new(failure.message))?).await
    })
}

/// Snapshots of so many objects: one broad owner, a tree of hundreds, a chain.
pub fn snapshots(count: usize) -> Vec<(&'static str, Snapshot)> {
    vec![
        ("one owner", snapshot(count, |_| 0)),
        ("a tree", snapshot(count, |number| (number - 1) / 200)),
        ("a chain", snapshot(count, |number| number - 1)),
    ]
}

fn snapshot(count: usize, parent: fn(usize) -> usize) -> Snapshot {
    let resource = Resource {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ["delete", "get", "list", "watch"].map(str::to_owned).into(),
    };
    let catalog = Catalog::new(vec![resource], Vec::new(), Vec::new());
    let resource = Arc::clone(&catalog.all()[0]);
    let object = |number: usize| Object {
        resource: Arc::clone(&resource),
        namespace: Some("x".into()),
        name: number.to_string(),
        uid: format!("uid-{number}").into(),
        resource_version: "1".to_owned(),
        owners: if number == 0 { [].into() } else { [owner(parent(number))].into() },
        finalizers: Vec::new(),
        labels: Arc::default(),
        created: None,
        deleted: None,
        grace_seconds: None,
    };
    let objects = (0..count).map(object).collect();
    Snapshot { catalog, objects, searched: Searched::everywhere(), ..Snapshot::default() }
}

fn owner(number: usize) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: number.to_string(),
        uid: format!("uid-{number}").into(),
        controller: true,
        block_owner_deletion: true,
    }
}
