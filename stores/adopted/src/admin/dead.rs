//! Dead letters: giving them up for good; and what a selection of them touches.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_admin::view::Affected;
use postroom_admin::{Selection, audit, run_write};
use postroom_core::{Actor, StoreError};

use super::query::{Query, number, text};
use super::tables::{Tables, first, moment, run};
use crate::executor::Statement;
use crate::mapping::Death;
use crate::sql::{key, operate};
use crate::store::{Inner, clock};

/// Rows changed in one transaction.
const TURN: usize = 1_000;

/// Removes what is selected, a turn at a time; counts only when `dry_run`.
pub(super) async fn discard(
    inner: &Inner,
    which: &Selection,
    dry_run: bool,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    let affected = count(inner, Rows::Dead, which, None).await?;
    if dry_run || affected.deliveries == 0 {
        return Ok(affected);
    }
    let number = audit::begin(&Tables(inner), actor, "dead.discard", which.describe()).await?;
    let mut changed: u64 = 0;
    let mut after = None;
    loop {
        let mut query = Query::new(inner);
        query.and(query.is_dead());
        query.select(which);
        let rows = query.page(after.as_ref(), TURN).await?;
        let Some(last) = rows.last().cloned() else { break };
        let list: Vec<serde_json::Value> = rows.iter().map(|(_, row)| serde_json::json!({"id": row})).collect();
        changed += remove(inner, serde_json::json!(list).to_string(), number).await?;
        after = Some(last);
    }
    inner.wake.wake();
    let routes = affected.routes.into_keys().map(|route| (route, changed)).collect();
    Ok(Affected { deliveries: changed, routes, ..affected })
}

/// Removes rows, and adds them to what the action with this number in the audit touched; returns how many agreed.
async fn remove(inner: &Inner, list: String, number: i64) -> Result<u64, StoreError> {
    let writer = inner.writer();
    // The first of them says how many agreed.
    let texts = match &inner.mapping.death {
        Death::Word(_) => [operate::delete(&inner.mapping, &writer), operate::clear(&writer)],
        Death::Parked => [operate::done(&inner.mapping, &writer), operate::clear(&writer)],
        // Those that were published look done already.
        Death::AsDone => [operate::clear(&writer), operate::done_if_pending(&inner.mapping, &writer)],
    };
    let of = |text: String| Statement::new(text).bind(&inner.mapping_name).bind(clock()).bind(&list);
    let statements = texts.into_iter().map(of).collect();
    run_write(&Tables(inner), "dead.discard", move |session| {
        Box::pin(async move {
            let agreed = first(&run(session, statements).await?).unwrap_or(0);
            audit::add(session, number, agreed).await?;
            Ok(agreed)
        })
    })
    .await
}

/// Which rows an operator means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Delivered ones.
    Done,
    /// Dead letters.
    Dead,
}

impl Rows {
    pub(super) fn condition(self, query: &Query<'_>) -> String {
        match self {
            Self::Dead => query.is_dead(),
            Self::Done => format!("{}{}", query.is_done(), query.is_newest()),
        }
    }
}

/// What a selection touches, and how much of it is older than the inbox remembers.
pub(super) async fn count(
    inner: &Inner,
    rows: Rows,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    let Some(route) = wanted_route(inner, which).await? else { return Ok(Affected::default()) };
    let rows_are_dead = rows == Rows::Dead;
    let mut query = Query::new(inner);
    query.and(rows.condition(&query));
    query.select(which);
    let keys = key(&inner.mapping, &query.writer);
    let keys = keys.map_or_else(|| "0".to_owned(), |key| format!("count(distinct {key})"));
    let oldest = query.writer.micros(&format!("min({})", query.occurred_at()));
    let older = match inbox_window {
        Some(window) => {
            let window = query.value(window.as_micros().to_string());
            let age = query.writer.until(&query.now(), &query.occurred_at());
            format!("sum(case when cast({age} as bigint) > cast({window} as bigint) then 1 else 0 end)")
        }
        None => "0".to_owned(),
    };
    let statement = format!(
        "select cast(count(*) as text), cast({keys} as text), {oldest}, cast(coalesce({older}, 0) as text), {} {}",
        query.writer.micros("max(s.since)"),
        query.from()
    );
    let rows = query.fetch("dead", statement).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let deliveries = number(&row, 0);
    Ok(Affected {
        deliveries,
        keys: number(&row, 1),
        routes: BTreeMap::from([(route, deliveries)]),
        oldest: text(&row, 2).and_then(|micros| micros.parse().ok()).map(moment),
        older_than_inbox: number(&row, 3),
        died_by: text(&row, 4).filter(|_| rows_are_dead).and_then(|micros| micros.parse().ok()).map(moment),
    })
}

/// The route of the table, unless another one is asked for.
pub(super) async fn wanted_route(inner: &Inner, which: &Selection) -> Result<Option<String>, StoreError> {
    let names = super::routes::names(inner).await?;
    Ok(names.into_iter().find(|name| which.route.as_ref().is_none_or(|wanted| wanted == name)))
}
