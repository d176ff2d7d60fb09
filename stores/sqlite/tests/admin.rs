//! What operators see and do.
#![allow(clippy::unwrap_used, reason = "helpers are part of the tests")]

use std::time::Duration;

use postroom_admin::view::ReplayKind::{Dead, Settled};
use postroom_admin::view::{ReplayKind, ReplayState};
use postroom_admin::{Admin, ManagedStore as _, Page, ReplayOrder, Selection, replay_at_once};
use postroom_core::{
    Clock, DeliveryState, Event, Filter, Inbox, OnDead, Pattern, Retention, RouteHealth, RouteSpec, RouteState,
    StoreError, StoreErrorKind,
};

use crate::common::*;

const SECOND: Duration = Duration::from_secs(1);
/// Sends again what is selected; how many that are.
async fn replay(admin: &dyn Admin, what: ReplayKind, which: &Selection) -> Result<u64, StoreError> {
    Ok(replay_at_once(admin, what, which, &actor()).await?.map_or(0, |row| row.done))
}

fn of_id(id: &str) -> Selection {
    Selection { ids: vec![id.to_owned()], ..Selection::default() }
}

#[tokio::test]
async fn events_are_listed_by_position_both_ways_and_by_every_part_of_a_selection() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let mut late = Event::new("paid").key("k-2").id("b").aggregate("order", "7");
    late.occurred_at = "2030-01-01T00:00:00Z".parse().unwrap();
    admin.append(&[Event::new("order.placed").aggregate("order", "o-1").tenant("acme").id("a"), late]).await.unwrap();
    admin.append(&[Event::new("order.gone").id("c")]).await.unwrap();
    let newest = |before, limit| Page::Newest { before, above: 0, limit };
    let list = async |which: Selection, page| {
        let rows = admin.events(&which, page).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let any = Selection::default;
    assert_eq!(list(any(), newest(None, 2)).await, ["c", "b"]);
    assert_eq!(list(any(), newest(Some(2), 2)).await, ["a"]);
    assert_eq!(list(any(), Page::Oldest { after: 1, limit: 9 }).await, ["b", "c"]);
    let pattern = |text| Some(Pattern::parse(text).unwrap());
    for (which, expected) in [
        (Selection { event_type: pattern("order.*"), ..any() }, vec!["c", "a"]),
        (Selection { event_type: pattern("paid"), ..any() }, vec!["b"]),
        (Selection { key: Some("o-1".into()), ..any() }, vec!["a"]),
        (Selection { key: Some("k-2".into()), ..any() }, vec!["b"]),
        (Selection { aggregate_type: Some("order".into()), ..any() }, vec!["b", "a"]),
        (Selection { tenant: Some("acme".into()), ..any() }, vec!["a"]),
        (Selection { ids: vec!["a".into(), "c".into()], ..any() }, vec!["c", "a"]),
        (Selection { from: Some("2030-01-01T00:00:00Z".parse().unwrap()), ..any() }, vec!["b"]),
        (Selection { to: Some("2030-01-01T00:00:00Z".parse().unwrap()), ..any() }, vec!["c", "a"]),
    ] {
        assert_eq!(list(which.clone(), newest(None, 9)).await, expected, "{which:?}");
    }
}

