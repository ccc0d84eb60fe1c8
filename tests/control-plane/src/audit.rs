//! What the program under test has written to the cluster, by run: the API server's own audit log. Each run bears a
//! token of its own, whose user has a UID of its own; only requests that write, of such runs alone, are logged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde_json::{Value, json};

/// The group that all runs are in, beside those of their user; the audit policy looks for it.
pub(crate) const GROUP: &str = "cascade-test-runs";

/// What the API server is told to log: the bodies of all writes of runs, and nothing else.
pub(crate) fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {
                "level": "Request", "userGroups": [GROUP],
                "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            },
            { "level": "None" },
        ],
    })
}

/// One request that writes.
#[derive(Clone, Debug)]
pub struct Written {
    /// `delete`, `patch`, `create`, ...
    pub verb: String,
    /// The plural name of what it is about; with the subresource, such as `pods/status`.
    pub resource: String,
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The object's name; empty for what the server names.
    pub name: String,
    /// The HTTP status that was answered; 0 where none was.
    pub code: u64,
    /// What was sent; null where nothing was.
    pub body: Value,
    /// Whether it was to change nothing.
    pub dry_run: bool,
}

impl Written {
    fn parse(line: &str) -> Option<(String, Self)> {
        let event: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = &event["objectRef"];
        let resource = match about["subresource"].as_str() {
            Some(sub) => format!("{}/{sub}", text(&about["resource"])),
            None => text(&about["resource"]),
        };
        let body = event["requestObject"].clone();
        let asked = body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        let written = Self {
            verb: text(&event["verb"]),
            resource,
            namespace: text(&about["namespace"]),
            name: text(&about["name"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            dry_run: asked || text(&event["requestURI"]).contains("dryRun="),
            body,
        };
        Some((text(&event["user"]["uid"]), written))
    }
}

/// The log, read as it grows.
pub(crate) struct Log {
    path: PathBuf,
    read: u64,
    by_run: BTreeMap<String, Vec<Written>>,
}

impl Log {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: 0, by_run: BTreeMap::new() }
    }

    /// What this run has written until now.
    pub(crate) fn of(&mut self, run: &str) -> io::Result<Vec<Written>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            // Nobody has written anything yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read))?;
        let mut fresh = Vec::new();
        file.read_to_end(&mut fresh)?;
        // The last line may be half written.
        let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let text = String::from_utf8_lossy(&fresh[..whole]);
        for (run, written) in text.lines().filter_map(Written::parse) {
            self.by_run.entry(run).or_default().push(written);
        }
        Ok(self.by_run.get(run).cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn line(uid: &str, uri: &str, body: &Value) -> String {
        let event = json!({
            "verb": "delete", "requestURI": uri, "user": { "username": "admin", "uid": uid },
            "objectRef": { "resource": "pods", "namespace": "x", "name": "p" },
            "responseStatus": { "code": 200 }, "requestObject": body,
        });
        format!("{event}\n")
    }

    #[test]
    fn each_run_gets_its_own_requests_and_half_a_line_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut log = Log::new(path.clone());
        assert!(log.of("run-1").unwrap().is_empty());
        let mut file = File::create(&path).unwrap();
        let second = line("run-2", "/api?dryRun=All", &Value::Null);
        let (half, rest) = second.split_at(20);
        let dry = json!({ "dryRun": ["All"], "preconditions": { "uid": "u" } });
        write!(file, "{}{half}", line("run-1", "/api", &dry)).unwrap();
        let first = log.of("run-1").unwrap();
        assert_eq!((first.len(), first[0].name.as_str(), first[0].dry_run), (1, "p", true));
        assert_eq!(first[0].body["preconditions"]["uid"], "u");
        assert!(log.of("run-2").unwrap().is_empty());
        write!(file, "{rest}").unwrap();
        assert!(log.of("run-2").unwrap()[0].dry_run);
        assert_eq!(log.of("run-1").unwrap().len(), 1);
    }
}
