//! The contracts of a payment service as it published them (`payments/`): envelopes of two events and of dead letters, each with
//! a worked example.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use postroom_contracts::{AppliesTo, Contracted, Contracts, Draft, Enveloped, Mode, Schema, compare, read_folder};
use postroom_core::envelope::{Binding, Encoder, FieldTable, Format, Part};
use postroom_core::{Contract as _, Event, EventError, FailureKind, Outbound, Transport as _};
use postroom_testing::ScriptedTransport;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// As the published pattern wants it.
const ULID: &str = "01HYABCDEF1234567890QRSTVW";

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payments").join(name)).unwrap()
}

fn schema(name: &str) -> Schema {
    Schema::compile(&text(&format!("{name}.json"))).unwrap()
}

fn example(name: &str) -> Value {
    serde_json::from_str(&text(&format!("example-{name}.json"))).unwrap()
}

/// The example with one value changed.
fn with(name: &str, place: &str, value: Value) -> Value {
    let mut document = example(name);
    *document.pointer_mut(place).unwrap() = value;
    document
}

fn authorized(place: &str, value: Value) -> Value {
    let mut document = with("PaymentAuthorized", "/event_id", json!(ULID));
    *document.pointer_mut(place).unwrap() = value;
    document
}

fn said(schema: &Schema, document: &Value) -> String {
    schema.breaches(document).err().unwrap_or_default()
}

#[test]
fn the_published_example_has_ids_of_24_characters_and_breaks_its_own_pattern_of_26() {
    let example = example("PaymentAuthorized");
    assert_eq!(example["event_id"].as_str().unwrap().len(), 24);
    let schema = schema("PaymentAuthorized");
    assert_eq!(schema.draft(), Draft::Draft7);
    assert_eq!(said(&schema, &example), "/event_id: pattern");
    assert_eq!(said(&schema, &authorized("/event_id", json!(ULID))), "");
}

#[test]
fn declined_payments_and_dead_letters_have_no_pattern_so_their_examples_pass() {
    for name in ["PaymentDeclined", "DeadLetterEvent"] {
        assert_eq!(example(name)["event_id"].as_str().unwrap().len(), 24, "{name}");
        assert_eq!(said(&schema(name), &example(name)), "", "{name}");
    }
}

#[test]
fn an_amount_of_nothing_and_a_currency_of_another_shape_are_named_by_their_paths() {
    let schema = schema("PaymentAuthorized");
    for (place, value, expected) in [
        ("/payload/amount_cents", json!(0), "/payload/amount_cents: minimum"),
        ("/payload/amount_cents", json!(1), ""),
        ("/payload/amount_cents", json!(49.5), "/payload/amount_cents: type"),
        ("/payload/currency", json!("usd"), "/payload/currency: pattern"),
        ("/payload/currency", json!("EURO"), "/payload/currency: pattern"),
        ("/payload/currency", json!("XXX"), ""),
        ("/aggregate_type", json!("Invoice"), "/aggregate_type: const"),
        ("/event_id", json!("01HYABCDEF1234567890QRSTVI"), "/event_id: pattern"),
        ("/timestamp", json!("15 January 2024"), "/timestamp: format"),
        (
            "/payload",
            json!({}),
            "/payload: required payment_id; /payload: required payer_account_id; /payload: required payee_account_id; /payload: required amount_cents; /payload: required currency",
        ),
    ] {
        assert_eq!(said(&schema, &authorized(place, value)), expected, "{place}");
    }
}

#[test]
fn all_six_reasons_to_decline_pass_and_no_other() {
    let schema = schema("PaymentDeclined");
    let codes = [
        "INSUFFICIENT_FUNDS",
        "ACCOUNT_NOT_FOUND",
        "INVALID_AMOUNT",
        "SAME_ACCOUNT",
        "CURRENCY_MISMATCH",
        "RATE_LIMITED",
    ];
    for code in codes {
        assert_eq!(said(&schema, &with("PaymentDeclined", "/payload/error_code", json!(code))), "", "{code}");
    }
    let other = with("PaymentDeclined", "/payload/error_code", json!("TOO_POOR"));
    assert_eq!(said(&schema, &other), "/payload/error_code: enum");
    let mut least = example("PaymentDeclined");
    for optional in ["amount_cents", "currency", "payee_account_id", "error_message"] {
        least["payload"].as_object_mut().unwrap().remove(optional);
    }
    assert_eq!(said(&schema, &least), "");
}

#[test]
fn a_dead_letter_without_its_reason_breaks_the_contract() {
    let schema = schema("DeadLetterEvent");
    let mut nameless = example("DeadLetterEvent");
    nameless.as_object_mut().unwrap().remove("error");
    assert_eq!(said(&schema, &nameless), "/: required error");
    assert_eq!(said(&schema, &with("DeadLetterEvent", "/retry_count", json!("5"))), "/retry_count: type");
}

