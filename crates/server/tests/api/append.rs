//! Events that programs append over HTTP.

use postroom_admin::Selection;
use postroom_core::DeliveryState;
use serde_json::{Value, json};

use crate::api::site::{Answer, Site};

const EVENTS: &str = "/api/v1/events";

async fn append(site: &Site, body: &str) -> Answer {
    site.ask("operator", "POST", EVENTS, Some(body)).await
}

/// Types of the events in the log, the oldest first, without the three of the site.
async fn types(site: &Site) -> Vec<String> {
    let listed = site.get("viewer", EVENTS).await.json();
    let mut types: Vec<String> =
        listed.as_array().unwrap().iter().map(|row| row["type"].as_str().unwrap().to_owned()).collect();
    types.reverse();
    types.split_off(3)
}

#[tokio::test]
async fn an_event_is_appended_with_all_it_says_and_its_payload_byte_for_byte() {
    let site = Site::guarded("").await;
    let body = r#"{"type": "order.placed", "key": "k-7", "id": "o-7", "tenant": "acme", "aggregate_type": "order", "aggregate_id": "7",
        "headers": {"x": "1"}, "attributes": {"n": 2}, "correlation_id": "c", "causation_id": "d", "schema_version": 3,
        "occurred_at": "2026-01-02T03:04:05Z", "payload": {"b" : 1.10,  "a":"\u00e9"}}"#;
    let said = append(&site, body).await;
    assert_eq!((said.status, said.json()), (201, json!({"events": [{"id": "o-7", "appended": true}]})));
    let shown = site.get("operator", "/api/v1/events/o-7?payload=true").await;
    let event = shown.json();
    for (field, value) in [
        ("type", json!("order.placed")),
        ("key", json!("k-7")),
        ("tenant", json!("acme")),
        ("aggregate_id", json!("7")),
        ("correlation_id", json!("c")),
        ("schema_version", json!(3)),
        ("occurred_at", json!("2026-01-02T03:04:05Z")),
    ] {
        assert_eq!(event[field], value, "{field}: {event}");
    }
    assert_eq!(
        (&event["payload"], &event["payload_bytes"]),
        (&json!({"a": "é", "b": 1.1}), &json!(27)),
        "as it was spelt"
    );
    let due = site.admin.deliveries(&[DeliveryState::Due], &Selection::default(), 0, 10).await.unwrap();
    assert!(due.iter().any(|row| row.id == "o-7"), "its route has it to deliver");
}

