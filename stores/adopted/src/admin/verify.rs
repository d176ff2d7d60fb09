//! Did we lose anything? As far as a table without a log can tell: every row is pending, done or dead, and nothing else.

use postroom_admin::view::{Counts, VerifyRow};
use postroom_core::StoreError;

use super::query::{Query, number};
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
    for detail in super::routes::list(inner).await? {
        let settled = all.saturating_sub(open + dead);
        audited.push(VerifyRow {
            store: inner.name.clone(),
            route: detail.status.route,
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
