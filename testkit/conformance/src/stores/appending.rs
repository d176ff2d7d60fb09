//! What an append promises: atomic with its transaction, in order, byte for byte.

use postroom_admin::{Page, Selection};
use postroom_core::{
    Event, HEADER_BYTES_MAX, ID_BYTES_MAX, JSON, KEY_BYTES_MAX, NAME_BYTES_MAX, Outbox, StoreErrorKind,
};
use serde_json::json;

use super::bench::{event, events, names, of_key, route};
use super::{Bench, StoreHarness};

async fn in_log<H: StoreHarness>(s: &Bench<H>) -> Vec<String> {
    let rows = s.admin().events(&Selection::default(), Page::Oldest { after: 0, limit: 10_000 }).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

pub async fn an_appended_event_is_seen_after_commit_and_not_before<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    let mut tx = s.harness.begin().await;
    let appended = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    assert_eq!(appended.ids(), ["a-1"]);
    assert!(in_log(s).await.is_empty(), "an open transaction is nobody else's business");
    s.harness.commit(tx).await;
    assert_eq!(in_log(s).await, ["a-1"]);
    assert_eq!(worker.drain().await, ["a-1"]);
}

pub async fn a_rolled_back_event_is_never_seen<H: StoreHarness>(s: &Bench<H>) {
    let worker = s.serve(&route()).await;
    let mut tx = s.harness.begin().await;
    let _ = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    s.harness.rollback(tx).await;
    let mut tx = s.harness.begin().await;
    let _ = s.store().append(&mut tx, &event("a", 2)).await.unwrap();
    drop(tx);
    s.append(&events("a", 3..=3)).await;
    assert_eq!(worker.drain().await, ["a-3"]);
    assert_eq!(in_log(s).await, ["a-3"]);
}

pub async fn many_appended_events_keep_their_order<H: StoreHarness>(s: &Bench<H>) {
    let mut batch = Vec::new();
    for n in 1..=50 {
        batch.extend([event("a", n), event("b", n), event("c", n)]);
    }
    let mut tx = s.harness.begin().await;
    let appended = s.store().append_many(&mut tx, &batch).await.unwrap();
    let given: Vec<String> = batch.iter().map(|event| event.id.clone()).collect();
    assert_eq!(appended.ids(), given);
    s.harness.commit(tx).await;
    assert_eq!(in_log(s).await, given);
    let came = s.serve(&route()).await.drain().await;
    for key in ["a", "b", "c"] {
        assert_eq!(of_key(&came, key), names(key, 1..=50));
    }
}

pub async fn many_appended_events_are_all_there_or_none<H: StoreHarness>(s: &Bench<H>) {
    let batch = [event("a", 1), event("a", 2), Event::new("")];
    let mut tx = s.harness.begin().await;
    let error = s.store().append_many(&mut tx, &batch).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Invalid);
    let _ = s.store().append(&mut tx, &event("a", 3)).await.unwrap();
    s.harness.commit(tx).await;
    assert_eq!(in_log(s).await, ["a-3"], "the refused batch left nothing, the transaction goes on");
}

pub async fn the_admin_appends_in_one_transaction<H: StoreHarness>(s: &Bench<H>) {
    assert!(s.admin().append(&[event("a", 1), Event::new("")]).await.is_err());
    assert!(in_log(s).await.is_empty());
    assert_eq!(s.admin().append(&events("a", 1..=2)).await.unwrap(), ["a-1", "a-2"]);
    assert_eq!(in_log(s).await, ["a-1", "a-2"]);
}

pub async fn the_admin_appends_each_id_once_where_that_is_asked_for<H: StoreHarness>(s: &Bench<H>) {
    let admin = s.admin();
    assert!(admin.append_once(&[event("a", 1), Event::new("")]).await.is_err());
    assert!(in_log(s).await.is_empty(), "the id of a refused batch is not used up");
    assert_eq!(admin.append_once(&events("a", 1..=2)).await.unwrap(), ["a-1", "a-2"]);
    assert_eq!(admin.append_once(&events("a", 2..=3)).await.unwrap(), ["a-3"]);
    assert!(admin.append_once(&events("a", 1..=3)).await.unwrap().is_empty());
    // A word of the application's own is another one, also where it reads like an id.
    let mut tx = s.harness.begin().await;
    assert_eq!(s.store().append_once(&mut tx, "a-1", &event("b", 1)).await.unwrap().ids(), ["b-1"]);
    s.harness.commit(tx).await;
    assert_eq!(in_log(s).await, ["a-1", "a-2", "a-3", "b-1"]);
}

