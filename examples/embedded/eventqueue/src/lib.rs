//! EventQueue on Postroom: its tables and its interface as they were, its locks and its loop gone.

mod queue;

pub use queue::{EventQueue, Policy, QueuedEvent};

use postroom::envelope::{Binding, Encoder, Format};
use postroom::postgres::sqlx::{self, PgPool};
use postroom::transports::exec::{Exec, ExecOptions, Target};
use postroom::{Failure, Handlers};
use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order: String,
    pieces: i64,
}

/// Handlers in Rust: every order is mailed, and taken from the stock.
pub fn handlers(pool: &PgPool) -> Handlers {
    let (mails, stock) = (pool.clone(), pool.clone());
    Handlers::new()
        .on("OrderPlaced", "mail", move |event| {
            let pool = mails.clone();
            async move {
                let OrderPlaced { order, .. } = event.payload_as()?;
                sqlx::query("insert into mails values ($1)").bind(order).execute(&pool).await?;
                Ok::<(), Failure>(())
            }
        })
        .on("OrderPlaced", "stock", move |event| {
            let pool = stock.clone();
            async move {
                let OrderPlaced { order, pieces } = event.payload_as()?;
                if pieces < 1 {
                    return Err(Failure::permanent("stock.nothing", format!("{order} is an order of nothing")));
                }
                sqlx::query("update stock set pieces = pieces - $1").bind(pieces).execute(&pool).await?;
                Ok(())
            }
        })
        .in_flight(4)
}

/// Handlers in another language: a program that reads events and writes answers, a line each.
pub fn program(command: &[&str]) -> Exec {
    let command = command.iter().map(ToString::to_string).collect();
    let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/eventqueue");
    Exec::new(ExecOptions::new("eventqueue", Target::Command(command), encoder))
}