#[tokio::test]
async fn a_list_is_appended_in_its_order_in_one_transaction_or_not_at_all() {
    let site = Site::guarded("").await;
    let said = append(&site, r#"[{"type": "a"}, {"type": "b", "payload": null}, {"type": "c"}]"#).await;
    let rows = said.json()["events"].as_array().unwrap().clone();
    assert!(said.status == 201 && rows.len() == 3 && rows.iter().all(|row| row["appended"] == true), "{said:?}");
    assert_eq!(types(&site).await, ["a", "b", "c"]);
    let bad = append(&site, r#"[{"type": "d"}, {"type": ""}]"#).await;
    assert_eq!((bad.status, bad.code().as_str()), (400, "http.parameter"));
    assert!(bad.json()["detail"].as_str().unwrap().starts_with("`events[1]` is refused"), "{bad:?}");
    assert_eq!(types(&site).await, ["a", "b", "c"], "nothing of it is there");
}

#[tokio::test]
async fn an_event_with_an_id_is_appended_once_however_often_it_is_sent() {
    let site = Site::guarded("").await;
    let body = r#"[{"type": "a", "id": "o-1"}, {"type": "a", "id": "o-2"}]"#;
    assert_eq!(append(&site, body).await.json()["events"][0]["appended"], true);
    let again =
        append(&site, r#"[{"type": "a", "id": "o-2"}, {"type": "b", "id": "o-3"}, {"type": "c"}]"#).await.json();
    let appended: Vec<&Value> = again["events"].as_array().unwrap().iter().map(|row| &row["appended"]).collect();
    assert_eq!(appended, [false, true, true], "{again}");
    assert_eq!(types(&site).await, ["a", "a", "b", "c"]);
    let twice = append(&site, r#"[{"type": "d", "id": "o-4"}, {"type": "e", "id": "o-4"}]"#).await.json();
    assert_eq!((&twice["events"][0]["appended"], &twice["events"][1]["appended"]), (&true.into(), &false.into()));
    assert_eq!(types(&site).await, ["a", "a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_repeated_request_with_its_key_gets_the_first_answer() {
    let site = Site::guarded("").await;
    let token = site.token("operator").unwrap();
    let headers = format!("authorization: Bearer {token}\r\ncontent-type: application/json\r\nidempotency-key: k1\r\n");
    let first = site.send("POST", EVENTS, &headers, br#"{"type": "a"}"#).await;
    let again = site.send("POST", EVENTS, &headers, br#"{"type": "a"}"#).await;
    assert_eq!((first.status, again.status, &first.body), (201, 201, &again.body));
    assert_eq!(types(&site).await, ["a"]);
    assert_eq!(site.send("POST", EVENTS, &headers, br#"{"type": "b"}"#).await.code(), "http.key_reused");
}

#[tokio::test]
async fn what_is_no_event_is_named_and_never_quoted() {
    let site = Site::guarded("").await;
    let many = format!("[{}]", [r#"{"type": "a"}"#; 1001].join(","));
    let long = format!(r#"{{"type": "{}"}}"#, "x".repeat(300));
    for (body, code, says) in [
        ("", "http.parameter", "`event` is not a JSON object"),
        ("{", "http.parameter", "`event` is not an event"),
        ("\"canary\"", "http.parameter", "`event` is not a JSON object"),
        ("[", "http.body", "line 1, column 1"),
        ("[]", "http.parameter", "`events` has 0 entries"),
        (many.as_str(), "http.parameter", "`events` has 1001 entries"),
        (r#"["canary"]"#, "http.parameter", "`events[0]` is not a JSON object"),
        (r#"{"key": "k"}"#, "http.parameter", "missing field `type`"),
        (r#"{"type": "t", "typ": 1}"#, "http.parameter", "unknown field `typ`"),
        (r#"{"type": "t", "available_at": "soon"}"#, "http.parameter", "`event` is not an event"),
        (r#"{"type": "a b\n"}"#, "http.parameter", "`event` is refused"),
        (long.as_str(), "http.parameter", "`event` is refused: event type is 300 bytes"),
        (r#"{"type": "t", "payload": {"card": canary}}"#, "http.parameter", "`event` is not an event"),
    ] {
        let said = append(&site, body).await;
        let detail = said.json()["detail"].as_str().unwrap().to_owned();
        assert!(said.status == 400 && said.code() == code && detail.contains(says), "{body:.60}: {said:?}");
        assert!(!said.body.contains("canary"), "{said:?}");
    }
    assert!(types(&site).await.is_empty());
    let elsewhere = site.ask("operator", "POST", "/api/v1/events?store=other", Some(r#"{"type": "a"}"#)).await;
    assert_eq!(elsewhere.code(), "http.no_such");
}

#[tokio::test]
async fn a_payload_has_the_limit_of_the_configuration_also_beyond_a_megabyte() {
    let site = Site::guarded("[limits]\npayload = \"3MiB\"").await;
    let of = |size: usize| format!(r#"{{"type": "a", "payload": "{}"}}"#, "x".repeat(size));
    assert_eq!(append(&site, &of(2 << 20)).await.status, 201);
    let said = append(&site, &of(3 << 20)).await;
    assert!(said.status == 400 && said.body.contains("limits.payload"), "{said:?}");
    assert_eq!(append(&site, &of(8 << 20)).await.code(), "http.too_large");
    assert_eq!(types(&site).await, ["a"]);
}

#[tokio::test]
async fn contracts_hold_for_what_is_appended_over_http_too() {
    let site = Site::guarded(
        "[contract]\nmode = \"enforce\"\n[contract.schemas]\n\"order.placed\" = '{\"type\": \"object\", \"required\": [\"total\"]}'",
    )
    .await;
    let said = append(&site, r#"{"type": "order.paid", "payload": {}}"#).await;
    assert_eq!(said.status, 201, "{said:?}");
    let said = append(&site, r#"{"type": "order.placed", "payload": {}}"#).await;
    assert!(said.status == 400 && said.body.contains("total"), "{said:?}");
}
