//! Selectors, for where no server evaluates them: as `apimachinery/pkg/labels/selector.go` and
//! `apimachinery/pkg/fields/selector.go` read them.

use std::collections::BTreeMap;

use super::object::Object;
use crate::error::Failure;

/// A label selector: all of its requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    /// Also true where the label is absent.
    NotIn(Vec<String>),
    /// The label is a number above the first, or below the second.
    Between(Option<i64>, Option<i64>),
}

impl LabelSelector {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
    ///
    /// # Errors
    /// What is no selector: usage.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(format!("cannot read the label selector {text:?}"))
                .hint("write for example -l app=web,tier!=cache or -l 'env in (dev,test)'")
        };
        let mut requirements = Vec::new();
        for part in parts(text) {
            requirements.push(Requirement::parse(part.trim()).ok_or_else(wrong)?);
        }
        Ok(Self(requirements))
    }

    /// Whether these labels meet all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Between(above, below) => {
                    value.and_then(|value| value.parse::<i64>().ok()).is_some_and(|value| {
                        above.is_none_or(|limit| value > limit) && below.is_none_or(|limit| value < limit)
                    })
                }
            }
        })
    }
}

/// The requirements of a selector: at commas outside parentheses.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (position, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        let is_key = |key: &str| !key.is_empty() && !key.contains([' ', '(', ')', '=', '!', '<', '>']);
        let of = |key: &str, test: Test| {
            let key = key.trim();
            is_key(key).then(|| Self { key: key.to_owned(), test })
        };
        if let Some(key) = text.strip_prefix('!') {
            return of(key, Test::Absent);
        }
        if let Some((head, set)) = text.split_once('(') {
            let values = set.trim_end().strip_suffix(')')?.split(',').map(|value| value.trim().to_owned());
            let values: Vec<String> = values.collect();
            let mut words = head.split_whitespace();
            return match (words.next()?, words.next()?, words.next()) {
                (key, "in", None) => of(key, Test::In(values)),
                (key, "notin", None) => of(key, Test::NotIn(values)),
                _ => None,
            };
        }
        for (operator, negated) in [("!=", true), ("==", false), ("=", false)] {
            if let Some((key, value)) = text.split_once(operator) {
                let values = vec![value.trim().to_owned()];
                return of(key, if negated { Test::NotIn(values) } else { Test::In(values) });
            }
        }
        if let Some((key, limit)) = text.split_once('>') {
            return of(key, Test::Between(Some(limit.trim().parse().ok()?), None));
        }
        if let Some((key, limit)) = text.split_once('<') {
            return of(key, Test::Between(None, Some(limit.trim().parse().ok()?)));
        }
        of(text, Test::Exists)
    }
}

/// A field selector over what metadata knows: `metadata.name` and `metadata.namespace`, as the server does for most
/// kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<(Field, bool, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
}

impl FieldSelector {
    /// Reads `metadata.name=a,metadata.namespace!=b`.
    ///
    /// # Errors
    /// What is no selector, or another field: usage.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        parts.map(|part| Self::part(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    fn part(part: &str) -> Result<(Field, bool, String), Failure> {
        let split = [("!=", false), ("==", true), ("=", true)].into_iter().find_map(|(operator, equal)| {
            part.split_once(operator).map(|(field, value)| (field, equal, value))
        });
        let (field, equal, value) = match split {
            Some((field, equal, value)) => (field.trim(), equal, value.trim().to_owned()),
            None => (part, true, String::new()),
        };
        match field {
            "metadata.name" if split.is_some() => Ok((Field::Name, equal, value)),
            "metadata.namespace" if split.is_some() => Ok((Field::Namespace, equal, value)),
            _ => Err(Failure::usage(format!("cannot select by {part:?} in a file"))
                .hint("metadata.name and metadata.namespace are known, for example metadata.name=web")),
        }
    }

    /// Whether this object is selected.
    pub fn matches(&self, object: &Object) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let own = match field {
                Field::Name => object.name.as_str(),
                Field::Namespace => object.namespace.as_deref().unwrap_or_default(),
            };
            (own == value) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_requirement() {
        let labels: BTreeMap<String, String> =
            [("app", "web"), ("n", "5"), ("x/y", "")].map(|(key, value)| (key.into(), value.into())).into();
        for (text, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web,n=5", true),
            ("app = web", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app in (db),n", false),
            ("app notin (db,cache)", true),
            ("other notin (db)", true),
            ("x/y", true),
            ("x/y=", true),
            ("!app", false),
            ("!other", true),
            ("n>4,n<6", true),
            ("n>5", false),
        ] {
            let selector = LabelSelector::parse(text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert_eq!(selector.matches(&labels), matches, "{text}");
        }
        for text in ["=a", "a in b", "a in (b", "a like (b)", "a b", ",", "n>x", "!"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_that_metadata_does_not_know_are_refused() {
        let objects = super::super::testing::snapshot("Pod/a\nother:Pod/b").objects;
        let selected = |text: &str| {
            let selector = FieldSelector::parse(text).expect("a selector");
            objects.iter().filter(|object| selector.matches(object)).count()
        };
        assert_eq!(selected("metadata.name=a"), 1);
        assert_eq!(selected("metadata.name!=a,metadata.namespace==other"), 1);
        assert_eq!(selected("metadata.namespace=x,metadata.name!=a"), 0);
        assert!(FieldSelector::parse("status.phase=Running").is_err());
        assert!(FieldSelector::parse("metadata.name").is_err());
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_selector_or_refused_in_words(
            text in "\\PC{0,20}|[a-z!=<>() ,]{0,16}|([a-z]{1,3}( in | notin |=|!=|==|>|<)[(a-z,0-9)]{0,6},?){1,4}"
        ) {
            let objects = super::super::testing::snapshot("Pod/a label=a=b").objects;
            match LabelSelector::parse(&text) {
                Ok(selector) => { selector.matches(&objects[0].labels); }
                Err(failure) => prop_assert!(failure.hint.is_some()),
            }
            match FieldSelector::parse(&text) {
                Ok(selector) => { selector.matches(&objects[0]); }
                Err(failure) => prop_assert!(failure.hint.is_some()),
            }
        }
    }
}