pub async fn an_append_with_a_word_used_before_does_nothing<H: StoreHarness>(s: &Bench<H>) {
    for (n, expected) in [(1, 1), (2, 0)] {
        let mut tx = s.harness.begin().await;
        let appended = s.store().append_once(&mut tx, "request-7", &event("a", n)).await.unwrap();
        assert_eq!(appended.ids().len(), expected);
        s.harness.commit(tx).await;
    }
    assert_eq!(in_log(s).await, ["a-1"]);
}

pub async fn a_word_used_twice_in_one_transaction_counts_once<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    let first = s.store().append_once(&mut tx, "request-7", &event("a", 1)).await.unwrap();
    let second = s.store().append_once(&mut tx, "request-7", &event("a", 2)).await.unwrap();
    let _ = s.store().append(&mut tx, &event("a", 3)).await.unwrap();
    s.harness.commit(tx).await;
    assert_eq!((first.ids().len(), second.ids().len()), (1, 0));
    assert_eq!(in_log(s).await, ["a-1", "a-3"]);
}

pub async fn a_word_is_free_again_after_a_rollback<H: StoreHarness>(s: &Bench<H>) {
    let mut tx = s.harness.begin().await;
    let _ = s.store().append_once(&mut tx, "request-7", &event("a", 1)).await.unwrap();
    s.harness.rollback(tx).await;
    let mut tx = s.harness.begin().await;
    let appended = s.store().append_once(&mut tx, "request-7", &event("a", 2)).await.unwrap();
    s.harness.commit(tx).await;
    assert_eq!(appended.ids(), ["a-2"]);
    assert_eq!(in_log(s).await, ["a-2"]);
}

pub async fn an_event_comes_out_byte_for_byte_as_it_went_in<H: StoreHarness>(s: &Bench<H>) {
    let time = |text: &str| text.parse().unwrap();
    let mut full = Event::new("order.plåced")
        .id("e-1")
        .key("ключ 7")
        .aggregate("order", "order-7")
        .tenant("acme")
        .header("traceparent", "00-abc-def-01")
        .header("x", "ü = 雪")
        .attribute("station_id", "s9")
        .attribute("nested", json!({"list": [1, null, true], "deep": {"n": -1.5}}))
        .bytes(JSON, "{ \"z\" : 1,\n\t\"a\": 12345678901234567890123, \"u\":\"\\u00e9é\" }")
        .available_at(time("2020-02-03T04:05:06.789012Z"));
    full.occurred_at = time("2026-01-02T03:04:05.678901Z");
    full.correlation_id = Some("request-1".to_owned());
    full.causation_id = Some("e-0".to_owned());
    full.schema_version = 7;
    let mut bare = Event::new("t").id("e-2");
    bare.occurred_at = time("1999-12-31T23:59:59Z");
    let mut binary = Event::new("t").id("e-3").bytes("application/octet-stream", (0..=255u8).collect::<Vec<u8>>());
    binary.occurred_at = bare.occurred_at;
    let mut empty = Event::new("t").id("e-4").bytes("text/plain; charset=utf-8", "");
    empty.occurred_at = bare.occurred_at;
    let given = [full, bare, binary, empty];
    s.append(&given).await;
    let taken = s.serve(&route()).await.take().await;
    assert_eq!(taken.len(), given.len());
    for event in &given {
        let came = taken.iter().find(|delivery| delivery.event.id == event.id).unwrap();
        assert_eq!(*came.event, *event);
    }
}

pub async fn two_events_of_one_id_are_two_events<H: StoreHarness>(s: &Bench<H>) {
    s.append(&[event("a", 1), event("a", 1)]).await;
    assert_eq!(s.serve(&route()).await.drain().await, ["a-1", "a-1"]);
    let timeline = s.admin().event("a-1", false).await.unwrap().unwrap();
    assert_eq!(timeline.same_id_at.len(), 1);
}

