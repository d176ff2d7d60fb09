//! Whether a newer schema is only an older one with more optional fields.
//!
//! Events of both versions are on their way at once, and consumers know only the older one. So a field that is gone,
//! renamed, newly required, or means something else breaks somebody: only additions of optional fields pass, and
//! remarks (titles, descriptions) may change. Whatever a keyword means, a change of it is a difference.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::schema::Schema;

/// Says nothing about what an event looks like.
const REMARKS: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "title",
    "description",
    "examples",
    "default",
    "deprecated",
    "readOnly",
    "writeOnly",
    "definitions",
    "$defs",
];
/// Keywords that hold one schema.
const ONE: &[&str] = &[
    "additionalProperties",
    "additionalItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "items",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords that hold a list of schemas.
const SEVERAL: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];

/// Difference between two schemas that breaks consumers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Path in an event, for instance `/payload/currency`.
    pub path: String,
    /// Description of the change.
    pub reason: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Returns every change from `old` to `new` that is not the addition of an optional field.
pub fn compare(old: &Schema, new: &Schema) -> Vec<Difference> {
    let mut found = differences(old.value(), new.value());
    if old.draft() != new.draft() {
        let reason = format!("draft changed from {} to {}", old.draft(), new.draft());
        found.insert(0, Difference { path: "/".to_owned(), reason });
    }
    found
}

fn differences(old: &Value, new: &Value) -> Vec<Difference> {
    let mut compare = Compare { old, new, found: Vec::new(), known: BTreeSet::new() };
    compare.schemas(old, new, "");
    compare.found
}

struct Compare<'v> {
    old: &'v Value,
    new: &'v Value,
    found: Vec<Difference>,
    /// Pairs of references that are being compared, or were: schemas may refer to themselves.
    known: BTreeSet<(String, String)>,
}

impl<'v> Compare<'v> {
    fn differs(&mut self, path: &str, reason: impl Into<String>) {
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let difference = Difference { path, reason: reason.into() };
        if !self.found.contains(&difference) {
            self.found.push(difference);
        }
    }

