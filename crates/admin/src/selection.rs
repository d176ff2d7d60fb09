//! A selection as conditions of a statement. Values are always bound, never written into the text.

use postroom_core::{Filter, Pattern};

use crate::Selection;
use crate::statement::{Dialect, Statement};

/// Adds the conditions on the log, which must be called `l`.
pub fn on_log(query: &mut Statement, dialect: Dialect, which: &Selection) {
    if !which.ids.is_empty() {
        let ids = query.value(which.ids.clone());
        query.push(" and ").push(dialect.among("l.id", &ids));
    }
    if let Some(pattern) = &which.event_type {
        on_type(query, dialect, pattern);
    }
    for (column, value) in [
        ("l.aggregate_type", &which.aggregate_type),
        ("coalesce(l.key, l.aggregate_id)", &which.key),
        ("l.tenant", &which.tenant),
    ] {
        if let Some(value) = value {
            query.push(format!(" and {column} = ")).push_value(value.as_str());
        }
    }
    if let Some(from) = which.from {
        query.push(" and l.occurred_at >= ").push_value(from);
    }
    if let Some(to) = which.to {
        query.push(" and l.occurred_at < ").push_value(to);
    }
}

/// Adds the conditions on deliveries, which must be called `d`.
pub fn on_delivery(query: &mut Statement, which: &Selection) {
    for (column, value) in [("d.route", &which.route), ("d.code", &which.code)] {
        if let Some(value) = value {
            query.push(format!(" and {column} = ")).push_value(value.as_str());
        }
    }
    if let Some(died_by) = which.died_by {
        query.push(" and d.since <= ").push_value(died_by);
    }
}

/// Adds the filter of a route as conditions on the log, which must be called `l`.
pub(crate) fn on_filter(query: &mut Statement, dialect: Dialect, filter: &Filter) {
    for (column, patterns) in
        [("l.type", &filter.types), ("l.aggregate_type", &filter.aggregate_type), ("l.tenant", &filter.tenant)]
    {
        for (n, pattern) in patterns.iter().enumerate() {
            query.push(if n == 0 { " and (" } else { " or " });
            let text = pattern.to_string();
            let condition = match text.strip_suffix('*') {
                Some(prefix) => dialect.starts_with(column, &query.value(prefix)),
                None => format!("{column} = {}", query.value(text.as_str())),
            };
            query.push(condition);
        }
        query.push(if patterns.is_empty() { "" } else { ")" });
    }
}

fn on_type(query: &mut Statement, dialect: Dialect, pattern: &Pattern) {
    let text = pattern.to_string();
    match text.strip_suffix('*') {
        Some(prefix) => {
            let prefix = query.value(prefix);
            query.push(" and ").push(dialect.starts_with("l.type", &prefix));
        }
        None => {
            query.push(" and l.type = ").push_value(text);
        }
    }
}
