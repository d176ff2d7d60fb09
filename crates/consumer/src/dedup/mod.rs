//! A consumer's memory of ids for as long as it lasts: for consumers without a database.
//!
//! An [`Inbox`](postroom_core::Inbox) commits the acceptance together with the effect. Here there is no transaction, so a claim is
//! taken **before** the effect and confirmed **after** it, and both ends are open:
//!
//! - copies that come while one is being worked on, or after it was confirmed, are held back or dropped: that is the
//!   common case, and it holds as long as the window is remembered;
//! - a consumer that dies **between effect and confirmation** leaves a claim that ends by itself; then the next copy
//!   does the effect a second time. So does an effect that takes longer than its claim;
//! - what is remembered can be lost as a whole: with the process (in memory), or with the server (Redis).
//!
//! Effects happen at least once, and rarely more often. Where "rarely" is not enough, put the effect and an inbox into one
//! database, or give the receiver the event's id as its own idempotency key.
//!
//! A window that is shorter than the time in which an event may come again forgets too early. It is not built, unless that
//! is [allowed by name](DedupWindowOptions::allow_shorter_than_retries).

mod memory;
mod options;

use std::future::Future;
use std::time::Duration;

pub use memory::MemoryDedupWindow;
pub use options::{DedupWindowError, DedupWindowOptions};

use postroom_core::{CONSUMER_BYTES_MAX, Failure, ID_BYTES_MAX, units};

/// Result of claiming an event.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "do the work only with a ticket"]
pub enum DedupClaim {
    /// Do the work, then confirm or release.
    New(DedupTicket),
    /// Somebody is working on it, for at most so long from now.
    Held(Duration),
    /// The event was processed before: acknowledge and go on.
    Duplicate,
}

/// Claim on an event. If dropped, it ends when its time is over.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "confirm it after the effect, or release it"]
pub struct DedupTicket {
    /// Name of the consumer.
    pub consumer: String,
    /// Id of the event.
    pub id: String,
    /// Token that distinguishes this claim from later ones.
    pub token: String,
}

/// Result of confirming a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a late confirmation means that the effect may have happened twice"]
pub enum Confirmation {
    /// The claim was still valid: no other consumer did the work.
    InTime,
    /// The claim had ended: another consumer may have done the work, too. The event is remembered now.
    Late,
}

/// Deduplication window, which remembers event ids for a while.
pub trait DedupWindow: Send + Sync {
    /// Claims the event for the consumer, unless it is claimed or done.
    fn claim(&self, consumer: &str, id: &str) -> impl Future<Output = Result<DedupClaim, Failure>> + Send;

    /// Says that the effect is there: copies are duplicates for the length of the window.
    fn confirm(&self, ticket: DedupTicket) -> impl Future<Output = Result<Confirmation, Failure>> + Send;

    /// Says that there was no effect: the next copy is new.
    fn release(&self, ticket: DedupTicket) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Outcome of an effect.
#[derive(Debug, PartialEq, Eq)]
pub enum DedupOutcome {
    /// The effect happened now.
    Done,
    /// The effect happened now, and perhaps more than once, or it is not remembered, for this reason.
    Doubtful(Failure),
    /// The effect had happened before.
    Duplicate,
}

/// Claims an event, runs the effect, and confirms; an effect that fails releases its claim.
///
/// While somebody else works on the event, this is the failure `window.held`, to be tried again when that claim is over.
/// Dropped half-way it leaves the claim behind, because nobody knows how far the effect got.
pub async fn run_once<W: DedupWindow, E: Into<Failure>>(
    window: &W,
    consumer: &str,
    id: &str,
    effect: impl Future<Output = Result<(), E>>,
) -> Result<DedupOutcome, Failure> {
    let ticket = match window.claim(consumer, id).await? {
        DedupClaim::New(ticket) => ticket,
        DedupClaim::Duplicate => return Ok(DedupOutcome::Duplicate),
        DedupClaim::Held(left) => {
            let error = format!("{consumer} is working on it, for at most {}", units::format_duration(left));
            return Err(Failure::transient("dedup.held", error).retry_after(left));
        }
    };
    if let Err(error) = effect.await {
        // If even that fails, the claim ends by itself; the effect's own words matter more.
        let _ = window.release(ticket).await;
        return Err(error.into());
    }
    // The effect is there: an error now must not bring the event again.
    Ok(match window.confirm(ticket).await {
        Ok(Confirmation::InTime) => DedupOutcome::Done,
        Ok(Confirmation::Late) => DedupOutcome::Doubtful(Failure::transient(
            "dedup.late",
            "the effect took longer than its claim; another consumer may have done it too",
        )),
        Err(failure) => DedupOutcome::Doubtful(failure),
    })
}

/// Checks that a window can remember this consumer and id.
pub fn check(consumer: &str, id: &str) -> Result<(), Failure> {
    for (what, value, limit) in [("consumer", consumer, CONSUMER_BYTES_MAX), ("event id", id, ID_BYTES_MAX)] {
        if value.is_empty() || value.len() > limit {
            let error = format!("the {what} is {} bytes, it must be 1 to {limit}", value.len());
            return Err(Failure::permanent("dedup.invalid", error));
        }
    }
    Ok(())
}
