//! One schema: read, judged and compiled. The only file that knows the library behind it.

use std::fmt;
use std::fmt::Write as _;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Most places of one event that are named.
const PLACES_MAX: usize = 5;
/// Longest path that is named, in characters: keys of a map are the sender's choice.
const PATH_CHARS_MAX: usize = 120;

/// Draft of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub enum Draft {
    /// Draft 7.
    #[serde(rename = "draft-07")]
    Draft7,
    /// Draft 2020-12; also what a schema is that does not say.
    #[serde(rename = "2020-12")]
    Draft202012,
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Draft7 => "draft-07",
            Self::Draft202012 => "2020-12",
        })
    }
}

/// Reason why a text is not a usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// Neither an object nor true or false.
    #[error("a schema is an object, or true or false")]
    NotASchema,
    /// Another draft.
    #[error(
        "its draft {0:?} is unknown here; known are draft-07 (http://json-schema.org/draft-07/schema#) and 2020-12 (https://json-schema.org/draft/2020-12/schema)"
    )]
    Draft(String),
    /// It refers to something outside.
    #[error(
        "it refers to {reference:?} at {path}; nothing is fetched, so refer to parts of the schema itself (#/$defs/…)"
    )]
    Outside {
        /// What.
        reference: String,
        /// Where.
        path: String,
    },
    /// It breaks the rules of its draft.
    #[error("it is broken at {path}: {reason}")]
    Broken {
        /// Where, in the schema.
        path: String,
        /// What about it.
        reason: String,
    },
}

/// Compiled schema.
pub struct Schema {
    draft: Draft,
    value: Value,
    validator: Validator,
}

impl Schema {
    /// Reads and compiles a schema.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        let value: Value = serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        if !matches!(value, Value::Object(_) | Value::Bool(_)) {
            return Err(SchemaError::NotASchema);
        }
        let draft = draft(&value)?;
        stays_inside(&value, &mut String::new())?;
        let known = match draft {
            Draft::Draft7 => jsonschema::Draft::Draft7,
            Draft::Draft202012 => jsonschema::Draft::Draft202012,
        };
        // Linear time whatever the pattern and the text; formats are rules here, not remarks.
        let options = jsonschema::options()
            .with_draft(known)
            .with_pattern_options(PatternOptions::regex())
            .should_validate_formats(true);
        let validator = options.build(&value).map_err(|error| SchemaError::Broken {
            path: place(error.instance_path().as_str()),
            // What it quotes is of the schema.
            reason: error.to_string(),
        })?;
        Ok(Self { draft, value, validator })
    }

    /// Returns the draft of the schema.
    pub fn draft(&self) -> Draft {
        self.draft
    }

    /// Returns the schema as it was written.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the violations of a document: paths and keywords, without values.
    pub fn breaches(&self, document: &Value) -> Result<(), String> {
        if self.validator.is_valid(document) {
            return Ok(());
        }
        let mut text = String::new();
        let mut more = 0;
        for (n, error) in self.validator.iter_errors(document).enumerate() {
            if n >= PLACES_MAX {
                more += 1;
                continue;
            }
            let between = if n == 0 { "" } else { "; " };
            // Writing into a text cannot fail.
            let _ = write!(text, "{between}{}: {}", place(error.instance_path().as_str()), error.kind().keyword());
            if let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() {
                let _ = write!(text, " {name}");
            }
        }
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        Err(text)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("draft", &self.draft).finish_non_exhaustive()
    }
}

