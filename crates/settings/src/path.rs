//! Which key a variable or a flag names: `PREFIX_ROUTE__ORDERS__RATE`, `route.orders.rate`.
//!
//! Names of tables and entries are those the tree has, spelt as a shell can; [`crate::layer`] sets the values.

use crate::definition::Definition;
use crate::keys::{Key, Kind, here};
use crate::tree::{Data, Table};

/// The key that a path names, by the names the tree has; `a-b` is also written `A_B`.
pub(crate) fn resolve(
    root: &'static [Key],
    tree: &Table,
    path: &str,
    separator: &str,
) -> Option<(Vec<String>, &'static Kind)> {
    let parts: Vec<&str> = path.split(separator).collect();
    let (first, rest) = parts.split_first()?;
    let key = find(root, first)?;
    let mut found = vec![key.name.to_owned()];
    let (keys, rest): (&'static [Key], &[&str]) = match &key.kind {
        kind if rest.is_empty() || !kind.is_here() => return Some((found, kind)),
        Kind::Named(keys) | Kind::Listed(keys) => {
            let (name, rest) = split_name(&names(tree, key.name), rest, separator)?;
            found.push(name);
            (keys, rest)
        }
        Kind::Table(keys) | Kind::Shared { keys, .. } => (keys, rest),
        _ => return None,
    };
    let kind = descend(keys, rest, &mut found)?;
    Some((found, kind))
}

fn descend(keys: &'static [Key], rest: &[&str], found: &mut Vec<String>) -> Option<&'static Kind> {
    let (first, rest) = rest.split_first()?;
    let key = find(keys, first)?;
    found.push(key.name.to_owned());
    match &key.kind {
        kind if rest.is_empty() || !kind.is_here() => Some(kind),
        Kind::Table(keys) | Kind::Section(keys) | Kind::Choice(keys) => descend(keys, rest, found),
        _ => None,
    }
}

fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name.to_ascii_lowercase())
}

