//! What a store lends us: a database that runs our statements.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
pub use postroom_admin::Dialect;
use postroom_admin::{Answer, Job};
use postroom_core::StoreError;

use crate::catalogue::Catalogue;
use crate::mapping::TableName;
use crate::sql::columns::Columns;

/// One statement. Values are text, and so is what comes back: the statement casts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// What it says.
    pub text: Arc<str>,
    /// `$1`, `$2`, …
    pub values: Vec<Option<String>>,
}

impl Statement {
    /// A statement without values.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), values: Vec::new() }
    }

    /// Adds a value.
    #[must_use]
    pub fn bind(mut self, value: impl Into<String>) -> Self {
        self.values.push(Some(value.into()));
        self
    }

    /// Adds a value, or null.
    #[must_use]
    pub fn bind_or_null(mut self, value: Option<impl Into<String>>) -> Self {
        self.values.push(value.map(Into::into));
        self
    }
}

/// One row.
pub type Row = Vec<Option<String>>;
/// What one statement brought.
pub type Rows = Vec<Row>;

/// A database that runs our statements. A call that is dropped half-way leaves nothing half-done.
#[async_trait]
pub trait SqlExecutor: Send + Sync {
    /// Whose SQL it speaks.
    fn dialect(&self) -> Dialect;
    /// The schema of our own tables, where the database has schemas.
    fn schema(&self) -> &str;
    /// A table with its schema and columns, as the catalogue has it and as an application would find it.
    async fn table(&self, table: &TableName) -> Result<Option<(TableName, Columns)>, StoreError>;
    /// A table as the catalogue has it, with what is unique in it and what every insert must give.
    async fn catalogue(&self, table: &TableName) -> Result<Catalogue, StoreError>;
    /// Runs a script of many statements in one transaction.
    async fn script(&self, operation: &'static str, script: String) -> Result<(), StoreError>;
    /// Runs a script of the adopted table's owner in one transaction, as an application would.
    async fn owners_script(&self, operation: &'static str, script: String) -> Result<(), StoreError>;
    /// Runs statements that only look, in order; brings the rows of each.
    async fn look(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError>;
    /// Runs statements in one transaction, in order; brings the rows of each.
    async fn run(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError>;
    /// The same for a heartbeat, which must get through when everything else is busy.
    async fn renew(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError>;
    /// Runs work of the operators' that changes nothing, for this source.
    async fn admin_read(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError>;
    /// Runs work of the operators' in one transaction, for this source.
    async fn admin_write(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError>;
    /// How many transactions may be held open at a time; each keeps a session of the server's busy.
    fn holds_max(&self) -> usize;
    /// Runs a statement in a transaction that stays open, and with it the locks on its rows: for as long as it is not idle for
    /// longer than `idle_max`. The server ends one that is, so that nobody waits for a relay that stands still or is gone.
    async fn hold(
        &self,
        operation: &'static str,
        statement: Statement,
        idle_max: Duration,
    ) -> Result<(Rows, Box<dyn OpenTransaction>), StoreError>;
}

/// A transaction that is held open. Dropping it rolls it back.
#[async_trait]
pub trait OpenTransaction: Send + Sync {
    /// Runs a statement and stays open; brings its rows.
    async fn run(
        self: Box<Self>,
        operation: &'static str,
        statement: Statement,
    ) -> Result<(Rows, Box<dyn OpenTransaction>), StoreError>;
    /// Runs the last statements, in order, and commits; brings the rows of each.
    async fn finish(
        self: Box<Self>,
        operation: &'static str,
        statements: Vec<Statement>,
    ) -> Result<Vec<Rows>, StoreError>;
}
