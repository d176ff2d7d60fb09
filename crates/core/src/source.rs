//! Where deliveries come from: the engine's one view of a native log or an adopted table.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::delivery::{Delivery, LaneTerm, Settlement};
use crate::error::StoreError;
use crate::failure::Failure;
use crate::notify::Notified;
use crate::route::RouteHealth;

/// Budget of a take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of deliveries.
    pub rows: usize,
    /// Maximum size in bytes; a first delivery larger than this is taken alone.
    pub bytes: usize,
}

/// Source of the deliveries of one route of one store, for one relay.
///
/// Promises every member keeps, and the engine builds on:
/// - **Complete.** A committed event that the route wants is handed out, or parked and handed out when due, until it is
///   settled as delivered or dead. After a crash, what was not settled is handed out again by whoever owns its lane.
/// - **In order.** Deliveries of one key come in append order. A take that *began* after a `Retry` of key K was settled
///   never brings a later ordered delivery of K until that one is done. A take that overlapped that settle may: the
///   engine gives those back as [`crate::Verdict::Returned`] and they are parked behind the failed one.
///   In a settle, a failure stands before the returns of what waited behind it.
/// - **Fenced.** A settle under a term that is no longer in force changes nothing and reports the lane as lost.
/// - **Repeatable.** A settle that returned an error may or may not have happened; repeating it with the same
///   settlements is harmless.
/// - **Alone.** The engine never runs two takes, two settles, or two renews of one source at the same time, but it does
///   overlap one of each.
#[async_trait]
pub trait Source: Send + Sync {
    /// Takes due deliveries within the budget, and acquires free lanes on the way. Empty if there are none, if the
    /// route is paused, or if other relays own all lanes.
    async fn take(&self, budget: Budget) -> Result<Take, StoreError>;

    /// Makes verdicts durable; after it returns, a crash does not repeat those deliveries.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError>;

    /// Renews the heartbeat of this relay, with the health of the route. Counts from the start of the call.
    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError>;

    /// Releases all lanes, so that another relay may take them at once, with the deliveries that were not settled.
    async fn release(&self) -> Result<(), StoreError>;

    /// Disables the route for every relay because its receiver is gone for good, until an operator resumes it. The
    /// status shows the failure as the reason, and the audit trail has the relay as the actor. A route that is paused
    /// already stays as it is.
    async fn disable(&self, failure: &Failure) -> Result<(), StoreError>;

    /// Reports whether no delivery of the route is due or retrying in any lane, whichever relay owns it. Called at the end
    /// of a drain only, after an empty take.
    async fn is_drained(&self) -> Result<bool, StoreError>;

    /// Sets the number of deliveries of this route that one fault may repeat; called before the first take. A source whose verdicts become
    /// durable only together keeps no more than this in flight.
    fn bound(&self, _deliveries: usize) {}

    /// Reports whether deliveries in the engine's hands keep transactions of the database open. Then the engine returns what it
    /// cannot send for now, and takes nothing while the destination is down.
    fn holds_transactions(&self) -> bool {
        false
    }

    /// Returns a listener to notifications that a take may return deliveries.
    fn notified(&self) -> Notified;

    /// Asks the source to look by itself, this often, and to notify its listener when a take may bring something. Asked after a take
    /// that brought nothing; the next take ends it, and so does time: ask again with a take every few seconds. `false` when it does
    /// not, and the caller has to look at its own pace.
    fn watch(&self, _every: Duration) -> bool {
        false
    }
}

/// Result of a take.
#[derive(Debug, Clone, Default)]
pub struct Take {
    /// Deliveries, in append order per key.
    pub deliveries: Vec<Delivery>,
    /// Whether another take at once would probably return more.
    pub more: bool,
    /// Time until the next known delivery becomes due, if any waits for its time.
    pub next_due: Option<Duration>,
    /// Whether a delivery of this route is retrying, or waits behind one, so that a drain is not done yet.
    pub retrying: bool,
    /// Number of lanes that this take took over from relays that had not released them.
    pub taken_over: usize,
    /// Ownership of the relay.
    pub ownership: Ownership,
}

/// Ownership of a route by a relay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Whether an operator paused the route, so that no new delivery is sent.
    pub paused: bool,
    /// Number of lanes of this route that the relay owns; 0 is a standby.
    pub lanes: usize,
    /// Lanes that the relay has lost: their deliveries are dropped, and their settles have no effect.
    pub lost: Vec<LaneTerm>,
    /// Whether the source gave the lost lanes up itself, because the store was restarted or did not say what became of a write.
    pub given_up: bool,
    /// Lanes that the relay should release: unsent deliveries are returned, the rest is finished. The source releases them when empty.
    pub recalled: Vec<LaneTerm>,
    /// Reason why the store refuses to go on: a check failed.
    pub halted: Option<String>,
    /// Counts that differ, if a lane has not read as many events as there are up to its position: events may have
    /// been passed. Deliveries go on. Reported by a renewal.
    pub differs: Option<String>,
}

/// Lease by the database's clock: no other relay takes the lanes until it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// Validity of the lease, from the start of the renewing call.
    pub valid_for: Duration,
    /// Ownership of the relay.
    pub ownership: Ownership,
    /// Time at which an operator last asked for an attempt at a destination that is down.
    pub probe_asked: Option<Timestamp>,
}
