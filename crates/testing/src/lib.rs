//! Helpers for the tests of services that use Postroom: a clock the test owns.

mod clock;

pub use clock::ManualClock;
