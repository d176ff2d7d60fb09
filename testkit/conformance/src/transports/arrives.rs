//! What is reported as delivered is there, in order, unchanged.

use postroom_core::{Event, FailureKind, JSON};

use super::harness::{LONG, Observed, Post, event, events};

/// Looks at the destination at every single outcome.
pub async fn ok_means_that_the_destination_has_it<H: Observed>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver(&events(20)).await;
    for _ in 0..20 {
        let (event, outcome) = post.outcome().await;
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(harness.arrived().await.iter().any(|a| a.id == event.id), "{} has not arrived", event.id);
    }
    assert_eq!(harness.arrived().await.len(), 20);
    post.close().await;
}

/// The engine sends one of a key at a time; that must be enough for order.
pub async fn deliveries_one_after_the_other_arrive_in_that_order<H: Observed>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    let events: Vec<Event> = events(50).into_iter().map(|e| e.key("one")).collect();
    for event in &events {
        post.deliver(std::slice::from_ref(event)).await;
        assert!(post.outcome().await.1.is_ok());
    }
    let arrived: Vec<String> = harness.arrived().await.into_iter().map(|a| a.id).collect();
    assert_eq!(arrived, events.iter().map(|e| e.id.clone()).collect::<Vec<_>>());
    post.close().await;
}

/// Byte for byte, whatever JSON allows.
pub async fn id_type_and_payload_arrive_unchanged<H: Observed>() {
    let payloads = [
        "null",
        "\"\"",
        r#"{"text":"Grüße, 世界 🦀 \u0000 \n \\ \" \ud83e\udd80"}"#,
        r#"{"z":1,"a":123456789012345678901234567890,"b":-0.10000000000000000001,"c":1e400}"#,
        r#"{"twice":1,"twice":2,  "spaced" : [ 1 , 2 ] }"#,
        "[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]",
    ];
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    for (n, payload) in payloads.into_iter().enumerate() {
        let event = Event::new(format!("größe.geändert.{n}")).id(format!("ident-{n}")).bytes(JSON, payload);
        check(&harness, &mut post, event).await;
    }
    post.close().await;
}

/// Not byte for byte where a line is a frame, but never another value.
pub async fn a_payload_with_line_breaks_arrives_with_the_same_meaning<H: Observed>() {
    let payload = "{\n  \"a\": [\r\n\t1,\n 2],\n  \"text\": \"one\\ntwo\"\n}";
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    post.deliver_until_ok(&[event("broken").bytes(JSON, payload), event("next")]).await;
    let arrived = harness.arrived().await;
    assert_eq!(arrived.len(), 2, "one event became several");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let Some(found) = arrived.iter().find(|a| a.id == "broken") else { panic!("it has not arrived") };
    assert_eq!(value(&found.payload), value(payload));
    post.close().await;
}

/// Larger than any pipe's buffer.
pub async fn a_payload_of_200_kb_arrives_unchanged<H: Observed>() {
    let harness = H::start(LONG).await;
    let mut post = Post::new(harness.transport());
    let text: String = ('a'..='z').chain("äöü".chars()).cycle().take(200_000).collect();
    check(&harness, &mut post, event("large").bytes(JSON, format!("{{\"text\":\"{text}\"}}"))).await;
    post.close().await;
}

/// It arrives, or it is a dead letter; those beside it get through.
pub async fn a_very_large_event_does_not_hurt_its_neighbours<H: Observed>() {
    let harness = H::start(LONG).await;
    let transport = harness.transport();
    let bytes = transport.capabilities().envelope_bytes_max.unwrap_or(4 * 1024 * 1024) + 1;
    let mut post = Post::new(transport);
    let large = event("large").bytes(JSON, format!("\"{}\"", "x".repeat(bytes)));
    post.deliver(&[event("before"), large, event("after")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["before"].is_ok() && outcomes["after"].is_ok(), "{outcomes:?}");
    match &outcomes["large"] {
        Ok(_) => assert!(harness.arrived().await.iter().any(|a| a.id == "large" && a.payload.len() == bytes + 2)),
        Err(failure) => assert_eq!(failure.kind, FailureKind::Permanent, "{failure:?}"),
    }
    post.close().await;
}

async fn check<H: Observed>(harness: &H, post: &mut Post, event: Event) {
    post.deliver(std::slice::from_ref(&event)).await;
    let (_, outcome) = post.outcome().await;
    assert!(outcome.is_ok(), "{outcome:?}");
    let Some(arrived) = harness.arrived().await.into_iter().find(|a| a.id == event.id) else {
        panic!("{} has not arrived", event.id)
    };
    assert_eq!(arrived.event_type, event.event_type);
    assert!(arrived.payload.as_bytes() == event.payload, "the payload of {} changed", event.id);
}
