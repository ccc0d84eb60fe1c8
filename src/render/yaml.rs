//! A JSON document as YAML. A serializer of our own, because every string that could mean something else, or do
//! something to a terminal, must be quoted and escaped.

use std::fmt::Write;

use serde_json::Value;

use super::sanitize::is_dangerous;

/// The document in block style, with a line end.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Array(items) if !items.is_empty() => sequence(&mut text, items, 0),
        Value::Object(fields) if !fields.is_empty() => mapping(&mut text, fields, 0),
        scalar => {
            push_scalar(&mut text, scalar);
            text.push('\n');
        }
    }
    text
}

fn mapping(text: &mut String, fields: &serde_json::Map<String, Value>, indent: usize) {
    for (position, (key, value)) in fields.iter().enumerate() {
        // The first one of an object in a list stands behind the dash.
        if position > 0 || indent == 0 || text.ends_with('\n') {
            text.extend(std::iter::repeat_n(' ', indent));
        }
        push_string(text, key);
        text.push(':');
        match value {
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                sequence(text, items, indent);
            }
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                mapping(text, fields, indent + 2);
            }
            scalar => {
                text.push(' ');
                push_scalar(text, scalar);
                text.push('\n');
            }
        }
    }
}

fn sequence(text: &mut String, items: &[Value], indent: usize) {
    for item in items {
        text.extend(std::iter::repeat_n(' ', indent));
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(text, fields, indent + 2),
            // The contract has no lists of lists; JSON is YAML.
            Value::Array(items) if !items.is_empty() => {
                text.push_str(&super::sanitize::json(&item.to_string()));
                text.push('\n');
            }
            scalar => {
                push_scalar(text, scalar);
                text.push('\n');
            }
        }
    }
}

fn push_scalar(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => push_string(text, string),
        // Empty ones look the same in JSON.
        other => text.push_str(&other.to_string()),
    }
}

/// Plain where nobody can take it for anything else, else in double quotes.
fn push_string(text: &mut String, string: &str) {
    let mut characters = string.chars();
    let plain = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|character| character.is_ascii_alphanumeric() || "-_./".contains(character))
        && !is_word(string);
    if plain {
        text.push_str(string);
        return;
    }
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            dangerous if is_dangerous(dangerous) => {
                // Writing into a String cannot fail.
                let _ = write!(text, "\\U{:08x}", u32::from(dangerous));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// What some version of YAML reads as a truth value, null or a number.
fn is_word(string: &str) -> bool {
    ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"]
        .iter()
        .any(|word| word.eq_ignore_ascii_case(string))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_reads_as_a_person_would_write_it() {
        let value = json!({
            "apiVersion": "cascade/v1",
            "roots": ["a-b", "1", "yes"],
            "objects": [{"ref": {"name": "a"}, "finalizers": [], "by": null}, {"n": 1.5}],
            "by": {},
            "text": "says: \"no\"\n\u{1b}é",
        });
        insta::assert_snapshot!(text(&value), @r#"
        apiVersion: cascade/v1
        roots:
        - a-b
        - "1"
        - "yes"
        objects:
        - ref:
            name: a
          finalizers: []
          by: null
        - "n": 1.5
        by: {}
        text: "says: \"no\"\n\U0000001bé"
        "#);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z#:? -]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z: ]{0,4}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any_value()) {
            let text = text(&value);
            prop_assert!(!text.chars().any(|character| character != '\n' && is_dangerous(character)));
            let read = serde_saphyr::from_str::<Value>(&text);
            prop_assert_eq!(read.map_err(|error| format!("{error}\n{text}")), Ok(value));
        }
    }
}
