//! The audit trail: who did what, written in the transaction that does it.

use std::sync::Arc;

use postroom_core::view::ActionRow;
use postroom_core::{Actor, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::clock::{Time, timestamp};
use crate::database::Session;
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
    session: &mut Session,
    action: &Action<'_>,
    subject: &str,
    touched: u64,
    now: i64,
) -> Result<i64, sqlx::Error> {
    session
        .sql
        .scalar(
            "insert into postroom.audit (at, actor, action, subject, count, reason) values ($1, $2, $3, $4, $5, $6) \
             returning number",
        )
        .bind(Time(now))
        .bind(action.actor.to_owned())
        .bind(action.name)
        .bind(subject.to_owned())
        .bind(signed(touched))
        .bind(action.reason.map(str::to_owned))
        .fetch_one(&mut *session.conn)
        .await
}

/// Writes down that an action has begun; [`add`] says what it touched, in each transaction that does a part of it.
pub(super) async fn begin(
    inner: &Arc<Inner>,
    actor: &Actor,
    name: &'static str,
    subject: String,
) -> Result<i64, StoreError> {
    let (shared, actor) = (Arc::clone(inner), actor.clone());
    inner
        .db
        .write(name, move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                Ok(record(session, &Action::of(&actor, name), &subject, 0, now).await?)
            })
        })
        .await
}

/// Adds to what an action touched.
pub(super) async fn add(session: &mut Session, number: i64, touched: u64) -> Result<(), sqlx::Error> {
    let add = session.sql.query("update postroom.audit set count = count + $2 where number = $1");
    add.bind(number).bind(signed(touched)).execute(&mut *session.conn).await.map(drop)
}

/// The newest actions before that one.
pub(super) async fn newest(inner: &Inner, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
    let store = inner.name.clone();
    inner
        .db
        .read("actions", move |session| {
            Box::pin(async move {
                let newest = session.sql.query(
                    "select number, at, actor, action, subject, count, reason from postroom.audit \
                     where number < $1 order by number desc limit $2",
                );
                let newest = newest.bind(before.unwrap_or(i64::MAX));
                let rows = newest.bind(signed(limit as u64)).fetch_all(&mut *session.conn).await?;
                let action = |row: &PgRow| {
                    Ok(ActionRow {
                        store: store.clone(),
                        number: row.try_get("number")?,
                        at: timestamp(row.try_get::<Time, _>("at")?.0),
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
