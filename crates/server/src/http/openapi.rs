//! The description of the API, as OpenAPI 3.1: made from the table of endpoints and the records it answers.

use std::fmt::Write as _;

use axum::Json;
use postroom_admin::TokenRow;
use postroom_admin::view::{
    Affected, AuditRow, BlockedKey, DeliveryGroup, DeliveryRow, Erased, EventRow, InboxRow, RelayRow, ReplayRow,
    RouteDetail, RouteStatus, StoreRow, ThroughputRow, Timeline, VerifyRow,
};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::endpoints::{Answer, ENDPOINTS, Endpoint, Verb};
use super::params::{At, Kind, Param};
use super::router::ROOT;
use crate::status::{Report, RouteLine};

pub(super) async fn page() -> Json<Value> {
    Json(describe())
}

/// The whole description.
pub fn describe() -> Value {
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let path = paths.entry(format!("{ROOT}{}", endpoint.path)).or_insert_with(|| json!({}));
        path[endpoint.verb.word()] = operation(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Postroom",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "HTTP API of a Postroom relay. Lists have the format of `-o json`; the header `Link` holds the next page.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{ "token": [] }, {}],
    })
}

impl Verb {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }
}

fn operation(endpoint: &Endpoint) -> Value {
    let of = |at: At| endpoint.params.iter().filter(move |param| param.at == at);
    let parameters: Vec<Value> = of(At::Path).chain(of(At::Query)).map(parameter).collect();
    let mut operation = json!({
        "operationId": id(endpoint),
        "summary": endpoint.about,
        "description": format!("Requires the role {} or a higher one.", endpoint.role.as_str()),
        "x-role": endpoint.role.as_str(),
        "parameters": parameters,
        "responses": responses(endpoint),
    });
    if of(At::Body).next().is_some() {
        let fields: Map<String, Value> = of(At::Body).map(|param| (param.name.to_owned(), documented(param))).collect();
        let must: Vec<&str> = of(At::Body).filter(|param| param.must).map(|param| param.name).collect();
        let mut schema = json!({ "type": "object", "properties": fields, "additionalProperties": false });
        if !must.is_empty() {
            schema["required"] = json!(must);
        }
        let required = !must.is_empty();
        operation["requestBody"] =
            json!({ "required": required, "content": { "application/json": { "schema": schema } } });
    }
    if let Some(whole) = of(At::WholeBody).next() {
        operation["requestBody"] = json!({ "required": true, "description": whole.about,
            "content": { "application/json": { "schema": schema(whole.kind) } } });
    }
    if endpoint.verb != Verb::Get
        && let Some(list) = operation["parameters"].as_array_mut()
    {
        list.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Key that makes a write idempotent: a repeated request gets the first response and is not carried out again.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        }));
    }
    operation
}

/// A name for programs that are made from the description: `post_keys_skip_head`.
fn id(endpoint: &Endpoint) -> String {
    let words = endpoint.path.split(['/', '-', '{', '}']).filter(|word| !word.is_empty());
    std::iter::once(endpoint.verb.word()).chain(words).collect::<Vec<_>>().join("_")
}

fn parameter(param: &Param) -> Value {
    let place = if param.at == At::Path { "path" } else { "query" };
    json!({ "name": param.name, "in": place, "required": param.must, "description": param.about, "schema": schema(param.kind) })
}

fn documented(param: &Param) -> Value {
    let mut schema = schema(param.kind);
    schema["description"] = json!(param.about);
    schema
}

