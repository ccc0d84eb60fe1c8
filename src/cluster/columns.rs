//! READY and STATUS as the server itself prints them (its Tables), so that custom resources show their own printer
//! columns. Asked only for the kinds that are to be shown. It is decoration: whatever fails leaves empty texts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use futures::StreamExt;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::cluster::connect::Cluster;
use crate::cluster::request::Request;
use crate::model::catalog::Resource;
use crate::model::object::{Columns, Object, Uid};

/// A Table; a server without them answers with the objects, which have no rows.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
/// How many Tables are asked for at once.
const AT_ONCE: usize = 16;
/// Up to so many objects are asked for one by one: their list may be much longer.
const FEW: usize = 3;
/// Up to so many namespaces are asked for one by one; more of them cost less in one list, although that needs the
/// metadata of every row.
const NAMESPACES: usize = 8;

/// Groups whose kinds come with the API server, so that what it prints of them is known.
const BUILT_IN: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
/// Those of them that have a column to show (`kubernetes/pkg/printers/internalversion/printers.go`). The others are
/// not asked for: a namespace may hold thousands of Secrets, and each would be read and printed for nothing.
const PRINTED: &[(&str, &str)] = &[
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
];

/// How the server prints each of these objects. What has neither column, or could not be read, is left out.
pub async fn columns(cluster: &Cluster, wanted: &[&Object]) -> BTreeMap<Uid, Columns> {
    let questions = questions(wanted);
    futures::stream::iter(questions.iter().map(|question| ask(cluster, question)))
        .buffer_unordered(AT_ONCE)
        .fold(BTreeMap::new(), |mut all, found| async move {
            all.extend(found);
            all
        })
        .await
}

/// One Table to ask for, and which of its rows matter.
struct Question<'a> {
    path: String,
    rows: Rows<'a>,
}

/// How a row is recognized.
enum Rows<'a> {
    /// By name: all rows are of one namespace.
    Names(HashMap<&'a str, &'a Uid>),
    /// By the UID of the row's object.
    Uids(BTreeSet<&'a Uid>),
}

/// The fewest and smallest Tables that show all the wanted objects.
fn questions<'a>(wanted: &[&'a Object]) -> Vec<Question<'a>> {
    let mut kinds: BTreeMap<&Resource, BTreeMap<Option<&str>, Vec<&'a Object>>> = BTreeMap::new();
    for object in wanted.iter().filter(|object| may_print(&object.resource)) {
        let namespaces = kinds.entry(&object.resource).or_default();
        namespaces.entry(object.namespace.as_deref()).or_default().push(object);
    }
    let mut questions = Vec::new();
    for (resource, namespaces) in kinds {
        let all: Vec<&Object> = namespaces.values().flatten().copied().collect();
        if namespaces.len() > NAMESPACES && all.len() > FEW {
            questions.push(Question {
                path: format!("{}?includeObject=Metadata", resource.collection_path(None)),
                rows: Rows::Uids(all.iter().map(|object| &object.uid).collect()),
            });
            continue;
        }
        for (namespace, objects) in namespaces {
            let by_name = |objects: &[&'a Object], path: String| Question {
                path: format!("{path}?includeObject=None"),
                rows: Rows::Names(objects.iter().map(|object| (object.name.as_str(), &object.uid)).collect()),
            };
            if objects.len() <= FEW {
                let single =
                    |object: &&'a Object| by_name(&[*object], resource.object_path(namespace, &object.name));
                questions.extend(objects.iter().map(single));
            } else {
                questions.push(by_name(&objects, resource.collection_path(namespace)));
            }
        }
    }
    questions
}

/// Whether the server may have a column to show for this kind.
fn may_print(resource: &Resource) -> bool {
    let name = (resource.group.as_str(), resource.plural.as_str());
    !BUILT_IN.contains(&name.0) || PRINTED.contains(&name)
}

async fn ask(cluster: &Cluster, question: &Question<'_>) -> BTreeMap<Uid, Columns> {
    match cluster.send(Request::get(&question.path).accept(TABLE)).await {
        Ok(answer) => decode(&answer.body, &question.rows),
        Err(_) => BTreeMap::new(),
    }
}

/// The wanted rows of a Table; what cannot be read ends it.
fn decode(body: &[u8], rows: &Rows<'_>) -> BTreeMap<Uid, Columns> {
    let mut found = BTreeMap::new();
    let table = Table { rows, found: &mut found };
    // An answer that breaks off has shown what it has shown.
    let _ = table.deserialize(&mut serde_json::Deserializer::from_slice(body));
    found
}

/// Where the two columns stand in a Table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    name: Option<usize>,
    ready: Option<usize>,
    /// Where the ready ones are only counted: how many there should be.
    desired: Option<usize>,
    status: Option<usize>,
}

