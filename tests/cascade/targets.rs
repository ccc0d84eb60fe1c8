//! Discovery, targets and columns against a real API server, with kubectl as the yardstick.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use control_plane::{Component, ControlPlane, Options, eventually};
use kubectl_cascade::cluster::columns::columns;
use kubectl_cascade::cluster::connect::{Cluster, ConnectionOptions};
use kubectl_cascade::cluster::discovery::catalog;
use kubectl_cascade::cluster::kubeconfig::Environment;
use kubectl_cascade::cluster::targets::resolve;
use kubectl_cascade::error::{Failure, FailureKind};
use kubectl_cascade::model::catalog::{Catalog, Resource};
use kubectl_cascade::model::object::Object;
use kubectl_cascade::model::target::{Arguments, BareType, parse};

use crate::support::{PATIENCE, World};

/// Kinds that take names away from built-in ones: the plural and kind of Service, the short name of ConfigMap, a
/// category of their own, and a kind that is only served in an older version.
const SHOP: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: services.shop.example.test}
spec:
  group: shop.example.test
  scope: Namespaced
  names: {plural: services, singular: service, kind: Service, shortNames: [cm, shop], categories: [stock]}
  versions:
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns:
    - {name: Ready, type: boolean, jsonPath: .ready}
    - {name: Phase, type: string, jsonPath: .phase}
  - name: v1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parcels.shop.example.test}
spec:
  group: shop.example.test
  scope: Cluster
  names: {plural: parcels, singular: parcel, kind: Parcel, categories: [stock]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

const GOODS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {app: x}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
---
apiVersion: v1
kind: Secret
metadata: {name: a, labels: {app: x}}
---
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{port: 80}]}
---
apiVersion: shop.example.test/v2
kind: Service
metadata: {name: a, labels: {app: x}}
ready: true
phase: Happy
---
apiVersion: shop.example.test/v1
kind: Parcel
metadata: {name: targets-parcel, labels: {app: x}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: none}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: none}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], storageClassName: "none", resources: {requests: {storage: 1Gi}}}
"#;

async fn connect(plane: &ControlPlane) -> Cluster {
    let kubeconfig = Some(plane.kubeconfig_path().to_owned());
    let options = ConnectionOptions { kubeconfig, ..ConnectionOptions::default() };
    Cluster::connect_from(&options, &Environment::default()).await.expect("a cluster")
}

/// A namespace with the goods in it.
fn stocked(test: &str) -> World {
    let world = World::new(test);
    let kubectl = world.kubectl();
    kubectl.apply(SHOP).expect("two kinds");
    let definitions = ["crd/services.shop.example.test", "crd/parcels.shop.example.test"];
    kubectl.run(&[&["wait", "--for=condition=Established"], &definitions[..]].concat()).expect("established");
    // Discovery may lag behind the condition.
    let apply = ["apply", "--server-side", "-n", &world.namespace, "-f", "-"];
    eventually("the goods are there", PATIENCE, || kubectl.run_with_input(&apply, GOODS).ok())
        .expect("goods");
    world
}

/// What a command line means: words, `-l LABELS`, `--field-selector FIELDS`, `--all`.
async fn resolved(
    cluster: &Cluster,
    catalog: &Catalog,
    namespace: &str,
    line: &str,
) -> Result<Vec<Object>, Failure> {
    let (mut targets, mut selector, mut field_selector) = (Vec::new(), "", "");
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-l" => selector = words.next().expect("labels"),
            "--field-selector" => field_selector = words.next().expect("fields"),
            word => targets.push(word.to_owned()),
        }
    }
    let arguments = Arguments {
        targets: &targets,
        selector,
        field_selector,
        all: false,
        all_namespaces: false,
        namespace,
        bare_type: BareType::All,
    };
    resolve(cluster, catalog, &parse(&arguments, catalog)?, false).await
}

/// As `kubectl get -o name` prints it.
fn printed(object: &Object) -> String {
    let group =
        if object.resource.group.is_empty() { String::new() } else { format!(".{}", object.resource.group) };
    format!("{}{group}/{}", object.resource.kind.to_lowercase(), object.name)
}

