//! Which schema an event must keep to: by type, and by version where one has its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_core::envelope::Encoder;
use postroom_core::{Contract, Event, EventError, Stage};
use serde::Serialize;
use serde_json::Value;

use crate::schema::{Draft, Schema, SchemaError};

/// What a schema describes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliesTo {
    /// The payload.
    #[default]
    Payload,
    /// What is sent: the body that a route's encoder makes.
    Envelope,
}

/// What happens to an event that breaks its contract.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is not appended, and not sent.
    #[default]
    Enforce,
    /// It is logged, and goes on.
    Warn,
}

/// Schemas by event type.
#[derive(Debug, Clone, Default)]
pub struct Contracts {
    applies_to: AppliesTo,
    mode: Mode,
    types: BTreeMap<String, Versions>,
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

/// One schema, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The version it is for; `None` is every version without a schema of its own.
    pub version: Option<i32>,
    /// Its draft.
    pub draft: Draft,
    /// Where it stands.
    pub from: String,
    /// What happens to an event that breaks it.
    pub mode: Mode,
    /// What it describes.
    pub applies_to: AppliesTo,
}

impl Contracts {
    /// No contracts yet: everything passes.
    pub fn new(applies_to: AppliesTo, mode: Mode) -> Self {
        Self { applies_to, mode, types: BTreeMap::new() }
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

    /// Where the schema of exactly this type and version stands, if there is one.
    pub fn origin(&self, event_type: &str, version: Option<i32>) -> Option<&str> {
        let versions = self.types.get(event_type)?;
        let known = version.map_or(versions.any.as_ref(), |version| versions.one.get(&version));
        known.map(|known| known.origin.as_str())
    }

    /// The schema that an event of this type and version must keep to.
    pub fn schema(&self, event_type: &str, version: i32) -> Option<&Schema> {
        let versions = self.types.get(event_type)?;
        versions.one.get(&version).or(versions.any.as_ref()).map(|known| &*known.schema)
    }

    /// The schemas of a type that a new one must not break: of the version itself, and of the newest before it.
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

    /// Every schema, in order of type and version.
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
        self.types.is_empty()
    }

    /// What happens to an event that breaks its contract.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What its schemas describe.
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

    /// What happens to an event that breaks its contract.
    pub fn mode(&self) -> Mode {
        self.contracts.mode
    }

    /// Where and how an event breaks its contract, whatever the mode.
    pub fn breaches(&self, event: &Event, stage: Stage<'_>) -> Result<(), String> {
        let Some(schema) = self.contracts.of(event) else { return Ok(()) };
        match self.contracts.applies_to {
            AppliesTo::Payload => judged(schema, &event.payload),
            AppliesTo::Envelope => match self.encoder.encode(event, stage) {
                Ok(envelope) => judged(schema, &envelope.body),
                // What cannot be encoded is the transport's to say.
                Err(_) => Ok(()),
            },
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
        "event breaks its contract"
    );
}
