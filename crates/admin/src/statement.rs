//! A statement with its values, as text that PostgreSQL and SQLite both understand.

use jiff::Timestamp;

/// The SQL that a database speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// The condition that a column holds one of the values of a list, which is bound as `list`.
    pub(crate) fn among(self, column: &str, list: &str) -> String {
        match self {
            Self::Postgres => format!("{column} = any({list})"),
            Self::Sqlite => format!("{column} in (select value from json_each({list}))"),
        }
    }

    /// The condition that a column begins with the text bound as `prefix`.
    pub(crate) fn starts_with(self, column: &str, prefix: &str) -> String {
        match self {
            Self::Postgres => format!("starts_with({column}, {prefix})"),
            Self::Sqlite => format!("substr({column}, 1, length({prefix})) = {prefix}"),
        }
    }

    /// A text as a value of a JSON column.
    pub(crate) fn json(self, text: &str) -> String {
        match self {
            Self::Postgres => format!("{text}::jsonb"),
            Self::Sqlite => text.to_owned(),
        }
    }

    /// What keeps the selected rows until the transaction ends; SQLite has one writer at a time anyway.
    pub(crate) fn for_update(self) -> &'static str {
        match self {
            Self::Postgres => " for update",
            Self::Sqlite => "",
        }
    }

    /// The condition that a flag is set, as the partial indexes spell it.
    pub(crate) fn is_set(self, flag: &str) -> String {
        match self {
            Self::Postgres => flag.to_owned(),
            Self::Sqlite => format!("{flag} = 1"),
        }
    }
}

/// A value that is bound to a statement. Nulls have a type, because PostgreSQL asks for one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text.
    Text(Option<String>),
    /// A whole number.
    Int(Option<i64>),
    /// A number.
    Float(Option<f64>),
    /// True or false.
    Bool(bool),
    /// Microseconds since 1970, for a column that holds a time.
    Time(Option<i64>),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of whole numbers.
    Ints(Vec<i64>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<String>> for Value {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        Self::Time(Some(at.as_microsecond()))
    }
}

impl From<Option<Timestamp>> for Value {
    fn from(at: Option<Timestamp>) -> Self {
        Self::Time(at.map(Timestamp::as_microsecond))
    }
}

impl From<Vec<String>> for Value {
    fn from(list: Vec<String>) -> Self {
        Self::Texts(list)
    }
}

impl From<Vec<i64>> for Value {
    fn from(list: Vec<i64>) -> Self {
        Self::Ints(list)
    }
}

/// One statement. Its text names tables as `postroom.token`; the store puts its own names in their place.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The SQL, with `$1`, `$2`, … for the values.
    pub text: String,
    /// Whether the text names tables as the database does, so that it is left as it is.
    pub verbatim: bool,
    /// The values, in order.
    pub values: Vec<Value>,
}

impl Statement {
    /// A statement without values.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), verbatim: false, values: Vec::new() }
    }

    /// A statement whose text is left as it is.
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self { verbatim: true, ..Self::new(text) }
    }

    /// Binds the next value, which the text already names.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Adds to the text.
    pub fn push(&mut self, text: impl AsRef<str>) -> &mut Self {
        self.text.push_str(text.as_ref());
        self
    }

    /// Binds a value; returns its name for the text.
    pub fn value(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("${}", self.values.len())
    }

    /// Adds the name of a value to the text, and binds it.
    pub fn push_value(&mut self, value: impl Into<Value>) -> &mut Self {
        let name = self.value(value);
        self.push(name)
    }
}