#[tokio::test]
async fn every_word_names_the_same_objects_as_for_kubectl() {
    let world = stocked("targets-words");
    let namespace = world.namespace.as_str();
    let cluster = connect(world.plane()).await;
    let catalog = catalog(&cluster).await.expect("a catalog");
    for line in [
        "configmaps",
        "cm",
        "ConfigMap a b",
        "CONFIGMAPS",
        "cm/a secret/a",
        "cm,secret a",
        "cm,secrets -l app=x",
        "secrets -l app!=x",
        "secrets,cm --field-selector metadata.name=a",
        "service a",
        "services/a",
        "Service a",
        "svc a",
        "shop a",
        "services.shop.example.test a",
        "service.shop.example.test/a",
        "services.v1.shop.example.test a",
        "Service.v2.shop.example.test a",
        "cm.shop.example.test a",
        "services.shop a",
        "parcel/targets-parcel cm/a",
        "parcels -l app=x",
        "stock -l app=x",
        "stock,cm -l app=x",
        "deploy.apps/web",
        "deployments.v1.apps web",
        "jobs.batch/once",
        "jobs.v1.batch once",
        "pods.v1. -l app=unknown",
        "ns default",
        "storageclass.storage",
    ] {
        let arguments =
            [&["get", "-o", "name", "-n", namespace][..], &line.split_whitespace().collect::<Vec<_>>()]
                .concat();
        let kubectl = world.kubectl().run(&arguments).unwrap_or_else(|error| panic!("{line}: {error}"));
        let expected: BTreeSet<&str> = kubectl.lines().collect();
        let found = resolved(&cluster, &catalog, namespace, line)
            .await
            .unwrap_or_else(|failure| panic!("{line}: {failure}"));
        let found: Vec<String> = found.iter().map(printed).collect();
        assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{line}");
    }
    for line in [
        "nothing a",
        "services.nowhere a",
        "cm/a b",
        "cm/a/b",
        "cm a -l app=x",
        "cm/a -l app=x",
        "stock a",
        "all/a",
    ] {
        let arguments =
            [&["get", "-o", "name", "-n", namespace][..], &line.split_whitespace().collect::<Vec<_>>()]
                .concat();
        assert!(world.kubectl().run(&arguments).is_err(), "kubectl takes {line}");
        resolved(&cluster, &catalog, namespace, line).await.expect_err(line);
    }
}

#[tokio::test]
async fn a_missing_name_reads_as_in_kubectl_and_offers_what_resembles_it() {
    let world = stocked("targets-missing");
    let namespace = world.namespace.as_str();
    let cluster = connect(world.plane()).await;
    let catalog = catalog(&cluster).await.expect("a catalog");
    let missing = async |line: &str, namespace: &str| {
        let failure = resolved(&cluster, &catalog, namespace, line).await.expect_err(line);
        let arguments =
            [&["get", "-n", namespace][..], &line.split_whitespace().collect::<Vec<_>>()].concat();
        let kubectl = world.kubectl().run(&arguments).expect_err("missing").to_string();
        assert!(kubectl.ends_with(&failure.message), "{kubectl}\n{}", failure.message);
        assert_eq!(failure.kind, FailureKind::Error);
        failure.hint.expect("a hint")
    };
    assert_eq!(missing("job onec", namespace).await, "did you mean once?");
    assert!(missing("rs web", namespace).await.starts_with("did you mean web-"));
    assert_eq!(missing("job once", "targets-nowhere").await, "check the namespace given with -n");
    assert_eq!(
        missing("daemonset web", namespace).await,
        format!("no daemonsets.apps in namespace {namespace:?} has a similar name")
    );
    let other = missing("services.shop.example.test/zzz", namespace).await;
    assert_eq!(other, "services is another type: write services/zzz if that is meant");

    let queries = |line: &str| {
        let targets: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let arguments = Arguments {
            targets: &targets,
            selector: "",
            field_selector: "",
            all: false,
            all_namespaces: false,
            namespace,
            bare_type: BareType::Refused,
        };
        parse(&arguments, &catalog).expect("queries")
    };
    let both = resolve(&cluster, &catalog, &queries("cm/nope1 job/onec cm/a"), false)
        .await
        .expect_err("two are missing");
    assert_eq!(both.message.lines().count(), 2, "{both}");
    let ignoring = resolve(&cluster, &catalog, &queries("cm/nope1 cm/a"), true).await.expect("one is there");
    assert_eq!(ignoring.iter().map(printed).collect::<Vec<_>>(), ["configmap/a"]);
}

