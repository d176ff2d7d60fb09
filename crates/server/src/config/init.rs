//! The commented file that `config init` writes, made from the keys.

use super::keys::{Key, Kind, ROOT};
use super::stores::POSTGRES_KEYS;

const HEAD: &str = "\
# Postroom's configuration.
#
# Lines that begin with `#` and a key are commented out: they show the default, or an example where there is none.
# Flags go before environment variables (POSTROOM_RELAY__LEASE=30s), those before this file, this file before defaults.
# Strings may hold ${VAR} and ${VAR:-default}. Relative paths are relative to the working folder.
# `postroom config show --origin` tells what is in force and why; `postroom config check` finds mistakes.
";

/// A file that documents every key and changes nothing.
pub fn init() -> String {
    let mut out = HEAD.to_owned();
    for key in ROOT {
        out.push('\n');
        comment(&mut out, key.doc);
        match &key.kind {
            Kind::Table(keys) => section(&mut out, &format!("[{}]", key.name), keys),
            Kind::Shared(tables) => {
                for table in *tables {
                    out.extend(["#[", key.name, ".", table.name, "]\n"]);
                }
            }
            Kind::Named(keys) => section(&mut out, &format!("[{}.{}]", key.name, key.example), keys),
            Kind::Routes(keys) => section(&mut out, &format!("[[{}]]", key.name), keys),
            _ => line(&mut out, key.name, value(key)),
        }
    }
    out
}

fn section(out: &mut String, header: &str, keys: &[Key]) {
    out.extend(["#", header, "\n"]);
    for key in keys {
        comment(out, key.doc);
        match &key.kind {
            Kind::Table(inner) => {
                for part in *inner {
                    comment(out, &format!("  {}: {}", part.name, part.doc));
                }
                // A schedule excludes base and max, so an example cannot show all three.
                let shown = inner.iter().filter(|part| part.name != "schedule").map(inline);
                line(out, key.name, &format!("{{ {} }}", shown.collect::<Vec<_>>().join(", ")));
            }
            // Long, and for few: the reference has it.
            Kind::Section(_) => comment(out, "  docs/config.md has its keys"),
            Kind::Choice(targets) => {
                for target in *targets {
                    comment(out, &format!("  {}: {}", target.name, target.doc));
                    if let Kind::Table(parts) = &target.kind {
                        for part in *parts {
                            comment(out, &format!("    {}: {}", part.name, part.doc));
                        }
                    }
                }
                line(out, key.name, EXAMPLE_TARGET);
            }
            // Not for the store or beside the line shown before: not a line of its own that could be uncommented with it.
            _ if ALTERNATIVES.contains(&key.name) || POSTGRES_KEYS.contains(&key.name) => {
                comment(out, &format!("  {} = {}", key.name, value(key)));
            }
            _ => line(out, key.name, value(key)),
        }
    }
}

const EXAMPLE_TARGET: &str = r#"{ exec = { command = ["python3", "mailer.py"], in_flight = 64, timeout = "30s" } }"#;
const ALTERNATIVES: &[&str] = &["url_file", "schedule", "metrics_token_file"];

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
