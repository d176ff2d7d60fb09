//! A selection as conditions of a statement. Values are always bound, never written into the text.

use postroom_admin::Selection;
use postroom_core::Pattern;
use sqlx::{Postgres, QueryBuilder};

use crate::clock::{Time, micros};

/// Whether the partitions' BRIN indexes find what is selected faster than walking the log in order does.
pub(super) fn is_narrow(which: &Selection) -> bool {
    !which.ids.is_empty() || which.key.is_some()
}

/// Adds the conditions on the log, which must be called `l`.
pub(super) fn on_log(query: &mut QueryBuilder<Postgres>, which: &Selection) {
    if !which.ids.is_empty() {
        query.push(" and l.id = any(").push_bind(which.ids.clone()).push(")");
    }
    if let Some(pattern) = &which.event_type {
        on_type(query, pattern);
    }
    for (column, value) in [
        ("l.aggregate_type", &which.aggregate_type),
        ("coalesce(l.key, l.aggregate_id)", &which.key),
        ("l.tenant", &which.tenant),
    ] {
        if let Some(value) = value {
            query.push(format_args!(" and {column} = ")).push_bind(value.clone());
        }
    }
    if let Some(from) = which.from {
        query.push(" and l.occurred_at >= ").push_bind(Time(micros(from)));
    }
    if let Some(to) = which.to {
        query.push(" and l.occurred_at < ").push_bind(Time(micros(to)));
    }
}

fn on_type(query: &mut QueryBuilder<Postgres>, pattern: &Pattern) {
    let text = pattern.to_string();
    match text.strip_suffix('*') {
        Some(prefix) => query.push(" and starts_with(l.type, ").push_bind(prefix.to_owned()).push(")"),
        None => query.push(" and l.type = ").push_bind(text),
    };
}
