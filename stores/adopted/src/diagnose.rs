//! What is wrong with an adopted table, or will be, and the SQL that fixes it. Looks only.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Diagnostic, RelayIdentity, RouteSpec, StoreError};

use crate::executor::{Dialect, Statement};
use crate::mapping::Name;
use crate::source::{AdoptedSource, Consumer};
use crate::store::{Adopted, Inner};
use crate::survey::{self, Fact, Facts};
use crate::tables::rights;

/// Numbers that are used up so far leave little time to rebuild a large table.
const USED_UP: f64 = 0.8;

impl Adopted {
    /// What is wrong with the table, or will be; an error where a relay of a route with this consumer would refuse it. Changes
    /// nothing.
    pub async fn diagnose(&self, consumer: Option<&str>) -> Result<Vec<Diagnostic>, StoreError> {
        let inner = &self.inner;
        let table = &inner.mapping.table;
        let route = RouteSpec { consumer: consumer.map(str::to_owned), ..RouteSpec::new("doctor") };
        let consumer = Consumer::open(inner, &route).await?;
        rights::check(inner, consumer.is_some()).await?;
        let nobody = RelayIdentity {
            name: "doctor".to_owned(),
            boot: String::new(),
            version: String::new(),
            lease: Duration::ZERO,
        };
        AdoptedSource::new(Arc::clone(inner), nobody, route, consumer).check().await?;
        let survey = survey::survey(&inner.executor, table).await?;
        let mut found = vec![Diagnostic::fine(format!("table {table} fits its mapping, and its rows may be marked"))];
        if survey.hidden {
            let message = format!("row level security hides rows of {table} from {}", survey.rights.user);
            found.push(Diagnostic::warning("doctor.rows_hidden", message).hint("hidden rows are never sent"));
        }
        for name in &inner.mapping.order {
            found.extend(cached(inner, &survey.facts, name).await?);
        }
        let mut numbers = inner.mapping.order.clone();
        if !numbers.contains(&inner.mapping.row) {
            numbers.push(inner.mapping.row.clone());
        }
        for name in &numbers {
            found.extend(used_up(inner, &survey.facts, name).await?);
        }
        let advice = survey.indexes(&inner.mapping);
        found.push(match (&advice.served_by, advice.create.is_empty()) {
            (Some(index), true) => Diagnostic::fine(format!("index {index} finds pending rows in order")),
            (_, true) => Diagnostic::fine("no index is missing"),
            _ => Diagnostic::warning(
                "doctor.index_missing",
                format!("no index finds the pending rows of {table} in order"),
            )
            .hint("every look reads or sorts more than it needs")
            .fix(advice.create.join("\n")),
        });
        Ok(found)
    }
}

/// Whether sessions draw several numbers at once: a later transaction may get a lower number, and be read first.
async fn cached(inner: &Inner, facts: &Facts, name: &Name) -> Result<Option<Diagnostic>, StoreError> {
    let Some(Fact { cache, .. }) = facts.column(name).filter(|fact| fact.cache > 1) else { return Ok(None) };
    let table = &inner.mapping.table;
    if !inner.mapping.ordered {
        return Ok(Some(Diagnostic::fine(format!("{name} of {table} does not rise, and no order is kept"))));
    }
    let sequence = Statement::new("select pg_get_serial_sequence($1, $2)").bind(table.quoted()).bind(name.as_str());
    let message =
        format!("sessions draw {cache} numbers at once for {name} of {table}: events of one key may be swapped");
    let found = Diagnostic::problem("doctor.sequence_cache", message)
        .hint("or set `ordered = false` in the mapping, if order does not matter");
    Ok(Some(match one(inner, sequence).await? {
        Some(sequence) => found.fix(format!("alter sequence {sequence} cache 1;")),
        None => found,
    }))
}

/// Whether a column of numbers is about to run out of them.
async fn used_up(inner: &Inner, facts: &Facts, name: &Name) -> Result<Option<Diagnostic>, StoreError> {
    let largest = match facts.column(name).map(|fact| fact.sql_type.as_str()) {
        Some("integer") if facts.dialect == Dialect::Postgres => f64::from(i32::MAX),
        Some("smallint") if facts.dialect == Dialect::Postgres => f64::from(i16::MAX),
        _ => return Ok(None),
    };
    // Without an index the whole table would be read.
    let leads = |part: Option<&String>| part.is_some_and(|part| part == name.as_str());
    if !facts.indexes.iter().any(|index| index.predicate.is_none() && leads(index.parts.first())) {
        return Ok(None);
    }
    let table = &inner.mapping.table;
    let text = format!("select cast(max({}) as text) from {}", name.quoted(), table.quoted());
    let last: f64 = one(inner, Statement::new(text)).await?.and_then(|text| text.parse().ok()).unwrap_or_default();
    let share = last / largest;
    if share < USED_UP {
        return Ok(None);
    }
    let message = format!("{name} of {table} is at {last}, {:.0} % of what its type holds", share * 100.0);
    Ok(Some(
        Diagnostic::warning("doctor.id_overflow", message)
            .hint("appends fail when the numbers run out; the fix rewrites the table under a lock, so choose a quiet time")
            .fix(format!("alter table {} alter column {} type bigint;", table.in_sql(), name.in_sql())),
    ))
}

/// The one value that a statement brings.
async fn one(inner: &Inner, statement: Statement) -> Result<Option<String>, StoreError> {
    let rows = inner.executor.look("diagnose", vec![statement]).await?;
    Ok(rows.into_iter().flatten().flatten().next().flatten())
}