#[tokio::test]
async fn columns_are_those_that_the_server_prints() {
    let world = stocked("targets-columns");
    let namespace = world.namespace.as_str();
    let cluster = connect(world.plane()).await;
    let catalog = catalog(&cluster).await.expect("a catalog");
    let expected: BTreeSet<(&str, &str, &str)> = [
        ("deployment.apps", "2/2", ""),
        ("replicaset.apps", "2/2", ""),
        ("job.batch", "1/1", "Complete"),
        ("pod", "0/1", "Completed"),
        ("pod", "1/1", "Running"),
        ("persistentvolumeclaim", "", "Pending"),
        ("service.shop.example.test", "true", "Happy"),
        ("namespace", "", "Active"),
    ]
    .into();
    let mut shown = BTreeSet::new();
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::time::Instant::now() < deadline {
        let line = "deploy,rs,jobs,pods,pvc,services.shop.example.test,cm,secrets,svc";
        let mut objects = resolved(&cluster, &catalog, namespace, line).await.expect("objects");
        objects.extend(
            resolved(&cluster, &catalog, namespace, &format!("ns/{namespace}")).await.expect("a namespace"),
        );
        let found = columns(&cluster, &objects.iter().collect::<Vec<_>>()).await;
        shown = objects
            .iter()
            .filter_map(|object| {
                let columns = found.get(&object.uid)?;
                let kind = printed(object).split('/').next().unwrap_or_default().to_owned();
                Some((kind, columns.ready.clone(), columns.status.clone()))
            })
            .collect();
        if shown.iter().map(|(kind, ready, status)| (&**kind, &**ready, &**status)).collect::<BTreeSet<_>>()
            == expected
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{shown:#?} is not {expected:#?}");
}

#[tokio::test]
async fn an_api_without_a_server_is_a_gap_in_its_own_words_and_costs_little() {
    let options = [Component::ControllerManager, Component::Scheduler, Component::Kwok];
    let options = options.into_iter().fold(Options::default(), Options::without);
    let plane =
        ControlPlane::start(options).expect("a control plane of its own: others would stumble over this");
    let dead = r#"
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.dead.example.test}
spec:
  {group: dead.example.test, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
   service: {namespace: default, name: nobody}}
"#;
    plane.kubectl().apply(dead).expect("an APIService");
    let cluster = connect(&plane).await;
    let deadline = std::time::Instant::now() + PATIENCE;
    let catalog = loop {
        let catalog = catalog(&cluster).await.expect("never an error");
        if catalog.is_stale("dead.example.test/v1") || std::time::Instant::now() > deadline {
            break catalog;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let [gap] = catalog.gaps() else { panic!("one gap: {:?}", catalog.gaps()) };
    assert_eq!(
        (gap.resource.as_str(), gap.group.as_str(), gap.reason.as_str()),
        ("*", "dead.example.test", "ServiceUnavailable")
    );
    assert!(!gap.message.is_empty());
    assert!(catalog.served("v1", "Pod").is_some());
    let failure = resolved(&cluster, &catalog, "default", "corpses a").await.expect_err("unknown");
    assert!(failure.hint.is_some_and(|hint| hint.contains("dead.example.test")));
}

/// Passes requests on without their `Accept`, as a server would see them that knows only the legacy documents.
fn forgetful(upstream: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let upstream = TcpStream::connect(&upstream).expect("the proxy listens");
            std::thread::spawn(move || forward(client, upstream));
        }
    });
    url
}

fn forward(mut client: TcpStream, mut upstream: TcpStream) -> io::Result<()> {
    for line in BufReader::new(client.try_clone()?).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if !line.to_lowercase().starts_with("accept") {
            write!(upstream, "{line}\r\n")?;
        }
    }
    write!(upstream, "Accept: application/json\r\nConnection: close\r\n\r\n")?;
    io::copy(&mut upstream, &mut client)?;
    Ok(())
}

#[tokio::test]
async fn the_legacy_documents_tell_the_same_as_the_aggregated_ones() {
    // A namespace only to have the kinds with two versions and a category.
    let world = stocked("targets-legacy");
    let mut proxy = world.kubectl().command();
    let mut proxy = proxy.args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn().expect("kubectl proxy");
    let mut line = String::new();
    BufReader::new(proxy.stdout.take().expect("piped")).read_line(&mut line).expect("where it listens");
    let server = forgetful(line.trim().rsplit(' ').next().expect("an address").to_owned());

    let options = ConnectionOptions { server: Some(server), ..ConnectionOptions::default() };
    let legacy = Cluster::connect_from(&options, &Environment::default()).await.expect("a cluster");
    let legacy = catalog(&legacy).await.expect("a catalog");
    let aggregated = catalog(&connect(world.plane()).await).await.expect("a catalog");
    proxy.kill().expect("ours");
    proxy.wait().expect("killed");

    // Other tests may define kinds between the two looks.
    let lasting =
        |group: &str| !group.contains('.') || group.ends_with(".k8s.io") || group == "shop.example.test";
    let resources = |catalog: &Catalog| -> Vec<Resource> {
        catalog
            .all()
            .iter()
            .filter(|resource| lasting(&resource.group))
            .map(|resource| (**resource).clone())
            .collect()
    };
    assert!(!legacy.gaps().iter().any(|gap| lasting(&gap.group)), "{:?}", legacy.gaps());
    let (legacy, aggregated) = (resources(&legacy), resources(&aggregated));
    let versions = |resources: &[Resource]| {
        let mut versions: Vec<String> = resources.iter().map(Resource::api_version).collect();
        versions.dedup();
        versions
    };
    assert_eq!(versions(&legacy), versions(&aggregated), "in the same order");
    let set = |resources: &[Resource]| resources.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(set(&legacy), set(&aggregated));
    assert!(legacy.len() > 50);
}