#[test]
fn the_published_rule_for_changes_holds() {
    let old = schema("PaymentAuthorized");
    let mut new = old.value().clone();
    new["properties"]["payload"]["properties"]["message"] = json!({ "type": "string" });
    let compiled = |value: &Value| Schema::compile(&value.to_string()).unwrap();
    assert_eq!(compare(&old, &compiled(&new)), []);
    let payload = new["properties"]["payload"].as_object_mut().unwrap();
    let currency = payload["properties"].as_object_mut().unwrap().remove("currency").unwrap();
    payload["properties"]["currency_code"] = currency;
    let said: Vec<String> = compare(&old, &compiled(&new)).iter().map(ToString::to_string).collect();
    assert_eq!(said, ["/payload/currency: removed; renamed to currency_code?"]);
    let newer = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" });
    assert_eq!(compare(&compiled(&json!({})), &compiled(&newer)), [], "the same, said or not");
    let draft = compare(&compiled(&json!({ "$schema": "http://json-schema.org/draft-07/schema#" })), &compiled(&newer));
    assert_eq!(draft[0].to_string(), "/: draft changed from draft-07 to 2020-12");
}

/// The payments' envelope, by its published names and times.
fn encoder() -> Encoder {
    let fields = [
        ("event_id", "id", None),
        ("aggregate_type", "aggregate_type", None),
        ("aggregate_id", "aggregate_id", None),
        ("event_type", "type", None),
        ("payload", "payload", None),
        ("timestamp", "occurred_at", Some("micros+00:00")),
    ];
    let part = |(name, from, time): (&str, &str, Option<&str>)| (name.to_owned(), Part::parse(from, time).unwrap());
    let table = FieldTable::new(fields.into_iter().map(part).collect());
    Encoder::new(Format::Fields(table), Binding::Kafka, "/postroom/main")
}

fn event(id: &str, cents: i64) -> Event {
    let payload = json!({ "payment_id": id, "payer_account_id": "a", "payee_account_id": "b", "amount_cents": cents, "currency": "USD" });
    Event::new("PaymentAuthorized").id(id).aggregate("Payment", id).json(&payload).unwrap()
}

fn contracts(mode: Mode) -> Enveloped {
    let mut contracts = Contracts::new(AppliesTo::Envelope, mode);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payments");
    for file in read_folder(&folder).unwrap() {
        let (event_type, version) = file.means.unwrap();
        if !event_type.starts_with("example-") {
            contracts.add(event_type, version, &file.text.unwrap(), file.name).unwrap();
        }
    }
    assert_eq!(contracts.rows().len(), 3);
    Enveloped::new(Arc::new(contracts), encoder())
}

#[test]
fn a_contract_about_envelopes_is_asked_at_append_when_the_envelope_is_known() {
    let contracts = contracts(Mode::Enforce);
    assert_eq!(contracts.check(&event(ULID, 5000)), Ok(()));
    let breaches = "/event_id: pattern".to_owned();
    let short = contracts.check(&event("01HYABCDEF1234567890QRST", 5000));
    assert_eq!(short, Err(EventError::Contract { event_type: "PaymentAuthorized".to_owned(), breaches }));
}

#[tokio::test]
async fn before_sending_a_breach_is_a_permanent_failure_with_its_path_and_the_others_arrive() {
    let behind = ScriptedTransport::new();
    let transport = Contracted::new(Arc::new(behind.clone()), contracts(Mode::Enforce));
    let (report, mut reports) = mpsc::unbounded_channel();
    let events = [event(ULID, 5000), event("01HYABCDEF1234567890QRSTVX", 0), Event::new("PaymentRefunded").id("free")];
    let outbound = |(n, event): (u64, &Event)| Outbound::new(n, 1, Arc::new(event.clone()), None, report.clone());
    transport.deliver((0..).zip(&events).map(outbound).collect()).await;
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(reports.recv().await.unwrap());
    }
    outcomes.sort_by_key(|(ticket, _)| *ticket);
    assert!(outcomes[0].1.is_ok() && outcomes[2].1.is_ok(), "{outcomes:?}");
    let failure = outcomes[1].1.clone().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "contract.violated"));
    assert_eq!(
        failure.error,
        "event of type \"PaymentAuthorized\" breaks its contract: /payload/amount_cents: minimum"
    );
    assert_eq!(behind.delivered_ids(), [ULID, "free"]);
}

#[tokio::test]
async fn with_warn_it_is_sent_all_the_same() {
    let behind = ScriptedTransport::new();
    let transport = Contracted::new(Arc::new(behind.clone()), contracts(Mode::Warn));
    let (report, mut reports) = mpsc::unbounded_channel();
    transport.deliver(vec![Outbound::new(1, 1, Arc::new(event(ULID, 0)), None, report)]).await;
    assert!(reports.recv().await.unwrap().1.is_ok());
    assert_eq!(behind.delivered_ids(), [ULID]);
    assert_eq!(contracts(Mode::Warn).check(&event(ULID, 0)), Ok(()));
}

#[test]
fn a_version_with_a_schema_of_its_own_is_judged_by_it() {
    let mut contracts = Contracts::new(AppliesTo::Payload, Mode::Enforce);
    contracts.add("order", None, r#"{"required": ["a"]}"#, "order.json").unwrap();
    contracts.add("order", Some(2), r#"{"required": ["b"]}"#, "order@2.json").unwrap();
    let order = |version| {
        let mut order = Event::new("order").json(&json!({ "b": 1 })).unwrap();
        order.schema_version = version;
        order
    };
    assert!(contracts.check(&order(1)).is_err() && contracts.check(&order(3)).is_err());
    assert_eq!(contracts.check(&order(2)), Ok(()));
    assert!(contracts.check(&Event::new("order").bytes("text/plain", "b")).is_err(), "it must be JSON");
    assert_eq!(contracts.check(&Event::new("else")), Ok(()));
}
