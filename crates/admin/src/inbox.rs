//! The inbox: which consumers have accepted which events.

use postroom_core::{Actor, StoreError};

use crate::audit::record;
use crate::backend::{Backend, Execute, Fault, run_read, run_write};
use crate::row::Row;
use crate::statement::Statement;
use crate::view::{InboxCursor, InboxRow};

/// Lists acceptances after a cursor, the greatest ids first.
pub(crate) async fn list(
    backend: &dyn Backend,
    consumer: Option<&str>,
    id: Option<&str>,
    after: Option<&InboxCursor>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let mut query = Statement::new("select consumer, id, accepted_at from postroom.inbox where true");
    for (column, value) in [("consumer", consumer), ("id", id)] {
        if let Some(value) = value {
            query.push(format!(" and {column} = ")).push_value(value);
        }
    }
    if let Some(InboxCursor { id, consumer }) = after {
        query.push(" and id <= ").push_value(id.as_str()).push(" and (id < ").push_value(id.as_str());
        query.push(" or consumer > ").push_value(consumer.as_str()).push(")");
    }
    // As the primary key has them, however many there are.
    query.push(" order by id desc, consumer limit ").push_value(limit);
    let store = backend.store().to_owned();
    run_read(backend, "inbox", move |session| {
        Box::pin(async move {
            let rows = session.fetch(query).await?;
            Ok(rows.iter().map(|row| acceptance(&store, row)).collect::<Result<_, _>>()?)
        })
    })
    .await
}

/// Forgets an acceptance, with its entry in the audit; returns whether there was one.
pub(crate) async fn forget(backend: &dyn Backend, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
    let (consumer, id, actor) = (consumer.to_owned(), id.to_owned(), actor.clone());
    run_write(backend, "inbox", move |session| {
        Box::pin(async move {
            let delete = Statement::new("delete from postroom.inbox where id = $1 and consumer = $2");
            let gone = session.execute(delete.bind(id.as_str()).bind(consumer.as_str())).await?;
            if gone > 0 {
                let now = session.now().await?;
                record(session, &actor, "inbox.forget", &format!("{consumer} {id}"), gone, now).await?;
            }
            Ok(gone > 0)
        })
    })
    .await
}

/// Lists who accepted one event, in the order they did.
pub async fn of_event(session: &mut (impl Execute + ?Sized), store: &str, id: &str) -> Result<Vec<InboxRow>, Fault> {
    let accepted = Statement::new(
        "select consumer, id, accepted_at from postroom.inbox where id = $1 order by accepted_at, consumer",
    );
    let rows = session.fetch(accepted.bind(id)).await?;
    Ok(rows.iter().map(|row| acceptance(store, row)).collect::<Result<_, _>>()?)
}

fn acceptance(store: &str, row: &Row) -> Result<InboxRow, StoreError> {
    Ok(InboxRow {
        store: store.to_owned(),
        consumer: row.text("consumer")?,
        id: row.text("id")?,
        accepted_at: row.time("accepted_at")?,
    })
}
