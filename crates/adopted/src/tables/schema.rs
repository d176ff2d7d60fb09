//! The tables beside adopted ones: made by the first relay that needs them, or printed for those who make their own.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};

use crate::ground::{Dialect, Ground, Statement};
use crate::layout::{Layout, Name, TableName};

/// The version this build needs.
pub(crate) const NEEDS: i64 = 1;
const STEP: &str = "beside adopted tables";

/// The tables of one adopted store.
pub(crate) struct AdoptedSchema {
    store: String,
    ground: Arc<dyn Ground>,
    /// The adopted table, and SQL of the owner's that makes it.
    create: Option<(TableName, String)>,
}

impl AdoptedSchema {
    pub(crate) fn new(store: &str, layout: &Layout, ground: Arc<dyn Ground>) -> Self {
        let create = layout.create.as_ref().map(|sql| (layout.table.clone(), sql.clone()));
        Self { store: store.to_owned(), ground, create }
    }

    /// The owner's SQL, if it is wanted and the table is not there.
    async fn missing_table(&self) -> Result<Option<(&TableName, &str)>, StoreError> {
        let Some((table, sql)) = &self.create else { return Ok(None) };
        Ok(self.ground.table(table).await?.is_none().then_some((table, sql.as_str())))
    }

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
        let tables =
            ["meta", "route", "relay", "attempt", "audit", "stat", "token"].map(|table| format!("adopted_{table}"));
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

    /// Makes our own tables, if they are not there.
    async fn beside(&self) -> Result<Option<SchemaStep>, StoreError> {
        if self.version().await? >= NEEDS {
            return Ok(None);
        }
        if let Err(error) = self.ground.script("migrate", self.script()).await {
            // Another relay may have been quicker.
            return if self.version().await? >= NEEDS { Ok(None) } else { Err(error) };
        }
        Ok(Some(SchemaStep { version: NEEDS, name: STEP.to_owned(), applied: true }))
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
        let ensured = self.ensured(may_create).await;
        let Err(error) = ensured else { return Ok(()) };
        // Of tables that are there only the grants are missing.
        let script = if self.version().await.is_ok_and(|version| version == 0) { self.script() } else { String::new() };
        Err(super::rights::explained(error, self.ground.as_ref(), &script).await)
    }

    async fn ensured(&self, may_create: bool) -> Result<(), StoreError> {
        let error = |message: String| StoreError::new(StoreErrorKind::Schema, "open", message);
        match self.version().await? {
            NEEDS => Ok(()),
            0 if may_create => self.beside().await.map(drop),
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
        let owners = self.missing_table().await?.map(|(_, sql)| sql.to_owned()).unwrap_or_default();
        Ok(owners + &if self.version().await? == 0 { self.script() } else { String::new() })
    }

    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let mut steps = Vec::new();
        if let Some((table, sql)) = self.missing_table().await? {
            self.ground.owners_script("migrate", sql.to_owned()).await?;
            steps.push(SchemaStep { version: 0, name: format!("the adopted table {table}"), applied: true });
        }
        steps.extend(self.beside().await?);
        Ok(steps)
    }

    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError> {
        if self.version().await? == 0 {
            return Ok(Vec::new());
        }
        self.ground.script("migrate", self.undo()).await?;
        Ok(vec![SchemaStep { version: NEEDS, name: STEP.to_owned(), applied: false }])
    }
}
