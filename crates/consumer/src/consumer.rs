//! The loop: takes what the subscription hands over, lets each lane work on one message at a time, and stops in good order.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::join_all;
use postroom_core::{CONSUMER_BYTES_MAX, Failure, Inbox, Transactions};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::attempt::Works;
use crate::handler::Handler;
use crate::lanes::{Lanes, Ready, Turn};
use crate::message::Message;
use crate::options::ConsumerOptions;
use crate::subscription::{Arrival, Delivered, Subscription};

/// Consumer of a subscription, ready to run.
#[derive(Debug)]
pub struct Consumer<I, T, F, H> {
    works: Works<I, T, F, H>,
}

/// Error of a consumer name that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the consumer's name has {0} bytes, it must have 1 to {CONSUMER_BYTES_MAX}")]
pub struct NameError(usize);

impl<S, F, H> Consumer<S, S, F, H>
where
    S: Inbox<<S as Transactions>::Tx> + Transactions + Clone + 'static,
    F: Subscription,
    H: Handler<<S as Transactions>::Tx>,
{
    /// Creates a consumer of this name in `store`, which has the inbox and begins the transactions.
    ///
    /// The name says whose effects these are: all instances of a service have the same, and two services that share a
    /// database have different ones.
    pub fn new(name: impl Into<String>, store: S, subscription: F, handler: H) -> Result<Self, NameError> {
        Self::with(name, store.clone(), store, subscription, handler)
    }
}

impl<I, T, F, H> Consumer<I, T, F, H>
where
    I: Inbox<T::Tx> + 'static,
    T: Transactions + 'static,
    F: Subscription,
    H: Handler<T::Tx>,
{
    /// Creates a consumer of this name in `inbox`, with transactions of the application's own pool.
    pub fn with(
        name: impl Into<String>,
        inbox: I,
        transactions: T,
        subscription: F,
        handler: H,
    ) -> Result<Self, NameError> {
        let name = name.into();
        if !(1..=CONSUMER_BYTES_MAX).contains(&name.len()) {
            return Err(NameError(name.len()));
        }
        let options = ConsumerOptions::default();
        Ok(Self { works: Works { name, options, inbox, transactions, subscription, handler } })
    }

    /// Sets the options.
    pub fn options(mut self, options: ConsumerOptions) -> Self {
        self.works.options = options;
        self
    }

    /// Runs until `shutdown` resolves, then stops gracefully: what is in a handler is finished, committed and
    /// acknowledged, everything else is left to the broker.
    ///
    /// Dropping the future is a crash: nothing is lost, what was not acknowledged comes again, and what was committed is
    /// then found to be a duplicate.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let works = Arc::new(self.works);
        let stop = CancellationToken::new();
        let mut lanes = Lanes::new(stop.clone());
        let mut at_work: JoinSet<Turn> = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        {
            // One call is kept until it has something: a subscription connects in it.
            let mut next = pin!(works.subscription.next());
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => break,
                    Some(ended) = at_work.join_next() => {
                        if let Some(ready) = lanes.done(turn(ended)) {
                            begin(&works, &mut at_work, ready);
                        }
                    }
                    arrival = &mut next => {
                        next.set(works.subscription.next());
                        match arrival {
                            Arrival::Revoked(gone) => lanes.gone(&gone),
                            Arrival::Message(delivered) => {
                                let (lane, waiting) = works.read(delivered);
                                if let Some(ready) = lanes.arrive(lane, waiting) {
                                    begin(&works, &mut at_work, ready);
                                }
                            }
                        }
                    }
                }
            }
        }
        stop.cancel();
        // Beside each other: a broker that does not listen costs the time of one.
        join_all(lanes.into_waiting().map(|(_, ticket)| works.subscription.release(ticket))).await;
        while let Some(ended) = at_work.join_next().await {
            turn(ended);
        }
        if let Some(works) = Arc::into_inner(works) {
            works.subscription.close().await;
        }
    }
}

/// A message in its lane, or why it can never be accepted.
type Waiting<F> = (Result<Message, Failure>, <F as Subscription>::Ticket);

impl<I, T, F: Subscription, H> Works<I, T, F, H> {
    fn read(&self, delivered: Delivered<F::Ticket>) -> (Option<Arc<str>>, Waiting<F>) {
        let Delivered { lane, wire, ticket } = delivered;
        let message = wire.read(&self.options.id_field);
        let key = || message.as_ref().ok().and_then(|message| message.key.as_deref()).map(Arc::from);
        (lane.or_else(key), (message, ticket))
    }
}

fn begin<I, T, F, H>(works: &Arc<Works<I, T, F, H>>, at_work: &mut JoinSet<Turn>, ready: Ready<Waiting<F>>)
where
    I: Inbox<T::Tx> + 'static,
    T: Transactions + 'static,
    F: Subscription,
    H: Handler<T::Tx>,
{
    let Ready { message: (message, ticket), turn, gone } = ready;
    let works = Arc::clone(works);
    at_work.spawn(async move {
        works.see_through(message, ticket, gone).await;
        turn
    });
}

/// Whose turn has ended. Handlers' panics are caught before; one of ours is a bug that must not go unseen.
fn turn(ended: Result<Turn, JoinError>) -> Turn {
    match ended {
        Ok(turn) => turn,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