#[tokio::test]
async fn the_timeline_tells_what_became_of_an_event_on_every_route() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    shop.source("a", &RouteSpec::new("late")).await;
    let picky = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..from_beginning("picky") };
    shop.source("a", &picky).await;
    let taken = take(&source).await;
    settle(&source, &[delivered(&taken[0]), retry(&taken[1], 60), returned(&taken[2])]).await;
    let mut tx = shop.store.begin().await.unwrap();
    let _ = shop.store.accept(&mut tx, "mailer", "k-1").await.unwrap();
    tx.commit().await.unwrap();
    let line = async |id: &str| admin.event(id, true).await.unwrap().unwrap();
    let states =
        |t: &postroom_admin::view::Timeline| t.routes.iter().map(|r| (r.route.clone(), r.state)).collect::<Vec<_>>();
    let one = line("k-1").await;
    assert_eq!(
        states(&one),
        [("late".into(), "before_start"), ("picky".into(), "filtered"), ("r".into(), "delivered")]
    );
    assert_eq!(one.routes[2].receipt.as_deref(), Some("@k-1"));
    assert_eq!(one.routes[2].delivered_at, Some(shop.clock.now()));
    assert_eq!((one.inbox[0].consumer.as_str(), one.payload), ("mailer", Some(serde_json::Value::Null)));
    let two = &line("k-2").await.routes[2];
    assert_eq!((two.state, two.due_at), ("retrying", Some(shop.clock.now() + 60 * SECOND)));
    assert_eq!((two.attempts[0].attempt, two.attempts[0].code.as_str()), (1, "test.transient"));
    assert_eq!((two.attempts[0].outcome.as_str(), two.attempts[0].took_ms), ("transient", 3));
    let three = &line("k-3").await.routes[2];
    assert_eq!((three.state, three.blocked_by.as_deref()), ("blocked", Some("k-2")));
    shop.append(&[Event::new("t").id("k-1")]).await;
    assert_eq!(line("k-1").await.same_id_at, [1]);
    assert_eq!(line("k-1").await.routes[2].state, "due");
    assert!(admin.event("nobody", true).await.unwrap().is_none());
    assert!(admin.event("k-2", false).await.unwrap().unwrap().payload.is_none());
}

#[tokio::test]
async fn a_receipt_is_found_whatever_else_was_settled_with_it() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let events: Vec<Event> = (1..=3_000).map(|n| Event::new("t").id(format!("e-{n}"))).collect();
    shop.append(&events).await;
    let taken = source.take(postroom_core::Budget { rows: 5_000, bytes: 1 << 30 }).await.unwrap().deliveries;
    // The slow first one is settled with the last one; each of the others alone.
    for delivery in &taken[1..2_999] {
        if delivery.handle % 300 == 0 {
            settle(&source, &[delivered(delivery)]).await;
        }
    }
    settle(&source, &[delivered(&taken[0]), delivered(&taken[2_999])]).await;
    for id in ["e-1", "e-300", "e-2700", "e-3000"] {
        let line = shop.store.admin().event(id, false).await.unwrap().unwrap();
        assert_eq!(line.routes[0].receipt, Some(format!("@{id}")), "{id}");
    }
}

#[tokio::test]
async fn dead_letters_are_replayed_in_place_and_counted_when_they_get_through() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    shop.append_key("k", 1..=2).await;
    let taken = take(&source).await;
    settle(&source, &[dead(&taken[0]), dead(&taken[1])]).await;
    let letters = admin.dead(&Selection::default(), 0, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].state, letters[0].attempts), (2, DeliveryState::Dead, 1));
    assert_eq!(letters[0].code.as_deref(), Some("test.permanent"));
    assert_eq!(admin.dead(&Selection::default(), 1, 10).await.unwrap().len(), 1);
    let by_code = Selection { code: Some("other".into()), ..Selection::default() };
    assert!(admin.dead(&by_code, 0, 10).await.unwrap().is_empty());
    let affected = admin.preview_replay(Dead, &Selection::default(), None).await.unwrap();
    assert_eq!((affected.deliveries, affected.keys, affected.routes["r"]), (2, 1, 2));
    assert!(take(&source).await.is_empty(), "a preview replayed");
    replay(&*admin, Dead, &of_id("k-1")).await.unwrap();
    let again = take(&source).await;
    assert_eq!((ids(&again), again[0].attempts), (vec!["k-1"], 0));
    settle(&source, &[retry(&again[0], 1)]).await;
    shop.clock.advance(SECOND);
    let again = take(&source).await;
    settle(&source, &[delivered(&again[0])]).await;
    let line = admin.event("k-1", false).await.unwrap().unwrap();
    assert_eq!(line.routes[0].attempts.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 1], "a try was lost");
    assert_eq!((line.routes[0].state, line.routes[0].receipt.as_deref()), ("delivered", Some("@k-1")));
    admin.discard_dead(&Selection::default(), false, &actor()).await.unwrap();
    assert_eq!(admin.event("k-2", false).await.unwrap().unwrap().routes[0].state, "discarded");
    let verified = admin.verify().await.unwrap();
    assert_eq!((verified[0].counts.parked, verified[0].counts.recovered, verified[0].counts.discarded), (2, 1, 1));
    shop.verify().await;
    let actions: Vec<_> = admin.audit(None, 9).await.unwrap().into_iter().map(|a| (a.action, a.count)).collect();
    assert_eq!(actions, [("dead.discard".into(), 1), ("dead.replay".into(), 1)]);
}

