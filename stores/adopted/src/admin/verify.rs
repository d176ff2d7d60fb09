//! Did we lose anything? As far as a table without a log can tell: every row is pending, done or dead, and nothing else.

use postroom_admin::view::{Counts, VerifyRow};
use postroom_core::StoreError;

use super::query::{Query, number};
use super::routes::Registered;
use crate::store::Inner;

pub(super) async fn verify(inner: &Inner) -> Result<Vec<VerifyRow>, StoreError> {
    let query = Query::new(inner);
    let (pending, dead) = (query.is_pending(), format!("coalesce({}, false)", query.is_dead()));
    let counted = |condition: &str| format!("cast(coalesce(sum(case when {condition} then 1 else 0 end), 0) as text)");
    let statement = format!(
        "select cast(count(*) as text), {}, {} {}",
        counted(&format!("{pending} and not {dead}")),
        counted(&dead),
        query.from()
    );
    let rows = query.fetch("verify", statement).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let (all, open, dead): (u64, u64, u64) = (number(&row, 0), number(&row, 1), number(&row, 2));
    let mut audited = Vec::new();
    for route in super::routes::registered(inner).await? {
        if route.further {
            audited.push(entries(inner, &route).await?);
            continue;
        }
        let settled = all.saturating_sub(open + dead);
        audited.push(VerifyRow {
            store: inner.name.clone(),
            route: route.name,
            lane: 0,
            rows: all,
            unsettled: open,
            open: dead,
            counts: Counts { seen: all, delivered: settled, parked: dead, ..Counts::default() },
            differences: super::routes::other_words(inner).await?.unknown,
        });
    }
    Ok(audited)
}

/// What a further route has of the rows: those it has delivered, those it has not seen, and its open entries, also of rows that are
/// gone.
async fn entries(inner: &Inner, route: &Registered) -> Result<VerifyRow, StoreError> {
    let sum = |condition: String| format!("cast(coalesce(sum(case when {condition} then 1 else 0 end), 0) as text)");
    let query = Query::settled_by(inner, route);
    let (done, pending) = (query.is_done(), crate::sql::open(&inner.mapping, &query.writer));
    let counts = [sum(done), sum(format!("s.number is null and {pending}"))].join(", ");
    let statement = format!("select {counts} {}", query.from());
    let rows = query.fetch("verify", statement).await?.into_iter().next().unwrap_or_default();
    let query = Query::of(inner, route);
    let statement = format!("select {}, {} {}", sum(query.is_pending()), sum(query.is_dead()), query.from());
    let open = query.fetch("verify", statement).await?.into_iter().next().unwrap_or_default();
    let (delivered, unseen): (u64, u64) = (number(&rows, 0), number(&rows, 1));
    let (open, dead): (u64, u64) = (number(&open, 0), number(&open, 1));
    let all = delivered + unseen + open + dead;
    Ok(VerifyRow {
        store: inner.name.clone(),
        route: route.name.clone(),
        lane: 0,
        rows: all,
        unsettled: unseen + open,
        open: dead,
        counts: Counts { seen: all, delivered, parked: dead, ..Counts::default() },
        differences: Vec::new(),
    })
}
