//! The documents of the output contract (design section 3), exactly: every one begins with apiVersion and kind; a
//! field that the contract writes without a question mark is always there.

use std::collections::{BTreeMap, HashMap};
use std::io;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::gaps::all_gaps;
use super::{sanitize, yaml};
use crate::model::diagnosis::Diagnosis;
use crate::model::forecast::{Entry, Forecast};
use crate::model::graph::OwnerGraph;
use crate::model::object::{Columns, Searched, Timestamp, Uid};
use crate::model::orphan::Orphans;
use crate::model::release::Release;
use crate::model::result::DeletionResult;

/// A Tree: `roots` are the targets, `shown` the objects that depth and filters leave.
pub fn tree_document(
    graph: &OwnerGraph,
    roots: &[usize],
    shown: &[usize],
    columns: &BTreeMap<Uid, Columns>,
    forecast: Option<&Forecast>,
) -> Value {
    let entries: HashMap<usize, &Entry> = forecast
        .into_iter()
        .flat_map(|forecast| &forecast.entries)
        .map(|entry| (entry.object, entry))
        .collect();
    let objects =
        shown.iter().map(|index| tree_object(graph, *index, columns, entries.get(index).copied())).collect();
    let mut document = document("Tree");
    document.insert("roots".into(), roots.iter().map(|root| to_value(&graph.object(*root).uid)).collect());
    document.insert("objects".into(), Value::Array(objects));
    document.insert("gaps".into(), to_value(&all_gaps(graph)));
    Value::Object(document)
}

fn tree_object(
    graph: &OwnerGraph,
    index: usize,
    columns: &BTreeMap<Uid, Columns>,
    entry: Option<&Entry>,
) -> Value {
    let object = graph.object(index);
    let owners: Value = graph
        .owners(index)
        .map(|(owner, resolved)| {
            json!({
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": owner.controller,
                "blockOwnerDeletion": owner.block_owner_deletion,
                "state": resolved.state,
            })
        })
        .collect();
    let dependents: Value =
        graph.dependents(index).iter().map(|dependent| to_value(&graph.object(*dependent).uid)).collect();
    let columns = columns.get(&object.uid);
    let status = columns.map_or("", |columns| &columns.status);
    let mut value = json!({
        "ref": object.reference(),
        "resource": object.resource.plural,
        "owners": owners,
        "dependents": dependents,
        "creationTimestamp": time(object.created),
        "deletionTimestamp": time(object.deleted),
        "finalizers": object.finalizers,
        "ready": columns.map_or("", |columns| &columns.ready),
        "status": if object.is_terminating() { "Terminating" } else { status },
    });
    if let Some(entry) = entry {
        value["fate"] = to_value(&entry.fate);
        value["reason"] = Value::from(entry.reason.as_str());
    }
    value
}

/// A Plan: what a delete would do.
pub fn plan_document(graph: &OwnerGraph, forecast: &Forecast) -> Value {
    let reference = |index: usize| to_value(&graph.object(index).reference());
    let objects = forecast
        .entries
        .iter()
        .map(|entry| {
            let mut value = Map::new();
            value.insert("ref".into(), reference(entry.object));
            value.insert("fate".into(), to_value(&entry.fate));
            value.insert("certain".into(), entry.certain.into());
            if !entry.otherwise.is_empty() {
                value.insert("otherwise".into(), to_value(&entry.otherwise));
            }
            value.insert("reason".into(), entry.reason.as_str().into());
            value.insert("heldBy".into(), to_value(&entry.held_by));
            Value::Object(value)
        })
        .collect();
    let mut document = document("Plan");
    document.insert("policy".into(), to_value(&forecast.policy));
    document.insert("targets".into(), forecast.targets.iter().map(|target| reference(*target)).collect());
    document.insert("objects".into(), objects);
    document.insert("warnings".into(), to_value(&forecast.warnings));
    document.insert("searched".into(), searched(&forecast.searched));
    document.insert("gaps".into(), to_value(&forecast.gaps));
    Value::Object(document)
}

/// A Diagnosis.
pub fn diagnosis_document(diagnosis: &Diagnosis) -> Value {
    whole("Diagnosis", diagnosis)
}

