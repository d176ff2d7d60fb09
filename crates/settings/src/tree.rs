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
pub struct Place {
    /// Whose text it is in.
    pub origin: Origin,
    /// The first column.
    pub column: usize,
    /// How many columns it has.
    pub width: usize,
}

impl Place {
    /// A place without columns.
    pub fn of(origin: Origin) -> Self {
        Self { origin, column: 0, width: 0 }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub enum Data {
    /// A text, filled in.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Boolean(bool),
    /// A TOML date or time, as written.
    Time(String),
    /// A list.
    List(Vec<Node>),
    /// A table.
    Table(Table),
    /// Something that has been reported already.
    Broken,
}

impl Data {
    /// What it is, for people.
    pub fn describe(&self) -> String {
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
pub struct Node {
    /// The value.
    pub data: Data,
    /// Where it stands.
    pub place: Place,
}

impl Node {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) | Data::Time(text) => Some(text),
            _ => None,
        }
    }

    /// The entries, if it is a list.
    pub fn list(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&Table> {
        match &self.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }

    /// A whole number from 1; as text too, because `${VAR}` makes text.
    pub fn count(&self) -> Option<u32> {
        let number = match &self.data {
            Data::Integer(n) => u32::try_from(*n).ok(),
            Data::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        number.filter(|n| *n >= 1)
    }

    /// A number from 0 to 1; as text too, because `${VAR}` makes text.
    pub fn share(&self) -> Option<f64> {
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
    pub fn flag(&self) -> Option<bool> {
        match &self.data {
            Data::Boolean(yes) => Some(*yes),
            Data::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Whether nobody set it.
    pub fn is_default(&self) -> bool {
        self.place.origin == Origin::Default
    }
}

/// One key of a table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub node: Node,
}

/// Keys in the order written.
#[derive(Debug, Clone, Default)]
pub struct Table(pub Vec<Entry>);

impl Table {
    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|e| e.name == name).map(|e| &e.node)
    }

    /// The table at a key.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.get(name)?.table()
    }

    /// The text at a key.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.text()
    }

    /// The texts of the list at a key; none when there is no list.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let list = self.get(name).and_then(Node::list).unwrap_or_default();
        list.iter().filter_map(|node| node.text().map(str::to_owned)).collect()
    }

    /// The duration at a key; zero when there is none.
    pub fn duration(&self, name: &str) -> Duration {
        self.text(name).and_then(|text| parse_duration(text).ok()).unwrap_or_default()
    }

    /// The duration at a key; `None` is "never".
    pub fn duration_or_never(&self, name: &str) -> Option<Duration> {
        self.text(name).filter(|text| *text != "never").and_then(|text| parse_duration(text).ok())
    }

    /// The yes or no at a key; no when there is none.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Node::flag).unwrap_or_default()
    }

    /// The number at a key; 1 when there is none.
    pub fn count(&self, name: &str) -> usize {
        self.get(name).and_then(Node::count).unwrap_or(1) as usize
    }

    /// The size at a key, in bytes; zero when there is none.
    pub fn size(&self, name: &str) -> usize {
        let bytes = self.text(name).and_then(|text| parse_size(text).ok()).unwrap_or_default();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// The value of a key, for changing it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|e| e.name == name).map(|e| &mut e.node)
    }

    /// Sets a key, replacing what was there.
    pub fn set(&mut self, name: &str, node: Node) {
        self.remove(name);
        self.0.push(Entry { name: name.to_owned(), place: node.place.clone(), node });
    }

    /// Removes a key.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|e| e.name != name);
    }

    /// The table at a key; made if it is not there. `None` when something else is there.
    pub fn table_or_new(&mut self, name: &str, place: &Place) -> Option<&mut Table> {
        if self.get(name).is_none() {
            self.set(name, Node { data: Data::Table(Table::default()), place: place.clone() });
        }
        match &mut self.get_mut(name)?.data {
            Data::Table(table) => Some(table),
            _ => None,
        }
    }
}
