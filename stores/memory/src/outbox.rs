//! Transactions and the outbox: what a transaction has appended is seen by nobody before it commits.

use std::future::Future;
use std::pin::pin;

use postroom_core::{Appended, Event, Outbox, StoreError, StoreErrorKind, ToEvent};

use crate::Memory;
use crate::state::{Claim, State};

/// Longest word of `append_once`, in bytes.
const ONCE_BYTES_MAX: usize = 255;

/// A transaction of a [`Memory`] store. Dropping it rolls it back.
#[derive(Debug)]
pub struct MemoryTx {
    store: Memory,
    id: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) claims: Vec<Claim>,
}

impl MemoryTx {
    pub(crate) fn new(store: &Memory) -> Self {
        let mut state = store.lock();
        state.transactions += 1;
        Self { store: store.clone(), id: state.transactions, events: Vec::new(), claims: Vec::new() }
    }

    /// The events appended so far; nobody else sees them yet.
    pub fn appended(&self) -> &[Event] {
        &self.events
    }

    /// Makes everything visible at once.
    pub fn commit(mut self) {
        let mut state = self.store.lock();
        // Asked under the lock, so that times in the log are in the order of its numbers.
        let now = self.store.now();
        for event in self.events.drain(..) {
            state.log.append(event, now);
        }
        for claim in &self.claims {
            match claim.clone() {
                Claim::Accepted(accepted) => drop(state.inbox.insert(accepted, now)),
                Claim::Once(word) => drop(state.once.insert(word, now)),
            }
        }
        // Dropping gives the claims back, after the rows they stand for are there.
    }

    /// Forgets everything.
    pub fn rollback(self) {}

    /// Claims a row that can be there only once; waits for another open transaction that claimed it. Says whether the
    /// row is ours, `false` when it is there already.
    pub(crate) async fn claim(&mut self, claim: Claim) -> bool {
        loop {
            // Listening starts before the look, so that an end in between is heard.
            let mut ended = pin!(self.store.inner.ended.notified());
            ended.as_mut().enable();
            {
                let mut state = self.store.lock();
                if is_there(&state, &claim) {
                    return false;
                }
                match state.claims.get(&claim) {
                    Some(holder) if *holder == self.id => return false,
                    Some(_) => {}
                    None => {
                        state.claims.insert(claim.clone(), self.id);
                        drop(state);
                        self.claims.push(claim);
                        return true;
                    }
                }
            }
            ended.await;
        }
    }
}

impl Drop for MemoryTx {
    fn drop(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let mut state = self.store.lock();
        for claim in &self.claims {
            state.claims.remove(claim);
        }
        drop(state);
        self.store.inner.ended.notify_waiters();
    }
}

fn is_there(state: &State, claim: &Claim) -> bool {
    match claim {
        Claim::Accepted(accepted) => state.inbox.contains_key(accepted),
        Claim::Once(word) => state.once.contains_key(word),
    }
}

impl Memory {
    /// Checks events before anything is written: all or none.
    fn checked<E: ToEvent>(&self, events: &[E]) -> Result<Vec<Event>, StoreError> {
        let mut checked = Vec::with_capacity(events.len());
        for event in events {
            let event = event.to_event()?;
            self.inner.limits.check(&event)?;
            if let Some(contract) = &self.inner.contract {
                contract.check(&event)?;
            }
            checked.push(event);
        }
        Ok(checked)
    }

    fn add(&self, tx: &mut MemoryTx, events: Vec<Event>) -> Appended {
        let ids = events.iter().map(|event| event.id.clone()).collect();
        tx.events.extend(events);
        Appended::new(ids, self.inner.wake.clone())
    }
}

impl Outbox for Memory {
    type Tx<'t> = MemoryTx;

    fn append<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send {
        let checked = self.checked(std::slice::from_ref(event)).map(|events| self.add(tx, events));
        std::future::ready(checked)
    }

    fn append_many<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        events: &[E],
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send {
        let checked = self.checked(events).map(|events| self.add(tx, events));
        std::future::ready(checked)
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut Self::Tx<'_>,
        once: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        if once.is_empty() || once.len() > ONCE_BYTES_MAX {
            let message =
                format!("the word of append_once is {} bytes, it must have 1 to {ONCE_BYTES_MAX}", once.len());
            return Err(StoreError::new(StoreErrorKind::Invalid, "append_once", message).hint("give a shorter word"));
        }
        let events = self.checked(std::slice::from_ref(event))?;
        if tx.claim(Claim::Once(once.to_owned())).await {
            Ok(self.add(tx, events))
        } else {
            Ok(Appended::new(Vec::new(), self.inner.wake.clone()))
        }
    }
}
