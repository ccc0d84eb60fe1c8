//! For tests: an HTTP server on loopback that answers from a script, in order, and remembers what it was asked. A
//! request beyond the script gets a 500 that no retry repeats, and the test sees it in `seen`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::cluster::connect::{Cluster, ConnectionOptions};
use crate::cluster::kubeconfig::Environment;

/// One scripted answer.
pub(crate) enum Reply {
    /// Status, extra header lines, body.
    Whole(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A 200 whose body comes in these chunks; then the connection is kept open in silence.
    ThenSilence(Vec<&'static str>),
    /// Nothing at all; the connection stays open.
    Silence,
    /// The head of a 200 that promises more than comes before the connection closes.
    BreaksOff(&'static str),
}

impl Reply {
    pub(crate) fn json(status: u16, body: serde_json::Value) -> Self {
        let headers = vec![("Content-Type", "application/json".to_owned())];
        Self::Whole(status, headers, body.to_string().into_bytes())
    }

    /// A Status object, as Kubernetes refuses.
    pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Self {
        Self::json(
            code,
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                               "code": code, "reason": reason, "message": message}),
        )
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Whole(_, headers, _) = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    /// All values of a header, in order.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Mutex::new(VecDeque::from(script)));
        let remembered = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&remembered));
                std::thread::spawn(move || serve(stream, &script, &seen));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A cluster that talks to this server, with these further options.
    pub(crate) async fn cluster_with(&self, options: ConnectionOptions) -> Cluster {
        let options = ConnectionOptions { server: Some(self.url()), ..options };
        Cluster::connect_from(&options, &Environment::default()).await.unwrap()
    }

    pub(crate) async fn cluster(&self) -> Cluster {
        self.cluster_with(ConnectionOptions::default()).await
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, script: &Mutex<VecDeque<Reply>>, seen: &Mutex<Vec<Seen>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" => break,
                text => lines.push(text.to_owned()),
            }
        }
        let line = lines.remove(0);
        let headers: Vec<(String, String)> = lines
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        seen.lock().unwrap().push(Seen { line, headers, body: String::from_utf8(body).unwrap() });
        let reply = script.lock().unwrap().pop_front();
        match reply.unwrap_or_else(|| Reply::refusal(500, "Unexpected", "beyond the script")) {
            Reply::Whole(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len());
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
                stream.write_all(&body).unwrap();
            }
            Reply::ThenSilence(chunks) => {
                let mut text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
                for chunk in chunks {
                    text += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
                }
                stream.write_all(text.as_bytes()).unwrap();
                hold(&mut reader);
                return;
            }
            Reply::Silence => {
                hold(&mut reader);
                return;
            }
            Reply::BreaksOff(body) => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len() + 100);
                stream.write_all(head.as_bytes()).unwrap();
                return;
            }
        }
    }
}

/// Keeps the connection open until the client closes it.
fn hold(reader: &mut BufReader<TcpStream>) {
    let _ = reader.read(&mut [0]);
}
