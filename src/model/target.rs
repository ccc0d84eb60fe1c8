//! kubectl's argument grammar: from words to questions about objects. The specification is kubectl's own
//! (`cli-runtime/pkg/resource/builder.go`, ResourceTypeOrNameArgs; `client-go/restmapper/shortcut.go`;
//! `apimachinery/pkg/api/meta/restmapper.go`), so that whatever works with `kubectl get` names the same objects here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalog::{Catalog, Resource};
use crate::error::Failure;

/// What the command line says of its targets, apart from manifests.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a> {
    /// The words: `TYPE/NAME`s, or a `TYPE` (or several, with commas) and its `NAME`s.
    pub targets: &'a [String],
    /// `-l`; empty for none.
    pub selector: &'a str,
    /// `--field-selector`; empty for none.
    pub field_selector: &'a str,
    /// `--all`.
    pub all: bool,
    /// `-A`: selectors look in all namespaces. A named object is always in `namespace`: it is its dependents that
    /// are looked for everywhere (design section 2).
    pub all_namespaces: bool,
    /// The effective namespace.
    pub namespace: &'a str,
    /// What a type means that comes without name, selector and `--all`.
    pub bare_type: BareType,
}

/// What a type alone means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareType {
    /// All of it: for verbs that only look.
    All,
    /// A usage error: for verbs that delete.
    Refused,
}

/// A question about objects, not yet asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetQuery {
    /// One object by name.
    Named {
        /// Its resource.
        resource: Arc<Resource>,
        /// Its namespace; none for cluster-scoped kinds.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// All objects of a resource that match.
    Selected {
        /// The resource.
        resource: Arc<Resource>,
        /// Where; none for all namespaces, and for cluster-scoped kinds.
        namespace: Option<String>,
        /// Label selector, as the server reads it; empty for all.
        labels: String,
        /// Field selector, as the server reads it; empty for all.
        fields: String,
    },
}

/// Checks the form of the words, as far as that needs no server: a wrong command line is refused before anybody is
/// asked anything.
///
/// # Errors
/// A wrong command line (exit 2), with what to write instead.
pub fn check(arguments: &Arguments<'_>) -> Result<(), Failure> {
    form(arguments).map(drop)
}

/// Reads the words of the command line as kubectl does.
///
/// # Errors
/// A wrong command line (exit 2), with what to write instead; a type that the server does not have (exit 1), with
/// the nearest ones.
pub fn parse(arguments: &Arguments<'_>, catalog: &Catalog) -> Result<Vec<TargetQuery>, Failure> {
    let mut queries = Vec::new();
    let mut add = |query: TargetQuery| {
        if !queries.contains(&query) {
            queries.push(query);
        }
    };
    match form(arguments)? {
        Form::Pairs(pairs) => {
            for (word, name) in &pairs {
                add(named(resource(word, catalog)?, arguments.namespace, name));
            }
        }
        Form::Names(list, names) => {
            let resources = types(list, catalog)?;
            let [resource] = resources.as_slice() else {
                return Err(Failure::usage(format!("names need one type, but {list} stands for several"))
                    .hint("name the type of each object: TYPE/NAME TYPE/NAME"));
            };
            for name in names {
                add(named(Arc::clone(resource), arguments.namespace, name));
            }
        }
        Form::Types(list) => {
            for resource in types(list, catalog)? {
                let everywhere = arguments.all_namespaces || !resource.namespaced;
                add(TargetQuery::Selected {
                    namespace: (!everywhere).then(|| arguments.namespace.to_owned()),
                    labels: arguments.selector.to_owned(),
                    fields: arguments.field_selector.to_owned(),
                    resource,
                });
            }
        }
    }
    Ok(queries)
}

/// The three forms that words may have.
enum Form<'a> {
    /// Types and names in pairs.
    Pairs(Vec<(String, String)>),
    /// One type and its names.
    Names(&'a str, &'a [String]),
    /// A comma list of types to select from.
    Types(&'a str),
}

