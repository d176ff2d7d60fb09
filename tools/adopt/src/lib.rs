//! What `postroom adopt TABLE` does: looks at a table, guesses its mapping, and tries it as a relay would. Nothing is changed.
//!
//! The mapping that is tried went through the configuration's own reader, key by key as it is printed.

mod guess;
mod sample;
mod toml;

use std::time::Duration;

use postroom_adopted::Mapping;
use postroom_adopted::mapping::{ColumnPath, TableName};
use postroom_adopted::survey::{self, Survey};
use postroom_core::StoreError;
use serde::Serialize;

use postroom_server::config::{self, Config, ConfigError, Origin, Problem, Sources, StoreConfig};
use postroom_server::stores;

pub use crate::guess::{Confidence, Guessed, Missing, Value};
pub use postroom_adopted::survey::{Advice, Head, Rehearsal, Session, Watched};

use crate::guess::{GivenState, Guess, StateColumn};

/// Request to inspect a table.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The table, as somebody wrote it.
    pub table: String,
    /// The store it is in; the only one if nothing is said.
    pub store: Option<String>,
    /// Keys of the mapping that are known better.
    pub set: Vec<(String, String)>,
    /// Time to watch for other programs that change rows.
    pub watch: Duration,
}

/// Result of inspecting a table.
#[derive(Debug, Clone, Serialize)]
pub struct Adoption {
    /// The store.
    pub store: String,
    /// The table with its schema.
    pub table: String,
    /// The mapping, and destinations to choose from, for a configuration file.
    pub toml: String,
    /// Whether the file has destinations to choose from: no route of the configuration serves the store yet.
    #[serde(skip)]
    pub needs_route: bool,
    /// The keys of the mapping, with how sure each is and why.
    pub keys: Vec<Guessed>,
    /// Columns that nothing is made of.
    pub unused: Vec<String>,
    /// Warnings to read before a relay runs.
    pub warnings: Vec<String>,
    /// The indexes.
    pub index: Advice,
    /// Changes of other programs during the watch.
    pub others: Watched,
    /// For how long we watched.
    #[serde(skip)]
    pub watched: Duration,
    /// Result of the dry run.
    pub dry_run: Option<Rehearsal>,
    /// Reason why the dry run failed.
    pub dry_run_failed: Option<String>,
}

/// Reason why there is no mapping.
#[derive(Debug)]
pub enum AdoptError {
    /// The configuration, or a key that was given.
    Config(ConfigError),
    /// The database.
    Store(StoreError),
    /// Something is not there that a mapping must have.
    Missing {
        /// The table.
        table: String,
        /// What.
        missing: Vec<Missing>,
        /// The columns there are.
        columns: Vec<String>,
    },
}

impl From<ConfigError> for AdoptError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<StoreError> for AdoptError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn wrong(message: impl Into<String>, hint: impl Into<String>) -> AdoptError {
    AdoptError::Config(Problem::new(message).hint(hint).into())
}

