//! Dead letters: giving them up for good; and what a selection of them touches.

use std::collections::BTreeMap;
use std::time::Duration;

use postroom_admin::view::Affected;
use postroom_admin::{Selection, audit, run_write};
use postroom_core::{Actor, StoreError};

use super::query::{Query, number, text};
use super::routes::Registered;
use super::tables::{Tables, first, moment, run};
use crate::executor::Statement;
use crate::mapping::Death;
use crate::sql::{further, operate};
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
    let mut routes = BTreeMap::new();
    for route in wanted_routes(inner, which).await? {
        let changed = discard_of(inner, &route, which, number).await?;
        routes.insert(route.name, changed);
    }
    inner.wake.wake();
    Ok(Affected { deliveries: routes.values().sum(), routes, ..affected })
}

async fn discard_of(inner: &Inner, route: &Registered, which: &Selection, number: i64) -> Result<u64, StoreError> {
    let mut changed: u64 = 0;
    let mut after = None;
    loop {
        let mut query = Query::of(inner, route);
        query.and(query.is_dead());
        query.select(which);
        let rows = query.page(after.as_ref(), TURN).await?;
        let Some(last) = rows.last().cloned() else { return Ok(changed) };
        let list: Vec<serde_json::Value> = rows.iter().map(|(_, row)| serde_json::json!({"id": row})).collect();
        changed += remove(inner, route, serde_json::json!(list).to_string(), number).await?;
        after = Some(last);
    }
}

/// Removes rows, and adds them to what the action with this number in the audit touched; returns how many agreed.
async fn remove(inner: &Inner, route: &Registered, list: String, number: i64) -> Result<u64, StoreError> {
    let writer = inner.writer();
    // The first of them says how many agreed.
    let texts = match &inner.mapping.death {
        Death::Word(_) => [operate::delete(&inner.mapping, &writer), operate::clear(&writer)],
        Death::Parked => [operate::done(&inner.mapping, &writer), operate::clear(&writer)],
        // Those that were published look done already.
        Death::AsDone => [operate::clear(&writer), operate::done_if_pending(&inner.mapping, &writer)],
    };
    let texts = if route.further { further::discarded(&inner.mapping, &writer) } else { texts };
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
    /// A statement over them, as the route has them.
    pub(super) fn query<'i>(self, inner: &'i Inner, route: &Registered) -> Query<'i> {
        let mut query = match self {
            Self::Dead => Query::of(inner, route),
            Self::Done => Query::settled_by(inner, route),
        };
        query.and(match self {
            Self::Dead => query.is_dead(),
            Self::Done => format!("{}{}", query.is_done(), query.is_newest()),
        });
        query
    }
}

/// What a selection touches, and how much of it is older than the inbox remembers. Of keys that several routes have, the most of
/// one route are counted.
pub(super) async fn count(
    inner: &Inner,
    rows: Rows,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    let mut all = Affected::default();
    for route in wanted_routes(inner, which).await? {
        let of_route = count_of(inner, &route, rows, which, inbox_window).await?;
        all.deliveries += of_route.deliveries;
        all.older_than_inbox += of_route.older_than_inbox;
        all.keys = all.keys.max(of_route.keys);
        all.died_by = all.died_by.max(of_route.died_by);
        all.oldest = all.oldest.into_iter().chain(of_route.oldest).min();
        all.routes.extend(of_route.routes);
    }
    Ok(all)
}

async fn count_of(
    inner: &Inner,
    route: &Registered,
    rows: Rows,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    let rows_are_dead = rows == Rows::Dead;
    let mut query = rows.query(inner, route);
    query.select(which);
    let keys = format!("count(distinct {})", query.key());
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
        routes: BTreeMap::from([(route.name.clone(), deliveries)]),
        oldest: text(&row, 2).and_then(|micros| micros.parse().ok()).map(moment),
        older_than_inbox: number(&row, 3),
        died_by: text(&row, 4).filter(|_| rows_are_dead).and_then(|micros| micros.parse().ok()).map(moment),
    })
}

/// The routes of the table, or the one that is asked for.
pub(super) async fn wanted_routes(inner: &Inner, which: &Selection) -> Result<Vec<Registered>, StoreError> {
    let mut routes = super::routes::registered(inner).await?;
    routes.retain(|route| which.route.as_ref().is_none_or(|wanted| *wanted == route.name));
    Ok(routes)
}
