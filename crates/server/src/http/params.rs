//! Parameters of requests: each endpoint declares its parameters, and requests are checked against them.

use std::collections::BTreeMap;

use postroom_admin::{Role, Scope};
use postroom_core::units::{parse_ago, parse_duration, parse_rate};
use postroom_core::{Pattern, Timestamp};
use serde_json::{Map, Value};

use super::endpoints::ALL;
use super::problem::Problem;

/// Longest text of a parameter.
const TEXT_BYTES_MAX: usize = 1024;
/// Maximum number of entries of a list.
const LIST_MAX: usize = 1000;

/// Parameters that select events.
const SELECTING: [&str; 9] = ["ids", "route", "type", "key", "aggregate_type", "tenant", "from", "to", "code"];

/// Parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) at: At,
    pub(crate) kind: Kind,
    pub(crate) must: bool,
    pub(crate) about: &'static str,
}

/// Place of a parameter in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Path,
    Query,
    Body,
    /// The body itself, which the endpoint reads.
    WholeBody,
}

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Flag,
    /// Whole number between the first two; the third is the default.
    Number(u32, u32, u32),
    /// Time: RFC 3339, or how long ago.
    Time,
    /// Duration, for instance `30d`.
    Duration,
    /// Duration, or `never`.
    Expiry,
    /// Rate, for instance `50/s`.
    Rate,
    /// Pattern of event types.
    Pattern,
    Role,
    /// Position at which a list continues, from a `Link` header.
    Cursor,
    /// Place at which a list continues, from a `Link` header: this many texts.
    Place(usize),
    /// List of texts.
    Texts,
    /// List of objects, which the endpoint checks itself.
    Objects,
    /// One event, or a list of events, which the endpoint checks itself.
    Events,
}

pub(crate) const fn path(name: &'static str, about: &'static str) -> Param {
    Param { name, at: At::Path, kind: Kind::Text, must: true, about }
}

pub(crate) const fn query(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, at: At::Query, kind, must: false, about }
}

pub(crate) const fn body(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, at: At::Body, kind, must: false, about }
}

pub(crate) const fn whole_body(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, at: At::WholeBody, kind, must: true, about }
}

pub(crate) const fn must(param: Param) -> Param {
    Param { must: true, ..param }
}

/// Checked parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Given(BTreeMap<&'static str, Value>);

