//! What commands, API and console ask of a store: five small contracts, so that every command works on every store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use postroom_core::view::Pruned;
use postroom_core::{Actor, DeliveryState, Event, Pattern, Retention, RouteSpec, Store, StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};

use crate::replay::{ReplayChange, ReplayOrder};
use crate::token::{NewToken, TokenRow};
use crate::view::{
    Affected, AppendedRow, AuditRow, BlockedKey, Contents, DeliveryGroup, DeliveryRow, Erased, EventRow, InboxCursor,
    InboxRow, KeyCursor, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, ThroughputRow, Timeline,
    VerifyRow,
};

/// Header that an event without its payload has; its value is the time of the erasure.
pub const ERASED_HEADER: &str = "postroom-erased";

/// The error that payloads cannot be erased before their events are delivered.
pub fn undelivered_payloads(preview: &Erased) -> StoreError {
    let Erased { key, events, undelivered, .. } = preview;
    let message = format!("{undelivered} of {events} events of key {key:?} are not delivered yet");
    StoreError::new(StoreErrorKind::Conflict, "erase", message)
        .hint("wait until every route has delivered them, or say that they may be sent without their payloads: `--undelivered`, `undelivered=true`")
}

/// Selection of events or deliveries; every given field must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// Ids of the events; empty matches any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Event type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<Pattern>,
    /// Aggregate type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_type: Option<String>,
    /// Ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Name of the route; for deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Code of the last failure; for deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Earliest time of occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Time of occurrence before which events must lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Time by which deliveries were in their state: those that died after a preview are not meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died_by: Option<Timestamp>,
}

impl Selection {
    /// Reports whether an event matches; the caller checks route and code.
    pub fn fits(&self, event: &Event) -> bool {
        (self.ids.is_empty() || self.ids.contains(&event.id))
            && self.event_type.as_ref().is_none_or(|p| p.matches(&event.event_type))
            && self.aggregate_type.as_ref().is_none_or(|a| event.aggregate_type.as_ref() == Some(a))
            && self.key.as_deref().is_none_or(|k| event.ordering_key() == Some(k))
            && self.tenant.as_ref().is_none_or(|t| event.tenant.as_ref() == Some(t))
            && self.from.is_none_or(|t| event.occurred_at >= t)
            && self.to.is_none_or(|t| event.occurred_at < t)
    }

