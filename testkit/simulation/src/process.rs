//! A simulated relay process: it can crash at a named step, freeze, and be stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// The steps at which a relay may die; a test exists for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Before it asks the store for deliveries.
    BeforeTake,
    /// The store has handed them out, the relay does not know yet.
    AfterTake,
    /// Before it hands a batch to the transport.
    BeforeDeliver,
    /// The batch is on its way.
    AfterDeliver,
    /// Before it settles.
    BeforeSettle,
    /// The settle is durable, the relay does not know yet.
    AfterSettle,
    /// Before it renews its lease.
    BeforeRenew,
    /// The lease is renewed, the relay does not know yet.
    AfterRenew,
    /// A stop: before the lanes are released.
    BeforeRelease,
    /// A stop: the lanes are released, the relay does not know yet.
    AfterRelease,
}

impl Step {
    /// Every step.
    pub const ALL: [Step; 10] = [
        Step::BeforeTake,
        Step::AfterTake,
        Step::BeforeDeliver,
        Step::AfterDeliver,
        Step::BeforeSettle,
        Step::AfterSettle,
        Step::BeforeRenew,
        Step::AfterRenew,
        Step::BeforeRelease,
        Step::AfterRelease,
    ];
}

/// One life of one relay process.
#[derive(Debug, Default)]
pub(super) struct Process {
    dead: AtomicBool,
    frozen: AtomicBool,
    thawed: Notify,
    /// Told when it died by itself.
    pub(super) died: Notify,
    armed: Mutex<Option<(Step, u32)>>,
}

impl Process {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Dies the n-th time it comes to this step.
    pub(super) fn arm(&self, step: Step, times: u32) {
        *self.armed.lock().expect("never poisoned") = Some((step, times));
    }

    pub(super) fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.died.notify_one();
    }

    pub(super) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    pub(super) fn thaw(&self) {
        self.frozen.store(false, Ordering::Relaxed);
        self.thawed.notify_waiters();
    }

    /// Passes, unless the process is dead (never), frozen (later), or dies right here.
    pub(super) async fn step(&self, step: Step) {
        {
            let mut armed = self.armed.lock().expect("never poisoned");
            if let Some((at, times)) = armed.as_mut()
                && *at == step
            {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    *armed = None;
                    self.kill();
                }
            }
        }
        loop {
            if self.dead.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            let thawed = self.thawed.notified();
            if !self.frozen.load(Ordering::Relaxed) {
                return;
            }
            thawed.await;
        }
    }
}
