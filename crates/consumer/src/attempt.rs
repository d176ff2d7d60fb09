//! One message, from its lane to its end: tried, tried again, published as a dead letter, or given back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use postroom_core::{
    Acceptance, DeadLetterCause, Failure, FailureKind, Inbox, StoreError, StoreErrorKind, Transactions, units,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::handler::Handler;
use crate::message::Message;
use crate::options::ConsumerOptions;
use crate::subscription::{Subscription, pause};
use crate::{LOG, meter, trace};

/// How long the database may take to say what became of a rollback.
const ROLLBACK: Duration = Duration::from_secs(5);
/// How long a dead_letter may go on when nobody has time for it any more.
const LAST_DEAD_LETTER: Duration = Duration::from_secs(5);
/// How often the database may be lost under a message's handler at no cost. One that loses it each time may be the cause.
const LOSSES_FREE: u32 = 3;

/// What all messages of a consumer share.
#[derive(Debug)]
pub(crate) struct Works<I, T, F, H> {
    pub(crate) name: String,
    pub(crate) options: ConsumerOptions,
    pub(crate) inbox: I,
    pub(crate) transactions: T,
    pub(crate) subscription: F,
    pub(crate) handler: H,
}

/// What came of one try.
pub(crate) enum Tried {
    /// The effect is committed, now or long ago.
    Done,
    /// The handler failed, and nothing of it is left.
    Failed(Failure),
    /// Something it needs is not there: no try.
    Away(Failure),
    /// The database was lost under the handler, whose word this is: no try, for some time.
    Lost(Failure),
}

