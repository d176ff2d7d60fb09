//! The suites that every store, transport, subscription and mapping passes.

mod log;
pub mod mappings;
pub mod stores;
#[cfg(feature = "subscriptions")]
pub mod subscriptions;
mod tokens;
pub mod transports;
pub mod windows;

pub use log::Log;

/// Options with some of them changed.
pub fn changed<T>(mut options: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut options);
    options
}