pub async fn what_breaks_a_limit_is_refused_and_nothing_is_written<H: StoreHarness>(s: &Bench<H>) {
    let long = |n: usize| "x".repeat(n + 1);
    let ok = || Event::new("t");
    let with = |change: fn(&mut Event)| {
        let mut event = ok();
        change(&mut event);
        event
    };
    let bad = [
        Event::new(""),
        Event::new(long(NAME_BYTES_MAX)),
        Event::new("a\nb"),
        ok().id(""),
        ok().id(long(ID_BYTES_MAX)),
        ok().key(""),
        ok().key(long(KEY_BYTES_MAX)),
        ok().aggregate(long(NAME_BYTES_MAX), "1"),
        ok().aggregate("order", long(KEY_BYTES_MAX)),
        ok().tenant(long(NAME_BYTES_MAX)),
        with(|event| event.correlation_id = Some("x".repeat(NAME_BYTES_MAX + 1))),
        with(|event| event.causation_id = Some("x".repeat(NAME_BYTES_MAX + 1))),
        ok().header("", "x"),
        ok().header("x", "a\r\nb"),
        ok().header("x", long(HEADER_BYTES_MAX)),
        ok().attribute("x", long(HEADER_BYTES_MAX)),
        ok().bytes(JSON, "{nope"),
        ok().bytes("text/plain", long(1024 * 1024)),
    ];
    let mut tx = s.harness.begin().await;
    for event in &bad {
        let error = s.store().append(&mut tx, event).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Invalid, "{error}");
        assert!(!error.hint.is_empty(), "{error} has no next step");
    }
    let _ = s.store().append(&mut tx, &event("a", 1)).await.unwrap();
    s.harness.commit(tx).await;
    assert_eq!(in_log(s).await, ["a-1"]);
}

pub async fn what_is_exactly_at_a_limit_is_kept<H: StoreHarness>(s: &Bench<H>) {
    let long = |n: usize| "x".repeat(n);
    let event = Event::new(long(NAME_BYTES_MAX))
        .id(long(ID_BYTES_MAX))
        .key(long(KEY_BYTES_MAX))
        .tenant(long(NAME_BYTES_MAX))
        .bytes("text/plain", long(1024 * 1024));
    s.append(std::slice::from_ref(&event)).await;
    let taken = s.serve(&route()).await.take_one().await;
    assert_eq!((&taken.event.key, &taken.event.payload), (&event.key, &event.payload));
}

pub async fn events_are_listed_by_what_they_are_from_either_end<H: StoreHarness>(s: &Bench<H>) {
    s.append(&events("a", 1..=3)).await;
    s.append(&[event("b", 1).tenant("acme"), Event::new("invoice.sent").id("i-1").aggregate("invoice", "7")]).await;
    let list = async |which: Selection, page: Page| -> Vec<String> {
        s.admin().events(&which, page).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    let oldest = Page::Oldest { after: 0, limit: 10 };
    let key = Selection { key: Some("a".to_owned()), ..Selection::default() };
    assert_eq!(list(key, oldest).await, ["a-1", "a-2", "a-3"]);
    let aggregate_key = Selection { key: Some("7".to_owned()), ..Selection::default() };
    assert_eq!(list(aggregate_key, oldest).await, ["i-1"]);
    let tenant = Selection { tenant: Some("acme".to_owned()), ..Selection::default() };
    assert_eq!(list(tenant, oldest).await, ["b-1"]);
    let types =
        Selection { event_type: Some(postroom_core::Pattern::parse("invoice.*").unwrap()), ..Selection::default() };
    assert_eq!(list(types, oldest).await, ["i-1"]);
    let aggregate = Selection { aggregate_type: Some("invoice".to_owned()), ..Selection::default() };
    assert_eq!(list(aggregate, oldest).await, ["i-1"]);
    let both = Selection { ids: vec!["b-1".to_owned(), "a-2".to_owned()], ..Selection::default() };
    assert_eq!(list(both, oldest).await, ["a-2", "b-1"]);

    let newest =
        s.admin().events(&Selection::default(), Page::Newest { before: None, above: 0, limit: 2 }).await.unwrap();
    assert_eq!(newest.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["i-1", "b-1"]);
    let before = Page::Newest { before: Some(newest[1].position), above: 0, limit: 2 };
    assert_eq!(list(Selection::default(), before).await, ["a-3", "a-2"]);
    let first = s.admin().events(&Selection::default(), Page::Oldest { after: 0, limit: 2 }).await.unwrap();
    let after = Page::Oldest { after: first[1].position, limit: 2 };
    assert_eq!(list(Selection::default(), after).await, ["a-3", "b-1"]);
    let stretch = Page::Newest { before: Some(newest[0].position), above: first[0].position, limit: 10 };
    for (key, found) in [("a", &["a-3", "a-2"][..]), ("7", &[]), ("nobody", &[])] {
        let which = Selection { key: Some(key.to_owned()), ..Selection::default() };
        assert_eq!(list(which, stretch).await, found, "between the first and the last: {key}");
    }
}