fn schema(kind: Kind) -> Value {
    let text = |pattern: &str| json!({ "type": "string", "maxLength": 1024, "pattern": pattern });
    match kind {
        Kind::Text => json!({ "type": "string", "maxLength": 1024 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Number(least, most, otherwise) => {
            json!({ "type": "integer", "minimum": least, "maximum": most, "default": otherwise })
        }
        Kind::Time => json!({ "type": "string", "examples": ["2026-11-15T09:30:00Z", "1h"] }),
        Kind::Duration => text("^([0-9.]+(us|ms|s|m|min|h|d))+$"),
        Kind::Expiry => text("^(never|([0-9.]+(us|ms|s|m|min|h|d))+)$"),
        Kind::Rate => text("^[0-9.]+/(s|m|min|h)$"),
        Kind::Pattern => text("^[^*]*\\*?$"),
        Kind::Role => json!({ "type": "string", "enum": ["worker", "viewer", "operator", "admin"] }),
        Kind::Cursor => text("^p[0-9a-f]+$"),
        Kind::Place(_) => text("^\\[.*\\]$"),
        Kind::Texts => json!({ "type": "array", "maxItems": 1000, "items": { "type": "string", "maxLength": 1024 } }),
        Kind::Objects => json!({ "type": "array", "maxItems": 1000, "items": { "type": "object" } }),
        Kind::Events => {
            let event = json!({ "$ref": "#/components/schemas/NewEvent" });
            json!({ "oneOf": [event, { "type": "array", "minItems": 1, "maxItems": 1000, "items": event }] })
        }
    }
}

fn responses(endpoint: &Endpoint) -> Value {
    let link = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let of = |kind: &str, schema: Value| json!({ "description": "done", "content": { kind: { "schema": schema } } });
    let list = |name: &str| of("application/json", json!({ "type": "array", "items": link(name) }));
    let (status, answer) = match endpoint.answer {
        Answer::One(name) => ("200", of("application/json", link(name))),
        Answer::Made(name) => ("201", of("application/json", link(name))),
        Answer::List(name) => ("200", list(name)),
        Answer::Pages(name) => {
            let mut pages = list(name);
            pages["headers"] = json!({ "Link": { "description": "the next page", "schema": { "type": "string" } } });
            ("200", pages)
        }
        Answer::Stream(name) => ("200", of("text/event-stream", json!({ "type": "string", "x-data": link(name) }))),
    };
    let problem = json!({ "description": "problem, with a code that `postroom explain` explains",
        "content": { "application/problem+json": { "schema": link("Problem") } } });
    let mut responses = Map::from_iter([(status.to_owned(), answer)]);
    if endpoint.answer == Answer::Made("ReplayRow") {
        responses.insert("200".to_owned(), of("application/json", link("Affected")));
    }
    for status in ["400", "401", "403", "404", "409", "413", "415", "421", "422", "503"] {
        responses.insert(status.to_owned(), problem.clone());
    }
    Value::Object(responses)
}

/// The records, from their types; the small answers of writes by hand.
fn schemas() -> Map<String, Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.for_serialize().into_generator();
    generator.subschema_for::<Report>();
    generator.subschema_for::<RouteLine>();
    generator.subschema_for::<RouteStatus>();
    generator.subschema_for::<RouteDetail>();
    generator.subschema_for::<EventRow>();
    generator.subschema_for::<Timeline>();
    generator.subschema_for::<BlockedKey>();
    generator.subschema_for::<DeliveryRow>();
    generator.subschema_for::<Affected>();
    generator.subschema_for::<Erased>();
    generator.subschema_for::<InboxRow>();
    generator.subschema_for::<RelayRow>();
    generator.subschema_for::<StoreRow>();
    generator.subschema_for::<VerifyRow>();
    generator.subschema_for::<AuditRow>();
    generator.subschema_for::<TokenRow>();
    generator.subschema_for::<ReplayRow>();
    generator.subschema_for::<DeliveryGroup>();
    generator.subschema_for::<ThroughputRow>();
    let mut schemas: Map<String, Value> = generator.take_definitions(true);
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": "integer", "minimum": 0 });
    let object = |fields: Value| {
        let names: Vec<String> = fields.as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect();
        json!({ "type": "object", "properties": fields, "required": names })
    };
    for (name, schema) in [
        ("NewEvent", new_event()),
        (
            "Appended",
            object(
                json!({ "events": { "type": "array", "items": object(json!({ "id": text(), "appended": { "type": "boolean" } })) } }),
            ),
        ),
        ("Setting", object(json!({ "key": text(), "value": text(), "origin": text() }))),
        ("Switched", object(json!({ "route": text(), "state": text(), "changed": { "type": "boolean" } }))),
        ("Unblocked", object(json!({ "route": text(), "key": text(), "unblocked": number() }))),
        ("Skipped", object(json!({ "route": text(), "key": text(), "skipped": text(), "waiting": number() }))),
        (
            "Leased",
            object(
                json!({ "lease": text(), "id": text(), "type": text(), "attempt": number(), "route": text(), "envelope": {} }),
            ),
        ),
        ("Settled", object(json!({ "settled": number(), "unknown": { "type": "array", "items": text() } }))),
        ("Changed", object(json!({ "id": text(), "state": text(), "changed": { "type": "boolean" } }))),
        ("Forgotten", object(json!({ "consumer": text(), "id": text(), "forgotten": { "type": "boolean" } }))),
        ("Revoked", object(json!({ "name": text(), "revoked": { "type": "boolean" } }))),
        (
            "Problem",
            object(json!({ "type": text(), "title": text(), "status": number(), "code": text(), "detail": text() })),
        ),
        (
            "NewToken",
            json!({ "allOf": [{ "$ref": "#/components/schemas/TokenRow" }, object(json!({ "token": text() }))] }),
        ),
    ] {
        schemas.insert(name.to_owned(), schema);
    }
    schemas
}

/// An event as it is sent; see [`crate::event_json`].
fn new_event() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let time = |about: &str| json!({ "type": "string", "format": "date-time", "description": about });
    json!({
        "type": "object",
        "required": ["type"],
        "additionalProperties": false,
        "properties": {
            "type": text("event type, for instance `order.placed`"),
            "key": text("ordering key: events with the same key are delivered in order"),
            "payload": { "description": "payload, any JSON; kept byte for byte" },
            "id": text("id of the event, under which it is appended once; a new id by default"),
            "aggregate_type": text("kind of entity that the event is about"),
            "aggregate_id": text("entity that the event is about; also the key, unless there is one"),
            "tenant": text("tenant"),
            "headers": { "type": "object", "additionalProperties": { "type": "string" }, "description": "headers that are delivered with the event" },
            "attributes": { "type": "object", "description": "attributes of the event" },
            "correlation_id": text("id of the chain of events; by default the id of the event"),
            "causation_id": text("id of the event that caused this one"),
            "schema_version": { "type": "integer", "default": 1, "description": "version of the payload's schema" },
            "occurred_at": time("time of occurrence; now by default"),
            "available_at": time("time before which the event is not delivered"),
        },
    })
}

/// The endpoints as a page lists them.
pub fn reference() -> String {
    let mut page = "| | role | parameters | |\n| --- | --- | --- | --- |\n".to_owned();
    for endpoint in ENDPOINTS {
        let params: Vec<String> = endpoint.params.iter().filter(|param| param.at != At::Path).map(named).collect();
        let (verb, role) = (endpoint.verb.word().to_uppercase(), endpoint.role.as_str());
        let (path, about) = (endpoint.path, endpoint.about);
        let _ = writeln!(page, "| `{verb} {ROOT}{path}` | {role} | {} | {about} |", params.join(", "));
    }
    page
}

/// A parameter; one that must be there in bold.
fn named(param: &Param) -> String {
    if param.must { format!("**`{}`**", param.name) } else { format!("`{}`", param.name) }
}
