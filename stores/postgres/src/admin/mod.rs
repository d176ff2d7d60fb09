//! What only this store knows of the operator's side; the rest is `postroom_admin`'s. Needs no relay; works beside any number
//! of them.
//!
//! Each file answers one kind of question. A change writes the audit trail in its own transaction.

pub(crate) mod backend;
mod due;
mod events;
mod forget;
mod lanes;
pub(crate) mod minutes;
mod partitions;
mod prune;
pub(crate) mod routes;
mod selection;
mod settled;
mod timeline;
mod verify;

use postroom_core::Actor;

pub(crate) use backend::PostgresLog;

use crate::clock::timestamp;
use crate::database::Session;
use crate::error::Fault;

/// Writes an action down; returns its number.
pub(crate) async fn record(
    session: &mut Session,
    actor: &Actor,
    action: &str,
    subject: &str,
    touched: u64,
    now: i64,
) -> Result<i64, Fault> {
    let recorded = postroom_admin::audit::record(session, actor, action, subject, touched, timestamp(now)).await;
    recorded.map_err(backend::fault)
}
