//! A link with a delay: a small proxy before the API server that holds every byte back for half a round trip.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use control_plane::{ControlPlane, Error};

/// The round trip that it makes.
pub const ROUND_TRIP_MILLISECONDS: u64 = 25;

/// A running link.
pub struct Link {
    kubeconfig: PathBuf,
}

impl Link {
    /// Starts it before this control plane's API server.
    pub fn start(plane: &ControlPlane) -> Result<Self, Error> {
        let doing = |error: std::io::Error| Error::new(format!("cannot start the link: {error}"));
        let server = plane.server_url()?;
        let address: SocketAddr = server
            .trim_start_matches("https://")
            .parse()
            .map_err(|error| Error::new(format!("{server}: {error}")))?;
        let listener = TcpListener::bind("127.0.0.1:0").map_err(doing)?;
        let own = listener.local_addr().map_err(doing)?;
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                thread::spawn(move || join(near, address));
            }
        });
        let kubeconfig = plane.kubeconfig_path().with_file_name("link.kubeconfig");
        let text = std::fs::read_to_string(plane.kubeconfig_path()).map_err(doing)?;
        std::fs::write(&kubeconfig, text.replace(&server, &format!("https://{own}"))).map_err(doing)?;
        Ok(Self { kubeconfig })
    }

    /// A kubeconfig that goes through it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

fn join(near: TcpStream, address: SocketAddr) {
    // A connection takes a round trip to open.
    thread::sleep(Duration::from_millis(ROUND_TRIP_MILLISECONDS));
    let Ok(far) = TcpStream::connect(address) else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
    let up = thread::spawn(move || carry(near, far));
    carry(far_again, near_again);
    let _ = up.join();
}

/// Carries bytes one way, each half a round trip late; more may be under way at once.
fn carry(mut from: TcpStream, mut to: TcpStream) {
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
        let due = Instant::now() + Duration::from_millis(ROUND_TRIP_MILLISECONDS) / 2;
        if length == 0 || sender.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = writer.join();
}