#[tokio::test]
async fn a_held_key_goes_on_when_its_dead_letter_is_replayed_or_discarded() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.source("a", &RouteSpec { on_dead: OnDead::Hold, ..from_beginning("r") }).await;
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    settle(&source, &[dead(&taken[0]), returned(&taken[1]), returned(&taken[2])]).await;
    assert!(take(&source).await.is_empty());
    replay(&*admin, Dead, &Selection::default()).await.unwrap();
    let head = take(&source).await;
    assert_eq!(ids(&head), ["k-1"], "a follower passed the one it waits for");
    settle(&source, &[dead(&head[0])]).await;
    assert!(take(&source).await.is_empty());
    admin.discard_dead(&Selection::default(), false, &actor()).await.unwrap();
    assert_eq!(ids(&take(&source).await), ["k-2", "k-3"]);
    shop.verify().await;
}

#[tokio::test]
async fn settled_events_are_replayed_at_a_rate_and_are_part_of_no_count() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    settle(&source, &[delivered(&taken[0]), delivered(&taken[1])]).await;
    let all = Selection::default();
    let affected = admin.preview_replay(Settled, &all, Some(10 * SECOND)).await.unwrap();
    assert_eq!((affected.deliveries, affected.older_than_inbox), (2, 0), "an unsettled one would be replayed");
    let order = ReplayOrder { what: Settled, which: all.clone(), rate: Some(0.5), allow_duplicates: false, total: 2 };
    let job = admin.start_replay(&order, &actor()).await.unwrap();
    assert_eq!(admin.step_replay(&job.id, 9).await.unwrap().done, 1);
    assert_eq!(replay(&*admin, Settled, &all).await.unwrap(), 1, "one is on its way already");
    let first = source.take(ALL).await.unwrap();
    assert_eq!(ids(&first.deliveries), ["k-1", "k-2"]);
    assert!(!first.deliveries[0].ordered);
    settle(&source, &[delivered(&first.deliveries[1])]).await;
    shop.clock.advance(2 * SECOND);
    assert_eq!(admin.step_replay(&job.id, 9).await.unwrap().done, 2);
    let second = take(&source).await;
    assert_eq!(ids(&second), ["k-2"]);
    settle(&source, &[delivered(&first.deliveries[0]), delivered(&second[0]), delivered(&taken[2])]).await;
    let verified = &admin.verify().await.unwrap()[0];
    assert_eq!((verified.counts.delivered, verified.counts.recovered, verified.counts.parked), (3, 0, 0));
    shop.verify().await;
    shop.clock.advance(20 * SECOND);
    assert_eq!(admin.preview_replay(Settled, &all, Some(10 * SECOND)).await.unwrap().older_than_inbox, 3);
    let nowhere = Selection { route: Some("nowhere".into()), ..Selection::default() };
    let unknown = admin.preview_replay(Settled, &nowhere, None).await.unwrap_err();
    assert_eq!(unknown.kind, StoreErrorKind::NotFound);
}

