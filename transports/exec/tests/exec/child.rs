//! The suite against a child process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Behaviour, Breakable, Harness, Observed, Scripted};
use postroom_core::Transport;

use crate::workshop::Workshop;

struct Child {
    workshop: Workshop,
    timeout: Duration,
}

#[async_trait]
impl Harness for Child {
    async fn start(timeout: Duration) -> Self {
        Self { workshop: Workshop::new(), timeout }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.workshop.exec("serve", self.timeout))
    }

    async fn running(&self) -> usize {
        self.workshop.alive()
    }
}

#[async_trait]
impl Observed for Child {
    async fn arrived(&self) -> Vec<Arrived> {
        self.workshop.arrived()
    }
}

#[async_trait]
impl Scripted for Child {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.workshop.behave(id, behaviour);
    }
}

#[async_trait]
impl Breakable for Child {
    async fn stop(&self) {
        std::fs::write(self.workshop.path().join("down"), "").expect("a file");
        for pid in self.workshop.starts() {
            // It may have ended by itself.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }

    async fn resume(&self) {
        std::fs::remove_file(self.workshop.path().join("down")).expect("it was down");
    }
}

postroom_conformance::transport_suite!(Child: reports, arrives, answers, goes_down);
