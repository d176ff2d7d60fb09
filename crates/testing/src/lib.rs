//! Helpers for the tests of services that use Postroom.
//!
//! - [`assert_appended`] and [`assert_not_appended`]: what a transaction, or the store, has to say.
//! - [`ManualClock`]: time stands still until the test moves it.
//! - [`ScriptedTransport`]: remembers what it got, and fails, hangs or dawdles when told to.

mod appended;
mod clock;
mod transport;

pub use appended::{Appends, assert_appended, assert_not_appended};
pub use clock::ManualClock;
pub use transport::{Arrival, Reply, ScriptedTransport};