#[tokio::test]
async fn a_blocked_key_is_shown_and_goes_on_when_unblocked_or_when_its_head_is_skipped() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    for key in ["k", "l"] {
        shop.append_key(key, 1..=3).await;
    }
    let taken = take(&source).await;
    let verdicts: Vec<_> =
        taken.iter().map(|d| if d.event.id.ends_with("-1") { retry(d, 60) } else { returned(d) }).collect();
    settle(&source, &verdicts).await;
    let keys = admin.blocked_keys(None, None, 10).await.unwrap();
    assert_eq!(
        keys.iter().map(|k| (k.key.as_str(), k.head_id.as_str(), k.waiting)).collect::<Vec<_>>(),
        [("k", "k-1", 2), ("l", "l-1", 2)]
    );
    assert_eq!((keys[0].head_state, keys[0].attempts), (DeliveryState::Retrying, 1));
    assert!(admin.blocked_keys(Some("other"), None, 10).await.unwrap().is_empty());
    assert_eq!(admin.unblock("r", "k", &actor()).await.unwrap(), 2);
    assert_eq!(ids(&take(&source).await), ["k-2", "k-3"]);
    assert_eq!(admin.skip_head("r", "l", &actor()).await.unwrap(), "l-1");
    assert_eq!(ids(&take(&source).await), ["l-2", "l-3"]);
    assert_eq!(admin.dead(&Selection::default(), 0, 9).await.unwrap()[0].id, "l-1");
    assert_eq!(admin.skip_head("r", "nothing", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
    assert_eq!(admin.unblock("nowhere", "k", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
    shop.clock.advance(60 * SECOND);
    assert_eq!(ids(&take(&source).await), ["k-1"], "the head lost its own retries");
    shop.verify().await;
}

#[tokio::test]
async fn a_skipped_head_that_was_in_flight_stays_dead_when_it_fails_and_goes_when_it_gets_through() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    for key in ["k", "l"] {
        shop.append_key(key, 1..=2).await;
    }
    let taken = take(&source).await;
    let verdicts: Vec<_> =
        taken.iter().map(|d| if d.event.id.ends_with("-1") { retry(d, 1) } else { returned(d) }).collect();
    settle(&source, &verdicts).await;
    shop.clock.advance(SECOND);
    let heads = take(&source).await;
    assert_eq!(ids(&heads), ["k-1", "l-1"]);
    admin.skip_head("r", "k", &actor()).await.unwrap();
    admin.skip_head("r", "l", &actor()).await.unwrap();
    settle(&source, &[retry(&heads[0], 1), delivered(&heads[1])]).await;
    let letters = admin.dead(&Selection::default(), 0, 9).await.unwrap();
    assert_eq!(letters.iter().map(|l| l.id.as_str()).collect::<Vec<_>>(), ["k-1"]);
    assert_eq!(ids(&take(&source).await), ["k-2", "l-2"]);
    shop.verify().await;
}

#[tokio::test]
async fn a_paused_route_hands_out_nothing_until_it_is_resumed() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    assert!(admin.pause("r", &actor()).await.unwrap());
    assert!(!admin.pause("r", &actor()).await.unwrap());
    let paused = source.take(ALL).await.unwrap();
    assert!(paused.deliveries.is_empty() && paused.ownership.paused);
    let row = &admin.routes().await.unwrap()[0];
    assert_eq!(
        (row.status.state, row.paused_by.as_deref(), row.status.due),
        (RouteState::Paused, Some("ann"), Some(1))
    );
    assert!(admin.resume("r", &actor()).await.unwrap());
    assert_eq!(ids(&take(&source).await), ["k-1"]);
    assert_eq!(admin.pause("nowhere", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
    let actions: Vec<_> = admin.audit(None, 9).await.unwrap().into_iter().map(|a| a.action).collect();
    assert_eq!(actions, ["route.resume", "route.pause"]);
}

#[tokio::test]
async fn status_is_what_the_store_knows_not_what_a_process_says() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let route = RouteSpec { filter: Filter::types(["t"]).unwrap(), ..from_beginning("r") };
    assert_eq!(admin.register(std::slice::from_ref(&route)).await.unwrap(), ["r"]);
    assert!(admin.register(std::slice::from_ref(&route)).await.unwrap().is_empty());
    let status = async || admin.routes().await.unwrap().remove(0).status;
    assert_eq!(
        (status().await.state, status().await.message.as_str()),
        (RouteState::Orphan, "no live relay serves this route")
    );
    let source = shop.source("a", &route).await;
    let health = RouteHealth { rate: 0.5, ..RouteHealth::new(RouteState::BreakerOpen, "refused") };
    source.renew(&health).await.unwrap();
    assert_eq!((status().await.state, status().await.message.as_str()), (RouteState::BreakerOpen, "refused"));
    shop.append_key("k", 1..=4).await;
    shop.append(&[Event::new("noise")]).await;
    shop.clock.advance(10 * SECOND);
    let before = status().await;
    assert_eq!((before.due, before.due_estimated, before.oldest_due_seconds), (Some(4), false, Some(10.0)));
    let taken = take(&source).await;
    settle(&source, &[delivered(&taken[0]), retry(&taken[1], 5), returned(&taken[2]), returned(&taken[3])]).await;
    let after = status().await;
    assert_eq!((after.due, after.oldest_due_seconds, after.delivered), (Some(0), Some(0.0), 1));
    assert_eq!((after.retrying, after.blocked_keys, after.dead), (1, 1, 0));
    assert!(after.rate_1m > 0.0);
    assert!((after.rate - 0.5).abs() < f64::EPSILON, "what its relay says");
    shop.clock.advance(20 * SECOND);
    assert_eq!((status().await.due, status().await.oldest_due_seconds), (Some(1), Some(15.0)));
    shop.clock.advance(LEASE);
    assert_eq!(status().await.state, RouteState::Orphan);
    assert!(!admin.relays().await.unwrap()[0].alive);
    let store = admin.store().await.unwrap();
    assert_eq!(
        (store.kind, store.events, store.unmatched, store.schema_version),
        ("sqlite", Some(5), Some(1), Some(2))
    );
    assert!(store.bytes.unwrap() > 0);
}

#[tokio::test]
async fn ten_thousand_due_are_counted_and_more_are_estimated() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    admin.register(&[from_beginning("r")]).await.unwrap();
    let events: Vec<Event> = (0..10_000).map(|_| Event::new("t")).collect();
    admin.append(&events).await.unwrap();
    let status = admin.routes().await.unwrap().remove(0).status;
    assert_eq!((status.due, status.due_estimated), (Some(10_000), false));
    admin.append(&events[..2_000]).await.unwrap();
    let status = admin.routes().await.unwrap().remove(0).status;
    assert_eq!((status.due, status.due_estimated), (Some(12_000), true));
}

#[tokio::test]
async fn a_route_is_forgotten_only_when_no_live_relay_serves_it() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    let taken = take(&source).await;
    settle(&source, &[dead(&taken[0])]).await;
    assert_eq!(admin.forget("r", &actor()).await.unwrap_err().kind, StoreErrorKind::Conflict);
    source.release().await.unwrap();
    admin.forget("r", &actor()).await.unwrap();
    assert!(admin.routes().await.unwrap().is_empty());
    assert_eq!(admin.forget("r", &actor()).await.unwrap_err().kind, StoreErrorKind::NotFound);
    assert_eq!(source.take(ALL).await.unwrap_err().kind, StoreErrorKind::NotFound);
}

