//! A tiny client of our own API server: for readiness, for set-up, and for tests that want one quick answer.

use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use crate::error::Error;
use crate::http::read_message;

/// How long one request may take; the API server itself gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(70);

/// Asks the API server as one user. Each request uses a connection of its own.
#[derive(Clone)]
pub struct Api {
    address: SocketAddr,
    trust: Arc<ClientConfig>,
    token: String,
}

/// The API server's answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The body; null where it is not JSON.
    pub body: Value,
}

impl Api {
    pub(crate) fn new(address: SocketAddr, trust: Arc<ClientConfig>, token: String) -> Self {
        Self { address, trust, token }
    }

    /// Sends one request. `path` begins with `/api` or `/apis`; a `body` is sent as JSON, with PATCH as a merge
    /// patch.
    ///
    /// # Errors
    /// When there was no answer. Whatever the server answers, a refusal too, is an [`Answer`].
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Error> {
        self.exchange(method, path, body).map_err(Error::doing(format!("{method} {path}")))
    }

    /// The object at this path; `None` when the server says 404.
    ///
    /// # Errors
    /// When there was no answer, or any other than 200 and 404.
    pub fn get(&self, path: &str) -> Result<Option<Value>, Error> {
        match self.send("GET", path, None)? {
            Answer { status: 200, body } => Ok(Some(body)),
            Answer { status: 404, .. } => Ok(None),
            answer => Err(answer.refusal("GET", path)),
        }
    }

    /// Creates an object in the collection at this path and returns it as stored.
    ///
    /// # Errors
    /// When there was no answer, or not a success.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, Error> {
        let answer = self.send("POST", path, Some(object))?;
        if answer.status / 100 == 2 { Ok(answer.body) } else { Err(answer.refusal("POST", path)) }
    }

    /// Where the API server is, and how to trust it.
    pub(crate) fn way(&self) -> (SocketAddr, Arc<ClientConfig>) {
        (self.address, Arc::clone(&self.trust))
    }

    /// Whether `/readyz` says that the server is ready. One that cannot be reached is not.
    pub(crate) fn ready(&self) -> bool {
        self.send("GET", "/readyz", None).is_ok_and(|answer| answer.status == 200)
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let tcp = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let connection = ClientConnection::new(self.trust.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, tcp);

        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        let message = read_message(&mut BufReader::new(stream))?
            .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        let status = message.first_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok(Answer {
            status: status.ok_or_else(|| io::Error::other("no status in the answer"))?,
            body: serde_json::from_slice(&message.body).unwrap_or(Value::Null),
        })
    }
}

impl Answer {
    fn refusal(&self, method: &str, path: &str) -> Error {
        let message = self.body["message"].as_str().unwrap_or("no message");
        Error::new(format!("{method} {path}: {} {message}", self.status))
    }
}
