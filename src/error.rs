//! The one failure type, its exit codes, and the one place that words a client's error for a person.
//!
//! A failure says what failed, on which object, in the server's own words; then, on a line of its own, a hint with
//! what to do. The kind alone decides the exit code.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kube::client::AuthError;
use kube::config::ExecConfig;

use crate::model::command::{Caller, MAY_I, VIEW_MINIFIED};

/// What sort of failure this is; it alone decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Connection, missing right, not found, unknown kind: exit code 1.
    Error,
    /// The command line is wrong: exit code 2.
    Usage,
    /// Not finished, or not verifiable: exit code 3.
    Unfinished,
    /// Declined, no yes without a terminal, replaced meanwhile, refused by admission: exit code 4.
    Refused,
    /// Interrupted by the user: exit code 130.
    Interrupted,
}

/// How a command ended. The numbers are a contract with scripts (design section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitCode {
    /// Done: every object that the forecast dooms is gone, or the question was answered.
    Done = 0,
    /// An error: connection, missing right, not found, unknown kind.
    Error = 1,
    /// Usage.
    Usage = 2,
    /// Not finished: stalled, timed out, or not verifiable.
    Unfinished = 3,
    /// Refused: what was refused is as it was. Of several targets, others may have been deleted.
    Refused = 4,
    /// Interrupted.
    Interrupted = 130,
}

impl FailureKind {
    /// The exit code that scripts see.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Error => ExitCode::Error,
            Self::Usage => ExitCode::Usage,
            Self::Unfinished => ExitCode::Unfinished,
            Self::Refused => ExitCode::Refused,
            Self::Interrupted => ExitCode::Interrupted,
        }
    }
}

impl ExitCode {
    /// The exit code of a command that had several targets: the first of 130, 1, 4, 3, 0 that applies to any.
    pub fn worst(codes: impl IntoIterator<Item = Self>) -> Self {
        let rank = |code: &Self| match code {
            Self::Interrupted => 5,
            Self::Error => 4,
            Self::Usage => 3,
            Self::Refused => 2,
            Self::Unfinished => 1,
            Self::Done => 0,
        };
        codes.into_iter().max_by_key(rank).unwrap_or(Self::Done)
    }
}

