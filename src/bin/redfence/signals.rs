//! Ctrl-C and SIGTERM.

use crate::exit::Exit;

/// Waits for the user's or the system's wish to stop.
pub(crate) async fn stop() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            return tokio::select! {
                _ = tokio::signal::ctrl_c() => Exit::Interrupted,
                _ = terminate.recv() => Exit::Terminated,
            };
        }
    }
    let _ = tokio::signal::ctrl_c().await;
    Exit::Interrupted
}
