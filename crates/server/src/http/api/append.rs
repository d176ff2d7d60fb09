//! Appending events over HTTP: what `event append` does, for programs.

use std::collections::HashSet;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use postroom_core::{Event, EventError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::event_json::{EXAMPLE, EventJson};
use crate::http::call::Call;
use crate::http::problem::Problem;
use crate::transports;

/// Maximum number of events of one request.
const EVENTS_MAX: usize = 1000;

/// Appends all events in one transaction. An event that brings its id is appended once, however often it is sent.
pub(crate) async fn append(call: Call) -> Result<Response, Problem> {
    let config = call.config();
    let store = call.store(&config)?;
    let (mut events, mut is_named) = (Vec::new(), false);
    for (name, text) in texts(&call.body)? {
        let invalid = |error: EventError| Problem::parameter(&name, &format!("is refused: {error}"), error.hint());
        let event = EventJson::parse(text).map_err(|why| Problem::parameter(&name, &why, EXAMPLE))?;
        is_named |= event.is_named();
        let event = event.into_event();
        config.limits.check(&event).map_err(invalid)?;
        transports::check(&config, store, &event).map_err(invalid)?;
        events.push(event);
    }
    let admin = call.admin().await?;
    let appended = if is_named { admin.append_once(&events).await? } else { admin.append(&events).await? };
    // Of several with one id the first was appended.
    let mut told = HashSet::new();
    let mut row = |event: &Event| {
        let is_first = told.insert(event.id.clone());
        json!({ "id": event.id, "appended": is_first && appended.contains(&event.id) })
    };
    let rows: Vec<Value> = events.iter().map(&mut row).collect();
    Ok((StatusCode::CREATED, Json(json!({ "events": rows }))).into_response())
}

/// The events of a body, each with its name in errors: one object, or a list of them.
fn texts(body: &[u8]) -> Result<Vec<(String, &str)>, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::body("it is not UTF-8"))?.trim_ascii();
    if !text.starts_with('[') {
        return Ok(vec![("event".to_owned(), text)]);
    }
    let list: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| Problem::body(&format!("line {}, column {}", error.line(), error.column())))?;
    if !(1..=EVENTS_MAX).contains(&list.len()) {
        let why = format!("has {} entries, it must have 1 to {EVENTS_MAX}", list.len());
        return Err(Problem::parameter("events", &why, "send fewer events at a time"));
    }
    Ok(list.iter().enumerate().map(|(n, raw)| (format!("events[{n}]"), raw.get())).collect())
}
