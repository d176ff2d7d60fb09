//! Dead letters and replays: listing, making rows pending again, giving them up for good.

use std::collections::BTreeMap;

use postroom_core::view::{Affected, DeliveryRow};
use postroom_core::{Actor, DeliveryState, ReplayOptions, Selection, StoreError};

use super::actions::{moment, record};
use super::query::{Query, number, text};
use crate::ground::{Row, Statement};
use crate::layout::{Death, Place};
use crate::sql::operate;
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
        maybe(event.key.as_ref().or(event.aggregate_id.as_ref())),
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

/// What an operator does to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Dead ones are pending again.
    ReplayDead,
    /// Done ones are pending again.
    Replay,
    /// Dead ones are given up for good.
    Discard,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Self::ReplayDead => "dead.replay",
            Self::Replay => "replay",
            Self::Discard => "dead.discard",
        }
    }

    fn condition(self, query: &Query<'_>) -> String {
        match self {
            Self::ReplayDead | Self::Discard => query.is_dead(),
            Self::Replay => format!("{}{}", query.is_done(), query.is_newest()),
        }
    }
}

/// Changes what is selected, a turn at a time; counts only when `dry_run`.
pub(super) async fn act(
    inner: &Inner,
    act: Act,
    which: &Selection,
    how: ReplayOptions,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    let Some(route) = wanted_route(inner, which).await? else { return Ok(Affected::default()) };
    let affected = count(inner, act, which, how, &route).await?;
    if how.dry_run || affected.deliveries == 0 {
        return Ok(affected);
    }
    let mut changed: u64 = 0;
    let mut after = None;
    loop {
        let rows = chosen(inner, act, which, after.as_ref()).await?;
        let Some(last) = rows.last().cloned() else { break };
        let spaced: Vec<serde_json::Value> = (changed..)
            .zip(&rows)
            .map(|(n, (_, row))| {
                #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
                let after = how.rate.map_or(0.0, |rate| n as f64 / rate * 1000.0);
                serde_json::json!({"id": row, "after": format!("{after:.0}"), "attempts": "0"})
            })
            .collect();
        let entry = record(inner, actor, act.name(), &which.describe(), rows.len() as u64);
        changed += run(inner, act, serde_json::json!(spaced).to_string(), entry).await?;
        // On from here: a relay may have delivered the first ones again by now.
        after = Some(last);
    }
    inner.wake.wake();
    Ok(Affected { deliveries: changed, routes: BTreeMap::from([(route, changed)]), ..affected })
}

/// One turn, with its entry in the trail. Brings how many rows agreed.
async fn run(inner: &Inner, act: Act, list: String, entry: Statement) -> Result<u64, StoreError> {
    let writer = inner.writer();
    let on_table = match (act, &inner.layout.death) {
        (Act::ReplayDead | Act::Replay, _) => operate::replayed(&inner.layout, &writer, &inner.log),
        (Act::Discard, Death::Word(_)) => vec![operate::delete(&inner.layout, &writer)],
        (Act::Discard, Death::Aside) => vec![operate::done(&inner.layout, &writer)],
        (Act::Discard, Death::AsDone) => Vec::new(),
    };
    let texts = on_table.into_iter().chain([operate::clear(&writer)]);
    let of = |text: String| Statement::new(text).bind(&inner.layout_name).bind(clock()).bind(&list);
    let statements = texts.map(of).chain([entry]).collect();
    let found = inner.ground.run(act.name(), statements).await?;
    Ok(found.first().map_or(0, |rows| rows.len() as u64))
}

/// The next rows of a turn, behind the last one of the turn before: position and id.
async fn chosen(
    inner: &Inner,
    act: Act,
    which: &Selection,
    after: Option<&(i64, String)>,
) -> Result<Vec<(i64, String)>, StoreError> {
    let mut query = Query::new(inner);
    query.and(act.condition(&query));
    query.select(which);
    let (position, row) = (query.position(), query.row());
    if let Some((last, id)) = after {
        let (last, id) = (query.value(last.to_string()), query.value(id));
        query.and(format!("({position}, {row}) > (cast({last} as bigint), {id})"));
    }
    let statement =
        format!("select cast({position} as text), {row} {} order by {position}, {row} limit {TURN}", query.from());
    let rows = query.fetch(act.name(), statement).await?;
    Ok(rows.iter().filter_map(|row| Some((number(row, 0), text(row, 1)?))).collect())
}

async fn count(
    inner: &Inner,
    act: Act,
    which: &Selection,
    how: ReplayOptions,
    route: &str,
) -> Result<Affected, StoreError> {
    let mut query = Query::new(inner);
    query.and(act.condition(&query));
    query.select(which);
    let event = &inner.layout.event;
    let keys = event.key.as_ref().or(event.aggregate_id.as_ref());
    let keys = keys.map_or_else(|| "0".to_owned(), |place| format!("count(distinct {})", query.writer.text(place)));
    let oldest = query.writer.micros(&format!("min({})", query.occurred_at()));
    let older = match how.inbox_window {
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
    let rows = query.fetch(act.name(), statement).await?;
    let row = rows.into_iter().next().unwrap_or_default();
    let deliveries = number(&row, 0);
    Ok(Affected {
        deliveries,
        keys: number(&row, 1),
        routes: BTreeMap::from([(route.to_owned(), deliveries)]),
        oldest: text(&row, 2).and_then(|micros| micros.parse().ok()).map(moment),
        older_than_inbox: number(&row, 3),
    })
}

/// The route of the table, unless another one is asked for.
async fn wanted_route(inner: &Inner, which: &Selection) -> Result<Option<String>, StoreError> {
    let names = super::routes::names(inner).await?;
    Ok(names.into_iter().find(|name| which.route.as_ref().is_none_or(|wanted| wanted == name)))
}
