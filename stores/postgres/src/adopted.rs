//! Lends the database to adopted tables: runs their statements, with all values as text.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_adopted::layout::{Name, TableName};
use postroom_adopted::{Columns, Dialect, Ground, Rows, Statement};
use postroom_core::StoreError;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use crate::database::{Database, Session};
use crate::error::Fault;
use crate::options::PostgresOptions;
use crate::schema;

/// A PostgreSQL database with an adopted table in it.
#[derive(Debug)]
pub struct PostgresGround {
    db: Database,
    schema: String,
}

impl PostgresGround {
    /// Finds the primary among the servers.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        schema::check_name(&options.schema)?;
        Ok(Self { db: Database::open(&options).await?, schema: options.schema })
    }
}

#[async_trait]
impl Ground for PostgresGround {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn schema(&self) -> &str {
        &self.schema
    }

    async fn table(&self, table: &TableName) -> Result<Option<(TableName, Columns)>, StoreError> {
        // As an application finds it: our own sessions have no search path.
        let found = sqlx::query(include_str!("sql/adopted_table.sql"))
            .persistent(false)
            .bind(table.quoted())
            .fetch_all(&self.db.callers)
            .await
            .map_err(|error| Fault::from(error).at("open", &self.db.place))?;
        let Some(first) = found.first() else { return Ok(None) };
        let read = |row: &PgRow, n: usize| row.try_get::<String, _>(n);
        let columns = || -> Result<_, sqlx::Error> {
            let mut columns = Columns::default();
            for row in &found {
                columns.add(Name::new(read(row, 2)?), &read(row, 3)?, row.try_get(4)?);
            }
            Ok((TableName { schema: Some(Name::new(read(first, 0)?)), table: Name::new(read(first, 1)?) }, columns))
        };
        columns().map(Some).map_err(|error| Fault::from(error).at("open", &self.db.place))
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

    async fn look(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.read(operation, move |session| Box::pin(all(session, statements))).await
    }

    async fn run(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.write(operation, move |session| Box::pin(all(session, statements))).await
    }

    async fn renew(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.renew(operation, move |session| Box::pin(all(session, statements))).await
    }
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
