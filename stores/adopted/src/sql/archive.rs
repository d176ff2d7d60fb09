//! Rows that move to another table: gone from the one and in the other, or neither.

use super::Writer;
use super::assign::Assignments;
use super::columns::Columns;
use super::mark::Mark;
use crate::executor::Dialect;
use crate::mapping::{LogTable, Mapping, Name, TableName};

/// Moves rows into the log, with what is new about them, under a condition on the row `t` and its fields `x`.
pub(super) fn into_log(
    mapping: &Mapping,
    writer: &Writer<'_>,
    log: &LogTable,
    columns: &Columns,
    new: &Assignments,
    condition: &str,
) -> Mark {
    let there = Writer { columns, ..writer.clone() };
    let new = new.values(writer).into_iter().filter(|(name, _)| columns.get(name).is_some());
    let mut values: Vec<(Name, String)> = new.map(|(name, new)| typed(&there, name, &new)).collect();
    if let Some(name) = &log.errors {
        values.push((name.clone(), there.row_id(name, "coalesce(x.errors, '[]')")));
    }
    if let Some(name) = &log.at {
        values.push((name.clone(), there.stored_moment(name, &writer.now("$2"))));
    }
    let values = with_the_rest(writer, values, columns);
    let fields = ["id", "fence", "attempts", "after", "error", "errors"];
    moved(mapping, writer, (&mapping.table, &log.table), &values, &fields, condition)
}

/// Values of new rows: those given, and as they are all other columns that both tables have.
pub(super) fn with_the_rest(
    writer: &Writer<'_>,
    mut values: Vec<(Name, String)>,
    columns: &Columns,
) -> Vec<(Name, String)> {
    let both = writer.columns.0.keys().filter(|name| columns.get(name).is_some());
    let rest: Vec<&Name> = both.filter(|name| !values.iter().any(|(given, _)| given == *name)).collect();
    values.extend(rest.into_iter().map(|name| (name.clone(), writer.of(name))));
    values
}

/// A literal as the other table's column holds it.
fn typed(there: &Writer<'_>, name: Name, new: &str) -> (Name, String) {
    let value = if new.starts_with('\'') { there.row_id(&name, new) } else { new.to_owned() };
    (name, value)
}

/// Moves rows from one table to another, under a condition. Brings the ids of those moved.
fn moved(
    mapping: &Mapping,
    writer: &Writer<'_>,
    (from, to): (&TableName, &TableName),
    values: &[(Name, String)],
    fields: &[&str],
    condition: &str,
) -> Mark {
    let (names, values): (Vec<String>, Vec<&str>) =
        values.iter().map(|(name, value)| (name.quoted(), value.as_str())).unzip();
    let (names, values) = (names.join(", "), values.join(", "));
    let list = writer.unpacked("$3", fields);
    match writer.dialect {
        Dialect::Postgres => Mark {
            with: Some(format!(
                "gone as (delete from {} as t using {list} where {condition} returning t.*)",
                from.quoted()
            )),
            text: format!(
                "insert into {} ({names}) overriding system value select {values} from gone as t, {list} where {} = {} \
                 on conflict do nothing returning {}::text",
                to.quoted(),
                writer.of(&mapping.row),
                writer.row_id(&mapping.row, "x.id"),
                mapping.row.quoted(),
            ),
            then: None,
        },
        Dialect::Sqlite => Mark {
            with: None,
            text: format!(
                "insert into {} ({names}) select {values} from {} as t, {list} where {condition} \
                 on conflict do nothing returning cast({} as text)",
                to.quoted(),
                from.quoted(),
                mapping.row.quoted()
            ),
            then: Some(format!(
                "delete from {} as t where exists (select 1 from {list} where {condition})",
                from.quoted()
            )),
        },
    }
}

/// The table of rows that are open and of those that have moved, with the columns of the first.
pub(crate) fn both(mapping: &Mapping, writer: &Writer<'_>, log: &LogTable, columns: &Columns) -> String {
    let mine: Vec<String> = writer.columns.0.keys().map(Name::quoted).collect();
    let theirs: Vec<String> = writer
        .columns
        .0
        .iter()
        .map(|(name, column)| match (columns.get(name), writer.dialect) {
            (Some(_), _) => name.quoted(),
            (None, Dialect::Postgres) => format!("null::{} as {}", column.spelt, name.quoted()),
            (None, Dialect::Sqlite) => format!("null as {}", name.quoted()),
        })
        .collect();
    format!(
        "(select {} from {} union all select {} from {})",
        mine.join(", "),
        mapping.table.quoted(),
        theirs.join(", "),
        log.table.quoted()
    )
}

/// Moves rows of the log back, to be delivered as if they had never been tried.
pub(crate) fn back(
    mapping: &Mapping,
    writer: &Writer<'_>,
    log: &LogTable,
    columns: &Columns,
    fence: &str,
) -> Vec<String> {
    let values = with_the_rest(writer, super::operate::afresh(mapping, writer).values(writer), columns);
    let condition = format!("{} = {} and {fence}", writer.of(&mapping.row), writer.row_id(&mapping.row, "x.id"));
    moved(mapping, writer, (&log.table, &mapping.table), &values, &["id", "after", "attempts"], &condition).texts()
}
