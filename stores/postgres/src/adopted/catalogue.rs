//! Reads what the catalogue says about a table, through the application's own connections.

use postroom_adopted::mapping::{Name, TableName};
use postroom_adopted::{Catalogue, Columns, missing_table};
use postroom_core::StoreError;
use sqlx::postgres::PgConnection;
use sqlx::{PgPool, Postgres, Row as _, Transaction};

use crate::database::joined;
use crate::error::Fault;

/// Table with its schema, its columns, and the columns that every insert must set.
pub(super) type TableDefinition = (TableName, Columns, Vec<Name>);

pub(super) async fn read(pool: &PgPool, table: &TableName) -> Result<Catalogue, StoreError> {
    let found = look(pool, table).await.map_err(|fault| fault.at("open", &table.to_string()))?;
    found.ok_or_else(|| missing_table(table))
}

async fn look(pool: &PgPool, table: &TableName) -> Result<Option<Catalogue>, Fault> {
    let mut tx = begin(pool).await?;
    let Some((full, columns, wanted)) = columns_of(&mut tx, table).await? else { return Ok(None) };
    let uniques = sqlx::query_scalar::<_, Vec<String>>(include_str!("../sql/catalogue_uniques.sql"))
        .persistent(false)
        .bind(full.quoted())
        .fetch_all(&mut *tx)
        .await?;
    let uniques = uniques.into_iter().map(|names| names.into_iter().map(Name::new).collect()).collect();
    Ok(Some(Catalogue { table: full, columns, wanted, uniques }))
}

/// Through the callers' sessions, whatever was set for our own: as an application finds it.
pub(super) async fn columns(pool: &PgPool, table: &TableName) -> Result<Option<TableDefinition>, Fault> {
    Ok(columns_of(&mut *begin(pool).await?, table).await?)
}

/// A statement with parameters is two messages: outside a transaction a pooler may send them to two sessions.
#[allow(clippy::disallowed_methods, reason = "nobody can drop it half-way")]
async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Fault> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin().await }).await;
    Ok(joined(begun, "open")??)
}

async fn columns_of(conn: &mut PgConnection, table: &TableName) -> Result<Option<TableDefinition>, sqlx::Error> {
    let rows = sqlx::query(include_str!("../sql/catalogue_columns.sql"))
        .persistent(false)
        .bind(table.quoted())
        .fetch_all(conn)
        .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let name = |row: &sqlx::postgres::PgRow, n: usize| row.try_get::<String, _>(n).map(Name::new);
    let full = TableName { schema: Some(name(first, 0)?), table: name(first, 1)? };
    let (mut columns, mut wanted) = (Columns::default(), Vec::new());
    for row in &rows {
        let column = name(row, 2)?;
        if row.try_get(6)? {
            wanted.push(column.clone());
        }
        columns.add_spelt(column, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
    }
    Ok(Some((full, columns, wanted)))
}
