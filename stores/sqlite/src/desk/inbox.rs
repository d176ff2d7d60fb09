//! Acceptances.

use postroom_core::view::{InboxPlace, InboxRow};
use postroom_core::{Actor, StoreError};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use super::actions::{Action, record};
use crate::clock::timestamp;
use crate::events::{signed, text};
use crate::store::Inner;

pub(super) async fn list(
    inner: &Inner,
    consumer: Option<&str>,
    id: Option<&str>,
    after: Option<&InboxPlace>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let mut query = QueryBuilder::new("select consumer, id, accepted_at from postroom_inbox where true");
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
        .read("inbox", move |conn| {
            Box::pin(async move {
                let rows = query.build().fetch_all(conn).await?;
                Ok(rows.iter().map(|row| acceptance(&store, row)).collect::<Result<_, _>>()?)
            })
        })
        .await
}

/// Forgets an acceptance, with its entry in the audit.
pub(super) async fn forget(inner: &Inner, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
    let (consumer, id, actor, now) = (consumer.to_owned(), id.to_owned(), actor.clone(), inner.now());
    inner
        .db
        .write("inbox", move |conn| {
            Box::pin(async move {
                let gone = sqlx::query("delete from postroom_inbox where id = ?1 and consumer = ?2");
                let gone = gone.bind(&id).bind(&consumer).execute(&mut *conn).await?.rows_affected();
                if gone > 0 {
                    let action = Action::of(&actor, "inbox.forget");
                    record(conn, &action, &format!("{consumer} {id}"), gone, now).await?;
                }
                Ok(gone > 0)
            })
        })
        .await
}

/// Who accepted one event, in the order they did.
pub(super) async fn of_event(conn: &mut SqliteConnection, store: &str, id: &str) -> Result<Vec<InboxRow>, sqlx::Error> {
    let rows = sqlx::query("select consumer, id, accepted_at from postroom_inbox where id = ?1 order by rowid")
        .bind(id)
        .fetch_all(conn)
        .await?;
    rows.iter().map(|row| acceptance(store, row)).collect()
}

fn acceptance(store: &str, row: &SqliteRow) -> Result<InboxRow, sqlx::Error> {
    Ok(InboxRow {
        store: store.to_owned(),
        consumer: text(row, "consumer")?.into_owned(),
        id: text(row, "id")?.into_owned(),
        accepted_at: timestamp(row.try_get("accepted_at")?),
    })
}
