//! Guesses the mapping of a table nobody here has seen. Data in, data out: what is read of the table is the work of [`postroom_adopted::survey`] and [`crate::sample`].
//!
//! A guess is a list of keys of `[store.NAME.mapping]`, each with how sure it is and why. What is found nowhere and cannot be
//! left out is named, with what was looked for.

mod event;
mod finder;
pub(crate) mod names;
mod state;
#[cfg(test)]
mod tests;
mod words;

use postroom_adopted::mapping::Name;
use postroom_adopted::survey::Facts;
use serde::Serialize;

use self::finder::Finder;
pub(crate) use self::state::{GivenState, StateColumn};

/// What a table's mapping may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Guess {
    /// The keys that are set.
    pub keys: Vec<Guessed>,
    /// What is needed and was not found.
    pub missing: Vec<Missing>,
    /// Columns that nothing is made of.
    pub unused: Vec<Name>,
    /// What people must know before they let a relay run on it.
    pub warnings: Vec<String>,
}

/// One key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guessed {
    /// The key, dotted, for instance `event.id`.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is so.
    pub why: String,
    /// What else it could be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// A value of a mapping's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A name, a column or a word.
    Text(String),
    /// Several of them.
    List(Vec<String>),
    /// Yes or no.
    Flag(bool),
}

/// How sure a guess is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It says so, or nothing else fits.
    Sure,
    /// Somebody should look at it.
    Unsure,
}

/// What is needed and was not found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The key.
    pub key: String,
    /// What it is, for people.
    pub what: String,
    /// What was looked for.
    pub looked_for: String,
    /// How to say what it is, where naming a column is not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tell: Option<String>,
}

/// The keys that say how a row tells its state: one of them at most.
const STATES: [&str; 3] = ["state.word", "state.stamp", "state.flag"];
/// Those that have a meaning only beside `state.word`.
const WORDS: [&str; 4] = ["state.pending", "state.done", "state.dead", "state.ignored"];

/// Guesses the mapping of a table, by what somebody said of its state.
pub(crate) fn guess(facts: &Facts, told: &GivenState) -> Guess {
    let mut finder = Finder::new(facts);
    finder.text("table", facts.table.to_string(), "given by you");
    event::row(&mut finder);
    event::payload(&mut finder);
    state::state(&mut finder, told);
    event::rest(&mut finder);
    event::order(&mut finder);
    finder.finish()
}

impl Guess {
    /// Sets a key as somebody said; what contradicts it goes.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        let other_state = |other: &str| {
            STATES.contains(&key) && (STATES.contains(&other) || (key != "state.word" && WORDS.contains(&other)))
        };
        self.missing.retain(|missing| missing.key != key && !(missing.key == "state" && STATES.contains(&key)));
        let path = self.keys.iter().position(|guessed| guessed.key == key);
        let said = Guessed {
            key: key.to_owned(),
            value,
            confidence: Confidence::Sure,
            why: "given by you".to_owned(),
            others: Vec::new(),
        };
        match path.and_then(|path| self.keys.get_mut(path)) {
            Some(guessed) => *guessed = said,
            None => self.keys.push(said),
        }
        self.keys.retain(|guessed| guessed.key == key || !other_state(&guessed.key));
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.iter().find(|guessed| guessed.key == key).map(|guessed| &guessed.value)
    }
}
