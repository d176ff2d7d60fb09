//! Transactions and the outbox: what a transaction has appended is seen by nobody before it commits.

use std::future::Future;
use std::pin::pin;

use postroom_core::{Appended, Event, Outbox, StoreError, StoreErrorKind, ToEvent};

use crate::MemoryStore;
use crate::state::{Claim, State};

/// Longest idempotency key of `append_once`, in bytes.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Transaction of a [`MemoryStore`]. Dropping it rolls it back.
#[derive(Debug)]
pub struct MemoryTx {
    store: MemoryStore,
    id: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) claims: Vec<Claim>,
}

impl MemoryTx {
    pub(crate) fn new(store: &MemoryStore) -> Self {
        let mut state = store.lock();
        state.transactions += 1;
        Self { store: store.clone(), id: state.transactions, events: Vec::new(), claims: Vec::new() }
    }

    /// Returns the events appended so far, which are not visible to others yet.
    pub fn appended(&self) -> &[Event] {
        &self.events
    }

    /// Commits the transaction, and wakes the relays of this process if events were appended.
    pub fn commit(mut self) {
        let appended = !self.events.is_empty();
        let mut state = self.store.lock();
        // Asked under the lock, so that times in the log are in the order of its numbers.
        let now = self.store.now();
        for event in self.events.drain(..) {
            state.log.append(event, now);
        }
        for claim in &self.claims {
            match claim.clone() {
                Claim::Accepted(accepted) => drop(state.inbox.insert(accepted, now)),
                Claim::IdempotencyKey(key) => drop(state.idempotency_keys.insert(key, now)),
            }
        }
        drop(state);
        if appended {
            self.store.inner.wake.wake();
        }
        // Dropping gives the claims back, after the rows they stand for are there.
    }

    /// Rolls the transaction back.
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
        Claim::IdempotencyKey(key) => state.idempotency_keys.contains_key(key),
    }
}

impl MemoryStore {
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

impl Outbox<MemoryTx> for MemoryStore {
    fn append<E: ToEvent + Sync>(
        &self,
        tx: &mut MemoryTx,
        event: &E,
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send {
        let checked = self.checked(std::slice::from_ref(event)).map(|events| self.add(tx, events));
        std::future::ready(checked)
    }

    fn append_many<E: ToEvent + Sync>(
        &self,
        tx: &mut MemoryTx,
        events: &[E],
    ) -> impl Future<Output = Result<Appended, StoreError>> + Send {
        let checked = self.checked(events).map(|events| self.add(tx, events));
        std::future::ready(checked)
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut MemoryTx,
        idempotency_key: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        if idempotency_key.is_empty() || idempotency_key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            let message = format!(
                "the idempotency key is {} bytes, it must be 1 to {IDEMPOTENCY_KEY_BYTES_MAX}",
                idempotency_key.len()
            );
            return Err(StoreError::new(StoreErrorKind::Invalid, "append_once", message).hint("give a shorter one"));
        }
        let events = self.checked(std::slice::from_ref(event))?;
        if tx.claim(Claim::IdempotencyKey(idempotency_key.to_owned())).await {
            Ok(self.add(tx, events))
        } else {
            Ok(Appended::new(Vec::new(), self.inner.wake.clone()))
        }
    }
}