/// Takes a name off the front: the longest one that is known, else the first part as a new one.
fn split_name<'p>(known: &[String], parts: &'p [&'p str], separator: &str) -> Option<(String, &'p [&'p str])> {
    for taken in (1..=parts.len()).rev() {
        let candidate = parts[..taken].join(separator);
        // Of `a_b` and `a-b`, which a shell cannot tell apart, the one that is written alike.
        let alike = known.iter().find(|name| **name == candidate.to_ascii_lowercase());
        if let Some(name) = alike.or_else(|| known.iter().find(|name| spelt(name) == spelt(&candidate))) {
            return Some((name.clone(), &parts[taken..]));
        }
    }
    let (first, rest) = parts.split_first()?;
    Some((first.to_ascii_lowercase(), rest))
}

/// A name as a variable spells it.
pub fn spelt(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Names of the tables or entries of a section.
fn names(tree: &Table, section: &str) -> Vec<String> {
    match tree.get(section).map(|n| &n.data) {
        Some(Data::Table(table)) => table.0.iter().map(|e| e.name.clone()).collect(),
        Some(Data::List(list)) => list.iter().filter_map(|n| n.table()?.text("name").map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Every path that can be set, with the names the tree has.
pub(crate) fn paths(root: &'static [Key], tree: &Table) -> Vec<Vec<String>> {
    fn walk(keys: &'static [Key], at: &[String], all: &mut Vec<Vec<String>>) {
        for key in here(keys) {
            let mut path = at.to_vec();
            path.push(key.name.to_owned());
            match &key.kind {
                Kind::Table(keys) | Kind::Section(keys) | Kind::Shared { keys, .. } | Kind::Choice(keys) => {
                    walk(keys, &path, all);
                }
                Kind::Named(_) | Kind::Listed(_) => {}
                _ => all.push(path),
            }
        }
    }
    let mut all = Vec::new();
    walk(root, &[], &mut all);
    for key in root {
        if let Kind::Named(keys) | Kind::Listed(keys) = &key.kind {
            let mut known = names(tree, key.name);
            if known.is_empty() && !key.example.is_empty() {
                known.push(key.example.to_owned());
            }
            for name in known {
                walk(keys, &[key.name.to_owned(), name], &mut all);
            }
        }
    }
    all
}

/// Every variable that sets something.
pub(crate) fn variables(definition: &Definition, tree: &Table) -> Vec<String> {
    paths(definition.root, tree).iter().map(|path| variable(definition, path)).collect()
}

/// The variable that sets this path.
pub(crate) fn variable(definition: &Definition, path: &[String]) -> String {
    let parts: Vec<String> = path.iter().map(|part| spelt(part)).collect();
    format!("{}{}", definition.prefix, parts.join("__"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::keys::{absent, key, optional, table};
    use crate::parse;
    use crate::problem::Problems;

    static ROOT: &[Key] = &[
        optional("name", Kind::Text, "", ""),
        optional("store", Kind::Named(&[optional("url", Kind::Text, "", ""), absent("map", "map", "maps")]), "", ""),
        table("relay", &[table("take", &[key("rows", Kind::Count, "1", "")], "")], ""),
        optional("route", Kind::Listed(ROUTE), "", ""),
    ];
    static ROUTE: &[Key] = &[optional("rate", Kind::Rate, "", ""), optional("to", Kind::Choice(TO), "", "")];
    static TO: &[Key] =
        &[table("exec", &[optional("command", Kind::Text, "", "")], ""), absent("kafka", "transport `kafka`", "kafka")];

    fn resolved(path: &str, separator: &str) -> Option<(Vec<String>, &'static Kind)> {
        let text = "[store.main]\n[[route]]\nname = 'a-b'\n[[route]]\nname = 'eu.orders'\n[[route]]\nname = 'x__y'\n[[route]]\nname = 'a.c'\n[[route]]\nname = 'a_c'\n";
        let tree = parse::file(Path::new("f"), text, &BTreeMap::new(), &mut Problems::default()).unwrap();
        resolve(ROOT, &tree, path, separator)
    }

    fn check(path: &str, separator: &str) -> Option<String> {
        resolved(path, separator).map(|(path, _)| path.join(" "))
    }

    #[test]
    fn a_variable_finds_the_name_it_spells() {
        assert_eq!(check("RELAY__TAKE__ROWS", "__").unwrap(), "relay take rows");
        assert_eq!(check("ROUTE__A_B__RATE", "__").unwrap(), "route a-b rate");
        assert_eq!(check("ROUTE__EU_ORDERS__RATE", "__").unwrap(), "route eu.orders rate");
        assert_eq!(check("ROUTE__X__Y__RATE", "__").unwrap(), "route x__y rate");
        assert_eq!(check("ROUTE__A_C__RATE", "__").unwrap(), "route a_c rate");
        assert_eq!(check("STORE__NEW__URL", "__").unwrap(), "store new url");
        assert_eq!(check("ROUTE__A_B__TO__EXEC__COMMAND", "__").unwrap(), "route a-b to exec command");
    }

    #[test]
    fn a_flag_finds_names_with_dots() {
        assert_eq!(check("route.eu.orders.rate", ".").unwrap(), "route eu.orders rate");
        assert_eq!(check("name", ".").unwrap(), "name");
    }

    #[test]
    fn what_is_no_key_is_not_found() {
        for path in ["NAME__X", "RELAY__TAKE__ROWS__X", "ROUTE__A_B__NOPE", "ROUTE__A_B", "", "NOPE"] {
            assert_eq!(check(path, "__"), None, "{path}");
        }
    }

    #[test]
    fn what_another_build_has_is_found_without_the_keys_below_it() {
        for (path, name) in [
            ("ROUTE__EU_ORDERS__TO__KAFKA__TOPIC", "transport `kafka`"),
            ("ROUTE__EU_ORDERS__TO__KAFKA", "transport `kafka`"),
            ("STORE__MAIN__MAP__TABLE", "map"),
        ] {
            let kind = resolved(path, "__").map(|(_, kind)| kind);
            assert!(matches!(kind, Some(Kind::Absent { what, .. }) if *what == name), "{path}: {kind:?}");
        }
    }
}
