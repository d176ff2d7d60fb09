//! Rows by what failed.

use postroom_admin::view::DeliveryGroup;
use postroom_admin::{Selection, SubGroup, merge};
use postroom_core::{DeliveryState, StoreError};

use super::dead::wanted_routes;
use super::query::{Query, number, text};
use super::routes::Registered;
use super::tables::moment;
use crate::executor::Row;
use crate::store::Inner;

/// Which rows are dead is told by the table's own column, or by the side table's index of dead ones.
pub(super) async fn list(
    inner: &Inner,
    states: &[DeliveryState],
    which: &Selection,
    limit: usize,
) -> Result<Vec<DeliveryGroup>, StoreError> {
    let mut subgroups = Vec::new();
    for route in wanted_routes(inner, which).await? {
        subgroups.extend(of_route(inner, &route, states, which).await?);
    }
    Ok(merge(&inner.name, subgroups, limit))
}

async fn of_route(
    inner: &Inner,
    route: &Registered,
    states: &[DeliveryState],
    which: &Selection,
) -> Result<Vec<SubGroup>, StoreError> {
    let mut query = Query::of(inner, route);
    query.and(query.in_state(states));
    query.select(which);
    let (key, tenant) = (query.key(), query.tenant());
    let statement = format!(
        "select {}, s.code, {}, {tenant}, {}, cast(count(*) as text), cast(count(distinct {key}) as text), {}, {}, max({}) {} \
         group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5",
        query.state(),
        query.event_type(),
        query.error(),
        query.writer.micros(&format!("min({})", query.since())),
        query.writer.micros(&format!("max({})", query.since())),
        query.event_id(),
        query.from(),
    );
    let rows = query.fetch("groups", statement).await?;
    let subgroup = |row: &Row| SubGroup {
        route: route.name.clone(),
        state: text(row, 0).and_then(|word| DeliveryState::parse(&word)).unwrap_or(DeliveryState::Due),
        code: text(row, 1),
        event_type: text(row, 2).unwrap_or_default(),
        tenant: text(row, 3),
        error: text(row, 4),
        count: number(row, 5),
        keys: number(row, 6),
        first_at: moment(number(row, 7)),
        last_at: moment(number(row, 8)),
        sample: text(row, 9).unwrap_or_default(),
    };
    Ok(rows.iter().map(subgroup).collect())
}
