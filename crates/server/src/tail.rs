//! Events as they are appended.

use postroom_admin::view::EventRow;
use postroom_admin::{Admin, Page, Selection};
use postroom_core::StoreError;

/// The newest position.
pub async fn end(admin: &dyn Admin) -> Result<i64, StoreError> {
    let newest = admin.events(&Selection::default(), Page::Newest { before: None, above: 0, limit: 1 }).await?;
    Ok(newest.first().map_or(0, |row| row.position))
}

/// What came after that position, up to `limit`, and the position to go on from.
pub async fn news(
    admin: &dyn Admin,
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<(Vec<EventRow>, i64), StoreError> {
    let end = end(admin).await?;
    if end <= after {
        return Ok((Vec::new(), after));
    }
    let rows = admin.events(which, Page::Oldest { after, limit }).await?;
    let last = rows.last().map_or(after, |row| row.position);
    // With room left everything up to the end has been looked at, wanted or not.
    let next = if rows.len() == limit { last } else { last.max(end) };
    Ok((rows, next))
}
