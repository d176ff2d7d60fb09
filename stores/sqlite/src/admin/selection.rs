//! A selection as conditions of a statement. Values are always bound, never written into the text.

use postroom_admin::Selection;
use postroom_core::Pattern;
use serde_json::json;
use sqlx::QueryBuilder;

use crate::clock::micros;

/// Adds the conditions on the log, which must be called `l`. Ids and keys are served by their indexes.
pub(super) fn on_log(query: &mut QueryBuilder<sqlx::Sqlite>, which: &Selection) {
    if !which.ids.is_empty() {
        query.push(" and l.id in (select value from json_each(").push_bind(json!(which.ids).to_string()).push("))");
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
        query.push(" and l.occurred_at >= ").push_bind(micros(from));
    }
    if let Some(to) = which.to {
        query.push(" and l.occurred_at < ").push_bind(micros(to));
    }
}

fn on_type(query: &mut QueryBuilder<sqlx::Sqlite>, pattern: &Pattern) {
    let text = pattern.to_string();
    match text.strip_suffix('*') {
        Some(prefix) => {
            query.push(" and substr(l.type, 1, length(").push_bind(prefix.to_owned());
            query.push(")) = ").push_bind(prefix.to_owned());
        }
        None => {
            query.push(" and l.type = ").push_bind(text);
        }
    }
}
