//! What workers in any language are told and answer, as JSON: a child process line by line, others over HTTP.

use std::fmt;

use postroom_core::envelope::Encoder;
use postroom_core::{
    ERROR_BYTES_MAX, Failure, FailureKind, HandlerError, Outbound, Outcome, RETRY_AFTER_MAX, Receipt, units,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Most errors of one answer that are kept.
const HANDLERS_MAX: usize = 64;

/// Delivery as a worker receives it.
#[derive(Debug, Serialize)]
pub struct WorkerRequest<'a> {
    /// Lease by which the worker settles the delivery, if it is not the event id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Id of the event.
    pub id: &'a str,
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: &'a str,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Name of the route.
    pub route: &'a str,
    /// Encoded event.
    pub envelope: &'a RawValue,
}

/// Encodes the event of a delivery as JSON; `code` is that of the failure if the envelope is not JSON.
pub fn envelope(encoder: &Encoder, outbound: &Outbound, code: &'static str) -> Result<Box<RawValue>, Failure> {
    let event = &outbound.event;
    let body = encoder.encode(event, outbound.stage())?.body;
    serde_json::from_slice(&body).map_err(|_| {
        let (id, kind) = (&event.id, &event.content_type);
        let error = format!("the envelope of event {id} ({kind}) is not JSON, which is all a worker can be told; use the structured envelope");
        Failure::permanent(code, error)
    })
}

/// Reason why a text is not an answer; quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAnAnswer {
    /// The answer is not JSON.
    NotJson,
    /// The answer is not an object.
    NotAnObject,
    /// This field, which identifies the delivery, is missing.
    Missing(&'static str),
    /// This field has the wrong type.
    WrongType(&'static str),
    /// The answer has neither `ok` nor an error.
    NeitherOkNorError,
}

impl fmt::Display for NotAnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson => f.write_str("it is not JSON"),
            Self::NotAnObject => f.write_str("it is not a JSON object"),
            Self::Missing(field) => write!(f, "it has no `{field}`"),
            Self::WrongType(field) => write!(f, "its `{field}` has the wrong type"),
            Self::NeitherOkNorError => f.write_str("it has neither `ok` nor `error`"),
        }
    }
}

/// What an answer says came of a delivery; `code` is that of a failure. An error beside `ok` counts as an error: better twice
/// than never.
pub fn outcome(fields: &mut Map<String, Value>, code: &'static str) -> Result<Outcome, NotAnAnswer> {
    let mut field = |name| fields.remove(name).filter(|value| !value.is_null());
    let ok = flag("ok", field("ok").as_ref())?;
    let permanent = flag("permanent", field("permanent").as_ref())?.unwrap_or(false);
    let error = match field("error") {
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(NotAnAnswer::WrongType("error")),
        None => None,
    };
    let handlers = match field("errors") {
        Some(list) => handler_errors(list)?,
        None => Vec::new(),
    };
    let text = match (ok, error) {
        (_, Some(text)) => text,
        _ if !handlers.is_empty() => joined(&handlers),
        (Some(true), None) => return Ok(Ok(Receipt::default())),
        (Some(false), None) => "the handler gave no reason".to_owned(),
        (None, None) => return Err(NotAnAnswer::NeitherOkNorError),
    };
    let kind = if permanent { FailureKind::Permanent } else { FailureKind::Transient };
    let mut failure = Failure::new(kind, code, text);
    failure.handlers = handlers;
    // A wish we cannot read is no reason to lose the answer.
    failure.retry_after = field("retry_after")
        .and_then(|wish| units::parse_duration(wish.as_str()?).ok())
        .map(|wish| wish.min(RETRY_AFTER_MAX));
    Ok(Err(failure))
}

fn flag(name: &'static str, value: Option<&Value>) -> Result<Option<bool>, NotAnAnswer> {
    match value {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(NotAnAnswer::WrongType(name)),
    }
}

fn handler_errors(list: Value) -> Result<Vec<HandlerError>, NotAnAnswer> {
    let errors: Vec<HandlerError> = serde_json::from_value(list).map_err(|_| NotAnAnswer::WrongType("errors"))?;
    Ok(errors.into_iter().take(HANDLERS_MAX).map(bounded).collect())
}

/// The same limits as any other error text: one line, so long.
fn bounded(error: HandlerError) -> HandlerError {
    let line = |text: String| Failure::transient("", text).error;
    HandlerError { handler: line(error.handler), error: line(error.error) }
}

fn joined(handlers: &[HandlerError]) -> String {
    let mut text = String::new();
    for HandlerError { handler, error } in handlers {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(handler);
        text.push_str(": ");
        text.push_str(error);
        if text.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    text
}
