//! Names made from events: `{prefix}.{type|lower}` for a topic, `{aggregate_type}.{type}` for a routing key.
//!
//! What the parts may be is decided here; which characters a whole name may have is the transport's business.

use std::borrow::Cow;

use serde_json::Value;

use crate::event::Event;
use crate::failure::Failure;

/// Name with placeholders for fields of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Part { part: Part, lower: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Type,
    AggregateType,
    AggregateId,
    Key,
    Tenant,
    Attribute(String),
    Header(String),
}

/// Error of a template that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A brace without its partner.
    #[error("{0:?} has a brace without its partner")]
    Braces(String),
    /// Nothing an event has.
    #[error(
        "{{{0}}} is nothing a name can be made of; choose one of type, aggregate_type, aggregate_id, key, tenant, \
         attributes.NAME, headers.NAME"
    )]
    UnknownPart(String),
    /// No such change.
    #[error("{0:?} is nothing that can be done to a part; there is `lower`")]
    UnknownChange(String),
    /// Nothing at all.
    #[error("a name cannot be empty")]
    Empty,
}

impl Template {
    /// Parses a template. `constants` are names that the configuration has fixed, for instance `prefix`.
    pub fn parse(text: &str, constants: &[(&str, &str)]) -> Result<Self, TemplateError> {
        let braces = || TemplateError::Braces(text.to_owned());
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (inner, after) = after.split_once('}').ok_or_else(braces)?;
            push_text(&mut pieces, before);
            let (name, change) = inner.split_once('|').map_or((inner, None), |(name, change)| (name, Some(change)));
            let lower = match change {
                None => false,
                Some("lower") => true,
                Some(other) => return Err(TemplateError::UnknownChange(other.to_owned())),
            };
            match constants.iter().find(|(constant, _)| *constant == name) {
                Some((_, value)) if lower => push_text(&mut pieces, &value.to_lowercase()),
                Some((_, value)) => push_text(&mut pieces, value),
                None => pieces.push(Piece::Part { part: Part::parse(name)?, lower }),
            }
            rest = after;
        }
        push_text(&mut pieces, rest);
        if pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains(['{', '}']))) {
            return Err(braces());
        }
        if pieces.is_empty() {
            return Err(TemplateError::Empty);
        }
        Ok(Self { text: text.to_owned(), pieces })
    }

    /// Returns the text of the template in the configuration.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name, if it is the same for every event.
    pub fn fixed(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the common prefix of all names; the whole name if it is fixed.
    pub fn start(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// Reports whether the name could be that of an event: it has every fixed part, in their order, and something between them.
    pub fn makes(&self, name: &str) -> bool {
        let mut rest = name;
        let mut after_part = false;
        for (n, piece) in self.pieces.iter().enumerate() {
            let Piece::Text(text) = piece else {
                after_part = true;
                continue;
            };
            let is_last = n + 1 == self.pieces.len();
            let found = match (after_part, is_last) {
                (false, _) => rest.starts_with(text.as_str()).then_some(0),
                (true, true) => {
                    (rest.len() > text.len() && rest.ends_with(text.as_str())).then(|| rest.len() - text.len())
                }
                (true, false) => {
                    rest.char_indices().nth(1).and_then(|(n, _)| Some(n + rest.get(n..)?.find(text.as_str())?))
                }
            };
            let Some(end) = found.and_then(|at| rest.get(at + text.len()..)) else { return false };
            (rest, after_part) = (end, false);
        }
        rest.is_empty() != after_part
    }

    /// Renders the name for an event.
    ///
    /// Types are hierarchies made by developers, so their dots structure the name. Everything else is data: a dot in a
    /// tenant would put its events where another's are looked for, and is refused. So are wildcards, white space and
    /// control characters everywhere, and the character that separates a part from the next one, in all parts but the last:
    /// in `{tenant}:{key}` a tenant has no colon. Dashes and underscores are too usual in names to be refused.
    pub fn render(&self, event: &Event) -> Result<Cow<'_, str>, Failure> {
        if let Some(name) = self.fixed() {
            return Ok(Cow::Borrowed(name));
        }
        let mut name = String::with_capacity(self.text.len() + 16);
        for (n, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Part { part, lower } => {
                    let value = part.of(event).filter(|value| !value.is_empty()).ok_or_else(|| {
                        let error =
                            format!("{:?} needs {}, which event {} does not have", self.text, part.name(), event.id);
                        Failure::permanent("template.missing", error)
                    })?;
                    let separator = self.separator_after(n).filter(|separator| value.contains(*separator));
                    if let Some(bad) = part.refused(&value).or(separator) {
                        let error = format!(
                            "{} of event {} cannot be part of {:?}: it contains {bad:?}",
                            part.name(),
                            event.id,
                            self.text
                        );
                        return Err(Failure::permanent("template.value", error));
                    }
                    if *lower { name.push_str(&value.to_lowercase()) } else { name.push_str(&value) }
                }
            }
        }
        Ok(Cow::Owned(name))
    }

    /// What stands between this piece and a later part, and so may not be in it.
    fn separator_after(&self, n: usize) -> Option<char> {
        let [Piece::Text(text), rest @ ..] = self.pieces.get(n + 1..)? else { return None };
        let is_between = rest.iter().any(|piece| matches!(piece, Piece::Part { .. }));
        text.chars().next().filter(|c| is_between && c.is_ascii_punctuation() && !matches!(c, '.' | '-' | '_'))
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

impl Part {
    fn parse(name: &str) -> Result<Self, TemplateError> {
        Ok(match name {
            "type" => Self::Type,
            "aggregate_type" => Self::AggregateType,
            "aggregate_id" => Self::AggregateId,
            "key" => Self::Key,
            "tenant" => Self::Tenant,
            other => match (other.strip_prefix("attributes."), other.strip_prefix("headers.")) {
                (Some(name), _) if !name.is_empty() => Self::Attribute(name.to_owned()),
                (_, Some(name)) if !name.is_empty() => Self::Header(name.to_owned()),
                _ => return Err(TemplateError::UnknownPart(other.to_owned())),
            },
        })
    }

    fn name(&self) -> String {
        match self {
            Self::Type => "type".to_owned(),
            Self::AggregateType => "aggregate_type".to_owned(),
            Self::AggregateId => "aggregate_id".to_owned(),
            Self::Key => "key".to_owned(),
            Self::Tenant => "tenant".to_owned(),
            Self::Attribute(name) => format!("attributes.{name}"),
            Self::Header(name) => format!("headers.{name}"),
        }
    }

    fn of(&self, event: &Event) -> Option<String> {
        match self {
            Self::Type => Some(event.event_type.clone()),
            Self::AggregateType => event.aggregate_type.clone(),
            Self::AggregateId => event.aggregate_id.clone(),
            Self::Key => event.ordering_key().map(str::to_owned),
            Self::Tenant => event.tenant.clone(),
            Self::Header(name) => event.headers.get(name).cloned(),
            Self::Attribute(name) => match event.attributes.get(name)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            },
        }
    }

    /// What in the value would change the structure of the name.
    fn refused(&self, value: &str) -> Option<char> {
        let structured = matches!(self, Self::Type | Self::AggregateType);
        let edge = value.starts_with('.') || value.ends_with('.') || value.contains("..");
        value
            .chars()
            .find(|c| c.is_control() || c.is_whitespace() || matches!(c, '*' | '>' | '#' | '/' | '\\'))
            .or_else(|| (edge || (!structured && value.contains('.'))).then_some('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::new("Order.Placed").id("e-1").aggregate("order", "o-7").tenant("acme").attribute("station_id", 9)
    }

    fn rendered(text: &str, event: &Event) -> Result<String, String> {
        Template::parse(text, &[("prefix", "Shop")])
            .unwrap()
            .render(event)
            .map(Cow::into_owned)
            .map_err(|f| f.code.into_owned())
    }

    #[test]
    fn names_are_made_of_text_constants_and_parts() {
        for (text, name) in [
            ("orders.v1", "orders.v1"),
            ("{prefix}.{type|lower}", "Shop.order.placed"),
            ("{prefix|lower}-{aggregate_type}.{aggregate_id}", "shop-order.o-7"),
            ("{tenant}.{key}.{attributes.station_id}", "acme.o-7.9"),
        ] {
            assert_eq!(rendered(text, &event()).as_deref(), Ok(name));
        }
        assert_eq!(Template::parse("{prefix}.v1", &[("prefix", "shop")]).unwrap().fixed(), Some("shop.v1"));
        assert_eq!(Template::parse("{type}", &[]).unwrap().fixed(), None);
        assert_eq!(Template::parse("{prefix}.{type}.x", &[("prefix", "shop")]).unwrap().start(), "shop.");
        assert_eq!(Template::parse("{type}.x", &[]).unwrap().start(), "");
    }

    #[test]
    fn a_name_that_it_could_make_is_told_from_others() {
        for (text, ours, others) in [
            ("orders.v1", &["orders.v1"][..], &["orders.v10", "my.orders.v1", ""][..]),
            ("shop.{type}", &["shop.placed", "shop.a.b"], &["shop.", "shop", "shopping"]),
            ("{tenant}.orders", &["acme.orders", "a.orders.orders"], &[".orders", "orders", "acme.orders.x"]),
            ("eu.{tenant}.o.{type}", &["eu.acme.o.placed", "eu.o.o.o.o"], &["eu..o.placed", "eu.acme.o.", "eu.acme.p"]),
        ] {
            let template = Template::parse(text, &[]).unwrap();
            assert!(ours.iter().all(|name| template.makes(name)), "{text}");
            assert!(!others.iter().any(|name| template.makes(name)), "{text}");
        }
    }

    #[test]
    fn a_value_cannot_smuggle_separators_or_wildcards() {
        for tenant in ["a.b", ".", "..", "a*", "a>", "#", "a b", "a\r\nb", "a\u{a0}b", "../x"] {
            assert_eq!(rendered("{tenant}.x", &event().tenant(tenant)), Err("template.value".to_owned()), "{tenant:?}");
        }
        for (text, allowed) in
            [("{tenant}:{key}", false), ("{key}:{tenant}", true), ("{tenant}:v1", true), ("x:{tenant}", true)]
        {
            assert_eq!(rendered(text, &event().tenant("acme:eu")).is_ok(), allowed, "{text}");
        }
        for event_type in ["a..b", ".a", "a.", "a.*", "a >", "a/b"] {
            assert_eq!(
                rendered("x.{type}", &Event::new(event_type)),
                Err("template.value".to_owned()),
                "{event_type:?}"
            );
        }
    }

    #[test]
    fn a_part_the_event_does_not_have_is_a_permanent_failure_that_names_it() {
        let template = Template::parse("{tenant}.x", &[]).unwrap();
        let failure = template.render(&Event::new("t").id("e-9")).unwrap_err();
        assert_eq!(failure.kind, crate::FailureKind::Permanent);
        assert_eq!(failure.error, "\"{tenant}.x\" needs tenant, which event e-9 does not have");
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in ["", "{type", "type}", "{typ}", "{type|upper}", "{attributes.}", "{}", "a{b{type}}"] {
            assert!(Template::parse(text, &[]).is_err(), "{text}");
        }
    }
}
