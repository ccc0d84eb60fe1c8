//! The forecast, as it is shown before the question: warnings first, every object with its fate, how many of what,
//! and what could not be read. And the question.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::counts::{by_kind, number};
use super::failure::write_warning;
use super::gaps::write_gaps;
use super::look::{Look, Role};
use super::text::Line;
use super::tree::{TreeOptions, write_plan_tree};
use crate::model::forecast::{Entry, Fate, Forecast, Holder};
use crate::model::graph::OwnerGraph;
use crate::model::object::Timestamp;

/// More doomed objects than this ask for the name typed.
const MANY: usize = 100;

/// The forecast: warnings, tree, counts, gaps. `everywhere`: all namespaces were asked for.
pub fn write_plan(
    out: &mut impl io::Write,
    look: Look,
    graph: &OwnerGraph,
    forecast: &Forecast,
    now: Timestamp,
    everywhere: bool,
) -> io::Result<()> {
    for warning in &forecast.warnings {
        write_warning(out, look, &warning.message)?;
    }
    if !forecast.warnings.is_empty() {
        writeln!(out)?;
    }
    let columns = BTreeMap::new();
    let options = TreeOptions { forecast: Some(forecast), everywhere, ..TreeOptions::new(now, &columns) };
    write_plan_tree(out, look, graph, &forecast.targets, &options)?;
    writeln!(out)?;
    write_counts(out, look, graph, forecast)?;
    write_gaps(out, look, &forecast.gaps)
}

fn write_counts(
    out: &mut impl io::Write,
    look: Look,
    graph: &OwnerGraph,
    forecast: &Forecast,
) -> io::Result<()> {
    let mut line = |role, text: &str, accept: &dyn Fn(&Entry) -> bool| {
        let objects: Vec<usize> =
            forecast.entries.iter().filter(|entry| accept(entry)).map(|entry| entry.object).collect();
        if objects.is_empty() {
            return Ok(());
        }
        let mut line = Line::new().styled(role, text.replace("{}", &number(objects.len(), "object")));
        line.push(Role::Plain, ": ");
        line.append(by_kind(look, graph, &objects));
        line.write_wrapped(out, look, 4)
    };
    let doomed = format!("{{}} will be deleted (policy {})", forecast.policy.as_str());
    line(Role::Bad, &doomed, &|entry| entry.fate.is_doomed())?;
    line(Role::Caution, "  of these, {} held by a finalizer", &|entry| {
        entry.held_by.iter().any(|holder| matches!(holder, Holder::Finalizer(_)))
    })?;
    let owned = |entry: &Entry| graph.owners(entry.object).any(|(_, owner)| owner.state.is_found());
    line(Role::Caution, "  of these, {} not touched before an owner is gone", &|entry| {
        entry.fate == Fate::Waits && owned(entry)
    })?;
    line(Role::Caution, "  of these, {} not touched before the Pods of the Namespace are gone", &|entry| {
        entry.fate == Fate::Waits && !owned(entry)
    })?;
    line(Role::Good, "{} kept", &|entry| entry.fate == Fate::Kept)?;
    line(Role::Good, "{} orphaned", &|entry| entry.fate == Fate::Orphaned)?;
    line(Role::Caution, "{} left over and never collected", &|entry| entry.fate == Fate::Leaked)?;
    line(Role::Caution, "{} collected anyway", &|entry| entry.fate == Fate::CollectedAnyway)?;
    line(Role::Caution, "{} of uncertain fate", &|entry| !entry.certain)
}

