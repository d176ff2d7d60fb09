//! The tables beside adopted ones: made by the first relay that needs them, or printed for those who make their own.

use std::sync::Arc;

use async_trait::async_trait;
use postroom_admin::tables;
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};

use crate::executor::{Dialect, SqlExecutor, Statement};
use crate::mapping::{Mapping, Name, TableName};
use crate::sql::columns::Columns;
use crate::sql::{Writer, functions, literal};

/// A step for each database, and what undoes it; [`tables`] adds the operators' tables to the first two. A released step is
/// never edited.
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
    Step {
        name: "further routes",
        postgres: [include_str!("postgres_4.sql"), include_str!("postgres_4.down.sql")],
        sqlite: [include_str!("sqlite_4.sql"), include_str!("sqlite_4.down.sql")],
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
    executor: Arc<dyn SqlExecutor>,
    mapping: Mapping,
    /// The adopted table, and SQL of the owner's that makes it.
    create: Option<(TableName, String)>,
}

impl AdoptedSchema {
    pub(crate) fn new(store: &str, mapping: &Mapping, executor: Arc<dyn SqlExecutor>) -> Self {
        let create = mapping.create.as_ref().map(|sql| (mapping.table.clone(), sql.clone()));
        Self { store: store.to_owned(), executor, mapping: mapping.clone(), create }
    }

    /// The functions for other programs that share the table, if they are not there as they should be. None where the
    /// mapping has none, or its tables are not there yet.
    async fn missing_functions(&self) -> Result<Option<String>, StoreError> {
        if self.executor.dialect() != Dialect::Postgres
            || (self.mapping.claimed().is_none() && self.mapping.inbox.is_none())
        {
            return Ok(None);
        }
        let mut mapping = self.mapping.clone();
        let Some((table, columns)) = self.executor.table(&mapping.table).await? else { return Ok(None) };
        mapping.table = table;
        let mut log = Columns::default();
        if let Some(to) = &mut mapping.log {
            let Some((table, found)) = self.executor.table(&to.table).await? else { return Ok(None) };
            (to.table, log) = (table, found);
        }
        if let Some(inbox) = &mut mapping.inbox {
            let Some((table, _)) = self.executor.table(&inbox.table).await? else { return Ok(None) };
            inbox.table = table;
        }
        let schema = self.executor.schema();
        let writer = Writer { dialect: Dialect::Postgres, schema, columns: &columns, alias: "t" };
        let whose = format!("-- Functions of {} (store {}).\n", mapping.table, self.store);
        let text = whose.clone() + &functions::script(&mapping, &writer, &log);
        let known = self.meta("functions").await?;
        if known.as_ref().is_some_and(|known| *known == text) {
            return Ok(None);
        }
        // A native log in the schema has functions of its own, which programs know already.
        if self.has_table("meta").await? {
            return Ok(None);
        }
        let taken_by = known.filter(|known| !known.starts_with(&format!("-- Functions of {} ", mapping.table)));
        let taken_by = taken_by.as_deref().and_then(|known| known.lines().next());
        let taken_by = taken_by.map(|line| line.trim_start_matches("-- Functions of ").trim_end_matches('.'));
        if let Some(other) = taken_by {
            let message =
                format!("the functions of store {:?} cannot be made: schema {schema} has those of {other}", self.store);
            return Err(StoreError::new(StoreErrorKind::Conflict, "migrate", message).hint(format!(
                "give the store a schema of its own: store.{}.schema = \"postroom_{}\"",
                self.store, self.store
            )));
        }
        let note = format!(
            "\ninsert into {}.adopted_meta (name, value) values ('functions', {}) on conflict (name) do update set value = excluded.value;\n",
            Name::new(schema).quoted(),
            literal(&text)
        );
        Ok(Some(text + &note))
    }

    /// The owner's SQL, if it is wanted and the table is not there.
    async fn missing_table(&self) -> Result<Option<(&TableName, &str)>, StoreError> {
        let Some((table, sql)) = &self.create else { return Ok(None) };
        Ok(self.executor.table(table).await?.is_none().then_some((table, sql.as_str())))
    }

    /// What brings tables of this version to the one this build needs.
    fn script(&self, version: i64) -> String {
        let text = |(number, step): (i64, &Step)| {
            let [own, _] = self.texts(step);
            let shared = self.shared(tables::up(self.executor.dialect(), number));
            if shared.is_empty() { own } else { format!("{own}\n{shared}") }
        };
        missing(version).map(text).collect::<Vec<_>>().join("\n")
    }

