//! The SQL of this store as it reads in its schema.
//!
//! The files say `postroom.log`; the schema may be called otherwise. Names are quoted when they are put in.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::{Query, QueryScalar};
use sqlx::{AssertSqlSafe, Decode, Postgres, QueryBuilder, SqlSafeStr, SqlStr, Type};

/// The schema the files speak of.
const WRITTEN: &str = "postroom.";

/// The statements of one store.
#[derive(Debug)]
pub(crate) struct Sql {
    /// `"postroom".`, quoted; `None` where the files can be used as they are.
    prefix: Option<String>,
    /// Whether the server may keep prepared statements for us.
    persistent: bool,
    texts: RwLock<HashMap<&'static str, Arc<str>>>,
}

impl Sql {
    pub(crate) fn new(schema: &str, persistent: bool) -> Self {
        let prefix = (schema != "postroom").then(|| format!("{}.", quoted(schema)));
        Self { prefix, persistent, texts: RwLock::default() }
    }

    /// The text as it reads here.
    pub(crate) fn text(&self, written: &'static str) -> SqlStr {
        let Some(prefix) = &self.prefix else { return written.into_sql_str() };
        if let Some(text) = self.texts.read().unwrap_or_else(PoisonError::into_inner).get(written) {
            return AssertSqlSafe(Arc::clone(text)).into_sql_str();
        }
        let text: Arc<str> = written.replace(WRITTEN, prefix).into();
        self.texts.write().unwrap_or_else(PoisonError::into_inner).insert(written, Arc::clone(&text));
        AssertSqlSafe(text).into_sql_str()
    }

    /// A text that was put together, as it reads here.
    pub(crate) fn made(&self, text: &str) -> String {
        match &self.prefix {
            Some(prefix) => text.replace(WRITTEN, prefix),
            None => text.to_owned(),
        }
    }

    /// A statement of ours.
    pub(crate) fn query(&self, written: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.text(written)).persistent(self.persistent)
    }

    /// A statement with a text of its own, already as it reads here.
    pub(crate) fn query_made(&self, text: Arc<str>) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(AssertSqlSafe(text)).persistent(self.persistent)
    }

    /// The beginning of a statement that is put together; what is built of it is not to be kept by the server.
    pub(crate) fn builder(&self, text: &str) -> QueryBuilder<Postgres> {
        QueryBuilder::new(self.made(text))
    }

    /// A statement of ours with one column.
    pub(crate) fn scalar<T>(&self, written: &'static str) -> QueryScalar<'static, Postgres, T, PgArguments>
    where
        (T,): for<'r> sqlx::FromRow<'r, PgRow>,
        T: Type<Postgres> + for<'r> Decode<'r, Postgres>,
    {
        sqlx::query_scalar(self.text(written)).persistent(self.persistent)
    }
}

/// A name as an identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What somebody else said, as text and JSON of PostgreSQL can hold it: they know no zero byte.
pub(crate) fn stored(said: &str) -> String {
    said.replace('\0', "\u{fffd}")
}

/// Numbers as an array in text, `{1,2}`: arrays of arrays must all have the same length.
pub(crate) fn array<'n>(numbers: impl Iterator<Item = &'n i64>) -> String {
    let mut text = String::from("{");
    for number in numbers {
        let comma = if text.len() > 1 { "," } else { "" };
        let _ = write!(text, "{comma}{number}");
    }
    text.push('}');
    text
}
