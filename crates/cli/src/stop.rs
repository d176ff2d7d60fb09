//! Signals: the first asks to stop in good order, the second stops at once; SIGHUP asks to read the configuration again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Returns a token that the first SIGINT or SIGTERM cancels. The second signal ends the process with 130 or 143.
///
/// Only for commands that run until stopped; the others keep the system's default.
pub(crate) fn on_signal() -> io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let first = stop.clone();
    tokio::spawn(async move {
        next(&mut interrupt, &mut terminate).await;
        first.cancel();
        let code = next(&mut interrupt, &mut terminate).await;
        #[allow(clippy::exit, reason = "a second signal means now: nothing may hold it up")]
        std::process::exit(code);
    });
    Ok(stop)
}

/// Returns a channel that receives a message for every SIGHUP; several at once count as one.
pub(crate) fn on_reload() -> io::Result<mpsc::Receiver<()>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (wanted, reloads) = mpsc::channel(1);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let _ = wanted.try_send(());
        }
    });
    Ok(reloads)
}

/// Waits for the next signal and returns its exit code.
async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> i32 {
    tokio::select! {
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
    }
}