    /// Statements on the operators' tables as they read here.
    fn shared(&self, text: &str) -> String {
        match self.executor.dialect() {
            Dialect::Postgres => text.replace("postroom.", &format!("{}.", Name::new(self.executor.schema()).quoted())),
            Dialect::Sqlite => text.to_owned(),
        }
    }

    /// What does a step here, and what undoes it.
    fn texts(&self, step: &Step) -> [String; 2] {
        let schema = Name::new(self.executor.schema()).quoted();
        match self.executor.dialect() {
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
        // A native log in the same database makes the operators' tables under the same lock.
        let lock = match self.executor.dialect() {
            Dialect::Postgres => tables::MIGRATION_LOCK,
            Dialect::Sqlite => "",
        };
        if let Err(error) = self.executor.script("migrate", lock.to_owned() + &self.script(version)).await {
            // Another relay may have been quicker.
            return if self.version().await? >= NEEDS { Ok(Vec::new()) } else { Err(error) };
        }
        Ok(missing(version).map(|step| described(step, true)).collect())
    }

    /// Whether a table of ours is there.
    async fn has_table(&self, table: &str) -> Result<bool, StoreError> {
        let there = match self.executor.dialect() {
            Dialect::Postgres => {
                let table = format!("{}.{table}", Name::new(self.executor.schema()).quoted());
                format!("select 'yes' where to_regclass({}) is not null", literal(&table))
            }
            Dialect::Sqlite => format!("select 'yes' from sqlite_schema where name = 'postroom_{table}'"),
        };
        let found = self.executor.look("open", vec![Statement::new(there)]).await?;
        Ok(found.first().is_some_and(|rows| !rows.is_empty()))
    }

    async fn version(&self) -> Result<i64, StoreError> {
        Ok(self.meta("schema_version").await?.and_then(|value| value.parse().ok()).unwrap_or_default())
    }

    async fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        if !self.has_table("adopted_meta").await? {
            return Ok(None);
        }
        let version = self.shared(&format!("select value from postroom.adopted_meta where name = {}", literal(name)));
        let version = match self.executor.dialect() {
            Dialect::Postgres => version,
            Dialect::Sqlite => version.replace("postroom.", "postroom_"),
        };
        let found = self.executor.look("open", vec![Statement::new(version)]).await?;
        Ok(found.first().and_then(|rows| rows.first()).and_then(|row| row.first()).cloned().flatten())
    }

    /// Makes the tables what this build needs; fails when they are not and it may not.
    pub(crate) async fn ensure(&self, may_create: bool) -> Result<(), StoreError> {
        let ensured = self.ensured(may_create).await;
        let Err(error) = ensured else { return Ok(()) };
        // Where no step is missing it is only the grants.
        let script = self.version().await.map(|version| self.script(version)).unwrap_or_default();
        Err(super::rights::explained(error, self.executor.as_ref(), &script).await)
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
        let functions = self.missing_functions().await?.unwrap_or_default();
        Ok(owners + &self.script(self.version().await?) + &functions)
    }

    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let mut steps = Vec::new();
        if let Some((table, sql)) = self.missing_table().await? {
            self.executor.owners_script("migrate", sql.to_owned()).await?;
            steps.push(SchemaStep { version: 0, name: format!("the adopted table {table}"), applied: true });
        }
        steps.extend(self.beside().await?);
        if let Some(functions) = self.missing_functions().await? {
            self.executor.script("migrate", functions).await?;
            let name = format!("functions on {}", self.mapping.table);
            steps.push(SchemaStep { version: NEEDS, name, applied: true });
        }
        Ok(steps)
    }

    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let version = self.version().await?;
        let Some(step) = missing(0).find(|(number, _)| *number == version) else { return Ok(Vec::new()) };
        let [_, undo] = self.texts(step.1);
        // The operators' tables stay while the native log of the same database has them too.
        let native = self.has_table("meta").await?;
        let shared = if native { "" } else { tables::down(self.executor.dialect(), version) };
        // They read what a step takes away, and the type of the table's rows.
        let functions = match self.meta("functions").await? {
            Some(_) => {
                let (schema, columns) = (self.executor.schema(), Columns::default());
                let writer = Writer { dialect: Dialect::Postgres, schema, columns: &columns, alias: "t" };
                let note =
                    format!("delete from {}.adopted_meta where name = 'functions';\n", Name::new(schema).quoted());
                functions::drop_script(&writer) + &note
            }
            None => String::new(),
        };
        self.executor.script("migrate", functions + &self.shared(shared) + &undo).await?;
        Ok(vec![described(step, false)])
    }
}
