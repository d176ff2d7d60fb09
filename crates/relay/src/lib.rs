//! The engine: takes, delivers and settles; knows core only.

mod options;
mod transports;

pub use options::{NoObserver, Observer, RelayOptions, RouteRun, StoreReady};
pub use transports::{Handlers, Incoming, Noop, Stdout};