/// A Result of `delete` or `wait`.
pub fn result_document(result: &DeletionResult) -> Value {
    let mut document = whole("Result", result);
    // Milliseconds: more would look like a precision that nobody has.
    document["elapsedSeconds"] = ((result.elapsed_seconds * 1000.0).round() / 1000.0).into();
    document
}

/// A finalizer that was removed, or not.
pub fn release_document(release: &Release) -> Value {
    let mut document = whole("Release", release);
    document["after"] = release.after.as_ref().map_or(Value::Null, diagnosis_document);
    document
}

/// What earlier deletions left behind.
pub fn orphans_document(orphans: &Orphans) -> Value {
    let objects = orphans
        .objects
        .iter()
        .map(|orphan| {
            json!({
                "ref": orphan.reference,
                "cause": orphan.cause,
                "of": orphan.of,
                "creationTimestamp": time(orphan.created),
                "command": orphan.command,
            })
        })
        .collect();
    let mut document = document("Orphans");
    document.insert("objects".into(), objects);
    document.insert("gaps".into(), to_value(&orphans.gaps));
    Value::Object(document)
}

/// Writes a document as JSON for people and programs: indented, and harmless to a terminal (the same value).
pub fn write_json(out: &mut impl io::Write, document: &Value) -> io::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    writeln!(out, "{}", sanitize::json(&text))
}

/// Writes a document as YAML.
pub fn write_yaml(out: &mut impl io::Write, document: &Value) -> io::Result<()> {
    out.write_all(yaml::text(document).as_bytes())
}

/// A time as the contract has it: RFC 3339 in UTC, whole seconds; null where there is none.
pub fn time(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into())
}

fn document(kind: &str) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("apiVersion".into(), "cascade/v1".into());
    document.insert("kind".into(), kind.into());
    document
}

/// A document whose fields are those of a model value.
fn whole(kind: &str, value: &impl Serialize) -> Value {
    let mut document = document(kind);
    if let Value::Object(fields) = to_value(value) {
        document.extend(fields);
    }
    Value::Object(document)
}

fn searched(searched: &Searched) -> Value {
    let namespaces = searched.namespaces.as_ref().map_or_else(|| Value::from("all"), to_value);
    json!({"namespaces": namespaces, "clusterScoped": searched.cluster_scoped})
}

