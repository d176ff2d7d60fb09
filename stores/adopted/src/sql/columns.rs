//! The columns of an adopted table as the catalogue has them.

use std::collections::BTreeMap;

use crate::mapping::Name;

/// What a column holds, as far as our statements care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Text, or anything that is read and written as such.
    Text,
    /// JSON as it was written.
    Json,
    /// JSON in the database's own form.
    Jsonb,
    /// A moment.
    Moment,
    /// A date and a time of day, taken for UTC.
    LocalTime,
    /// A whole number.
    Integer,
    /// Yes or no.
    Boolean,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its type as the database spells it; of a domain the one that it is made of.
    pub sql_type: String,
    /// The same as statements name it: the domain, and with its schema what is the application's own.
    pub spelt: String,
    /// What it holds.
    pub holds: Holds,
    /// Whether it may be null.
    pub nullable: bool,
}

/// The columns of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns(pub BTreeMap<Name, Column>);

impl Columns {
    /// Adds one.
    pub fn add(&mut self, name: Name, sql_type: &str, nullable: bool) {
        self.add_spelt(name, sql_type, sql_type, nullable);
    }

    /// Adds one whose type has another name in statements.
    pub fn add_spelt(&mut self, name: Name, sql_type: &str, spelt: &str, nullable: bool) {
        let (sql_type, spelt, holds) = (sql_type.to_owned(), spelt.to_owned(), holds(sql_type));
        self.0.insert(name, Column { sql_type, spelt, holds, nullable });
    }

    /// One of them.
    pub fn get(&self, name: &Name) -> Option<&Column> {
        self.0.get(name)
    }
}

/// By the name of the type, in either database.
fn holds(sql_type: &str) -> Holds {
    let name = sql_type.to_ascii_lowercase();
    match name.as_str() {
        "json" => Holds::Json,
        "jsonb" => Holds::Jsonb,
        "boolean" | "bool" => Holds::Boolean,
        _ if name.starts_with("timestamp") && name.ends_with("with time zone") && !name.contains("without") => {
            Holds::Moment
        }
        "timestamptz" => Holds::Moment,
        _ if name.starts_with("timestamp") || name.starts_with("datetime") => Holds::LocalTime,
        _ if name.contains("int") || name.contains("serial") => Holds::Integer,
        _ => Holds::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_by_their_names_in_either_database() {
        for (sql_type, expected) in [
            ("character varying(26)", Holds::Text),
            ("uuid", Holds::Text),
            ("outbox_status", Holds::Text),
            ("jsonb", Holds::Jsonb),
            ("json", Holds::Json),
            ("timestamp with time zone", Holds::Moment),
            ("timestamp(3) with time zone", Holds::Moment),
            ("timestamp without time zone", Holds::LocalTime),
            ("timestamp(3) without time zone", Holds::LocalTime),
            ("DATETIME", Holds::LocalTime),
            ("bigint", Holds::Integer),
            ("INTEGER", Holds::Integer),
            ("boolean", Holds::Boolean),
            ("", Holds::Text),
        ] {
            assert_eq!(holds(sql_type), expected, "{sql_type}");
        }
    }
}
