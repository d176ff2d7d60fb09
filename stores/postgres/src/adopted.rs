//! Lends the database to adopted tables: runs their statements, with all values as text.

mod catalogue;
mod inbox;
mod states;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::{Answer, Execute, Fault as Carried, Job};
use postroom_adopted::mapping::TableName;
use postroom_adopted::{Catalogue, Columns, Dialect, OpenTransaction, Rows, SqlExecutor, Statement};
use postroom_core::{StoreError, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use crate::admin::backend::{carried, fault};
use crate::clock::{Time, timestamp};
use crate::database::{Database, Session, TablesOf};
use crate::error::Fault;
use crate::options::PostgresOptions;
use crate::schema;

pub use inbox::PostgresInbox;
pub use states::PostgresStateGuard;

/// Transactions held open at a time: others are delivered while one waits for its last verdict.
const HOLDS_MAX: usize = 4;

/// PostgreSQL database with an adopted table.
#[derive(Debug)]
pub struct PostgresExecutor {
    db: Database,
    schema: String,
}

impl PostgresExecutor {
    /// Opens the database on the primary of the servers.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        Ok(Self { db: Database::open(&options, TablesOf::Application).await?, schema: options.schema })
    }
}

#[async_trait]
impl SqlExecutor for PostgresExecutor {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn schema(&self) -> &str {
        &self.schema
    }

    async fn table(&self, table: &TableName) -> Result<Option<(TableName, Columns)>, StoreError> {
        let found = catalogue::columns(&self.db.callers, table).await;
        let found = found.map_err(|fault| fault.at("open", &self.db.place))?;
        Ok(found.map(|(table, columns, _)| (table, columns)))
    }

    async fn catalogue(&self, table: &TableName) -> Result<Catalogue, StoreError> {
        catalogue::read(&self.db.callers, table).await
    }

    async fn script(&self, operation: &'static str, script: String) -> Result<(), StoreError> {
        self.db
            .write_long(operation, move |session| {
                Box::pin(async move {
                    session.conn.execute(sqlx::raw_sql(AssertSqlSafe(script))).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn owners_script(&self, operation: &'static str, script: String) -> Result<(), StoreError> {
        // Sent as one text, which the server runs in one transaction.
        let run = self.db.callers.execute(sqlx::raw_sql(AssertSqlSafe(script))).await;
        run.map(drop).map_err(|error| Fault::from(error).at(operation, &self.db.place))
    }

    async fn look(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.read(operation, move |session| Box::pin(all(session, statements))).await
    }

    async fn run(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.write(operation, move |session| Box::pin(all(session, statements))).await
    }

    async fn renew(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.renew(operation, move |session| Box::pin(all(session, statements))).await
    }

    async fn admin_read(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError> {
        let source = source.to_owned();
        self.db
            .read(operation, move |session| {
                Box::pin(async move { job(&mut AdoptedSession { session, source }).await.map_err(fault) })
            })
            .await
    }

    async fn admin_write(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError> {
        let source = source.to_owned();
        self.db
            .write(operation, move |session| {
                Box::pin(async move { job(&mut AdoptedSession { session, source }).await.map_err(fault) })
            })
            .await
    }

    fn holds_max(&self) -> usize {
        // A pooler has few sessions, and others want some.
        if self.db.pooled { 1 } else { HOLDS_MAX }
    }

    async fn hold(
        &self,
        operation: &'static str,
        statement: Statement,
        idle_max: Duration,
    ) -> Result<(Rows, Box<dyn OpenTransaction>), StoreError> {
        let (rows, session) =
            self.db.hold(operation, idle_max, move |session| Box::pin(one(session, statement))).await?;
        Ok((rows, Box::new(PostgresOpenTransaction { session, place: self.db.place.clone() })))
    }
}

/// A session of an operator's work on an adopted table.
struct AdoptedSession<'s> {
    session: &'s mut Session,
    source: String,
}

#[async_trait]
impl Execute for AdoptedSession<'_> {
    fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    fn source(&self) -> &str {
        &self.source
    }

    async fn fetch(&mut self, statement: postroom_admin::Statement) -> Result<Vec<postroom_admin::Row>, Carried> {
        self.session.fetch(statement).await
    }

    async fn execute(&mut self, statement: postroom_admin::Statement) -> Result<u64, Carried> {
        self.session.execute(statement).await
    }
}

#[async_trait]
impl postroom_admin::Session for AdoptedSession<'_> {
    async fn now(&mut self) -> Result<Timestamp, Carried> {
        let now = self.session.sql.scalar("select clock_timestamp()").fetch_one(&mut *self.session.conn).await;
        now.map(|Time(now)| timestamp(now)).map_err(carried)
    }
}

/// A transaction that is held open. Dropped, its connection is closed, and the server rolls back.
#[derive(Debug)]
struct PostgresOpenTransaction {
    session: Session,
    place: String,
}

#[async_trait]
impl OpenTransaction for PostgresOpenTransaction {
    async fn run(
        self: Box<Self>,
        operation: &'static str,
        statement: Statement,
    ) -> Result<(Rows, Box<dyn OpenTransaction>), StoreError> {
        let Self { session, place } = *self;
        let (rows, session) = Database::go_on(session, operation, move |session| Box::pin(one(session, statement)))
            .await
            .map_err(|fault| fault.at(operation, &place))?;
        Ok((rows, Box::new(Self { session, place })))
    }

    async fn finish(
        self: Box<Self>,
        operation: &'static str,
        statements: Vec<Statement>,
    ) -> Result<Vec<Rows>, StoreError> {
        let Self { session, place } = *self;
        Database::finish(session, operation, move |session| Box::pin(all(session, statements)))
            .await
            .map_err(|fault| fault.at(operation, &place))
    }
}

async fn one(session: &mut Session, statement: Statement) -> Result<Rows, Fault> {
    Ok(all(session, vec![statement]).await?.into_iter().next().unwrap_or_default())
}

async fn all(session: &mut Session, statements: Vec<Statement>) -> Result<Vec<Rows>, Fault> {
    let mut found = Vec::with_capacity(statements.len());
    for Statement { text, values } in statements {
        let mut query = session.sql.query_made(Arc::clone(&text));
        for value in values {
            query = query.bind(value);
        }
        let rows = query.fetch_all(&mut *session.conn).await?;
        found.push(rows.iter().map(row).collect::<Result<_, _>>()?);
    }
    Ok(found)
}

fn row(row: &PgRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    (0..row.len()).map(|n| row.try_get(n)).collect()
}