    fn schemas(&mut self, old: &'v Value, new: &'v Value, path: &str) {
        let ((old, from), (new, to)) = (follow(self.old, old), follow(self.new, new));
        if (from.is_some() || to.is_some())
            && !self.known.insert((from.unwrap_or_default().to_owned(), to.unwrap_or_default().to_owned()))
            && from.is_some()
            && to.is_some()
        {
            return;
        }
        let (Some(old), Some(new)) = (object(old), object(new)) else {
            if old != new {
                self.differs(path, format!("changed from {} to {}", short(old), short(new)));
            }
            return;
        };
        self.required(old, new, path);
        self.properties(old, new, path);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            if !REMARKS.contains(&name.as_str()) && !matches!(name.as_str(), "required" | "properties") {
                self.keyword(name, old.get(name), new.get(name), path);
            }
        }
    }

    fn required(&mut self, old: &'v Map<String, Value>, new: &'v Map<String, Value>, path: &str) {
        let (old, new) = (names(old.get("required")), names(new.get("required")));
        for name in new.difference(&old) {
            self.differs(&format!("{path}/{name}"), "newly required");
        }
        for name in old.difference(&new) {
            self.differs(&format!("{path}/{name}"), "no longer required");
        }
    }

    fn properties(&mut self, old: &'v Map<String, Value>, new: &'v Map<String, Value>, path: &str) {
        let empty = || Value::Object(Map::new());
        let (was, is) = (old.get("properties"), new.get("properties"));
        let fields = |value: Option<&'v Value>| value.and_then(Value::as_object);
        let added: Vec<(&String, &Value)> = fields(is)
            .into_iter()
            .flatten()
            .filter(|(name, _)| fields(was).is_none_or(|fields| !fields.contains_key(*name)))
            .collect();
        for (name, field) in fields(was).into_iter().flatten() {
            let below = format!("{path}/{name}");
            match fields(is).and_then(|fields| fields.get(name)) {
                Some(now) => self.schemas(field, now, &below),
                None => match added.iter().find(|(_, now)| *now == field && *field != empty()) {
                    Some((to, _)) => self.differs(&below, format!("removed; renamed to {to}?")),
                    None => self.differs(&below, "removed"),
                },
            }
        }
    }

    fn keyword(&mut self, name: &str, old: Option<&'v Value>, new: Option<&'v Value>, path: &str) {
        match (old, new) {
            (Some(Value::Array(old)), Some(Value::Array(new))) if SEVERAL.contains(&name) && old.len() == new.len() => {
                for (old, new) in old.iter().zip(new) {
                    self.schemas(old, new, path);
                }
            }
            (Some(old @ (Value::Object(_) | Value::Bool(_))), Some(new @ (Value::Object(_) | Value::Bool(_))))
                if ONE.contains(&name) =>
            {
                let below = if matches!(name, "items" | "contains") { format!("{path}/*") } else { path.to_owned() };
                self.schemas(old, new, &below);
            }
            (Some(Value::Object(old)), Some(Value::Object(new))) if name == "patternProperties" => {
                for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                    match (old.get(name), new.get(name)) {
                        (Some(old), Some(new)) => self.schemas(old, new, &format!("{path}/({name})")),
                        (Some(_), None) => self.differs(path, format!("patternProperties {name} removed")),
                        _ => self.differs(path, format!("patternProperties {name} added")),
                    }
                }
            }
            // Behind the schemas: what is written the same may refer to what is not.
            _ if old == new => {}
            _ if name == "type" => self.sets("type", &types(old), &types(new), (old.is_none(), new.is_none()), path),
            _ if name == "enum" => {
                self.sets("enum", &words(old), &words(new), (old.is_none(), new.is_none()), path);
            }
            (Some(old), Some(new)) => {
                self.differs(path, format!("{name} changed from {} to {}", short(old), short(new)));
            }
            (Some(old), None) => self.differs(path, format!("{name} {} removed", short(old))),
            (None, Some(new)) => self.differs(path, format!("{name} {} added", short(new))),
            (None, None) => {}
        }
    }

    /// Types and enumerations: what is lost narrows, what is gained widens; no list at all allows everything.
    fn sets(
        &mut self,
        what: &str,
        old: &BTreeSet<String>,
        new: &BTreeSet<String>,
        (all_old, all_new): (bool, bool),
        path: &str,
    ) {
        let list = |set: BTreeSet<&String>| set.into_iter().cloned().collect::<Vec<_>>().join(", ");
        if all_old && !all_new {
            return self.differs(path, format!("{what} narrowed to {}", list(new.iter().collect())));
        }
        if all_new && !all_old {
            return self.differs(path, format!("{what} widened: it was {}", list(old.iter().collect())));
        }
        let (lost, gained) = (list(old.difference(new).collect()), list(new.difference(old).collect()));
        if !lost.is_empty() {
            self.differs(path, format!("{what} narrowed: {lost} is gone"));
        }
        if !gained.is_empty() {
            self.differs(path, format!("{what} widened: {gained} is new, which consumers do not know"));
        }
    }
}

/// What a schema is after its references, and the last of them. A reference that leads nowhere stays as it is.
fn follow<'v>(root: &'v Value, schema: &'v Value) -> (&'v Value, Option<&'v str>) {
    let (mut schema, mut last) = (schema, None);
    // Longer chains are circles.
    for _ in 0..16 {
        let only =
            schema.as_object().filter(|map| map.keys().all(|key| key == "$ref" || REMARKS.contains(&key.as_str())));
        let Some(reference) = only.and_then(|map| map.get("$ref")).and_then(Value::as_str) else { break };
        let target = if reference == "#" { Some(root) } else { root.pointer(reference.trim_start_matches('#')) };
        let Some(target) = target else { break };
        (schema, last) = (target, Some(reference));
    }
    (schema, last)
}

/// A schema as an object; `true` is one without rules.
fn object(schema: &Value) -> Option<&Map<String, Value>> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match schema {
        Value::Object(map) => Some(map),
        Value::Bool(true) => Some(&NOTHING),
        _ => None,
    }
}

fn names(value: Option<&Value>) -> BTreeSet<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn types(value: Option<&Value>) -> BTreeSet<String> {
    match value {
        Some(Value::String(one)) => BTreeSet::from([one.clone()]),
        several => names(several),
    }
}

fn words(value: Option<&Value>) -> BTreeSet<String> {
    value.and_then(Value::as_array).into_iter().flatten().map(short).collect()
}

