//! From the command line to questions about objects: words, as `model::target` reads them, or manifests (`-f`), of
//! which only apiVersion, kind, namespace and name matter.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::input::{read_file, read_text};
use crate::cli::TargetArgs;
use crate::cluster::saved::yaml;
use crate::error::{Failure, FailureKind};
use crate::model::catalog::{Catalog, split_api_version};
use crate::model::command::quote;
use crate::model::target::{self, Arguments, BareType, TargetQuery};

/// The namespace that objects without one of their own are in.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The effective namespace.
    pub namespace: &'a str,
    /// Whether `-n` names it; then a manifest must not name another one.
    pub given: bool,
}

/// Checks the form of the command line before anybody is asked anything.
///
/// # Errors
/// A wrong command line (exit 2), with what to write instead.
pub fn check(args: &TargetArgs, bare_type: BareType) -> Result<(), Failure> {
    if args.kustomize.is_some() {
        return Err(Failure::usage("-k is not supported")
            .hint("build the kustomization first: kubectl kustomize DIR | kubectl cascade ... -f -"));
    }
    if args.filenames.is_empty() {
        return target::check(&arguments(args, "", bare_type));
    }
    if let Some(word) = args.targets.first() {
        return Err(Failure::usage(format!("-f already names the objects: {word} cannot be given as well"))
            .hint("leave out one of them"));
    }
    if args.all || !selector(&args.selector).is_empty() || !selector(&args.field_selector).is_empty() {
        return Err(Failure::usage("-l, --field-selector and --all cannot be used together with -f")
            .hint("give a type and the selector instead: TYPE -l LABELS"));
    }
    if args.filenames.iter().filter(|name| *name == "-").count() > 1 {
        return Err(Failure::usage("standard input can be read only once").hint("give -f - only once"));
    }
    if let Some(url) = args.filenames.iter().find(|name| is_url(name)) {
        return Err(Failure::usage(format!("-f {url}: manifests are not fetched from the network"))
            .hint("fetch it first and give the file, or pipe it into -f -"));
    }
    Ok(())
}

/// What the command line means: words or manifests.
///
/// # Errors
/// A wrong command line (exit 2); a file that cannot be read or holds no objects, a type that the server does not
/// have, a manifest of another namespace than `-n` names (exit 1).
pub fn queries(
    args: &TargetArgs,
    place: Place<'_>,
    bare_type: BareType,
    catalog: &Catalog,
) -> Result<Vec<TargetQuery>, Failure> {
    check(args, bare_type)?;
    if args.filenames.is_empty() {
        return target::parse(&arguments(args, place.namespace, bare_type), catalog);
    }
    let mut queries = Vec::new();
    for manifest in read_all(&args.filenames, args.recursive, &mut io::stdin())? {
        let query = manifest.query(place, catalog)?;
        if !queries.contains(&query) {
            queries.push(query);
        }
    }
    Ok(queries)
}

fn arguments<'a>(args: &'a TargetArgs, namespace: &'a str, bare_type: BareType) -> Arguments<'a> {
    Arguments {
        targets: &args.targets,
        selector: selector(&args.selector),
        field_selector: selector(&args.field_selector),
        all: args.all,
        all_namespaces: args.all_namespaces,
        namespace,
        bare_type,
    }
}

/// An empty selector is none, as in kubectl: it never means everything.
fn selector(given: &Option<String>) -> &str {
    given.as_deref().unwrap_or_default().trim()
}

fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// One object of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Manifest {
    /// The file it stands in, for messages.
    source: String,
    api_version: String,
    kind: String,
    /// Empty for none.
    namespace: String,
    name: String,
}

