//! What only this store knows of the operator's side; the rest is `postroom_admin`'s. Needs no relay; works beside any number
//! of them.
//!
//! Each file answers one kind of question. A change writes the audit trail in its own transaction; one that may be large works
//! in `turns`.

pub(crate) mod backend;
mod due;
mod events;
mod forget;
mod prune;
pub(crate) mod routes;
mod selection;
mod settled;
mod timeline;
mod turns;
mod verify;

use postroom_core::Actor;
use sqlx::SqliteConnection;

pub(crate) use backend::SqliteLog;

use self::backend::AdminSession;
use crate::clock::timestamp;
use crate::error::Fault;

/// Writes an action down; returns its number.
pub(crate) async fn record(
    conn: &mut SqliteConnection,
    actor: &Actor,
    action: &str,
    subject: &str,
    touched: u64,
    now: i64,
) -> Result<i64, Fault> {
    let now = timestamp(now);
    let mut session = AdminSession::new(conn, now);
    let recorded = postroom_admin::audit::record(&mut session, actor, action, subject, touched, now).await;
    recorded.map_err(backend::fault)
}
