//! The values in force, one per line, with their origin; passwords never.

use postroom_core::SecretUrl;
use serde::Serialize;

use crate::keys::{Key, Kind};
use crate::tree::{Data, Entry, Node, Origin, Table};

/// One value in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its key, dotted; tables and entries of lists by name.
    pub key: String,
    /// Its value as TOML, passwords replaced by `***`.
    pub value: String,
    /// Where it came from.
    #[serde(serialize_with = "origin_text")]
    pub origin: Origin,
}

fn origin_text<S: serde::Serializer>(origin: &Origin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(origin)
}

/// Every value of a complete tree, in the order of the keys.
pub(crate) fn settings(keys: &'static [Key], tree: &Table) -> Vec<Setting> {
    let mut all = Vec::new();
    walk(keys, tree, "", &mut all);
    all
}

fn walk(keys: &'static [Key], table: &Table, path: &str, all: &mut Vec<Setting>) {
    for key in keys {
        let Some(node) = table.get(key.name) else { continue };
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        match (&key.kind, &node.data) {
            // What an entry takes from there is shown with the entry, with the place it came from.
            (Kind::Shared { .. }, _) => {}
            (Kind::Table(keys), Data::Table(table)) if !keys.is_empty() => walk(keys, table, &path, all),
            (Kind::Choice(keys) | Kind::Section(keys), Data::Table(table)) => walk(keys, table, &path, all),
            (Kind::Named(keys), Data::Table(table)) => {
                for entry in &table.0 {
                    if let Data::Table(table) = &entry.node.data {
                        walk(keys, table, &format!("{path}.{}", entry.name), all);
                    }
                }
            }
            (Kind::Listed(keys), Data::List(list)) => {
                for table in list.iter().filter_map(Node::table) {
                    walk(keys, table, &format!("{path}.{}", table.text("name").unwrap_or_default()), all);
                }
            }
            (Kind::Open(Kind::Password), Data::Table(table)) => {
                let hidden = |entry: &Entry| Setting {
                    key: format!("{path}.{}", entry.name),
                    value: quoted("***"),
                    origin: entry.node.place.origin.clone(),
                };
                all.extend(table.0.iter().map(hidden));
            }
            (Kind::Password | Kind::Either(Kind::Password, _), _) => {
                all.push(Setting { key: path, value: quoted("***"), origin: node.place.origin.clone() });
            }
            (Kind::Secret | Kind::Either(Kind::Secret, _), _) => {
                let shown = |node: &Node| quoted(&SecretUrl::new(node.text().unwrap_or_default()).to_string());
                let value = match node.list() {
                    Some(list) => format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(", ")),
                    None => shown(node),
                };
                all.push(Setting { key: path, value, origin: node.place.origin.clone() });
            }
            _ => all.push(Setting { key: path, value: toml(node), origin: node.place.origin.clone() }),
        }
    }
}

fn toml(node: &Node) -> String {
    match &node.data {
        Data::Text(text) => quoted(text),
        Data::Integer(n) => n.to_string(),
        Data::Float(n) => toml::Value::Float(*n).to_string(),
        Data::Boolean(yes) => yes.to_string(),
        Data::Time(text) => text.clone(),
        Data::List(list) => format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(", ")),
        // Never in a valid configuration.
        Data::Broken => String::new(),
        Data::Table(table) if table.0.is_empty() => "{}".to_owned(),
        Data::Table(table) => {
            let entry = |e: &Entry| format!("{} = {}", bare_or_quoted(&e.name), toml(&e.node));
            format!("{{ {} }}", table.0.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn bare_or_quoted(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if bare { name.to_owned() } else { quoted(name) }
}
