//! The JSON Schema of the configuration, made from the keys: for editors, and for checks without this program.
//!
//! It says what one value may be. What values mean together, and how short a duration may be, `config check` says.

use serde_json::{Map, Value, json};

use crate::definition::Definition;
use crate::keys::{Custom, Key, Kind, here};

/// What is filled in from the environment cannot be judged before; as the other half of every pattern.
const VARIABLE: &str = r"\$\{";
const NUMBER: &str = r"(\d+\.?\d*|\.\d+)";
const NAME: &str = "[a-z0-9][a-z0-9._-]{0,62}";

/// The schema, draft 2020-12.
pub(crate) fn schema(definition: &Definition) -> Value {
    let mut root = table(definition.root, &[]);
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".to_owned(), json!(definition.schema_title));
        root.insert("description".to_owned(), json!(definition.schema_about));
        root.insert("$defs".to_owned(), definitions(definition.customs));
    }
    root
}

/// What several keys may hold.
fn definitions(customs: &[&Custom]) -> Value {
    let duration = format!(r"({NUMBER}\s*(us|µs|ms|s|m|min|h|d)\s*)+");
    let mut all = json!({
        "text": { "type": "string", "minLength": 1 },
        "flag": { "anyOf": [{ "type": "boolean" }, text("(true|false)")] },
        "duration": text(&duration),
        "duration_or_never": text(&format!("(never|{duration})")),
        "size": text(r"0*[1-9]\d*\s*(B|kB|KB|MB|GB|KiB|MiB|GiB)"),
        "rate": text(&format!(r"{NUMBER}\s*/\s*(s|m|min|h)")),
        "count": { "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, text(r"0*[1-9]\d*")] },
        "share": { "anyOf": [{ "type": "number", "minimum": 0, "maximum": 1 }, text(r"(0?\.\d+|0\.?|1(\.0*)?)")] },
    });
    for custom in customs {
        all[custom.name] = text(custom.shape);
    }
    all
}

/// A text of this shape, or one with a variable.
fn text(shape: &str) -> Value {
    json!({ "type": "string", "pattern": format!(r"^\s*{shape}\s*$|{VARIABLE}") })
}

fn table(keys: &'static [Key], required: &[&str]) -> Value {
    let properties: Map<String, Value> = here(keys).map(|key| (key.name.to_owned(), property(key))).collect();
    // A variable may even choose the key: `{ "${WHICH:-a}" = { … } }`.
    let mut table = json!({
        "type": "object",
        "properties": properties,
        "patternProperties": { VARIABLE: true },
        "additionalProperties": false,
    });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn property(key: &Key) -> Value {
    let mut property = value(&key.kind);
    property["description"] = json!(key.doc);
    if let Some(default) = parsed(key.default) {
        property["default"] = default;
    } else if let Some(example) = parsed(key.example) {
        property["examples"] = json!([example]);
    }
    property
}

fn value(kind: &Kind) -> Value {
    let named = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    match kind {
        Kind::AnyText => json!({ "type": "string" }),
        Kind::Text | Kind::Secret | Kind::Password | Kind::Path => named("text"),
        Kind::Flag => named("flag"),
        Kind::Custom(custom) => named(custom.name),
        Kind::Duration(_) => named("duration"),
        Kind::DurationOrNever => named("duration_or_never"),
        Kind::CountOrNever => json!({ "anyOf": [value(&Kind::Count), { "const": "never" }] }),
        Kind::Size => named("size"),
        Kind::Rate => named("rate"),
        Kind::Count => named("count"),
        Kind::Share => named("share"),
        Kind::Between(least, most) => {
            json!({ "anyOf": [{ "type": "integer", "minimum": least, "maximum": most }, text(r"\d+")] })
        }
        Kind::Word(words) => json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": VARIABLE }] }),
        Kind::List(kind) => json!({ "type": "array", "items": value(kind), "minItems": 1 }),
        Kind::Listing(kind) => json!({ "type": "array", "items": value(kind) }),
        Kind::Table(keys) | Kind::Section(keys) | Kind::Shared { keys, .. } => table(keys, &[]),
        Kind::Choice(keys) => {
            let mut choice = table(keys, &[]);
            choice["minProperties"] = json!(1);
            choice["maxProperties"] = json!(1);
            choice
        }
        Kind::Named(keys) => json!({
            "type": "object",
            "propertyNames": { "pattern": format!("^{NAME}$|{VARIABLE}") },
            "additionalProperties": table(keys, &[]),
        }),
        Kind::Listed(keys) => json!({ "type": "array", "items": entry(keys) }),
        Kind::Open(kind) => json!({ "type": "object", "additionalProperties": value(kind) }),
        Kind::Either(one, other) => json!({ "anyOf": [value(one), value(other)] }),
        Kind::Absent { .. } => json!(false),
    }
}

/// An entry is found by its name, also where it lies over one of a preset.
fn entry(keys: &'static [Key]) -> Value {
    let mut entry = table(keys, &["name"]);
    entry["properties"]["name"]["pattern"] = json!(format!("^{NAME}$|{VARIABLE}"));
    entry
}

/// A value as the keys show it, which is TOML.
fn parsed(text: &str) -> Option<Value> {
    let mut table: Map<String, Value> = toml::from_str(&format!("value = {text}")).ok()?;
    table.remove("value")
}
