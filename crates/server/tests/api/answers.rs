//! What comes back: the records of the commands, page by page, and as it happens.

use postroom_core::{Event, JSON};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use crate::api::site::{Site, operations};

#[tokio::test]
async fn lists_come_page_by_page_and_each_row_once() {
    let site = Site::guarded("").await;
    let events: Vec<Event> = (0..25).map(|n| Event::new("order.paid").id(format!("p-{n}"))).collect();
    site.admin.append(&events).await.unwrap();
    let (mut next, mut seen) = (Some("/api/v1/events?type=order.*&limit=10".to_owned()), Vec::new());
    while let Some(path) = next {
        let page = site.get("viewer", &path).await;
        assert_eq!(page.status, 200, "{page:?}");
        seen.extend(page.json().as_array().unwrap().iter().map(|row| row["position"].as_i64().unwrap()));
        next = page.head.split("link: <").nth(1).map(|link| link.split('>').next().unwrap().to_owned());
        assert!(next.as_ref().is_none_or(|next| next.contains("type=order.*") || next.contains("type=order.%2a")));
    }
    assert_eq!(seen, (1..=28).rev().collect::<Vec<i64>>());
}

#[tokio::test]
async fn an_answer_is_what_the_description_says() {
    let site = Site::guarded("").await;
    let (described, operations) = operations(&site).await;
    let made = site.ask("operator", "POST", "/api/v1/replays", Some(r#"{"type": "order.*", "rate": "5/s"}"#)).await;
    let replay = made.json()["id"].as_str().unwrap().to_owned();
    let mut compared = 0;
    for (method, path, operation) in operations {
        let path = path.replace("/replays/{id}", &format!("/replays/{replay}"));
        let path = path.replace("{route}", "orders").replace("{id}", "e-1");
        let Some(schema) = operation.pointer("/responses/200/content/application~1json/schema") else { continue };
        if method != "GET" {
            continue;
        }
        let answer = site.get("admin", &path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let whole = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "components": described["components"], "allOf": [schema] });
        let validator = jsonschema::validator_for(&whole).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer.json()).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
        compared += 1;
    }
    assert!(compared > 10, "only {compared}");
}

#[tokio::test]
async fn payloads_are_for_operators_and_less_what_is_redacted() {
    let site = Site::guarded("redact = { \"order.*\" = [\"$.card\"] }").await;
    let path = "/api/v1/events/e-1";
    for (who, payload) in [("viewer", ""), ("operator", ""), ("admin", "")] {
        assert!(!site.get(who, path).await.body.contains("canary") && payload.is_empty());
    }
    assert_eq!(site.get("viewer", "/api/v1/events/e-1?payload=true").await.code(), "http.forbidden");
    let shown = site.get("operator", "/api/v1/events/e-1?payload=true").await;
    assert_eq!(shown.json()["payload"], json!({ "card": "[redacted]", "n": 1 }));
    assert!(!shown.body.contains("canary"));
}

