//! Describes a table before any relay has read it: its catalogue, its indexes, who else changes its rows, and what a relay
//! would read. Changes nothing.

mod catalogue;
mod facts;
mod index;
mod rehearse;
mod watch;

use std::sync::Arc;

use postroom_core::{StoreError, StoreErrorKind};

pub use facts::{Fact, Facts, Index, Member, Word};
pub use index::Advice;
pub use rehearse::{Head, Rehearsal, rehearse};
pub use watch::{Session, Watched, watch};

use crate::executor::{Dialect, SqlExecutor, Statement};
use crate::mapping::{Mapping, Name, State, TableName};
use crate::sql::columns::Columns;

/// What a table is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// What guesses are made from.
    pub facts: Facts,
    /// Its columns by name.
    pub columns: Columns,
    /// What this user may do with it.
    pub rights: Rights,
    /// Whether a policy of the server hides rows of it from this user.
    pub hidden: bool,
    /// The schema of our own tables.
    schema: String,
}

/// What a user may do with a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Who, as SQL names them; empty where the database has no users.
    pub user: String,
    /// Read it.
    pub select: bool,
    /// Change rows.
    pub update: bool,
    /// Delete rows.
    pub delete: bool,
}

impl Survey {
    /// The statements that give this user what a relay needs, for somebody who may run them.
    pub fn grants(&self, mapping: &Mapping) -> Option<String> {
        let rights = &self.rights;
        let (marks, name) = match mapping.state {
            State::Presence => (rights.delete, "delete"),
            State::Words { .. } | State::Stamp(_) | State::Flag(_) => (rights.update, "update"),
        };
        (!marks).then(|| grant(&format!("select, {name}"), &self.facts.table, &rights.user))
    }

    /// What is to be said about its indexes.
    pub fn indexes(&self, mapping: &Mapping) -> Advice {
        index::advice(&self.facts, mapping, &self.columns, &self.schema)
    }

    /// Whether the proposed index calls a function that the first relay makes.
    pub fn index_needs_our_functions(&self, mapping: &Mapping) -> bool {
        index::needs_our_functions(mapping, &self.columns, self.facts.dialect)
    }
}

/// Describes a table by the database's catalogue; no row is read.
pub async fn survey(executor: &Arc<dyn SqlExecutor>, table: &TableName) -> Result<Survey, StoreError> {
    let found = executor.table(table).await.map_err(|error| with_grant(error, table))?;
    let Some((name, columns)) = found else { return Err(no_table(executor, table).await) };
    let (kind, rights, hidden) = catalogue::relation(executor.as_ref(), &name).await?;
    if let Some(kind) = kind {
        let message = format!("{name} is {kind}: rows of it cannot be marked");
        return Err(
            StoreError::new(StoreErrorKind::Invalid, "adopt", message).hint("adopt the table that holds the rows")
        );
    }
    if !rights.select {
        let message = format!("{} may not read {name}", rights.user);
        return Err(StoreError::new(StoreErrorKind::PermissionDenied, "adopt", message)
            .hint(format!("run as its owner: {}", grant("select, update", &name, &rights.user))));
    }
    let facts = catalogue::facts(executor.as_ref(), name, &columns).await?;
    Ok(Survey { facts, columns, rights, hidden, schema: executor.schema().to_owned() })
}

/// Whether an error says something about the table: that it is too large to be read so, or holds what cannot be read.
pub fn says_something(error: &StoreError) -> bool {
    use StoreErrorKind as K;
    error.operation == "adopt" && matches!(error.kind, K::Busy | K::Invalid | K::Other)
}

fn grant(what: &str, table: &TableName, user: &str) -> String {
    let usage = |schema: &Name| format!("grant usage on schema {} to {user}; ", schema.in_sql());
    let usage = table.schema.as_ref().map(usage).unwrap_or_default();
    format!("{usage}grant {what} on {} to {user};", table.in_sql())
}

/// The server says that something is forbidden before it says who asked: the right is named all the same.
fn with_grant(error: StoreError, table: &TableName) -> StoreError {
    if error.kind != StoreErrorKind::PermissionDenied {
        return error;
    }
    let statement = grant("select, update", table, "USER");
    error.hint(format!("run as its owner, with this user in the path of USER: {statement}"))
}

/// No such table; names those that may be meant.
async fn no_table(executor: &Arc<dyn SqlExecutor>, table: &TableName) -> StoreError {
    let statement = match executor.dialect() {
        Dialect::Postgres => {
            "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') \
             and c.relname ~* 'outbox|event|message|queue' order by 1 limit 10"
        }
        Dialect::Sqlite => {
            "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' and name not like 'postroom_%' \
             order by 1 limit 10"
        }
    };
    let found = executor.look("adopt", vec![Statement::new(statement)]).await.unwrap_or_default();
    let names: Vec<String> = found.into_iter().flatten().filter_map(|row| row.into_iter().next().flatten()).collect();
    let hint = if names.is_empty() {
        "check its name and schema, and the database in the store's url".to_owned()
    } else {
        format!("there are {}; names are taken as they are written, upper case and all", names.join(", "))
    };
    StoreError::new(StoreErrorKind::Invalid, "adopt", format!("there is no table {table}")).hint(hint)
}
