//! Looks for events without reading a whole log: stretch by stretch, as long as there is patience, and says where it stopped.
use std::time::{Duration, Instant};

use postroom_admin::view::EventRow;
use postroom_admin::{Admin, Page, Selection};
use postroom_core::{StoreError, StoreErrorKind};

use crate::tail;

/// How long one search looks before it says what it has.
const PATIENCE: Duration = Duration::from_millis(60);
/// Positions of the first stretch; it grows while they are quickly read.
const FIRST: i64 = 20_000;
const QUICK: Duration = Duration::from_millis(10);

/// Up to `limit` events, newest first, before that position; and where to go on, if there may be more.
pub(crate) async fn newest(
    admin: &dyn Admin,
    which: &Selection,
    before: Option<i64>,
    limit: usize,
) -> Result<(Vec<EventRow>, Option<i64>), StoreError> {
    // What every store has an index for, or what anything fits.
    if *which == Selection::default() || !which.ids.is_empty() {
        return at_once(admin, which, before, limit).await;
    }
    let mut top = match before {
        Some(before) => before,
        None => tail::end(admin).await?.saturating_add(1),
    };
    let (began, mut stretch, mut rows) = (Instant::now(), FIRST, Vec::new());
    // Of a key that is nowhere near there is another way to the rest.
    let patience = |found: usize| if found == 0 && which.key.is_some() { PATIENCE / 2 } else { PATIENCE };
    while top > 1 && began.elapsed() < patience(rows.len()) {
        let (asked, above) = (Instant::now(), top.saturating_sub(stretch).max(0));
        let page = Page::Newest { before: Some(top), above, limit: limit - rows.len() };
        rows.extend(admin.events(which, page).await?);
        if rows.len() == limit {
            let next = rows.last().map(|row: &EventRow| row.position);
            return Ok((rows, next));
        }
        top = above + 1;
        if asked.elapsed() < QUICK {
            stretch = stretch.saturating_mul(4);
        }
    }
    if rows.is_empty() && which.key.is_some() && top > 1 {
        // A rare key: every store finds it by an index, unless it was not rare before.
        return match at_once(admin, which, Some(top), limit).await {
            Err(error) if error.kind == StoreErrorKind::Busy => Ok((rows, Some(top))),
            found => found,
        };
    }
    Ok((rows, (top > 1).then_some(top)))
}

async fn at_once(
    admin: &dyn Admin,
    which: &Selection,
    before: Option<i64>,
    limit: usize,
) -> Result<(Vec<EventRow>, Option<i64>), StoreError> {
    let rows = admin.events(which, Page::Newest { before, above: 0, limit }).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.position);
    Ok((rows, next))
}

#[cfg(test)]
mod tests {
    use postroom_admin::ManagedStore as _;
    use postroom_core::{Event, Pattern};
    use postroom_sqlite::SqliteStore;

    use super::*;

    #[tokio::test]
    async fn what_is_rare_is_found_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        let admin = SqliteStore::create(folder.path().join("shop.db")).await.unwrap().admin();
        let event = |n: usize| Event::new(if n.is_multiple_of(100) { "rare" } else { "usual" }).id(format!("e-{n}"));
        admin.append(&(1..=1000).map(event).collect::<Vec<_>>()).await.unwrap();
        let which = Selection { event_type: Some(Pattern::parse("rare").unwrap()), ..Selection::default() };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let (rows, next) = newest(&*admin, &which, before, 3).await.unwrap();
            found.extend(rows.into_iter().map(|row| row.position));
            before = next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(found, [1000, 900, 800, 700, 600, 500, 400, 300, 200, 100]);
    }

    #[tokio::test]
    async fn a_key_is_found_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let admin = SqliteStore::create(folder.path().join("shop.db")).await.unwrap().admin();
        let old = |n: i32| Event::new("order.placed").key("old").id(format!("old-{n}"));
        admin.append(&(1..=3).map(old).collect::<Vec<_>>()).await.unwrap();
        for n in 0..3 {
            let news = (0..10_000).map(|m| Event::new("order.placed").key("new").id(format!("{n}-{m}")));
            admin.append(&news.collect::<Vec<_>>()).await.unwrap();
        }
        let of = |key: &str| Selection { key: Some(key.to_owned()), ..Selection::default() };
        for (key, limit, found) in [("old", 2, 2), ("old", 9, 3), ("new", 50, 50), ("nobody", 9, 0)] {
            let (rows, next) = newest(&*admin, &of(key), None, limit).await.unwrap();
            assert_eq!((rows.len(), next.is_some()), (found, found == limit), "{key}");
        }
    }
}
