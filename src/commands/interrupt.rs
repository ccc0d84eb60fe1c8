//! Ctrl-C and SIGTERM: the first one stops the command, which still says what it knows and what goes on; the second one
//! ends the process at once.

use tokio::sync::watch;

use crate::error::ExitCode;

/// Whether the user, or whatever runs us, wants us to stop.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Catches Ctrl-C and SIGTERM from now on. A thread of its own waits for them: ours may be busy writing to somebody
    /// who does not read.
    pub async fn catch() -> Self {
        let (sender, receiver) = watch::channel(false);
        let (ready, caught) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let Some(mut signals) = Signals::new() else { return };
                let _ = ready.send(());
                signals.next().await;
                let _ = sender.send(true);
                signals.next().await;
                // Whoever says it twice does not want to wait for what is still asked or written.
                std::process::exit(ExitCode::Interrupted as i32);
            });
        });
        // Where they cannot be caught they end the process, as ever.
        let _ = caught.await;
        Self(receiver)
    }

    /// Whether it was pressed.
    pub fn was_pressed(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is pressed.
    pub async fn pressed(&mut self) {
        if self.0.wait_for(|pressed| *pressed).await.is_err() {
            // The signal cannot be caught here: it ends the process, as ever.
            std::future::pending::<()>().await;
        }
    }

    /// Does something that may take long; none where Ctrl-C came first.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.pressed() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        let terminate = signal(SignalKind::terminate()).ok()?;
        Some(Self { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Option<Self> {
        Some(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
