//! Acceptances.

use postroom_core::StoreError;
use postroom_core::view::InboxRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, SqliteConnection};

use crate::clock::timestamp;
use crate::events::{signed, text};
use crate::store::Inner;

pub(super) async fn list(
    inner: &Inner,
    consumer: Option<&str>,
    id: Option<&str>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let mut query = QueryBuilder::new("select consumer, id, accepted_at from postroom_inbox where true");
    for (column, value) in [("consumer", consumer), ("id", id)] {
        if let Some(value) = value {
            query.push(format_args!(" and {column} = ")).push_bind(value.to_owned());
        }
    }
    query.push(" order by rowid desc limit ").push_bind(signed(limit as u64));
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