/// A failure that a user or a cluster can cause: one clear sentence, and a hint with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: FailureKind,
    /// What failed, on which object, in the server's own words. No trailing full stop needed; no Debug output.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// An error of connection, rights or names (exit 1).
    pub fn error(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Error, message: message.into(), hint: None }
    }

    /// A wrong command line (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Usage, message: message.into(), hint: None }
    }

    /// Something was refused, and is as it was (exit 4).
    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Refused, message: message.into(), hint: None }
    }

    /// The user pressed Ctrl-C (exit 130).
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Interrupted, message: message.into(), hint: None }
    }

    /// Accepted, but its end could not be verified (exit 3).
    pub fn unfinished(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Unfinished, message: message.into(), hint: None }
    }

    /// Whether the message is one of kubectl's own sentences, which stand without `error:` before them
    /// (`kubectl/pkg/cmd/util/helpers.go`).
    pub fn is_a_sentence_of_kubectl(&self) -> bool {
        ["Error from server", "You must be logged in", "Unable to connect to", "The connection to the server"]
            .iter()
            .any(|sentence| self.message.starts_with(sentence))
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Gives the commands of its hint the flags of the caller, who is not known where most failures are worded.
    #[must_use]
    pub fn to_caller(mut self, caller: &Caller, namespace: Option<&str>) -> Self {
        self.hint = self.hint.map(|hint| caller.complete(&hint, namespace));
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Failure {}

/// Why there is no successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server answered with a failure; its own words.
    Status {
        /// HTTP status code.
        code: u16,
        /// `reason` of the Status object, for example `NotFound`; may be empty.
        reason: String,
        /// `message` of the Status object, verbatim.
        message: String,
        /// Seconds after which the server wants to be asked again, where it says so.
        retry_after: Option<u64>,
    },
    /// There was no answer, or it broke off: connection refused, TLS, time-out, ...
    NoAnswer {
        /// What happened, in a sentence for a person.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

impl Trouble {
    /// The HTTP status code, where the server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::NoAnswer { .. } => None,
        }
    }

    /// 404: there is no such object, or no such resource.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// 403: a right is missing, or admission refuses.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// 409: a precondition does not hold, or the object has changed.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// 410: the resource version or continue token has expired.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the server refuses because it cannot convert stored objects: a 429 or 500 that no waiting cures
    /// (reference F17).
    pub fn is_conversion_error(&self) -> bool {
        matches!(self, Self::Status { message, .. } if message.contains("conversion webhook"))
    }

    /// From a Status object, as in the ERROR event of a watch. `code` stands in where the object names none.
    pub fn from_status(status: &serde_json::Value, code: u16) -> Self {
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        Self::Status {
            code: status["code"]
                .as_u64()
                .and_then(|code| u16::try_from(code).ok())
                .filter(|code| *code > 0)
                .unwrap_or(code),
            reason: text("reason"),
            message: text("message"),
            retry_after: status["details"]["retryAfterSeconds"].as_u64().filter(|seconds| *seconds > 0),
        }
    }
}

/// Words a request that failed as kubectl does (`kubectl/pkg/cmd/util/helpers.go`, StandardErrorMessage).
impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        let (code, reason, message) = match trouble {
            Trouble::NoAnswer { message, hint } => return Self { kind: FailureKind::Error, message, hint },
            Trouble::Status { code, reason, message, .. } => (code, reason, message),
        };
        if code == 401 {
            return Self::error(format!("You must be logged in to the server ({message})")).hint(
                "the credentials are missing or have expired: log in again, or choose others with --context or --user",
            );
        }
        let failure = if reason.is_empty() {
            Self::error(format!("Error from server: {message}"))
        } else {
            Self::error(format!("Error from server ({reason}): {message}"))
        };
        match code {
            // The authorizer's own words; admission and quota answer 403, too (`apiserver/pkg/endpoints/handlers/
            // responsewriters/errors.go`, forbiddenMessage).
            403 if message.contains("\" cannot ") => {
                failure.hint(format!("{MAY_I} shows what you may do; ask for the missing right"))
            }
            429 => failure.hint("the server is busy; try again in a moment"),
            502..=504 => {
                failure.hint("the server, or what stands before it, is not ready; try again in a moment")
            }
            _ => failure,
        }
    }
}

/// Words a connection that could not be set up: certificates, credentials, proxies. The plugin is the kubeconfig's.
pub(crate) fn of_setup(error: &kube::Error, plugin: Option<&ExecConfig>) -> Failure {
    let kube::Error::Auth(cause) = error else {
        return Failure::error(format!("cannot set the connection up: {}", innermost(error)))
            .hint("check the certificates, keys and proxy in the kubeconfig and the flags");
    };
    let command = plugin.and_then(|exec| exec.command.as_deref()).unwrap_or("of the kubeconfig");
    let install_hint = plugin.and_then(|exec| exec.install_hint.as_deref()).map(str::trim);
    let failure = match cause {
        AuthError::AuthExecStart(cause) => {
            Failure::error(format!("cannot run the credential plugin {command}: {cause}"))
        }
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(300).collect();
            // Where it may ask questions it has written to our standard error itself.
            let said = if said.is_empty() { said } else { format!(": {said}") };
            Failure::error(format!("the credential plugin {command} failed with {}{said}", out.status))
        }
        // Its output may hold a token, so no word of it is repeated.
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => Failure::error(format!(
            "the credential plugin {command} did not print an ExecCredential with a status"
        )),
        other => Failure::error(format!("cannot get credentials: {}", innermost(other))),
    };
    failure.hint(install_hint.filter(|hint| !hint.is_empty()).unwrap_or(
        "run the plugin that the kubeconfig names by hand, log in again, or choose others with --user or --token",
    ))
}

