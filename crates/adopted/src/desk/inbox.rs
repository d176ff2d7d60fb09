//! What consumers have accepted, where the layout names their table.

use jiff::Timestamp;
use postroom_core::view::InboxRow;
use postroom_core::{StoreError, StoreErrorKind};

use super::actions::moment;
use super::query::text;
use crate::ground::Statement;
use crate::layout::Place;
use crate::sql::Writer;
use crate::store::Inner;

pub(super) async fn list(
    inner: &Inner,
    consumer: Option<&str>,
    id: Option<&str>,
    limit: usize,
) -> Result<Vec<InboxRow>, StoreError> {
    let Some(inbox) = &inner.layout.inbox else { return Ok(Vec::new()) };
    let Some((table, columns)) = inner.ground.table(&inbox.table).await? else {
        let message = format!("store {:?} has no table {}", inner.name, inbox.table);
        return Err(StoreError::new(StoreErrorKind::NotFound, "inbox", message)
            .hint("correct `inbox.table` in its layout, or leave it out"));
    };
    let writer = Writer { columns: &columns, ..inner.writer() };
    let name = |name: &crate::layout::Name| writer.text(&Place::column(name.clone()));
    let at = match &inbox.at {
        Some(column) => writer.moment(&Place::column(column.clone())),
        None => writer.at_micros("'0'"),
    };
    let (consumer_text, id_text) = (name(&inbox.consumer), name(&inbox.id));
    let statement = format!(
        "select {consumer_text}, {id_text}, {} from {} t \
         where ($1 is null or {consumer_text} = $1) and ($2 is null or {id_text} = $2) order by {at} desc limit cast($3 as integer)",
        writer.micros(&at),
        table.quoted()
    );
    let statement = Statement::new(statement).bind_or_null(consumer).bind_or_null(id).bind(limit.to_string());
    let found = inner.ground.look("inbox", vec![statement]).await?;
    let row = |row: crate::ground::Row| InboxRow {
        store: inner.name.clone(),
        consumer: text(&row, 0).unwrap_or_default(),
        id: text(&row, 1).unwrap_or_default(),
        accepted_at: text(&row, 2).and_then(|micros| micros.parse().ok()).map_or(Timestamp::UNIX_EPOCH, moment),
    };
    Ok(found.into_iter().flatten().map(row).collect())
}
