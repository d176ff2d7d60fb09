//! The native log on PostgreSQL 14 or newer: no extension, no superuser, any number of relays.
//!
//! ```no_run
//! # async fn shop() -> Result<(), Box<dyn std::error::Error>> {
//! use postroom_core::{Event, Outbox};
//! use postroom_postgres::{Postgres, PostgresOptions};
//!
//! let store = Postgres::open(PostgresOptions::new("main", "postgres://shop@localhost/shop")).await?;
//! let mut tx = store.begin().await?; // or a transaction of your own pool
//! sqlx::query("update orders set paid = true where id = 7").execute(&mut *tx).await?;
//! let appended = store.append(&mut tx, &Event::new("order.paid").key("order-7")).await?;
//! tx.commit().await?;
//! appended.wake();
//! # Ok(()) }
//! ```
//!
//! Events are rows of an insert-only log that relays read by position; nothing on the way of a delivered event is updated
//! or deleted. How a position neither skips a late commit nor waits for one is told in `position`.
//!
//! The folders follow the contracts: [`Outbox`](postroom_core::Outbox) in `append`, [`Inbox`](postroom_core::Inbox) in
//! `inbox`, [`Source`](postroom_core::Source) in `source/`, [`Desk`](postroom_core::Desk) in `desk/`,
//! [`Schema`](postroom_core::Schema) in `schema`, [`Upkeep`](postroom_core::Upkeep) in `upkeep/`; `statement` has what
//! producers and consumers execute, whatever their client; `database` is how all of them reach the server.

#[cfg(feature = "adopted")]
mod adopted;
mod append;
mod clock;
mod database;
mod desk;
mod error;
mod events;
#[doc(hidden)]
mod identity;
mod inbox;
mod options;
mod release;
mod routes;
mod schema;
mod source;
mod sql;
mod statement;
mod store;
mod transactions;
mod upkeep;

#[cfg(feature = "adopted")]
pub use adopted::{PostgresGround, PostgresInbox, PostgresStates};
pub use options::{Pooler, PostgresOptions};
/// Which tables of an application's they use.
#[cfg(feature = "adopted")]
pub use postroom_adopted::{StateTable, layout::InboxTable};
pub use statement::{Statement, Value};
pub use store::Postgres;
pub use transactions::PoolTransactions;
