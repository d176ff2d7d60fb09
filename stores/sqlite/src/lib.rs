//! The native log on one SQLite file, shared by any number of processes.
//!
//! ```no_run
//! # async fn shop() -> Result<(), Box<dyn std::error::Error>> {
//! use postroom_core::{Event, Outbox};
//! use postroom_sqlite::SqliteStore;
//!
//! let store = SqliteStore::create("shop.db").await?;
//! let mut tx = store.begin().await?; // `begin immediate`: a writer from the start
//! sqlx::query("update orders set paid = 1 where id = 7").execute(&mut *tx).await?;
//! store.append(&mut tx, &Event::new("order.paid").key("order-7")).await?;
//! tx.commit().await?; // commits both, and wakes the relays of this process
//! # Ok(()) }
//! ```
//!
//! One writer at a time, so number order is commit order; one lane, so one relay delivers a route while others stand by.
//! Commits are durable (`synchronous=FULL` in WAL mode): a power cut loses nothing that was reported as committed.
//!
//! The folders follow the contracts: [`Outbox`](postroom_core::Outbox) in `append`, [`Inbox`](postroom_core::Inbox) in
//! `inbox`, [`Source`](postroom_core::Source) in `source/`, [`Admin`](postroom_admin::Admin) in `admin/`,
//! [`Schema`](postroom_core::Schema) in `schema`; `database` is how all of them reach the file.

mod admin;
#[cfg(feature = "adopted")]
mod adopted;
mod append;
mod clock;
mod database;
mod diagnose;
mod error;
mod events;
#[doc(hidden)]
#[cfg(feature = "broken")]
#[doc(hidden)]
pub mod gate;
#[cfg(not(feature = "broken"))]
mod gate;
mod inbox;
mod options;
mod release;
mod routes;
mod schema;
mod source;
mod store;
mod transactions;
mod tx;
mod work;
mod writer;

#[cfg(feature = "adopted")]
pub use adopted::{SqliteExecutor, SqliteInbox, SqliteStateGuard};
pub use options::SqliteOptions;
/// Which tables of an application's they use.
#[cfg(feature = "adopted")]
pub use postroom_adopted::{StateTable, mapping::InboxTable};
pub use store::SqliteStore;
pub use transactions::PoolTransactions;
pub use tx::{SqliteTransaction, SqliteTx};