impl Manifest {
    fn query(&self, place: Place<'_>, catalog: &Catalog) -> Result<TargetQuery, Failure> {
        let Self { source, api_version, kind, namespace, name } = self;
        let Some(resource) = catalog.served(api_version, kind) else {
            let message =
                format!("{source}: {kind}/{name}: no matches for kind {kind:?} in version {api_version:?}");
            return Err(Failure::error(message).hint(self.why_not_served(catalog)));
        };
        for part in [name, namespace].into_iter().filter(|part| !part.is_empty()) {
            target::check_name(part).map_err(|failure| Failure {
                kind: FailureKind::Error,
                message: format!("{source}: {failure}"),
                ..failure
            })?;
        }
        if resource.namespaced && place.given && !namespace.is_empty() && namespace != place.namespace {
            return Err(Failure::error(format!(
                "{source}: {kind}/{name}: the namespace of the manifest {namespace:?} does not match the namespace \
                 {:?} given with -n",
                place.namespace
            ))
            .hint(format!("give -n {}, or leave -n out", quote(namespace))));
        }
        let effective = if namespace.is_empty() { place.namespace } else { namespace };
        Ok(TargetQuery::Named {
            namespace: resource.namespaced.then(|| effective.to_owned()),
            name: name.clone(),
            resource: Arc::clone(resource),
        })
    }

    fn why_not_served(&self, catalog: &Catalog) -> String {
        if catalog.is_stale(&self.api_version) {
            return format!(
                "the server of {} does not answer, so nobody knows what it serves",
                self.api_version
            );
        }
        let (group, _) = split_api_version(&self.api_version);
        let versions: Vec<String> = catalog
            .all()
            .iter()
            .filter(|resource| resource.is(group, &self.kind))
            .map(|resource| resource.api_version())
            .collect();
        if versions.is_empty() {
            "its CustomResourceDefinition is not installed, or belongs to another cluster".to_owned()
        } else {
            format!("the server has this kind in {}", versions.join(", "))
        }
    }
}

/// Reads all files in their order; directories in the order of their names.
fn read_all(filenames: &[String], recursive: bool, stdin: &mut dyn Read) -> Result<Vec<Manifest>, Failure> {
    let mut manifests = Vec::new();
    for filename in split_commas(filenames) {
        if filename == "-" {
            let text = read_text(&mut *stdin).map_err(|error| unreadable("standard input", &error))?;
            manifests.extend(decode("standard input", &text)?);
            continue;
        }
        for file in files(Path::new(filename), recursive)? {
            let source = file.display().to_string();
            let text = read_file(&file).map_err(|error| unreadable(&source, &error))?;
            manifests.extend(decode(&source, &text)?);
        }
    }
    if manifests.is_empty() {
        return Err(Failure::error(format!("no object is named in {}", filenames.join(", ")))
            .hint("a manifest needs apiVersion, kind and metadata.name"));
    }
    Ok(manifests)
}

/// kubectl takes several files separated by commas, too; a comma in the name of a file that is there stays.
fn split_commas(filenames: &[String]) -> impl Iterator<Item = &str> {
    filenames.iter().flat_map(|name| {
        let parts: Vec<&str> = if Path::new(name).exists() { vec![name] } else { name.split(',').collect() };
        parts
    })
}

