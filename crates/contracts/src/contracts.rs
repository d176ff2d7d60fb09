//! Which schema an event must keep to: by type, and by version where one has its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_core::envelope::Encoder;
use postroom_core::{Contract, Event, EventError, Stage};
use serde::Serialize;
use serde_json::Value;

use crate::schema::{Draft, Schema, SchemaError};

/// Part of an event that a schema describes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AppliesTo {
    /// Payload of the event.
    #[default]
    Payload,
    /// Body that a route's encoder makes of the event.
    Envelope,
}

/// Handling of events that violate their schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// The event is not appended, and not sent.
    #[default]
    Enforce,
    /// The violation is logged, and the event goes on.
    Warn,
}

/// Schemas by event type.
#[derive(Debug, Clone, Default)]
pub struct Contracts {
    applies_to: AppliesTo,
    mode: Mode,
    types: BTreeMap<String, Versions>,
    dead_letters: Option<Arc<Schema>>,
}

#[derive(Debug, Clone, Default)]
struct Versions {
    any: Option<Known>,
    one: BTreeMap<i32, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    schema: Arc<Schema>,
    origin: String,
}

/// Schema in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Version of the event type; `None` is every version without a schema of its own.
    pub version: Option<i32>,
    /// Draft of JSON Schema.
    pub draft: Draft,
    /// Origin of the schema: a file, or a line of the configuration.
    pub from: String,
    /// Handling of events that violate the schema.
    pub mode: Mode,
    /// Part of an event that the schema describes.
    pub applies_to: AppliesTo,
}

impl Contracts {
    /// Creates contracts without schemas: every event passes.
    pub fn new(applies_to: AppliesTo, mode: Mode) -> Self {
        Self { applies_to, mode, types: BTreeMap::new(), dead_letters: None }
    }

    /// Adds the schema of a type, for one version or for all that have none of their own. `origin` is for people.
    ///
    /// One that is there already is replaced.
    pub fn add(
        &mut self,
        event_type: impl Into<String>,
        version: Option<i32>,
        text: &str,
        origin: impl Into<String>,
    ) -> Result<(), SchemaError> {
        let known = Known { schema: Arc::new(Schema::compile(text)?), origin: origin.into() };
        let versions = self.types.entry(event_type.into()).or_default();
        match version {
            Some(version) => drop(versions.one.insert(version, known)),
            None => versions.any = Some(known),
        }
        Ok(())
    }

    /// Adds the schema of the bodies that are published as dead letters. A dead letter that violates it is logged, and published
    /// all the same: it has no other place to go.
    pub fn add_dead_letters(&mut self, text: &str) -> Result<(), SchemaError> {
        self.dead_letters = Some(Arc::new(Schema::compile(text)?));
        Ok(())
    }

    /// Returns the origin of the schema of exactly this type and version, if there is one.
    pub fn origin(&self, event_type: &str, version: Option<i32>) -> Option<&str> {
        let versions = self.types.get(event_type)?;
        let known = version.map_or(versions.any.as_ref(), |version| versions.one.get(&version));
        known.map(|known| known.origin.as_str())
    }

    /// Returns the schema for an event of this type and version.
    pub fn schema(&self, event_type: &str, version: i32) -> Option<&Schema> {
        let versions = self.types.get(event_type)?;
        versions.one.get(&version).or(versions.any.as_ref()).map(|known| &*known.schema)
    }

    /// Returns the schemas of a type that a new one must not break: of the version itself, and of the newest before it.
    pub fn before(&self, event_type: &str, version: Option<i32>) -> Vec<(&str, &Schema)> {
        let Some(versions) = self.types.get(event_type) else { return Vec::new() };
        let older = match version {
            None => versions.any.iter().collect::<Vec<_>>(),
            Some(version) => {
                let newest = versions.one.range(..version).next_back().map(|(_, known)| known);
                [versions.one.get(&version), newest.or(versions.any.as_ref())].into_iter().flatten().collect()
            }
        };
        older.into_iter().map(|known| (known.origin.as_str(), &*known.schema)).collect()
    }

