//! Pieces of statements in the words of one database: what stands at a column, and what to write there.

use postroom_core::HEADER_TEXT_MAX;

use super::columns::{Column, Columns, Holds};
use crate::executor::Dialect;
use crate::mapping::{ColumnPath, Name};

/// Writes expressions over one table.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) dialect: Dialect,
    /// The schema of our own tables and functions.
    pub(crate) schema: &'a str,
    pub(crate) columns: &'a Columns,
    /// What the statement calls the table; nothing where it can be no other.
    pub(crate) alias: &'static str,
}

impl Writer<'_> {
    /// The same for a table that the statement calls otherwise.
    pub(crate) fn called(&self, alias: &'static str) -> Self {
        Self { alias, ..self.clone() }
    }

    /// A column.
    pub(crate) fn of(&self, name: &Name) -> String {
        if self.alias.is_empty() { name.quoted() } else { format!("{}.{}", self.alias, name.quoted()) }
    }

    fn column(&self, name: &Name) -> Option<&Column> {
        self.columns.get(name)
    }

    fn holds(&self, name: &Name) -> Holds {
        self.column(name).map_or(Holds::Text, |column| column.holds)
    }

    /// One of our own tables.
    pub(crate) fn own(&self, table: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("{}.{}", Name::new(self.schema).quoted(), Name::new(table).quoted()),
            Dialect::Sqlite => Name::new(format!("postroom_{table}")).quoted(),
        }
    }

    /// A column as JSON; null where it is none.
    pub(super) fn json(&self, name: &Name) -> String {
        let column = self.of(name);
        match (self.dialect, self.holds(name)) {
            (Dialect::Postgres, Holds::Jsonb) => column,
            // Also of a column of JSON: it may hold what the database's own form cannot.
            (Dialect::Postgres, _) => format!("{}({column}::text)", self.own("adopted_json")),
            (Dialect::Sqlite, _) => format!("case when json_valid({column}) then {column} end"),
        }
    }

    /// What stands there, as text.
    pub(crate) fn text(&self, path: &ColumnPath) -> String {
        if path.path.is_empty() {
            let column = self.of(&path.column);
            return match self.dialect {
                Dialect::Postgres => format!("{column}::text"),
                Dialect::Sqlite => format!("cast({column} as text)"),
            };
        }
        let json = self.json(&path.column);
        match self.dialect {
            // One key by itself, so that an index on that expression serves it.
            Dialect::Postgres => match path.path.as_slice() {
                [key] => format!("({json} ->> {})", literal(key)),
                path => format!("({json} #>> {})", literal(&pg_path(path))),
            },
            Dialect::Sqlite => {
                // A text as it is, anything else as its JSON; not `->>`, which reads numbers as keys.
                format!("cast(json_extract({json}, {}) as text)", literal(&sqlite_path(&path.path)))
            }
        }
    }

    /// What stands there as JSON text; null when there is nothing.
    pub(crate) fn json_text(&self, at: &ColumnPath) -> String {
        match (self.dialect, at.path.as_slice()) {
            (Dialect::Postgres, []) => format!("{}::text", self.of(&at.column)),
            (Dialect::Postgres, path) => format!("({} #> {})::text", self.json(&at.column), literal(&pg_path(path))),
            (Dialect::Sqlite, []) => format!("cast({} as text)", self.of(&at.column)),
            (Dialect::Sqlite, path) => format!("({} -> {})", self.json(&at.column), literal(&sqlite_path(path))),
        }
    }

    /// Text that was read at a path, or only its length where that is more than so many bytes: then it is not brought here. The
    /// answer is one for [`length_instead`].
    pub(super) fn at_most(&self, path: &ColumnPath, text: &str, most: usize) -> String {
        let column = self.of(&path.column);
        match self.dialect {
            // What is stored in 2 kB is not long, however well it was compressed, and is not converted twice.
            Dialect::Postgres => format!(
                "case when pg_column_size({column}) <= 2048 or octet_length({text}) <= {most} then {text} \
                 else chr(1) || octet_length({text})::text end"
            ),
            // Of what stands inside JSON only the length of the whole is known without reading it.
            Dialect::Sqlite => {
                let most = if path.path.is_empty() { most } else { 2 * most + HEADER_TEXT_MAX };
                format!(
                    "case when octet_length({column}) <= {most} then {text} else char(1) || octet_length({column}) end"
                )
            }
        }
    }

    /// What stands there as a JSON value, as text; null when there is nothing.
    pub(crate) fn value(&self, path: &ColumnPath) -> String {
        match (self.dialect, path.as_column()) {
            (_, None) => self.json_text(path),
            (Dialect::Postgres, Some(name)) => format!("to_jsonb({})::text", self.of(name)),
            (Dialect::Sqlite, Some(name)) => format!("json_quote({})", self.of(name)),
        }
    }

    /// A time that stands there, as the database's own; null when it is none.
    pub(crate) fn moment(&self, path: &ColumnPath) -> String {
        let column = self.of(&path.column);
        match (self.dialect, path.path.is_empty(), self.holds(&path.column)) {
            (Dialect::Postgres, true, Holds::Moment) => column,
            (Dialect::Postgres, true, Holds::LocalTime) => format!("({column} at time zone 'utc')"),
            (Dialect::Postgres, _, _) => format!("{}({})", self.own("adopted_time"), self.text(path)),
            // As microseconds: numbers are taken for them, texts are read.
            (Dialect::Sqlite, _, _) => {
                let value = if path.path.is_empty() {
                    column
                } else {
                    format!("json_extract({}, {})", self.json(&path.column), literal(&sqlite_path(&path.path)))
                };
                format!(
                    "case typeof({value}) when 'text' then cast(round((julianday({value}) - 2440587.5) * 86400000.0) as integer) * 1000 else {value} end"
                )
            }
        }
    }

    /// The first time that stands at one of these; nothing without any.
    pub(crate) fn first_moment(&self, paths: &[ColumnPath]) -> Option<String> {
        let moments: Vec<String> = paths.iter().map(|path| self.moment(path)).collect();
        match moments.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("coalesce({})", several.join(", "))),
        }
    }

    /// A time as microseconds since 1970, as text.
    pub(crate) fn micros(&self, moment: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("(extract(epoch from {moment}) * 1000000)::int8::text"),
            Dialect::Sqlite => format!("cast({moment} as text)"),
        }
    }

    /// The same as a number.
    pub(crate) fn whole_micros(&self, moment: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("(extract(epoch from {moment}) * 1000000)::int8"),
            Dialect::Sqlite => format!("cast({moment} as integer)"),
        }
    }

    /// Microseconds since 1970 that came as text, as a moment.
    pub(crate) fn at_micros(&self, text: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("(timestamptz 'epoch' + cast({text} as int8) * interval '1 microsecond')"),
            Dialect::Sqlite => format!("cast({text} as integer)"),
        }
    }

    /// Microseconds from one moment to another, as text.
    pub(crate) fn until(&self, moment: &str, now: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("(extract(epoch from {moment} - {now}) * 1000000)::int8::text"),
            Dialect::Sqlite => format!("cast({moment} - {now} as text)"),
        }
    }

    /// A moment so many microseconds, which come as text, before another.
    pub(crate) fn before(&self, moment: &str, micros: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("({moment} - cast({micros} as float8) * interval '1 microsecond')"),
            Dialect::Sqlite => format!("(({moment}) - cast({micros} as integer))"),
        }
    }

    /// The time of the statement; `value` is the placeholder of our own clock, for databases that have none of use.
    pub(crate) fn now(&self, value: &str) -> String {
        match self.dialect {
            Dialect::Postgres => "statement_timestamp()".to_owned(),
            Dialect::Sqlite => format!("cast({value} as integer)"),
        }
    }

    /// A moment as the column holds it.
    pub(crate) fn stored_moment(&self, name: &Name, moment: &str) -> String {
        match (self.dialect, self.holds(name)) {
            (Dialect::Postgres, Holds::Moment) | (Dialect::Sqlite, Holds::Integer) => moment.to_owned(),
            (Dialect::Postgres, Holds::LocalTime) => format!("({moment} at time zone 'utc')"),
            _ => self.rfc3339(moment),
        }
    }

    /// A moment as text: RFC 3339, UTC, microseconds.
    pub(crate) fn rfc3339(&self, moment: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("to_char({moment} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"),
            Dialect::Sqlite => format!(
                "strftime('%Y-%m-%dT%H:%M:%S', {moment} / 1000000, 'unixepoch') || printf('.%06dZ', {moment} % 1000000)"
            ),
        }
    }

    /// A row's id that came as text, as the column holds it.
    pub(crate) fn row_id(&self, row: &Name, text: &str) -> String {
        match self.dialect {
            Dialect::Postgres => {
                format!("{text}::{}", self.column(row).map_or("text", |column| column.spelt.as_str()))
            }
            Dialect::Sqlite => text.to_owned(),
        }
    }

    /// Any text as the column holds it; null where it cannot.
    pub(crate) fn fitting(&self, name: &Name, text: &str) -> String {
        let typed = self.row_id(name, text);
        let between = |least: i64, most: i64| {
            let fits = format!("case when {text}::numeric between {least} and {most} then {typed} end");
            format!("case when {text} ~ '^-?[0-9]{{1,19}}$' then {fits} end")
        };
        match (self.dialect, self.column(name).map_or("", |column| column.sql_type.as_str())) {
            (Dialect::Postgres, "uuid") => {
                let hex = "[0-9a-f]";
                format!("case when {text} ~* '^{hex}{{8}}(-?{hex}{{4}}){{3}}-?{hex}{{12}}$' then {typed} end")
            }
            (Dialect::Postgres, "smallint") => between(i16::MIN.into(), i16::MAX.into()),
            (Dialect::Postgres, "integer") => between(i32::MIN.into(), i32::MAX.into()),
            (Dialect::Postgres, "bigint") => between(i64::MIN, i64::MAX),
            (Dialect::Sqlite, _) if self.holds(name) == Holds::Integer => {
                format!("case when cast(cast({text} as integer) as text) = {text} then {text} end")
            }
            _ => typed,
        }
    }

    /// The rows of a JSON list of objects, called `x`, with these fields as text.
    pub(crate) fn unpacked(&self, value: &str, fields: &[&str]) -> String {
        match self.dialect {
            Dialect::Postgres => {
                let fields: Vec<String> = fields.iter().map(|field| format!("{field} text")).collect();
                format!("jsonb_to_recordset({value}::jsonb) as x({})", fields.join(", "))
            }
            Dialect::Sqlite => {
                let fields: Vec<String> =
                    fields.iter().map(|field| format!("json_extract(value, '$.{field}') as {field}")).collect();
                format!("(select {} from json_each({value})) as x", fields.join(", "))
            }
        }
    }

    /// That the side table, called `s`, knows nothing of a mapping's row under a condition.
    pub(crate) fn nothing_parked(&self, mapping: &str, condition: &str) -> String {
        // Looked up row by row: made into a join, it would go by statistics, which know nothing of a table that was empty.
        let apart = if self.dialect == Dialect::Postgres { " offset 0" } else { "" };
        format!(
            "not exists (select 1 from {} s where s.mapping = {mapping} and {condition}{apart})",
            self.own("sidecar")
        )
    }

    /// The texts of a JSON list.
    pub(crate) fn listed(&self, value: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("(select jsonb_array_elements_text({value}::jsonb))"),
            Dialect::Sqlite => format!("(select value from json_each({value}))"),
        }
    }
}

/// The length that came instead of a text, because it was too long to be read; see [`Writer::at_most`].
pub(crate) fn length_instead(text: &str) -> Option<usize> {
    text.strip_prefix('\u{1}')?.parse().ok()
}

/// A text as it stands in SQL.
pub(crate) fn literal(text: &str) -> String {
    // No zero bytes: neither database can hold them. Backslashes mean nothing in standard strings.
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

/// A path as an array of PostgreSQL.
pub(super) fn pg_path(path: &[String]) -> String {
    let keys: Vec<String> =
        path.iter().map(|key| format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))).collect();
    format!("{{{}}}", keys.join(","))
}

/// A path as SQLite writes it.
pub(super) fn sqlite_path(path: &[String]) -> String {
    let keys: Vec<String> = path.iter().map(|key| format!(".\"{}\"", key.replace('"', "\\\""))).collect();
    format!("${}", keys.concat())
}