#[tokio::test]
async fn an_operator_stops_a_route_and_lets_it_go_on() {
    let site = Site::guarded("").await;
    let pause = "/api/v1/routes/orders/pause";
    let done = site.ask("operator", "POST", pause, Some(r#"{"reason": "<b>because</b>"}"#)).await;
    assert_eq!(done.json(), json!({ "route": "orders", "state": "paused", "changed": true }));
    assert_eq!(site.ask("operator", "POST", pause, None).await.json()["changed"], false);
    assert_eq!(site.get("viewer", "/api/v1/routes/orders").await.json()["paused_by"], "token operator");
    let resumed = site.ask("operator", "POST", "/api/v1/routes/orders/resume", None).await;
    assert_eq!(resumed.json()["state"], "running");
    let actions: Value = site.get("viewer", "/api/v1/audit?limit=2").await.json();
    assert_eq!(actions[1]["reason"], "<b>because</b>");
    let forgotten = site.ask("admin", "POST", "/api/v1/routes/orders/forget", Some(r#"{"dry_run": true}"#)).await;
    assert_eq!((forgotten.status, site.admin.routes().await.unwrap().len()), (200, 1));
    assert_eq!(site.ask("admin", "POST", "/api/v1/routes/orders/forget", None).await.status, 200);
    assert!(site.admin.routes().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_route_with_many_undelivered_events_is_forgotten_only_with_their_number() {
    let site = Site::guarded("").await;
    let forget = "/api/v1/routes/orders/forget";
    let more: Vec<Event> = (0..1_000).map(|n| Event::new("order.paid").id(format!("m-{n}"))).collect();
    site.admin.append(&more).await.unwrap();
    for confirm in ["{}", r#"{"confirm": 1000}"#, r#"{"confirm": 1004}"#] {
        let refused = site.ask("admin", "POST", forget, Some(confirm)).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "http.confirm"), "{confirm}: {refused:?}");
        assert!(refused.body.contains("1003 undelivered events"), "{confirm}: {refused:?}");
    }
    assert_eq!(site.admin.routes().await.unwrap().len(), 1, "nothing is forgotten yet");
    let forgotten = site.ask("admin", "POST", forget, Some(r#"{"confirm": 1003, "reason": "moved"}"#)).await;
    assert_eq!(forgotten.status, 200, "{forgotten:?}");
    assert!(site.admin.routes().await.unwrap().is_empty());
    let action = site.get("viewer", "/api/v1/audit?limit=1").await.json()[0].clone();
    assert_eq!((&action["action"], &action["count"]), (&json!("route.forget"), &json!(1003)), "{action}");
}

#[tokio::test]
async fn an_admin_erases_the_payloads_of_a_key_and_says_how_many() {
    let site = Site::guarded("").await;
    let path = "/api/v1/keys/k/payloads";
    let erase = async |who: &str, query: &str| site.ask(who, "DELETE", &format!("{path}?{query}"), None).await;
    assert_eq!(erase("operator", "dry_run=true").await.code(), "http.forbidden");
    let preview = erase("admin", "dry_run=true").await;
    let expected =
        json!({ "store": "main", "key": "k", "events": 3, "bytes": 84, "undelivered": 3, "dead_letters": 0 });
    assert_eq!(preview.json(), expected);

    // Three events wait for route orders: nobody erases them without saying so, nor without the count.
    let refused = erase("admin", "confirm=3").await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "http.conflict"), "{refused:?}");
    assert!(refused.body.contains("3 of 3 events of key") && refused.body.contains("undelivered=true"), "{refused:?}");
    for confirm in ["", "&confirm=2", "&confirm=4"] {
        let refused = erase("admin", &format!("undelivered=true{confirm}")).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "http.confirm"), "{confirm}: {refused:?}");
    }
    let whole = site.get("operator", "/api/v1/events/e-1?payload=true").await;
    assert_eq!(whole.json()["payload"]["n"], 1, "nothing is erased yet");

    let erased = erase("admin", "undelivered=true&confirm=3&reason=ticket%207").await;
    assert_eq!((erased.status, &erased.json()["events"]), (200, &json!(3)), "{erased:?}");
    let left = site.get("operator", "/api/v1/events/e-1?payload=true").await;
    assert_eq!((&left.json()["id"], &left.json()["payload"]), (&json!("e-1"), &Value::Null), "{left:?}");
    assert!(!left.body.contains("canary"));
    // After it the payload was asked for.
    let action = site.get("viewer", "/api/v1/audit?limit=2").await.json()[1].clone();
    assert_eq!(
        (&action["action"], &action["count"], &action["reason"]),
        (&json!("key.erase"), &json!(3), &json!("ticket 7"))
    );
    assert_eq!(erase("admin", "dry_run=true").await.json()["events"], 0, "nothing is left to erase");
}

#[tokio::test]
async fn events_are_told_as_they_are_appended_and_states_every_second() {
    let site = Site::guarded("").await;
    let bearer = format!("authorization: Bearer {}\r\n", site.token("viewer").unwrap());
    let mut stream = site.begin("GET", "/api/v1/events/live?type=order.*", &bearer, b"").await;
    let mut text = String::new();
    while !text.contains("text/event-stream") {
        text.push_str(&piece(&mut stream).await);
    }
    let event = |kind: &str, id: &str| Event::new(kind).id(id).bytes(JSON, r#"{"secret":"canary"}"#);
    site.admin.append(&[event("other.thing", "no"), event("order.paid", "yes")]).await.unwrap();
    while !text.contains("\"id\":\"yes\"") {
        text.push_str(&piece(&mut stream).await);
    }
    assert!(text.contains("event: event") && !text.contains("\"id\":\"no\"") && !text.contains("canary"), "{text}");

    let mut states = site.begin("GET", "/api/v1/live", &bearer, b"").await;
    let mut text = String::new();
    while text.matches("event: status").count() < 2 {
        text.push_str(&piece(&mut states).await);
    }
    assert!(text.contains("\"route\":\"orders\""), "{text}");
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    let site = Site::guarded("").await;
    let bearer = format!("authorization: Bearer {}\r\n", site.token("viewer").unwrap());
    let mut streams = Vec::new();
    for path in ["/api/v1/live", "/api/v1/events/live"] {
        let mut stream = site.begin("GET", path, &bearer, b"").await;
        assert!(piece(&mut stream).await.starts_with("HTTP/1.1 200"));
        streams.push(stream);
    }
    assert_eq!(site.ask("admin", "DELETE", "/api/v1/tokens/viewer", None).await.status, 200);
    for mut stream in streams {
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    }
}

async fn piece(stream: &mut tokio::net::TcpStream) -> String {
    let mut buffer = vec![0; 64 * 1024];
    let read = stream.read(&mut buffer).await.unwrap();
    assert!(read > 0, "the stream ended");
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

#[tokio::test]
async fn a_caller_has_so_many_streams_and_leaves_room_for_others() {
    let site = Site::guarded("").await;
    let bearer = format!("authorization: Bearer {}\r\n", site.token("viewer").unwrap());
    let mut open = Vec::new();
    for _ in 0..24 {
        let mut stream = site.begin("GET", "/api/v1/live", &bearer, b"").await;
        assert!(piece(&mut stream).await.starts_with("HTTP/1.1 200"));
        open.push(stream);
    }
    assert_eq!(site.get("viewer", "/api/v1/live").await.code(), "http.streams");
    assert_eq!(site.get("viewer", "/api/v1/status").await.status, 200);
    let bearer_of_other = format!("authorization: Bearer {}\r\n", site.token("operator").unwrap());
    let mut theirs = site.begin("GET", "/api/v1/live", &bearer_of_other, b"").await;
    assert!(piece(&mut theirs).await.starts_with("HTTP/1.1 200"), "another caller has seats of its own");
    open.pop();
    loop {
        let mut stream = site.begin("GET", "/api/v1/live", &bearer, b"").await;
        if piece(&mut stream).await.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn an_action_on_deliveries_without_a_selection_is_refused() {
    let site = Site::guarded("").await;
    for path in ["/api/v1/dead/discard", "/api/v1/dead/replay", "/api/v1/replays"] {
        for body in
            ["", "{}", r#"{"ids": []}"#, r#"{"ids": null}"#, r#"{"all": false}"#, r#"{"route": "r", "ids": []}"#]
        {
            let body = (!body.is_empty()).then_some(body);
            let answer = site.ask("operator", "POST", path, body).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "http.parameter"), "{path} {body:?}: {answer:?}");
            assert!(answer.json()["hint"].as_str().unwrap().contains(r#""all": true"#), "{answer:?}");
        }
        let all = site.ask("operator", "POST", path, Some(r#"{"all": true, "dry_run": true}"#)).await;
        assert_eq!(all.status, 200, "{path}: {all:?}");
    }
    let actions = site.admin.audit(None, 10).await.unwrap();
    assert!(actions.iter().all(|one| !one.action.contains("dead") && !one.action.contains("replay")), "{actions:?}");
}

#[tokio::test]
async fn a_replay_is_counted_confirmed_paused_and_cancelled() {
    let site = Site::guarded("").await;
    let count = site.ask("operator", "POST", "/api/v1/replays", Some(r#"{"all": true, "dry_run": true}"#)).await;
    assert_eq!((count.status, &count.json()["deliveries"]), (200, &json!(0)));
    let wrong = site.ask("operator", "POST", "/api/v1/replays", Some(r#"{"all": true, "confirm": 7}"#)).await;
    assert_eq!(wrong.code(), "http.confirm");
    let made = site
        .ask("operator", "POST", "/api/v1/replays", Some(r#"{"all": true, "confirm": 0, "reason": "lost mails"}"#))
        .await;
    assert_eq!((made.status, &made.json()["state"]), (201, &json!("running")), "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    for (verb, state, changed) in [
        ("pause", "paused", true),
        ("pause", "paused", false),
        ("resume", "running", true),
        ("cancel", "cancelled", true),
    ] {
        let answer = site.ask("operator", "POST", &format!("/api/v1/replays/{id}/{verb}"), None).await;
        assert_eq!(answer.json(), json!({ "id": id, "state": state, "changed": changed }), "{verb}");
    }
    let resumed = site.ask("operator", "POST", &format!("/api/v1/replays/{id}/resume"), None).await;
    assert_eq!(resumed.code(), "http.conflict");
    let listed = site.get("viewer", "/api/v1/replays?state=cancelled").await.json();
    assert_eq!((&listed[0]["id"], &listed[0]["actor"]), (&json!(id), &json!("token operator")));
    assert_eq!(site.get("viewer", "/api/v1/replays?state=running").await.json(), json!([]));
    let actions: Vec<String> =
        site.admin.audit(None, 4).await.unwrap().into_iter().map(|action| action.action).rev().collect();
    assert_eq!(actions, ["replay", "replay.pause", "replay.resume", "replay.cancel"]);
    let dead = site.ask("operator", "POST", "/api/v1/dead/replay", Some(r#"{"code": "exec.error"}"#)).await;
    assert_eq!((dead.status, &dead.json()["what"]), (201, &json!("dead")));
    let unknown = r#"{"consumer": "mailer", "id": "e-1"}"#;
    let forgotten = site.ask("admin", "POST", "/api/v1/inbox/forget", Some(unknown)).await;
    assert_eq!(forgotten.json()["forgotten"], false);
}