/// Words an answer that did not come.
pub(crate) fn of_connection(error: &kube::Error, server: &str) -> Trouble {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    let unable = |what: String, hint: &str| Trouble::NoAnswer {
        message: format!("Unable to connect to the server: {what}"),
        hint: Some(hint.to_owned()),
    };
    if let kube::Error::Auth(_) = error {
        let Failure { message, hint, .. } = of_setup(error, None);
        return Trouble::NoAnswer { message, hint };
    }
    let chain = chain(error);
    let mentions = |part: &str| chain.iter().any(|link| link.text.contains(part));
    let is = |kind: std::io::ErrorKind| chain.iter().any(|link| link.kind == Some(kind));
    let last = chain.last().map(|link| link.text.clone()).unwrap_or_default();

    // A proxy fails like a server; only the outer links name it.
    if mentions("tunnel") || mentions("proxy") || mentions("SOCKS") {
        return unable(
            format!("the proxy does not lead to {host}: {last}"),
            "check HTTPS_PROXY and NO_PROXY, or proxy-url in the kubeconfig",
        );
    }
    if is(std::io::ErrorKind::ConnectionRefused) {
        return Trouble::NoAnswer {
            message: format!(
                "The connection to the server {host} was refused - did you specify the right host or port?"
            ),
            hint: Some(format!("check the address with {VIEW_MINIFIED}, and that the API server runs")),
        };
    }
    if mentions("dns error") || mentions("failed to lookup address") {
        return unable(
            format!("no such host: {host}"),
            "check the server's name in the kubeconfig or --server, and that your network or VPN knows it",
        );
    }
    if mentions("UnknownIssuer") {
        return unable(
            format!("the certificate of {host} is signed by an unknown authority"),
            "give the authority's certificate with --certificate-authority or in the kubeconfig; the server's own \
             certificate does not serve there unless it may sign others",
        );
    }
    if mentions("NotValidForName") || mentions("certificate not valid for name") {
        return unable(
            format!("the certificate of {host} is for another name: {last}"),
            "give the name that the certificate has with --tls-server-name",
        );
    }
    if mentions("invalid peer certificate") {
        return unable(
            last,
            "the server's certificate must be renewed or replaced (an authority's own certificate may not serve, \
             other than in kubectl), or a clock is wrong",
        );
    }
    if mentions("received fatal alert") {
        return unable(
            last,
            "the server did not accept the handshake: check the client certificate, and that it has not expired",
        );
    }
    if mentions("InvalidContentType") || mentions("corrupt message") {
        return unable(
            format!("{host} does not speak TLS"),
            "check the scheme and the port of the server: https:// or http://",
        );
    }
    if mentions("close_notify") || is(std::io::ErrorKind::UnexpectedEof) {
        return Trouble::NoAnswer {
            message: format!(
                "the connection to the server {host} broke: it was closed before the answer was complete"
            ),
            hint: Some(
                "try again; if it happens again, the server or something in front of it closes connections"
                    .into(),
            ),
        };
    }
    if is(std::io::ErrorKind::TimedOut) {
        return too_late(server, Duration::from_secs(30));
    }
    if is(std::io::ErrorKind::NetworkUnreachable) || is(std::io::ErrorKind::HostUnreachable) {
        return unable(format!("{host} cannot be reached: {last}"), "check the network or VPN");
    }
    Trouble::NoAnswer {
        message: format!("the connection to the server {host} broke: {last}"),
        hint: Some(
            "try again; if it happens again, the server or something in front of it closes connections"
                .into(),
        ),
    }
}

/// Whether the connection broke, or could not be made because nobody listens just now.
pub(crate) fn broke(error: &kube::Error) -> bool {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof,
    };
    let kinds = [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof];
    chain(error).iter().any(|link| {
        link.kind.is_some_and(|kind| kinds.contains(&kind))
            // hyper's own (`src/error.rs`, IncompleteMessage).
            || link.text.contains("connection closed before message completed")
    })
}

