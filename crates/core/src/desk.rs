//! What commands, API and console ask of a store: one contract, so that every command works on every store.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::event::Event;
use crate::matching::Pattern;
use crate::replay::{ReplayChange, ReplayOrder};
use crate::route::RouteDefinition;
use crate::token::{NewToken, TokenRow};
use crate::view::{
    ActionRow, Affected, AuditRow, BlockedKey, DeadGroup, DeliveryRow, EventRow, InboxPlace, InboxRow, KeyPlace,
    MinuteRow, Pruned, RelayRow, ReplayKind, ReplayRow, ReplayState, RouteDetail, StoreRow, Timeline,
};

/// Who does it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// Who.
    pub name: String,
    /// Why, if they say.
    pub reason: Option<String>,
}

/// Which events or deliveries; every part that is given must fit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// These ids; empty is any.
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
    /// Route; for deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Code of the last failure; for deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Occurred at that time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Occurred before that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

impl Selection {
    /// Whether an event fits; route and code are the caller's to check.
    pub fn fits(&self, event: &Event) -> bool {
        (self.ids.is_empty() || self.ids.contains(&event.id))
            && self.event_type.as_ref().is_none_or(|p| p.matches(&event.event_type))
            && self.aggregate_type.as_ref().is_none_or(|a| event.aggregate_type.as_ref() == Some(a))
            && self.key.as_deref().is_none_or(|k| event.ordering_key() == Some(k))
            && self.tenant.as_ref().is_none_or(|t| event.tenant.as_ref() == Some(t))
            && self.from.is_none_or(|t| event.occurred_at >= t)
            && self.to.is_none_or(|t| event.occurred_at < t)
    }

    /// The selection as one line of JSON, for the audit and for replays, which read it back.
    pub fn describe(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// What [`Selection::describe`] said.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

/// A stretch of a list, by position: never by counting from the start.
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

/// How long things are kept. `None` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events every route is done with. Defaults to 7 days.
    pub delivered: Option<Duration>,
    /// Failed tries of deliveries that are done, and receipts. Defaults to 7 days.
    pub attempts: Option<Duration>,
    /// Acceptances, and words of `append_once`. Defaults to 14 days.
    pub inbox: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |n: u64| Some(Duration::from_secs(n * 86_400));
        Self { delivered: days(7), attempts: days(7), inbox: days(14) }
    }
}

/// Most dead letters that are sorted into groups: what more there are would take seconds, and say the same.
pub const DEAD_GROUPED_MAX: u64 = 100_000;

/// Looks at a store and acts on it for an operator. Needs no relay.
#[async_trait]
pub trait Desk: Send + Sync {
    /// Appends events in one transaction; returns their ids in order.
    async fn append(&self, events: &[Event]) -> Result<Vec<String>, StoreError>;

    /// Events of the log.
    async fn events(&self, which: &Selection, page: Page) -> Result<Vec<EventRow>, StoreError>;
    /// Everything known of one event; the payload only when asked for.
    async fn event(&self, id: &str, with_payload: bool) -> Result<Option<Timeline>, StoreError>;

