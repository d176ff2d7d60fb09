//! What is known of a table before anything is guessed: the catalogue, and what a sample of rows holds.

use crate::executor::Dialect;
use crate::mapping::{Name, TableName};
use crate::sql::columns::Holds;

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whose SQL it speaks.
    pub dialect: Dialect,
    /// The table, with its schema where the database has schemas.
    pub table: TableName,
    /// Its columns in their order.
    pub columns: Vec<Fact>,
    /// What is unique in it, the primary key first.
    pub keys: Vec<Vec<Name>>,
    /// Its indexes.
    pub indexes: Vec<Index>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its name.
    pub name: Name,
    /// Its type as the database spells it.
    pub sql_type: String,
    /// What it holds.
    pub holds: Holds,
    /// Whether it may be null.
    pub nullable: bool,
    /// What it is when nobody says: a literal, without quotes and casts.
    pub default: Option<String>,
    /// The words that its type or a check allows; none when anything goes.
    pub labels: Vec<String>,
    /// How many numbers a session draws at once, where they come from a sequence: more than one, and they do not rise.
    pub cache: u64,
    /// The words that rows have, for a column that may tell a state; most frequent first.
    pub words: Vec<Word>,
    /// The keys of its objects, for a column that may be JSON.
    pub members: Vec<Member>,
}

/// A word that rows have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub text: String,
    /// How many of the sampled rows have it.
    pub rows: u64,
    /// How many of those have a time in a column that tells when a row was done.
    pub stamped: u64,
}

/// A key of JSON objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Whether at least half of the sampled objects have it.
    pub common: bool,
    /// How many of the sampled objects lack it.
    pub lacking: u64,
    /// The values there, for a key that may tell a state and has few of them; most frequent first.
    pub words: Vec<Word>,
    /// Whether those values are texts, and no numbers, flags or times.
    pub is_text: bool,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// What it is over: names of columns, or expressions as the database spells them.
    pub parts: Vec<String>,
    /// The condition of a partial one, as the database spells it.
    pub predicate: Option<String>,
}

impl Fact {
    /// Whether it may hold a time. SQLite has no type for it.
    pub fn is_time(&self, dialect: Dialect) -> bool {
        match self.holds {
            Holds::Moment | Holds::LocalTime => true,
            Holds::Text | Holds::Integer => dialect == Dialect::Sqlite,
            Holds::Json | Holds::Jsonb | Holds::Boolean => false,
        }
    }

    /// Whether it may hold JSON.
    pub fn is_json(&self) -> bool {
        self.is_json_type() || self.is_plain_text()
    }

    /// Whether its type is JSON.
    pub fn is_json_type(&self) -> bool {
        matches!(self.holds, Holds::Json | Holds::Jsonb)
    }

    /// Whether it may hold a short text: an id, a type, a word.
    pub fn is_word(&self) -> bool {
        matches!(self.holds, Holds::Text | Holds::Integer) && !self.is_bytes()
    }

    /// Whether it is text as such, and no type that is only written as one.
    pub fn is_plain_text(&self) -> bool {
        let name = self.sql_type.to_ascii_lowercase();
        self.holds == Holds::Text && (name.is_empty() || name.contains("text") || name.contains("char"))
    }

    /// Whether it holds bytes that are no text.
    pub fn is_bytes(&self) -> bool {
        let name = self.sql_type.to_ascii_lowercase();
        name.starts_with("bytea") || name.contains("blob") || name.contains("binary")
    }
}

impl Facts {
    /// A column.
    pub fn column(&self, name: &Name) -> Option<&Fact> {
        self.columns.iter().find(|column| column.name == *name)
    }

    /// Whether one column alone is unique.
    pub fn is_unique(&self, name: &Name) -> bool {
        self.keys.iter().any(|key| key.as_slice() == std::slice::from_ref(name))
    }
}
