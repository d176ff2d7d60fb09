//! Dead letters: listing them, giving them up for good; and what a selection of them touches.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_core::view::{Affected, DeliveryRow};
use postroom_core::{Actor, DeliveryState, Selection, StoreError};

use super::actions::{moment, record};
use super::query::{Query, number, text};
use crate::ground::{Row, Statement};
use crate::layout::{Death, Place};
use crate::sql::{key, operate};
use crate::store::{Inner, clock};

/// Rows changed in one transaction.
const TURN: usize = 1_000;

pub(super) async fn list(
    inner: &Inner,
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let Some(route) = wanted_route(inner, which).await? else { return Ok(Vec::new()) };
    let mut query = Query::new(inner);
    query.and(query.is_dead());
    query.select(which);
    let (position, after) = (query.position(), query.value(after.to_string()));
    query.and(format!("{position} > cast({after} as bigint)"));
    let event = &inner.layout.event;
    let maybe = |place: Option<&Place>| place.map_or_else(|| "cast(null as text)".to_owned(), |p| query.writer.text(p));
    let error = inner
        .layout
        .error
        .as_ref()
        .map_or_else(|| "s.error".to_owned(), |p| format!("coalesce(s.error, {})", query.writer.text(p)));
    let columns = [
        format!("cast({position} as text)"),
        query.writer.text(&event.id),
        query.writer.text(&event.event_type),
        key(&inner.layout, &query.writer).unwrap_or_else(|| "cast(null as text)".to_owned()),
        maybe(event.tenant.as_ref()),
        query.attempts(),
        "s.code".to_owned(),
        error,
        query.writer.micros(&query.appended_at()),
        query.writer.micros(&format!("coalesce(s.since, {})", query.appended_at())),
    ];
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let statement =
        format!("select {} {} order by {position}, {} limit {limit}", columns.join(", "), query.from(), query.row());
    let rows = query.fetch("dead", statement).await?;
    let dead = |row: &Row| DeliveryRow {
        store: inner.name.clone(),
        route: route.clone(),
        position: number(row, 0),
        id: text(row, 1).unwrap_or_default(),
        event_type: text(row, 2).unwrap_or_default(),
        key: text(row, 3),
        tenant: text(row, 4),
        state: DeliveryState::Dead,
        attempts: number(row, 5),
        code: text(row, 6),
        error: text(row, 7),
        due_at: None,
        appended_at: moment(number(row, 8)),
        since: moment(number(row, 9)),
    };
    Ok(rows.iter().map(dead).collect())
}

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
    let mut changed: u64 = 0;
    let mut after = None;
    loop {
        let mut query = Query::new(inner);
        query.and(query.is_dead());
        query.select(which);
        let rows = query.page(after.as_ref(), TURN).await?;
        let Some(last) = rows.last().cloned() else { break };
        let list: Vec<serde_json::Value> = rows.iter().map(|(_, row)| serde_json::json!({"id": row})).collect();
        let entry = record(inner, actor, "dead.discard", &which.describe(), rows.len() as u64);
        changed += remove(inner, serde_json::json!(list).to_string(), entry).await?;
        after = Some(last);
    }
    inner.wake.wake();
    let routes = affected.routes.into_keys().map(|route| (route, changed)).collect();
    Ok(Affected { deliveries: changed, routes, ..affected })
}

/// One turn, with its entry in the trail. Brings how many rows agreed.
async fn remove(inner: &Inner, list: String, entry: Statement) -> Result<u64, StoreError> {
    let writer = inner.writer();
    let on_table = match &inner.layout.death {
        Death::Word(_) => vec![operate::delete(&inner.layout, &writer)],
        Death::Aside => vec![operate::done(&inner.layout, &writer)],
        Death::AsDone => Vec::new(),
    };
    let texts = on_table.into_iter().chain([operate::clear(&writer)]);
    let of = |text: String| Statement::new(text).bind(&inner.layout_name).bind(clock()).bind(&list);
    let statements = texts.map(of).chain([entry]).collect();
    let found = inner.ground.run("dead.discard", statements).await?;
    Ok(found.first().map_or(0, |rows| rows.len() as u64))
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
    let mut query = Query::new(inner);
    query.and(rows.condition(&query));
    query.select(which);
    let keys = key(&inner.layout, &query.writer);
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
        "select cast(count(*) as text), cast({keys} as text), {oldest}, cast(coalesce({older}, 0) as text) {}",
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
    })
}

/// The route of the table, unless another one is asked for.
pub(super) async fn wanted_route(inner: &Inner, which: &Selection) -> Result<Option<String>, StoreError> {
    let names = super::routes::names(inner).await?;
    Ok(names.into_iter().find(|name| which.route.as_ref().is_none_or(|wanted| wanted == name)))
}
