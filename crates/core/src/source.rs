//! Where deliveries come from: the engine's one view of a native log or an adopted table.

use std::time::Duration;

use async_trait::async_trait;

use crate::delivery::{Delivery, LaneTerm, Settlement};
use crate::error::StoreError;
use crate::route::RouteHealth;
use crate::wake::Ear;

/// How much a take may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Most deliveries.
    pub rows: usize,
    /// Most bytes; a first delivery larger than this still comes, alone.
    pub bytes: usize,
}

/// One route of one store, as one relay sees it.
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
    /// Hands out what is due, within the budget; acquires free lanes on the way. Empty when there is nothing, when the
    /// route is paused, or when other relays own all lanes.
    async fn take(&self, budget: Budget) -> Result<Take, StoreError>;

    /// Makes verdicts durable; when it returns, a crash no longer repeats those deliveries.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Standing, StoreError>;

    /// Says that this relay lives, and how the route is doing. Counts from the start of the call.
    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError>;

    /// Gives all lanes up, so that another relay may take them at once. What was handed out and not settled is theirs.
    async fn release(&self) -> Result<(), StoreError>;

    /// Told before the first take: what one fault may repeat of this route. A source whose verdicts become durable only together
    /// has no more than this in the engine's hands.
    fn bound(&self, _deliveries: usize) {}

    /// Hints that a take may bring something.
    fn ear(&self) -> Ear;

    /// Asks the source to look by itself, this often, and to wake its ear when a take may bring something. Asked after a take
    /// that brought nothing; the next take ends it, and so does time: ask again with a take every few seconds. `false` when it does
    /// not, and the caller has to look at its own pace.
    fn watch(&self, _every: Duration) -> bool {
        false
    }
}

/// What a take brought.
#[derive(Debug, Clone, Default)]
pub struct Take {
    /// The deliveries, in append order per key.
    pub deliveries: Vec<Delivery>,
    /// Whether another take at once would probably bring more.
    pub more: bool,
    /// How long until something known becomes due, if anything is waiting for its time.
    pub next_due: Option<Duration>,
    /// Whether something of this route is retrying, or waits behind such a one: a drain is not done yet.
    pub retrying: bool,
    /// How many lanes this take got from relays that had not given them up.
    pub taken_over: usize,
    /// What the relay must know of its ownership.
    pub standing: Standing,
}

/// What a relay must know of its ownership of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// An operator paused the route: hand over nothing new.
    pub paused: bool,
    /// How many lanes of this route the relay owns now; 0 is a standby.
    pub lanes: usize,
    /// Lanes that are no longer ours: drop what is held of them; their settles are void.
    pub lost: Vec<LaneTerm>,
    /// Lanes we should give up: return what was not handed over, finish the rest. The source releases them when empty.
    pub recalled: Vec<LaneTerm>,
    /// Why nothing moves, when the store refuses to go on: a check failed.
    pub halted: Option<String>,
    /// Which counts differ, when a lane has not seen as many events as there are up to its position: events may have been passed.
    /// Deliveries go on. Said by a renewal.
    pub differs: Option<String>,
}

/// A promise by the database's clock that nobody takes our lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// How long it holds, from the start of the renewing call.
    pub valid_for: Duration,
    /// What else the relay must know.
    pub standing: Standing,
}
