//! Stands between a client and the API server, TLS on both sides, and does by rule what networks, load balancers and
//! servers in trouble do: delays, cuts, truncates, swallows, answers for the server, repeats and reorders what a watch
//! tells.
//!
//! ```no_run
//! use control_plane::{ControlPlane, Fault, Proxy, proxy};
//!
//! let plane = ControlPlane::shared();
//! let proxy = Proxy::start(plane).expect("a proxy");
//! proxy.once(proxy::delete("configmaps"), Fault::CutAnswer);
//! let run = plane.run_as("admin").expect("a run");
//! let kubeconfig = proxy.kubeconfig(&run).expect("a kubeconfig that leads through it");
//! ```

use std::io::{self, BufReader, Read as _, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::certificates::Serving;
use crate::error::Error;
use crate::http::{Message, read_line, read_message};
use crate::plane::{ControlPlane, Run};

/// What becomes of a line.
pub type Lines = dyn Fn(&str) -> Vec<String> + Send + Sync;

/// What is done to a request that a rule matches.
#[derive(Clone)]
pub enum Fault {
    /// It is passed on later.
    Delay(Duration),
    /// It is not passed on: the connection closes.
    Cut,
    /// It is passed on; the connection closes once the server has answered, and nobody hears what.
    CutAnswer,
    /// The connection closes after so many bytes of the answer's body.
    Truncate(usize),
    /// It is not passed on, and there is no answer, but the connection stays open.
    Swallow,
    /// Only the head of the answer and so many lines of its body get through (a watch has one event a line); then
    /// the connection stays open in silence.
    Mute(usize),
    /// The proxy answers, and the server never knows.
    Answer {
        /// The HTTP status.
        status: u16,
        /// Further header lines.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// The server gets it and answers, and the client gets this [`Fault::Answer`] instead.
    Instead(Box<Fault>),
    /// Another path is asked for.
    Path(Arc<dyn Fn(&str) -> String + Send + Sync>),
    /// Each line of the answer (of a watch: each event) is replaced by these.
    Lines(Arc<Lines>),
    /// Something happens before it is passed on.
    Before(Arc<dyn Fn() + Send + Sync>),
    /// Something happens when the server has answered, before the client hears of it.
    After(Arc<dyn Fn() + Send + Sync>),
}

impl Fault {
    /// A Status object, as Kubernetes refuses.
    pub fn refusal(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        Self::Answer { status: code, headers: Vec::new(), body: status.to_string() }
    }

    /// The same with a header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The same, although the server has carried the request out.
    #[must_use]
    pub fn instead(self) -> Self {
        Self::Instead(Box::new(self))
    }

    /// A watch that tells this and is then closed.
    pub fn watch_of(events: &[Value]) -> Self {
        let body = events.iter().map(|event| format!("{event}\n")).collect();
        Self::Answer { status: 200, headers: Vec::new(), body }
    }

    /// Replaces each line of the answer by these.
    pub fn lines(replace: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self::Lines(Arc::new(replace))
    }

    /// Asks for another path.
    pub fn path(replace: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::Path(Arc::new(replace))
    }

    /// Does something before the request is passed on.
    pub fn before(work: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Before(Arc::new(work))
    }

    /// Does something when the server has answered, before the client hears of it.
    pub fn after(work: impl Fn() + Send + Sync + 'static) -> Self {
        Self::After(Arc::new(work))
    }
}

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
}

impl Asked {
    /// Whether it is a watch.
    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=true") || self.path.contains("watch=1")
    }

    fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.path.split('?').next().unwrap_or_default().split('/')
    }
}

type When = Box<dyn Fn(&Asked) -> bool + Send + Sync>;

/// Every request.
pub fn anything(_: &Asked) -> bool {
    true
}

/// Watches of this resource.
pub fn watch(resource: &str) -> impl Fn(&Asked) -> bool + Send + Sync + 'static {
    let resource = resource.to_owned();
    move |asked| asked.is_watch() && asked.segments().next_back() == Some(&resource)
}

