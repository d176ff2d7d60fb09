//! A column with the state of something, changed by one statement that names the states it expects.

use std::sync::Arc;

use postroom_core::{StoreError, StoreErrorKind, Transitions};

use crate::catalogue::{Catalogue, Kind, refused};
use crate::executor::Dialect;
use crate::mapping::{Name, NameError, TableName};
use crate::sql::literal;

/// How often a step is tried again that somebody made possible in the meantime.
pub const STEP_TRIES: u32 = 5;

/// Where states stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTable {
    /// The table.
    pub table: TableName,
    /// The column that names a row; unique.
    pub key: Name,
    /// The column with the state: text, or an enumeration.
    pub state: Name,
}

impl StateTable {
    /// A table with the columns `id` and `status` until told otherwise.
    pub fn new(table: &str) -> Result<Self, NameError> {
        Ok(Self { table: TableName::parse(table)?, key: Name::new("id"), state: Name::new("status") })
    }

    /// The column that names a row.
    pub fn key_column(mut self, name: &str) -> Result<Self, NameError> {
        self.key = Name::parse(name)?;
        Ok(self)
    }

    /// The column with the state.
    pub fn state_column(mut self, name: &str) -> Result<Self, NameError> {
        self.state = Name::parse(name)?;
        Ok(self)
    }
}

/// What is said to a table of states. `$1` is the key.
#[derive(Debug, Clone)]
pub struct StateTexts {
    /// One statement for each state that a step leads to.
    steps: Vec<(String, Arc<str>)>,
    /// The state as text.
    pub look: Arc<str>,
    key: (Name, Kind),
    table: TableName,
}

impl StateTexts {
    /// Checks the table, and makes what is said to it.
    pub fn new(
        dialect: Dialect,
        states: &StateTable,
        transitions: &Transitions,
        found: &Catalogue,
    ) -> Result<Self, StoreError> {
        let key = found.column(&states.key, "the key")?;
        found.column(&states.state, "the state")?;
        if !found.is_unique(&[&states.key]) {
            let message =
                format!("{} of {} is not unique: one step would change several rows", states.key, found.table);
            return Err(refused(message).hint("name the column that tells rows apart with `key_column`"));
        }
        let key_kind = Kind::of(key);
        let key_value = match dialect {
            Dialect::Postgres if key_kind == Kind::Text => "$1::text".to_owned(),
            Dialect::Postgres => format!("$1::text::{}", key.spelt),
            Dialect::Sqlite => "$1".to_owned(),
        };
        let (table, state) = (found.table.quoted(), states.state.quoted());
        let this = format!("{} = {key_value}", states.key.quoted());
        let step = |to: &str| {
            // Literals without a type become the column's own, whatever that is.
            let from: Vec<String> = transitions.sources(to).iter().map(|from| literal(from)).collect();
            let text = format!(
                "update {table} set {state} = {} where {this} and {state} in ({})",
                literal(to),
                from.join(", ")
            );
            (to.to_owned(), Arc::from(text))
        };
        Ok(Self {
            steps: transitions.targets().map(step).collect(),
            look: format!("select cast({state} as text) from {table} where {this}").into(),
            key: (states.key.clone(), key_kind),
            table: found.table.clone(),
        })
    }

    /// The statement that leads to a state, if a step does.
    pub fn step(&self, to: &str) -> Option<&Arc<str>> {
        self.steps.iter().find(|(target, _)| target == to).map(|(_, text)| text)
    }

    /// Says no before the database does: its no would spoil the caller's transaction.
    pub fn check(&self, key: &str) -> Result<(), StoreError> {
        if key.is_empty() {
            return Err(StoreError::new(
                StoreErrorKind::Invalid,
                "advance",
                format!("the key in {} is empty", self.table),
            ));
        }
        self.key.1.check("key", &self.key.0, key, "advance")
    }

    /// The error of a row that others change all the time.
    pub fn busy(&self, key: &str) -> StoreError {
        let message =
            format!("the state of {key:?} in {} changed {STEP_TRIES} times while it was looked at", self.table);
        StoreError::new(StoreErrorKind::Busy, "advance", message)
    }

    /// The table, for people.
    pub fn table(&self) -> String {
        self.table.to_string()
    }
}
