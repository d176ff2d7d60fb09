//! Deliveries by what failed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use postroom_core::{DeliveryState, StoreError};

use crate::backend::{Fault, LogBackend, LogSession, read_log};
use crate::deliveries::{in_state, state};
use crate::row::Row;
use crate::selection::{on_delivery, on_log};
use crate::statement::Statement;
use crate::view::DeliveryGroup;
use crate::{GROUPED_MAX, Selection};

/// Deliveries that are alike in everything that a database can compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubGroup {
    /// Name of the route.
    pub route: String,
    /// State of the deliveries.
    pub state: DeliveryState,
    /// Code of the last failure.
    pub code: Option<String>,
    /// Event type.
    pub event_type: String,
    /// Tenant of the events.
    pub tenant: Option<String>,
    /// Text of the last failure.
    pub error: Option<String>,
    /// Number of deliveries.
    pub count: u64,
    /// Number of distinct keys.
    pub keys: u64,
    /// Time at which the first of them entered the state.
    pub first_at: Timestamp,
    /// Time at which the last of them entered the state.
    pub last_at: Timestamp,
    /// What the store knows the newest one by.
    pub sample: String,
}

/// Merges subgroups of the same cause; returns the largest groups first.
pub fn merge(store: &str, subgroups: Vec<SubGroup>, limit: usize) -> Vec<DeliveryGroup> {
    let mut groups: BTreeMap<_, DeliveryGroup> = BTreeMap::new();
    for one in subgroups {
        let cause = (one.route.clone(), one.state.as_str(), one.code.clone(), one.error.as_deref().map(cause));
        let group = groups.entry(cause).or_insert_with(|| DeliveryGroup {
            store: store.to_owned(),
            route: one.route,
            state: one.state,
            code: one.code,
            count: 0,
            keys: 0,
            types: BTreeMap::new(),
            tenants: BTreeMap::new(),
            first_at: one.first_at,
            last_at: Timestamp::MIN,
            sample: String::new(),
            error: None,
        });
        group.count += one.count;
        group.keys += one.keys;
        *group.types.entry(one.event_type).or_default() += one.count;
        if let Some(tenant) = one.tenant {
            *group.tenants.entry(tenant).or_default() += one.count;
        }
        group.first_at = group.first_at.min(one.first_at);
        if one.last_at >= group.last_at {
            (group.last_at, group.sample, group.error) = (one.last_at, one.sample, one.error);
        }
    }
    let mut groups: Vec<DeliveryGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups.truncate(limit);
    groups
}

/// The text of an error without what differs from one event to the next: quoted text, addresses, and words with a digit that are
/// longer than a status code.
fn cause(error: &str) -> String {
    let unquoted: String = error.split('"').step_by(2).collect::<Vec<_>>().join("…");
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    let differs = |word: &str| {
        word.contains('@')
            || word.contains(|c: char| c.is_ascii_digit()) && word.chars().filter(|c| is_part(*c)).count() > 3
    };
    let words = unquoted.split_whitespace().map(|word| if differs(word) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Groups the newest deliveries in some states, the largest group first.
pub(crate) async fn list(
    log: &dyn LogBackend,
    states: &[DeliveryState],
    which: &Selection,
    limit: usize,
) -> Result<Vec<DeliveryGroup>, StoreError> {
    let (store, states, which) = (log.store().to_owned(), states.to_vec(), which.clone());
    read_log(log, "groups", move |session| {
        Box::pin(async move {
            let event = session.event_of_delivery();
            let mut query = Statement::new(format!(
                "select d.route, d.state, d.code, l.type, l.tenant, d.error, count(*) as count, \
                 count(distinct coalesce(l.key, l.aggregate_id)) as keys, min(d.since) as first_at, \
                 max(d.since) as last_at, max(d.handle) as handle \
                 from (select * from postroom.delivery d where {}",
                in_state(&states)
            ));
            on_delivery(&mut query, &which);
            query.push(" order by d.seq desc limit ").push_value(GROUPED_MAX);
            query.push(format!(") d {event} where true"));
            on_log(&mut query, session.dialect(), &which);
            query.push(" group by d.route, d.state, d.code, l.type, l.tenant, d.error");
            let rows = session.fetch(query).await?;
            let subgroups = rows.iter().map(subgroup).collect::<Result<_, _>>()?;
            let mut groups = merge(&store, subgroups, limit);
            name_samples(session, &mut groups).await?;
            Ok(groups)
        })
    })
    .await
}

fn subgroup(row: &Row) -> Result<SubGroup, StoreError> {
    Ok(SubGroup {
        route: row.text("route")?,
        state: state(row)?,
        code: row.maybe_text("code")?,
        event_type: row.text("type")?,
        tenant: row.maybe_text("tenant")?,
        error: row.maybe_text("error")?,
        count: row.count("count")?,
        keys: row.count("keys")?,
        first_at: row.time("first_at")?,
        last_at: row.time("last_at")?,
        sample: row.int("handle")?.to_string(),
    })
}

/// Replaces the handles of samples by the ids of their events. Ones that were delivered meanwhile have none.
async fn name_samples(session: &mut dyn LogSession, groups: &mut [DeliveryGroup]) -> Result<(), Fault> {
    let handles: Vec<i64> = groups.iter().filter_map(|group| group.sample.parse().ok()).collect();
    let mut query = Statement::new("select d.handle, l.id from postroom.delivery d ");
    let among = query.value(handles);
    query.push(session.event_of_delivery()).push(" where ").push(session.dialect().among("d.handle", &among));
    let mut ids = BTreeMap::new();
    for row in &session.fetch(query).await? {
        ids.insert(row.int("handle")?.to_string(), row.text("id")?);
    }
    for group in groups {
        group.sample = ids.remove(&group.sample).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_cause_differ_in_numbers_and_names() {
        for (one, other) in [
            ("no template for order-1001", "no template for order-77"),
            ("smtp 550: no such address a@b.example", "smtp 550: no such address c@d.example"),
            (r#"column "total" is missing"#, r#"column "tax" is missing"#),
            ("timed out after 1500ms", "timed out after 20000ms"),
        ] {
            assert_eq!(cause(one), cause(other), "{one} / {other}");
        }
        for (one, other) in [("answered 500", "answered 503"), ("connection refused", "connection reset")] {
            assert_ne!(cause(one), cause(other), "{one} / {other}");
        }
    }
}