/// Finds the columns by their names, as far as `kubectl get` shows them without `-o wide`.
fn places(definitions: &[Definition<'_>]) -> Places {
    let place = |name: &str| {
        definitions.iter().position(|column| column.priority == 0 && column.name.eq_ignore_ascii_case(name))
    };
    let counted = place("Ready").filter(|index| definitions[*index].r#type == "integer");
    Places {
        name: definitions.iter().position(|column| column.name.eq_ignore_ascii_case("Name")),
        ready: place("Ready").or_else(|| place("Completions")),
        desired: counted.and_then(|_| place("Desired")),
        status: ["Status", "Phase", "State", "Reason"].into_iter().find_map(place),
    }
}

/// READY and STATUS of one row.
fn read(places: Places, cells: &[Cell<'_>]) -> Columns {
    let text =
        |place: Option<usize>| place.and_then(|index| cells.get(index)).map(|cell| &*cell.0).unwrap_or("");
    let ready = match (text(places.ready), text(places.desired)) {
        (ready, "") => ready.to_owned(),
        (ready, desired) => format!("{ready}/{desired}"),
    };
    Columns { ready, status: text(places.status).to_owned() }
}

#[derive(Deserialize)]
struct Definition<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow, default)]
    cells: Vec<Cell<'a>>,
    #[serde(default)]
    object: Option<RowObject>,
}

#[derive(Deserialize)]
struct RowObject {
    metadata: RowMetadata,
}

#[derive(Deserialize)]
struct RowMetadata {
    uid: String,
}

/// One cell as text. Structures, which no column that we show has, are empty.
struct Cell<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Cell<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Cell<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a cell of a table")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Owned(text.to_owned())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Owned(number.to_string())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Owned(number.to_string())))
            }
            fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Borrowed(if yes { "true" } else { "false" })))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Cell(Cow::Borrowed("")))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Cell(Cow::Borrowed("")))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Cell(Cow::Borrowed("")))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Reads a Table row by row, keeping nothing but the two columns of the wanted rows: fifty thousand Pods are fifty
/// thousand rows of a dozen cells. The definitions of the columns come first (`apimachinery/pkg/apis/meta/v1/types.go`,
/// Table).
struct Table<'a> {
    rows: &'a Rows<'a>,
    found: &'a mut BTreeMap<Uid, Columns>,
}

impl<'de> DeserializeSeed<'de> for Table<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Table<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a Table")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut places = Places::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "columnDefinitions" => places = self::places(&map.next_value::<Vec<Definition<'de>>>()?),
                "rows" => {
                    map.next_value_seed(TableRows { places, rows: self.rows, found: &mut *self.found })?
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct TableRows<'a> {
    places: Places,
    rows: &'a Rows<'a>,
    found: &'a mut BTreeMap<Uid, Columns>,
}

