//! The suite against a unix socket, and what only a socket does.

use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Behaviour, Breakable, Harness, Observed, Post, Scripted, until};
use postroom_core::{FailureKind, Transport};
use postroom_exec::Target;

use crate::workshop::{self, CHILD, LONG, Workshop, failure};

struct Socket {
    workshop: Workshop,
    timeout: Duration,
    server: Mutex<Option<Server>>,
}

/// A process that listens; killed and reaped with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Socket {
    async fn listen(&self) {
        let path = self.workshop.path().join("exec.sock");
        let server = Command::new(CHILD).arg("listen").arg(self.workshop.path()).spawn().expect("it starts");
        *self.server.lock().expect("no panic") = Some(Server(server));
        until("the socket", async || tokio::net::UnixStream::connect(&path).await.is_ok()).await;
        // Looking was a connection too; it is over before the case begins.
        until("the look to end", async || self.workshop.read("connections").contains('-')).await;
    }
}

#[async_trait]
impl Harness for Socket {
    async fn start(timeout: Duration) -> Self {
        let socket = Self { workshop: Workshop::new(), timeout, server: Mutex::new(None) };
        socket.listen().await;
        socket
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(workshop::exec(Target::Socket(self.workshop.path().join("exec.sock")), self.timeout))
    }

    async fn running(&self) -> usize {
        let connections = self.workshop.read("connections");
        connections.matches('+').count() - connections.matches('-').count()
    }
}

#[async_trait]
impl Observed for Socket {
    async fn arrived(&self) -> Vec<Arrived> {
        self.workshop.arrived()
    }
}

#[async_trait]
impl Scripted for Socket {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.workshop.behave(id, behaviour);
    }
}

#[async_trait]
impl Breakable for Socket {
    async fn stop(&self) {
        drop(self.server.lock().expect("no panic").take());
        let _ = std::fs::remove_file(self.workshop.path().join("exec.sock"));
        // Connections that died with it are not counted by anybody.
        let _ = std::fs::remove_file(self.workshop.path().join("connections"));
    }

    async fn resume(&self) {
        self.listen().await;
    }
}

postroom_conformance::transport_suite!(Socket: reports, arrives, answers, goes_down);

#[tokio::test]
async fn a_socket_that_is_not_there_is_named() {
    let workshop = Workshop::new();
    let path = workshop.path().join("nobody.sock");
    let mut post = Post::new(Arc::new(workshop::exec(Target::Socket(path.clone()), LONG)));
    let failure = failure(&mut post, "a").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "exec.unreachable"));
    assert!(failure.error.contains(&path.display().to_string()), "{}", failure.error);
}

#[tokio::test]
async fn a_peer_that_does_not_answer_is_left_and_spoken_to_anew() {
    let socket = Socket::start(Duration::from_millis(300)).await;
    socket.workshop.rule("stuck", "ignore");
    let mut post = Post::new(socket.transport());
    let failure = failure(&mut post, "stuck").await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "exec.timeout"));
    post.deliver_until_ok(&[workshop::event("next")]).await;
    post.close().await;
}
