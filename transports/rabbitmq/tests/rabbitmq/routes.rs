//! Where events go, how they look there, and what becomes of those that no queue takes (H-51).

use lapin::types::AMQPValue;
use postroom_conformance::changed;
use postroom_core::{Event, FailureKind, JSON, Outcome, Template};
use postroom_rabbitmq::Unroutable;
use postroom_testbed::Servers;

use crate::rabbitmq::place::{Place, event, lost_event, options, post, url};

#[tokio::test]
async fn a_thousand_events_that_no_queue_takes_are_never_delivered() {
    for (policy, kind) in [(Unroutable::Retry, FailureKind::Transient), (Unroutable::Dead, FailureKind::Permanent)] {
        let place = Place::shared().await;
        let mut post = post(changed(place.options(place.port), |o| o.unroutable = policy));
        let events: Vec<Event> = (0..1000).map(|n| lost_event(format!("l-{n}"))).collect();
        post.deliver(&events).await;
        for (id, outcome) in post.outcomes().await {
            let failure = outcome.expect_err(&id);
            assert_eq!((failure.kind, &*failure.code), (kind, "rabbitmq.unroutable"));
            assert!(failure.error.contains(&place.name) && failure.error.contains("NO_ROUTE"), "{}", failure.error);
        }
        assert_eq!(place.arrived_ids().await, [""; 0]);
        post.close().await;
    }
}

#[tokio::test]
async fn events_that_no_queue_takes_count_as_delivered_where_that_is_accepted() {
    let place = Place::shared().await;
    let mut post = post(changed(place.options(place.port), |o| o.unroutable = Unroutable::Accept));
    post.deliver(&[lost_event("lost"), event("taken")]).await;
    let outcomes = post.outcomes().await;
    let said = |outcome: &Outcome| outcome.as_ref().unwrap().place.as_deref().map(str::to_owned);
    assert_eq!(said(&outcomes["lost"]).as_deref(), Some("no queue: NO_ROUTE"));
    assert_eq!(said(&outcomes["taken"]), None);
    assert_eq!(place.arrived_ids().await, ["taken"]);
    post.close().await;
}

/// The broker confirms many at once, those it threw away among them.
#[tokio::test]
async fn events_that_no_queue_takes_are_told_apart_from_those_confirmed_with_them() {
    let place = Place::shared().await;
    let mut post = place.post();
    for round in 0..5 {
        let lost = |n: usize| n % 7 == round;
        let id = |n: usize| format!("{round}-{n}");
        let events: Vec<Event> = (0..2000).map(|n| if lost(n) { lost_event(id(n)) } else { event(id(n)) }).collect();
        post.deliver(&events).await;
        let outcomes = post.outcomes().await;
        let wrong: Vec<String> = (0..2000)
            .map(|n| (n, id(n)))
            .filter(|(n, id)| outcomes[id].is_ok() == lost(*n))
            .map(|(_, id)| id)
            .collect();
        assert_eq!(wrong, [""; 0], "an event no queue takes was taken for delivered, or the other way round");
    }
    post.close().await;
}

#[tokio::test]
async fn a_queue_that_is_bound_late_gets_the_event_at_the_next_try() {
    let place = Place::shared().await;
    let mut post = place.post();
    assert_eq!(crate::rabbitmq::place::failure(&mut post, lost_event("late")).await.code, "rabbitmq.unroutable");
    place.bind("nowhere.#").await;
    post.deliver_until_ok(&[lost_event("late")]).await;
    assert_eq!(place.arrived_ids().await, ["late"]);
    post.close().await;
}

#[tokio::test]
async fn an_event_is_a_persistent_message_with_its_properties() {
    let place = Place::shared().await;
    let mut post = post(changed(place.options(place.port), |o| {
        o.routing_key = Template::parse("parcel.{aggregate_type}.{type|lower}", &[]).unwrap();
    }));
    let mut sent = Event::new("Sent.Abroad").id("e-1").aggregate("letter", "l-7").header("ce-id", "another");
    sent = sent.header("shop", "größe").bytes(JSON, "{}");
    sent.correlation_id = Some("c-9".to_owned());
    sent.occurred_at = "2026-01-02T03:04:05.9Z".parse().unwrap();
    post.deliver_until_ok(&[sent]).await;
    post.close().await;
    let message = place.get(&place.name).await.expect("it is in the queue");
    assert_eq!(message.routing_key.as_str(), "parcel.letter.sent.abroad");
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    let of = &message.properties;
    assert_eq!(text(of.message_id()), "e-1");
    assert_eq!(text(of.kind()), "Sent.Abroad");
    assert_eq!(text(of.content_type()), JSON);
    assert_eq!(text(of.correlation_id()), "c-9");
    assert_eq!((*of.delivery_mode(), *of.timestamp()), (Some(2), Some(1_767_323_045)));
    let headers = of.headers().as_ref().unwrap().inner();
    let header = |name: &str| match headers.get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        other => panic!("{name}: {other:?}"),
    };
    for (name, value) in [
        ("ce-id", "e-1"),
        ("ce-type", "Sent.Abroad"),
        ("ce-source", "/postroom/test"),
        ("ce-subject", "l-7"),
        ("ce-sequence", "00000000000000000001"),
        ("postroom-position", "1"),
        ("shop", "größe"),
    ] {
        assert_eq!(header(name), value);
    }
}

#[tokio::test]
async fn without_an_exchange_the_routing_key_is_the_name_of_a_queue() {
    let place = Place::bare(Servers::find().port("rabbitmq")).await;
    place.queue(&[]).await;
    let key = Template::parse(&place.name, &[]).unwrap();
    let mut post = post(changed(options(&url(place.port), ""), |o| o.routing_key = key));
    post.deliver_until_ok(&[event("straight")]).await;
    assert_eq!(place.arrived_ids().await, ["straight"]);
    post.close().await;
}

#[tokio::test]
async fn what_can_never_be_sent_is_refused_without_hurting_its_neighbours() {
    let place = Place::shared().await;
    let mut post = place.post();
    let long = Event::new(format!("parcel.{}", "x".repeat(250))).id("long key");
    let copied = event("copied").header("CC", "another.key");
    let heavy = event("heavy").header("large", "x".repeat(140 * 1024));
    post.deliver(&[event("before"), long, copied, heavy, event("after")]).await;
    let outcomes = post.outcomes().await;
    for (id, code) in
        [("long key", "rabbitmq.routing_key"), ("copied", "rabbitmq.header"), ("heavy", "rabbitmq.header")]
    {
        let failure = outcomes[id].as_ref().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, code));
    }
    assert!(outcomes["before"].is_ok() && outcomes["after"].is_ok(), "{outcomes:?}");
    assert_eq!(place.arrived_ids().await, ["before", "after"]);
    post.close().await;
}