fn form<'a>(arguments: &Arguments<'a>) -> Result<Form<'a>, Failure> {
    let selective = !arguments.selector.is_empty() || !arguments.field_selector.is_empty();
    if arguments.all && selective {
        return Err(Failure::usage("--all cannot be used together with -l or --field-selector")
            .hint("leave one of them out"));
    }
    let selective = selective || arguments.all;
    let words = arguments.targets;
    let [first, names @ ..] = words else {
        let message =
            if selective { "a selector or --all needs a type to select from" } else { "no object is named" };
        return Err(Failure::usage(message)
            .hint("write TYPE/NAME (job/nightly), TYPE NAME..., TYPE -l LABELS, TYPE --all, or -f FILE"));
    };
    let slashes = words.iter().filter(|word| word.contains('/')).count();
    if slashes > 0 && slashes < words.len() {
        return Err(Failure::usage("TYPE/NAME cannot be mixed with a type or a name that stands alone")
            .hint(
                "there is no need to give the type again: write job/a job/b, or job a b, but not job job/a",
            ));
    }
    let one = if slashes > 0 { Some(first) } else { names.first() };
    if let Some(one) = one.filter(|_| selective) {
        return Err(Failure::usage(format!(
            "{one} is one object: -l, --field-selector and --all do not go with it"
        ))
        .hint("give only a type to select among all objects of it"));
    }
    if slashes > 0 {
        return words.iter().map(|word| split_type_name(word)).collect::<Result<_, _>>().map(Form::Pairs);
    }
    if first.split(',').any(str::is_empty) {
        return Err(Failure::usage(format!("{first:?}: a type is missing"))
            .hint("types are separated by single commas without spaces: pods,configmaps"));
    }
    for name in names {
        check_name(name)?;
    }
    if names.is_empty() {
        if selective || arguments.bare_type == BareType::All {
            return Ok(Form::Types(first));
        }
        return Err(Failure::usage(format!(
            "a type was given ({first}), but no name, label selector or --all"
        ))
        .hint(format!("write {first}/NAME or {first} NAME, or add -l LABELS or --all")));
    }
    if first.contains(',') {
        // `a,b n m` is `a/n a/m b/n b/m` (builder.go, normalizeMultipleResourcesArgs).
        let pairs = |word: &'a str| names.iter().map(move |name| (word.to_owned(), name.clone()));
        return Ok(Form::Pairs(first.split(',').flat_map(pairs).collect()));
    }
    Ok(Form::Names(first, names))
}

/// The resource that a word names: `plural`, `singular`, short name or kind, in any case, alone or followed by
/// `.group` or `.version.group`. Where several fit, the first in discovery order wins, as in kubectl.
///
/// # Errors
/// The server has no such type (exit 1); the hint has the nearest ones, or what discovery could not read.
pub fn resource(word: &str, catalog: &Catalog) -> Result<Arc<Resource>, Failure> {
    find(word, catalog).map(Arc::clone).ok_or_else(|| unknown(word, catalog))
}

fn split_type_name(word: &str) -> Result<(String, String), Failure> {
    match word.split('/').collect::<Vec<_>>().as_slice() {
        [kind, name] if !kind.is_empty() && !name.is_empty() && !kind.contains(',') => {
            check_name(name)?;
            Ok(((*kind).to_owned(), (*name).to_owned()))
        }
        [_, _] => Err(Failure::usage(format!("{word}: TYPE/NAME needs one type and one name"))
            .hint("for example pod/build-1")),
        _ => Err(Failure::usage(format!("{word}: TYPE/NAME may have only one slash")).hint(
            "for example pod/build-1; the namespace goes into -n, an API group behind the type: job.batch/nightly",
        )),
    }
}

