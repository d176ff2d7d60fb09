//! The tables beside adopted ones: made by the first relay that needs them, or printed for those who make their own.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};

use crate::ground::{Dialect, Ground, Statement};
use crate::layout::{Layout, Name, TableName};

/// A step for each database, and what undoes it. A released step is never edited.
struct Step {
    name: &'static str,
    postgres: [&'static str; 2],
    sqlite: [&'static str; 2],
}

/// Step n stands at n − 1.
const STEPS: &[Step] = &[
    Step {
        name: "beside adopted tables",
        postgres: [include_str!("postgres.sql"), include_str!("postgres.down.sql")],
        sqlite: [include_str!("sqlite.sql"), include_str!("sqlite.down.sql")],
    },
    Step {
        name: "replays and tokens",
        postgres: [include_str!("postgres_2.sql"), include_str!("postgres_2.down.sql")],
        sqlite: [include_str!("sqlite_2.sql"), include_str!("sqlite_2.down.sql")],
    },
    Step {
        name: "claims that did not run out",
        postgres: [include_str!("postgres_3.sql"), include_str!("postgres_3.down.sql")],
        sqlite: [include_str!("sqlite_3.sql"), include_str!("sqlite_3.down.sql")],
    },
];

/// The version this build needs.
#[allow(clippy::cast_possible_wrap, reason = "a handful of steps")]
pub(crate) const NEEDS: i64 = STEPS.len() as i64;

/// The steps that tables of this version lack, with their numbers.
fn missing(version: i64) -> impl Iterator<Item = (i64, &'static Step)> {
    (1..).zip(STEPS).filter(move |(number, _)| *number > version)
}

fn described((version, step): (i64, &Step), applied: bool) -> SchemaStep {
    SchemaStep { version, name: step.name.to_owned(), applied }
}

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

    /// What brings tables of this version to the one this build needs.
    fn script(&self, version: i64) -> String {
        missing(version).map(|(_, step)| self.texts(step)[0].clone()).collect::<Vec<_>>().join("\n")
    }

    /// What does a step here, and what undoes it.
    fn texts(&self, step: &Step) -> [String; 2] {
        let schema = Name::new(self.ground.schema()).quoted();
        match self.ground.dialect() {
            Dialect::Postgres => step.postgres.map(|text| text.replace("{schema}", &schema)),
            Dialect::Sqlite => step.sqlite.map(str::to_owned),
        }
    }

    /// Makes our own tables what this build needs, if they are not.
    async fn beside(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let version = self.version().await?;
        if version >= NEEDS {
            return Ok(Vec::new());
        }
        if let Err(error) = self.ground.script("migrate", self.script(version)).await {
            // Another relay may have been quicker.
            return if self.version().await? >= NEEDS { Ok(Vec::new()) } else { Err(error) };
        }
        Ok(missing(version).map(|step| described(step, true)).collect())
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

    /// Makes the tables what this build needs; fails when they are not and it may not.
    pub(crate) async fn ensure(&self, may_create: bool) -> Result<(), StoreError> {
        let ensured = self.ensured(may_create).await;
        let Err(error) = ensured else { return Ok(()) };
        // Where no step is missing it is only the grants.
        let script = self.version().await.map(|version| self.script(version)).unwrap_or_default();
        Err(super::rights::explained(error, self.ground.as_ref(), &script).await)
    }

    async fn ensured(&self, may_create: bool) -> Result<(), StoreError> {
        let error = |message: String| StoreError::new(StoreErrorKind::Schema, "open", message);
        match self.version().await? {
            NEEDS => Ok(()),
            older if older < NEEDS && may_create => self.beside().await.map(drop),
            0 => Err(error(format!("the tables that store {:?} keeps beside the adopted one are missing", self.store))
                .hint("run `postroom store migrate up`, or `postroom store migrate plan` to apply it yourself")),
            other => {
                let message =
                    format!("the tables beside the adopted one are at version {other}, this build needs {NEEDS}");
                Err(error(message).hint(if other < NEEDS {
                    "run `postroom store migrate up`, or `postroom store migrate plan` to apply it yourself"
                } else {
                    "run the newer build that made them"
                }))
            }
        }
    }
}

#[async_trait]
impl Schema for AdoptedSchema {
    async fn status(&self) -> Result<SchemaStatus, StoreError> {
        let version = self.version().await?;
        let steps = missing(0).map(|step| described(step, step.0 <= version)).collect();
        Ok(SchemaStatus { store: self.store.clone(), version, needs: NEEDS, steps })
    }

    async fn plan(&self) -> Result<String, StoreError> {
        let owners = self.missing_table().await?.map(|(_, sql)| sql.to_owned()).unwrap_or_default();
        Ok(owners + &self.script(self.version().await?))
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
        let version = self.version().await?;
        let Some(step) = missing(0).find(|(number, _)| *number == version) else { return Ok(Vec::new()) };
        let [_, undo] = self.texts(step.1);
        self.ground.script("migrate", undo).await?;
        Ok(vec![described(step, false)])
    }
}
