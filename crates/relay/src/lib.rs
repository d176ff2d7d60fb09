//! The engine: takes, delivers and settles; knows core only.
//!
//! [`Relay::run`] owns one engine per (store, route). An engine takes due deliveries from a
//! [`postroom_core::Source`], keeps one per key on its way, hands them to a [`postroom_core::Transport`] and settles
//! what comes back. It promises order per key and a bound on duplicates; it never decides what a failure means: that is
//! [`postroom_core::verdict`].

mod clock;
mod engine;
mod observer;
mod options;
mod outage;
mod ownership_epoch;
mod relay;
mod route;
mod slots;
mod transports;

pub use clock::SystemClock;
pub use observer::{NoObserver, Observer, RouteObserver};
pub use options::{Poll, RelayOptions, StoreReady};
pub use relay::{MultiStoreRelay, Relay, RelayError};
pub use route::{Route, RouteBuilder, StoreRoute};
pub use transports::{CODES, Handlers, Incoming, Noop, Stdout};
