//! The words, states and contracts of Postroom; no database, no network.
//!
//! A producer **appends** an [`Event`] through an [`Outbox`]; a relay takes it from a [`Source`], **delivers** it through
//! a [`Transport`] and settles the [`Verdict`]; a consumer **accepts** it in an [`Inbox`], in one of its [`Transactions`]. People look and act through
//! a [`Admin`]. Stores implement [`Store`], [`Source`], [`Admin`], [`Outbox`] and [`Inbox`]; every arrow points here.

mod breaker;
mod clock;
pub mod codes;
mod consumers;
mod contract;
mod correlation;
mod delivery;
mod diagnostic;
pub mod envelope;
mod error;
mod event;
mod failure;
pub mod faults;
mod guard;
mod inbox;
mod lanes;
mod limits;
mod loopback;
mod maintenance;
mod matching;
pub mod metrics;
mod notify;
mod outbox;
mod ranges;
mod retry;
mod route;
mod secret;
mod source;
mod store;
mod template;
mod trace;
mod transactions;
mod transport;
pub mod units;
pub mod view;

pub use breaker::{Breaker, BreakerCounts, BreakerPolicy, Phase, RETRY_AFTER_MAX};
pub use clock::Clock;
pub use consumers::{CONSUMERS_MAX, ConsumerLag, ConsumerLags, LagOptions, LagReader};
pub use contract::Contract;
pub use correlation::with_correlation_id;
pub use delivery::{Delivery, DeliveryState, LaneTerm, Settlement, Verdict, verdict};
pub use diagnostic::{Diagnostic, DuplicateWindow, Level};
pub use error::{StoreError, StoreErrorKind};
pub use event::{Event, JSON, ToEvent, new_id, new_ulid};
pub use failure::{ERROR_BYTES_MAX, Failure, FailureKind, HandlerError};
pub use guard::{NotAllowed, StateGuard, Transition, Transitions};
pub use inbox::{Acceptance, CONSUMER_BYTES_MAX, Inbox};
pub use jiff::Timestamp;
pub use lanes::share_lanes;
pub use limits::{
    EventError, HEADER_BYTES_MAX, HEADER_TEXT_MAX, HEADERS_FIELD, ID_BYTES_MAX, JSON_DEPTH_MAX, KEY_BYTES_MAX, Limits,
    NAME_BYTES_MAX, check_depth, check_header_bytes, json_depth, stored_object,
};
pub use loopback::is_loopback;
pub use maintenance::{Actor, Maintenance};
pub use matching::{Filter, Pattern, PatternError};
pub use notify::{Appended, Notified, Notifier};
pub use outbox::Outbox;
pub use ranges::Ranges;
pub use retry::{Delays, RetryPolicy};
pub use route::{OnDead, OnFailure, Pause, RouteHealth, RouteSpec, RouteState, StartFrom, disabled_by, valid_name};
pub use secret::{Secret, SecretUrl};
pub use source::{Budget, Lease, Ownership, Source, Take};
pub use store::{RelayIdentity, Retain, Retention, Schema, SchemaStatus, SchemaStep, Store};
pub use template::{Template, TemplateError};
pub use trace::{TRACEPARENT, TRACESTATE, TraceParent};
pub use transactions::Transactions;
pub use transport::{Capabilities, DeadLetterCause, Outbound, Outcome, Receipt, Stage, Transport};
