//! Deliveries that are not settled, and dead letters.

use std::time::Instant;

use jiff::Timestamp;
use postroom_core::{DeliveryState, Filter, StoreError};

use crate::Selection;
use crate::backend::{Fault, LogBackend, LogSession, read_log};
use crate::row::{Row, odd};
use crate::selection::{on_delivery, on_filter, on_log};
use crate::statement::{Dialect, Statement};
use crate::view::{DeliveryRow, RouteStatus};

/// Numbers of the log that are searched together for events that a route wants, and how often.
const UNREAD_AT_ONCE: i64 = 10_000;
const UNREAD_TURNS_MAX: usize = 1_000;
/// Rows that a search returns at once, however few are asked for: some are in another state.
const UNREAD_ROWS: usize = 1_000;
/// Due events that the status of a route counts in a search.
const DUE_FOUND_MAX: usize = 1_000;

/// Lists deliveries after a position, oldest first. A page ends after all routes of its last position: the next one begins
/// after that position.
pub(crate) async fn list(
    log: &dyn LogBackend,
    states: &[DeliveryState],
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let (store, states, which) = (log.store().to_owned(), states.to_vec(), which.clone());
    read_log(log, "deliveries", move |session| {
        Box::pin(async move {
            let mut rows = page(session, &store, &states, &which, " and d.seq > ", after, limit).await?;
            if let Some(last) = rows.last().map(|row| row.position).filter(|_| rows.len() == limit) {
                rows.retain(|row| row.position < last);
                rows.extend(page(session, &store, &states, &which, " and d.seq = ", last, usize::MAX).await?);
            }
            // What is not read yet has not failed.
            if states.iter().any(|state| may_be_unread(*state)) && which.code.is_none() {
                for route in Wanted::of(session, &which).await? {
                    let search = Search { states: &states, which: &which, limit, end: None };
                    route.unread(session, &store, &search, after, &mut rows).await?;
                }
                rows.sort_by(|one, other| (one.position, &one.route).cmp(&(other.position, &other.route)));
                let last = limit.checked_sub(1).and_then(|last| rows.get(last)).map(|row| row.position);
                rows.retain(|row| last.is_none_or(|last| row.position <= last));
            }
            Ok(rows)
        })
    })
    .await
}

/// Searches the log for due events of a route whose status found none among the events it read. Leaves the status as it is if
/// there are none among those that can be searched until `end`, and there are more.
pub(crate) async fn search_due(log: &dyn LogBackend, status: &mut RouteStatus, end: Instant) -> Result<(), StoreError> {
    let store = log.store().to_owned();
    let which = Selection { route: Some(status.route.clone()), ..Selection::default() };
    let (rows, all, now) = read_log(log, "routes", move |session| {
        Box::pin(async move {
            let (mut rows, mut all) = (Vec::new(), true);
            let search = Search { states: &[DeliveryState::Due], which: &which, limit: DUE_FOUND_MAX, end: Some(end) };
            for route in Wanted::of(session, &which).await? {
                all &= route.unread(session, &store, &search, 0, &mut rows).await?;
            }
            Ok((rows, all, session.now().await?))
        })
    })
    .await?;
    if all || !rows.is_empty() {
        let oldest = rows.iter().map(|row| row.since).min();
        status.due = Some(rows.len() as u64);
        status.due_estimated = !all;
        status.oldest_due_seconds = Some(oldest.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0)));
    }
    Ok(())
}

/// Counts the deliveries of a route that have a row.
pub(crate) async fn rows(log: &dyn LogBackend, route: &str) -> Result<u64, StoreError> {
    let count = Statement::new("select count(*) as n from postroom.delivery where route = $1").bind(route);
    read_log(log, "forget", move |session| {
        Box::pin(async move {
            let found = session.fetch(count).await?;
            Ok(found.first().map(|row| row.int("n")).transpose()?.map_or(0, i64::unsigned_abs))
        })
    })
    .await
}

/// What is searched for among the events that a route has not read yet.
struct Search<'a> {
    states: &'a [DeliveryState],
    which: &'a Selection,
    limit: usize,
    /// When the search gives up.
    end: Option<Instant>,
}

fn may_be_unread(state: DeliveryState) -> bool {
    matches!(state, DeliveryState::Due | DeliveryState::Delayed | DeliveryState::Blocked)
}

/// What a route wants of the log.
struct Wanted {
    route: String,
    filter: Filter,
    /// What was appended before is not for this route.
    start_at: Option<Timestamp>,
}

impl Wanted {
    /// The route that is selected, or all.
    async fn of(session: &mut dyn LogSession, which: &Selection) -> Result<Vec<Self>, Fault> {
        let filter = match session.dialect() {
            Dialect::Postgres => "filter::text as filter",
            Dialect::Sqlite => "filter",
        };
        let mut query = Statement::new(format!("select name, {filter}, start_at from postroom.route where true"));
        if let Some(route) = &which.route {
            query.push(" and name = ").push_value(route.as_str());
        }
        query.push(" order by name");
        let read = |row: &Row| {
            Ok(Self {
                route: row.text("name")?,
                filter: serde_json::from_str(&row.text("filter")?)
                    .map_err(|error| odd("filter", &error.to_string()))?,
                start_at: row.maybe_time("start_at")?,
            })
        };
        Ok(session.fetch(query).await?.iter().map(read).collect::<Result<_, StoreError>>()?)
    }

