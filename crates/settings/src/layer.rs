//! Lays environment and command line over the file, and the defaults under it.
//!
//! Which key a variable or flag names is [`crate::path`]'s.

use std::collections::BTreeMap;

use crate::definition::Definition;
use crate::keys::{Key, Kind, here};
use crate::parse::default_value;
use crate::path::{self, paths, resolve, variables};
use crate::problem::{Problem, Problems, nearest};
use crate::renamed;
use crate::tree::{Data, Node, Origin, Place, Table};

/// Lays variables over the tree.
pub(crate) fn environment(
    definition: &Definition,
    tree: &mut Table,
    env: &BTreeMap<String, String>,
    problems: &mut Problems,
) {
    let Definition { root, prefix, list_command, .. } = definition;
    for (variable, text) in env {
        let Some(path) = variable.strip_prefix(prefix) else { continue };
        if definition.other_variables.contains(&variable.as_str()) {
            continue;
        }
        let place = Place::of(Origin::Environment { variable: variable.clone() });
        match resolve(root, tree, path, "__") {
            Some((_, Kind::Absent { what, feature })) => {
                let absent = definition.absent(what, feature);
                problems.at(&place, absent.message, absent.hint);
            }
            Some((path, kind)) => set(root, tree, (&path, kind), text, &place, problems),
            None => {
                let known = variables(definition, tree);
                let problem = Problem::new(format!("environment variable `{variable}` sets nothing"));
                let near = renamed::path(definition, tree, path, "__").map(|path| path::variable(definition, &path));
                let near = near.or_else(|| nearest(variable, known.iter().map(String::as_str)).map(str::to_owned));
                problems.push(match near {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => {
                        problem.hint(format!("variables are {prefix}SECTION__KEY; `{list_command}` lists the keys"))
                    }
                });
            }
        }
    }
}

/// Lays dotted keys of the command line over the tree.
pub(crate) fn flags(definition: &Definition, tree: &mut Table, flags: &[(String, String)], problems: &mut Problems) {
    for (key, text) in flags {
        match resolve(definition.root, tree, key, ".") {
            Some((_, Kind::Absent { what, feature })) => {
                let absent = definition.absent(what, feature);
                problems.at(&Place::of(Origin::Flag), absent.message, absent.hint);
            }
            Some((path, kind)) => set(definition.root, tree, (&path, kind), text, &Place::of(Origin::Flag), problems),
            None => {
                let known: Vec<String> = paths(definition.root, tree).iter().map(|path| path.join(".")).collect();
                let problem = Problem::new(format!("on the command line: unknown key `{key}`"));
                let near = renamed::path(definition, tree, key, ".").map(|path| path.join("."));
                let near = near.or_else(|| nearest(key, known.iter().map(String::as_str)).map(str::to_owned));
                problems.push(match near {
                    Some(near) => problem.hint(format!("did you mean `{near}`?")),
                    None => problem.hint(format!("`{}` lists the keys", definition.list_command)),
                });
            }
        }
    }
}

/// Gives the entries of a list what they leave out and the shared tables have.
pub(crate) fn shared(tree: &mut Table, shared: &str, list: &str, choice: &str) {
    let Some(common) = tree.table(shared).cloned() else { return };
    let Some(Data::List(entries)) = tree.get_mut(list).map(|n| &mut n.data) else { return };
    for entry in entries {
        let Data::Table(entry) = &mut entry.data else { continue };
        let Some(Data::Table(chosen)) = entry.get_mut(choice).map(|n| &mut n.data) else { continue };
        for common in &common.0 {
            let Some(Data::Table(target)) = chosen.get_mut(&common.name).map(|n| &mut n.data) else { continue };
            for common in common.node.table().map(|table| table.0.as_slice()).unwrap_or_default() {
                if target.get(&common.name).is_none() && target.get(&twin(&common.name)).is_none() {
                    target.set(&common.name, common.node.clone());
                }
            }
        }
    }
}

/// Puts the default of every key that nobody set under a table.
pub(crate) fn fill(keys: &'static [Key], table: &mut Table) {
    for key in here(keys) {
        match (&key.kind, table.get_mut(key.name).map(|n| &mut n.data)) {
            (Kind::Table(keys) | Kind::Section(keys), Some(Data::Table(inner))) => fill(keys, inner),
            (Kind::Table(keys), None) => {
                let mut inner = Table::default();
                fill(keys, &mut inner);
                if !inner.0.is_empty() {
                    table.set(key.name, Node { data: Data::Table(inner), place: Place::of(Origin::Default) });
                }
            }
            (Kind::Choice(keys), Some(Data::Table(inner))) => {
                for key in *keys {
                    if let (Kind::Table(keys), Some(Data::Table(chosen))) =
                        (&key.kind, inner.get_mut(key.name).map(|n| &mut n.data))
                    {
                        fill(keys, chosen);
                    }
                }
            }
            (Kind::Named(keys), Some(Data::Table(inner))) => {
                for entry in &mut inner.0 {
                    if let Data::Table(table) = &mut entry.node.data {
                        fill(keys, table);
                    }
                }
            }
            (Kind::Listed(keys), Some(Data::List(list))) => {
                for node in list {
                    if let Data::Table(table) = &mut node.data {
                        fill(keys, table);
                    }
                }
            }
            (_, None) => {
                if let Some(node) = default_value(key.default) {
                    table.set(key.name, node);
                }
            }
            _ => {}
        }
    }
}

