//! Which live objects the command line means: one metadata-only GET a name, one list a selector.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt;

use crate::cluster::connect::Cluster;
use crate::cluster::metadata;
use crate::cluster::request::Request;
use crate::cluster::wire;
use crate::error::Failure;
use crate::error::Trouble;
use crate::model::catalog::{Catalog, Resource, escaped};
use crate::model::object::Object;
use crate::model::target::{TargetQuery, nearest};

/// How many questions are asked at once.
const AT_ONCE: usize = 16;
/// How many names are looked through for one that resembles a missing one.
const NAMES: usize = 500;

/// Finds the objects that the queries mean, in the queries' order, each once however often it is matched. A selector
/// without a match finds nothing, as in kubectl.
///
/// # Errors
/// The server's refusals in its own words. A named object that is not there is one of them, unless
/// `ignore_not_found`; the hint has the nearest names. Where several names are missing, all are told.
pub async fn resolve(
    cluster: &Cluster,
    catalog: &Catalog,
    queries: &[TargetQuery],
    ignore_not_found: bool,
) -> Result<Vec<Object>, Failure> {
    let answers: Vec<Result<Vec<Object>, Failure>> =
        futures::stream::iter(queries.iter().map(|query| ask(cluster, catalog, query, ignore_not_found)))
            .buffered(AT_ONCE)
            .collect()
            .await;
    let (mut objects, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(found) => objects.extend(found),
            Err(failure) => failures.push(failure),
        }
    }
    match together(failures) {
        Some(failure) => Err(failure),
        None => Ok(each_once(objects)),
    }
}

/// One object's metadata, or the server's own words on why not.
async fn get(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
) -> Result<Object, Trouble> {
    let request = Request::get(resource.object_path(namespace, name)).accept(wire::ACCEPT_METADATA);
    Ok(wire::decode_one(&cluster.send(request).await?, resource)?.object)
}

async fn list(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    parameters: &[(&str, &str)],
) -> Result<Vec<Object>, Trouble> {
    let list = metadata::list(cluster, resource, namespace, &query(parameters)).await?;
    Ok(list.items.into_iter().map(|item| item.object).collect())
}

/// Parameters as a query; those without a value are left out.
fn query(parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

async fn ask(
    cluster: &Cluster,
    catalog: &Catalog,
    query: &TargetQuery,
    ignore_not_found: bool,
) -> Result<Vec<Object>, Failure> {
    match query {
        TargetQuery::Selected { resource, namespace, labels, fields } => {
            let selectors = [("labelSelector", labels.as_str()), ("fieldSelector", fields.as_str())];
            let place = namespace.as_deref();
            let found = metadata::in_some_version(catalog, resource, |version| async move {
                list(cluster, &version, place, &selectors).await
            });
            Ok(found.await?)
        }
        TargetQuery::Named { resource, namespace, name } => {
            let place = namespace.as_deref();
            let found = metadata::in_some_version(catalog, resource, |version| async move {
                get(cluster, &version, place, name).await
            });
            match found.await {
                Ok(object) => Ok(vec![object]),
                Err(trouble) if trouble.is_not_found() && ignore_not_found => Ok(Vec::new()),
                Err(trouble) if trouble.is_not_found() => {
                    Err(missing(cluster, catalog, resource, namespace.as_deref(), name, trouble).await)
                }
                Err(trouble) => Err(trouble.into()),
            }
        }
    }
}

/// Words a missing object: where its whole namespace is missing that is what is said, as in kubectl
/// (`cli-runtime/pkg/resource/visitor.go`, Info.Get). The hint is best effort: names may not be listed.
async fn missing(
    cluster: &Cluster,
    catalog: &Catalog,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
    trouble: Trouble,
) -> Failure {
    if let (Some(namespace), Some(namespaces)) = (namespace, catalog.served("v1", "Namespace"))
        && let Err(trouble) = get(cluster, namespaces, None, namespace).await
        && trouble.is_not_found()
    {
        let hint = match resembling(cluster, namespaces, None, namespace).await {
            Ok(Some(hint)) => hint,
            _ => "check the namespace given with -n".to_owned(),
        };
        return Failure::from(trouble).hint(hint);
    }
    let similar = resembling(cluster, resource, namespace, name).await;
    let place = namespace.map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default();
    let hint = match (similar, namesake(resource, catalog)) {
        (Ok(Some(hint)), _) => hint,
        (_, Some(other)) => {
            format!("{0} is another type: write {0}/{name} if that is meant", other.qualified())
        }
        (Ok(None), None) => format!("no {}{place} has a similar name", resource.qualified()),
        (Err(_), None) => format!("it was looked for{place}: check the name and the namespace"),
    };
    Failure::from(trouble).hint(hint)
}

/// The names that look most like one that is not there.
async fn resembling(
    cluster: &Cluster,
    resource: &Arc<Resource>,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<String>, Trouble> {
    let path = format!("{}?limit={NAMES}", resource.collection_path(namespace));
    let answer = cluster.send(Request::get(path).accept(wire::ACCEPT_METADATA_LIST)).await?;
    let page = wire::decode_list(&answer, resource)?;
    let close = nearest(name, page.items.iter().map(|item| item.object.name.as_str()));
    Ok((!close.is_empty()).then(|| format!("did you mean {}?", close.join(" or "))))
}

/// Another group's resource that the same word could have meant.
fn namesake<'a>(resource: &Resource, catalog: &'a Catalog) -> Option<&'a Arc<Resource>> {
    catalog.preferred().find(|other| {
        other.group != resource.group && (other.kind == resource.kind || other.plural == resource.plural)
    })
}

