//! Names of tables and columns, and columns inside a JSON column. Parsed once, quoted always: nothing else of a
//! configuration becomes SQL.

use std::fmt;

use super::reserved::is_reserved;

/// Longest name a database keeps.
const NAME_BYTES_MAX: usize = 63;

/// One name of a table or a column, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// A table, with its schema where one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema; `None` is where the database looks first.
    pub schema: Option<Name>,
    /// The table.
    pub table: Name,
}

/// Where something stands: a column, or a key inside a JSON column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPath {
    /// The column.
    pub column: Name,
    /// Keys inside it, outermost first; none is the column itself.
    pub path: Vec<String>,
}

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing there, or nothing between two dots.
    #[error("{0:?} has an empty name in it")]
    Empty(String),
    /// A quote without its other half, or something behind it.
    #[error("{0:?} has a quote that does not end, or does not end a name")]
    Quote(String),
    /// A character that must be quoted.
    #[error("{0:?} has the character {1:?}; write such a name in double quotes, '\"like this\"'")]
    Character(String, char),
    /// Too long.
    #[error("{0:?} is longer than 63 bytes")]
    Long(String),
    /// More parts than can be.
    #[error("{0:?} has more parts than it may have")]
    Parts(String),
}

impl Name {
    /// A name as it is, for instance from the catalogue.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Reads one name; it may be in double quotes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut parts = parts(text)?.into_iter();
        match (parts.next(), parts.next()) {
            (Some(name), None) => Ok(Self(name)),
            _ => Err(NameError::Parts(text.to_owned())),
        }
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in SQL.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// As it stands in SQL that people read: in quotes only where it would be another name, or none, without them.
    pub fn in_sql(&self) -> String {
        let as_it_is = plain(&self.0) && !self.0.contains(|c: char| c.is_ascii_uppercase()) && !is_reserved(&self.0);
        if as_it_is { self.0.clone() } else { self.quoted() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if plain(&self.0) { f.write_str(&self.0) } else { f.write_str(&self.quoted()) }
    }
}

impl TableName {
    /// Reads `table` or `schema.table`; parts may be in double quotes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut parts = parts(text)?.into_iter();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(table), None, None) => Ok(Self { schema: None, table: Name(table) }),
            (Some(schema), Some(table), None) => Ok(Self { schema: Some(Name(schema)), table: Name(table) }),
            _ => Err(NameError::Parts(text.to_owned())),
        }
    }

    /// As it stands in SQL.
    pub fn quoted(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(), self.table.quoted()),
            None => self.table.quoted(),
        }
    }

    /// As it stands in SQL that people read.
    pub fn in_sql(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.in_sql(), self.table.in_sql()),
            None => self.table.in_sql(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.table),
            None => write!(f, "{}", self.table),
        }
    }
}

impl ColumnPath {
    /// Reads `column` or `column.key.key`; parts may be in double quotes.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let mut parts = parts(text)?.into_iter();
        let column = parts.next().map(Name).ok_or_else(|| NameError::Empty(text.to_owned()))?;
        Ok(Self { column, path: parts.collect() })
    }

    /// A column.
    pub fn column(name: Name) -> Self {
        Self { column: name, path: Vec::new() }
    }

    /// The column, if it is one as a whole.
    pub fn as_column(&self) -> Option<&Name> {
        self.path.is_empty().then_some(&self.column)
    }
}

impl fmt::Display for ColumnPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.column)?;
        for key in &self.path {
            write!(f, ".{}", Name(key.clone()))?;
        }
        Ok(())
    }
}

/// Whether a name needs no quotes where we read it.
fn plain(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'))
}

/// The dotted parts of a text.
fn parts(text: &str) -> Result<Vec<String>, NameError> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = if let Some(inside) = rest.strip_prefix('"') {
            quoted(inside).ok_or_else(|| NameError::Quote(text.to_owned()))?
        } else {
            let (name, after) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
            let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$'));
            if let Some(c) = name.chars().find(odd) {
                return Err(NameError::Character(text.to_owned(), c));
            }
            if let Some(c) = name.chars().next().filter(|c| !c.is_ascii_alphabetic() && *c != '_') {
                return Err(NameError::Character(text.to_owned(), c));
            }
            (name.to_owned(), after)
        };
        if name.is_empty() {
            return Err(NameError::Empty(text.to_owned()));
        }
        if let Some(c) = name.chars().find(|c| c.is_control()) {
            return Err(NameError::Character(text.to_owned(), c));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(NameError::Long(text.to_owned()));
        }
        found.push(name);
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(found),
            None => return Err(NameError::Quote(text.to_owned())),
        }
    }
}

/// A name in quotes, from behind the first one, and what follows the last.
fn quoted(inside: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = inside;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_always_quoted() {
        for (text, sql, shown) in [
            ("event_outbox", r#""event_outbox""#, "event_outbox"),
            ("shop.event_outbox", r#""shop"."event_outbox""#, "shop.event_outbox"),
            (r#""My Schema"."a ""b"" c""#, r#""My Schema"."a ""b"" c""#, r#""My Schema"."a ""b"" c""#),
            (r#""x; drop table y".z"#, r#""x; drop table y"."z""#, r#""x; drop table y".z"#),
            (r#""größe""#, r#""größe""#, r#""größe""#),
        ] {
            let table = TableName::parse(text).unwrap();
            assert_eq!((table.quoted().as_str(), table.to_string().as_str()), (sql, shown));
        }
    }

    #[test]
    fn people_read_quotes_only_where_they_are_needed() {
        for (text, sql) in [
            ("public.event_outbox", "public.event_outbox"),
            ("OutboxMessages", r#""OutboxMessages""#),
            ("app.order", r#"app."order""#),
            (r#""user"."my events""#, r#""user"."my events""#),
            ("orders2$_", "orders2$_"),
        ] {
            assert_eq!(TableName::parse(text).unwrap().in_sql(), sql);
        }
    }

    #[test]
    fn what_could_be_anything_else_is_refused() {
        for text in
            ["", ".", "a.", ".a", "a b", "a;b", "a'b", "1a", r#""a"#, r#""a"b"#, r#""""#, "größe", "a\"b\"", "a.b.c"]
        {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        assert_eq!(TableName::parse(&"x".repeat(64)), Err(NameError::Long("x".repeat(64))));
        assert!(TableName::parse("\"a\nb\"").is_err());
        assert!(TableName::parse("a b").unwrap_err().to_string().contains("double quotes"));
    }

    #[test]
    fn a_place_is_a_column_or_a_key_inside_one() {
        let path = ColumnPath::parse("payload.outbox_status").unwrap();
        assert_eq!((path.column.as_str(), path.path.as_slice()), ("payload", ["outbox_status".to_owned()].as_slice()));
        assert_eq!(path.as_column(), None);
        assert_eq!(ColumnPath::parse("status").unwrap().as_column(), Some(&Name::new("status")));
        assert_eq!(ColumnPath::parse(r#"data."a.b".c"#).unwrap().to_string(), r#"data."a.b".c"#);
    }
}
