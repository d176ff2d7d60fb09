//! Lays environment and command line over the file, and the defaults under it.
//!
//! Which key a variable or flag names is [`super::path`]'s.

use std::collections::BTreeMap;

use super::absent;
use super::keys::{Key, Kind, ROOT};
use super::parse::default_value;
use super::path::{PREFIX, paths, resolve, variables};
use super::problem::{Problem, Problems, nearest};
use super::transports::WITHOUT_HEADERS;
use super::tree::{Data, Node, Origin, Place, Table};

/// Variables that start like ours and are not keys.
const OTHER_VARIABLES: &[&str] = &["POSTROOM_CONFIG", "POSTROOM_PRESET"];

/// Lays `POSTROOM_SECTION__KEY` variables over the tree.
pub(crate) fn environment(tree: &mut Table, env: &BTreeMap<String, String>, problems: &mut Problems) {
    for (variable, text) in env {
        let Some(path) = variable.strip_prefix(PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let place = Place::of(Origin::Environment { variable: variable.clone() });
        if let Some((path, kind)) = resolve(tree, path, "__") {
            set(tree, &path, kind, text, &place, problems);
            continue;
        }
        if let Some(absent) = absent::variable(path, "__") {
            problems.at(&place, absent.message, absent.hint);
            continue;
        }
        let known = variables(tree);
        let problem = Problem::new(format!("environment variable `{variable}` sets nothing"));
        problems.push(match nearest(variable, known.iter().map(String::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint("variables are POSTROOM_SECTION__KEY; `postroom config init` lists the keys"),
        });
    }
    database_url(tree, env);
    #[cfg(feature = "otlp")]
    super::telemetry::environment(tree, env);
}

/// Lays dotted keys of the command line over the tree.
pub(crate) fn flags(tree: &mut Table, flags: &[(String, String)], problems: &mut Problems) {
    for (key, text) in flags {
        if let Some((path, kind)) = resolve(tree, key, ".") {
            set(tree, &path, kind, text, &Place::of(Origin::Flag), problems);
            continue;
        }
        let known: Vec<String> = paths(tree).iter().map(|path| path.join(".")).collect();
        let problem = Problem::new(format!("on the command line: unknown key `{key}`"));
        problems.push(match nearest(key, known.iter().map(String::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint("`postroom config init` lists the keys"),
        });
    }
}

/// Gives every route what it leaves out and `[transport.X]` has.
pub(crate) fn shared(tree: &mut Table) {
    let Some(common) = tree.table("transport").cloned() else { return };
    let Some(Data::List(routes)) = tree.get_mut("route").map(|n| &mut n.data) else { return };
    for route in routes {
        let Data::Table(route) = &mut route.data else { continue };
        let Some(Data::Table(to)) = route.get_mut("to").map(|n| &mut n.data) else { continue };
        for entry in &common.0 {
            let Some(Data::Table(target)) = to.get_mut(&entry.name).map(|n| &mut n.data) else { continue };
            for common in entry.node.table().map(|table| table.0.as_slice()).unwrap_or_default() {
                if target.get(&common.name).is_none() && target.get(&twin(&common.name)).is_none() {
                    target.set(&common.name, common.node.clone());
                }
            }
        }
    }
}

/// Puts the default of every key that nobody set under the tree.
pub(crate) fn defaults(tree: &mut Table) {
    fill(ROOT, tree);
    let place = Place::of(Origin::Default);
    let text = |text: String| Node { data: Data::Text(text), place: place.clone() };
    let mut stores = Vec::new();
    if let Some(Data::Table(table)) = tree.get_mut("store").map(|n| &mut n.data) {
        for entry in &mut table.0 {
            stores.push(entry.name.clone());
            let Data::Table(store) = &mut entry.node.data else { continue };
            if store.get("source").is_none() {
                store.set("source", text(format!("/postroom/{}", entry.name)));
            }
            let sqlite = store.text("url").is_some_and(|url| url.starts_with("sqlite"));
            for (key, value) in [("schema", "postroom"), ("pooler", "auto")] {
                if !sqlite && store.get(key).is_none() {
                    store.set(key, text(value.to_owned()));
                }
            }
        }
    }
    let Some(Data::List(routes)) = tree.get_mut("route").map(|n| &mut n.data) else { return };
    for route in routes {
        let Data::Table(route) = &mut route.data else { continue };
        if let ([only], None) = (stores.as_slice(), route.get("store")) {
            route.set("store", text(only.clone()));
        }
        if route.get("envelope").is_none() {
            let to = route.table("to").and_then(|to| to.0.first()).map_or("", |entry| entry.name.as_str());
            let format = if WITHOUT_HEADERS.contains(&to) { "cloudevents-structured" } else { "cloudevents-binary" };
            route.set("envelope", text(format.to_owned()));
        }
    }
}

/// `DATABASE_URL` is the store `main` when no other is configured, or when that one does not say where it is: many platforms
/// set it, and so do the users of presets.
fn database_url(tree: &mut Table, env: &BTreeMap<String, String>) {
    let Some(url) = env.get("DATABASE_URL").filter(|url| !url.is_empty()) else { return };
    let stores = tree.table("store");
    let nowhere = |main: &Table| main.get("url").is_none() && main.get("url_file").is_none();
    if stores.is_none_or(|stores| stores.0.is_empty() || stores.table("main").is_some_and(nowhere)) {
        let place = Place::of(Origin::Environment { variable: "DATABASE_URL".to_owned() });
        if let Some(main) = tree.table_or_new("store", &place).and_then(|s| s.table_or_new("main", &place)) {
            main.set("url", Node { data: Data::Text(url.clone()), place: place.clone() });
        }
    }
}

fn fill(keys: &'static [Key], table: &mut Table) {
    for key in keys {
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
            (Kind::Routes(keys), Some(Data::List(list))) => {
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

fn set(tree: &mut Table, path: &[String], kind: &'static Kind, text: &str, place: &Place, problems: &mut Problems) {
    let data = match kind {
        Kind::List(_) | Kind::Listing(_) => json_list(text, place),
        Kind::Either(_, Kind::List(_)) if text.trim_start().starts_with('[') => json_list(text, place),
        Kind::Table(_)
        | Kind::Section(_)
        | Kind::Shared(_)
        | Kind::Choice(_)
        | Kind::Named(_)
        | Kind::Routes(_)
        | Kind::Open(_) => {
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
    let Some(table) = parent(tree, parents, place) else { return };
    // A secret given here replaces one given in a file below, however that one was given.
    let twin = twin(last);
    if table.get(&twin).is_some_and(|node| layer(&node.place.origin) < layer(&place.origin)) {
        table.remove(&twin);
    }
    table.set(last, Node { data, place: place.clone() });
}

/// What gives the same by a file, or the other way round.
pub(super) fn twin(name: &str) -> String {
    name.strip_suffix("_file").map_or_else(|| format!("{name}_file"), str::to_owned)
}

fn parent<'t>(tree: &'t mut Table, parents: &[String], place: &Place) -> Option<&'t mut Table> {
    if let [section, name, rest @ ..] = parents
        && section == "route"
    {
        let mut table = route(tree, name, place)?;
        for name in rest {
            table = table.table_or_new(name, place)?;
        }
        return Some(table);
    }
    let mut table = tree;
    for name in parents {
        table = table.table_or_new(name, place)?;
    }
    Some(table)
}

fn route<'t>(tree: &'t mut Table, name: &str, place: &Place) -> Option<&'t mut Table> {
    if tree.get("route").is_none() {
        tree.set("route", Node { data: Data::List(Vec::new()), place: place.clone() });
    }
    let Data::List(list) = &mut tree.get_mut("route")?.data else { return None };
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