/// A part of a schema, cut.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(old: &Value, new: &Value, expected: &[&str]) {
        let found: Vec<String> = differences(old, new).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    fn base() -> Value {
        json!({
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": { "type": "string", "pattern": "^[a-z]+$" },
                "state": { "enum": ["new", "paid"] },
                "lines": { "type": "array", "items": { "$ref": "#/$defs/line" } }
            },
            "$defs": { "line": { "type": "object", "properties": { "sku": { "type": ["string", "null"] } } } }
        })
    }

    #[test]
    fn optional_fields_and_remarks_may_come() {
        let mut new = base();
        new["title"] = json!("Order");
        new["properties"]["message"] = json!({ "type": "string", "pattern": "x" });
        new["properties"]["id"]["description"] = json!("who");
        new["$defs"]["line"]["properties"]["count"] = json!({ "type": "integer" });
        check(&base(), &new, &[]);
        check(&base(), &base(), &[]);
        check(&json!(true), &json!({ "properties": { "a": {} } }), &[]);
    }

    #[test]
    fn what_is_removed_renamed_or_newly_required_is_named_with_its_path() {
        let mut new = base();
        let fields = new["properties"].as_object_mut().unwrap();
        let state = fields.remove("state").unwrap();
        fields.insert("status".to_owned(), state);
        fields.remove("lines");
        new["required"] = json!(["id", "status"]);
        check(&base(), &new, &["/status: newly required", "/lines: removed", "/state: removed; renamed to status?"]);
        new = base();
        new["required"] = json!([]);
        check(&base(), &new, &["/id: no longer required"]);
    }

    #[test]
    fn narrower_and_wider_rules_are_named_with_their_path() {
        let mut new = base();
        new["properties"]["id"] = json!({ "type": "string", "pattern": "^[a-z]{3}$", "maxLength": 3 });
        new["properties"]["state"]["enum"] = json!(["paid", "sent"]);
        new["$defs"]["line"]["properties"]["sku"]["type"] = json!("string");
        check(
            &base(),
            &new,
            &[
                "/id: maxLength 3 added",
                "/id: pattern changed from \"^[a-z]+$\" to \"^[a-z]{3}$\"",
                "/lines/*/sku: type narrowed: null is gone",
                "/state: enum narrowed: \"new\" is gone",
                "/state: enum widened: \"sent\" is new, which consumers do not know",
            ],
        );
        check(&json!({}), &json!({ "type": "string" }), &["/: type narrowed to string"]);
        check(
            &json!({ "additionalProperties": true }),
            &json!({ "additionalProperties": false }),
            &["/: changed from true to false"],
        );
        check(&json!({}), &json!({ "additionalProperties": false }), &["/: additionalProperties false added"]);
        check(&json!({ "const": 1 }), &json!({ "const": 2 }), &["/: const changed from 1 to 2"]);
    }

    #[test]
    fn alternatives_are_compared_one_by_one_and_their_number_counts() {
        let old = json!({ "oneOf": [{ "type": "string" }, { "properties": { "a": { "type": "string" } } }] });
        let mut new = old.clone();
        new["oneOf"][1]["properties"]["b"] = json!({});
        check(&old, &new, &[]);
        new["oneOf"][1]["properties"]["a"]["type"] = json!("integer");
        check(
            &old,
            &new,
            &["/a: type narrowed: string is gone", "/a: type widened: integer is new, which consumers do not know"],
        );
        let more = json!({ "oneOf": [{}, {}, {}] });
        assert_eq!(differences(&old, &more).len(), 1);
    }

    #[test]
    fn schemas_that_refer_to_themselves_end() {
        let tree = |rule: &str| {
            json!({ "$ref": "#/definitions/node", "definitions": { "node": {
                "properties": { "name": { "type": rule }, "child": { "$ref": "#/definitions/node" } } } } })
        };
        check(&tree("string"), &tree("string"), &[]);
        check(
            &tree("string"),
            &tree("number"),
            &[
                "/name: type narrowed: string is gone",
                "/name: type widened: number is new, which consumers do not know",
            ],
        );
        check(&json!({ "$ref": "#" }), &json!({ "$ref": "#" }), &[]);
    }
}
