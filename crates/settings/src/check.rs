//! Compares a tree with the keys: what is unknown, what has the wrong kind, what lies outside its range.
//!
//! Looks at each value alone. What values mean together is the program's.

use postroom_core::units::{format_duration, parse_duration, parse_rate, parse_size};
use postroom_core::valid_name;

use crate::definition::Definition;
use crate::keys::{Custom, Key, Kind, Wrong, here};
use crate::problem::{Problems, suggest};
use crate::renamed;
use crate::tree::{Data, Entry, Node, Origin, Table};

/// Everything in the tree that the keys do not allow.
pub(crate) fn check(definition: &Definition, root: &Table, problems: &mut Problems) {
    Check { definition, problems }.table(definition.root, root, "");
}

struct Check<'a> {
    definition: &'a Definition,
    problems: &'a mut Problems,
}

impl Check<'_> {
    fn table(&mut self, keys: &'static [Key], table: &Table, path: &str) {
        for entry in &table.0 {
            match keys.iter().find(|key| key.name == entry.name) {
                Some(Key { kind: Kind::Absent { what, feature }, .. }) => {
                    let absent = self.definition.absent(what, feature);
                    self.problems.at(&entry.place, absent.message, absent.hint);
                }
                Some(key) => self.value(&key.kind, &entry.node, &join(path, key.name)),
                None => self.unknown(keys, entry, path),
            }
        }
    }

    fn unknown(&mut self, keys: &'static [Key], entry: &Entry, path: &str) {
        let name = &entry.name;
        let names: Vec<_> = here(keys).map(|k| k.name).collect();
        let within = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let hint = renamed::key(self.definition, name, &names).or_else(|| suggest(name, &names));
        self.problems.at(&entry.place, format!("unknown key `{name}`{within}"), hint);
    }

    fn value(&mut self, kind: &'static Kind, node: &Node, path: &str) {
        if matches!(node.data, Data::Broken) {
            return;
        }
        match kind {
            Kind::AnyText => {
                if node.text().is_none() {
                    self.wrong(node, path, "a text");
                }
            }
            Kind::Text | Kind::Path => drop(self.text(node, path, "a text")),
            Kind::Secret | Kind::Password => {
                // A preset names the variable; nobody has to set it.
                let of_preset = matches!(node.place.origin, Origin::Preset { .. });
                if !matches!(&node.data, Data::Text(text) if of_preset || !text.is_empty()) {
                    self.problems.at(&node.place, format!("`{path}` must be a text that is not empty"), None);
                }
            }
            Kind::Flag => {
                if node.flag().is_none() {
                    self.wrong(node, path, "true or false");
                }
            }
            Kind::Custom(custom) => {
                if let Some(text) = self.text(node, path, custom.what)
                    && let Err(Wrong { message, hint }) = (custom.check)(text)
                {
                    self.problems.at(&node.place, format!("`{path}`{message}"), hint);
                }
            }
            Kind::Duration(least) => {
                if let Some(duration) = self.unit(node, path, ("a duration", "30s"), parse_duration)
                    && duration < *least
                {
                    let (is, least) = (format_duration(duration), format_duration(*least));
                    self.problems.at(&node.place, format!("`{path}` is {is}, the least is {least}"), None);
                }
            }
            Kind::DurationOrNever => {
                if node.text() != Some("never") {
                    self.unit(node, path, ("a duration or \"never\"", "7d"), parse_duration);
                }
            }
            Kind::Size => {
                if self.unit(node, path, ("a size", "4MiB"), parse_size) == Some(0) {
                    self.problems.at(&node.place, format!("`{path}` must be at least one byte"), None);
                }
            }
            Kind::Rate => drop(self.unit(node, path, ("a rate", "50/s"), parse_rate)),
            Kind::Count => {
                if node.count().is_none() {
                    self.wrong(node, path, "a whole number from 1");
                }
            }
            Kind::CountOrNever => {
                if node.text() != Some("never") && node.count().is_none() {
                    self.wrong(node, path, "a whole number from 1 or \"never\"");
                }
            }
            Kind::Between(least, most) => {
                if !node.count().is_some_and(|n| (*least..=*most).contains(&n)) {
                    self.wrong(node, path, &format!("a whole number from {least} to {most}"));
                }
            }
            Kind::Share => {
                if node.share().is_none() {
                    self.wrong(node, path, "a number from 0 to 1");
                }
            }
            Kind::Word(words) => {
                if let Some(text) = self.text(node, path, "a text")
                    && !words.contains(&text)
                {
                    let hint = format!("choose {}", words.join(", "));
                    self.problems.at(&node.place, format!("`{path}` cannot be {text:?}"), Some(hint));
                }
            }
            Kind::Either(one, other) => {
                let structured = matches!(node.data, Data::List(_) | Data::Table(_));
                self.value(if structured { other } else { one }, node, path);
            }
            Kind::List(_)
            | Kind::Listing(_)
            | Kind::Table(_)
            | Kind::Section(_)
            | Kind::Shared { .. }
            | Kind::Choice(_)
            | Kind::Named(_)
            | Kind::Listed(_)
            | Kind::Open(_)
            | Kind::Absent { .. } => {
                self.structure(kind, node, path);
            }
        }
    }

    fn structure(&mut self, kind: &'static Kind, node: &Node, path: &str) {
        match (kind, &node.data) {
            (Kind::List(kind), Data::List(list)) if list.is_empty() => {
                self.problems.at(&node.place, format!("`{path}` is an empty list"), Some(emptiness(kind)));
            }
            (Kind::List(kind) | Kind::Listing(kind), Data::List(list)) => {
                for entry in list {
                    self.value(kind, entry, path);
                }
            }
            (Kind::List(_) | Kind::Listing(_), Data::Text(_) | Data::Integer(_)) => {
                let one = node.data.describe();
                let message = format!("`{path}` must be a list, not {one}");
                self.problems.at(&node.place, message, Some(format!("write [{one}]")));
            }
            (Kind::List(_) | Kind::Listing(_), _) => self.wrong(node, path, "a list"),
            (Kind::Table(keys) | Kind::Section(keys) | Kind::Shared { keys, .. }, Data::Table(table)) => {
                self.table(keys, table, path);
            }
            (Kind::Choice(keys), Data::Table(table)) => {
                self.table(keys, table, path);
                self.choice(keys, node, table, path);
            }
            (Kind::Open(kind), Data::Table(table)) => {
                for entry in &table.0 {
                    self.value(kind, &entry.node, &join(path, &entry.name));
                }
            }
            (Kind::Named(keys), Data::Table(table)) => {
                for entry in &table.0 {
                    self.name(&entry.name, &entry.place, path);
                    let path = join(path, &entry.name);
                    match &entry.node.data {
                        Data::Table(table) => self.table(keys, table, &path),
                        _ => self.wrong(&entry.node, &path, "a table"),
                    }
                }
            }
            (Kind::Named(_), _) => self.wrong(node, path, &format!("written as [{path}.NAME]")),
            (Kind::Listed(keys), Data::List(list)) => {
                for entry in list {
                    self.entry(keys, entry, path);
                }
            }
            (Kind::Listed(_), _) => self.wrong(node, path, &format!("written as [[{path}]]")),
            _ => self.wrong(node, path, "a table"),
        }
    }

    fn entry(&mut self, keys: &'static [Key], node: &Node, path: &str) {
        let Data::Table(table) = &node.data else {
            return self.wrong(node, path, &format!("written as [[{path}]]"));
        };
        match table.get("name") {
            None => self.problems.at(&node.place, format!("this {path} has no `name`"), None),
            Some(name) => {
                if let Some(text) = name.text() {
                    self.name(text, &name.place, path);
                }
            }
        }
        self.table(keys, table, &join(path, table.text("name").unwrap_or("?")));
    }

    fn choice(&mut self, keys: &'static [Key], node: &Node, table: &Table, path: &str) {
        let names: Vec<_> = here(keys).map(|k| k.name).collect();
        let hint = Some(format!("give exactly one of {}", names.join(", ")));
        match table.0.as_slice() {
            [] => self.problems.at(&node.place, format!("`{path}` is empty"), hint),
            [_] => {}
            several => {
                let given: Vec<_> = several.iter().map(|e| e.name.as_str()).collect();
                self.problems.at(&node.place, format!("`{path}` has more than one: {}", given.join(", ")), hint);
            }
        }
    }

    fn name(&mut self, name: &str, place: &crate::tree::Place, path: &str) {
        if !valid_name(name) {
            let hint = "use lower-case letters, digits, `-`, `_` and `.`, at most 63, starting with a letter or digit"
                .to_owned();
            self.problems.at(place, format!("{name:?} cannot be the name of a {path}"), Some(hint));
        }
    }

    fn text<'n>(&mut self, node: &'n Node, path: &str, what: &str) -> Option<&'n str> {
        match node.text() {
            Some("") => self.problems.at(&node.place, format!("`{path}` is empty"), None),
            Some(text) => return Some(text),
            None => self.wrong(node, path, what),
        }
        None
    }

    fn unit<T>(
        &mut self,
        node: &Node,
        path: &str,
        (what, example): (&str, &str),
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match &node.data {
            Data::Text(text) => match parse(text) {
                Ok(value) => return Some(value),
                Err(error) => {
                    let hint = what.contains("never").then(|| "\"never\" keeps it for ever".to_owned());
                    self.problems.at(&node.place, format!("`{path}`: {error}"), hint);
                }
            },
            Data::Integer(_) | Data::Float(_) => {
                let message = format!("`{path}` = {} has no unit", node.data.describe());
                self.problems.at(&node.place, message, Some(format!("write {what} such as {example:?}")));
            }
            _ => self.wrong(node, path, what),
        }
        None
    }

    fn wrong(&mut self, node: &Node, path: &str, what: &str) {
        self.problems.at(&node.place, format!("`{path}` must be {what}, not {}", node.data.describe()), None);
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn emptiness(kind: &Kind) -> String {
    match kind {
        Kind::Custom(Custom { empty: Some(hint), .. }) => (*hint).to_owned(),
        _ => "give at least one entry, or leave it out".to_owned(),
    }
}