/// Looks at a table.
pub async fn adopt(sources: &Sources, asked: &Asked) -> Result<Adoption, AdoptError> {
    let config = config::load(sources)?;
    let store = config.store(asked.store.as_deref())?;
    if let Some(mapping) = &store.mapping {
        let message = format!("store `{}` adopts {} already", store.name, mapping.table);
        return Err(wrong(message, "remove [store.NAME.mapping] to detect a mapping, or name another store"));
    }
    let table = TableName::parse(&asked.table)
        .map_err(|error| wrong(error.to_string(), "write TABLE or SCHEMA.TABLE, special names in double quotes"))?;
    let executor = stores::executor(store).await?;
    let mut survey = survey::survey(&executor, &table).await?;
    sample::add(executor.as_ref(), &mut survey.facts).await?;
    let told = told(&asked.set)?;
    let mut guess = guess::guess(&survey.facts, &told);
    for (key, text) in asked.set.iter().filter(|(key, _)| key != "state") {
        if key == "table" {
            return Err(wrong("`--set table` is not possible", "name the table: `postroom adopt TABLE`"));
        }
        guess.set(key, value(key, text));
    }
    if !guess.missing.is_empty() {
        let columns = survey.facts.columns.iter().map(|column| column.name.to_string()).collect();
        return Err(AdoptError::Missing { table: survey.facts.table.to_string(), missing: guess.missing, columns });
    }
    let mapping = mapping(sources, &store.name, &guess)?;
    let (dry_run, dry_run_failed) = match survey::rehearse(&executor, &store.name, &mapping, config.limits).await {
        Ok(run) => (Some(run), None),
        // Such as a table that is too large to be read without an index: that is what people want to know.
        Err(error) if survey::says_something(&error) => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let others = survey::watch(&executor, &survey, &mapping, asked.watch).await?;
    let index = survey.indexes(&mapping);
    let frame = frame(&config, store, &survey);
    Ok(Adoption {
        store: store.name.clone(),
        table: survey.facts.table.to_string(),
        toml: toml::write(&guess, &frame),
        needs_route: frame.route,
        warnings: warnings(&guess, &survey, &mapping, &index),
        keys: guess.keys,
        unused: guess.unused.iter().map(ToString::to_string).collect(),
        index,
        others,
        watched: asked.watch,
        dry_run,
        dry_run_failed,
    })
}

/// What was said of a row's state.
fn told(set: &[(String, String)]) -> Result<GivenState, AdoptError> {
    let said = |wanted: &str| set.iter().rev().find(|(key, _)| key == wanted).map(|(_, text)| text.as_str());
    let pending = said("state.pending").map(str::to_owned);
    let by = match (said("state"), said("state.word")) {
        (Some("presence"), None) => StateColumn::Presence,
        (Some("presence"), Some(_)) => {
            let message = "`--set state=presence` says that nothing but being there tells a row's state, and `--set state.word` that a word does";
            return Err(wrong(message, "give one of them"));
        }
        (Some(other), _) => {
            let hint =
                "write state=presence, or one of state.word, state.stamp and state.flag with the name of a column";
            return Err(wrong(format!("`--set state={other}` says nothing that a table can have"), hint));
        }
        (None, Some(path)) => match ColumnPath::parse(path) {
            Ok(path) => StateColumn::Word(path),
            Err(error) => {
                return Err(wrong(format!("`--set state.word={path}`: {error}"), "write COLUMN or COLUMN.KEY"));
            }
        },
        (None, None) => StateColumn::Nothing,
    };
    Ok(GivenState { by, pending })
}

/// The mapping as the configuration reads it. Other keys of the store stay as they are.
fn mapping(sources: &Sources, store: &str, guess: &Guess) -> Result<Mapping, AdoptError> {
    let mut sources = sources.clone();
    for Guessed { key, value, .. } in &guess.keys {
        let text = match value {
            Value::Text(text) => text.clone(),
            Value::List(list) => serde_json::json!(list).to_string(),
            Value::Flag(flag) => flag.to_string(),
        };
        sources.flags.push((format!("store.{store}.mapping.{key}"), text));
    }
    let config = config::load(&sources)?;
    let mapping = config.store(Some(store))?.mapping.clone();
    mapping.ok_or_else(|| wrong(format!("store `{store}` has no mapping"), ""))
}

/// A value as somebody wrote it, as this key takes it.
fn value(key: &str, text: &str) -> Value {
    let list = || text.split(',').map(|part| part.trim().to_owned()).collect();
    match (key, text) {
        ("order" | "state.ignored" | "event.payload_without", _) => Value::List(list()),
        ("ordered" | "prunes" | "state.dead_is_done", "true" | "false") => Value::Flag(text == "true"),
        _ => Value::Text(text.to_owned()),
    }
}

/// What stands around a mapping in the file.
fn frame(config: &Config, store: &StoreConfig, survey: &Survey) -> toml::Frame {
    let key = format!("store.{}.url", store.name);
    let origin = config.show().iter().find(|setting| setting.key == key).map(|setting| &setting.origin);
    let database_url = matches!(origin, Some(Origin::Environment { variable }) if variable == "DATABASE_URL");
    let routed = config.routes.iter().any(|route| route.stores.contains(&store.name));
    toml::Frame {
        store: store.name.clone(),
        table: survey.facts.table.clone(),
        // With a store in the file this variable means nothing by itself.
        url: database_url.then(|| "${DATABASE_URL}".to_owned()),
        route: !routed,
        one_of_many: config.stores.len() > 1,
    }
}

fn warnings(guess: &Guess, survey: &Survey, mapping: &Mapping, index: &Advice) -> Vec<String> {
    let mut warnings = guess.warnings.clone();
    if let Some(grants) = survey.grants(mapping) {
        warnings.push(format!("this user may not mark rows; run as the table's owner: {grants}"));
    }
    if survey.hidden {
        warnings.push("row level security hides rows from this user: hidden rows are never sent".to_owned());
    }
    if !index.create.is_empty() && survey.index_needs_our_functions(mapping) {
        warnings.push("the index calls a function that `store migrate up` makes: run that first".to_owned());
    }
    warnings
}

impl Adoption {
    /// The keys somebody should look at.
    pub fn unsure(&self) -> impl Iterator<Item = &Guessed> {
        self.keys.iter().filter(|guessed| guessed.confidence == Confidence::Unsure)
    }
}

/// A value as it stands in a file.
pub fn shown(value: &Value) -> String {
    toml::value(value)
}
