//! Ctrl-C, from the moment on when something may have been deleted: the command then stops by itself and still says
//! what it knows. Before that moment the signal simply ends the process.

use tokio::sync::watch;

/// Whether Ctrl-C was pressed.
#[derive(Debug, Clone)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Catches Ctrl-C from now on.
    pub async fn catch() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = sender.send(true);
            }
        });
        // The task takes the signal over when it first runs.
        tokio::task::yield_now().await;
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
