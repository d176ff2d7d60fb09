//! What consumers have accepted, where the mapping names their table; and forgetting it.

use jiff::Timestamp;
use postroom_admin::view::{InboxCursor, InboxRow};
use postroom_core::{Actor, StoreError, StoreErrorKind};

use super::query::text;
use super::tables::{Action, first, moment};
use crate::executor::Statement;
use crate::mapping::{ColumnPath, TableName};
use crate::sql::Writer;
use crate::sql::columns::Columns;
use crate::store::Inner;

/// The consumers' table as the catalogue has it.
async fn there(inner: &Inner, table: &TableName) -> Result<(TableName, Columns), StoreError> {
    inner.executor.table(table).await?.ok_or_else(|| {
        let message = format!("store {:?} has no table {table}", inner.name);
        StoreError::new(StoreErrorKind::NotFound, "inbox", message)
            .hint("correct `inbox.table` in its mapping, or leave it out")
    })
}

/// Forgets an acceptance, with its entry in the audit.
pub(super) async fn forget(inner: &Inner, consumer: &str, id: &str, actor: &Actor) -> Result<bool, StoreError> {
    let Some(inbox) = &inner.mapping.inbox else {
        let message = format!("store {:?} knows no table of what consumers have accepted", inner.name);
        return Err(
            StoreError::new(StoreErrorKind::Invalid, "inbox", message).hint("name it: `inbox.table` in its mapping")
        );
    };
    let (table, columns) = there(inner, &inbox.table).await?;
    let writer = Writer { columns: &columns, ..inner.writer() };
    let name = |name: &crate::mapping::Name| writer.text(&ColumnPath::column(name.clone()));
    let delete = format!(
        "delete from {} as t where {} = $1 and {} = $2 returning 'gone'",
        table.quoted(),
        name(&inbox.consumer),
        name(&inbox.id)
    );
    let delete = Statement::new(delete).bind(consumer).bind(id);
    let action = Action::new(actor, "inbox.forget", format!("{consumer} {id}"));
    Ok(first(&action.run(inner, "inbox", vec![delete], first).await?).is_some())
}

pub(super) async fn list(
    inner: &Inner,
    consumer: Option<&str>,
    id: Option<&str>,
    after: Option<&InboxCursor>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let Some(inbox) = &inner.mapping.inbox else { return Ok(Vec::new()) };
    let (table, columns) = there(inner, &inbox.table).await?;
    let writer = Writer { columns: &columns, ..inner.writer() };
    let name = |name: &crate::mapping::Name| writer.text(&ColumnPath::column(name.clone()));
    let at = match &inbox.at {
        Some(column) => writer.moment(&ColumnPath::column(column.clone())),
        None => writer.at_micros("'0'"),
    };
    let (consumer_text, id_text) = (name(&inbox.consumer), name(&inbox.id));
    let statement = format!(
        "select {consumer_text}, {id_text}, {} from {} t \
         where ($1 is null or {consumer_text} = $1) and ($2 is null or {id_text} = $2) \
         and ($4 is null or {id_text} < $4 or {id_text} = $4 and {consumer_text} > $5) \
         order by {id_text} desc, {consumer_text} limit cast($3 as integer)",
        writer.micros(&at),
        table.quoted()
    );
    let statement = Statement::new(statement).bind_or_null(consumer).bind_or_null(id).bind(limit.to_string());
    let statement = statement.bind_or_null(after.map(|after| after.id.as_str()));
    let statement = statement.bind_or_null(after.map(|after| after.consumer.as_str()));
    let found = inner.executor.look("inbox", vec![statement]).await?;
    let row = |row: crate::executor::Row| InboxRow {
        store: inner.name.clone(),
        consumer: text(&row, 0).unwrap_or_default(),
        id: text(&row, 1).unwrap_or_default(),
        accepted_at: text(&row, 2).and_then(|micros| micros.parse().ok()).map_or(Timestamp::UNIX_EPOCH, moment),
    };
    Ok(found.into_iter().flatten().map(row).collect())
}
