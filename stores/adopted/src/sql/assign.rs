//! What an update writes: columns as they are, keys of a JSON column all at once.

use std::collections::BTreeSet;

use super::Writer;
use super::columns::Holds;
use super::inside::has_room;
use super::write::{literal, sqlite_path};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Name};

/// What is written, as an expression of the database's own.
#[derive(Debug, Clone)]
pub(super) enum New {
    /// A text.
    Text(String),
    /// A number.
    Number(String),
    /// A moment.
    Moment(String),
}

/// A key inside a JSON column, and what is written there.
type Change = (Vec<String>, New);

/// The assignments of one update.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    plain: Vec<(Name, New)>,
    inside: Vec<(Name, Vec<Change>)>,
}

impl Assignments {
    pub(super) fn set(&mut self, path: &ColumnPath, new: New) {
        if path.path.is_empty() {
            self.plain.push((path.column.clone(), new));
            return;
        }
        let change = (path.path.clone(), new);
        match self.inside.iter_mut().find(|(column, _)| *column == path.column) {
            Some((_, changes)) => changes.push(change),
            None => self.inside.push((path.column.clone(), vec![change])),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.inside.is_empty()
    }

    /// `"a" = …, "b" = …`
    pub(super) fn text(&self, writer: &Writer<'_>) -> String {
        let all = self.values(writer).into_iter().map(|(column, value)| format!("{} = {value}", column.quoted()));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Every column that is written, with its value.
    pub(super) fn values(&self, writer: &Writer<'_>) -> Vec<(Name, String)> {
        let plain = self.plain.iter().map(|(column, new)| {
            let value = match new {
                New::Text(value) if writer.dialect == Dialect::Postgres && !value.starts_with('\'') => {
                    writer.row_id(column, value)
                }
                New::Text(value) | New::Number(value) => value.clone(),
                New::Moment(moment) => writer.stored_moment(column, moment),
            };
            (column.clone(), value)
        });
        let inside = self.inside.iter().map(|(column, changes)| (column.clone(), changed(writer, column, changes)));
        plain.chain(inside).collect()
    }
}

/// A JSON column with some keys set; as it is where it has no room for them.
fn changed(writer: &Writer<'_>, column: &Name, changes: &[Change]) -> String {
    let at = |path: &[String]| ColumnPath { column: column.clone(), path: path.to_vec() };
    let rooms: BTreeSet<String> = changes.iter().map(|(path, _)| has_room(writer, &at(path))).collect();
    let mut value = format!("coalesce({}, '{{}}')", writer.json(column));
    for (path, new) in changes {
        let set = match writer.dialect {
            Dialect::Postgres => {
                let new = match new {
                    New::Text(text) => format!("to_jsonb({text}::text)"),
                    New::Number(number) => format!("to_jsonb({number})"),
                    New::Moment(moment) => format!("to_jsonb({})", writer.rfc3339(moment)),
                };
                format!("jsonb_set({value}, {}, {new})", literal(&super::write::pg_path(path)))
            }
            Dialect::Sqlite => {
                let new = match new {
                    New::Text(text) | New::Number(text) => text.clone(),
                    New::Moment(moment) => writer.rfc3339(moment),
                };
                format!("json_set({value}, {}, {new})", literal(&sqlite_path(path)))
            }
        };
        let each = rooms.len() > 1;
        value =
            if each { format!("case when {} then {set} else {value} end", has_room(writer, &at(path))) } else { set };
    }
    let value = match (writer.dialect, writer.columns.get(column).map(|column| column.holds)) {
        (Dialect::Sqlite, _) | (_, Some(Holds::Jsonb)) => value,
        (Dialect::Postgres, Some(Holds::Json)) => format!("({value})::json"),
        (Dialect::Postgres, _) => format!("({value})::text"),
    };
    let rooms: Vec<String> = rooms.into_iter().collect();
    format!("case when {} then {value} else {} end", rooms.join(" or "), writer.of(column))
}
