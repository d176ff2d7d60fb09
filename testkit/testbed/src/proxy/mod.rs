//! A TCP proxy on loopback that does to connections what networks do.
//!
//! The kernel here has no way to delay or lose packets, and none anywhere can lose exactly the answer to a `COMMIT`. What
//! happens is a [`Mode`], switched while connections are open; what has happened is in [`Counts`], and a test waits for it
//! there. One that goes [`FaultProxy::to_postgres`] reads along, can cut at a statement, and can have a [`Gate`].

mod connection;
mod conversation;
mod gate;
mod listener;
mod mode;
mod postgres;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use gate::{Gate, Keeper, Sign, Waiting};
pub use mode::{Counts, Mode, Moment, Trigger};

use super::free_port;

/// The proxy; it and its connections end when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    applied: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

/// What the proxy, its listener and its connections have in common.
#[derive(Debug)]
struct Shared {
    server: u16,
    reads_postgres: bool,
    now: watch::Sender<Now>,
    script: Mutex<VecDeque<Mode>>,
    counts: watch::Sender<Counts>,
    gate: Mutex<Option<Keeper>>,
}

/// The mode, and how many there were before it.
#[derive(Debug, Clone)]
struct Now {
    mode: Mode,
    generation: u64,
}

impl FaultProxy {
    /// Passes everything on to this port of 127.0.0.1, until told otherwise.
    pub async fn to(server: u16) -> Self {
        Self::start(server, false).await
    }

    /// The same for a server that speaks PostgreSQL's protocol without encryption.
    pub async fn to_postgres(server: u16) -> Self {
        Self::start(server, true).await
    }

    #[expect(clippy::expect_used, reason = "for tests")]
    async fn start(server: u16, reads_postgres: bool) -> Self {
        let port = free_port().expect("a free port");
        let shared = Arc::new(Shared {
            server,
            reads_postgres,
            now: watch::Sender::new(Now { mode: Mode::Pass, generation: 0 }),
            script: Mutex::default(),
            counts: watch::Sender::default(),
            gate: Mutex::default(),
        });
        let listener = listener::bind(port).await;
        let (done, applied) = watch::channel(0);
        let task = tokio::spawn(listener::listen(Arc::clone(&shared), listener, done));
        Self { port, shared, applied, task }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How to connect to a PostgreSQL database through it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Switches the mode, for open connections and new ones. What is sent once this has returned goes
    /// by the new one.
    pub async fn set(&self, mode: Mode) {
        self.play(vec![mode]).await;
    }

    /// Plays modes one after the other: when one has hit a connection, the next begins; the last one stays. Modes that
    /// hit nobody by themselves (`Pass`, `Hold`, `Forget`, `Delay`, `Throttle`, and `Refuse` without open connections) stay, too.
    ///
    /// # Panics
    ///
    /// When a mode waits for a statement and the proxy does not read PostgreSQL's protocol.
    pub async fn play(&self, modes: Vec<Mode>) {
        for mode in &modes {
            let needs_postgres = matches!(
                mode,
                Mode::CutAt(Trigger::Commit | Trigger::Statement(_), _)
                    | Mode::HoldAt(Trigger::Commit | Trigger::Statement(_))
            );
            assert!(self.shared.reads_postgres || !needs_postgres, "{mode:?} needs FaultProxy::to_postgres");
        }
        *self.shared.script() = modes.into();
        let generation = self.shared.next_mode();
        let reached = self.applied.clone().wait_for(|applied| *applied >= generation).await.is_ok();
        assert!(reached, "the proxy on port {} has ended", self.port);
    }

    /// Plays this many faults that cut connections, chosen by the seed, and passes everything on after them.
    pub async fn play_seeded(&self, seed: u64, faults: usize) {
        self.play(mode::seeded(seed, faults, self.shared.reads_postgres)).await;
    }

    /// From now on each statement waits at this gate until it may go on, whatever the mode. Another gate replaces it.
    ///
    /// # Panics
    ///
    /// When the proxy does not read PostgreSQL's protocol.
    pub fn gate(&self) -> Gate {
        assert!(self.shared.reads_postgres, "a gate needs FaultProxy::to_postgres");
        let (keeper, gate) = Keeper::pair();
        *self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        gate
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until it has done something: `proxy.until(|counts| counts.cuts == 1)`.
    pub async fn until(&self, so: impl FnMut(&Counts) -> bool) -> Counts {
        // The sender is ours, so this cannot fail.
        self.shared.counts.subscribe().wait_for(so).await.map_or_else(|_| self.counts(), |counts| *counts)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn script(&self) -> std::sync::MutexGuard<'_, VecDeque<Mode>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        self.now.borrow().clone()
    }

    fn keeper(&self) -> Option<Keeper> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on to the script's next mode, if there is one; says how many modes there were before it.
    fn next_mode(&self) -> u64 {
        let mut script = self.script();
        if let Some(mode) = script.pop_front() {
            self.now.send_modify(|now| *now = Now { mode, generation: now.generation + 1 });
        }
        self.now.borrow().generation
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    /// A mode of this generation becomes [`Mode::Hold`].
    fn hold(&self, generation: u64) {
        self.now.send_if_modified(|now| {
            let begins = now.generation == generation;
            if begins {
                *now = Now { mode: Mode::Hold, generation: generation + 1 };
            }
            begins
        });
    }

    /// A mode of this generation has hit a connection.
    fn has_hit(&self, generation: u64) {
        // Of several connections hit by one mode, only the first moves the script.
        if self.now.borrow().generation == generation {
            self.next_mode();
        }
    }
}
