//! Tables of the keys, as Markdown.

use std::fmt::Write as _;

use postroom_core::units::format_duration;

use crate::keys::{Key, Kind, here};

/// Every key, section by section, as Markdown.
pub(crate) fn reference(root: &'static [Key]) -> String {
    let mut out = String::new();
    let (sections, single): (Vec<&Key>, Vec<&Key>) = here(root).partition(|key| inner(&key.kind).is_some());
    out.push_str("### Top level\n\n");
    table(&mut out, single.into_iter());
    for key in sections {
        let title = match &key.kind {
            Kind::Named(_) => format!("[{}.NAME]", key.name),
            Kind::Listed(_) => format!("[[{}]]", key.name),
            _ => format!("[{}]", key.name),
        };
        let _ = write!(out, "\n### `{title}`\n\n{}\n\n", key.doc);
        if let Kind::Shared { keys, choice, .. } = &key.kind {
            let names: Vec<String> = here(keys).map(|table| format!("`[{}.{}]`", key.name, table.name)).collect();
            let _ = writeln!(out, "{}: the keys of `{choice}`, below.", names.join(", "));
            continue;
        }
        let mut rows = Vec::new();
        collect(inner(&key.kind).unwrap_or_default(), "", &mut rows);
        header(&mut out);
        for (path, key) in rows {
            row(&mut out, &path, key);
        }
    }
    out
}

/// The keys below a key, if it has any.
fn inner(kind: &Kind) -> Option<&'static [Key]> {
    match kind {
        Kind::Table(keys)
        | Kind::Section(keys)
        | Kind::Shared { keys, .. }
        | Kind::Choice(keys)
        | Kind::Named(keys)
        | Kind::Listed(keys) => Some(keys),
        Kind::Either(_, other) => inner(other),
        Kind::Open(kind) | Kind::List(kind) | Kind::Listing(kind) => inner(kind),
        _ => None,
    }
}

fn collect(keys: &'static [Key], path: &str, rows: &mut Vec<(String, &'static Key)>) {
    for key in here(keys) {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        rows.push((path.clone(), key));
        let below = if matches!(key.kind, Kind::Open(_)) { format!("{path}.NAME") } else { path };
        collect(inner(&key.kind).unwrap_or_default(), &below, rows);
    }
}

fn table<'k>(out: &mut String, keys: impl Iterator<Item = &'k Key>) {
    header(out);
    for key in keys {
        row(out, key.name, key);
    }
}

fn header(out: &mut String) {
    out.push_str("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
}

fn row(out: &mut String, path: &str, key: &Key) {
    let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
    let default = match (key.default, key.example) {
        ("", "") => "–".to_owned(),
        ("", example) => format!("none; {}", code(example)),
        (default, _) => code(default),
    };
    let _ = writeln!(out, "| `{path}` | {} | {default} | {} |", value(&key.kind), key.doc.replace('|', "\\|"));
}

/// What may stand there, in a few words.
fn value(kind: &Kind) -> String {
    match kind {
        Kind::Text | Kind::AnyText => "text".to_owned(),
        Kind::Secret | Kind::Password => "secret".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Custom(custom) => custom.reference.to_owned(),
        Kind::Duration(least) if least.is_zero() => "duration".to_owned(),
        Kind::Duration(least) => format!("duration from {}", format_duration(*least)),
        Kind::DurationOrNever => "duration or `never`".to_owned(),
        Kind::CountOrNever => "number from 1 or `never`".to_owned(),
        Kind::Size => "size".to_owned(),
        Kind::Rate => "rate".to_owned(),
        Kind::Count => "number from 1".to_owned(),
        Kind::Between(least, most) => format!("number {least} to {most}"),
        Kind::Share => "number 0 to 1".to_owned(),
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::List(kind) | Kind::Listing(kind) => format!("list: {}", value(kind)),
        Kind::Choice(_) => "table with one key".to_owned(),
        Kind::Table(_) | Kind::Section(_) | Kind::Shared { .. } | Kind::Named(_) | Kind::Listed(_) => {
            "table".to_owned()
        }
        Kind::Open(kind) => format!("table of any names: {}", value(kind)),
        Kind::Either(one, other) => format!("{} or {}", value(one), value(other)),
        Kind::Absent { .. } => String::new(),
    }
}