#[tokio::test]
async fn retention_deletes_what_every_route_is_done_with_and_the_counts_still_agree() {
    let shop = Shop::open().await;
    let admin = shop.store.admin();
    let source = shop.all().await;
    let slow = shop.source("a", &from_beginning("slow")).await;
    shop.append_key("k", 1..=5).await;
    let taken = take(&source).await;
    let verdicts = [delivered(&taken[0]), dead(&taken[1]), delivered(&taken[2]), delivered(&taken[4])];
    settle(&source, &verdicts).await;
    let taken_slow = slow.take(postroom_core::Budget { rows: 4, bytes: 1 << 20 }).await.unwrap().deliveries;
    settle(&slow, &taken_slow.iter().map(delivered).collect::<Vec<_>>()).await;
    let mut tx = shop.store.begin().await.unwrap();
    let _ = shop.store.accept(&mut tx, "c", "k-1").await.unwrap();
    tx.commit().await.unwrap();
    let keep = Retention { delivered: Some(60 * SECOND), attempts: Some(60 * SECOND), inbox: Some(60 * SECOND) };
    assert_eq!(admin.prune(&keep, false).await.unwrap(), postroom_core::view::Pruned::default(), "too young");
    shop.clock.advance(61 * SECOND);
    let dry = admin.prune(&keep, true).await.unwrap();
    assert_eq!((dry.events, dry.inbox, dry.receipts, dry.attempts), (2, 1, 2, 0));
    assert_eq!(admin.prune(&keep, false).await.unwrap(), dry);
    // 2 is a dead letter, 4 is unsettled, 5 has not been read by the slow route.
    let left: Vec<i64> =
        sqlx::query_scalar("select seq from postroom_log order by seq").fetch_all(shop.store.pool()).await.unwrap();
    assert_eq!(left, [2, 4, 5]);
    shop.verify().await;
    let late = shop.source("a", &from_beginning("late")).await;
    assert_eq!(ids(&take(&late).await), ["k-2", "k-4", "k-5"]);
    late.release().await.unwrap();
    shop.verify().await;
}

