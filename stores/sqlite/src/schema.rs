//! The tables: numbered steps up and down, each atomic, safe when two migrators run at once.

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use postroom_admin::{Dialect, tables};
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};
use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::database::Database;
use crate::error::Fault;
use crate::store::{Inner, SqliteStore};

/// The tables of one store.
pub(crate) struct SqliteSchema(pub(crate) Arc<Inner>);

/// A step of the log's own tables; [`tables`] adds the operators' tables to the first two.
struct Step {
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

/// Step n stands at n − 1. A released step is never edited.
const STEPS: &[Step] = &[
    Step {
        name: "native log",
        up: include_str!("../migrations/0001_native_log.up.sql"),
        down: include_str!("../migrations/0001_native_log.down.sql"),
    },
    Step { name: "replays and tokens", up: "", down: "" },
];

/// The version this build needs.
#[allow(clippy::cast_possible_wrap, reason = "a handful of steps")]
const NEEDS: i64 = STEPS.len() as i64;

impl SqliteStore {
    /// Version of the schema that this build needs.
    pub const SCHEMA_VERSION: i64 = NEEDS;
}

/// Fails unless the tables are there in the version this build needs.
pub(crate) async fn check(db: &Database) -> Result<(), StoreError> {
    let found = db.read("open", |conn| Box::pin(async move { Ok(version(conn).await?) })).await?;
    let error = |message: String| StoreError::new(StoreErrorKind::Schema, "open", message);
    match found {
        NEEDS => Ok(()),
        0 => Err(error(format!("store schema is missing in {}, this build needs version {NEEDS}", db.path))
            .hint("run `postroom store migrate up`")),
        older if older < NEEDS => Err(error(format!("store schema is at version {older}, this build needs {NEEDS}"))
            .hint("run `postroom store migrate up`, or `postroom store migrate plan` to apply it yourself")),
        newer => Err(error(format!("store schema is at version {newer}, this build needs {NEEDS}"))
            .hint("run the newer build that made it, or a backup of the file from before")),
    }
}

async fn version(conn: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let there: Option<i64> =
        sqlx::query_scalar("select 1 from sqlite_schema where type = 'table' and name = 'postroom_meta'")
            .fetch_optional(&mut *conn)
            .await?;
    if there.is_none() {
        return Ok(0);
    }
    sqlx::query_scalar("select value from postroom_meta where name = 'schema_version'").fetch_one(conn).await
}

fn step(version: i64) -> Option<&'static Step> {
    STEPS.get(usize::try_from(version - 1).ok()?)
}

fn described(version: i64, applied: bool) -> SchemaStep {
    let name = step(version).map_or("unknown to this build", |s| s.name).to_owned();
    SchemaStep { version, name, applied }
}

/// Applies the next step, if one is missing. The write lock makes a second migrator find it done.
async fn up_once(conn: &mut SqliteConnection) -> Result<Option<SchemaStep>, Fault> {
    let next = version(conn).await? + 1;
    let Some(step) = step(next) else { return Ok(None) };
    sqlx::raw_sql(AssertSqlSafe(up_text(next, step))).execute(&mut *conn).await?;
    set_version(conn, next).await?;
    Ok(Some(described(next, true)))
}

async fn down_once(conn: &mut SqliteConnection) -> Result<Option<SchemaStep>, Fault> {
    let newest = version(conn).await?;
    if newest == 0 {
        return Ok(None);
    }
    let Some(step) = step(newest) else {
        return Err(StoreError::new(
            StoreErrorKind::Schema,
            "migrate",
            format!("store schema is at version {newest}, this build knows only {NEEDS}"),
        )
        .hint("run `postroom store migrate down` of the build that made it")
        .into());
    };
    let adopted = sqlx::query("select 1 from sqlite_schema where name = 'postroom_adopted_meta'");
    if adopted.fetch_optional(&mut *conn).await?.is_none() {
        sqlx::raw_sql(tables::down(Dialect::Sqlite, newest)).execute(&mut *conn).await?;
    }
    sqlx::raw_sql(step.down).execute(&mut *conn).await?;
    if newest > 1 {
        set_version(conn, newest - 1).await?;
    }
    Ok(Some(described(newest, false)))
}

async fn set_version(conn: &mut SqliteConnection, version: i64) -> Result<(), sqlx::Error> {
    sqlx::query("update postroom_meta set value = ?1 where name = 'schema_version'")
        .bind(version)
        .execute(conn)
        .await
        .map(drop)
}

/// What a step does.
fn up_text(number: i64, step: &Step) -> String {
    let shared = tables::up(Dialect::Sqlite, number);
    if step.up.is_empty() { shared.to_owned() } else { format!("{}\n{shared}", step.up) }
}

/// The SQL that brings a file from this version to the one this build needs; 0 is a new file.
pub(crate) fn plan_from(version: i64) -> String {
    let mut plan = String::new();
    for n in version + 1..=NEEDS {
        let Some(step) = step(n) else { break };
        let _ = writeln!(plan, "-- step {n}: {}\nbegin immediate;\n{}", step.name, up_text(n, step).trim_end());
        let _ = writeln!(plan, "update postroom_meta set value = {n} where name = 'schema_version';\ncommit;");
    }
    plan
}

#[async_trait]
impl Schema for SqliteSchema {
    async fn status(&self) -> Result<SchemaStatus, StoreError> {
        let version = self.0.db.read("migrate", |conn| Box::pin(async move { Ok(version(conn).await?) })).await?;
        let steps = (1..=NEEDS.max(version)).map(|n| described(n, n <= version)).collect();
        Ok(SchemaStatus { store: self.0.name.clone(), version, needs: NEEDS, steps })
    }

    async fn plan(&self) -> Result<String, StoreError> {
        let version = self.status().await?.version;
        if version > NEEDS {
            check(&self.0.db).await?;
        }
        Ok(plan_from(version))
    }

    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let mut applied = Vec::new();
        while let Some(step) = self.0.db.write("migrate", |conn| Box::pin(up_once(conn))).await? {
            applied.push(step);
        }
        check(&self.0.db).await?;
        Ok(applied)
    }

    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let undone = self.0.db.write("migrate", |conn| Box::pin(down_once(conn))).await?;
        Ok(undone.into_iter().collect())
    }
}