/// A file itself, or the manifests of a directory (`cli-runtime/pkg/resource/visitor.go`,
/// ExpandPathsToFileVisitors).
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Failure> {
    let fail = |error: &io::Error| unreadable(&path.display().to_string(), error);
    if !fs::metadata(path).map_err(|error| fail(&error))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = entries.map_err(|error| fail(&error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        // Of the entry itself, so that a link to a directory is not followed, and cannot lead in circles.
        let is_dir = entry.file_type().map_err(|error| fail(&error))?.is_dir();
        let entry = entry.path();
        if is_dir && recursive {
            found.extend(files(&entry, recursive)?);
        } else if !is_dir && is_manifest(&entry) {
            found.push(entry);
        }
    }
    Ok(found)
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json" || extension == "yaml" || extension == "yml")
}

fn unreadable(source: &str, error: &io::Error) -> Failure {
    Failure::error(format!("cannot read {source}: {error}")).hint("check the path given with -f")
}

/// The objects of one file: YAML with any number of documents, or JSON with any number of values; lists count as
/// their items.
fn decode(source: &str, text: &str) -> Result<Vec<Manifest>, Failure> {
    let fail = |error: String| {
        Failure::error(format!("cannot read {source}: {error}"))
            .hint("manifests are YAML or JSON with apiVersion, kind and metadata.name")
    };
    let json = text
        .trim_start()
        .starts_with('{')
        .then(|| serde_json::Deserializer::from_str(text).into_iter().collect::<Result<Vec<Document>, _>>());
    // What looks like JSON may still be YAML in flow style.
    let documents = match json {
        Some(Ok(documents)) => documents,
        Some(Err(error)) => yaml(text).map_err(|_| fail(error.to_string()))?,
        None => yaml(text).map_err(fail)?,
    };
    let mut manifests = Vec::new();
    for document in documents {
        document.flatten(source, &mut manifests).map_err(fail)?;
    }
    Ok(manifests)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Option<Metadata>,
    /// Whatever has items is a list, as in kubectl.
    #[serde(default)]
    items: Option<Vec<Document>>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    namespace: Option<String>,
}

impl Document {
    fn flatten(self, source: &str, manifests: &mut Vec<Manifest>) -> Result<(), String> {
        if let Some(items) = self.items {
            return items.into_iter().try_for_each(|item| item.flatten(source, manifests));
        }
        let metadata = self.metadata.unwrap_or_default();
        if self.kind.is_empty() || self.api_version.is_empty() {
            return Err("a document has no apiVersion or no kind".to_owned());
        }
        let Some(name) = metadata.name.filter(|name| !name.is_empty()) else {
            return Err(format!(
                "a {} has no metadata.name; one with generateName cannot be found again",
                self.kind
            ));
        };
        manifests.push(Manifest {
            source: source.to_owned(),
            api_version: self.api_version,
            kind: self.kind,
            namespace: metadata.namespace.unwrap_or_default(),
            name,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::catalog;

    const GIVEN: Place<'_> = Place { namespace: "ci", given: true };
    const FROM_CONTEXT: Place<'_> = Place { namespace: "ci", given: false };

    /// Each object as `Kind namespace/name`.
    fn show(queries: Vec<TargetQuery>) -> Vec<String> {
        let show = |query| match query {
            TargetQuery::Named { resource, namespace, name } => {
                format!("{} {}/{name}", resource.kind, namespace.unwrap_or_default())
            }
            TargetQuery::Selected { .. } => panic!("a manifest names objects"),
        };
        queries.into_iter().map(show).collect()
    }

    fn read(text: &str, place: Place<'_>) -> Result<Vec<String>, Failure> {
        let manifests = decode("x.yaml", text)?;
        let queries =
            manifests.iter().map(|manifest| manifest.query(place, &catalog())).collect::<Result<_, _>>()?;
        Ok(show(queries))
    }

    #[test]
    fn yaml_documents_json_values_and_lists_name_their_objects() {
        let yaml = "# a comment\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec: {x: [1, 2]}\n---\n---\n\
                    apiVersion: batch/v1\nkind: Job\nmetadata: {name: b, namespace: ci}\n";
        assert_eq!(read(yaml, GIVEN), Ok(vec!["Pod ci/a".into(), "Job ci/b".into()]));
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}
                      {"apiVersion":"v1","kind":"Node","metadata":{"name":"n","namespace":"ignored"}}"#;
        assert_eq!(read(json, GIVEN), Ok(vec!["Pod ci/a".into(), "Node /n".into()]));
        let list = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- apiVersion: v1\n  kind: Secret\n  \
                    metadata: {name: s}\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: Pod, metadata: {name: p}}\n";
        assert_eq!(read(list, GIVEN), Ok(vec!["Secret ci/s".into(), "Pod ci/p".into()]));
    }

    #[test]
    fn a_manifest_of_another_namespace_than_the_one_given_is_an_error() {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: prod}}";
        let failure = read(pod, GIVEN).expect_err("prod is not ci");
        assert_eq!(failure.kind, FailureKind::Error);
        assert!(failure.message.contains("x.yaml") && failure.message.contains("Pod/a"), "{failure}");
        assert_eq!(read(pod, FROM_CONTEXT), Ok(vec!["Pod prod/a".into()]));
    }

    #[test]
    fn a_kind_that_is_not_served_is_an_error_that_names_the_versions_that_are() {
        let failure =
            read("{apiVersion: batch/v9, kind: Job, metadata: {name: a}}", GIVEN).expect_err("no v9");
        assert!(failure.message.contains(r#"no matches for kind "Job" in version "batch/v9""#), "{failure}");
        assert_eq!(failure.hint.as_deref(), Some("the server has this kind in batch/v1"));
    }

    /// Something in front of the server may resolve such a path: a Pod named `..` would be its namespace.
    #[test]
    fn a_name_that_leads_elsewhere_in_a_path_is_refused() {
        for metadata in
            ["{name: ..}", "{name: .}", "{name: a/b}", "{name: '%2e%2e'}", "{name: a, namespace: ..}"]
        {
            let text = format!("{{apiVersion: v1, kind: Pod, metadata: {metadata}}}");
            let failure = read(&text, FROM_CONTEXT).expect_err(metadata);
            assert_eq!(failure.kind, FailureKind::Error, "{metadata}");
            assert!(failure.message.contains("x.yaml") && failure.hint.is_some(), "{failure}");
        }
    }

    #[test]
    fn what_names_no_object_is_an_error_that_names_the_file_and_quotes_nothing_of_it() {
        for text in [
            "kind: Pod",
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}",
            "hunter2",
            "a: [hunter2",
            r#"{"kind": "Secret", "data": hunter2}"#,
        ] {
            let failure = read(text, GIVEN).expect_err(text);
            assert_eq!(failure.kind, FailureKind::Error, "{text}");
            assert!(failure.message.contains("x.yaml") && !failure.message.contains("hunter2"), "{failure}");
        }
    }

    #[test]
    fn a_directory_gives_its_manifests_in_the_order_of_their_names_and_deeper_ones_only_with_r() {
        let directory = tempfile::tempdir().expect("a directory");
        let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
        let write = |path: &str, text: &str| fs::write(directory.path().join(path), text).expect("written");
        fs::create_dir(directory.path().join("deeper")).expect("made");
        write("b.yml", &pod("b"));
        write("a.yaml", &pod("a"));
        write("README.md", "no manifest");
        write("c.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"}}"#);
        write("deeper/d.yaml", &pod("d"));
        write("plain.txt", &pod("plain"));

        let path = directory.path().display().to_string();
        let names = |filenames: &[String], recursive, stdin: &str| {
            let manifests = read_all(filenames, recursive, &mut stdin.as_bytes());
            manifests.map(|manifests| manifests.into_iter().map(|manifest| manifest.name).collect::<Vec<_>>())
        };
        assert_eq!(
            names(std::slice::from_ref(&path), false, ""),
            Ok(vec!["a".into(), "b".into(), "c".into()])
        );
        assert_eq!(
            names(std::slice::from_ref(&path), true, ""),
            Ok(["a", "b", "c", "d"].map(str::to_owned).to_vec())
        );
        assert_eq!(names(&["-".into()], false, &pod("piped")), Ok(vec!["piped".into()]));
        let explicit = format!("{path}/plain.txt,{path}/b.yml");
        assert_eq!(names(&[explicit], false, ""), Ok(vec!["plain".into(), "b".into()]));
        let missing = names(&[format!("{path}/missing.yaml")], false, "").expect_err("there is none");
        assert!(missing.message.contains("missing.yaml"), "{missing}");
        assert!(names(&["-".into()], false, "# nothing\n").is_err());
    }

    #[test]
    fn manifests_and_words_do_not_go_together_and_kustomizations_are_refused() {
        let base = TargetArgs { filenames: vec!["x.yaml".into()], ..TargetArgs::default() };
        assert_eq!(check(&base, BareType::Refused), Ok(()));
        let wrong = [
            TargetArgs { kustomize: Some("dir".into()), ..TargetArgs::default() },
            TargetArgs { targets: vec!["pod/x".into()], ..base.clone() },
            TargetArgs { selector: Some("a=b".into()), ..base.clone() },
            TargetArgs { all: true, ..base.clone() },
            TargetArgs { filenames: vec!["-".into(), "-".into()], ..TargetArgs::default() },
            TargetArgs { filenames: vec!["https://example.test/x.yaml".into()], ..TargetArgs::default() },
            TargetArgs { targets: vec!["pods".into()], selector: Some("  ".into()), ..TargetArgs::default() },
        ];
        for args in wrong {
            let failure = check(&args, BareType::Refused).expect_err("a wrong command line");
            assert_eq!(
                (failure.kind, failure.hint.is_some()),
                (FailureKind::Usage, true),
                "{args:?}: {failure}"
            );
        }
    }
}
