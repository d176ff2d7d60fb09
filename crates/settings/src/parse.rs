//! Reads TOML into a tree that knows lines and columns, and fills `${VAR}` in.
//!
//! Says only what TOML itself forbids; whether a key exists is [`Definition::check`](crate::Definition::check)'s.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::Problems;
use crate::tree::{Data, Entry, Node, Origin, Place, Table};

/// Reads a file's text; `None` when it is not TOML. Whatever is wrong with it goes to `problems`.
pub fn file(path: &Path, text: &str, env: &BTreeMap<String, String>, problems: &mut Problems) -> Option<Table> {
    problems.show_lines_of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    let from = From::File(path.to_owned());
    let mut reader = Reader { from, text, env, problems };
    for error in &errors {
        let place = reader.place(&error.span().unwrap_or(0..0));
        reader.problems.at(&place, error.message(), None);
    }
    // What the parser guessed after an error would only add confusion.
    errors.is_empty().then(|| reader.table(table.get_ref()))
}

/// Reads a preset, which the program brings along.
pub fn preset(
    name: &'static str,
    text: &'static str,
    env: &BTreeMap<String, String>,
    problems: &mut Problems,
) -> Table {
    let (table, _) = DeTable::parse_recoverable(text);
    Reader { from: From::Preset(name), text, env, problems }.table(table.get_ref())
}

/// Reads one value that the program itself provides.
pub fn default_value(toml: &str) -> Option<Node> {
    let text = format!("value = {toml}");
    let table = DeTable::parse(&text).ok()?;
    let (env, mut problems) = (BTreeMap::new(), Problems::default());
    let from = From::File(PathBuf::new());
    let mut reader = Reader { from, text: &text, env: &env, problems: &mut problems };
    let mut node = reader.table(table.get_ref()).0.pop()?.node;
    forget_place(&mut node);
    Some(node)
}

fn forget_place(node: &mut Node) {
    node.place = Place::of(Origin::Default);
    match &mut node.data {
        Data::List(list) => list.iter_mut().for_each(forget_place),
        Data::Table(table) => table.0.iter_mut().for_each(|entry| forget_place(&mut entry.node)),
        _ => {}
    }
}

/// Whose text it is.
enum From {
    File(PathBuf),
    Preset(&'static str),
}

struct Reader<'a> {
    from: From,
    text: &'a str,
    env: &'a BTreeMap<String, String>,
    problems: &'a mut Problems,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>) -> Table {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            let place = self.place(&key.span());
            // What cannot be filled in has been reported; as it stands it is at least no other key.
            let name = self.fill(name, &place).unwrap_or_else(|| name.to_string());
            Entry { name, place, node: self.node(value) }
        };
        Table(table.iter().map(entry).collect())
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>) -> Node {
        let place = self.place(&value.span());
        let data = match value.get_ref() {
            DeValue::String(text) => self.fill(text, &place).map_or(Data::Broken, Data::Text),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).map_or_else(
                |_| {
                    self.problems.at(&place, format!("{n} is too large a number"), None);
                    Data::Broken
                },
                Data::Integer,
            ),
            // A float the parser let through always reads.
            DeValue::Float(n) => Data::Float(n.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(yes) => Data::Boolean(*yes),
            DeValue::Datetime(time) => Data::Time(time.to_string()),
            DeValue::Array(list) => Data::List(list.iter().map(|v| self.node(v)).collect()),
            DeValue::Table(table) => Data::Table(self.table(table)),
        };
        Node { data, place }
    }

    /// Replaces `${VAR}` and `${VAR:-default}`; `$${` stands for `${`. `None` when that is not possible.
    fn fill(&mut self, text: &str, place: &Place) -> Option<String> {
        let (mut out, mut rest, mut complete) = (String::new(), text, true);
        while let Some(start) = rest.find("${") {
            let (before, after) = (&rest[..start], &rest[start + 2..]);
            if let Some(escaped) = before.strip_suffix('$') {
                out.push_str(escaped);
                out.push_str("${");
                rest = after;
                continue;
            }
            out.push_str(before);
            let Some((inside, next)) = after.split_once('}') else {
                let hint = "close it with `}`, or write `$${` for the characters themselves".to_owned();
                self.problems.at(place, "`${` is not closed", Some(hint));
                return None;
            };
            let (variable, default) = match inside.split_once(":-") {
                Some((variable, default)) => (variable, Some(default)),
                None => (inside, None),
            };
            match (self.env.get(variable).filter(|v| !v.is_empty() || default.is_none()), default) {
                (Some(value), _) => out.push_str(value),
                (None, Some(default)) => out.push_str(default),
                (None, None) => {
                    let hint = format!("set it, or give a default: ${{{variable}:-…}}");
                    self.problems.at(place, format!("environment variable `{variable}` is not set"), Some(hint));
                    complete = false;
                }
            }
            rest = next;
        }
        out.push_str(rest);
        complete.then_some(out)
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let start = span.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        let line = before.matches('\n').count() + 1;
        let width = self.text.get(start..span.end).map_or(1, |t| t.lines().next().unwrap_or("").chars().count());
        let origin = match &self.from {
            From::File(path) => Origin::File { path: path.clone(), line },
            From::Preset(name) => Origin::Preset { name, line },
        };
        Place { origin, column: before[line_start..].chars().count() + 1, width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, env: &[(&str, &str)]) -> (Option<Table>, Vec<String>) {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut problems = Problems::default();
        let table = file(Path::new("f.toml"), text, &env, &mut problems);
        let list = problems.into_error().problems;
        (table, list.iter().map(|p| format!("{}:{} {}", p.line.unwrap(), p.column.unwrap(), p.message)).collect())
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, expected) in [
            ("a${X}b", "a1b"),
            ("${Y:-two}${X}", "two1"),
            ("${EMPTY:-full}", "full"),
            ("[${EMPTY}]", "[]"),
            ("$${X} and $X", "${X} and $X"),
            ("${Y:-}", ""),
        ] {
            let (table, problems) = check(&format!("a = '{text}'"), &[("X", "1"), ("EMPTY", "")]);
            assert_eq!((table.unwrap().text("a"), problems.len()), (Some(expected), 0), "{text}");
        }
    }

    #[test]
    fn a_missing_variable_is_named_with_its_line() {
        let (_, problems) = check("a = 1\nb = ['ok', 'x${NOPE}']\nc = 'x${Y'", &[]);
        assert_eq!(problems, ["2:12 environment variable `NOPE` is not set", "3:5 `${` is not closed"]);
    }

    #[test]
    fn columns_count_characters_and_order_is_kept() {
        let (table, _) = check("'ä' = 1\n[t]\nz = 1\na = { 'ü' = 1, b = 2 }", &[]);
        let table = table.unwrap();
        let t = table.table("t").unwrap();
        assert_eq!(t.0.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["z", "a"]);
        assert_eq!(t.table("a").unwrap().0[1].place.column, 16);
    }

    #[test]
    fn syntax_errors_have_a_place_and_come_together() {
        let (table, problems) = check("a = \nb = 1\nc = = 2\n", &[]);
        assert!(table.is_none());
        assert!(problems.len() >= 2 && problems[0].starts_with("1:"), "{problems:?}");
    }
}
