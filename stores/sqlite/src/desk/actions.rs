//! The audit trail: who did what, written in the transaction that does it.

use postroom_core::view::ActionRow;
use postroom_core::{Actor, StoreError};
use sqlx::{Row, SqliteConnection};

use crate::clock::timestamp;
use crate::events::{count, signed};
use crate::store::Inner;

/// What is done, by whom and why.
#[derive(Debug)]
pub(crate) struct Action<'a> {
    pub(crate) name: &'static str,
    pub(crate) actor: &'a str,
    pub(crate) reason: Option<&'a str>,
}

impl<'a> Action<'a> {
    /// An operator's action.
    pub(crate) fn of(actor: &'a Actor, name: &'static str) -> Self {
        Self { name, actor: &actor.name, reason: actor.reason.as_deref() }
    }
}

/// Writes the action down; returns its number.
pub(crate) async fn record(
    conn: &mut SqliteConnection,
    action: &Action<'_>,
    subject: &str,
    touched: u64,
    now: i64,
) -> Result<i64, sqlx::Error> {
    let written = sqlx::query(
        "insert into postroom_audit (at, actor, action, subject, count, reason) values (?1, ?2, ?3, ?4, ?5, ?6)",
    )
    .bind(now)
    .bind(action.actor)
    .bind(action.name)
    .bind(subject)
    .bind(signed(touched))
    .bind(action.reason)
    .execute(conn)
    .await?;
    Ok(written.last_insert_rowid())
}

/// Writes down that an action has begun; [`add`] says what it touched, in each transaction that does a part of it.
pub(super) async fn begin(
    inner: &Inner,
    actor: &Actor,
    name: &'static str,
    subject: String,
) -> Result<i64, StoreError> {
    let (actor, now) = (actor.clone(), inner.now());
    inner
        .db
        .write(name, move |conn| {
            Box::pin(async move { Ok(record(conn, &Action::of(&actor, name), &subject, 0, now).await?) })
        })
        .await
}

/// Adds to what an action touched.
pub(super) async fn add(conn: &mut SqliteConnection, number: i64, touched: u64) -> Result<(), sqlx::Error> {
    sqlx::query("update postroom_audit set count = count + ?2 where number = ?1")
        .bind(number)
        .bind(signed(touched))
        .execute(conn)
        .await
        .map(drop)
}

/// The newest actions before that one.
pub(super) async fn newest(inner: &Inner, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
    let store = inner.name.clone();
    inner
        .db
        .read("actions", move |conn| {
            Box::pin(async move {
                let rows = sqlx::query("select * from postroom_audit where number < ?1 order by number desc limit ?2")
                    .bind(before.unwrap_or(i64::MAX))
                    .bind(signed(limit as u64))
                    .fetch_all(conn)
                    .await?;
                let action = |row: &sqlx::sqlite::SqliteRow| {
                    Ok(ActionRow {
                        store: store.clone(),
                        number: row.try_get("number")?,
                        at: timestamp(row.try_get("at")?),
                        actor: row.try_get("actor")?,
                        action: row.try_get("action")?,
                        subject: row.try_get("subject")?,
                        count: count(row.try_get("count")?),
                        reason: row.try_get("reason")?,
                    })
                };
                Ok(rows.iter().map(action).collect::<Result<_, sqlx::Error>>()?)
            })
        })
        .await
}