#[tokio::test]
async fn retention_deletes_nothing_when_the_counts_disagree() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    sqlx::query("delete from postroom_log where seq = 2").execute(shop.store.pool()).await.unwrap();
    shop.clock.advance(LEASE);
    let keep = Retention { delivered: Some(SECOND), attempts: None, inbox: None };
    let error = shop.store.admin().prune(&keep, false).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert_eq!(shop.number("select count(*) from postroom_log").await, 2);
    assert!(!shop.store.admin().verify().await.unwrap()[0].differences.is_empty());
}

#[tokio::test]
async fn rows_of_a_clock_that_ran_ahead_do_not_stop_retention() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    // More than one stretch of them.
    let ahead = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1200) \
                 insert into postroom_log (id, type, payload, appended_at) select i, 't', '{}', 4000000000000000 from n";
    sqlx::query(ahead).execute(shop.store.pool()).await.unwrap();
    shop.append_key("k", 1..=5).await;
    let mut settled = 0;
    while settled < 1_205 {
        let taken = take(&source).await;
        settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
        settled += taken.len();
    }
    for sql in [
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 1200) \
         insert into postroom_inbox (consumer, id, accepted_at) select 'c', 'ahead' || i, 4000000000000000 from n",
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500) \
         insert into postroom_inbox (consumer, id, accepted_at) select 'c', i, 1 from n",
    ] {
        sqlx::query(sql).execute(shop.store.pool()).await.unwrap();
    }
    shop.clock.advance(30 * 86_400 * SECOND);
    let pruned = shop.store.admin().prune(&Retention::default(), false).await.unwrap();
    assert_eq!((pruned.events, pruned.inbox), (5, 2_500));
    shop.verify().await;
}

