//! A link: a small proxy before the API server that counts what goes over it, and holds every byte back for half a
//! round trip where it is to be a slow one.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Error};

/// The round trip of a slow link.
pub const SLOW: Duration = Duration::from_millis(25);

/// A running link.
pub struct Link {
    kubeconfig: PathBuf,
    traffic: Arc<Traffic>,
}

/// What went over it.
#[derive(Default)]
struct Traffic {
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl Link {
    /// Starts it before this control plane's API server. `name` tells its kubeconfig from those of others.
    pub fn start(plane: &ControlPlane, name: &str, round_trip: Duration) -> Result<Self, Error> {
        let doing = |error: std::io::Error| Error::new(format!("cannot start the link: {error}"));
        let server = plane.server_url()?;
        let address: SocketAddr = server
            .trim_start_matches("https://")
            .parse()
            .map_err(|error| Error::new(format!("{server}: {error}")))?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(doing)?;
        let own = listener.local_addr().map_err(doing)?;
        let traffic = Arc::new(Traffic::default());
        let counted = Arc::clone(&traffic);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let traffic = Arc::clone(&counted);
                thread::spawn(move || join(near, address, round_trip, &traffic));
            }
        });
        let kubeconfig = plane.kubeconfig_path().with_file_name(format!("{name}.kubeconfig"));
        let text = std::fs::read_to_string(plane.kubeconfig_path()).map_err(doing)?;
        std::fs::write(&kubeconfig, text.replace(&server, &format!("https://{own}"))).map_err(doing)?;
        Ok(Self { kubeconfig, traffic })
    }

    /// Connections, and bytes both ways, TLS included, since the last time that this was asked.
    pub fn take_traffic(&self) -> (u64, u64) {
        (self.traffic.connections.swap(0, Ordering::Relaxed), self.traffic.bytes.swap(0, Ordering::Relaxed))
    }

    /// A kubeconfig that goes through it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

fn join(near: TcpStream, address: SocketAddr, round_trip: Duration, traffic: &Arc<Traffic>) {
    traffic.connections.fetch_add(1, Ordering::Relaxed);
    // A connection takes a round trip to open.
    thread::sleep(round_trip);
    let Ok(far) = TcpStream::connect(address) else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
    let counted = Arc::clone(traffic);
    let up = thread::spawn(move || carry(near, far, round_trip / 2, &counted));
    carry(far_again, near_again, round_trip / 2, traffic);
    let _ = up.join();
}

/// Carries bytes one way, each so late; more may be under way at once.
fn carry(mut from: TcpStream, mut to: TcpStream, late: Duration, traffic: &Traffic) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    let writer = thread::spawn(move || {
        for (due, bytes) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut buffer) {
        traffic.bytes.fetch_add(length as u64, Ordering::Relaxed);
        if length == 0 || sender.send((Instant::now() + late, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = writer.join();
}
