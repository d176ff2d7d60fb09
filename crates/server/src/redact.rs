//! Parts of payloads that nobody is shown: JSON paths by event type.

use postroom_core::Pattern;
use serde_json::Value;

/// What stands where something was.
const GONE: &str = "[redacted]";

/// Paths by event type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redaction(Vec<(Pattern, Vec<JsonPath>)>);

/// A path into a JSON value: `$.card.number`, `$.items[*].iban`, `$..password`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
    /// Every entry of a list or an object.
    Each,
    /// That name, however deep.
    Anywhere(String),
}

impl Redaction {
    /// Creates a redaction with these rules.
    pub fn new(rules: Vec<(Pattern, Vec<JsonPath>)>) -> Self {
        Self(rules)
    }

    /// The payload of an event of this type without what must not be shown.
    ///
    /// One that is no JSON object or list is left out as a whole: nobody can find anything in it.
    pub fn apply(&self, event_type: &str, mut payload: Value) -> Value {
        for path in self.0.iter().filter(|(pattern, _)| pattern.matches(event_type)).flat_map(|(_, paths)| paths) {
            if !(payload.is_object() || payload.is_array()) {
                return Value::from(GONE);
            }
            remove(&mut payload, &path.0);
        }
        payload
    }
}

fn remove(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else {
        *value = Value::from(GONE);
        return;
    };
    match (step, value) {
        (Step::Name(name), Value::Object(fields)) => fields.get_mut(name).into_iter().for_each(|v| remove(v, rest)),
        (Step::Index(index), Value::Array(list)) => list.get_mut(*index).into_iter().for_each(|v| remove(v, rest)),
        (Step::Each, Value::Array(list)) => list.iter_mut().for_each(|v| remove(v, rest)),
        (Step::Each, Value::Object(fields)) => fields.values_mut().for_each(|v| remove(v, rest)),
        (Step::Anywhere(_), Value::Array(list)) => list.iter_mut().for_each(|v| remove(v, steps)),
        (Step::Anywhere(name), Value::Object(fields)) => {
            for (field, inner) in fields.iter_mut() {
                if field == name {
                    remove(inner, rest);
                }
                remove(inner, steps);
            }
        }
        _ => {}
    }
}

impl JsonPath {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            Err(format!(
                "{text:?} is not a path: {why}; write for instance \"$.card.number\", \"$.items[*].iban\" or \"$..password\""
            ))
        };
        let Some(mut rest) = text.strip_prefix('$') else { return bad("it does not begin with `$`") };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix("..") {
                Some(after) => {
                    let (name, after) = name(after);
                    (Step::Anywhere(name.to_owned()).named(name), after)
                }
                None => match (rest.strip_prefix('.'), rest.strip_prefix('[')) {
                    (Some(after), _) => {
                        let (name, after) = name(after);
                        let step = if name == "*" { Step::Each } else { Step::Name(name.to_owned()) };
                        (step.named(name), after)
                    }
                    (None, Some(after)) => match after.split_once(']') {
                        Some((inside, after)) => (bracket(inside), after),
                        None => return bad("a bracket is not closed"),
                    },
                    (None, None) => return bad("a step begins with `.` or `[`"),
                },
            };
            let Some(step) = step else { return bad("a step has no name") };
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() { bad("it names nothing") } else { Ok(Self(steps)) }
    }
}

impl Step {
    /// Nothing, if its name is empty.
    fn named(self, name: &str) -> Option<Self> {
        (!name.is_empty()).then_some(self)
    }
}

/// The name at the front, and what comes after.
fn name(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

fn bracket(inside: &str) -> Option<Step> {
    let quoted = |quote: char| inside.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match (inside, quoted('\'').or_else(|| quoted('"'))) {
        ("*", _) => Some(Step::Each),
        (_, Some(name)) => Step::Name(name.to_owned()).named(name),
        (number, None) => number.parse().ok().map(Step::Index),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn redaction(paths: &[&str]) -> Redaction {
        let paths = paths.iter().map(|path| JsonPath::parse(path).unwrap()).collect();
        Redaction::new(vec![(Pattern::parse("payment.*").unwrap(), paths)])
    }

    #[test]
    fn what_a_path_names_is_gone_and_the_rest_stays() {
        let payload = json!({ "card": { "number": "4111", "name": "Ann" }, "items": [{ "iban": "DE1" }, { "iban": "DE2", "n": 1 }],
            "deep": { "er": [{ "password": "x" }] }, "a.b": 1 });
        let apply = |paths: &[&str]| redaction(paths).apply("payment.made", payload.clone());
        assert_eq!(apply(&["$.card.number"])["card"], json!({ "number": GONE, "name": "Ann" }));
        assert_eq!(apply(&["$.items[*].iban"])["items"], json!([{ "iban": GONE }, { "iban": GONE, "n": 1 }]));
        assert_eq!(apply(&["$.items[1]"])["items"], json!([{ "iban": "DE1" }, GONE]));
        assert_eq!(apply(&["$..password"])["deep"]["er"][0]["password"], GONE);
        assert_eq!(apply(&["$['a.b']"])["a.b"], GONE);
        assert_eq!(apply(&["$.card.*"])["card"], json!({ "number": GONE, "name": GONE }));
        assert_eq!(apply(&["$.nobody.home"]), payload);
        assert_eq!(redaction(&["$.card"]).apply("order.placed", payload.clone()), payload);
        assert_eq!(redaction(&["$.card"]).apply("payment.made", json!("4111 by text")), json!(GONE));
    }

    #[test]
    fn what_is_no_path_is_named() {
        for bad in ["card", "$", "$.", "$.a[", "$.a[x]", "$x", "$..", "$.a..", "$['']"] {
            assert!(JsonPath::parse(bad).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
    }
}
