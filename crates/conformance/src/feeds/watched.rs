//! A feed and transactions that tell what happens in them, and can be made to stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postroom_consumer::{Arrival, Feed};
use postroom_core::{Burial, Failure, StoreError, Transactions};

/// What has happened.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages handed over.
    pub arrived: AtomicUsize,
    /// Messages acknowledged as done.
    pub acked: AtomicUsize,
    /// Messages that somebody wanted to put among the dead.
    pub burials: AtomicUsize,
    /// Messages put among the dead.
    pub buried: AtomicUsize,
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
    /// Whether no burial ends.
    pub halts_burials: AtomicBool,
}

impl Seen {
    /// Counts one.
    fn one(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tells what happens.
#[derive(Debug)]
pub struct Watched<T> {
    pub(super) inner: T,
    pub(super) seen: Arc<Seen>,
}

#[deny(clippy::missing_trait_methods)]
impl<F: Feed> Feed for Watched<F> {
    type Ticket = F::Ticket;

    async fn next(&self) -> Arrival<F::Ticket> {
        let arrival = self.inner.next().await;
        if matches!(arrival, Arrival::Message(_)) {
            Seen::one(&self.seen.arrived);
        }
        arrival
    }

    async fn ack(&self, ticket: &F::Ticket) {
        self.inner.ack(ticket).await;
        Seen::one(&self.seen.acked);
    }

    async fn bury(&self, ticket: &F::Ticket, consumer: &str, burial: &Burial) -> Result<(), Failure> {
        Seen::one(&self.seen.burials);
        if self.seen.halts_burials.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let buried = self.inner.bury(ticket, consumer, burial).await;
        Seen::one(if buried.is_ok() { &self.seen.buried } else { &self.seen.refused });
        buried
    }

    async fn release(&self, ticket: F::Ticket) {
        Seen::one(&self.seen.released);
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
        Seen::one(&self.seen.begins);
        self.inner.begin().await
    }

    async fn commit(&self, tx: T::Tx) -> Result<(), StoreError> {
        self.inner.commit(tx).await?;
        Seen::one(&self.seen.commits);
        if self.seen.halts_after_commit.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn rollback(&self, tx: T::Tx) -> Result<(), StoreError> {
        self.inner.rollback(tx).await
    }
}
