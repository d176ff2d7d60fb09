//! Lends the file to adopted tables: runs their statements, with all values as text.

mod catalogue;
mod inbox;
mod states;

use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::{Answer, Job};
use postroom_adopted::mapping::{Name, TableName};
use postroom_adopted::{Catalogue, Columns, Dialect, OpenTransaction, Rows, SqlExecutor, Statement};
use postroom_core::{StoreError, StoreErrorKind, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqliteConnection};

use crate::admin::backend::{AdminSession, fault};
use crate::database::Database;
use crate::error::Fault;
use crate::options::SqliteOptions;

pub use inbox::SqliteInbox;
pub use states::SqliteStateGuard;

/// SQLite file with an adopted table.
#[derive(Debug)]
pub struct SqliteExecutor {
    db: Database,
}

impl SqliteExecutor {
    /// Opens the file.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        Ok(Self { db: Database::open(&options).await? })
    }
}

#[async_trait]
impl SqlExecutor for SqliteExecutor {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn schema(&self) -> &'static str {
        "main"
    }

    async fn table(&self, table: &TableName) -> Result<Option<(TableName, Columns)>, StoreError> {
        let name = table.table.as_str().to_owned();
        let statement = Statement::new(
            "select name, type, case when \"notnull\" = 0 and pk = 0 then 'yes' else 'no' end from pragma_table_info($1)",
        );
        let found = self.look("open", vec![statement.bind(name)]).await?.into_iter().next().unwrap_or_default();
        let mut columns = Columns::default();
        for row in &found {
            let text = |n: usize| row.get(n).cloned().flatten().unwrap_or_default();
            columns.add(Name::new(text(0)), &text(1), text(2) == "yes");
        }
        Ok((!found.is_empty()).then(|| (TableName { schema: None, table: table.table.clone() }, columns)))
    }

    async fn catalogue(&self, table: &TableName) -> Result<Catalogue, StoreError> {
        catalogue::read(&self.db.pool, table).await
    }

    async fn script(&self, operation: &'static str, script: String) -> Result<(), StoreError> {
        self.db
            .write(operation, move |conn| {
                Box::pin(async move {
                    conn.execute(sqlx::raw_sql(AssertSqlSafe(script))).await?;
                    Ok(())
                })
            })
            .await
    }

    async fn owners_script(&self, operation: &'static str, script: String) -> Result<(), StoreError> {
        self.script(operation, script).await
    }

    async fn look(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.look(operation, move |conn| Box::pin(all(conn, statements))).await
    }

    async fn run(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.db.check_file(operation)?;
        self.db.write(operation, move |conn| Box::pin(all(conn, statements))).await
    }

    async fn renew(&self, operation: &'static str, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.run(operation, statements).await
    }

    async fn admin_read(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError> {
        let source = source.to_owned();
        self.db
            .look(operation, move |conn| {
                Box::pin(async move {
                    job(&mut AdminSession::new(conn, Timestamp::now()).of_adopted(source)).await.map_err(fault)
                })
            })
            .await
    }

    async fn admin_write(&self, operation: &'static str, source: &str, job: Job) -> Result<Answer, StoreError> {
        self.db.check_file(operation)?;
        let source = source.to_owned();
        self.db
            .write(operation, move |conn| {
                Box::pin(async move {
                    job(&mut AdminSession::new(conn, Timestamp::now()).of_adopted(source)).await.map_err(fault)
                })
            })
            .await
    }

    fn holds_max(&self) -> usize {
        0
    }

    async fn hold(
        &self,
        operation: &'static str,
        _: Statement,
        _: Duration,
    ) -> Result<(Rows, Box<dyn OpenTransaction>), StoreError> {
        let message = "rows cannot be locked one by one in a SQLite file";
        Err(StoreError::new(StoreErrorKind::Invalid, operation, message).hint("leave `claim` out of the mapping"))
    }
}

async fn all(conn: &mut SqliteConnection, statements: Vec<Statement>) -> Result<Vec<Rows>, Fault> {
    let mut found = Vec::with_capacity(statements.len());
    for Statement { text, values } in statements {
        let mut query = sqlx::query(AssertSqlSafe(text));
        for value in values {
            query = query.bind(value);
        }
        let rows = query.fetch_all(&mut *conn).await?;
        found.push(rows.iter().map(row).collect::<Result<_, _>>()?);
    }
    Ok(found)
}

fn row(row: &SqliteRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    (0..row.len()).map(|n| row.try_get(n)).collect()
}
