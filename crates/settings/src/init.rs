//! A commented file, made from the keys.

use crate::definition::{Definition, Init};
use crate::keys::{Key, Kind, here};

/// A file that documents every key and changes nothing.
pub(crate) fn init(definition: &Definition) -> String {
    let init = &definition.init;
    let mut out = init.head.to_owned();
    for key in here(definition.root) {
        out.push('\n');
        comment(&mut out, key.doc);
        match &key.kind {
            Kind::Table(keys) => section(&mut out, init, &format!("[{}]", key.name), keys),
            Kind::Shared { keys, .. } => {
                for table in here(keys) {
                    out.extend(["#[", key.name, ".", table.name, "]\n"]);
                }
            }
            Kind::Named(keys) => section(&mut out, init, &format!("[{}.{}]", key.name, key.example), keys),
            Kind::Listed(keys) => section(&mut out, init, &format!("[[{}]]", key.name), keys),
            _ => line(&mut out, key.name, value(key)),
        }
    }
    out
}

fn section(out: &mut String, init: &Init, header: &str, keys: &'static [Key]) {
    out.extend(["#", header, "\n"]);
    for key in here(keys) {
        comment(out, key.doc);
        match &key.kind {
            Kind::Table(inner) => {
                for part in *inner {
                    comment(out, &format!("  {}: {}", part.name, part.doc));
                }
                // What excludes others cannot be shown with them.
                let shown = inner.iter().filter(|part| !init.is_alternative(part.name)).map(inline);
                line(out, key.name, &format!("{{ {} }}", shown.collect::<Vec<_>>().join(", ")));
            }
            // Long, and for few: the reference has it.
            Kind::Section(_) => comment(out, "  docs/config.md has its keys"),
            Kind::Choice(targets) => {
                for target in here(targets) {
                    comment(out, &format!("  {}: {}", target.name, target.doc));
                    if let Kind::Table(parts) = &target.kind {
                        for part in *parts {
                            comment(out, &format!("    {}: {}", part.name, part.doc));
                        }
                    }
                }
                line(out, key.name, init.choice);
            }
            // Not a line of its own that could be uncommented with the others.
            _ if init.is_alternative(key.name) => {
                comment(out, &format!("  {} = {}", key.name, value(key)));
            }
            _ => line(out, key.name, value(key)),
        }
    }
}

fn inline(key: &Key) -> String {
    format!("{} = {}", key.name, value(key))
}

fn value(key: &Key) -> &'static str {
    if key.default.is_empty() { key.example } else { key.default }
}

fn comment(out: &mut String, text: &str) {
    out.extend(["# ", text, "\n"]);
}

fn line(out: &mut String, name: &str, value: &str) {
    out.extend(["#", name, " = ", value, "\n"]);
}
