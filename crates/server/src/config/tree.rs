//! A configuration before it has a meaning: values as written, each knowing where it stands.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use postroom_core::SecretUrl;
use postroom_core::units::{parse_duration, parse_size};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file.
    File {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A preset.
    Preset {
        /// Its name.
        name: &'static str,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Preset { name, line } => write!(f, "preset {name}:{line}"),
            Self::Environment { variable } => write!(f, "env {variable}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Where something stands; columns count characters from 1 and mean something only in a file.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) origin: Origin,
    pub(crate) column: usize,
    pub(crate) width: usize,
}

impl Place {
    /// A place without columns.
    pub(crate) fn of(origin: Origin) -> Self {
        Self { origin, column: 0, width: 0 }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// A TOML date or time, as written.
    Time(String),
    List(Vec<Node>),
    Table(Table),
    /// Something that has been reported already.
    Broken,
}

impl Data {
    /// What it is, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            // A URL in the wrong place is still a URL.
            Self::Text(text) if text.contains("://") => format!("\"{}\"", SecretUrl::new(text)),
            Self::Text(text) => format!("{text:?}"),
            Self::Integer(n) => n.to_string(),
            Self::Float(n) => n.to_string(),
            Self::Boolean(yes) => yes.to_string(),
            Self::Time(text) => text.clone(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Broken => "this".to_owned(),
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) place: Place,
}

impl Node {
    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) | Data::Time(text) => Some(text),
            _ => None,
        }
    }

    /// The entries, if it is a list.
    pub(crate) fn list(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    /// The table, if it is one.
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    /// A whole number from 1; as text too, because `${VAR}` makes text.
    pub(crate) fn count(&self) -> Option<u32> {
        let number = match &self.data {
            Data::Integer(n) => u32::try_from(*n).ok(),
            Data::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.filter(|n| *n >= 1)
    }

    /// A number from 0 to 1; as text too, because `${VAR}` makes text.
    pub(crate) fn share(&self) -> Option<f64> {
        let number = match &self.data {
            Data::Integer(0) => 0.0,
            Data::Integer(1) => 1.0,
            Data::Float(n) => *n,
            Data::Text(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        (0.0..=1.0).contains(&number).then_some(number)
    }

    /// Yes or no; as text too, because `${VAR}` and variables make text.
    pub(crate) fn flag(&self) -> Option<bool> {
        match &self.data {
            Data::Boolean(yes) => Some(*yes),
            Data::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Whether nobody set it.
    pub(crate) fn is_default(&self) -> bool {
        self.place.origin == Origin::Default
    }
}

/// One key of a table.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

/// Keys in the order written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(pub(crate) Vec<Entry>);

impl Table {
    /// The value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|e| e.name == name).map(|e| &e.node)
    }

    /// The table at a key.
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.get(name)?.table()
    }

    /// The text at a key.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }

    /// The duration at a key; zero when there is none.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        self.text(name).and_then(|text| parse_duration(text).ok()).unwrap_or_default()
    }

    /// The duration at a key; `None` is "never".
    pub(crate) fn duration_or_never(&self, name: &str) -> Option<Duration> {
        self.text(name).filter(|text| *text != "never").and_then(|text| parse_duration(text).ok())
    }

    /// The yes or no at a key; no when there is none.
    #[cfg(any(feature = "adopted", feature = "kafka", feature = "rabbitmq", feature = "webhook"))]
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Node::flag).unwrap_or_default()
    }

    /// The number at a key; 1 when there is none.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.get(name).and_then(Node::count).unwrap_or(1) as usize
    }

    /// The size at a key, in bytes; zero when there is none.
    pub(crate) fn size(&self, name: &str) -> usize {
        let bytes = self.text(name).and_then(|text| parse_size(text).ok()).unwrap_or_default();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The value of a key, for changing it.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|e| e.name == name).map(|e| &mut e.node)
    }

    /// Sets a key, replacing what was there.
    pub(crate) fn set(&mut self, name: &str, node: Node) {
        self.remove(name);
        self.0.push(Entry { name: name.to_owned(), place: node.place.clone(), node });
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|e| e.name != name);
    }

    /// The table at a key; made if it is not there. `None` when something else is there.
    pub(crate) fn table_or_new(&mut self, name: &str, place: &Place) -> Option<&mut Table> {
        if self.get(name).is_none() {
            self.set(name, Node { data: Data::Table(Table::default()), place: place.clone() });
        }
        match &mut self.get_mut(name)?.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }
}
