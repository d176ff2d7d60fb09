//! The words, states and contracts of Postroom; no database, no network.
//!
//! A producer **appends** an [`Event`] through an [`Outbox`]; a relay takes it from a [`Source`], **delivers** it through
//! a [`Transport`] and settles the [`Verdict`]; a consumer **accepts** it in an [`Inbox`], in one of its [`Transactions`]. People look and act through
//! a [`Desk`]. Stores implement [`Store`], [`Source`], [`Desk`], [`Outbox`] and [`Inbox`]; every arrow points here.

mod breaker;
mod clock;
pub mod codes;
mod contract;
mod correlation;
mod delivery;
mod desk;
pub mod driver;
pub mod envelope;
mod error;
mod event;
mod failure;
pub mod faults;
mod guard;
mod inbox;
mod lanes;
mod limits;
mod matching;
pub mod metrics;
mod outbox;
mod ranges;
mod replay;
mod retry;
mod route;
mod secret;
mod source;
mod store;
mod template;
mod token;
mod trace;
mod transactions;
mod transport;
pub mod units;
mod upkeep;
pub mod view;
mod wake;
pub mod window;
pub mod worker;

pub use breaker::{Breaker, BreakerCounts, BreakerPolicy, Phase, RETRY_AFTER_MAX};
pub use clock::Clock;
pub use contract::Contract;
pub use correlation::with_correlation_id;
pub use delivery::{Delivery, DeliveryState, LaneTerm, Settlement, Verdict, verdict};
pub use desk::{Actor, DEAD_GROUPED_MAX, Desk, Page, Retention, Selection};
pub use error::{StoreError, StoreErrorKind};
pub use event::{Event, JSON, ToEvent, new_id};
pub use failure::{ERROR_BYTES_MAX, Failure, FailureKind, HandlerError};
pub use guard::{Refusal, States, Step, Transitions};
pub use inbox::{Acceptance, CONSUMER_BYTES_MAX, Inbox};
pub use jiff::Timestamp;
pub use lanes::share_lanes;
pub use limits::{EventError, HEADER_BYTES_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, Limits, NAME_BYTES_MAX};
pub use matching::{Filter, Pattern, PatternError};
pub use outbox::Outbox;
pub use ranges::Ranges;
pub use replay::{Pace, REPLAY_STEP, ReplayChange, ReplayOrder, check_selection, no_replay, replay_at_once};
pub use retry::{Delays, RetryPolicy};
pub use route::{OnDead, OnFailure, RouteDefinition, RouteHealth, RouteState, Start, disabled_by, valid_name};
pub use secret::{Secret, SecretUrl};
pub use source::{Budget, Lease, Source, Standing, Take};
pub use store::{RelayIdentity, Schema, SchemaStatus, SchemaStep, Store};
pub use template::{Template, TemplateError};
pub use token::{NewToken, Role, TokenRow};
pub use trace::{TRACEPARENT, TRACESTATE, TraceParent};
pub use transactions::Transactions;
pub use transport::{Burial, Capabilities, Finding, Outbound, Outcome, Receipt, Stage, Transport};
pub use upkeep::Upkeep;
pub use wake::{Appended, Ear, Wake};
