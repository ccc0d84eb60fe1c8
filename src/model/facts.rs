//! What a diagnosis asks the API server, and what it answered. A question is a value, so that the rules, which are
//! pure, can ask; `cluster::probes` turns it into a request and keeps the answer verbatim.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::catalog::Resource;
use super::object::{Object, ObjectRef, Timestamp, Uid};

/// An object as a question needs it: enough to address it, and its UID, so that nobody else is asked about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The resource it is served as.
    pub resource: Arc<Resource>,
    /// Namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: Uid,
}

impl Subject {
    /// The subject of questions about this object.
    pub fn of(object: &Object) -> Self {
        Self {
            resource: object.resource.clone(),
            namespace: object.namespace.as_deref().map(str::to_owned),
            name: object.name.clone(),
            uid: object.uid.clone(),
        }
    }

    /// The URL path of the object.
    pub fn path(&self) -> String {
        self.resource.object_path(self.namespace.as_deref(), &self.name)
    }

    /// Its reference for output.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: self.resource.api_version(),
            kind: self.resource.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

/// As whom a dry run is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// As the caller.
    Caller,
    /// As the garbage collector (reference P2).
    Collector,
    /// As the Job controller, which removes `batch.kubernetes.io/job-tracking`.
    JobController,
    /// As the namespace controller, which deletes what a Terminating Namespace holds.
    NamespaceController,
}

impl Identity {
    /// The user to impersonate; none for the caller. With `--use-service-account-credentials`, as everywhere but in
    /// the smallest set-ups, each controller has its own service account.
    pub fn user(self) -> Option<&'static str> {
        match self {
            Self::Caller => None,
            Self::Collector => Some("system:serviceaccount:kube-system:generic-garbage-collector"),
            Self::JobController => Some("system:serviceaccount:kube-system:job-controller"),
            Self::NamespaceController => Some("system:serviceaccount:kube-system:namespace-controller"),
        }
    }

    /// Who that is, in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caller => "the caller",
            Self::Collector => "the collector",
            Self::JobController => "the Job controller",
            Self::NamespaceController => "the namespace controller",
        }
    }

    /// The groups of that user.
    pub fn groups(self) -> Vec<String> {
        match self {
            Self::Caller => Vec::new(),
            _ => ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

/// One question to the API server. All but [`Question::Canary`] and [`Question::Nudge`] leave nothing behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Read this path.
    Get(String),
    /// Read this list as the table that kubectl prints.
    Table(String),
    /// Read this Lease until its holder renews it, or until it has run out: only then is it known whether somebody
    /// leads (reference P6).
    Lease(String),
    /// Dry-run the removal of one finalizer, by the patch that its controller would send (reference P1, P2).
    RemoveFinalizer {
        /// From which object.
        subject: Subject,
        /// Which one.
        finalizer: String,
        /// As whom.
        identity: Identity,
    },
    /// Dry-run an UPDATE of this path that changes nothing: does admission let its owner write it?
    Touch(String),
    /// Dry-run a background DELETE with the UID as precondition (reference P3, P9).
    Delete {
        /// Of which object.
        subject: Subject,
        /// As whom.
        identity: Identity,
    },
    /// Dry-run the removal of the ownerReferences to one owner (reference P4).
    RemoveReference {
        /// From which dependent.
        subject: Subject,
        /// To which owner.
        owner: Uid,
        /// As whom.
        identity: Identity,
    },
    /// Ask this dry run again, up to three times one after the other, until it comes out the other way: whether a
    /// refusal is about the request or comes and goes.
    Again {
        /// What was asked before.
        question: Box<Question>,
        /// Whether it was accepted then.
        accepted: bool,
    },
    /// May this user do that? (SubjectAccessReview, reference P5.)
    Access {
        /// The identity in question.
        identity: Identity,
        /// Verb.
        verb: &'static str,
        /// API group.
        group: String,
        /// Resource.
        resource: String,
        /// Namespace; empty for all.
        namespace: String,
    },
    /// Does the collector collect? Creates a ConfigMap without a living owner and waits for its end (reference P7).
    Canary {
        /// Where.
        namespace: String,
    },
    /// Make the collector look at this object again: a short-lived dependent of it (reference P8). The answer is the
    /// object as it stands some seconds later, or 404.
    Nudge(Subject),
}

impl Question {
    /// Whether it is more than a GET, if only a dry run or a review; `--probe=read` forbids these.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::Table(_) | Self::Lease(_))
    }

    /// Whether it leaves something behind if we are killed; only `--probe=canary` allows these.
    pub fn is_canary(&self) -> bool {
        matches!(self, Self::Canary { .. } | Self::Nudge(_))
    }

    /// What was asked, for a person: the `source` of a piece of evidence.
    pub fn source(&self) -> String {
        let by = |identity: &Identity| match identity.user() {
            None => String::new(),
            Some(user) => format!(" as {user}"),
        };
        match self {
            Self::Get(path) | Self::Table(path) | Self::Lease(path) => format!("GET {path}"),
            Self::RemoveFinalizer { subject, finalizer, identity } => {
                format!("dry run: PATCH {} without finalizer {finalizer}{}", subject.path(), by(identity))
            }
            Self::Touch(path) => format!("dry run: PATCH {path} without a change"),
            Self::Delete { subject, identity } => {
                format!("dry run: DELETE {}{}", subject.path(), by(identity))
            }
            Self::RemoveReference { subject, owner, identity } => {
                format!(
                    "dry run: PATCH {} without ownerReference to UID {owner}{}",
                    subject.path(),
                    by(identity)
                )
            }
            Self::Again { question, .. } => format!("{}, again", question.source()),
            Self::Access { identity, verb, group, resource, .. } => {
                let dot = if group.is_empty() { "" } else { "." };
                format!(
                    "SubjectAccessReview: may {} {verb} {resource}{dot}{group}?",
                    identity.user().unwrap_or("the caller")
                )
            }
            Self::Canary { namespace } => {
                format!("canary: a ConfigMap without a living owner in namespace {namespace}")
            }
            Self::Nudge(subject) => {
                format!("nudge: a short-lived dependent of {}", subject.reference().short())
            }
        }
    }
}