impl<'de> DeserializeSeed<'de> for TableRows<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for TableRows<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the rows of a Table")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(row) = items.next_element::<Row<'de>>()? {
            let uid = match self.rows {
                Rows::Names(names) => {
                    let name = self.places.name.and_then(|index| row.cells.get(index));
                    name.and_then(|name| names.get(&*name.0).copied()).cloned()
                }
                Rows::Uids(uids) => {
                    row.object.map(|object| Uid::from(object.metadata.uid)).filter(|uid| uids.contains(uid))
                }
            };
            let columns = read(self.places, &row.cells);
            if let Some(uid) = uid.filter(|_| columns != Columns::default()) {
                self.found.insert(uid, columns);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::snapshot;

    /// `Name:type[:priority]` words, and a row of cells as JSON.
    fn row(columns: &str, cells: &str) -> (String, String) {
        let words: Vec<Vec<String>> =
            columns.split(' ').map(|word| word.split(':').map(str::to_owned).collect()).collect();
        let definitions: Vec<Definition<'_>> = words
            .iter()
            .map(|word| Definition {
                name: word[0].replace('_', " ").into(),
                r#type: word[1].as_str().into(),
                priority: word.get(2).map_or(0, |priority| priority.parse().expect("a number")),
            })
            .collect();
        let cells: Vec<Cell<'_>> = serde_json::from_str(cells).expect("cells");
        let columns = read(places(&definitions), &cells);
        (columns.ready, columns.status)
    }

    fn is(ready: &str, status: &str) -> (String, String) {
        (ready.to_owned(), status.to_owned())
    }

    #[test]
    fn built_in_kinds_show_ready_and_status_as_kubectl_get_does() {
        let pod = row(
            "Name:string Ready:string Status:string Restarts:string Age:string Node:string:1",
            r#"["a","1/1","Running","0","5m","n1"]"#,
        );
        assert_eq!(pod, is("1/1", "Running"));
        let replica_set = row(
            "Name:string Desired:integer Current:integer Ready:integer Age:string",
            r#"["a",3,3,2,"5m"]"#,
        );
        assert_eq!(replica_set, is("2/3", ""));
        let job = row(
            "Name:string Status:string Completions:string Duration:string Age:string",
            r#"["a","Failed","0/1",null,"5m"]"#,
        );
        assert_eq!(job, is("0/1", "Failed"));
        let volume = row(
            "Name:string Capacity:string Status:string Claim:string Reason:string",
            r#"["a","1Gi","Bound","x/y",""]"#,
        );
        assert_eq!(volume, is("", "Bound"));
        assert_eq!(row("Name:string Data:integer Age:string", r#"["a",3,"5m"]"#), is("", ""));
    }

    #[test]
    fn custom_resources_show_their_own_columns_whatever_their_case_and_type() {
        assert_eq!(
            row("Name:string READY:string PHASE:string", r#"["a","True","Synced"]"#),
            is("True", "Synced")
        );
        assert_eq!(row("Name:string Ready:boolean State:string", r#"["a",false,null]"#), is("false", ""));
        // cert-manager: a sentence that kubectl shows only with -o wide.
        assert_eq!(
            row("Name:string Ready:string Status:string:1", r#"["a","True","up to date"]"#),
            is("True", "")
        );
        assert_eq!(row("Name:string Ready:integer", r#"["a",2]"#), is("2", ""));
        assert_eq!(row("Name:string Status:string", r#"["a",{"odd":1}]"#), is("", ""));
    }

    #[test]
    fn a_row_with_too_few_cells_is_empty() {
        assert_eq!(row("Name:string Ready:string Status:string", r#"["a"]"#), is("", ""));
    }

    const PODS: &str = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},
        "columnDefinitions":[
            {"name":"Name","type":"string","format":"name","description":"a \"name\"","priority":0},
            {"name":"Ready","type":"string","format":"","description":"","priority":0},
            {"name":"Status","type":"string","format":"","description":"","priority":0}],
        "rows":[
            {"cells":["a","1/1","Running"],"object":{"kind":"PartialObjectMetadata","metadata":{"name":"a","uid":"Pod/a"}}},
            {"cells":["other","0/1","Pending"],"object":{"metadata":{"name":"other","uid":"Pod/other"}}},
            {"cells":["b","0/1","Crash\"Loop"],"object":{"metadata":{"name":"b","uid":"Pod/b"}}}]}"#;

    fn shown(found: &BTreeMap<Uid, Columns>) -> Vec<(&str, &str, &str)> {
        found.iter().map(|(uid, columns)| (uid.as_str(), &*columns.ready, &*columns.status)).collect()
    }

    #[test]
    fn only_the_wanted_rows_are_kept_by_name_or_by_uid() {
        let objects = snapshot("Pod/a\nPod/b\nPod/gone").objects;
        let names = Rows::Names(objects.iter().map(|object| (object.name.as_str(), &object.uid)).collect());
        let both = [("Pod/a", "1/1", "Running"), ("Pod/b", "0/1", "Crash\"Loop")];
        assert_eq!(shown(&decode(PODS.as_bytes(), &names)), both);
        let uids = Rows::Uids(objects.iter().map(|object| &object.uid).collect());
        assert_eq!(shown(&decode(PODS.as_bytes(), &uids)), both);
    }

    #[test]
    fn an_answer_that_is_no_table_or_breaks_off_is_no_error() {
        let objects = snapshot("Pod/a\nPod/b").objects;
        let names = Rows::Names(objects.iter().map(|object| (object.name.as_str(), &object.uid)).collect());
        assert!(decode(br#"{"kind":"PodList","items":[{"metadata":{"name":"a"}}]}"#, &names).is_empty());
        assert!(decode(b"<html>", &names).is_empty());
        let broken = &PODS.as_bytes()[..PODS.find("other").expect("a row")];
        assert_eq!(shown(&decode(broken, &names)), [("Pod/a", "1/1", "Running")]);
    }

    #[test]
    fn few_objects_are_asked_for_one_by_one_many_by_list_and_many_namespaces_at_once() {
        let paths = |text: &str| {
            let objects = snapshot(text).objects;
            let wanted: Vec<&Object> = objects.iter().collect();
            questions(&wanted).into_iter().map(|question| question.path).collect::<Vec<_>>()
        };
        assert_eq!(
            paths("Pod/a\nPod/b\nSecret/s\nWidget/w"),
            [
                "/api/v1/namespaces/x/pods/a?includeObject=None",
                "/api/v1/namespaces/x/pods/b?includeObject=None",
                "/apis/example.test/v1/namespaces/x/widgets/w?includeObject=None",
            ]
        );
        assert_eq!(
            paths("Pod/a\nPod/b\nPod/c\nPod/d\nClusterWidget/w"),
            [
                "/api/v1/namespaces/x/pods?includeObject=None",
                "/apis/example.test/v1/clusterwidgets/w?includeObject=None",
            ]
        );
        let everywhere: Vec<String> = (0..9).map(|index| format!("n{index}:Pod/a")).collect();
        assert_eq!(paths(&everywhere.join("\n")), ["/api/v1/pods?includeObject=Metadata"]);
    }
}
