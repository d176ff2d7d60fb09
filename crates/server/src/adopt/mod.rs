//! What `postroom adopt TABLE` does: looks at a table, guesses its layout, and tries it as a relay would. Nothing is changed.
//!
//! The layout that is tried went through the configuration's own reader, key by key as it is printed.

mod toml;

use std::time::Duration;

use postroom_adopted::Layout;
use postroom_adopted::guess::{self, Guess};
use postroom_adopted::layout::TableName;
use postroom_adopted::survey::{self, Survey};
use postroom_core::StoreError;
use serde::Serialize;

use crate::config::{self, Config, ConfigError, Origin, Problem, Sources, StoreConfig};
use crate::stores;

pub use postroom_adopted::guess::{Advice, Confidence, Guessed, Missing, Value};
pub use postroom_adopted::survey::{Head, Rehearsal, Session, Watched};

/// What is asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The table, as somebody wrote it.
    pub table: String,
    /// The store it is in; the only one if nothing is said.
    pub store: Option<String>,
    /// Keys of the layout that are known better.
    pub set: Vec<(String, String)>,
    /// How long to watch whether somebody else changes rows.
    pub watch: Duration,
}

/// What was found out.
#[derive(Debug, Clone, Serialize)]
pub struct Adoption {
    /// The store.
    pub store: String,
    /// The table with its schema.
    pub table: String,
    /// The layout and a route, for a configuration file.
    pub toml: String,
    /// The keys of the layout, with how sure each is and why.
    pub keys: Vec<Guessed>,
    /// Columns that nothing is made of.
    pub unused: Vec<String>,
    /// What people must know before they let a relay run.
    pub warnings: Vec<String>,
    /// The indexes.
    pub index: Advice,
    /// What somebody else did while we watched.
    pub others: Watched,
    /// For how long we watched.
    #[serde(skip)]
    pub watched: Duration,
    /// What a relay would find.
    pub dry_run: Option<Rehearsal>,
    /// Why that could not be found out.
    pub dry_run_failed: Option<String>,
}

/// Why there is no layout.
#[derive(Debug)]
pub enum AdoptError {
    /// The configuration, or a key that was given.
    Config(ConfigError),
    /// The database.
    Store(StoreError),
    /// Something is not there that a layout must have.
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
    if let Some(layout) = &store.layout {
        let message = format!("store `{}` adopts {} already", store.name, layout.table);
        return Err(wrong(message, "leave [store.NAME.layout] out to have one guessed, or name another store"));
    }
    let table = TableName::parse(&asked.table)
        .map_err(|error| wrong(error.to_string(), "write TABLE or SCHEMA.TABLE, odd names in double quotes"))?;
    let ground = stores::ground(store).await?;
    let survey = survey::survey(&ground, &table).await?;
    let mut guess = guess::guess(&survey.facts);
    for (key, text) in &asked.set {
        if key == "table" {
            return Err(wrong("the table is not set but named", "write `postroom adopt TABLE`"));
        }
        guess.set(key, value(key, text));
    }
    if !guess.missing.is_empty() {
        let columns = survey.facts.columns.iter().map(|column| column.name.to_string()).collect();
        return Err(AdoptError::Missing { table: survey.facts.table.to_string(), missing: guess.missing, columns });
    }
    let layout = layout(sources, &store.name, &guess)?;
    let (dry_run, dry_run_failed) = match survey::rehearse(&ground, &store.name, &layout, config.limits).await {
        Ok(run) => (Some(run), None),
        // Such as a table that is too large to be read without an index: that is what people want to know.
        Err(error) if survey::says_something(&error) => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let others = survey::watch(&ground, &survey, &layout, asked.watch).await?;
    let index = survey.indexes(&layout);
    Ok(Adoption {
        store: store.name.clone(),
        table: survey.facts.table.to_string(),
        toml: toml::write(&guess, &frame(&config, store, &survey)),
        warnings: warnings(&guess, &survey, &layout, &index),
        keys: guess.keys,
        unused: guess.unused.iter().map(ToString::to_string).collect(),
        index,
        others,
        watched: asked.watch,
        dry_run,
        dry_run_failed,
    })
}

/// The layout as the configuration reads it. Other keys of the store stay as they are.
fn layout(sources: &Sources, store: &str, guess: &Guess) -> Result<Layout, AdoptError> {
    let mut sources = sources.clone();
    for Guessed { key, value, .. } in &guess.keys {
        let text = match value {
            Value::Text(text) => text.clone(),
            Value::List(list) => serde_json::json!(list).to_string(),
            Value::Flag(flag) => flag.to_string(),
        };
        sources.flags.push((format!("store.{store}.layout.{key}"), text));
    }
    let config = config::load(&sources)?;
    let layout = config.store(Some(store))?.layout.clone();
    layout.ok_or_else(|| wrong(format!("store `{store}` has no layout"), ""))
}

/// A value as somebody wrote it, as this key takes it.
fn value(key: &str, text: &str) -> Value {
    let list = || text.split(',').map(|part| part.trim().to_owned()).collect();
    match (key, text) {
        ("order" | "state.known" | "event.payload_without", _) => Value::List(list()),
        ("ordered" | "prunes" | "state.dead_is_done", "true" | "false") => Value::Flag(text == "true"),
        _ => Value::Text(text.to_owned()),
    }
}

/// What stands around a layout in the file.
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

fn warnings(guess: &Guess, survey: &Survey, layout: &Layout, index: &Advice) -> Vec<String> {
    let mut warnings = guess.warnings.clone();
    if let Some(grants) = survey.grants(layout) {
        warnings.push(format!("this user may not mark rows; run as the table's owner: {grants}"));
    }
    if survey.hidden {
        warnings.push("row level security hides rows from this user: what it does not see is never sent".to_owned());
    }
    if !index.create.is_empty() && survey.index_needs_our_functions(layout) {
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