/// What came back, verbatim.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A 2xx answer.
    Answer {
        /// Its body; Null where it is not JSON.
        body: Value,
        /// The server's clock.
        date: Option<Timestamp>,
    },
    /// The server refused, in its own words.
    Refused {
        /// HTTP status.
        code: u16,
        /// `reason` of the Status; may be empty.
        reason: String,
        /// `message` of the Status.
        message: String,
    },
    /// There was no answer.
    NoAnswer(String),
    /// It was not asked, and why not.
    NotAsked(String),
}

impl Reply {
    /// The body of a 2xx answer.
    pub fn body(&self) -> Option<&Value> {
        match self {
            Self::Answer { body, .. } => Some(body),
            _ => None,
        }
    }

    /// Whether the server says that there is no such object.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Why there is no answer, in one sentence; none where there is one.
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Answer { .. } => None,
            Self::Refused { code, reason, message } => Some(if message.is_empty() {
                format!("HTTP {code} {reason}").trim_end().to_owned()
            } else {
                message.clone()
            }),
            Self::NoAnswer(text) | Self::NotAsked(text) => Some(text.clone()),
        }
    }
}

/// All that is known so far.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    replies: BTreeMap<Question, Reply>,
}

impl Facts {
    /// The reply to a question, if it was asked.
    pub fn get(&self, question: &Question) -> Option<&Reply> {
        self.replies.get(question)
    }

    /// Adds a reply.
    pub fn insert(&mut self, question: Question, reply: Reply) {
        self.replies.insert(question, reply);
    }
}

impl FromIterator<(Question, Reply)> for Facts {
    fn from_iter<I: IntoIterator<Item = (Question, Reply)>>(replies: I) -> Self {
        Self { replies: replies.into_iter().collect() }
    }
}