impl Given {
    /// Reads the parameters of a request; an undeclared parameter is an error.
    pub(crate) fn read(
        params: &'static [Param],
        path: &[(String, String)],
        query: &str,
        body: &[u8],
    ) -> Result<Self, Problem> {
        let mut given = Self::default();
        for (name, value) in path {
            given.put(params, At::Path, name, Value::String(value.clone()))?;
        }
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            given.put(params, At::Query, &name, Value::String(value.into_owned()))?;
        }
        let is_whole = |param: &Param| param.at == At::WholeBody;
        if !params.iter().any(is_whole) {
            for (name, value) in object(body)? {
                given.put(params, At::Body, &name, value)?;
            }
        }
        given.check_selection(params)?;
        match params.iter().find(|param| param.must && !is_whole(param) && !given.0.contains_key(param.name)) {
            Some(missing) => Err(Problem::parameter(missing.name, "is missing", missing.about)),
            None => Ok(given),
        }
    }

    /// Fails if an endpoint that acts on what is selected is told nothing: an empty list in a program must not mean everything.
    fn check_selection(&self, params: &'static [Param]) -> Result<(), Problem> {
        if !params.iter().any(|param| param.name == ALL.name) || self.flag(ALL.name) {
            return Ok(());
        }
        let hint = "send ids, a filter such as `route`, or `\"all\": true` for every delivery";
        if self.0.get("ids").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            return Err(Problem::parameter("ids", "is an empty list", hint));
        }
        if SELECTING.iter().any(|name| self.0.contains_key(name)) {
            return Ok(());
        }
        Err(Problem::parameter(ALL.name, "is missing, and nothing is selected", hint))
    }

    /// Limits a request to the scope of its caller: a parameter that is left out is filled in where there is only one choice,
    /// and an endpoint without the parameter cannot be limited, so it is refused.
    pub(crate) fn limit_to(&mut self, scope: &Scope, params: &'static [Param]) -> Result<(), Problem> {
        if let Some(tenant) = &scope.tenant {
            self.limit("tenant", std::slice::from_ref(tenant), params)?;
        }
        if !scope.routes.is_empty() {
            self.limit("route", &scope.routes, params)?;
        }
        Ok(())
    }

    fn limit(&mut self, name: &str, allowed: &[String], params: &'static [Param]) -> Result<(), Problem> {
        let Some(param) = params.iter().find(|param| param.name == name) else {
            return Err(Problem::out_of_scope(name, allowed));
        };
        match (self.text(name), allowed) {
            (Some(given), _) if allowed.iter().any(|allowed| allowed == given) => Ok(()),
            (Some(_), _) => Err(Problem::out_of_scope(name, allowed)),
            (None, [only]) => {
                self.0.insert(param.name, Value::String(only.clone()));
                Ok(())
            }
            (None, _) => {
                let choices = format!("the token is limited to one of {}", allowed.join(", "));
                Err(Problem::parameter(name, "is missing", &choices))
            }
        }
    }

    fn put(&mut self, params: &'static [Param], at: At, name: &str, value: Value) -> Result<(), Problem> {
        let Some(param) = params.iter().find(|param| param.at == at && param.name == name) else {
            let known: Vec<&str> = params.iter().filter(|param| param.at == at).map(|param| param.name).collect();
            let known = if known.is_empty() {
                "no parameter is known".to_owned()
            } else {
                format!("known parameters: {}", known.join(", "))
            };
            return Err(Problem::parameter(name, "is unknown", &known));
        };
        if value.is_null() {
            return Ok(());
        }
        if self.0.contains_key(param.name) {
            return Err(Problem::parameter(name, "is given twice", param.about));
        }
        let value = param.kind.check(value).map_err(|why| Problem::parameter(name, &why, param.about))?;
        self.0.insert(param.name, value);
        Ok(())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn owned(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns a number, or the default.
    pub(crate) fn number(&self, name: &str, otherwise: usize) -> usize {
        self.0.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(otherwise)
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        parse_ago(self.text(name)?).ok()
    }

    pub(crate) fn duration(&self, name: &str) -> Option<std::time::Duration> {
        parse_duration(self.text(name)?).ok()
    }

    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        parse_rate(self.text(name)?).ok()
    }

    pub(crate) fn pattern(&self, name: &str) -> Option<Pattern> {
        Pattern::parse(self.text(name)?).ok()
    }

    pub(crate) fn role(&self, name: &str) -> Option<Role> {
        Role::parse(self.text(name)?)
    }

    pub(crate) fn cursor(&self, name: &str) -> Option<i64> {
        cursor(self.text(name)?)
    }

    /// The parts of a place.
    pub(crate) fn place(&self, name: &str) -> Option<Vec<String>> {
        place(self.text(name)?)
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(crate) fn objects(&self, name: &str) -> &[Value] {
        self.0.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The fields of a body; none where there is none.
fn object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::body("it is not an object")),
        // The words of the parser tell where it stopped, and nothing of what stands there.
        Err(error) => Err(Problem::body(&format!("line {}, column {}", error.line(), error.column()))),
    }
}

impl Kind {
    /// The value as it is kept, or what is wrong with it.
    fn check(self, value: Value) -> Result<Value, String> {
        match self {
            Self::Flag => flag(&value).map(Value::Bool).ok_or_else(|| "must be true or false".to_owned()),
            Self::Number(least, most, _) => number(&value, least, most),
            Self::Texts => texts(value),
            Self::Objects => match &value {
                Value::Array(list) if list.len() <= LIST_MAX && list.iter().all(Value::is_object) => Ok(value),
                _ => Err(format!("must be a list of at most {LIST_MAX} objects")),
            },
            _ => self.check_text(value),
        }
    }

    fn check_text(self, value: Value) -> Result<Value, String> {
        let Value::String(text) = value else { return Err("must be a text".to_owned()) };
        check_text(&text)?;
        let fits = match self {
            Self::Time => parse_ago(&text).map(drop),
            Self::Expiry if text == "never" => Ok(()),
            Self::Duration | Self::Expiry => parse_duration(&text).map(drop),
            Self::Rate => parse_rate(&text).map(drop),
            Self::Pattern => Pattern::parse(&text).map(drop).map_err(|error| error.to_string()),
            Self::Role => {
                Role::parse(&text).map(drop).ok_or_else(|| "must be worker, viewer, operator or admin".to_owned())
            }
            Self::Cursor if cursor(&text).is_none() => Err(MADE_UP.to_owned()),
            Self::Place(parts) if place(&text).is_none_or(|place| place.len() != parts) => Err(MADE_UP.to_owned()),
            _ => Ok(()),
        };
        fits.map(|()| Value::String(text))
    }
}

fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.as_str() {
            "true" | "1" | "" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn number(value: &Value, least: u32, most: u32) -> Result<Value, String> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let fits = number.filter(|number| (u64::from(least)..=u64::from(most)).contains(number));
    fits.map(Value::from).ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

fn texts(value: Value) -> Result<Value, String> {
    let wrong = || format!("must be a list of at most {LIST_MAX} texts");
    let list = value.as_array().filter(|list| list.len() <= LIST_MAX).ok_or_else(wrong)?;
    for entry in list {
        check_text(entry.as_str().ok_or_else(wrong)?)?;
    }
    Ok(value)
}

/// What no database keeps in a text, and what nobody means.
fn check_text(text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("is longer than {TEXT_BYTES_MAX} bytes"));
    }
    if text.contains('\0') {
        return Err("contains a NUL character".to_owned());
    }
    Ok(())
}

/// What is said of a cursor that nobody was given.
pub(crate) const MADE_UP: &str = "was not issued by this API";

/// Where a list of such parts goes on, as it is given out.
pub(crate) fn place_at(parts: &[&str]) -> String {
    Value::from(parts).to_string()
}

fn place(text: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = serde_json::from_str(text).ok()?;
    // No row has such a text, and a database refuses it.
    parts.iter().all(|part| !part.contains('\0')).then_some(parts)
}

/// Where a list goes on, as it is given out.
pub(crate) fn cursor_at(position: i64) -> String {
    format!("p{position:x}")
}

fn cursor(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('p').filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit()))?;
    i64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMS: &[Param] = &[
        query("limit", Kind::Number(1, 1000, 50), "most rows"),
        query("from", Kind::Time, "then or later"),
        query("cursor", Kind::Cursor, "the next page"),
        must(body("key", Kind::Text, "the key")),
        body("ids", Kind::Texts, "these"),
        body("dry_run", Kind::Flag, "only look"),
    ];

    fn read(query: &str, body: &str) -> Result<Given, String> {
        Given::read(PARAMS, &[], query, body.as_bytes()).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn what_is_declared_is_read() {
        let given = read("limit=7&from=1h&cursor=p1f", r#"{"key": "a", "ids": ["x"], "dry_run": true}"#).unwrap();
        assert_eq!((given.number("limit", 50), given.cursor("cursor")), (7, Some(31)));
        assert_eq!((given.text("key"), given.texts("ids")), (Some("a"), vec!["x".to_owned()]));
        assert!(given.flag("dry_run") && given.time("from").is_some());
        assert_eq!(cursor(&cursor_at(31)), Some(31));
        assert_eq!(place(&place_at(&["7", "a\0"])), None);
        assert_eq!(place(&place_at(&["7", "ä\"\n"])), Some(vec!["7".to_owned(), "ä\"\n".to_owned()]));
    }

    #[test]
    fn what_is_not_is_named() {
        let key = r#"{"key": "a"}"#;
        for (query, body, says) in [
            ("", "", "`key` is missing"),
            ("limits=7", key, "`limits` is unknown"),
            ("limit=0", key, "`limit` must be a whole number from 1 to 1000"),
            ("limit=1&limit=2", key, "`limit` is given twice"),
            ("limit=99999999999999999999", key, "`limit` must be"),
            ("from=yesterday", key, "is not a time"),
            ("cursor=12", key, "`cursor` was not issued by this API"),
            ("cursor=p-1", key, "`cursor` was not issued by this API"),
            ("", r#"{"key": 7}"#, "`key` must be a text"),
            ("", r#"{"key": "a\u0000b"}"#, "`key` contains a NUL character"),
            ("", r#"{"key": "a", "ids": "b"}"#, "`ids` must be a list"),
            ("", "[]", "it is not an object"),
            ("", "{\"key\": ", "line 1, column 8"),
        ] {
            let said = read(query, body).unwrap_err();
            assert!(said.contains(says), "{query} {body}: {said}");
        }
    }
}
