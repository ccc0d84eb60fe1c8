//! Commands that we suggest: complete, quoted for a shell, and reaching the same cluster as the caller's own.

use super::catalog::Resource;
use super::object::Object;
use super::visible::is_dangerous;

/// The caller's flags that a suggested command must repeat to reach the same cluster as the same user. Never a
/// token: what we print may be pasted into a ticket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// `--context`, where given.
    pub context: Option<String>,
    /// `--kubeconfig`, where given.
    pub kubeconfig: Option<String>,
    /// `--as`, where given.
    pub as_user: Option<String>,
    /// Further flags of that sort, each with its value, in the order in which they are repeated: `--server`, for
    /// example, or `--as-group`.
    pub further: Vec<(&'static str, String)>,
}

/// Commands in hints that are worded where the caller is not known: as they stand there, how they start, whether they
/// are about a namespace, and the rest.
const BARE: [(&str, &str, bool, &[&str]); 3] = [
    (MAY_I, "kubectl auth can-i", true, &["--list"]),
    (VIEW_MINIFIED, "kubectl config view", false, &["--minify"]),
    (VIEW, "kubectl config view", false, &[]),
];

/// What the caller may do; [`Caller::complete`] adds the caller's flags.
pub const MAY_I: &str = "`kubectl auth can-i --list`";
/// Which server the kubeconfig names; [`Caller::complete`] adds the caller's flags.
pub const VIEW_MINIFIED: &str = "`kubectl config view --minify`";
/// What the kubeconfig defines; [`Caller::complete`] adds the caller's flags.
pub const VIEW: &str = "`kubectl config view`";

impl Caller {
    /// A command that starts with `start` (`kubectl delete`, `kubectl cascade diagnose`), then `-n` where the object
    /// has a namespace, then the caller's own flags, then `rest`; every word that needs it is quoted.
    pub fn command(&self, start: &str, namespace: Option<&str>, rest: &[&str]) -> String {
        let mut words = vec![start.to_owned()];
        let mut flag = |name: &str, value: Option<&str>| match value {
            // In a word of its own it would be taken for another flag.
            Some(value) if value.starts_with('-') => words.push(format!("{name}={}", quote(value))),
            Some(value) => words.extend([name.to_owned(), quote(value)]),
            None => {}
        };
        flag("-n", namespace);
        flag("--context", self.context.as_deref());
        flag("--kubeconfig", self.kubeconfig.as_deref());
        flag("--as", self.as_user.as_deref());
        self.further.iter().for_each(|(name, value)| flag(name, Some(value)));
        words.extend(rest.iter().map(|word| quote(word)));
        words.join(" ")
    }
}

impl Caller {
    /// A command about one object, which is named as kubectl reads it back.
    pub fn command_on(&self, start: &str, object: &Object, rest: &[&str]) -> String {
        let name = format!("{}/{}", type_name(&object.resource), object.name);
        // A kind that looks like a flag can stand in a file: behind `--` nothing is one.
        let words = if name.starts_with('-') {
            [rest, &["--", name.as_str()]].concat()
        } else {
            [&[name.as_str()], rest].concat()
        };
        self.command(start, object.namespace.as_deref(), &words)
    }
}

impl Caller {
    /// The same hint with the caller's flags in its commands, where it was worded by somebody who does not know them.
    pub fn complete(&self, hint: &str, namespace: Option<&str>) -> String {
        let mut hint = hint.to_owned();
        for (bare, start, namespaced, rest) in BARE {
            if hint.contains(bare) {
                let command = self.command(start, namespace.filter(|_| namespaced), rest);
                hint = hint.replacen(bare, &format!("`{command}`"), 1);
            }
        }
        hint
    }
}

/// How a type is named in a command, so that no other group's type is meant: `pod`, `job.batch`.
fn type_name(resource: &Resource) -> String {
    let singular =
        if resource.singular.is_empty() { resource.kind.to_lowercase() } else { resource.singular.clone() };
    if resource.group.is_empty() { singular } else { format!("{singular}.{}", resource.group) }
}

/// Quotes one word for a POSIX shell, only where it needs it. What may not be shown raw is spelled for `printf`, so that
/// the command that is seen is the command that is meant.
pub fn quote(word: &str) -> String {
    // A first `=` is the path of a command in zsh.
    if is_plain(word) && !word.starts_with('=') {
        return word.to_owned();
    }
    // A shell drops the line ends at the end of what a command prints.
    if word.chars().any(is_dangerous) && !word.ends_with('\n') {
        return format!("\"$(printf '{}')\"", spelled(word));
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn is_plain(word: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./:=,@%+".contains(character);
    !word.is_empty() && word.chars().all(plain)
}

/// As a format of `printf`, in which every character but a plain one is given by its bytes.
fn spelled(word: &str) -> String {
    let mut format = String::new();
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || b"_./:=,@+".contains(&byte) {
            format.push(char::from(byte));
        } else {
            format.push_str(&format!("\\{byte:03o}"));
        }
    }
    format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_reaches_the_same_cluster_and_survives_a_shell() {
        let caller =
            Caller { context: Some("prod eu".into()), as_user: Some("it's me".into()), ..Caller::default() };
        assert_eq!(
            caller.command("kubectl cascade delete", Some("ci"), &["pod/build-1", "--policy", "background"]),
            r"kubectl cascade delete -n ci --context 'prod eu' --as 'it'\''s me' pod/build-1 --policy background"
        );
    }

    #[test]
    fn a_hint_worded_without_the_caller_gets_the_flags_that_were_given() {
        let caller = Caller {
            as_user: Some("jane".into()),
            further: vec![("--as-group", "dev ops".into())],
            ..Caller::default()
        };
        assert_eq!(
            caller.complete(&format!("{MAY_I} shows it"), Some("ci")),
            "`kubectl auth can-i -n ci --as jane --as-group 'dev ops' --list` shows it"
        );
        assert_eq!(
            caller.complete(&format!("see {VIEW_MINIFIED}"), Some("ci")),
            "see `kubectl config view --as jane --as-group 'dev ops' --minify`"
        );
        assert_eq!(caller.complete("log in again", Some("ci")), "log in again");
    }

    #[test]
    fn json_in_a_suggested_patch_is_one_word() {
        assert_eq!(quote(r#"{"a":null}"#), r#"'{"a":null}'"#);
        assert_eq!(quote(""), "''");
    }
}
