//! A small HTTPS server on loopback that answers with JSON: what webhooks and aggregated APIs are made of.

use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::certificates::Serving;
use crate::error::Error;
use crate::http::{Message, read_message};

/// What is answered to one request.
pub(crate) enum Response {
    /// This status and document.
    Json(u16, Value),
    /// Nothing, until the server ends.
    Hang,
}

type Handler = Box<dyn Fn(&Message) -> io::Result<Response> + Send + Sync>;

/// A running server. Dropping it closes its port and every open connection.
pub(crate) struct Server {
    address: SocketAddr,
    authority: String,
    shared: Arc<Shared>,
}

struct Shared {
    handler: Handler,
    tls: Arc<ServerConfig>,
    ended: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1. A handler's error breaks the connection.
    pub(crate) fn start(
        name: &str,
        handler: impl Fn(&Message) -> io::Result<Response> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let serving = Serving::new(name)?;
        let failed = || Error::doing(format!("cannot serve a {name} on 127.0.0.1"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            tls: serving.server()?,
            ended: AtomicBool::new(false),
            connections: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, authority: serving.authority, shared })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients have to trust, as PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts, which then closes the port.
        drop(TcpStream::connect(self.address));
        let connections = self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in connections.iter() {
            // The other side may have closed it long ago.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else { continue };
        let Ok(handle) = connection.try_clone() else { continue };
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock: whoever ends the server closes what is in the list.
        if shared.ended.load(Ordering::Relaxed) {
            return;
        }
        connections.push(handle);
        drop(connections);
        let shared = Arc::clone(shared);
        // An error here is the API server's to report: it sees a broken connection.
        thread::spawn(move || serve(connection, &shared));
    }
}

/// Answers the requests of one connection until the other side closes it.
fn serve(connection: TcpStream, shared: &Shared) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let tls = ServerConnection::new(Arc::clone(&shared.tls)).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, connection));
    while let Some(message) = read_message(&mut stream)? {
        let (status, answer) = match (shared.handler)(&message)? {
            Response::Json(status, answer) => (status, answer.to_string()),
            Response::Hang => {
                while !shared.ended.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(100));
                }
                return Ok(());
            }
        };
        let head = format!(
            "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let out = stream.get_mut();
        out.write_all((head + &answer).as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
