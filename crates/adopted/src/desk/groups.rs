//! Dead letters by what they died of.

use std::collections::HashMap;

use postroom_core::view::DeadGroup;
use postroom_core::{Selection, StoreError};

use super::actions::moment;
use super::dead::{self, wanted_route};
use super::query::{Query, number, text};
use crate::store::Inner;

/// Which rows are dead is told by the table's own column, or by the side table's index of dead ones.
pub(super) async fn dead(inner: &Inner, which: &Selection, limit: usize) -> Result<Vec<DeadGroup>, StoreError> {
    let Some(route) = wanted_route(inner, which).await? else { return Ok(Vec::new()) };
    let mut query = Query::new(inner);
    query.and(query.is_dead());
    query.select(which);
    let event = &inner.layout.event;
    let key = crate::sql::key(&inner.layout, &query.writer).unwrap_or_else(|| "cast(null as text)".to_owned());
    let since = format!("coalesce(s.since, {})", query.appended_at());
    let statement = format!(
        "select s.code, {}, cast(count(*) as text), cast(count(distinct {key}) as text), {}, {}, max({}) {} \
         group by 1, 2 order by count(*) desc, 1, 2 limit {}",
        query.writer.text(&event.event_type),
        query.writer.micros(&format!("min({since})")),
        query.writer.micros(&format!("max({since})")),
        query.writer.text(&event.id),
        query.from(),
        i64::try_from(limit).unwrap_or(i64::MAX),
    );
    let rows = query.fetch("dead", statement).await?;
    let ids: Vec<String> = rows.iter().filter_map(|row| text(row, 6)).collect();
    let mut errors = HashMap::new();
    if !ids.is_empty() {
        let samples = Selection { ids, ..Selection::default() };
        let letters = dead::list(inner, &samples, i64::MIN, usize::MAX).await?;
        errors.extend(letters.into_iter().map(|letter| (letter.id, letter.error)));
    }
    let group = |row: crate::ground::Row| {
        let sample = text(&row, 6).unwrap_or_default();
        DeadGroup {
            store: inner.name.clone(),
            route: route.clone(),
            code: text(&row, 0),
            event_type: text(&row, 1).unwrap_or_default(),
            count: number(&row, 2),
            keys: number(&row, 3),
            first_at: moment(number(&row, 4)),
            last_at: moment(number(&row, 5)),
            error: errors.get(&sample).cloned().flatten(),
            sample,
        }
    };
    Ok(rows.into_iter().map(group).collect())
}
