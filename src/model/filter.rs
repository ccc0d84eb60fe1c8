//! Which kinds to show: `--include` and `--exclude`. A word is a type as for kubectl (plural, singular, short name,
//! kind, with or without group), a category, an API group, or a pattern with `*` and `?` over all of these.

use std::collections::BTreeSet;

use super::catalog::{Catalog, Resource};
use super::graph::OwnerGraph;
use super::target;
use crate::error::Failure;

/// A filter over kinds.
#[derive(Debug, Clone, Default)]
pub struct KindFilter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

/// One word of a filter.
#[derive(Debug, Clone)]
enum Pattern {
    /// These resources, as (group, plural).
    Resources(BTreeSet<(String, String)>),
    /// A text with `*` and `?`, or the name of an API group; lower case.
    Text(String),
}

impl KindFilter {
    /// Reads the words of both flags; commas separate words, too.
    ///
    /// # Errors
    /// A word without `*` and `?` that names nothing the server has (exit 1), with the nearest types.
    pub fn new(include: &[String], exclude: &[String], catalog: &Catalog) -> Result<Self, Failure> {
        let read = |words: &[String]| -> Result<Vec<Pattern>, Failure> {
            let words = words.iter().flat_map(|word| word.split(',')).map(str::trim);
            words.filter(|word| !word.is_empty()).map(|word| Pattern::new(word, catalog)).collect()
        };
        Ok(Self { include: read(include)?, exclude: read(exclude)? })
    }

    /// Whether objects of this resource are to be shown: any word of `include` fits (or there is none), and none of
    /// `exclude`.
    pub fn accepts(&self, resource: &Resource) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.fits(resource));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// The objects of a graph that it lets through; none where there is no filter.
    pub fn matching(&self, graph: &OwnerGraph) -> Option<BTreeSet<usize>> {
        if self.include.is_empty() && self.exclude.is_empty() {
            return None;
        }
        let accepted =
            graph.objects().iter().enumerate().filter(|(_, object)| self.accepts(&object.resource));
        Some(accepted.map(|(index, _)| index).collect())
    }
}

impl Pattern {
    fn new(word: &str, catalog: &Catalog) -> Result<Self, Failure> {
        let text = word.to_lowercase();
        if word.contains(['*', '?']) {
            return Ok(Self::Text(text));
        }
        let key = |resource: &Resource| (resource.group.clone(), resource.plural.clone());
        let category: BTreeSet<_> = catalog
            .preferred()
            .filter(|resource| resource.categories.iter().any(|category| category == word))
            .map(|resource| key(resource))
            .collect();
        if !category.is_empty() {
            return Ok(Self::Resources(category));
        }
        match target::resource(word, catalog) {
            Ok(resource) => Ok(Self::Resources(BTreeSet::from([key(&resource)]))),
            Err(_) if catalog.all().iter().any(|resource| resource.group == text) => Ok(Self::Text(text)),
            Err(failure) => Err(failure),
        }
    }

    fn fits(&self, resource: &Resource) -> bool {
        match self {
            Self::Resources(resources) => {
                resources.iter().any(|(group, plural)| *group == resource.group && *plural == resource.plural)
            }
            Self::Text(text) => {
                let names = [&resource.kind, &resource.plural, &resource.group, &resource.qualified()];
                names.iter().any(|name| glob(text, &name.to_lowercase()))
            }
        }
    }
}

/// Whether a text fits a pattern, in which `*` is any text and `?` any one character.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Where the last `*` stands, and how much of the text it has swallowed.
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(character) if *character == '?' || *character == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((place, swallowed)) = star else { return false };
                star = Some((place, swallowed + 1));
                at = place + 1;
                from = swallowed + 1;
            }
        }
    }
    pattern[at..].iter().all(|character| *character == '*')
}

#[cfg(test)]
mod tests {
    use super::super::testing::{catalog, graph, label};
    use super::*;

    fn shown(include: &[&str], exclude: &[&str]) -> Vec<String> {
        let graph = graph("Job/a\nPod/b\nConfigMap/c\nWidget/w\nClusterWidget/v\nDeployment/d\nLease/l");
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let filter = KindFilter::new(&words(include), &words(exclude), &catalog()).expect("a filter");
        let matching = filter.matching(&graph).expect("a filter that filters");
        matching.into_iter().map(|index| label(graph.object(index))).collect()
    }

    #[test]
    fn a_word_is_a_type_as_for_kubectl() {
        assert_eq!(shown(&["pods"], &[]), ["Pod/b"]);
        assert_eq!(shown(&["JOB.batch,Deployment"], &[]), ["Deployment/d", "Job/a"]);
        assert_eq!(shown(&[], &["configmap"]).len(), 6);
    }

    #[test]
    fn a_word_may_be_a_group_and_a_pattern_goes_over_kind_resource_and_group() {
        assert_eq!(shown(&["example.test"], &[]), ["ClusterWidget/v", "Widget/w"]);
        assert_eq!(shown(&["*.k8s.io"], &[]), ["Lease/l"]);
        assert_eq!(shown(&["*widget"], &["cluster*"]), ["Widget/w"]);
        assert_eq!(shown(&["?ob"], &[]), ["Job/a"]);
        assert_eq!(shown(&[], &["*"]), [""; 0]);
    }

    #[test]
    fn a_word_that_names_nothing_is_an_error_with_the_nearest_types() {
        let failure = KindFilter::new(&["secrts".to_owned()], &[], &catalog()).expect_err("a typo");
        assert_eq!(failure.hint.as_deref(), Some("did you mean secrets?"));
        assert!(KindFilter::new(&["secrts*".to_owned()], &[], &catalog()).is_ok());
    }

    #[test]
    fn without_words_there_is_no_filter() {
        let filter = KindFilter::new(&[], &[String::new()], &catalog()).expect("a filter");
        assert!(filter.matching(&graph("Job/a")).is_none());
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b", "xaxxab", true),
            ("a?", "a", false),
            ("", "a", false),
            ("a**", "a", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_pattern_is_tried_in_no_time(pattern in "[*?a]{0,40}|\\PC{0,10}", text in "a{0,60}b?") {
            let _ = KindFilter::new(std::slice::from_ref(&pattern), &[], &catalog());
            // The plain rule, of exponential effort: only for short ones.
            fn plain(pattern: &[char], text: &[char]) -> bool {
                match (pattern, text) {
                    ([], []) => true,
                    (['*', rest @ ..], _) => {
                        plain(rest, text) || !text.is_empty() && plain(pattern, &text[1..])
                    }
                    (['?', rest @ ..], [_, more @ ..]) => plain(rest, more),
                    ([one, rest @ ..], [other, more @ ..]) => one == other && plain(rest, more),
                    _ => false,
                }
            }
            glob(&pattern, &text);
            let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().take(7).collect(), text.chars().take(7).collect());
            let short: (String, String) = (pattern.iter().collect(), text.iter().collect());
            prop_assert_eq!(glob(&short.0, &short.1), plain(&pattern, &text));
        }
    }
}
