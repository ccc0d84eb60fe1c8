//! What trees look like.

use std::sync::Arc;

use std::fmt::Write as _;

use insta::assert_snapshot;

use super::super::text::written;
use super::*;
use crate::model::forecast::forecast;
use crate::model::object::Columns;
use crate::model::policy::Policy;
use crate::model::testing::{at, graph, now};

/// The tree of some roots; of the forest where none is named.
fn tree(graph: &OwnerGraph, roots: &[&str], change: impl FnOnce(&mut TreeOptions<'_>)) -> String {
    tree_in(Look::PLAIN, graph, roots, change)
}

fn tree_in(
    look: Look,
    graph: &OwnerGraph,
    roots: &[&str],
    change: impl FnOnce(&mut TreeOptions<'_>),
) -> String {
    let columns: BTreeMap<Uid, Columns> = [
        ("Pod/web-1-x", "1/1", "Running"),
        ("Pod/web-1-y", "0/1", "CrashLoopBackOff"),
        ("Deployment/web", "1/2", ""),
    ]
    .map(|(uid, ready, status)| (uid.into(), Columns { ready: ready.into(), status: status.into() }))
    .into();
    let mut options = TreeOptions::new(now(), &columns);
    options.forest = roots.is_empty();
    change(&mut options);
    let roots = match roots {
        [] => graph.roots(),
        roots => roots.iter().map(|root| at(graph, root)).collect(),
    };
    written(|out| write_tree(out, look, graph, &roots, &options))
}

const WEB: &str = "
    Deployment/web created=2025-12-29T23:04:05Z
    ReplicaSet/web-1 <- Deployment/web!*
    Pod/web-1-x created=2026-01-02T03:00:45Z label=app=web <- ReplicaSet/web-1!*
    Pod/web-1-y terminating finalizer=foregroundDeletion finalizer=example.test/hold <- ReplicaSet/web-1!*
    ConfigMap/a <- Deployment/web";

#[test]
fn a_tree_with_its_columns() {
    assert_snapshot!(tree(&graph(WEB), &["Deployment/web"], |_| {}), @r"
    NAME                  READY   STATUS                                                AGE
    Deployment/web        1/2                                                           3d4h
    ├─ ConfigMap/a                                                                      27h
    └─ ReplicaSet/web-1                                                                 27h
       ├─ Pod/web-1-x     1/1     Running                                               3m20s
       └─ Pod/web-1-y     0/1     Terminating (foregroundDeletion, example.test/hold)   27h
    ");
}

#[test]
fn wide_adds_finalizers_blocks_and_uid() {
    let text = tree(&graph(WEB), &["Deployment/web"], |options| {
        options.wide = true;
    });
    assert_snapshot!(text, @r"
    NAME                  READY   STATUS                                                AGE     FINALIZERS                             BLOCKS   UID
    Deployment/web        1/2                                                           3d4h                                                    Deployment/web
    ├─ ConfigMap/a                                                                      27h                                            no       ConfigMap/a
    └─ ReplicaSet/web-1                                                                 27h                                            yes      ReplicaSet/web-1
       ├─ Pod/web-1-x     1/1     Running                                               3m20s                                          yes      Pod/web-1-x
       └─ Pod/web-1-y     0/1     Terminating (foregroundDeletion, example.test/hold)   27h     foregroundDeletion,example.test/hold   yes      Pod/web-1-y
    ");
}

#[test]
fn labels_have_columns_and_headers_can_be_left_out() {
    let labels = ["example.test/app".to_owned(), "app".to_owned()];
    let graph = graph(WEB);
    let columns = BTreeMap::new();
    let mut options = TreeOptions::new(now(), &columns);
    options.labels = &labels;
    let roots = [at(&graph, "ReplicaSet/web-1")];
    let text = written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &options));
    assert_snapshot!(text, @r"
    NAME               READY   STATUS                                                AGE     APP   APP
    ReplicaSet/web-1                                                                 27h
    ├─ Pod/web-1-x                                                                   3m20s         web
    └─ Pod/web-1-y             Terminating (foregroundDeletion, example.test/hold)   27h
    ");
    options.no_headers = true;
    let text = written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &options));
    assert!(text.starts_with("ReplicaSet/web-1 "), "{text}");
}

#[test]
fn ascii_where_the_terminal_is_not_utf8() {
    let look = Look { utf8: false, ..Look::PLAIN };
    assert_snapshot!(tree_in(look, &graph(WEB), &["Deployment/web"], |_| {}), @r"
    NAME                  READY   STATUS                                                AGE
    Deployment/web        1/2                                                           3d4h
    |- ConfigMap/a                                                                      27h
    `- ReplicaSet/web-1                                                                 27h
       |- Pod/web-1-x     1/1     Running                                               3m20s
       `- Pod/web-1-y     0/1     Terminating (foregroundDeletion, example.test/hold)   27h
    ");
}

#[test]
fn lines_are_cut_to_the_terminal() {
    let look = Look { width: Some(40), ..Look::PLAIN };
    let text = tree_in(look, &graph(WEB), &["Deployment/web"], |_| {});
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    assert!(text.contains('…'), "{text}");
}

#[test]
fn an_object_with_two_owners_is_shown_once_and_cycles_end() {
    let graph = graph(
        "Job/a
         ConfigMap/b <- Job/a
         ConfigMap/c <- Job/a, Secret/e
         Secret/d <- ConfigMap/b, ConfigMap/c
         Secret/e <- ConfigMap/c
         Secret/f <- Secret/d
         Secret/g <- Job/a, Secret/g",
    );
    assert_snapshot!(tree(&graph, &["Job/a"], |_| {}), @r"
    NAME                           READY   STATUS   AGE
    Job/a                                           27h
    ├─ ConfigMap/b                                  27h
    │  └─ Secret/d                                  27h
    │     └─ Secret/f                               27h
    ├─ ConfigMap/c                                  27h
    │  ├─ Secret/d (shown above)
    │  └─ Secret/e                                  27h
    │     └─ ConfigMap/c (cycle)
    └─ Secret/g                                     27h
       └─ Secret/g (cycle)
    ");
}

#[test]
fn references_in_a_wrong_state_are_marked() {
    let graph = graph(
        "Job/a
         other:ConfigMap/b <- x:Job/a
         ConfigMap/c <- Job/a, Secret/gone
         ClusterWidget/d <- Job/a
         ConfigMap/e <- v9#Job/a
         ConfigMap/f <- Job/other-name@Job/a",
    );
    assert_snapshot!(tree(&graph, &["Job/a"], |_| {}), @r"
    NAMESPACE   NAME                                                READY   STATUS   AGE
    x           Job/a                                                                27h
                ├─ ClusterWidget/d (wrong reference: scope)                          27h
    other       ├─ ConfigMap/b (wrong reference: other-namespace)                    27h
    x           ├─ ConfigMap/c (owner Secret/gone: absent)                           27h
    x           ├─ ConfigMap/e (wrong reference: unserved)                           27h
    x           └─ ConfigMap/f (wrong reference: mismatch)                           27h
    ");
}

#[test]
fn many_siblings_of_a_kind_are_one_line() {
    let mut text = "Job/a\nConfigMap/c <- Job/a\n".to_owned();
    for number in 0..500 {
        let terminating = if number < 3 { "terminating" } else { "" };
        writeln!(text, "Pod/p{number} {terminating} <- Job/a").unwrap_or_default();
        writeln!(text, "Secret/s{number} <- Pod/p{number}").unwrap_or_default();
    }
    let graph = graph(&text);
    let columns: BTreeMap<Uid, Columns> = (0..400)
        .map(|number| {
            let status = if number % 100 == 7 { "Pending" } else { "Running" };
            (format!("Pod/p{number}").into(), Columns { ready: String::new(), status: status.into() })
        })
        .collect();
    let mut options = TreeOptions::new(now(), &columns);
    let roots = [at(&graph, "Job/a")];
    let text = written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &options));
    assert_snapshot!(text, @r"
    NAME                          READY   STATUS                     AGE
    Job/a                                                            27h
    ├─ ConfigMap/c                                                   27h
    └─ Pod ×500 (3 Terminating)           Running ×393, Pending ×4
       └─ Secret ×500
    ");
    options.expand = true;
    let text = written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &options));
    assert_eq!(text.lines().count(), 1 + graph.objects().len());
}

#[test]
fn one_kind_below_a_group_is_counted_by_status_too() {
    let mut text = "Job/a\n".to_owned();
    for number in 0..20 {
        writeln!(text, "ReplicaSet/r{number} <- Job/a\nPod/p{number} <- ReplicaSet/r{number}")
            .unwrap_or_default();
    }
    let status = |number: usize| if number == 7 { "Pending" } else { "Running" };
    let columns: BTreeMap<Uid, Columns> = (0..20)
        .map(|number| {
            let columns = Columns { ready: String::new(), status: status(number).into() };
            (format!("Pod/p{number}").into(), columns)
        })
        .collect();
    let drawn = |text: &str| {
        let graph = graph(text);
        let roots = [at(&graph, "Job/a")];
        written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &TreeOptions::new(now(), &columns)))
    };
    assert_snapshot!(drawn(&text), @r"
    NAME                READY   STATUS                    AGE
    Job/a                                                 27h
    └─ ReplicaSet ×20
       └─ Pod ×20               Running ×19, Pending ×1
    ");
    // Of two kinds nobody could tell whose status is meant.
    text.push_str("Secret/s <- ReplicaSet/r0\n");
    assert_snapshot!(drawn(&text), @r"
    NAME                READY   STATUS   AGE
    Job/a                                27h
    └─ ReplicaSet ×20
       └─ Secret ×1, Pod ×20
    ");
}

#[test]
fn ten_siblings_of_a_kind_are_ten_lines() {
    let mut text = "Job/a\n".to_owned();
    for number in 0..10 {
        writeln!(text, "Pod/p{number} <- Job/a").unwrap_or_default();
    }
    assert_eq!(tree(&graph(&text), &["Job/a"], |_| {}).lines().count(), 12);
}

#[test]
fn a_forest_sums_up_what_has_no_dependents() {
    let text = format!("{WEB}\nSecret/s\nSecret/t terminating\nConfigMap/u\nJob/v\nPod/w <- Job/v");
    let graph = graph(&text);
    assert_snapshot!(tree(&graph, &[], |_| {}), @r"
    NAME                  READY   STATUS                                                AGE
    Deployment/web        1/2                                                           3d4h
    ├─ ConfigMap/a                                                                      27h
    └─ ReplicaSet/web-1                                                                 27h
       ├─ Pod/web-1-x     1/1     Running                                               3m20s
       └─ Pod/web-1-y     0/1     Terminating (foregroundDeletion, example.test/hold)   27h
    Job/v                                                                               27h
    └─ Pod/w                                                                            27h
    Secret/t                      Terminating                                           27h
    and 2 objects without dependents: Secret ×1, ConfigMap ×1
    ");
    let expanded = tree(&graph, &[], |options| options.expand = true);
    assert!(expanded.contains("\nSecret/t "), "{expanded}");
    assert!(!expanded.contains("without dependents"), "{expanded}");
}

#[test]
fn a_forest_of_nothing_but_single_objects_needs_no_headers() {
    assert_snapshot!(tree(&graph("Secret/s\nConfigMap/u"), &[], |_| {}), @r"2 objects without dependents: Secret ×1, ConfigMap ×1");
    assert_eq!(tree(&graph(""), &[], |_| {}), "");
}

#[test]
fn a_forest_of_5000_roots_takes_at_most_60_lines() {
    let mut text = String::new();
    for number in 0..5000 {
        let kind = ["Job", "ConfigMap", "Deployment", "Widget", "Service"][number % 5];
        writeln!(text, "{kind}/r{number}").unwrap_or_default();
        if number % 100 < 80 {
            writeln!(text, "Secret/s{number} <- {kind}/r{number}").unwrap_or_default();
        }
    }
    let text = tree(&graph(&text), &[], |_| {});
    assert!(text.lines().count() <= 60, "{text}");
    assert!(text.contains("Job ×800\n"), "{text}");
    assert!(text.contains("and 1,000 objects without dependents: "), "{text}");
}

#[test]
fn a_forest_of_some_kinds_with_few_each_is_kept_short() {
    let mut text = String::new();
    for number in 0..70 {
        let kind = ["Job", "ConfigMap", "Deployment", "Widget", "Service", "Lease", "CronJob"][number % 7];
        writeln!(text, "{kind}/r{number}\nSecret/s{number} <- {kind}/r{number}").unwrap_or_default();
    }
    let text = tree(&graph(&text), &[], |_| {});
    assert!(text.lines().count() <= 61, "{text}");
}

#[test]
fn a_forest_without_room_keeps_what_fits_and_counts_the_rest_by_fate() {
    let mut text = String::new();
    for number in 0..200 {
        let kind = ["Job", "ConfigMap"][number % 2];
        writeln!(text, "{kind}/r{number}\nSecret/s{number} <- {kind}/r{number}").unwrap_or_default();
    }
    text.push_str("Lease/l\n");
    let graph = graph(&text);
    let columns = BTreeMap::new();
    let options = TreeOptions { forest: true, ..TreeOptions::new(now(), &columns) };
    let roots = graph.roots();
    let picture = Picture::new(Look::PLAIN, &graph, &roots, &options, false);
    let mut folded = Picture::new(Look::PLAIN, &graph, &roots, &options, false);
    folded.nodes = picture.fold(picture.walk(&roots, 0), 3);
    assert_snapshot!(written(|out| folded.write(out)), @r"
    NAME             READY   STATUS   AGE
    ConfigMap ×100
    └─ Secret ×100
    and 100 more trees: Job ×100
    and 1 object without dependents: Lease ×1
    ");
}

#[test]
fn a_chain_10000_deep_neither_overflows_nor_explodes() {
    let mut text = "ConfigMap/c0\n".to_owned();
    for number in 1..10_000 {
        writeln!(text, "ConfigMap/c{number} <- ConfigMap/c{}", number - 1).unwrap_or_default();
    }
    let graph = graph(&text);
    let text = tree(&graph, &["ConfigMap/c0"], |_| {});
    assert_eq!(text.lines().count(), 10_001);
    assert!(text.len() < 3_000_000, "{}", text.len());
    assert!(text.contains("└─ (level 9999) ConfigMap/c9999 "));
    let up = owners(&graph, &["ConfigMap/c9999"], |_| {});
    assert_eq!(up.lines().count(), 10_001);
}

#[test]
fn depth_says_what_it_hides_and_opens_what_turns_up_nearer_to_a_root() {
    let graph = graph(
        "Job/a
         ConfigMap/b <- Job/a
         ConfigMap/c <- ConfigMap/b, Secret/z
         Secret/d <- ConfigMap/c
         Secret/z",
    );
    assert_snapshot!(tree(&graph, &["Job/a", "Secret/z"], |options| options.depth = Some(2)), @r"
    NAME                                        READY   STATUS   AGE
    Job/a                                                        27h
    └─ ConfigMap/b                                               27h
       └─ ConfigMap/c (1 dependent not shown)                    27h
    Secret/z                                                     27h
    └─ ConfigMap/c (shown above)
       └─ Secret/d                                               27h
    ");
    let shown = shown(&graph, &[at(&graph, "Job/a")], Some(1), None, false);
    assert_eq!(shown, [at(&graph, "Job/a"), at(&graph, "ConfigMap/b")]);
}

#[test]
fn an_object_whose_owner_is_not_there_is_shown_in_a_forest_though_nothing_hangs_on_it() {
    let text = tree(&graph("Pod/a <- Job/gone\nPod/b\nSecret/c"), &[], |_| {});
    assert!(text.contains("Pod/a (owner Job/gone: absent)"), "{text}");
    assert!(text.contains("and 2 objects without dependents: "), "{text}");
}

#[test]
fn a_filter_never_cuts_a_branch() {
    let graph = graph(WEB);
    let matching = BTreeSet::from([at(&graph, "Pod/web-1-x")]);
    let look = Look { color: true, ..Look::PLAIN };
    let columns = BTreeMap::new();
    let mut options = TreeOptions::new(now(), &columns);
    options.matching = Some(&matching);
    let roots = [at(&graph, "Deployment/web")];
    let text = written(|out| write_tree(out, look, &graph, &roots, &options));
    assert!(text.contains("\u{1b}[2mReplicaSet/web-1\u{1b}[0m"), "{text}");
    assert!(!text.contains("ConfigMap"), "{text}");
    assert_eq!(text.lines().count(), 4);
    let shown = shown(&graph, &[at(&graph, "Deployment/web")], None, Some(&matching), false);
    assert_eq!(shown.len(), 3);
}

#[test]
fn what_a_namespace_holds_is_not_drawn_as_owned() {
    let graph = graph(
        "Namespace/x
         Job/a
         Pod/b <- Job/a
         Secret/c
         other:Secret/d <- x:Job/a",
    );
    assert_snapshot!(tree(&graph, &["Namespace/x"], |_| {}), @r"
    NAMESPACE   NAME                                                   READY   STATUS   AGE
                Namespace/x                                                             27h
                └─ in x, not owned by it:
    x              ├─ Job/a                                                             27h
    x              │  ├─ Pod/b                                                          27h
    other          │  └─ Secret/d (wrong reference: other-namespace)                    27h
                   └─ 1 object without dependents: Secret ×1
    ");
}

#[test]
fn a_plan_of_a_namespace_hides_no_fate_that_needs_a_reason() {
    let graph = graph(
        "Namespace/x
         Secret/a
         Secret/b finalizer=example.test/hold
         ConfigMap/c
         Pod/d node=n1",
    );
    let roots = [at(&graph, "Namespace/x")];
    let forecast = forecast(&graph, &roots, Policy::Background);
    let columns = BTreeMap::new();
    let mut options = TreeOptions::new(now(), &columns);
    options.forecast = Some(&forecast);
    assert_snapshot!(written(|out| write_plan_tree(out, Look::PLAIN, &graph, &roots, &options)), @r"
    NAME                FATE
    Namespace/x         ■ held by finalizer kubernetes
    └─ in x, not owned by it:
       ├─ ConfigMap/c   … waits until the Namespace has no Pods
       ├─ Pod/d         ✗ goes when n1 confirms (30 s grace)
       ├─ Secret/a      … waits until the Namespace has no Pods
       └─ Secret/b      … waits until the Namespace has no Pods
    ");
}

#[test]
fn no_text_of_the_cluster_reaches_the_terminal_as_it_is() {
    // Case W17, in each place of a tree that shows such a text.
    let mut snapshot = crate::model::testing::snapshot("Pod/p terminating\nSecret/s <- Pod/p");
    let evil = "x\u{1b}[2J\u{202e}\n".to_owned();
    for object in &mut snapshot.objects {
        object.finalizers.push(evil.clone());
        Arc::make_mut(&mut object.labels).insert("l".into(), evil.clone());
        object.name.push_str(&evil);
        Arc::make_mut(&mut object.owners).iter_mut().for_each(|owner| owner.name.push_str(&evil));
    }
    let graph = OwnerGraph::new(snapshot);
    let columns: BTreeMap<Uid, Columns> =
        [("Secret/s".into(), Columns { ready: evil.clone(), status: evil.clone() })].into();
    let forecast = forecast(&graph, &[0], Policy::Background);
    let labels = ["l".to_owned(), evil];
    let mut options = TreeOptions::new(now(), &columns);
    options.forecast = Some(&forecast);
    options.wide = true;
    options.labels = &labels;
    let mut text = written(|out| write_tree(out, Look::PLAIN, &graph, &[0], &options));
    text.push_str(&written(|out| write_owners(out, Look::PLAIN, &graph, &[0, 1], &options)));
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(text.matches(r"x\u{1b}[2J\u{202e}\n").count() >= 10, "{text}");
}

#[test]
fn several_namespaces_have_a_column() {
    let graph = graph("ClusterWidget/a\nSecret/b <- ClusterWidget/a\nother:Secret/c <- ClusterWidget/a");
    assert_snapshot!(tree(&graph, &["ClusterWidget/a"], |_| {}), @r"
    NAMESPACE   NAME              READY   STATUS   AGE
                ClusterWidget/a                    27h
    other       ├─ Secret/c                        27h
    x           └─ Secret/b                        27h
    ");
}

#[test]
fn a_forecast_adds_the_fates() {
    let graph = graph(
        "Job/a
         Job/z
         Pod/b node=n1 <- Job/a!*
         ConfigMap/c <- Job/a, Job/z
         Secret/d finalizer=example.test/hold <- Job/a",
    );
    let roots = [at(&graph, "Job/a")];
    let forecast = forecast(&graph, &roots, Policy::Background);
    let columns = BTreeMap::new();
    let mut options = TreeOptions::new(now(), &columns);
    options.forecast = Some(&forecast);
    assert_snapshot!(written(|out| write_tree(out, Look::PLAIN, &graph, &roots, &options)), @r"
    NAME             READY   STATUS   AGE   FATE
    Job/a                             27h   ✗ deleted
    ├─ ConfigMap/c                    27h   ✓ kept: owned by Job/z
    ├─ Pod/b                          27h   ✗ goes when n1 confirms (30 s grace)
    └─ Secret/d                       27h   ■ held by finalizer example.test/hold
    ");
    assert_snapshot!(written(|out| write_plan_tree(out, Look::PLAIN, &graph, &roots, &options)), @r"
    NAME             FATE
    Job/a            ✗ deleted
    ├─ ConfigMap/c   ✓ kept: owned by Job/z
    ├─ Pod/b         ✗ goes when n1 confirms (30 s grace)
    └─ Secret/d      ■ held by finalizer example.test/hold
    ");
}

fn owners(graph: &OwnerGraph, objects: &[&str], change: impl FnOnce(&mut TreeOptions<'_>)) -> String {
    let columns = BTreeMap::new();
    let mut options = TreeOptions::new(now(), &columns);
    change(&mut options);
    let objects: Vec<usize> = objects.iter().map(|object| at(graph, object)).collect();
    written(|out| write_owners(out, Look::PLAIN, graph, &objects, &options))
}

#[test]
fn the_way_up_shows_each_owners_state() {
    let graph = graph(
        "Deployment/web terminating finalizer=foregroundDeletion
         ReplicaSet/web-1 <- Deployment/web!*
         Pod/p <- ReplicaSet/web-1!*, Job/gone, Secret/s
         Secret/s <- Deployment/web, Secret/s",
    );
    assert_snapshot!(owners(&graph, &["Pod/p"], |_| {}), @r"
    NAME                                 READY   STATUS                             AGE   OWNER
    Pod/p                                                                           27h
    ├─ ReplicaSet/web-1                                                             27h   live, controller
    │  └─ Deployment/web                         Terminating (foregroundDeletion)   27h   terminating, controller
    ├─ Job/gone                                                                           absent
    └─ Secret/s                                                                     27h   live
       ├─ Deployment/web (shown above)                                                    terminating
       └─ Secret/s (cycle)                                                                live
    ");
    assert_eq!(owners(&graph, &["Pod/p"], |options| options.depth = Some(1)).lines().count(), 5);
    let (roots, shown) = shown_upward(&graph, &[at(&graph, "Pod/p")], None);
    assert_eq!(roots, [at(&graph, "Deployment/web")]);
    assert_eq!(shown.len(), 4);
}

#[test]
fn a_kind_of_two_groups_is_named_with_its_group() {
    let mut snapshot = crate::model::testing::snapshot("Service/a\nService/b");
    let knative = crate::model::catalog::Resource {
        group: "serving.knative.dev".into(),
        ..(*snapshot.objects[1].resource).clone()
    };
    snapshot.objects[1].resource = knative.into();
    let graph = OwnerGraph::new(snapshot);
    let text = tree(&graph, &["Service/a", "Service/b"], |options| options.no_headers = true);
    assert!(text.starts_with("Service/a "), "{text}");
    assert!(text.contains("\nService.serving.knative.dev/b "), "{text}");
}
