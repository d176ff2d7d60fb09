//! Which value is in force, and where it came from.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

mod case;
mod contracts;
#[cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq"))]
mod presets;
#[cfg(any(feature = "webhook", feature = "rabbitmq", all(feature = "nats", feature = "redis")))]
mod transports;
mod values;
