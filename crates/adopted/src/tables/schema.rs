//! The tables beside adopted ones: made by the first relay that needs them, or printed for those who make their own.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};

use crate::ground::{Dialect, Ground, Statement};
use crate::layout::Name;

/// The version this build needs.
const NEEDS: i64 = 1;
const STEP: &str = "beside adopted tables";

/// The tables of one adopted store.
pub(crate) struct AdoptedSchema {
    pub(crate) store: String,
    pub(crate) ground: Arc<dyn Ground>,
}

impl AdoptedSchema {
    fn script(&self) -> String {
        match self.ground.dialect() {
            Dialect::Postgres => {
                include_str!("postgres.sql").replace("{schema}", &Name::new(self.ground.schema()).quoted())
            }
            Dialect::Sqlite => include_str!("sqlite.sql").to_owned(),
        }
    }

    fn undo(&self) -> String {
        let schema = Name::new(self.ground.schema()).quoted();
        let tables = ["meta", "route", "relay", "attempt", "audit", "stat"].map(|table| format!("adopted_{table}"));
        let all = tables.into_iter().chain(["sidecar".to_owned()]);
        match self.ground.dialect() {
            Dialect::Postgres => {
                let drops: Vec<String> = all.map(|table| format!("drop table {schema}.{table};\n")).collect();
                let functions =
                    "drop function {schema}.adopted_json(text);\ndrop function {schema}.adopted_time(text);\n";
                drops.concat() + &functions.replace("{schema}", &schema)
            }
            Dialect::Sqlite => {
                let drops: Vec<String> = all.map(|table| format!("drop table postroom_{table};\n")).collect();
                drops.concat()
            }
        }
    }

    async fn version(&self) -> Result<i64, StoreError> {
        let (there, version) = match self.ground.dialect() {
            Dialect::Postgres => {
                let meta = format!("{}.adopted_meta", Name::new(self.ground.schema()).quoted());
                let there = format!("select 'yes' where to_regclass({}) is not null", crate::sql::literal(&meta));
                (there, format!("select value from {meta} where name = 'schema_version'"))
            }
            Dialect::Sqlite => (
                "select 'yes' from sqlite_schema where name = 'postroom_adopted_meta'".to_owned(),
                "select value from postroom_adopted_meta where name = 'schema_version'".to_owned(),
            ),
        };
        if self.ground.look("open", vec![Statement::new(there)]).await?.first().is_none_or(Vec::is_empty) {
            return Ok(0);
        }
        let found = self.ground.look("open", vec![Statement::new(version)]).await?;
        let value = found.first().and_then(|rows| rows.first()).and_then(|row| row.first()).and_then(Option::as_deref);
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or_default())
    }

    /// Makes the tables if they are not there; fails when they are of another version.
    pub(crate) async fn ensure(&self, may_create: bool) -> Result<(), StoreError> {
        let error = |message: String| StoreError::new(StoreErrorKind::Schema, "open", message);
        match self.version().await? {
            NEEDS => Ok(()),
            0 if may_create => self.up().await.map(drop),
            0 => Err(error(format!("the tables that store {:?} keeps beside the adopted one are missing", self.store))
                .hint("run `postroom store migrate up`, or `postroom store migrate plan` to apply it yourself")),
            newer => Err(error(format!(
                "the tables beside the adopted one are at version {newer}, this build needs {NEEDS}"
            ))
            .hint("run the newer build that made them")),
        }
    }
}

#[async_trait]
impl Schema for AdoptedSchema {
    async fn status(&self) -> Result<SchemaStatus, StoreError> {
        let version = self.version().await?;
        let steps = vec![SchemaStep { version: NEEDS, name: STEP.to_owned(), applied: version >= NEEDS }];
        Ok(SchemaStatus { store: self.store.clone(), version, needs: NEEDS, steps })
    }

    async fn plan(&self) -> Result<String, StoreError> {
        Ok(if self.version().await? == 0 { self.script() } else { String::new() })
    }

    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError> {
        if self.version().await? >= NEEDS {
            return Ok(Vec::new());
        }
        if let Err(error) = self.ground.script("migrate", self.script()).await {
            // Another relay may have been quicker.
            return if self.version().await? >= NEEDS { Ok(Vec::new()) } else { Err(error) };
        }
        Ok(vec![SchemaStep { version: NEEDS, name: STEP.to_owned(), applied: true }])
    }

    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError> {
        if self.version().await? == 0 {
            return Ok(Vec::new());
        }
        self.ground.script("migrate", self.undo()).await?;
        Ok(vec![SchemaStep { version: NEEDS, name: STEP.to_owned(), applied: false }])
    }
}
