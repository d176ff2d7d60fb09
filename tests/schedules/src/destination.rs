//! The destination: what is on its way there waits until the schedule says what becomes of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use postroom_core::{Capabilities, Failure, Outbound, Receipt, Transport};

use crate::ledger::Ledger;

/// What the destination says to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    /// It took effect, and the answer is a failure.
    YesButLost,
    Transient,
    Permanent,
    Unavailable,
}

/// The way to the destination of one relay process.
#[derive(Debug)]
pub(crate) struct Road {
    pub(crate) relay: String,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) flights: Arc<Mutex<Vec<Outbound>>>,
}

#[async_trait]
impl Transport for Road {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("simulation")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            lock(&self.ledger).handed(&outbound.event.id, &self.relay);
            lock(&self.flights).push(outbound);
        }
    }

    async fn close(&self) {}
}

/// Ends one delivery.
pub(crate) fn answer(ledger: &Mutex<Ledger>, outbound: Outbound, answer: Answer) {
    let id = outbound.event.id.clone();
    let mut ledger = lock(ledger);
    let mut said = |change: fn(&mut crate::ledger::Entry)| {
        if let Some(entry) = ledger.entries.get_mut(&id) {
            change(entry);
        }
    };
    let outcome = match answer {
        Answer::Yes => {
            ledger.arrived(&id, true);
            Ok(Receipt::default())
        }
        Answer::YesButLost => {
            said(|entry| entry.transient += 1);
            ledger.arrived(&id, false);
            Err(Failure::transient("sim.lost", "it arrived, but who knows"))
        }
        Answer::Transient => {
            said(|entry| entry.transient += 1);
            Err(Failure::transient("sim.no", "not now"))
        }
        Answer::Permanent => {
            said(|entry| entry.permanent += 1);
            Err(Failure::permanent("sim.never", "never"))
        }
        Answer::Unavailable => {
            said(|entry| entry.unavailable += 1);
            Err(Failure::unavailable("sim.down", "the destination is down"))
        }
    };
    drop(ledger);
    outbound.report(outcome);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