/// Words an answer that did not come in time.
pub(crate) fn too_late(server: &str, limit: Duration) -> Trouble {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    Trouble::NoAnswer {
        message: format!("Unable to connect to the server: {host} did not answer within {limit:?}"),
        hint: Some(
            "check the network, VPN or proxy; --request-timeout sets how long a request may take".into(),
        ),
    }
}

/// One error of a chain of causes.
struct Link {
    text: String,
    kind: Option<std::io::ErrorKind>,
}

/// The error and its causes, outermost first. An `io::Error` keeps what it wraps from `source()`, so it is unwrapped
/// by hand.
fn chain(error: &(dyn Error + 'static)) -> Vec<Link> {
    let mut links = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        links.push(Link { text: error.to_string(), kind: io.map(std::io::Error::kind) });
        next = match io.and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    links
}

/// The text of the innermost cause, which says what really happened.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    chain(error).pop().map(|link| link.text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Failure {
        Failure::from(Trouble::Status {
            code,
            reason: reason.into(),
            message: message.into(),
            retry_after: None,
        })
    }

    #[test]
    fn a_refused_request_reads_as_in_kubectl() {
        let text = r#"pods "x" not found"#;
        let not_found = status(404, "NotFound", text);
        assert_eq!(not_found.message, r#"Error from server (NotFound): pods "x" not found"#);
        assert_eq!(not_found.kind, FailureKind::Error);
        assert_eq!(status(500, "", text).message, r#"Error from server: pods "x" not found"#);
        let unauthorized = status(401, "Unauthorized", "Unauthorized");
        assert_eq!(unauthorized.message, "You must be logged in to the server (Unauthorized)");
        assert!(unauthorized.hint.is_some());
    }

    #[test]
    fn only_a_missing_right_is_hinted_at_as_one() {
        let message = r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope"#;
        assert!(status(403, "Forbidden", message).hint.unwrap().contains("can-i"));
        for message in [
            r#"admission webhook "w.example.com" denied the request: no"#,
            r#"pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
            r#"pods "x" is forbidden: exceeded quota: q"#,
        ] {
            assert_eq!(status(403, "Forbidden", message).hint, None, "{message}");
        }
    }

    #[test]
    fn sentences_that_users_of_kubectl_know_are_known() {
        assert!(!Failure::usage("no TARGET").is_a_sentence_of_kubectl());
        assert!(status(404, "NotFound", "x").is_a_sentence_of_kubectl());
    }

    #[test]
    fn an_unknown_cause_is_worded_by_its_innermost_error_and_never_by_debug() {
        let inner = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
        let error = kube::Error::Service(Box::new(std::io::Error::other(inner)));
        let Trouble::NoAnswer { message, hint } = of_connection(&error, "https://example.com:6443") else {
            panic!("not an answer")
        };
        assert_eq!(message, "the connection to the server example.com:6443 broke: connection reset by peer");
        assert!(hint.is_some());
    }

    #[test]
    fn a_connection_that_is_not_made_in_time_names_the_server() {
        let error = kube::Error::Service(Box::new(std::io::Error::from(std::io::ErrorKind::TimedOut)));
        let failure = Failure::from(of_connection(&error, "https://example.com:6443"));
        assert!(
            failure.message.starts_with("Unable to connect to the server: example.com:6443 did not answer")
        );
    }

    #[test]
    fn several_targets_end_with_the_first_of_130_1_4_3_0() {
        use ExitCode::*;
        assert_eq!(ExitCode::worst([Done, Unfinished]), Unfinished);
        assert_eq!(ExitCode::worst([Unfinished, Refused]), Refused);
        assert_eq!(ExitCode::worst([Refused, Error]), Error);
        assert_eq!(ExitCode::worst([Error, Interrupted]), Interrupted);
        assert_eq!(ExitCode::worst([]), Done);
    }
}
