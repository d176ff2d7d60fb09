//! Producers and consumers that bring a transaction of another client than sqlx.

#![allow(clippy::unwrap_used, reason = "what cannot be made or read fails the test")]

mod diesel_async;
mod same_row;
mod sea_orm;
mod tokio_postgres;

use postroom_core::Event;

/// An event of the one key all tests use, so that a take has them in order.
fn event(id: &str) -> Event {
    Event::new("order.placed").key("order-7").id(id)
}

/// One that no store takes.
fn refused() -> Event {
    event("refused").key("line\nbreak")
}
