//! Looks for columns by their names and types, and keeps what was found.

use postroom_adopted::mapping::{ColumnPath, Name};
use postroom_adopted::survey::{Fact, Facts};

use super::names::{self, Names};
use super::{Confidence, Guess, Guessed, Missing, Value};

/// The keys in the order in which a mapping has them.
const KEYS: [&str; 28] = [
    "table",
    "row",
    "order",
    "ordered",
    "attempts",
    "next_attempt",
    "error",
    "done_at",
    "event.id",
    "event.type",
    "event.payload",
    "event.payload_without",
    "event.key",
    "event.aggregate_type",
    "event.aggregate_id",
    "event.tenant",
    "event.occurred_at",
    "event.correlation_id",
    "event.causation_id",
    "event.schema_version",
    "event.headers",
    "state.stamp",
    "state.flag",
    "state.word",
    "state.pending",
    "state.done",
    "state.dead",
    "state.ignored",
];

/// What is being guessed.
pub(super) struct Finder<'f> {
    pub(super) facts: &'f Facts,
    /// Columns that have a meaning already.
    used: Vec<Name>,
    guess: Guess,
}

/// A column that fits.
pub(super) struct Picked<'f> {
    pub(super) column: &'f Fact,
    pub(super) sure: bool,
    /// Others that fit as well.
    pub(super) others: Vec<String>,
}

impl<'f> Finder<'f> {
    pub(super) fn new(facts: &'f Facts) -> Self {
        Self { facts, used: Vec::new(), guess: Guess::default() }
    }

    /// The columns that have no meaning yet.
    pub(super) fn free(&self) -> impl Iterator<Item = &'f Fact> + use<'f, '_> {
        self.facts.columns.iter().filter(|column| !self.used.contains(&column.name))
    }

    /// The free column that fits best.
    pub(super) fn pick(&self, names: Names, fits: impl Fn(&Fact) -> bool) -> Option<Picked<'f>> {
        let fitting = |list: &'static [&'static str]| {
            let fits = &fits;
            list.iter().flat_map(move |name| {
                self.free().filter(move |column| names::bare(column.name.as_str()) == *name && fits(column))
            })
        };
        let strong: Vec<&Fact> = fitting(names.sure).collect();
        let weak: Vec<&Fact> = fitting(names.maybe).collect();
        let mut all = strong.iter().chain(&weak);
        let column = *all.next()?;
        let others = if strong.len() == 1 { Vec::new() } else { all.map(|other| other.name.to_string()).collect() };
        Some(Picked { column, sure: strong.len() == 1, others })
    }

    /// Remembers that a column has a meaning.
    pub(super) fn uses(&mut self, name: &Name) {
        self.used.push(name.clone());
    }

    /// A key that says what a picked column is.
    pub(super) fn column(&mut self, key: &str, picked: &Picked<'_>) {
        let path = ColumnPath::column(picked.column.name.clone());
        self.uses(&picked.column.name);
        let why = if picked.sure { "by its name" } else { "its name may mean it" };
        self.add(key, Value::Text(path.to_string()), picked.sure, why, picked.others.clone());
    }

    /// A key that is a key inside a JSON column.
    pub(super) fn inside(&mut self, key: &str, column: &Name, member: &str, sure: bool) {
        let path = ColumnPath { column: column.clone(), path: vec![member.to_owned()] };
        self.add(key, Value::Text(path.to_string()), sure, "a key of the sampled objects", Vec::new());
    }

    /// A key that is certain.
    pub(super) fn text(&mut self, key: &str, value: String, why: &str) {
        self.add(key, Value::Text(value), true, why, Vec::new());
    }

    pub(super) fn add(&mut self, key: &str, value: Value, sure: bool, why: impl Into<String>, others: Vec<String>) {
        let confidence = if sure { Confidence::Sure } else { Confidence::Unsure };
        self.guess.keys.push(Guessed { key: key.to_owned(), value, confidence, why: why.into(), others });
    }

    pub(super) fn missing(&mut self, key: &str, what: &str, looked_for: impl Into<String>) {
        let (key, what, looked_for) = (key.to_owned(), what.to_owned(), looked_for.into());
        self.guess.missing.push(Missing { key, what, looked_for, tell: None });
    }

    /// Something that is missing, and how to say what it is.
    pub(super) fn missing_told(&mut self, key: &str, what: &str, looked_for: String, tell: String) {
        self.missing(key, what, looked_for);
        if let Some(missing) = self.guess.missing.last_mut() {
            missing.tell = Some(tell);
        }
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.guess.warnings.push(warning.into());
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.guess.get(key).is_some()
    }

    /// The column that a key names, if it is one as a whole.
    pub(super) fn found(&self, key: &str) -> Option<&'f Fact> {
        let Some(Value::Text(text)) = self.guess.get(key) else { return None };
        self.facts.column(ColumnPath::parse(text).ok()?.as_column()?)
    }

    /// Whether rows are read in the order of this column before all others.
    pub(super) fn order_begins_with(&self, name: &Name) -> bool {
        matches!(self.guess.get("order"), Some(Value::List(order)) if order.first() == Some(&name.to_string()))
    }

    pub(super) fn finish(self) -> Guess {
        let unused = self.free().map(|column| column.name.clone()).collect();
        let mut guess = Guess { unused, ..self.guess };
        // As people read a mapping, not as it was found out.
        guess.keys.sort_by_key(|guessed| KEYS.iter().position(|key| *key == guessed.key));
        guess
    }
}

impl Names {
    /// What was looked for, for people.
    pub(super) fn listed(self, kind: &str) -> String {
        let names: Vec<&str> = self.sure.iter().chain(self.maybe).copied().collect();
        format!("{kind} called {}, however it is spelt", names.join(", "))
    }
}
