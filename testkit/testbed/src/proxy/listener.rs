//! Accepts connections, or does not.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::serve;
use super::{Mode, Shared};

#[expect(clippy::expect_used, reason = "for tests")]
pub(super) async fn bind(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).await.expect("the proxy's port is free")
}

/// Runs until it is aborted, and its connections with it. Tells which generation of modes new connections meet.
#[expect(clippy::expect_used, reason = "for tests")]
pub(super) async fn listen(shared: Arc<Shared>, first: TcpListener, applied: watch::Sender<u64>) {
    let port = first.local_addr().expect("it is bound").port();
    let mut listener = Some(first);
    let mut modes = shared.now.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let now = modes.borrow_and_update().clone();
        if now.mode == Mode::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = Some(bind(port).await);
        }
        applied.send_replace(now.generation);
        tokio::select! {
            _ = modes.changed() => {}
            client = accept(listener.as_ref()) => {
                shared.count(|counts| counts.accepted += 1);
                let number = shared.counts.borrow().accepted;
                connections.spawn(serve(client, Arc::clone(&shared), number));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    if let Some(listener) = listener {
        loop {
            if let Ok((client, _)) = listener.accept().await {
                return client;
            }
        }
    }
    std::future::pending().await
}