/// 12,000 events that route `r`, which nobody serves, has read; all dead letters, or all delivered.
async fn many(dead: bool) -> Shop {
    let shop = Shop::open().await;
    shop.store.admin().register(&[from_beginning("r")]).await.unwrap();
    let mut tx = shop.store.begin().await.unwrap();
    for sql in [
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 12000) \
         insert into postroom_log (type, payload) select 't', 'null' from n",
        if dead {
            "insert into postroom_delivery (route, seq, state, since) select 'r', seq, 'dead', 0 \
             from postroom_log order by seq"
        } else {
            "insert into postroom_receipt (route, lane, first, last, ranges, at) \
             select 'r', 0, seq, seq, json_array(json_array(seq, seq)), 0 from postroom_log"
        },
        if dead {
            "update postroom_checkpoint set hwm = 12000, seen = 12000, parked = 12000"
        } else {
            "update postroom_checkpoint set hwm = 12000, seen = 12000, delivered = 12000"
        },
    ] {
        sqlx::query(sql).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    shop.verify().await;
    shop
}

/// Breaks what an action does to number 7,000, and makes it whole again.
async fn broken(shop: &Shop, on: &str) {
    let sql = format!("create trigger broken before {on} begin select raise(abort, 'broken'); end");
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(shop.store.pool()).await.unwrap();
}

async fn fixed(shop: &Shop) {
    sqlx::query("drop trigger broken").execute(shop.store.pool()).await.unwrap();
    shop.verify().await;
}

/// Breaks a replay at number 7,000, fixes it, and goes on with it.
async fn break_and_go_on(shop: &Shop, what: ReplayKind, on: &str) {
    let (admin, all) = (shop.store.admin(), Selection::default());
    broken(shop, on).await;
    replay(&*admin, what, &all).await.unwrap_err();
    fixed(shop).await;
    let due = "select count(*) from postroom_delivery where state = 'due'";
    assert_eq!(shop.number(due).await, 6_000, "what was due before stays due, and no more");
    let mut job = admin.replays(Some(ReplayState::Running), 9).await.unwrap().remove(0);
    assert_eq!((job.done, job.total), (6_000, 12_000));
    while job.state == ReplayState::Running {
        job = admin.step_replay(&job.id, 5_000).await.unwrap();
    }
    assert_eq!((shop.number(due).await, job.done, job.state), (12_000, 12_000, ReplayState::Delivering));
}

#[tokio::test]
async fn a_large_replay_that_breaks_off_can_be_taken_up_again() {
    break_and_go_on(&many(false).await, Settled, "insert on postroom_delivery when new.seq = 7000").await;
}

#[tokio::test]
async fn a_large_replay_of_dead_letters_that_breaks_off_can_be_taken_up_again() {
    break_and_go_on(&many(true).await, Dead, "update on postroom_delivery when new.seq = 7000").await;
}

#[tokio::test]
async fn dead_letters_are_replayed_though_the_clock_was_set_back() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    let taken = take(&source).await;
    settle(&source, &[dead(&taken[0])]).await;
    shop.clock.set_back(10 * SECOND);
    assert_eq!(replay(&*shop.store.admin(), Dead, &Selection::default()).await.unwrap(), 1);
}

#[tokio::test]
async fn many_dead_letters_are_discarded_in_turns_and_the_counts_agree_after_each() {
    let shop = many(true).await;
    let admin = shop.store.admin();
    broken(&shop, "delete on postroom_delivery when old.seq = 7000").await;
    admin.discard_dead(&Selection::default(), false, &actor()).await.unwrap_err();
    fixed(&shop).await;
    assert_eq!(shop.number("select count(*) from postroom_delivery").await, 7_000);
    assert_eq!(admin.discard_dead(&Selection::default(), false, &actor()).await.unwrap().deliveries, 7_000);
    shop.verify().await;
    assert_eq!(admin.verify().await.unwrap()[0].counts.discarded, 12_000);
}