impl<I, T, F, H> Works<I, T, F, H>
where
    I: Inbox<T::Tx> + 'static,
    T: Transactions + 'static,
    F: Subscription,
    H: Handler<T::Tx>,
{
    /// Sees a message through. When `gone` resolves, what runs is finished and nothing new is begun.
    pub(crate) async fn see_through(
        self: Arc<Self>,
        message: Result<Message, Failure>,
        ticket: F::Ticket,
        gone: CancellationToken,
    ) {
        let (message, mut failures, mut outages, mut losses) = match message {
            Ok(message) => (message, 0, 0, 0),
            Err(failure) => return self.publish_dead_letter(None, ticket, failure, 0, &gone).await,
        };
        loop {
            if gone.is_cancelled() {
                return self.subscription.release(ticket).await;
            }
            let delay = match self.try_once(&message, &gone).await {
                None => return self.subscription.release(ticket).await,
                Some(Tried::Done) => return self.subscription.ack(&ticket).await,
                Some(Tried::Away(failure)) => {
                    outages += 1;
                    self.wait_out(&message, &failure, outages)
                }
                Some(Tried::Lost(failure)) if losses < LOSSES_FREE => {
                    (outages, losses) = (outages + 1, losses + 1);
                    self.wait_out(&message, &failure, outages)
                }
                Some(Tried::Failed(failure) | Tried::Lost(failure)) => {
                    (failures, outages) = (failures + 1, 0);
                    self.say(&message, failures, &failure);
                    if failure.kind == FailureKind::Permanent || self.options.retry.exhausted(failures) {
                        return self.publish_dead_letter(Some(&message), ticket, failure, failures, &gone).await;
                    }
                    failure.retry_after.unwrap_or_else(|| self.options.retry.delay(failures, fastrand::f64()))
                }
            };
            tokio::select! {
                () = sleep(delay) => {}
                () = gone.cancelled() => {}
            }
        }
    }

    /// One transaction; `None` when it was over before it began.
    async fn try_once(&self, message: &Message, gone: &CancellationToken) -> Option<Tried> {
        let begun = tokio::select! {
            begun = timeout(self.options.timeout, self.transactions.begin()) => begun,
            () = gone.cancelled() => return None,
        };
        let mut tx = match begun {
            Ok(Ok(tx)) => tx,
            Ok(Err(error)) => return Some(Tried::Away(away(&error))),
            Err(_) => return Some(Tried::Away(self.silent("a new transaction"))),
        };
        match timeout(self.options.timeout, self.inbox.accept(&mut tx, &self.name, &message.id)).await {
            Ok(Ok(Acceptance::New)) => {}
            Ok(Ok(Acceptance::Duplicate)) => {
                // Nothing was changed, so it does not matter what becomes of it.
                drop(tx);
                meter::accepted(&self.name, message, Acceptance::Duplicate);
                return Some(Tried::Done);
            }
            // The name was looked at before: it is the id that this inbox cannot have.
            Ok(Err(error)) if error.kind == StoreErrorKind::Invalid => {
                return Some(Tried::Failed(Failure::permanent("consumer.id", chain(&error))));
            }
            Ok(Err(error)) => return Some(Tried::Away(away(&error))),
            Err(_) => return Some(Tried::Away(self.silent("the inbox"))),
        }
        let tried = trace::process(&self.name, message, self.work(tx, message)).await;
        if matches!(tried, Tried::Done) {
            meter::accepted(&self.name, message, Acceptance::New);
        }
        Some(tried)
    }

    /// The handler, and what becomes of the transaction.
    async fn work(&self, mut tx: T::Tx, message: &Message) -> Tried {
        // The call is inside the future, so that a panic before its first await is caught too.
        let run = AssertUnwindSafe(async { self.handler.handle(&mut tx, message).await }).catch_unwind();
        let failure = match timeout(self.options.timeout, run).await {
            Ok(Ok(Ok(()))) => return self.commit(tx).await,
            Ok(Ok(Err(failure))) => failure,
            // It may hang in the middle of a statement: dropped, the transaction is rolled back by itself.
            // What it said may quote the payload; the panic hook has it.
            Ok(Err(_)) => return Tried::Failed(Failure::transient("handler.panicked", "the handler panicked")),
            Err(_) => return Tried::Failed(Failure::transient("handler.timeout", self.too_slow("the handler"))),
        };
        let rolled_back = timeout(ROLLBACK, self.transactions.rollback(tx)).await;
        match rolled_back {
            _ if failure.kind.is_outage() || failure.kind == FailureKind::NotYet => Tried::Away(failure),
            _ if failure.kind == FailureKind::Permanent => Tried::Failed(failure),
            Ok(Ok(())) => Tried::Failed(failure),
            Ok(Err(_)) | Err(_) => Tried::Lost(failure),
        }
    }

    async fn commit(&self, tx: T::Tx) -> Tried {
        use StoreErrorKind as K;
        // Tried again, it is found to be a duplicate if it happened.
        let Ok(committed) = timeout(self.options.timeout, self.transactions.commit(tx)).await else {
            return Tried::Away(self.silent("the commit"));
        };
        match committed {
            Ok(()) => Tried::Done,
            Err(error)
                if matches!(
                    error.kind,
                    K::Unreachable | K::Busy | K::StorageFull | K::CommitUnknown | K::PermissionDenied
                ) =>
            {
                Tried::Away(away(&error))
            }
            // What the handler has done cannot be committed, for instance against a deferred constraint.
            Err(error) => Tried::Failed(Failure::transient("consumer.commit", chain(&error))),
        }
    }

    /// Until it is where dead ones are: it is never acknowledged before.
    async fn publish_dead_letter(
        &self,
        message: Option<&Message>,
        ticket: F::Ticket,
        failure: Failure,
        attempts: u32,
        gone: &CancellationToken,
    ) {
        let event_id = message.map_or("", |message| &message.id);
        let dead_letter = DeadLetterCause { failure, attempts, at: Timestamp::now() };
        let mut tries = 0;
        while !gone.is_cancelled() {
            let published = tokio::select! {
                published = self.subscription.publish_dead_letter(&ticket, &self.name, &dead_letter) => published,
                // Whoever gets it next takes_dead_letters it, perhaps a second time.
                () = async { gone.cancelled().await; sleep(LAST_DEAD_LETTER).await } => break,
            };
            let Err(refused) = published else {
                tracing::error!(
                    target: LOG, consumer = self.name, event_id, attempts, code = &*dead_letter.failure.code,
                    error = dead_letter.failure.error, "message became a dead message"
                );
                return;
            };
            tries += 1;
            tracing::warn!(
                target: LOG, consumer = self.name, event_id, code = &*refused.code, error = refused.error,
                "dead message cannot be published; it is kept"
            );
            tokio::select! {
                () = sleep(pause(tries)) => {}
                () = gone.cancelled() => {}
            }
        }
        self.subscription.release(ticket).await;
    }

    /// The database has not answered.
    fn silent(&self, what: &str) -> Failure {
        Failure::unavailable("consumer.database", self.too_slow(what))
    }

    fn too_slow(&self, who: &str) -> String {
        format!("{who} was not done after {}", units::format_duration(self.options.timeout))
    }

    /// How long to leave it alone.
    fn wait_out(&self, message: &Message, failure: &Failure, outages: u32) -> Duration {
        tracing::warn!(
            target: LOG, consumer = self.name, event_id = message.id, code = &*failure.code, error = failure.error,
            "consumer paused: a server is not reachable"
        );
        failure.retry_after.unwrap_or_else(|| pause(outages))
    }

    fn say(&self, message: &Message, attempt: u32, failure: &Failure) {
        tracing::warn!(
            target: LOG, consumer = self.name, event_id = message.id, event_type = message.event_type, attempt,
            code = &*failure.code, error = failure.error, "handler failed"
        );
    }
}

fn away(error: &StoreError) -> Failure {
    Failure::unavailable("consumer.database", chain(error))
}

/// The error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
