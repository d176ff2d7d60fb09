//! Rows that are still to be delivered, and dead letters.

use postroom_admin::Selection;
use postroom_admin::view::DeliveryRow;
use postroom_core::{DeliveryState, StoreError};

use super::dead::wanted_routes;
use super::query::{Query, number, text};
use super::routes::Registered;
use super::tables::moment;
use crate::executor::Row;
use crate::store::Inner;

/// Lists rows after a position, oldest first.
pub(super) async fn list(
    inner: &Inner,
    states: &[DeliveryState],
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let mut listed = Vec::new();
    for route in wanted_routes(inner, which).await? {
        listed.extend(of_route(inner, &route, states, which, after, limit).await?);
    }
    listed.sort_by_key(|row: &DeliveryRow| row.position);
    listed.truncate(limit);
    Ok(listed)
}

async fn of_route(
    inner: &Inner,
    route: &Registered,
    states: &[DeliveryState],
    which: &Selection,
    after: i64,
    limit: usize,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let mut query = Query::of(inner, route);
    query.and(query.in_state(states));
    query.select(which);
    let (position, after) = (query.position(), query.value(after.to_string()));
    query.and(format!("{position} > cast({after} as bigint)"));
    let columns = [
        format!("cast({position} as text)"),
        query.event_id(),
        query.event_type(),
        query.key(),
        query.tenant(),
        query.attempts(),
        "s.code".to_owned(),
        query.error(),
        query.writer.micros(&query.appended_at()),
        query.writer.micros(&query.since()),
        query.state(),
        query.writer.micros(&query.next_attempt()),
    ];
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let statement =
        format!("select {} {} order by {position}, {} limit {limit}", columns.join(", "), query.from(), query.row());
    let rows = query.fetch("deliveries", statement).await?;
    let delivery = |row: &Row| DeliveryRow {
        store: inner.name.clone(),
        route: route.name.clone(),
        position: number(row, 0),
        id: text(row, 1).unwrap_or_default(),
        event_type: text(row, 2).unwrap_or_default(),
        key: text(row, 3),
        tenant: text(row, 4),
        state: text(row, 10).and_then(|word| DeliveryState::parse(&word)).unwrap_or(DeliveryState::Due),
        attempts: number(row, 5),
        code: text(row, 6),
        error: text(row, 7),
        due_at: text(row, 11).and_then(|micros| micros.parse().ok()).map(moment),
        appended_at: moment(number(row, 8)),
        since: moment(number(row, 9)),
    };
    Ok(rows.iter().map(delivery).collect())
}