/// One failure for several: every message on its own line, and the first hint.
fn together(failures: Vec<Failure>) -> Option<Failure> {
    failures.into_iter().reduce(|mut all, next| {
        if !all.message.lines().any(|line| line == next.message) {
            all.message = format!("{}\n{}", all.message, next.message);
        }
        all.hint = all.hint.or(next.hint);
        all
    })
}

/// Keeps the first of each: an event, for example, is served in two groups. Some virtual objects have no UID.
fn each_once(mut objects: Vec<Object>) -> Vec<Object> {
    let mut seen = BTreeSet::new();
    objects.retain(|object| {
        let name = (object.resource.kind.clone(), object.namespace.clone(), object.name.clone());
        seen.insert((object.uid.clone(), name))
    });
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{catalog, snapshot};

    #[test]
    fn only_parameters_with_a_value_become_a_query_and_are_escaped() {
        assert_eq!(query(&[("labelSelector", ""), ("fieldSelector", "")]), "");
        assert_eq!(
            query(&[("labelSelector", "a in (b,c)"), ("fieldSelector", "status.phase!=Running")]),
            "?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=status.phase%21%3DRunning"
        );
    }

    #[test]
    fn an_object_that_was_matched_twice_appears_once_and_in_its_first_place() {
        let objects = snapshot("Pod/b\nPod/a").objects;
        let twice = objects.iter().chain(&objects).cloned().collect();
        let names: Vec<String> = each_once(twice).into_iter().map(|object| object.name).collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn several_missing_names_are_all_told() {
        let failures = vec![Failure::error("no a").hint("a?"), Failure::error("no b").hint("b?")];
        let failure = together(failures).expect("two failures");
        assert_eq!((failure.message.as_str(), failure.hint.as_deref()), ("no a\nno b", Some("a?")));
        assert_eq!(together(Vec::new()), None);
    }

    #[test]
    fn a_type_of_the_same_kind_in_another_group_is_a_namesake() {
        let catalog = catalog();
        let pods = catalog.served("v1", "Pod").expect("served");
        assert_eq!(namesake(pods, &catalog), None);
        let mut other = Resource::clone(pods);
        other.group = "metrics.k8s.io".into();
        assert_eq!(namesake(&other, &catalog).map(|found| found.qualified()).as_deref(), Some("pods"));
    }
}