/// Lists of this resource.
pub fn list(resource: &str) -> impl Fn(&Asked) -> bool + Send + Sync + 'static {
    let resource = resource.to_owned();
    move |asked| asked.method == "GET" && !asked.is_watch() && asked.segments().next_back() == Some(&resource)
}

/// GETs of one object of this resource.
pub fn get(resource: &str) -> impl Fn(&Asked) -> bool + Send + Sync + 'static {
    let resource = resource.to_owned();
    move |asked| asked.method == "GET" && asked.segments().nth_back(1) == Some(&resource)
}

/// DELETEs of one object of this resource.
pub fn delete(resource: &str) -> impl Fn(&Asked) -> bool + Send + Sync + 'static {
    let resource = resource.to_owned();
    move |asked| asked.method == "DELETE" && asked.segments().nth_back(1) == Some(&resource)
}

struct Rule {
    when: When,
    fault: Fault,
    /// How often it still applies; none: always.
    left: Option<usize>,
}

/// A running proxy. Dropping it closes its port and every open connection.
pub struct Proxy {
    address: SocketAddr,
    authority: String,
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    tls: Arc<ServerConfig>,
    upstream: SocketAddr,
    trust: Arc<ClientConfig>,
    rules: Mutex<Vec<Rule>>,
    asked: Mutex<Vec<Asked>>,
    ended: AtomicBool,
    /// Connections with a lower number are dead without knowing it.
    dead_below: AtomicUsize,
    opened: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy in front of a control plane of our own; without rules it only passes on.
    ///
    /// # Errors
    /// When somebody else runs the cluster, or no port of 127.0.0.1 can be had.
    pub fn start(plane: &ControlPlane) -> Result<Self, Error> {
        let (upstream, trust) = plane.api()?.way();
        let serving = Serving::new("proxy")?;
        let failed = || Error::doing("cannot serve a proxy on 127.0.0.1");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let shared = Arc::new(Shared {
            tls: serving.server()?,
            upstream,
            trust,
            rules: Mutex::new(Vec::new()),
            asked: Mutex::new(Vec::new()),
            ended: AtomicBool::new(false),
            dead_below: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            connections: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        let folder = tempfile::tempdir().map_err(Error::doing("cannot create a temporary folder"))?;
        Ok(Self { address, authority: serving.authority, folder, shared })
    }

    /// The address that clients connect to.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What clients have to trust, as PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A kubeconfig for this run that leads through the proxy.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn kubeconfig(&self, run: &Run) -> Result<PathBuf, Error> {
        let path = self.folder.path().join(format!("{}.kubeconfig", run.id));
        let text = run.kubeconfig_for(&self.url(), &self.authority).to_string();
        std::fs::write(&path, text).map_err(Error::doing(format!("cannot write {}", path.display())))?;
        Ok(path)
    }

    /// The next request like this has this fault.
    pub fn once(&self, when: impl Fn(&Asked) -> bool + Send + Sync + 'static, fault: Fault) {
        self.times(1, when, fault);
    }

    /// The next requests like this have it.
    pub fn times(&self, times: usize, when: impl Fn(&Asked) -> bool + Send + Sync + 'static, fault: Fault) {
        lock(&self.shared.rules).push(Rule { when: Box::new(when), fault, left: Some(times) });
    }

    /// All requests like this have it, until [`Proxy::heal`].
    pub fn always(&self, when: impl Fn(&Asked) -> bool + Send + Sync + 'static, fault: Fault) {
        lock(&self.shared.rules).push(Rule { when: Box::new(when), fault, left: None });
    }

    /// Forgets all rules. What a rule has already taken hold of stays as it is.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Every connection that is open now is dead from here on, and nobody is told; new ones work.
    pub fn go_dark(&self) {
        self.shared.dead_below.store(self.shared.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Closes every connection that is open now.
    pub fn cut_all(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// What was asked for until now.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// How often it was asked for something like this.
    pub fn count(&self, when: impl Fn(&Asked) -> bool) -> usize {
        lock(&self.shared.asked).iter().filter(|asked| when(asked)).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts, which then closes the port.
        drop(TcpStream::connect(self.address));
        self.cut_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else { continue };
        let Ok(handle) = connection.try_clone() else { continue };
        let mut connections = lock(&shared.connections);
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        connections.retain(|connection| connection.peer_addr().is_ok());
        connections.push(handle);
        drop(connections);
        let number = shared.opened.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let closing = connection.try_clone();
            // An error here is the client's to report: it sees a broken connection.
            let _ = Served { shared: &shared, number }.serve(connection);
            if let Ok(closing) = closing {
                let _ = closing.shutdown(Shutdown::Both);
            }
        });
    }
}

type Upstream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// One connection of a client.
struct Served<'shared> {
    shared: &'shared Shared,
    number: usize,
}

/// What the rules say of one request.
#[derive(Default)]
struct Treatment {
    cut_answer: bool,
    truncate: Option<usize>,
    mute: Option<usize>,
    lines: Option<Arc<Lines>>,
    after: Vec<Arc<dyn Fn() + Send + Sync>>,
    instead: Option<Fault>,
}

impl Served<'_> {
    fn serve(&self, connection: TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let tls = ServerConnection::new(Arc::clone(&self.shared.tls)).map_err(io::Error::other)?;
        let mut client = BufReader::new(StreamOwned::new(tls, connection));
        let mut upstream = None;
        while let Some(request) = read_message(&mut client)? {
            if self.is_dead() {
                return self.stay_silent();
            }
            if !self.one(request, client.get_mut(), &mut upstream)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_dead(&self) -> bool {
        self.number < self.shared.dead_below.load(Ordering::SeqCst)
    }

    /// Holds the connection until the proxy ends.
    fn stay_silent(&self) -> io::Result<()> {
        while !self.shared.ended.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn faults(&self, asked: &Asked) -> Vec<Fault> {
        let mut rules = lock(&self.shared.rules);
        let mut faults = Vec::new();
        for rule in rules.iter_mut().filter(|rule| rule.left != Some(0) && (rule.when)(asked)) {
            rule.left = rule.left.map(|left| left - 1);
            faults.push(rule.fault.clone());
        }
        faults
    }

    /// One request; whether the connection lives on.
    fn one(
        &self,
        request: Message,
        client: &mut impl Write,
        upstream: &mut Option<Upstream>,
    ) -> io::Result<bool> {
        let mut words = request.first_line.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let asked = Asked { method: method.to_owned(), path: path.to_owned() };
        lock(&self.shared.asked).push(asked.clone());
        let mut path = path.to_owned();
        let mut treatment = Treatment::default();
        for fault in self.faults(&asked) {
            match fault {
                Fault::Delay(delay) => thread::sleep(delay),
                Fault::Cut => return Ok(false),
                Fault::CutAnswer => treatment.cut_answer = true,
                Fault::Truncate(bytes) => treatment.truncate = Some(bytes),
                Fault::Swallow => return self.stay_silent().map(|()| false),
                Fault::Mute(lines) => treatment.mute = Some(lines),
                Fault::Answer { status, headers, body } => {
                    write_answer(client, status, &headers, &body)?;
                    return Ok(true);
                }
                Fault::Instead(answer) => treatment.instead = Some(*answer),
                Fault::Path(replace) => path = replace(&path),
                Fault::Lines(replace) => treatment.lines = Some(replace),
                Fault::Before(work) => work(),
                Fault::After(work) => treatment.after.push(work),
            }
        }
        let mut server = match upstream.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let in_lines = asked.is_watch() && (treatment.lines.is_some() || treatment.mute.is_some());
        pass_on(server.get_mut(), &asked.method, &path, &request, in_lines)?;
        let alive = self.answer(&mut server, client, &asked, &treatment)?;
        *upstream = Some(server);
        Ok(alive)
    }

    fn connect(&self) -> io::Result<Upstream> {
        let tcp = TcpStream::connect_timeout(&self.shared.upstream, Duration::from_secs(5))?;
        tcp.set_nodelay(true)?;
        lock(&self.shared.connections).push(tcp.try_clone()?);
        let name = ServerName::IpAddress(self.shared.upstream.ip().into());
        let connection =
            ClientConnection::new(Arc::clone(&self.shared.trust), name).map_err(io::Error::other)?;
        Ok(BufReader::new(StreamOwned::new(connection, tcp)))
    }

    /// Hands the server's answer on.
    fn answer(
        &self,
        server: &mut Upstream,
        client: &mut impl Write,
        asked: &Asked,
        treatment: &Treatment,
    ) -> io::Result<bool> {
        let mut head = Vec::new();
        loop {
            let line = read_line(server)?;
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        if head.is_empty() {
            return Ok(false);
        }
        let header = |name: &str| {
            head.iter().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let chunked = header("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let length = header("content-length").and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        treatment.after.iter().for_each(|work| work());
        if treatment.cut_answer {
            return Ok(false);
        }
        if self.is_dead() {
            return self.stay_silent().map(|()| false);
        }
        if let Some(Fault::Answer { status, headers, body }) = &treatment.instead {
            let headers = [&headers[..], &[("Connection".to_owned(), "close".to_owned())]].concat();
            return write_answer(client, *status, &headers, body).map(|()| false);
        }
        client.write_all((head.join("\r\n") + "\r\n\r\n").as_bytes())?;
        client.flush()?;
        let mut body =
            Body { client, chunked, treatment, sent: 0, lines: 0, line: Vec::new(), watch: asked.is_watch() };
        if !chunked {
            let mut whole = vec![0; length];
            server.read_exact(&mut whole)?;
            return self.hand_on(&mut body, &whole);
        }
        loop {
            let size = read_line(server)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let mut chunk = vec![0; size];
            server.read_exact(&mut chunk)?;
            read_line(server)?;
            if size == 0 {
                body.client.write_all(b"0\r\n\r\n")?;
                body.client.flush()?;
                return Ok(true);
            }
            if !self.hand_on(&mut body, &chunk)? {
                return Ok(false);
            }
        }
    }

    /// Whether the connection lives on.
    fn hand_on(&self, body: &mut Body<'_, impl Write>, bytes: &[u8]) -> io::Result<bool> {
        if self.is_dead() {
            return self.stay_silent().map(|()| false);
        }
        match body.push(bytes)? {
            Next::More => Ok(true),
            Next::Close => Ok(false),
            Next::Silence => self.stay_silent().map(|()| false),
        }
    }
}

enum Next {
    More,
    Close,
    Silence,
}

/// The body of an answer on its way to the client.
struct Body<'answer, Client> {
    client: &'answer mut Client,
    chunked: bool,
    treatment: &'answer Treatment,
    sent: usize,
    lines: usize,
    line: Vec<u8>,
    watch: bool,
}

impl<Client: Write> Body<'_, Client> {
    fn push(&mut self, bytes: &[u8]) -> io::Result<Next> {
        if self.watch && (self.treatment.lines.is_some() || self.treatment.mute.is_some()) {
            return self.push_lines(bytes);
        }
        if self.treatment.mute.is_some() {
            return Ok(Next::Silence);
        }
        match self.treatment.truncate {
            Some(most) if self.sent + bytes.len() > most => {
                self.send(&bytes[..most - self.sent])?;
                Ok(Next::Close)
            }
            _ => {
                self.send(bytes)?;
                Ok(Next::More)
            }
        }
    }

    fn push_lines(&mut self, bytes: &[u8]) -> io::Result<Next> {
        self.line.extend_from_slice(bytes);
        if self.treatment.mute == Some(0) {
            return Ok(Next::Silence);
        }
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).into_owned();
            let lines = match &self.treatment.lines {
                Some(replace) => replace(line.trim_end()),
                None => vec![line.trim_end().to_owned()],
            };
            for line in lines {
                self.send(format!("{line}\n").as_bytes())?;
            }
            self.lines += 1;
            if self.treatment.mute.is_some_and(|most| self.lines >= most) {
                return Ok(Next::Silence);
            }
        }
        Ok(Next::More)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.sent += bytes.len();
        if self.chunked {
            self.client.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
            self.client.write_all(bytes)?;
            self.client.write_all(b"\r\n")?;
        } else {
            self.client.write_all(bytes)?;
        }
        self.client.flush()
    }
}

/// Whose lines are wanted gets no protobuf.
fn pass_on(
    server: &mut impl Write,
    method: &str,
    path: &str,
    request: &Message,
    in_lines: bool,
) -> io::Result<()> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in &request.headers {
        if name == "accept" && in_lines {
            let json = value.split(',').filter(|kind| !kind.contains("protobuf"));
            text.push_str(&format!("accept: {}\r\n", json.collect::<Vec<_>>().join(",")));
            continue;
        }
        // The body was joined; its length is known now.
        if !matches!(name.as_str(), "transfer-encoding" | "content-length") {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
    server.write_all(text.as_bytes())?;
    server.write_all(&request.body)?;
    server.flush()
}

fn write_answer(
    client: &mut impl Write,
    status: u16,
    headers: &[(String, String)],
    body: &str,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Answered\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        head.push_str("Content-Type: application/json\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    client.write_all(format!("{head}\r\n{body}").as_bytes())?;
    client.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str) -> Asked {
        Asked { method: method.to_owned(), path: path.to_owned() }
    }

    #[test]
    fn a_list_a_watch_a_get_and_a_delete_are_told_apart() {
        let collection = "/api/v1/namespaces/x/configmaps";
        let object = asked("GET", &format!("{collection}/a"));
        let listed = asked("GET", &format!("{collection}?limit=2"));
        let watched = asked("GET", &format!("{collection}?watch=true&resourceVersion=1"));
        let deleted = asked("DELETE", &format!("{collection}/a"));
        for (when, like) in [
            (Box::new(list("configmaps")) as When, &listed),
            (Box::new(watch("configmaps")), &watched),
            (Box::new(get("configmaps")), &object),
            (Box::new(delete("configmaps")), &deleted),
        ] {
            for one in [&object, &listed, &watched, &deleted] {
                assert_eq!(when(one), one == like, "{one:?}");
            }
        }
        assert!(!list("secrets")(&listed));
    }

    fn pushed(treatment: &Treatment, chunks: &[&str]) -> (String, bool) {
        let mut out = Vec::new();
        let mut body = Body {
            client: &mut out,
            chunked: false,
            treatment,
            sent: 0,
            lines: 0,
            line: Vec::new(),
            watch: true,
        };
        let more = chunks.iter().all(|chunk| matches!(body.push(chunk.as_bytes()).unwrap(), Next::More));
        (String::from_utf8(out).unwrap(), more)
    }

    #[test]
    fn bodies_are_cut_muted_and_rewritten() {
        let truncate = Treatment { truncate: Some(3), ..Treatment::default() };
        assert_eq!(pushed(&truncate, &["ab", "cd"]), ("abc".to_owned(), false));
        let mute = Treatment { mute: Some(1), ..Treatment::default() };
        assert_eq!(pushed(&mute, &["a", "\nb\n"]), ("a\n".to_owned(), false));
        let lines: Arc<Lines> = Arc::new(|line| vec![line.to_owned(), line.to_owned()]);
        let twice = Treatment { lines: Some(lines), ..Treatment::default() };
        assert_eq!(pushed(&twice, &["a\nb", "\n"]), ("a\na\nb\nb\n".to_owned(), true));
    }
}