    /// Returns every schema, in order of type and version.
    pub fn rows(&self) -> Vec<Row> {
        let row = |event_type: &str, version, known: &Known| Row {
            event_type: event_type.to_owned(),
            version,
            draft: known.schema.draft(),
            from: known.origin.clone(),
            mode: self.mode,
            applies_to: self.applies_to,
        };
        let rows = self.types.iter().flat_map(|(name, versions)| {
            let any = versions.any.iter().map(|known| row(name, None, known));
            any.chain(versions.one.iter().map(|(version, known)| row(name, Some(*version), known)))
        });
        rows.collect()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty() && self.dead_letters.is_none()
    }

    /// Returns the handling of events that violate their schema.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the part of an event that the schemas describe.
    pub fn applies_to(&self) -> AppliesTo {
        self.applies_to
    }

    /// The schema of an event, if it has one.
    fn of(&self, event: &Event) -> Option<&Schema> {
        self.schema(&event.event_type, event.schema_version)
    }
}

/// At append. What the schemas say about envelopes is not asked here, because which envelope it will be is the route's
/// choice: that is [`Enveloped`]. With [`Mode::Warn`] it is logged.
impl Contract for Contracts {
    fn check(&self, event: &Event) -> Result<(), EventError> {
        match self.of(event).filter(|_| self.applies_to == AppliesTo::Payload) {
            Some(schema) => judge(self.mode, event, judged(schema, &event.payload)),
            None => Ok(()),
        }
    }
}

/// Contracts together with the envelope they may be about.
#[derive(Debug, Clone)]
pub struct Enveloped {
    contracts: Arc<Contracts>,
    encoder: Encoder,
}

impl Enveloped {
    /// Contracts for what this encoder makes.
    pub fn new(contracts: Arc<Contracts>, encoder: Encoder) -> Self {
        Self { contracts, encoder }
    }

    /// Returns the handling of events that violate their schema.
    pub fn mode(&self) -> Mode {
        self.contracts.mode
    }

    /// Returns the violations of an event, whatever the mode.
    pub fn breaches(&self, event: &Event, stage: Stage<'_>) -> Result<(), String> {
        let is_dead = stage.dead_letter.is_some();
        let schema = if is_dead { self.contracts.dead_letters.as_deref() } else { self.contracts.of(event) };
        let Some(schema) = schema else { return Ok(()) };
        if !is_dead && self.contracts.applies_to == AppliesTo::Payload {
            return judged(schema, &event.payload);
        }
        match self.encoder.encode(event, stage) {
            Ok(envelope) => judged(schema, &envelope.body),
            // What cannot be encoded is the transport's to say.
            Err(_) => Ok(()),
        }
    }
}

impl Contract for Enveloped {
    fn check(&self, event: &Event) -> Result<(), EventError> {
        judge(self.contracts.mode, event, self.breaches(event, Stage::default()))
    }
}

fn judged(schema: &Schema, bytes: &[u8]) -> Result<(), String> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(document) => schema.breaches(&document),
        Err(_) => Err("/: it is not JSON".to_owned()),
    }
}

fn judge(mode: Mode, event: &Event, found: Result<(), String>) -> Result<(), EventError> {
    match found {
        Err(breaches) if mode == Mode::Warn => {
            warn(event, &breaches);
            Ok(())
        }
        Err(breaches) => Err(EventError::Contract { event_type: event.event_type.clone(), breaches }),
        Ok(()) => Ok(()),
    }
}

pub(crate) fn warn(event: &Event, breaches: &str) {
    tracing::warn!(
        target: crate::LOG,
        event_id = event.id,
        event_type = event.event_type,
        breaches,
        "event violates its schema"
    );
}
