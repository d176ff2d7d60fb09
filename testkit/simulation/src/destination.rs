//! The simulated destination: what arrived there, in which order, and every way it can misbehave.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_core::{Capabilities, Failure, FailureKind, Outbound, Receipt, Transport};
use tokio::sync::Notify;

use crate::consumer::Consumer;

/// Something that took effect at the destination.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) id: String,
    /// Whether the relay that sent it was told that it arrived.
    pub(super) acknowledged: bool,
}

/// What the destination said about one event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replies {
    pub(super) transient: u32,
    pub(super) permanent: u32,
    pub(super) unavailable: u32,
}

/// How the destination behaves at the moment, in per mille of deliveries.
#[derive(Debug, Default)]
pub(super) struct Mood {
    /// Every delivery is refused as unavailable; half of them take effect first.
    pub(super) down: AtomicU64,
    /// Fails this one, without effect.
    pub(super) transient: AtomicU64,
    /// Takes effect and says it failed.
    pub(super) ack_lost: AtomicU64,
    /// Takes long.
    pub(super) slow: AtomicU64,
    /// Says nothing until the end of the faults.
    pub(super) stuck: AtomicU64,
}

/// Where everything goes.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) mood: Mood,
    pub(super) arrivals: Mutex<Vec<Arrival>>,
    pub(super) said: Mutex<HashMap<String, Replies>>,
    rng: Mutex<fastrand::Rng>,
    consumer: Consumer,
    healed: Notify,
    is_healed: AtomicU64,
}

impl Destination {
    pub(super) fn new(seed: u64, consumer: Consumer) -> Arc<Self> {
        Arc::new(Self {
            mood: Mood::default(),
            arrivals: Mutex::default(),
            said: Mutex::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            consumer,
            healed: Notify::new(),
            is_healed: AtomicU64::new(0),
        })
    }

    /// Everything works from here on, and what was stuck goes on.
    pub(super) fn heal(&self) {
        for knob in [&self.mood.down, &self.mood.transient, &self.mood.ack_lost, &self.mood.slow, &self.mood.stuck] {
            knob.store(0, Ordering::Relaxed);
        }
        self.is_healed.store(1, Ordering::Relaxed);
        self.healed.notify_waiters();
    }

    fn arrive(&self, id: &str, acknowledged: bool) {
        self.arrivals.lock().expect("never poisoned").push(Arrival { id: id.to_owned(), acknowledged });
        let crash = self.rng.lock().expect("never poisoned").u64(..);
        tokio::spawn(self.consumer.clone().consume(id.to_owned(), crash));
    }

    fn say(&self, id: &str, failure: &Failure) {
        let mut said = self.said.lock().expect("never poisoned");
        let said = said.entry(id.to_owned()).or_default();
        match failure.kind {
            FailureKind::Permanent => said.permanent += 1,
            FailureKind::Unavailable | FailureKind::Gone => said.unavailable += 1,
            _ => said.transient += 1,
        }
    }

    /// One delivery on the wire; it goes on even if the relay that sent it dies.
    async fn carry(self: Arc<Self>, outbound: Outbound) {
        let roll = |knob: &AtomicU64| {
            let per_mille = knob.load(Ordering::Relaxed);
            per_mille > 0 && self.rng.lock().expect("never poisoned").u64(0..1000) < per_mille
        };
        let id = outbound.event.id.clone();
        let slow = roll(&self.mood.slow);
        let wait = self.rng.lock().expect("never poisoned").u64(if slow { 200..3000 } else { 0..8 });
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if roll(&self.mood.stuck) {
            let healed = self.healed.notified();
            if self.is_healed.load(Ordering::Relaxed) == 0 {
                healed.await;
            }
        }
        let failure = if roll(&self.mood.down) {
            if self.rng.lock().expect("never poisoned").bool() {
                self.arrive(&id, false);
            }
            Failure::unavailable("sim.down", "the destination is down")
        } else if outbound.event.event_type == "poison.permanent" {
            Failure::permanent("sim.poison", "never")
        } else if outbound.event.event_type == "poison.transient" || roll(&self.mood.transient) {
            Failure::transient("sim.transient", "not now")
        } else if roll(&self.mood.ack_lost) {
            self.arrive(&id, false);
            Failure::transient("sim.ack_lost", "it arrived, but who knows")
        } else {
            self.arrive(&id, true);
            outbound.report(Ok(Receipt::default()));
            return;
        };
        self.say(&id, &failure);
        outbound.report(Err(failure));
    }
}

/// The way there; every relay process has its own.
#[derive(Debug)]
pub(super) struct Road(pub(super) Arc<Destination>);

#[async_trait]
impl Transport for Road {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("sim")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            tokio::spawn(self.0.clone().carry(outbound));
        }
    }

    async fn close(&self) {}
}
