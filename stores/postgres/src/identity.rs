//! Is this the cluster the tables were made for, and may we write to it?
//!
//! A position holds transaction ids, and ids of two clusters must never be compared: a copy of production would skip or
//! repeat events, and send them for real.

use postroom_core::{StoreError, StoreErrorKind};
use sqlx::Row;

use crate::database::Database;

/// Fails on a standby, in a read-only session, and on another cluster than the one the tables were made for.
pub(crate) async fn check(db: &Database) -> Result<(), StoreError> {
    let row = db
        .read("open", |session| {
            Box::pin(async move {
                let found = session.sql.query(include_str!("sql/identity.sql"));
                Ok(found.fetch_one(&mut *session.conn).await?)
            })
        })
        .await?;
    let unreadable = |e: sqlx::Error| crate::error::Fault::from(e).at("open", &db.place);
    if row.try_get::<bool, _>("standby").map_err(unreadable)? {
        return Err(StoreError::new(StoreErrorKind::Unreachable, "open", format!("{} is a standby", db.place))
            .hint("give the url of the primary, or a list of all servers"));
    }
    if row.try_get::<bool, _>("read_only").map_err(unreadable)? {
        return Err(StoreError::new(
            StoreErrorKind::Refused,
            "open",
            format!("{} is read-only for this session", db.place),
        )
        .hint("use a role without `default_transaction_read_only`"));
    }
    let (here, made): (String, String) =
        (row.try_get("system_identifier").map_err(unreadable)?, row.try_get("made_for").map_err(unreadable)?);
    if here != made {
        let message = format!("the tables in {} were made on another cluster ({made}, this is {here})", db.place);
        return Err(StoreError::new(StoreErrorKind::Conflict, "open", message).hint(
            "if this is a copy, leave it alone: its events were or will be sent by the original. \
             After a restore or an upgrade run `postroom store accept-identity`",
        ));
    }
    Ok(())
}
