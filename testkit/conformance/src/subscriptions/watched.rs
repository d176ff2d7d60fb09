//! A subscription and transactions that tell what happens in them, and can be made to stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postroom_consumer::{Arrival, Subscription};
use postroom_core::{DeadLetterCause, Failure, StoreError, Transactions};

/// Counters of the calls that a subscription and its transactions received.
#[derive(Debug, Default)]
pub struct Counters {
    /// Messages handed over.
    pub arrived: AtomicUsize,
    /// Messages acknowledged as done.
    pub acked: AtomicUsize,
    /// Messages that somebody wanted to put among the dead.
    pub publish_attempts: AtomicUsize,
    /// Messages put among the dead.
    pub dead_lettered: AtomicUsize,
    /// Messages that the place for the dead did not take.
    pub refused: AtomicUsize,
    /// Messages given back.
    pub released: AtomicUsize,
    /// Transactions that somebody wanted to begin.
    pub begins: AtomicUsize,
    /// Transactions committed.
    pub commits: AtomicUsize,
    /// Whether everything stands still after a commit.
    pub halts_after_commit: AtomicBool,
    /// Whether no dead_letter ends.
    pub halts_dead_letters: AtomicBool,
}

impl Counters {
    /// Counts one.
    fn one(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells what happens.
#[derive(Debug)]
pub struct Watched<T> {
    pub(super) inner: T,
    pub(super) seen: Arc<Counters>,
}

#[deny(clippy::missing_trait_methods)]
impl<F: Subscription> Subscription for Watched<F> {
    type Ticket = F::Ticket;

    async fn next(&self) -> Arrival<F::Ticket> {
        let arrival = self.inner.next().await;
        if matches!(arrival, Arrival::Message(_)) {
            Counters::one(&self.seen.arrived);
        }
        arrival
    }

    async fn ack(&self, ticket: &F::Ticket) {
        self.inner.ack(ticket).await;
        Counters::one(&self.seen.acked);
    }

    async fn publish_dead_letter(
        &self,
        ticket: &F::Ticket,
        consumer: &str,
        dead_letter: &DeadLetterCause,
    ) -> Result<(), Failure> {
        Counters::one(&self.seen.publish_attempts);
        if self.seen.halts_dead_letters.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let published = self.inner.publish_dead_letter(ticket, consumer, dead_letter).await;
        Counters::one(if published.is_ok() { &self.seen.dead_lettered } else { &self.seen.refused });
        published
    }

    async fn release(&self, ticket: F::Ticket) {
        Counters::one(&self.seen.released);
        self.inner.release(ticket).await;
    }

    async fn close(self) {
        self.inner.close().await;
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Transactions> Transactions for Watched<T> {
    type Tx = T::Tx;

    async fn begin(&self) -> Result<T::Tx, StoreError> {
        Counters::one(&self.seen.begins);
        self.inner.begin().await
    }

    async fn commit(&self, tx: T::Tx) -> Result<(), StoreError> {
        self.inner.commit(tx).await?;
        Counters::one(&self.seen.commits);
        if self.seen.halts_after_commit.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn rollback(&self, tx: T::Tx) -> Result<(), StoreError> {
        self.inner.rollback(tx).await
    }
}