    /// Describes the selection as one line of JSON, for the audit log and for replays, which read it back.
    pub fn describe(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Parses the text of [`Selection::describe`].
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

/// Page of a list, by position and never by an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Newest first, before this position.
    Newest {
        /// Exclusive; `None` starts at the end.
        before: Option<i64>,
        /// Exclusive; 0 ends at the beginning.
        above: i64,
        /// Most rows.
        limit: usize,
    },
    /// Oldest first, after this position.
    Oldest {
        /// Exclusive; 0 starts at the beginning.
        after: i64,
        /// Most rows.
        limit: usize,
    },
}

/// Maximum number of deliveries that are grouped; more would take seconds.
pub const GROUPED_MAX: u64 = 100_000;

/// Store with an admin interface, as commands, API and console open it.
pub trait ManagedStore: Store {
    /// Returns the admin interface.
    fn admin(&self) -> Arc<dyn Admin>;
}

/// Forwards every method.
#[deny(clippy::missing_trait_methods)]
impl<S: ManagedStore + ?Sized> ManagedStore for Arc<S> {
    fn admin(&self) -> Arc<dyn Admin> {
        (**self).admin()
    }
}

/// Admin interface of a store, for commands, API and console. Needs no relay.
pub trait Admin: Inspect + Operate + Replays + Access + Verify {}

impl<A: Inspect + Operate + Replays + Access + Verify + ?Sized> Admin for A {}

/// Inspection of a store.
#[async_trait]
pub trait Inspect: Send + Sync {
    /// Lists events of the log.
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError>;
    /// Returns the timeline of an event; the payload only on request.
    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError>;
    /// Returns the contents of events of a list by their positions, the payloads only on request. Events that are gone
    /// meanwhile are left out.
    ///
    /// Asks for one event after the other; a store that can read many at once does so.
    async fn contents(&self, rows: &[EventRow], with_payload: bool) -> Result<BTreeMap<i64, Contents>, StoreError> {
        let mut contents = BTreeMap::new();
        for row in rows {
            let found = self.event(&row.id, with_payload).await?;
            // Another event may have the same id.
            if let Some(found) = found.filter(|found| found.event.position == row.position) {
                contents.insert(row.position, found.into());
            }
        }
        Ok(contents)
    }
    /// Lists registered routes. A route that no live relay serves is an orphan.
    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError>;
    /// Lists relays that have registered and were not forgotten.
    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError>;
    /// Describes the store.
    async fn store(&self) -> Result<StoreRow, StoreError>;
    /// Lists deliveries in one of these states after this position, oldest first; also of events that a route has not read yet.
    async fn deliveries(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        after: i64,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>, StoreError>;
    /// Groups the newest [`GROUPED_MAX`] deliveries in one of these states by what failed, the largest group first: by route,
    /// state, code and error, without the numbers and names in it. Events that a route has not read yet have not failed.
    async fn delivery_groups(
        &self,
        states: &[DeliveryState],
        which: &Selection,
        limit: usize,
    ) -> Result<Vec<DeliveryGroup>, StoreError>;
    /// Lists dead letters after this position, oldest first.
    async fn dead(&self, which: &Selection, after: i64, limit: usize) -> Result<Vec<DeliveryRow>, StoreError> {
        self.deliveries(&[DeliveryState::Dead], which, after, limit).await
    }
    /// Groups dead letters by what failed, the largest group first.
    async fn dead_groups(&self, which: &Selection, limit: usize) -> Result<Vec<DeliveryGroup>, StoreError> {
        self.delivery_groups(&[DeliveryState::Dead], which, limit).await
    }
    /// Counts the events that were appended since `from`, by intervals of this length.
    async fn appended(&self, from: Timestamp, interval: Duration) -> Result<Vec<AppendedRow>, StoreError>;
    /// Lists blocked keys after a cursor, in the order of the events that block them.
    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyCursor>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError>;
    /// Lists acceptances after a cursor, largest ids first; ids made by Postroom grow with time.
    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxCursor>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError>;
}

/// Returns the idempotency key under which [`Operate::append_once`] appends an event: none that an application would choose.
pub fn once_key(id: &str) -> String {
    format!("id:{id}")
}

/// Operations on a store by an operator.
#[async_trait]
pub trait Operate: Send + Sync {
    /// Appends events in one transaction, and returns their ids in order.
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError>;
    /// The same without the events whose ids an earlier call of this function has appended; returns the ids of the others.
    async fn append_once(&self, events: &[Event]) -> Result<Vec<String>, StoreError>;
    /// Registers routes that do not exist yet, without serving them, and returns the names of the new ones.
    async fn register(&self, routes: &[RouteSpec]) -> Result<Vec<String>, StoreError>;
    /// Pauses a route; returns whether that changed anything. [`postroom_core::StoreErrorKind::NotFound`] if it is not registered.
    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Resumes a route; returns whether that changed anything.
    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Asks the relays of a route to try its destination now, if its breaker is open; returns whether that may help: a paused
    /// route tries nothing.
    async fn probe(&self, route: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Renames a route, with its position, deliveries, dead letters and receipts. Refused while a live relay serves it, while a
    /// replay is not finished, and if a route has the new name already.
    async fn rename(&self, route: &str, to: &str, actor: &Actor) -> Result<(), StoreError>;
    /// Removes a route with its position and deliveries. Refused while a live relay serves it.
    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError>;
    /// Discards dead letters; their keys go on.
    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError>;
    /// Lets the later events of a key overtake its head, which keeps its own retries; returns how many events were waiting.
    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError>;
    /// Gives the head of a key up and lets the key go on; returns the head's event id. A head that only has its turn and never
    /// failed is not given up: [`postroom_core::StoreErrorKind::NotFound`].
    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError>;
    /// Forgets an acceptance, so that the consumer processes the event again; returns whether there was one.
    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Writes down that the actor is about to be shown payloads: which action, and of what.
    async fn note_payloads(&self, action: &'static str, subject: &str, actor: &Actor) -> Result<(), StoreError>;
    /// Erases the payloads and headers of a key's events and dead letters, and keeps the events with their ids and counts; `dry_run`
    /// counts them. [`postroom_core::StoreErrorKind::Conflict`] while a route has one of them to deliver, unless `undelivered`.
    async fn erase_payloads(
        &self,
        key: &str,
        undelivered: bool,
        dry_run: bool,
        actor: &Actor,
    ) -> Result<Erased, StoreError>;
}

/// Replays of events.
#[async_trait]
pub trait Replays: Send + Sync {
    /// Counts what a replay would make due: settled events on the routes that want them (or the one selected), or dead
    /// letters; and how many of them are older than the inbox remembers.
    async fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
    ) -> Result<Affected, StoreError>;
    /// Creates a replay of events that are settled or dead now, with the same ids. [`Replays::step_replay`] carries it out.
    async fn start_replay(&self, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError>;
    /// Makes the next deliveries of a running replay due: `at_most` so many, and no more than its rate allows by now.
    ///
    /// One transaction, which expects that the replay stands where it was found. So several may work on one, and nothing
    /// is made due twice, or after a pause or a cancellation has returned. One that is not running stays as it is.
    async fn step_replay(&self, id: &str, at_most: u64) -> Result<ReplayRow, StoreError>;
    /// Lists replays in a state, or all, newest first. What became of the deliveries of running ones, asked for by that state, is
    /// not counted: relays ask every second.
    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError>;
    /// Returns a replay.
    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError>;
    /// Pauses, resumes or cancels a replay; returns whether that changed anything. What was made due stays due.
    /// [`postroom_core::StoreErrorKind::NotFound`] if it is not there, [`postroom_core::StoreErrorKind::Conflict`] if it has ended.
    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError>;
}

/// Tokens and the audit log of a store.
#[async_trait]
pub trait Access: Send + Sync {
    /// Lists tokens by name, without their secrets; revoked ones too.
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError>;
    /// Adds a token. [`postroom_core::StoreErrorKind::Conflict`] if its name is taken.
    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError>;
    /// Revokes a token, which stays in the list. [`postroom_core::StoreErrorKind::NotFound`] if no token that is not revoked
    /// has this name.
    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError>;
    /// Replaces the secret of a token, and accepts the previous one for `keep`.
    /// [`postroom_core::StoreErrorKind::NotFound`] if no token that is not revoked has this name.
    async fn rotate_token(&self, name: &str, hash: &str, keep: Duration, actor: &Actor)
    -> Result<TokenRow, StoreError>;
    /// Records that a token is used now.
    async fn token_used(&self, name: &str) -> Result<(), StoreError>;
    /// Lists operator actions before the one of this number, or all, newest first.
    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, StoreError>;
}

/// Counts of a store, and its retention.
#[async_trait]
pub trait Verify: Send + Sync {
    /// Proves by counting, per route and lane, that no event was lost.
    async fn verify(&self) -> Result<Vec<VerifyRow>, StoreError>;
    /// Lists the throughput of a route, or of all routes, per minute since `from`, for the last day, in order of routes and time.
    async fn throughput(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<ThroughputRow>, StoreError>;
    /// Removes rows that are older than the retention; `dry_run` counts them.
    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError>;
}