#[tokio::test]
async fn a_route_with_much_is_forgotten_in_turns_and_the_counts_agree_after_each() {
    let shop = many(true).await;
    let admin = shop.store.admin();
    let attempts = "insert into postroom_attempt (delivery, round, attempt, route, seq, at, outcome, code, error, took_ms) \
         select handle, 0, 1, route, seq, 0, 'permanent', 'c', 'e', 1 from postroom_delivery";
    sqlx::query(attempts).execute(shop.store.pool()).await.unwrap();
    broken(&shop, "delete on postroom_delivery when old.seq = 7000").await;
    admin.forget("r", &actor()).await.unwrap_err();
    fixed(&shop).await;
    assert_eq!(shop.number("select count(*) from postroom_delivery").await, 7_000, "one transaction for all");
    admin.forget("r", &actor()).await.unwrap();
    let left = "select (select count(*) from postroom_delivery) + (select count(*) from postroom_attempt) \
         + (select count(*) from postroom_receipt) + (select count(*) from postroom_route)";
    assert_eq!(shop.number(left).await, 0);
    let counts: Vec<_> = admin.audit(None, 9).await.unwrap().into_iter().map(|a| (a.action, a.count)).collect();
    assert_eq!(counts, [("route.forget".into(), 7_000), ("route.forget".into(), 5_000)]);
}

#[tokio::test]
async fn retention_counts_only_when_something_is_old_enough() {
    let shop = many(false).await;
    let admin = shop.store.admin();
    // Whoever counts finds this.
    sqlx::query("delete from postroom_log where seq = 2").execute(shop.store.pool()).await.unwrap();
    sqlx::query("update postroom_log set appended_at = 4000000000000000").execute(shop.store.pool()).await.unwrap();
    let keep = Retention { delivered: Some(SECOND), attempts: None, inbox: Some(SECOND) };
    assert_eq!(admin.prune(&keep, false).await.unwrap(), postroom_core::view::Pruned::default());
    let keep = Retention { attempts: Some(SECOND), ..keep };
    assert_eq!(admin.prune(&keep, false).await.unwrap_err().kind, StoreErrorKind::Conflict);
    assert_eq!(shop.number("select count(*) from postroom_receipt").await, 12_000);
}

#[tokio::test]
async fn old_tries_are_found_behind_those_of_deliveries_that_are_not_done() {
    let shop = many(true).await;
    let attempts = "insert into postroom_attempt (delivery, round, attempt, route, seq, at, outcome, code, error, took_ms) \
         select handle, 0, 1, route, seq, 0, 'permanent', 'c', 'e', 1 from postroom_delivery order by handle";
    sqlx::query(attempts).execute(shop.store.pool()).await.unwrap();
    sqlx::query("delete from postroom_delivery where seq > 5000").execute(shop.store.pool()).await.unwrap();
    sqlx::query("update postroom_checkpoint set discarded = 7000").execute(shop.store.pool()).await.unwrap();
    let keep = Retention { delivered: None, attempts: Some(SECOND), inbox: None };
    assert_eq!(shop.store.admin().prune(&keep, true).await.unwrap().attempts, 7_000);
    assert_eq!(shop.store.admin().prune(&keep, false).await.unwrap().attempts, 7_000);
    assert_eq!(shop.number("select count(*) from postroom_attempt").await, 5_000);
}

#[tokio::test]
async fn terms_of_a_route_that_was_forgotten_never_come_again() {
    let shop = Shop::open().await;
    let mut last = 0;
    for n in 1..=3 {
        let source = shop.all().await;
        shop.append_key("k", n..=n).await;
        let term = take(&source).await[0].lane.term;
        assert!(term > last, "{term} after {last}");
        last = term;
        source.release().await.unwrap();
        shop.store.admin().forget("r", &actor()).await.unwrap();
    }
}

/// Of millions nobody waits for a count.
#[tokio::test]
async fn many_events_are_counted_by_their_numbers() {
    let shop = Shop::open().await;
    let fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100010) \
                insert into postroom_log (type, payload) select 't', '{}' from n";
    sqlx::query(fill).execute(shop.store.pool()).await.unwrap();
    assert_eq!(shop.store.admin().store().await.unwrap().events, Some(100_010));
    sqlx::query("delete from postroom_log where seq <= 11").execute(shop.store.pool()).await.unwrap();
    assert_eq!(shop.store.admin().store().await.unwrap().events, Some(99_999));
}