/// Model values have string keys and finite numbers: they always serialize.
fn to_value(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::text::written;
    use super::*;
    use crate::model::catalog::Gap;
    use crate::model::diagnosis::{Cause, Diagnosed, Evidence, Finding, Remedy, State, Verdict};
    use crate::model::forecast::forecast;
    use crate::model::orphan::{FormerOwner, Orphan};
    use crate::model::policy::Policy;
    use crate::model::result::{Outcome, Recreated, Unexpected};
    use crate::model::testing::{at, graph, timestamp};

    fn text(document: &Value) -> String {
        written(|out| write_json(out, document))
    }

    fn gap() -> Gap {
        Gap {
            resource: "secrets".into(),
            group: String::new(),
            version: None,
            reason: "Forbidden".into(),
            message: "no".into(),
        }
    }

    #[test]
    fn a_tree_is_as_the_contract_has_it() {
        let graph = graph(
            "Job/a created=2026-01-02T03:04:05Z
             ClusterWidget/b terminating finalizer=a/b <- Job/a!*",
        );
        let columns = [("Job/a".into(), Columns { ready: "0/1".into(), status: "Running".into() })].into();
        let (job, widget) = (at(&graph, "Job/a"), at(&graph, "ClusterWidget/b"));
        insta::assert_snapshot!(text(&tree_document(&graph, &[job], &[job, widget], &columns, None)), @r#"
        {
          "apiVersion": "cascade/v1",
          "kind": "Tree",
          "roots": [
            "Job/a"
          ],
          "objects": [
            {
              "ref": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": "x",
                "name": "a",
                "uid": "Job/a"
              },
              "resource": "jobs",
              "owners": [],
              "dependents": [
                "ClusterWidget/b"
              ],
              "creationTimestamp": "2026-01-02T03:04:05Z",
              "deletionTimestamp": null,
              "finalizers": [],
              "ready": "0/1",
              "status": "Running"
            },
            {
              "ref": {
                "apiVersion": "example.test/v1",
                "kind": "ClusterWidget",
                "name": "b",
                "uid": "ClusterWidget/b"
              },
              "resource": "clusterwidgets",
              "owners": [
                {
                  "apiVersion": "batch/v1",
                  "kind": "Job",
                  "name": "a",
                  "uid": "Job/a",
                  "controller": true,
                  "blockOwnerDeletion": true,
                  "state": "scope"
                }
              ],
              "dependents": [],
              "creationTimestamp": "2026-01-01T00:00:00Z",
              "deletionTimestamp": "2026-01-02T03:03:05Z",
              "finalizers": [
                "a/b"
              ],
              "ready": "",
              "status": "Terminating"
            }
          ],
          "gaps": []
        }
        "#);
    }

    #[test]
    fn a_tree_with_a_policy_has_fates_and_reasons_and_nothing_else_more() {
        let graph = graph("Job/a\nPod/b <- Job/a\nSecret/c");
        let roots = [at(&graph, "Job/a")];
        let forecast = forecast(&graph, &roots, Policy::Background);
        let all = [0, 1, 2];
        let columns = BTreeMap::new();
        let with = tree_document(&graph, &roots, &all, &columns, Some(&forecast));
        let without = tree_document(&graph, &roots, &all, &columns, None);
        let objects = with["objects"].as_array().cloned().unwrap_or_default();
        assert_eq!(objects[0]["fate"], "deleted");
        assert!(objects[0]["reason"].is_string());
        assert_eq!(objects[2].get("fate"), None, "not part of the forecast");
        assert_eq!(without["objects"][0].get("fate"), None);
        assert_eq!(without["objects"][0].get("reason"), None);
        assert_eq!(with["objects"][0]["creationTimestamp"], "2026-01-01T00:00:00Z");
    }

    #[test]
    fn a_plan_is_as_the_contract_has_it() {
        let graph = graph(
            "Widget/w finalizer=example.test/hold
             Pod/p node=n1 <- Widget/w!",
        );
        let mut forecast = forecast(&graph, &[at(&graph, "Widget/w")], Policy::Foreground);
        forecast.searched = Searched::namespace("x", true);
        forecast.gaps.push(gap());
        insta::assert_snapshot!(text(&plan_document(&graph, &forecast)), @r#"
        {
          "apiVersion": "cascade/v1",
          "kind": "Plan",
          "policy": "foreground",
          "targets": [
            {
              "apiVersion": "example.test/v1",
              "kind": "Widget",
              "namespace": "x",
              "name": "w",
              "uid": "Widget/w"
            }
          ],
          "objects": [
            {
              "ref": {
                "apiVersion": "example.test/v1",
                "kind": "Widget",
                "namespace": "x",
                "name": "w",
                "uid": "Widget/w"
              },
              "fate": "held",
              "certain": true,
              "reason": "held by finalizer example.test/hold and Pod/p",
              "heldBy": [
                {
                  "finalizer": "example.test/hold"
                },
                {
                  "object": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "x",
                    "name": "p",
                    "uid": "Pod/p"
                  }
                }
              ]
            },
            {
              "ref": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "fate": "held",
              "certain": true,
              "reason": "goes when n1 confirms (30 s grace)",
              "heldBy": [
                {
                  "node": "n1"
                }
              ]
            }
          ],
          "warnings": [
            {
              "code": "finalizer-does-not-protect-dependents",
              "message": "the finalizer of Widget/w does not protect its dependents under foreground: they are deleted at once",
              "object": {
                "apiVersion": "example.test/v1",
                "kind": "Widget",
                "namespace": "x",
                "name": "w",
                "uid": "Widget/w"
              }
            }
          ],
          "searched": {
            "namespaces": [
              "x"
            ],
            "clusterScoped": true
          },
          "gaps": [
            {
              "resource": "secrets",
              "group": "",
              "reason": "Forbidden",
              "message": "no"
            }
          ]
        }
        "#);
        forecast.searched = Searched::everywhere();
        assert_eq!(plan_document(&graph, &forecast)["searched"]["namespaces"], "all");
    }

    #[test]
    fn a_diagnosis_is_as_the_contract_has_it() {
        let graph = graph("Pod/p");
        let reference = graph.object(0).reference();
        let diagnosis = Diagnosis {
            objects: vec![Diagnosed::new(reference.clone(), State::Stuck)],
            findings: vec![Finding {
                cause: Cause::AdmissionDenied,
                also: vec![],
                verdict: Verdict::Proven,
                object: reference.clone(),
                chain: vec![reference],
                summary: "a webhook refuses".into(),
                by: None,
                evidence: vec![Evidence { source: "PATCH".into(), text: "denied\u{9b}".into() }],
                remedies: vec![Remedy { command: None, text: "ask".into(), risk: None }],
                alike: vec![],
                unexamined: 0,
            }],
            unchecked: vec![],
            gaps: vec![],
        };
        insta::assert_snapshot!(text(&diagnosis_document(&diagnosis)), @r#"
        {
          "apiVersion": "cascade/v1",
          "kind": "Diagnosis",
          "objects": [
            {
              "ref": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "state": "stuck"
            }
          ],
          "findings": [
            {
              "cause": "admission-denied",
              "also": [],
              "verdict": "proven",
              "object": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "chain": [
                {
                  "apiVersion": "v1",
                  "kind": "Pod",
                  "namespace": "x",
                  "name": "p",
                  "uid": "Pod/p"
                }
              ],
              "summary": "a webhook refuses",
              "by": null,
              "evidence": [
                {
                  "source": "PATCH",
                  "text": "denied\u009b"
                }
              ],
              "remedies": [
                {
                  "text": "ask"
                }
              ]
            }
          ],
          "unchecked": [],
          "gaps": []
        }
        "#);
    }

    #[test]
    fn a_result_is_as_the_contract_has_it() {
        let graph = graph("Pod/p\nPod/q");
        let (was, now) = (graph.object(0).reference(), graph.object(1).reference());
        let mut result = DeletionResult::new(Outcome::CompleteWithGaps, Policy::Orphan);
        result.elapsed_seconds = 1.234_567;
        result.recreated.push(Recreated { was, now: now.clone() });
        result.unexpected.push(Unexpected { reference: now, note: "gone".into() });
        result.gaps.push(gap());
        insta::assert_snapshot!(text(&result_document(&result)), @r#"
        {
          "apiVersion": "cascade/v1",
          "kind": "Result",
          "outcome": "complete-with-gaps",
          "policy": "orphan",
          "elapsedSeconds": 1.235,
          "deleted": [],
          "kept": [],
          "orphaned": [],
          "leaked": [],
          "remaining": [],
          "recreated": [
            {
              "was": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "now": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "q",
                "uid": "Pod/q"
              }
            }
          ],
          "unexpected": [
            {
              "ref": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "q",
                "uid": "Pod/q"
              },
              "note": "gone"
            }
          ],
          "findings": [],
          "unchecked": [],
          "gaps": [
            {
              "resource": "secrets",
              "group": "",
              "reason": "Forbidden",
              "message": "no"
            }
          ]
        }
        "#);
    }

    #[test]
    fn orphans_are_as_the_contract_has_them() {
        let graph = graph("Pod/p");
        let of = FormerOwner {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            name: "nightly".into(),
            uid: "u".into(),
            guessed: false,
        };
        let orphan = |of| Orphan {
            reference: graph.object(0).reference(),
            cause: Cause::OrphanedByDefault,
            of,
            created: Some(timestamp("2026-01-02T03:04:05Z")),
            command: "kubectl delete pod/p".into(),
        };
        let orphans = Orphans { objects: vec![orphan(Some(of)), orphan(None)], ..Orphans::default() };
        insta::assert_snapshot!(text(&orphans_document(&orphans)), @r#"
        {
          "apiVersion": "cascade/v1",
          "kind": "Orphans",
          "objects": [
            {
              "ref": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "cause": "orphaned-by-default",
              "of": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "nightly",
                "uid": "u"
              },
              "creationTimestamp": "2026-01-02T03:04:05Z",
              "command": "kubectl delete pod/p"
            },
            {
              "ref": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "x",
                "name": "p",
                "uid": "Pod/p"
              },
              "cause": "orphaned-by-default",
              "of": null,
              "creationTimestamp": "2026-01-02T03:04:05Z",
              "command": "kubectl delete pod/p"
            }
          ],
          "gaps": []
        }
        "#);
    }

    #[test]
    fn times_have_whole_seconds() {
        assert_eq!(time(Some(timestamp("2026-01-02T05:04:05.678+02:00"))), "2026-01-02T03:04:05Z");
        assert_eq!(time(None), Value::Null);
    }
}
