//! The native log on PostgreSQL 14 or newer: no extension, no superuser, any number of relays.
//!
//! ```no_run
//! # async fn shop() -> Result<(), Box<dyn std::error::Error>> {
//! use postroom_core::{Event, Outbox};
//! use postroom_postgres::{PostgresStore, PostgresOptions};
//!
//! let store = PostgresStore::open(PostgresOptions::new("main", "postgres://shop@localhost/shop")).await?;
//! let mut tx = store.begin().await?; // or a transaction of your own pool
//! sqlx::query("update orders set paid = true where id = 7").execute(&mut *tx).await?;
//! store.append(&mut tx, &Event::new("order.paid").key("order-7")).await?;
//! tx.commit().await?; // commits both, and wakes the relays of this process
//! # Ok(()) }
//! ```
//!
//! Events are rows of an insert-only log that relays read by position; nothing on the way of a delivered event is updated
//! or deleted. How a position neither skips a late commit nor waits for one is told in `position`.
//!
//! The folders follow the contracts: [`Outbox`](postroom_core::Outbox) in `append`, [`Inbox`](postroom_core::Inbox) in
//! `inbox`, [`Source`](postroom_core::Source) in `source/`, [`Admin`](postroom_admin::Admin) in `admin/`,
//! [`Schema`](postroom_core::Schema) in `schema`, [`Maintenance`](postroom_core::Maintenance) in `maintenance/`; `statement` has what
//! producers and consumers execute, whatever their client; `database` is how all of them reach the server.

mod admin;
#[cfg(feature = "adopted")]
mod adopted;
mod append;
mod clock;
mod database;
mod error;
mod events;
#[doc(hidden)]
mod identity;
mod inbox;
mod maintenance;
mod options;
mod release;
mod routes;
mod schema;
mod source;
mod sql;
mod statement;
mod store;
mod transactions;
mod tx;

#[cfg(feature = "adopted")]
pub use adopted::{PostgresExecutor, PostgresInbox, PostgresStateGuard};
pub use options::{Pooler, PostgresOptions};
/// Which tables of an application's they use.
#[cfg(feature = "adopted")]
pub use postroom_adopted::{StateTable, mapping::InboxTable};
pub use statement::{Statement, Value};
pub use store::PostgresStore;
pub use transactions::PoolTransactions;
pub use tx::{PostgresTransaction, PostgresTx};