    /// Registers routes that are not there yet, without serving them. Returns the names that were new.
    async fn register(&self, routes: &[RouteDefinition]) -> Result<Vec<String>, StoreError>;
    /// Every registered route. A route that no live relay serves is an orphan.
    async fn routes(&self) -> Result<Vec<RouteDetail>, StoreError>;
    /// What one route or every route did per minute since `from`, for the last day; in order of routes and time.
    async fn minutes(&self, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError>;
    /// Every relay that has joined and not been forgotten.
    async fn relays(&self) -> Result<Vec<RelayRow>, StoreError>;
    /// What is in the store.
    async fn store(&self) -> Result<StoreRow, StoreError>;

    /// Stops a route; says whether that changed anything. [`crate::StoreErrorKind::NotFound`] if it is not registered.
    async fn pause(&self, route: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Lets a route go on.
    async fn resume(&self, route: &str, actor: &Actor) -> Result<bool, StoreError>;
    /// Removes a route with its position and deliveries. Refused while a live relay serves it.
    async fn forget(&self, route: &str, actor: &Actor) -> Result<(), StoreError>;

    /// Dead letters, oldest first, after this position.
    async fn dead(&self, which: &Selection, after: i64, limit: usize) -> Result<Vec<DeliveryRow>, StoreError>;
    /// Dead letters by route, code and type, the largest group first; of the newest [`DEAD_GROUPED_MAX`].
    async fn dead_groups(&self, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError>;
    /// Removes dead letters; their keys go on.
    async fn discard_dead(&self, which: &Selection, dry_run: bool, actor: &Actor) -> Result<Affected, StoreError>;

    /// Counts what a replay would make due: settled events on the routes that want them (or the one selected), or dead
    /// letters; and how many of them are older than the inbox remembers.
    async fn preview_replay(
        &self,
        what: ReplayKind,
        which: &Selection,
        inbox_window: Option<Duration>,
    ) -> Result<Affected, StoreError>;
    /// Writes down that so much is to be sent again, with the same ids. [`Desk::step_replay`] does it.
    ///
    /// It is about what is settled or dead now: what comes later is not sent again.
    async fn start_replay(&self, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError>;
    /// Makes the next deliveries of a running replay due: `at_most` so many, and no more than its rate allows by now.
    ///
    /// One transaction, which expects that the replay stands where it was found. So several may work on one, and nothing
    /// is made due twice, or after a pause or a cancellation has returned. One that is not running stays as it is.
    async fn step_replay(&self, id: &str, at_most: u64) -> Result<ReplayRow, StoreError>;
    /// Replays in a state, or all, newest first.
    async fn replays(&self, state: Option<ReplayState>, limit: usize) -> Result<Vec<ReplayRow>, StoreError>;
    /// One replay.
    async fn replay(&self, id: &str) -> Result<Option<ReplayRow>, StoreError>;
    /// Pauses, resumes or cancels a replay; says whether that changed anything. What was made due stays due.
    /// [`crate::StoreErrorKind::NotFound`] if it is not there, [`crate::StoreErrorKind::Conflict`] if it has ended.
    async fn change_replay(&self, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError>;

    /// Keys with events waiting behind an earlier one, after that one, in the order of the events they wait behind.
    async fn blocked_keys(
        &self,
        route: Option<&str>,
        after: Option<&KeyPlace>,
        limit: usize,
    ) -> Result<Vec<BlockedKey>, StoreError>;
    /// Lets the key go on while its head keeps its own retries. Returns how many were waiting.
    async fn unblock(&self, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError>;
    /// Gives the head of the key up and lets the key go on. Returns the head's event id. A head that only has its turn and
    /// never failed is not given up: [`crate::StoreErrorKind::NotFound`].
    async fn skip_head(&self, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError>;

    /// Acceptances after that one, the greatest ids first: ours grow with time.
    async fn inbox(
        &self,
        consumer: Option<&str>,
        id: Option<&str>,
        after: Option<&InboxPlace>,
        limit: usize,
    ) -> Result<Vec<InboxRow>, StoreError>;

    /// Forgets an acceptance, so that the consumer does the work of this event once more; says whether there was one.
    async fn forget_inbox(&self, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError>;

    /// Proves by counting that nothing was lost.
    async fn audit(&self) -> Result<Vec<AuditRow>, StoreError>;
    /// Operator actions, newest first: those before the one of this number, or all.
    async fn actions(&self, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError>;
    /// Who may ask over HTTP; also tokens that have ended.
    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError>;
    /// Lets somebody ask over HTTP. A name that is taken is a [`crate::StoreErrorKind::Conflict`].
    async fn add_token(&self, token: &NewToken, actor: &Actor) -> Result<TokenRow, StoreError>;
    /// Ends a token; [`crate::StoreErrorKind::NotFound`] if there is none of that name.
    async fn revoke_token(&self, name: &str, actor: &Actor) -> Result<(), StoreError>;

    /// Applies retention; counts only when `dry_run`.
    async fn prune(&self, retention: &Retention, dry_run: bool) -> Result<Pruned, StoreError>;
}