/// A path for people; the whole document is `/`.
fn place(path: &str) -> String {
    if path.is_empty() {
        return "/".to_owned();
    }
    match path.char_indices().nth(PATH_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn draft(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(said) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    match said.as_str().map(|uri| uri.trim_end_matches('#')) {
        Some("http://json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        Some("https://json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some(other) => Err(SchemaError::Draft(other.to_owned())),
        None => Err(SchemaError::Draft(said.to_string())),
    }
}

/// References are to the schema's own parts.
fn stays_inside(schema: &Value, path: &mut String) -> Result<(), SchemaError> {
    let below = |name: &str, value: &Value, path: &mut String| {
        let length = path.len();
        let _ = write!(path, "/{name}");
        let inside = stays_inside(value, path);
        path.truncate(length);
        inside
    };
    match schema {
        Value::Object(map) => {
            for (name, value) in map {
                let outside = value.as_str().filter(|text| !text.starts_with('#'));
                if let (true, Some(reference)) = (matches!(&**name, "$ref" | "$dynamicRef"), outside) {
                    return Err(SchemaError::Outside { reference: reference.to_owned(), path: place(path) });
                }
                // What stands there is data, not schema.
                if !matches!(&**name, "const" | "enum" | "default" | "examples") {
                    below(name, value, path)?;
                }
            }
            Ok(())
        }
        Value::Array(list) => list.iter().enumerate().try_for_each(|(n, value)| below(&n.to_string(), value, path)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Schema::compile(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        assert!(refused("{").starts_with("it is not JSON: "));
        assert_eq!(refused("[]"), "a schema is an object, or true or false");
        assert!(
            refused(r#"{"properties": {"a": {"type": "strin"}}}"#).starts_with("it is broken at /properties/a/type: ")
        );
        assert!(refused(r#"{"required": "a"}"#).starts_with("it is broken at /required: "));
        assert!(refused(r#"{"pattern": "("}"#).contains("/pattern"), "{}", refused(r#"{"pattern": "("}"#));
        assert!(refused(r#"{"$schema": "http://json-schema.org/draft-04/schema#"}"#).contains("is unknown here"));
        assert!(refused(r#"{"$schema": "https://example.com/mine"}"#).contains("is unknown here"));
    }

    #[test]
    fn a_pattern_that_could_run_for_ever_is_refused_when_it_is_read() {
        assert!(refused(r#"{"pattern": "(a)\\1"}"#).contains("/pattern"));
        assert!(refused(r#"{"pattern": "^(?=a)"}"#).contains("/pattern"));
    }

    #[test]
    fn nothing_outside_is_asked_for() {
        let outside = refused(r#"{"properties": {"a": {"$ref": "https://example.com/a.json"}}}"#);
        assert!(outside.starts_with("it refers to \"https://example.com/a.json\" at /properties/a;"), "{outside}");
        assert!(refused(r#"{"$ref": "file:///etc/passwd"}"#).contains("nothing is fetched"));
        assert!(refused(r#"{"$ref": "other.json#/a"}"#).contains("nothing is fetched"));
        assert!(Schema::compile(r##"{"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}"##).is_ok());
        assert!(Schema::compile(r#"{"properties": {"x": {"const": {"$ref": "https://example.com"}}}}"#).is_ok());
    }

    #[test]
    fn a_breach_names_paths_and_keywords_and_never_a_value() {
        let schema = Schema::compile(
            r#"{"type": "object", "required": ["id", "card"], "additionalProperties": false, "properties": {
                "id": {"pattern": "^[a-z]+$"}, "card": {"enum": ["x"]}, "n": {"type": "integer"}, "at": {"format": "date-time"},
                "list": {"uniqueItems": true, "contains": {"const": 1}}, "either": {"anyOf": [{"type": "string"}, {"const": 7}]}}}"#,
        )
        .unwrap();
        let canary = "CANARY-4111";
        let document = serde_json::json!({ "id": canary, "n": canary, "at": canary, "list": [canary, canary], "either": [canary], canary: 1 });
        let said = schema.breaches(&document).unwrap_err();
        assert!(!said.contains("CANARY"), "{said}");
        for part in ["/id: pattern", "/at: format", "/either: anyOf", "; and 3 more"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let said = schema.breaches(&serde_json::json!({ "id": "a" })).unwrap_err();
        assert_eq!(said, "/: required card");
        assert_eq!(schema.breaches(&serde_json::json!({ "id": "a", "card": "x" })), Ok(()));
    }

    #[test]
    fn formats_are_rules_in_both_drafts() {
        for draft in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"] {
            let schema = Schema::compile(&format!(r#"{{"$schema": "{draft}", "format": "date-time"}}"#)).unwrap();
            assert_eq!(schema.breaches(&"yesterday".into()), Err("/: format".to_owned()), "{draft}");
            assert_eq!(schema.breaches(&"2024-01-15T10:30:00.123456+00:00".into()), Ok(()), "{draft}");
        }
    }
}
