//! Is this the cluster the tables were made for, and may we write to it?
//!
//! A position holds transaction ids, and ids of two clusters must never be compared: a copy of production would skip or
//! repeat events, and send them for real.

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::Row;

use crate::database::{Database, Session};
use crate::error::Fault;

/// Fails on a standby, in a read-only session, and on another cluster than the one the tables were made for.
pub(crate) async fn check(db: &Database) -> Result<(), StoreError> {
    let place = db.place.clone();
    db.read("open", |session| Box::pin(async move { verify(session, &place).await })).await
}

/// The same on a session.
pub(crate) async fn verify(session: &mut Session, place: &str) -> Result<(), Fault> {
    let found = session.sql.query(include_str!("sql/identity.sql"));
    let row = found.fetch_one(&mut *session.conn).await?;
    let error = |kind, message: String| StoreError::new(kind, "open", message);
    if row.try_get("standby")? {
        return Err(error(StoreErrorKind::Unreachable, format!("{place} is a standby"))
            .hint("give the url of the primary, or a list of all servers")
            .into());
    }
    if row.try_get("read_only")? {
        return Err(error(StoreErrorKind::Refused, format!("{place} is read-only for this session"))
            .hint("use a role without `default_transaction_read_only`")
            .into());
    }
    let (here, made): (String, String) = (row.try_get("system_identifier")?, row.try_get("made_for")?);
    if here != made {
        let message = format!("the tables in {place} were made on another cluster ({made}, this is {here})");
        return Err(error(StoreErrorKind::Conflict, message)
            .hint(
                "if this is a copy, leave it alone: its events were or will be sent by the original. \
                 After a restore or an upgrade run `postroom store accept-identity`",
            )
            .into());
    }
    let (timeline, known): (String, String) = (row.try_get("timeline")?, row.try_get("known_timeline")?);
    if timeline != known {
        tracing::warn!(
            store = place,
            timeline,
            known,
            "the cluster is on another timeline: a standby was promoted, or a backup restored; positions are read again. \
             `postroom store accept-identity` takes note of it"
        );
    }
    Ok(())
}