    /// Adds the events that the route has not read yet, or is sending for the first time. Returns whether that are all: not
    /// when there may be more than was asked for, or than can be searched.
    async fn unread(
        &self,
        session: &mut dyn LogSession,
        store: &str,
        search: &Search<'_>,
        mut after: i64,
        rows: &mut Vec<DeliveryRow>,
    ) -> Result<bool, Fault> {
        let (now, mut missing) = (session.now().await?, search.limit);
        let at_once = search.limit.max(UNREAD_ROWS);
        let (before, behind) = session.unread().split_once("{selected}").unwrap_or((session.unread(), ""));
        for _ in 0..UNREAD_TURNS_MAX {
            if search.end.is_some_and(|end| Instant::now() >= end) {
                return Ok(false);
            }
            // A route may want few of the events that it has to read: the store skips the others.
            let next = Statement::new(format!("{before}{behind}"));
            let next = session.fetch(next.bind(self.route.as_str()).bind(after).bind(1_usize)).await?;
            let Some(next) = next.first() else { return Ok(true) };
            let end = next.int("seq")?.saturating_add(UNREAD_AT_ONCE);
            let mut query = Statement::new(before).bind(self.route.as_str()).bind(after).bind(at_once);
            on_log(&mut query, session.dialect(), search.which);
            on_filter(&mut query, session.dialect(), &self.filter);
            query.push(" and l.seq < ").push_value(end).push(behind);
            let found = session.fetch(query).await?;
            after = end - 1;
            for row in &found {
                if found.len() == at_once {
                    after = row.int("seq")?;
                }
                let Some(row) = self.delivery(store, row, now)?.filter(|row| search.states.contains(&row.state)) else {
                    continue;
                };
                rows.push(row);
                missing -= 1;
                if missing == 0 {
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    /// An event that has no delivery yet as the one that it will have; `None` if it will have none.
    fn delivery(&self, store: &str, row: &Row, now: Timestamp) -> Result<Option<DeliveryRow>, StoreError> {
        let (event_type, tenant) = (row.text("type")?, row.maybe_text("tenant")?);
        let (appended_at, available_at) = (row.time("appended_at")?, row.maybe_time("available_at")?);
        if !self.filter.matches_parts(&event_type, row.maybe_text("aggregate_type")?.as_deref(), tenant.as_deref())
            || self.start_at.is_some_and(|start| appended_at < start)
        {
            return Ok(None);
        }
        let state = match available_at {
            Some(at) if at > now => DeliveryState::Delayed,
            _ if row.flag("blocked")? => DeliveryState::Blocked,
            _ => DeliveryState::Due,
        };
        Ok(Some(DeliveryRow {
            store: store.to_owned(),
            route: self.route.clone(),
            position: row.int("seq")?,
            id: row.text("id")?,
            event_type,
            key: row.maybe_text("ordering_key")?,
            tenant,
            state,
            attempts: 0,
            code: None,
            error: None,
            due_at: available_at.filter(|_| state == DeliveryState::Delayed),
            appended_at,
            since: available_at.filter(|_| state == DeliveryState::Due).map_or(appended_at, |at| at.max(appended_at)),
        }))
    }
}

async fn page(
    session: &mut dyn LogSession,
    store: &str,
    states: &[DeliveryState],
    which: &Selection,
    condition: &str,
    position: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, Fault> {
    let mut query = Statement::new(format!(
        "select d.route, d.seq, d.state, d.attempts, d.code, d.error, d.due, d.since, l.id, l.type, l.tenant, \
         l.appended_at, coalesce(l.key, l.aggregate_id) as ordering_key \
         from postroom.delivery d {} where {}",
        session.event_of_delivery(),
        in_state(states)
    ));
    query.push(condition).push_value(position);
    on_delivery(&mut query, which);
    on_log(&mut query, session.dialect(), which);
    query.push(" order by d.seq, d.route limit ").push_value(limit);
    let rows = session.fetch(query).await?;
    Ok(rows.iter().map(|row| delivery(store, row)).collect::<Result<_, _>>()?)
}

/// The condition on a delivery `d` that it is in one of these states. Written out, not bound: dead letters have an index of
/// their own.
pub(crate) fn in_state(states: &[DeliveryState]) -> String {
    match states {
        [state] => format!("d.state = '{}'", state.as_str()),
        states => {
            let words: Vec<String> = states.iter().map(|state| format!("'{}'", state.as_str())).collect();
            format!("d.state in ({})", words.join(", "))
        }
    }
}

fn delivery(store: &str, row: &Row) -> Result<DeliveryRow, StoreError> {
    Ok(DeliveryRow {
        store: store.to_owned(),
        route: row.text("route")?,
        position: row.int("seq")?,
        id: row.text("id")?,
        event_type: row.text("type")?,
        key: row.maybe_text("ordering_key")?,
        tenant: row.maybe_text("tenant")?,
        state: state(row)?,
        attempts: u32::try_from(row.int("attempts")?).unwrap_or(0),
        code: row.maybe_text("code")?,
        error: row.maybe_text("error")?,
        due_at: row.maybe_time("due")?,
        appended_at: row.time("appended_at")?,
        since: row.time("since")?,
    })
}

/// The state of a delivery.
pub(crate) fn state(row: &Row) -> Result<DeliveryState, StoreError> {
    let word = row.text("state")?;
    DeliveryState::parse(&word).ok_or_else(|| odd("state", &format!("holds {word:?}, which is no state of a delivery")))
}
