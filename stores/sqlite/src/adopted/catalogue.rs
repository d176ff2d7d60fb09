//! Reads what the schema says about a table, through the application's own connections.

use postroom_adopted::mapping::{Name, TableName};
use postroom_adopted::{Catalogue, Columns, missing_table};
use postroom_core::StoreError;
use sqlx::{Row as _, SqlitePool};

use crate::error::Fault;

pub(super) async fn read(pool: &SqlitePool, table: &TableName) -> Result<Catalogue, StoreError> {
    let found = look(pool, table).await.map_err(|error| Fault::from(error).at("open", &table.to_string()))?;
    found.ok_or_else(|| missing_table(table))
}

/// A table's columns, and whether an insert must give the column. A single integer key fills itself.
const COLUMNS: &str = r#"
    select name, type, "notnull" = 1 and dflt_value is null and not (pk = 1 and upper(type) = 'INTEGER')
    from pragma_table_info(?1, ?2)
    order by cid"#;

async fn look(pool: &SqlitePool, table: &TableName) -> Result<Option<Catalogue>, sqlx::Error> {
    let (name, schema) = (table.table.as_str(), table.schema.as_ref().map_or("main", Name::as_str));
    let rows = sqlx::query(COLUMNS).bind(name).bind(schema).fetch_all(pool).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let (mut columns, mut wanted) = (Columns::default(), Vec::new());
    for row in &rows {
        let column = Name::new(row.try_get::<String, _>(0)?);
        columns.add(column.clone(), &row.try_get::<String, _>(1)?, true);
        if row.try_get(2)? {
            wanted.push(column);
        }
    }
    let mut uniques: Vec<(String, Vec<Name>)> = Vec::new();
    let rows =
        sqlx::query(include_str!("../sql/catalogue_uniques.sql")).bind(name).bind(schema).fetch_all(pool).await?;
    for row in &rows {
        let (index, column): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        match uniques.last_mut() {
            Some((last, names)) if *last == index => names.push(Name::new(column)),
            _ => uniques.push((index, vec![Name::new(column)])),
        }
    }
    let uniques = uniques.into_iter().map(|(_, names)| names).collect();
    Ok(Some(Catalogue { table: table.clone(), columns, wanted, uniques }))
}