fn set(
    root: &'static [Key],
    tree: &mut Table,
    (path, kind): (&[String], &'static Kind),
    text: &str,
    place: &Place,
    problems: &mut Problems,
) {
    let data = match kind {
        Kind::List(_) | Kind::Listing(_) => json_list(text, place),
        Kind::Either(_, Kind::List(_)) if text.trim_start().starts_with('[') => json_list(text, place),
        Kind::Table(_)
        | Kind::Section(_)
        | Kind::Shared { .. }
        | Kind::Choice(_)
        | Kind::Named(_)
        | Kind::Listed(_)
        | Kind::Open(_)
        | Kind::Absent { .. } => {
            let message = format!("`{}` is a table", path.join("."));
            return problems.at(place, message, Some("set its keys one by one".to_owned()));
        }
        Kind::Count | Kind::Between(..) => {
            Some(text.trim().parse().map_or_else(|_| Data::Text(text.to_owned()), Data::Integer))
        }
        Kind::Share => Some(text.trim().parse().map_or_else(|_| Data::Text(text.to_owned()), Data::Float)),
        _ => Some(Data::Text(text.to_owned())),
    };
    let Some(data) = data else {
        let hint = "write JSON, for instance [\"a\", \"b\"]".to_owned();
        return problems.at(place, format!("`{}` must be a list", path.join(".")), Some(hint));
    };
    let Some((last, parents)) = path.split_last() else { return };
    // `None`: something else than a table is there; the check says so.
    let Some(table) = parent(root, tree, parents, place) else { return };
    // A secret given here replaces one given in a file below, however that one was given.
    let twin = twin(last);
    if table.get(&twin).is_some_and(|node| layer(&node.place.origin) < layer(&place.origin)) {
        table.remove(&twin);
    }
    table.set(last, Node { data, place: place.clone() });
}

/// What gives the same by a file, or the other way round.
pub(crate) fn twin(name: &str) -> String {
    name.strip_suffix("_file").map_or_else(|| format!("{name}_file"), str::to_owned)
}

fn parent<'t>(root: &'static [Key], tree: &'t mut Table, parents: &[String], place: &Place) -> Option<&'t mut Table> {
    let Some((first, rest)) = parents.split_first() else { return Some(tree) };
    let listed = root.iter().any(|key| key.name == *first && matches!(key.kind, Kind::Listed(_)));
    let (mut table, rest) = match (listed, rest) {
        (true, [name, rest @ ..]) => (entry(tree, first, name, place)?, rest),
        _ => (tree.table_or_new(first, place)?, rest),
    };
    for name in rest {
        table = table.table_or_new(name, place)?;
    }
    Some(table)
}

/// The entry of this name in a list; made if it is not there.
fn entry<'t>(tree: &'t mut Table, list: &str, name: &str, place: &Place) -> Option<&'t mut Table> {
    if tree.get(list).is_none() {
        tree.set(list, Node { data: Data::List(Vec::new()), place: place.clone() });
    }
    let Data::List(list) = &mut tree.get_mut(list)?.data else { return None };
    let position = list.iter().position(|n| n.table().and_then(|t| t.text("name")) == Some(name));
    let position = position.unwrap_or_else(|| {
        let mut table = Table::default();
        table.set("name", Node { data: Data::Text(name.to_owned()), place: place.clone() });
        list.push(Node { data: Data::Table(table), place: place.clone() });
        list.len() - 1
    });
    match &mut list.get_mut(position)?.data {
        Data::Table(table) => Some(table),
        _ => None,
    }
}

fn layer(origin: &Origin) -> u8 {
    match origin {
        Origin::Default => 0,
        Origin::Preset { .. } => 1,
        Origin::File { .. } => 2,
        Origin::Environment { .. } => 3,
        Origin::Flag => 4,
    }
}

fn json_list(text: &str, place: &Place) -> Option<Data> {
    let list: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
    let node = |value: serde_json::Value| {
        let data = match value {
            serde_json::Value::String(text) => Data::Text(text),
            other => Data::Text(other.to_string()),
        };
        Node { data, place: place.clone() }
    };
    Some(Data::List(list.into_iter().map(node).collect()))
}