/// A name becomes a part of a path, so it must be able to be one (`apimachinery/pkg/api/validation/path/name.go`).
///
/// # Errors
/// It cannot: usage.
pub fn check_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return Err(Failure::usage(format!("{name:?} cannot be the name of an object"))
            .hint("a name is one word without slash and percent sign"));
    }
    Ok(())
}

fn named(resource: Arc<Resource>, namespace: &str, name: &str) -> TargetQuery {
    let namespace = resource.namespaced.then(|| namespace.to_owned());
    TargetQuery::Named { resource, namespace, name: name.to_owned() }
}

/// The types of a comma list; categories stand for all their types.
fn types(list: &str, catalog: &Catalog) -> Result<Vec<Arc<Resource>>, Failure> {
    let mut found: Vec<Arc<Resource>> = Vec::new();
    for word in list.split(',') {
        let category = category(word, catalog);
        let resources = if category.is_empty() { vec![resource(word, catalog)?] } else { category };
        for resource in resources {
            if !found.contains(&resource) {
                found.push(resource);
            }
        }
    }
    Ok(found)
}

/// What a category stands for; kinds that cannot be listed are left out. Categories are case-sensitive, and come
/// before types (builder.go, ReplaceAliases).
fn category(word: &str, catalog: &Catalog) -> Vec<Arc<Resource>> {
    let member = |resource: &&Arc<Resource>| {
        resource.can("list") && resource.categories.iter().any(|category| category == word)
    };
    catalog.preferred().filter(member).cloned().collect()
}

fn find<'a>(word: &str, catalog: &'a Catalog) -> Option<&'a Arc<Resource>> {
    let same = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
    let (name, rest) = word.split_once('.').unwrap_or((word, ""));
    if name.is_empty() {
        return None; // it would match the empty singular names of old servers
    }
    let full_name = |resource: &Resource| same(&resource.plural, name) || same(&resource.singular, name);
    let short_name = |resource: &Resource| resource.short_names.iter().any(|short| same(short, name));
    let kind = |resource: &Resource| same(&resource.kind, name);

    let anywhere = |_: &Resource| true;
    let version_and_group = |resource: &Resource| {
        rest.split_once('.').is_some_and(|(version, group)| {
            same(&resource.version, version) && (group.is_empty() || same(&resource.group, group))
        })
    };
    let group = |resource: &Resource| same(&resource.group, rest);
    // `storageclass.storage` is enough for `storageclass.storage.k8s.io` (restmapper.go, KindsFor).
    let group_prefix = |resource: &Resource| {
        let start = resource.group.get(..rest.len());
        start.is_some_and(|start| same(start, rest))
    };

    type Test<'t> = &'t dyn Fn(&Resource) -> bool;
    let first = |place: Test<'_>, name: Test<'_>| {
        catalog.all().iter().find(|resource| place(resource) && name(resource))
    };
    let places: &[Test<'_>] =
        if rest.is_empty() { &[&anywhere] } else { &[&version_and_group, &group, &group_prefix] };
    let resource = |place: &Test<'_>| first(*place, &full_name).or_else(|| first(*place, &short_name));
    places.iter().find_map(resource).or_else(|| places.iter().find_map(|place| first(*place, &kind)))
}

fn unknown(word: &str, catalog: &Catalog) -> Failure {
    let message = match word.split_once('.') {
        Some((name, group)) if !group.is_empty() => {
            format!("the server doesn't have a resource type {name:?} in group {group:?}")
        }
        _ => format!("the server doesn't have a resource type {word:?}"),
    };
    let hint = if !category(word, catalog).is_empty() {
        format!(
            "{word} is a category of several types: give it alone, with -l or --all, or name the type of the object"
        )
    } else {
        let close = close_types(word, catalog);
        match (close.is_empty(), catalog.gaps()) {
            (false, _) => format!("did you mean {}?", close.join(" or ")),
            (true, []) => {
                "types are written as for kubectl: plural, singular, short name or kind, and .GROUP"
                    .to_owned()
            }
            (true, gaps) => {
                let groups: BTreeSet<&str> = gaps.iter().map(|gap| gap.group.as_str()).collect();
                let groups: Vec<&str> = groups.into_iter().collect();
                format!("it may be among those that could not be discovered: {}", groups.join(", "))
            }
        }
    };
    Failure::error(message).hint(hint)
}