/// The question: what, how, how many, where. `context` is the kubeconfig context, where one is used.
pub fn question(graph: &OwnerGraph, forecast: &Forecast, context: Option<&str>) -> String {
    let doomed = forecast.doomed().count();
    let what = match forecast.targets.as_slice() {
        [target] => {
            let name = graph.object(*target).reference().short();
            match doomed.saturating_sub(1) {
                0 => name,
                1 => format!("{name} and 1 object that goes with it"),
                more => format!("{name} and {} that go with it", number(more, "object")),
            }
        }
        targets => format!("{} ({} in all)", number(targets.len(), "target"), number(doomed, "object")),
    };
    let namespaces: BTreeSet<&str> =
        forecast.targets.iter().filter_map(|target| graph.object(*target).namespace.as_deref()).collect();
    let mut place = match namespaces.len() {
        0 => String::new(),
        1 => format!(" in namespace {}", namespaces.iter().copied().collect::<String>()),
        _ => format!(" in namespaces {}", namespaces.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    if let Some(context) = context {
        place.push_str(&format!(" of context {context}"));
    }
    format!("Delete {what}{place}, policy {}?", forecast.policy.as_str())
}

/// What must be typed instead of `y`, where a slip would cost much: the name of a Namespace or of a
/// CustomResourceDefinition, and of the first target where more than a hundred objects go.
pub fn name_to_type<'a>(graph: &'a OwnerGraph, forecast: &Forecast) -> Option<&'a str> {
    let container = forecast.targets.iter().copied().find(|target| {
        let object = graph.object(*target);
        object.is("", "Namespace") || object.is("apiextensions.k8s.io", "CustomResourceDefinition")
    });
    let many = || forecast.targets.first().copied().filter(|_| forecast.doomed().count() > MANY);
    container.or_else(many).map(|target| graph.object(target).name.as_str())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::super::text::written;
    use super::*;
    use crate::model::catalog::Gap;
    use crate::model::forecast::forecast;
    use crate::model::policy::Policy;
    use crate::model::testing::{at, graph, now};

    fn planned(text: &str, targets: &[&str], policy: Policy) -> (OwnerGraph, Forecast) {
        let graph = graph(text);
        let targets: Vec<usize> = targets.iter().map(|target| at(&graph, target)).collect();
        let forecast = forecast(&graph, &targets, policy);
        (graph, forecast)
    }

    #[test]
    fn warnings_come_first_then_fates_then_counts_then_gaps() {
        let (graph, mut forecast) = planned(
            "Job/a <- CronJob/c*
             CronJob/c
             Job/z
             Pod/b node=n1 <- Job/a!*
             ConfigMap/d <- Job/a, Job/z
             Secret/e finalizer=example.test/hold <- Job/a
             Secret/f <- Secret/e
             ClusterWidget/g <- Job/a",
            &["Job/a"],
            Policy::Background,
        );
        forecast.gaps.push(Gap {
            resource: "leases".into(),
            group: "coordination.k8s.io".into(),
            version: None,
            reason: "Forbidden".into(),
            message: "no".into(),
        });
        let text = written(|out| write_plan(out, Look::PLAIN, &graph, &forecast, now(), false));
        insta::assert_snapshot!(text, @r"
        warning: Job/a is controlled by CronJob/c, which is alive: it starts new Jobs on its schedule; delete that instead to stop them
        warning: 2 Secrets will be deleted

        NAME                                          FATE
        Job/a                                         ✗ deleted
        ├─ ClusterWidget/g (wrong reference: scope)   ! leaked: it is cluster-scoped, its owner Job/a namespaced
        ├─ ConfigMap/d                                ✓ kept: owned by Job/z
        ├─ Pod/b                                      ✗ goes when n1 confirms (30 s grace)
        └─ Secret/e                                   ■ held by finalizer example.test/hold
           └─ Secret/f                                … waits for Secret/e

        4 objects will be deleted (policy background): Secret ×2, Job ×1, Pod ×1
          of these, 1 object held by a finalizer: Secret ×1
          of these, 1 object not touched before an owner is gone: Secret ×1
        1 object kept: ConfigMap ×1
        1 object left over and never collected: ClusterWidget ×1
        not searched: leases.coordination.k8s.io (forbidden: no)
        ");
    }

    #[test]
    fn the_common_fates_are_read_whole_at_eighty_columns_with_names_as_they_are() {
        let text = "Deployment/checkout-api
             ReplicaSet/checkout-api-7cc67d6897 <- Deployment/checkout-api!*
             Pod/checkout-api-7cc67d6897-hzn8c node=worker-2 <- ReplicaSet/checkout-api-7cc67d6897!*
             Pod/checkout-api-7cc67d6897-lsvj4 node=worker-2 <- ReplicaSet/checkout-api-7cc67d6897!*
             ConfigMap/checkout-settings <- Deployment/checkout-api!
             Secret/checkout-key finalizer=example.com/key <- Deployment/checkout-api!
             Secret/checkout-cert <- Secret/checkout-key";
        for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
            let (graph, forecast) = planned(text, &["Deployment/checkout-api"], policy);
            let look = Look { width: Some(80), ..Look::PLAIN };
            let plan = written(|out| write_plan(out, look, &graph, &forecast, now(), false));
            // All that may be cut is how long a grace period is; that it is waited for stands before.
            let is_cut = |line: &str| line.ends_with('…') && !line.contains("goes when worker-2 confirms");
            assert!(!plan.lines().any(is_cut), "{plan}");
        }
    }

    #[test]
    fn the_question_names_policy_count_namespace_and_context() {
        let text = "Job/a\nPod/b <- Job/a\nPod/c <- Job/a\nSecret/d\nother:Secret/e\nClusterWidget/w\nJob/one\nPod/o <- Job/one";
        let asked = |targets: &[&str], context| {
            let (graph, forecast) = planned(text, targets, Policy::Foreground);
            question(&graph, &forecast, context)
        };
        assert_eq!(
            asked(&["Job/a"], Some("kind-dev")),
            "Delete Job/a and 2 objects that go with it in namespace x of context kind-dev, policy foreground?"
        );
        assert_eq!(asked(&["ClusterWidget/w"], None), "Delete ClusterWidget/w, policy foreground?");
        assert_eq!(
            asked(&["Job/one"], None),
            "Delete Job/one and 1 object that goes with it in namespace x, policy foreground?"
        );
        assert_eq!(
            asked(&["Job/a", "other:Secret/e"], None),
            "Delete 2 targets (4 objects in all) in namespaces other, x, policy foreground?"
        );
    }

    #[test]
    fn a_slip_that_would_cost_much_needs_the_name_typed() {
        let typed = |text: &str, target: &str| {
            let (graph, forecast) = planned(text, &[target], Policy::Background);
            name_to_type(&graph, &forecast).map(str::to_owned)
        };
        assert_eq!(typed("Namespace/x", "Namespace/x").as_deref(), Some("x"));
        let definition = "CustomResourceDefinition/widgets.example.test";
        assert_eq!(typed(definition, definition).as_deref(), Some("widgets.example.test"));
        let mut text = "Job/a\n".to_owned();
        for number in 0..99 {
            writeln!(text, "Pod/p{number} <- Job/a").unwrap_or_default();
        }
        assert_eq!(typed(&text, "Job/a"), None);
        text.push_str("Pod/one-more <- Job/a\n");
        assert_eq!(typed(&text, "Job/a").as_deref(), Some("a"));
    }
}
