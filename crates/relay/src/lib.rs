//! The engine: takes, delivers and settles; knows core only.

mod options;

pub use options::{NoObserver, Observer, RelayOptions, RouteRun, StoreReady};
