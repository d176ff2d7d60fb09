//! Acceptances.

use std::sync::Arc;

use postroom_core::view::{InboxPlace, InboxRow};
use postroom_core::{Actor, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::actions::{Action, record};
use crate::clock::{Time, timestamp};
use crate::database::Session;
use crate::events::signed;
use crate::store::Inner;

pub(super) async fn list(
    inner: &Inner,
    consumer: Option<&str>,
    id: Option<&str>,
    after: Option<&InboxPlace>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let mut query = inner.db.sql.builder("select consumer, id, accepted_at from postroom.inbox where true");
    for (column, value) in [("consumer", consumer), ("id", id)] {
        if let Some(value) = value {
            query.push(format_args!(" and {column} = ")).push_bind(value.to_owned());
        }
    }
    if let Some(InboxPlace { id, consumer }) = after {
        query.push(" and id <= ").push_bind(id.clone()).push(" and (id < ").push_bind(id.clone());
        query.push(" or consumer > ").push_bind(consumer.clone()).push(")");
    }
    // As the primary key has them, however many there are.
    query.push(" order by id desc, consumer limit ").push_bind(signed(limit as u64));
    let store = inner.name.clone();
    inner
        .db
        .read("inbox", move |session| {
            Box::pin(async move {
                let rows = query.build().persistent(false).fetch_all(&mut *session.conn).await?;
                Ok(rows.iter().map(|row| acceptance(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

/// Forgets an acceptance, with its entry in the audit.
pub(super) async fn forget(inner: &Arc<Inner>, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
    let (shared, consumer, id, actor) = (Arc::clone(inner), consumer.to_owned(), id.to_owned(), actor.clone());
    inner
        .db
        .write("inbox", move |session| {
            Box::pin(async move {
                let gone = session.sql.query("delete from postroom.inbox where id = $1 and consumer = $2");
                let gone = gone.bind(id.clone()).bind(consumer.clone());
                let gone = gone.execute(&mut *session.conn).await?.rows_affected();
                if gone > 0 {
                    let now = shared.now(session).await?;
                    let action = Action::of(&actor, "inbox.forget");
                    record(session, &action, &format!("{consumer} {id}"), gone, now).await?;
                }
                Ok(gone > 0)
            })
        })
        .await
}

/// Who accepted one event, in the order they did.
pub(super) async fn of_event(session: &mut Session, store: &str, id: &str) -> Result<Vec<InboxRow>, sqlx::Error> {
    let accepted = session
        .sql
        .query("select consumer, id, accepted_at from postroom.inbox where id = $1 order by accepted_at, consumer");
    let rows = accepted.bind(id.to_owned()).fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| acceptance(store, row)).collect()
}

fn acceptance(store: &str, row: &PgRow) -> Result<InboxRow, sqlx::Error> {
    Ok(InboxRow {
        store: store.to_owned(),
        consumer: row.try_get("consumer")?,
        id: row.try_get("id")?,
        accepted_at: timestamp(row.try_get::<Time, _>("accepted_at")?.0),
    })
}