/// The types whose names are nearest to an unknown one, each as it can be written.
fn close_types(word: &str, catalog: &Catalog) -> Vec<String> {
    let name = word.split('.').next().unwrap_or(word);
    let names =
        catalog.preferred().flat_map(|resource| [&resource.plural, &resource.singular, &resource.kind]);
    let mut found: Vec<String> = Vec::new();
    for close in nearest(name, names.map(String::as_str)) {
        let same = |resource: &&Arc<Resource>| {
            [&resource.plural, &resource.singular, &resource.kind].contains(&&close.to_owned())
        };
        let qualified = catalog.preferred().find(same).map(|resource| resource.qualified());
        found.extend(qualified.filter(|qualified| !found.contains(qualified)));
    }
    found
}

/// Up to three of the candidates that look most like the word: few letters differ, or it is how they begin.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let mut close: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let distance = distance(&word, &lower);
            if distance <= limit {
                Some((distance, candidate))
            } else {
                (word.len() >= 3 && lower.starts_with(&word)).then_some((limit + 1, candidate))
            }
        })
        .collect();
    close.sort();
    close.dedup();
    close.into_iter().map(|(_, candidate)| candidate).take(3).collect()
}

/// How many letters have to be added, removed, replaced or swapped with their neighbour to make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // Row `i` holds the distances of the first `i` letters of one to every beginning of the other.
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureKind;
    use crate::model::catalog::Gap;

    /// plural singular kind group version scope [short...] [@category...] [!list]
    fn catalog_of(lines: &[&str]) -> Catalog {
        let resource = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [plural, singular, kind, group, version, scope, rest @ ..] = words.as_slice() else {
                panic!("{line}: six words")
            };
            Resource {
                group: group.trim_matches('-').to_owned(),
                version: (*version).to_owned(),
                kind: (*kind).to_owned(),
                plural: (*plural).to_owned(),
                singular: singular.trim_matches('-').to_owned(),
                short_names: rest
                    .iter()
                    .filter(|word| !word.starts_with(['@', '!']))
                    .map(|w| (*w).into())
                    .collect(),
                categories: rest
                    .iter()
                    .filter_map(|word| word.strip_prefix('@'))
                    .map(str::to_owned)
                    .collect(),
                namespaced: *scope == "namespaced",
                verbs: ["get", "list", "delete"]
                    .into_iter()
                    .filter(|verb| !rest.contains(&format!("!{verb}").as_str()))
                    .map(str::to_owned)
                    .collect(),
            }
        };
        Catalog::new(lines.iter().map(resource).collect(), Vec::new(), Vec::new())
    }

    fn catalog() -> Catalog {
        catalog_of(&[
            "pods pod Pod - v1 namespaced po @all",
            "configmaps configmap ConfigMap - v1 namespaced cm",
            "services service Service - v1 namespaced svc @all",
            "nodes node Node - v1 cluster no",
            "deployments deployment Deployment apps v1 namespaced deploy @all",
            "jobs job Job batch v1 namespaced @all",
            "jobs job Job batch v1beta1 namespaced @all",
            "oldjobs oldjob OldJob batch v1beta1 namespaced",
            "storageclasses storageclass StorageClass storage.k8s.io v1 cluster sc",
            "services service Service serving.knative.dev v1 namespaced kservice @knative",
            "pods - PodMetrics metrics.k8s.io v1beta1 namespaced",
            "evictions eviction Eviction policy v1 namespaced @all !list",
            "jobs job Job v1.odd v7 namespaced",
        ])
    }

    fn arguments<'a>(targets: &'a [String]) -> Arguments<'a> {
        Arguments {
            targets,
            selector: "",
            field_selector: "",
            all: false,
            all_namespaces: false,
            namespace: "ci",
            bare_type: BareType::Refused,
        }
    }

    /// Each query in a word or two: `jobs.batch/v1 ci/x` or `pods/v1 ci/* app=a`.
    fn show(queries: &[TargetQuery]) -> Vec<String> {
        let place = |namespace: &Option<String>| namespace.clone().unwrap_or_else(|| "-".into());
        let kind = |resource: &Resource| format!("{}/{}", resource.qualified(), resource.version);
        queries
            .iter()
            .map(|query| match query {
                TargetQuery::Named { resource, namespace, name } => {
                    format!("{} {}/{name}", kind(resource), place(namespace))
                }
                TargetQuery::Selected { resource, namespace, labels, fields } => {
                    format!("{} {}/* {labels}{fields}", kind(resource), place(namespace))
                        .trim_end()
                        .to_owned()
                }
            })
            .collect()
    }

    fn with(targets: &str, change: impl FnOnce(&mut Arguments<'_>)) -> Result<Vec<String>, Failure> {
        let words: Vec<String> = targets.split_whitespace().map(str::to_owned).collect();
        let mut arguments = arguments(&words);
        change(&mut arguments);
        parse(&arguments, &catalog()).map(|queries| show(&queries))
    }

    fn read(targets: &str) -> Vec<String> {
        with(targets, |_| {}).unwrap_or_else(|failure| panic!("{targets}: {failure}"))
    }

    fn refused(targets: &str, change: impl FnOnce(&mut Arguments<'_>)) -> Failure {
        let failure = with(targets, change).expect_err(targets);
        assert!(failure.hint.is_some(), "{targets}: {failure} has no hint");
        failure
    }

    #[test]
    fn types_and_names_in_every_form_that_kubectl_takes() {
        assert_eq!(read("job/x"), ["jobs.batch/v1 ci/x"]);
        assert_eq!(read("job x y"), ["jobs.batch/v1 ci/x", "jobs.batch/v1 ci/y"]);
        assert_eq!(read("job/x po/y node/z"), ["jobs.batch/v1 ci/x", "pods/v1 ci/y", "nodes/v1 -/z"]);
        assert_eq!(
            read("po,cm a b"),
            ["pods/v1 ci/a", "pods/v1 ci/b", "configmaps/v1 ci/a", "configmaps/v1 ci/b"]
        );
        assert_eq!(read("pod/a.b.c"), ["pods/v1 ci/a.b.c"]);
    }

    #[test]
    fn a_type_is_plural_singular_short_name_or_kind_in_any_case() {
        for word in ["deployments", "deployment", "deploy", "Deployment", "DEPLOY"] {
            assert_eq!(read(&format!("{word} x")), ["deployments.apps/v1 ci/x"], "{word}");
        }
        assert_eq!(read("podmetrics x"), ["pods.metrics.k8s.io/v1beta1 ci/x"]);
    }

    #[test]
    fn a_type_may_carry_its_group_or_version_and_group() {
        assert_eq!(read("jobs.batch x"), ["jobs.batch/v1 ci/x"]);
        assert_eq!(read("jobs.v1beta1.batch x"), ["jobs.batch/v1beta1 ci/x"]);
        assert_eq!(read("job.batch/x"), ["jobs.batch/v1 ci/x"]);
        assert_eq!(read("Job.v1beta1.batch/x"), ["jobs.batch/v1beta1 ci/x"]);
        assert_eq!(read("deploy.v1.apps/x"), ["deployments.apps/v1 ci/x"]);
        assert_eq!(read("pods.v1. x"), ["pods/v1 ci/x"]);
        refused("svc.serving.knative.dev/x", |_| {}); // a short name of another group
    }

    #[test]
    fn version_and_group_are_tried_before_a_group_with_a_dot() {
        // `jobs.v1.odd` is version v1 of group odd, which is not served; then group `v1.odd`, which is.
        assert_eq!(read("jobs.v1.odd x"), ["jobs.v1.odd/v7 ci/x"]);
    }

    #[test]
    fn the_beginning_of_a_group_is_enough() {
        assert_eq!(read("storageclass.storage/x"), ["storageclasses.storage.k8s.io/v1 -/x"]);
        assert_eq!(read("service.serving/x"), ["services.serving.knative.dev/v1 ci/x"]);
    }

    #[test]
    fn of_several_groups_the_first_in_discovery_order_is_meant() {
        assert_eq!(read("service/x"), ["services/v1 ci/x"]);
        assert_eq!(read("pods x"), ["pods/v1 ci/x"]);
        assert_eq!(
            read("oldjob x"),
            ["oldjobs.batch/v1beta1 ci/x"],
            "only in a version that is not preferred"
        );
    }

    #[test]
    fn selectors_take_types_and_categories_and_lists_of_them() {
        let selected = |targets| with(targets, |arguments| arguments.selector = "app=a");
        assert_eq!(
            selected("po,cm"),
            Ok(vec!["pods/v1 ci/* app=a".into(), "configmaps/v1 ci/* app=a".into()])
        );
        assert_eq!(
            selected("all"),
            Ok(["pods/v1", "services/v1", "deployments.apps/v1", "jobs.batch/v1"]
                .map(|kind| format!("{kind} ci/* app=a"))
                .to_vec())
        );
        assert_eq!(selected("po,pods,Pod"), Ok(vec!["pods/v1 ci/* app=a".into()]));
        assert_eq!(selected("no"), Ok(vec!["nodes/v1 -/* app=a".into()]));
    }

    #[test]
    fn all_namespaces_widens_selectors_but_not_names() {
        assert_eq!(with("po", |a| (a.all, a.all_namespaces) = (true, true)), Ok(vec!["pods/v1 -/*".into()]));
        assert_eq!(with("po x", |a| a.all_namespaces = true), Ok(vec!["pods/v1 ci/x".into()]));
    }

    #[test]
    fn a_type_alone_means_all_of_it_only_for_verbs_that_look() {
        assert_eq!(with("po", |a| a.bare_type = BareType::All), Ok(vec!["pods/v1 ci/*".into()]));
        let failure = refused("po", |_| {});
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.message.contains("no name, label selector or --all"), "{failure}");
    }

    #[test]
    fn an_object_named_twice_is_asked_for_once() {
        assert_eq!(read("job/x jobs/x Job.v1.batch/x"), ["jobs.batch/v1 ci/x"]);
    }

    #[test]
    fn a_wrong_command_line_is_a_usage_error_with_a_hint() {
        let none = |_: &mut Arguments<'_>| {};
        for targets in
            ["", "job/x y", "job job/x", "a/b/c", "job/", "/x", "po,cm/x", "po,, x", "all x", "job .."]
        {
            assert_eq!(refused(targets, none).kind, FailureKind::Usage, "{targets}");
        }
        assert_eq!(refused("job x", |a| a.all = true).kind, FailureKind::Usage);
        assert_eq!(refused("", |a| a.selector = "a=b").kind, FailureKind::Usage);
        assert_eq!(refused("job x", |a| a.selector = "a=b").kind, FailureKind::Usage);
        assert_eq!(refused("job/x", |a| a.field_selector = "a=b").kind, FailureKind::Usage);
        assert_eq!(refused("job/x", |a| a.all = true).kind, FailureKind::Usage);
        assert_eq!(refused("job", |a| (a.all, a.selector) = (true, "a=b")).kind, FailureKind::Usage);
    }

    #[test]
    fn a_wrong_form_is_refused_without_asking_what_the_server_has() {
        let words = ["unknown/x".to_owned(), "y".to_owned()];
        assert_eq!(check(&arguments(&words)).map_err(|failure| failure.kind), Err(FailureKind::Usage));
        assert_eq!(check(&arguments(&words[..1])), Ok(()), "whether the type exists is another question");
    }

    #[test]
    fn an_unknown_type_is_an_error_with_the_nearest_ones() {
        let failure = refused("deplyoments x", |_| {});
        assert_eq!(failure.kind, FailureKind::Error);
        assert_eq!(failure.message, r#"the server doesn't have a resource type "deplyoments""#);
        assert_eq!(failure.hint.as_deref(), Some("did you mean deployments.apps?"));

        let failure = refused("jobs.nowhere x", |_| {});
        assert_eq!(failure.message, r#"the server doesn't have a resource type "jobs" in group "nowhere""#);
        assert_eq!(failure.hint.as_deref(), Some("did you mean jobs.batch?"));

        let failure = refused("all/x", |_| {});
        assert!(failure.hint.is_some_and(|hint| hint.contains("category")));
    }

    #[test]
    fn an_unknown_type_may_belong_to_a_group_that_does_not_answer() {
        let gap = Gap {
            resource: "*".into(),
            group: "metrics.k8s.io".into(),
            version: Some("v1beta1".into()),
            reason: "ServiceUnavailable".into(),
            message: "service unavailable".into(),
        };
        let catalog = Catalog::new(Vec::new(), Vec::new(), vec![gap]);
        let failure = resource("nodemetrics", &catalog).expect_err("nothing is served");
        assert!(failure.hint.is_some_and(|hint| hint.contains("metrics.k8s.io")));
    }

    #[test]
    fn an_empty_type_does_not_match_a_missing_singular_name() {
        assert_eq!(resource("", &catalog()).map(|resource| resource.qualified()).ok(), None);
        assert_eq!(resource(".metrics.k8s.io", &catalog()).map(|resource| resource.qualified()).ok(), None);
    }

    #[test]
    fn near_words_differ_by_few_letters_or_begin_alike() {
        assert_eq!(nearest("buidl-1", ["build-1", "build-22", "other"]), ["build-1"]);
        assert_eq!(nearest("web", ["web-5d9c7-abcde", "db-0", "wen"]), ["wen", "web-5d9c7-abcde"]);
        assert_eq!(nearest("x", ["completely-different"]), Vec::<&str>::new());
        assert_eq!([distance("", "abc"), distance("abcd", "acbd"), distance("kitten", "sitting")], [3, 1, 3]);
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_words_are_targets_or_refused_in_words(
            words in prop::collection::vec("\\PC{0,12}|[a-z]{1,4}([./,][a-zA-Z0-9.%-]{0,6}){0,3}|(po|cm|all|pods\\.v1\\.)[/,]?x?", 0..4),
            selector in "|\\PC{0,8}|a=b",
            all: bool,
            everywhere: bool,
        ) {
            for bare_type in [BareType::All, BareType::Refused] {
                let arguments = Arguments {
                    targets: &words, selector: &selector, field_selector: "", all, all_namespaces: everywhere,
                    namespace: "x", bare_type,
                };
                let checked = check(&arguments);
                match parse(&arguments, &catalog()) {
                    Ok(queries) => {
                        prop_assert!(checked.is_ok() && !queries.is_empty());
                        for query in queries {
                            if let TargetQuery::Named { name, .. } = query {
                                prop_assert!(check_name(&name).is_ok(), "{name:?} leaves its place in a path");
                            } else {
                                prop_assert!(bare_type == BareType::All || all || !selector.is_empty(), "all of a type");
                            }
                        }
                    }
                    Err(failure) => prop_assert!(failure.hint.is_some() && !failure.message.is_empty()),
                }
            }
        }
    }
}
