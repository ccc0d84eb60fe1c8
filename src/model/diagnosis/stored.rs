//! What a dry run cannot tell: it stores nothing, so nothing is converted to the version in which the kind is stored
//! (F17). An object that is read in another version than that one may pass the dry run of a change, and the change
//! itself is refused. Reading it in the version of the storage asks for the same conversion.

use serde_json::Value;

use super::inquiry::Inquiry;
use super::reading::{Reading, read};
use crate::model::facts::{Identity, Question, Reply, Subject};
use crate::model::object::Object;

/// The definition of a kind, as a path; there is none of kinds that no definition makes.
fn definition_of(subject: &Subject) -> String {
    let resource = &subject.resource;
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}", resource.plural, resource.group)
}

impl<'a> Inquiry<'a> {
    /// Why what this dry run asks for could not be stored, though the dry run passes. The outer None: not asked yet.
    pub(super) fn unstorable(&mut self, question: &Question) -> Option<Option<(Reading, &'a Reply)>> {
        let (Question::RemoveFinalizer { subject, .. }
        | Question::RemoveReference { subject, .. }
        | Question::Delete { subject, .. }) = question
        else {
            return Some(None);
        };
        let graph = self.graph;
        let object = graph.by_uid(&subject.uid).first().map(|index| graph.object(*index));
        // Without finalizers nothing is written: it is taken out of etcd.
        let writes = !matches!(question, Question::Delete { .. })
            || object.is_some_and(|object| !object.finalizers.is_empty());
        let others: Vec<Subject> = graph
            .snapshot()
            .catalog
            .all()
            .iter()
            .filter(|other| {
                other.group == subject.resource.group
                    && other.plural == subject.resource.plural
                    && other.version != subject.resource.version
            })
            .map(|other| Subject { resource: other.clone(), ..subject.clone() })
            .collect();
        if !writes || others.is_empty() {
            return Some(None);
        }
        let definition = self.ask(&Question::Get(definition_of(subject)));
        // All are asked in one round.
        let replies: Vec<_> = others
            .into_iter()
            .map(|other| {
                let question = Question::Get(other.path());
                (self.ask(&question), question.source(), other.resource.version.clone())
            })
            .collect();
        let definition = definition?;
        if definition.is_absent() || replies.iter().any(|(reply, ..)| reply.is_none()) {
            return definition.is_absent().then_some(None);
        }
        let versions = definition.body().and_then(|body| body["spec"]["versions"].as_array());
        let stored = versions.map(|versions| {
            let stored = versions.iter().find(|version| version["storage"] == true);
            stored.and_then(|version| version["name"].as_str()).unwrap_or_default()
        });
        for (reply, source, version) in replies {
            let Some(reply) = reply else { continue };
            // Where the definition may not be read, any other version may be the one of the storage.
            if stored.is_none_or(|stored| stored == version)
                && read(reply, Identity::Caller) == Reading::Conversion
            {
                let reading = Reading::Unstorable { source, surely: stored.is_some() };
                return Some(Some((reading, reply)));
            }
        }
        Some(None)
    }

    /// Where the conversion webhook of an object's kind is, and the definition that says so.
    pub(super) fn conversion_webhook(&mut self, object: &Object) -> Option<(String, String)> {
        let question = Question::Get(definition_of(&Subject::of(object)));
        let definition = self.ask(&question)?.body()?;
        let client = &definition["spec"]["conversion"]["webhook"]["clientConfig"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let service = &client["service"];
        let place = text(&client["url"])
            .or_else(|| Some(format!("{}/{}", text(&service["namespace"])?, text(&service["name"])?)))?;
        Some((place, text(&definition["metadata"]["name"])?))
    }
}
