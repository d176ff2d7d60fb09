//! Looks for events without reading a whole log: stretch by stretch, as long as there is patience, and says where it stopped.

use std::time::{Duration, Instant};

use postroom_core::view::EventRow;
use postroom_core::{Desk, Page, Selection, StoreError};

use crate::tail;

/// How long one search looks before it says what it has.
const PATIENCE: Duration = Duration::from_millis(60);
/// Positions of the first stretch; it grows while they are quickly read.
const FIRST: i64 = 20_000;
const QUICK: Duration = Duration::from_millis(10);

/// Up to `limit` events, newest first, before that position; and where to go on, if there may be more.
pub(crate) async fn newest(
    desk: &dyn Desk,
    which: &Selection,
    before: Option<i64>,
    limit: usize,
) -> Result<(Vec<EventRow>, Option<i64>), StoreError> {
    // What every store has an index for, or what anything fits.
    if *which == Selection::default() || !which.ids.is_empty() || which.key.is_some() {
        let rows = desk.events(which, Page::Newest { before, above: 0, limit }).await?;
        let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.position);
        return Ok((rows, next));
    }
    let mut top = match before {
        Some(before) => before,
        None => tail::end(desk).await?.saturating_add(1),
    };
    let (began, mut stretch, mut rows) = (Instant::now(), FIRST, Vec::new());
    while top > 1 && began.elapsed() < PATIENCE {
        let (asked, above) = (Instant::now(), top.saturating_sub(stretch).max(0));
        let page = Page::Newest { before: Some(top), above, limit: limit - rows.len() };
        rows.extend(desk.events(which, page).await?);
        if rows.len() == limit {
            let next = rows.last().map(|row: &EventRow| row.position);
            return Ok((rows, next));
        }
        top = above + 1;
        if asked.elapsed() < QUICK {
            stretch = stretch.saturating_mul(4);
        }
    }
    Ok((rows, (top > 1).then_some(top)))
}

#[cfg(test)]
mod tests {
    use postroom_core::{Event, Pattern, Store as _};
    use postroom_sqlite::Sqlite;

    use super::*;

    #[tokio::test]
    async fn what_is_rare_is_found_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        let desk = Sqlite::create(folder.path().join("shop.db")).await.unwrap().desk();
        let event = |n: usize| Event::new(if n.is_multiple_of(100) { "rare" } else { "usual" }).id(format!("e-{n}"));
        desk.append(&(1..=1000).map(event).collect::<Vec<_>>()).await.unwrap();
        let which = Selection { event_type: Some(Pattern::parse("rare").unwrap()), ..Selection::default() };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let (rows, next) = newest(&*desk, &which, before, 3).await.unwrap();
            found.extend(rows.into_iter().map(|row| row.position));
            before = next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(found, [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    }
}
