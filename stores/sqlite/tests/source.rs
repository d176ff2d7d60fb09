//! The promises of `Source`, and what only this store does to keep them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests fails by panicking")]

use std::time::Duration;

use postroom_admin::ManagedStore as _;
use postroom_core::{
    Budget, Event, Filter, OnDead, OnFailure, Pattern, RouteHealth, RouteSpec, StartFrom, Store, StoreErrorKind,
};

use crate::common::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn what_is_appended_is_taken_in_order_and_never_again_after_it_is_settled() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    assert_eq!(ids(&taken), ["k-1", "k-2", "k-3"]);
    assert_eq!(taken[0].position, Some(1));
    assert!(take(&source).await.is_empty(), "handed out twice");
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    assert!(take(&source).await.is_empty());
    source.release().await.unwrap();
    let next = shop.source("b", &from_beginning("r")).await;
    assert!(take(&next).await.is_empty(), "a new owner got a settled one");
    shop.verify().await;
}

#[tokio::test]
async fn what_was_not_settled_goes_to_the_next_owner() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=4).await;
    let taken = take(&source).await;
    settle(&source, &[delivered(&taken[1])]).await;
    source.release().await.unwrap();
    let next = shop.source("b", &from_beginning("r")).await;
    assert_eq!(ids(&take(&next).await), ["k-1", "k-3", "k-4"]);
    shop.verify().await;
}

#[tokio::test]
async fn a_failed_event_blocks_its_key_only_and_followers_come_in_order() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=2).await;
    shop.append_key("other", 1..=1).await;
    let taken = take(&source).await;
    settle(&source, &[retry(&taken[0], 10), returned(&taken[1]), delivered(&taken[2])]).await;
    shop.append_key("k", 3..=3).await;
    shop.append_key("other", 2..=2).await;
    let take_2 = source.take(ALL).await.unwrap();
    assert_eq!(ids(&take_2.deliveries), ["other-2"]);
    assert_eq!((take_2.next_due, take_2.retrying), (Some(10 * SECOND), true));
    settle(&source, &[delivered(&take_2.deliveries[0])]).await;
    shop.clock.advance(10 * SECOND);
    let head = take(&source).await;
    assert_eq!((ids(&head), head[0].attempts), (vec!["k-1"], 1));
    settle(&source, &[delivered(&head[0])]).await;
    let followers = take(&source).await;
    assert_eq!(ids(&followers), ["k-2", "k-3"]);
    // The first follower fails: the second, already handed out, comes back and waits.
    settle(&source, &[retry(&followers[0], 10), returned(&followers[1])]).await;
    assert!(take(&source).await.is_empty());
    shop.clock.advance(10 * SECOND);
    let head = take(&source).await;
    assert_eq!(ids(&head), ["k-2"]);
    settle(&source, &[delivered(&head[0])]).await;
    assert_eq!(ids(&take(&source).await), ["k-3"]);
    shop.verify().await;
}

#[tokio::test]
async fn more_followers_than_are_released_at_once_all_come_in_order() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    let head = take(&source).await;
    settle(&source, &[retry(&head[0], 1)]).await;
    shop.append_key("k", 2..=251).await;
    assert!(take(&source).await.is_empty());
    shop.clock.advance(SECOND);
    let mut seen = Vec::new();
    loop {
        let taken = take(&source).await;
        if taken.is_empty() {
            break;
        }
        assert!(taken.len() <= 100);
        seen.extend(taken.iter().map(|d| d.position.unwrap()));
        settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    }
    assert_eq!(seen, (1..=251).collect::<Vec<_>>());
    assert_eq!(shop.number("select count(*) from postroom_delivery").await, 0);
    assert_eq!(shop.number("select recovered from postroom_checkpoint").await, 251);
    shop.verify().await;
}

#[tokio::test]
async fn skip_lets_later_events_pass_and_hold_keeps_them_after_a_death() {
    let shop = Shop::open().await;
    let skip = RouteSpec { on_failure: OnFailure::Skip, ..from_beginning("skip") };
    let hold = RouteSpec { on_dead: OnDead::Hold, ..from_beginning("hold") };
    let (skip, hold) = (shop.source("a", &skip).await, shop.source("a", &hold).await);
    shop.append_key("k", 1..=1).await;
    let first = take(&skip).await;
    settle(&skip, &[retry(&first[0], 10)]).await;
    let first = take(&hold).await;
    settle(&hold, &[dead(&first[0])]).await;
    shop.append_key("k", 2..=2).await;
    assert_eq!(ids(&take(&skip).await), ["k-2"]);
    let held = hold.take(ALL).await.unwrap();
    assert!(held.deliveries.is_empty() && !held.retrying);
    shop.verify().await;
}

#[tokio::test]
async fn a_death_lets_the_key_go_on() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=2).await;
    let taken = take(&source).await;
    settle(&source, &[retry(&taken[0], 1), returned(&taken[1])]).await;
    shop.clock.advance(SECOND);
    let head = take(&source).await;
    settle(&source, &[dead(&head[0])]).await;
    assert_eq!(ids(&take(&source).await), ["k-2"]);
    shop.verify().await;
}

#[tokio::test]
async fn a_delayed_event_comes_at_its_time_and_blocks_nobody() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let at = postroom_core::Clock::now(&*shop.clock) + 60 * SECOND;
    shop.append(&[Event::new("t").key("k").id("late").available_at(at), Event::new("t").key("k").id("now")]).await;
    let now = source.take(ALL).await.unwrap();
    assert_eq!((ids(&now.deliveries), now.next_due), (vec!["now"], Some(60 * SECOND)));
    settle(&source, &[delivered(&now.deliveries[0])]).await;
    assert_eq!(source.take(ALL).await.unwrap().next_due, Some(60 * SECOND));
    shop.clock.advance(20 * SECOND);
    assert_eq!(source.take(ALL).await.unwrap().next_due, Some(40 * SECOND), "an idle look still knows the time");
    shop.clock.advance(40 * SECOND);
    let late = take(&source).await;
    assert_eq!(ids(&late), ["late"]);
    assert!(!late[0].ordered);
    settle(&source, &[delivered(&late[0])]).await;
    shop.verify().await;
}

#[tokio::test]
async fn events_the_route_does_not_want_are_counted_and_passed() {
    let shop = Shop::open().await;
    let route = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..from_beginning("r") };
    let source = shop.source("a", &route).await;
    let events: Vec<Event> =
        (0..1_200).map(|n| Event::new(if n % 600 == 599 { "order.placed" } else { "noise" })).collect();
    shop.append(&events).await;
    let taken = take(&source).await;
    assert_eq!(taken.iter().map(|d| d.position.unwrap()).collect::<Vec<_>>(), [600, 1_200]);
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    assert_eq!(shop.number("select filtered from postroom_checkpoint").await, 1_198);
    shop.verify().await;
}

#[tokio::test]
async fn a_route_of_noise_only_still_writes_its_position() {
    let shop = Shop::open().await;
    let route = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..from_beginning("r") };
    let source = shop.source("a", &route).await;
    shop.append(&[Event::new("noise")]).await;
    take(&source).await;
    shop.clock.advance(SECOND);
    take(&source).await;
    assert_eq!(shop.number("select hwm from postroom_checkpoint").await, 1);
}

#[tokio::test]
async fn a_route_starts_where_it_says() {
    let shop = Shop::open().await;
    shop.append_key("old", 1..=2).await;
    shop.clock.advance(60 * SECOND);
    let noon = postroom_core::Clock::now(&*shop.clock);
    shop.append_key("new", 1..=1).await;
    let start = |name: &str, start| RouteSpec { start, ..RouteSpec::new(name) };
    let now = shop.source("a", &start("now", StartFrom::Now)).await;
    let beginning = shop.source("a", &start("beginning", StartFrom::Beginning)).await;
    let time = shop.source("a", &start("time", StartFrom::At(noon))).await;
    shop.append_key("next", 1..=1).await;
    assert_eq!(ids(&take(&now).await), ["next-1"]);
    assert_eq!(ids(&take(&beginning).await), ["old-1", "old-2", "new-1", "next-1"]);
    assert_eq!(ids(&take(&time).await), ["new-1", "next-1"]);
    for source in [now, beginning, time] {
        source.release().await.unwrap();
    }
    shop.verify().await;
}

#[tokio::test]
async fn a_budget_bounds_rows_and_bytes_and_a_first_large_one_comes_alone() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=5).await;
    let take_1 = source.take(Budget { rows: 2, bytes: 1 << 20 }).await.unwrap();
    assert_eq!((ids(&take_1.deliveries), take_1.more), (vec!["k-1", "k-2"], true));
    let take_2 = source.take(Budget { rows: 10, bytes: 1 }).await.unwrap();
    assert_eq!((ids(&take_2.deliveries), take_2.more), (vec!["k-3"], true));
    let take_3 = source.take(ALL).await.unwrap();
    assert_eq!((ids(&take_3.deliveries), take_3.more), (vec!["k-4", "k-5"], false));
}

#[tokio::test]
async fn a_repeated_settle_changes_nothing() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    shop.append_key("l", 1..=1).await;
    shop.append_key("m", 1..=1).await;
    let taken = take(&source).await;
    let settlements = [delivered(&taken[0]), retry(&taken[1], 1), dead(&taken[2])];
    for _ in 0..3 {
        settle(&source, &settlements).await;
    }
    assert_eq!(shop.number("select delivered from postroom_checkpoint").await, 1);
    assert_eq!(shop.number("select parked from postroom_checkpoint").await, 2);
    assert_eq!(shop.number("select count(*) from postroom_attempt").await, 2);
    shop.clock.advance(SECOND);
    let again = take(&source).await;
    for _ in 0..3 {
        settle(&source, &[delivered(&again[0])]).await;
    }
    assert_eq!(shop.number("select recovered from postroom_checkpoint").await, 1);
    shop.verify().await;
}

#[tokio::test]
async fn returned_events_come_again_in_order_before_fresh_ones() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(returned).collect::<Vec<_>>()).await;
    shop.append_key("k", 4..=4).await;
    let again = take(&source).await;
    assert_eq!(ids(&again), ["k-1", "k-2", "k-3", "k-4"]);
    assert!(again.iter().all(|d| d.attempts == 0));
}

#[tokio::test]
async fn a_take_nobody_waited_for_is_handed_out_again() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    for _ in 0..50 {
        let mut take = Box::pin(source.take(ALL));
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(take.as_mut().poll(cx))).await.is_pending());
    }
    assert_eq!(ids(&take(&source).await), ["k-1", "k-2", "k-3"]);
}

#[tokio::test]
async fn h27_two_relays_share_a_file_one_stands_by_and_takes_over_when_the_lease_ends() {
    let shop = Shop::open().await;
    let (a, b) = (shop.all().await, shop.source("b", &from_beginning("r")).await);
    shop.append_key("k", 1..=2).await;
    let taken = take(&a).await;
    settle(&a, &[delivered(&taken[0])]).await;
    let standby = b.take(ALL).await.unwrap();
    assert_eq!((standby.deliveries.len(), standby.ownership.lanes), (0, 0));
    shop.clock.advance(LEASE);
    assert_eq!(b.take(ALL).await.unwrap().ownership.lanes, 0, "a relay whose own lease is over took the lane");
    b.renew(&RouteHealth::running()).await.unwrap();
    let inherited = b.take(ALL).await.unwrap();
    assert_eq!((ids(&inherited.deliveries), inherited.ownership.lanes), (vec!["k-2"], 1));
    assert!(inherited.deliveries[0].lane.term > taken[1].lane.term);
    // H-29: the old owner comes back late.
    let renewed = a.renew(&RouteHealth::running()).await.unwrap();
    assert_eq!(renewed.ownership.lost, [taken[1].lane]);
    let ownership = a.settle(&[delivered(&taken[1])]).await.unwrap();
    assert_eq!((ownership.lanes, ownership.lost), (0, vec![taken[1].lane]));
    assert_eq!(shop.number("select delivered from postroom_checkpoint").await, 1, "a lost lane was settled");
    settle(&b, &[delivered(&inherited.deliveries[0])]).await;
    shop.verify().await;
}

#[tokio::test]
async fn a_graceful_stop_hands_over_at_once_and_leaves_no_heartbeat() {
    let shop = Shop::open().await;
    let (a, b) = (shop.all().await, shop.source("b", &from_beginning("r")).await);
    shop.append_key("k", 1..=1).await;
    let taken = take(&a).await;
    settle(&a, &[delivered(&taken[0])]).await;
    assert_eq!(b.take(ALL).await.unwrap().ownership.lanes, 0);
    a.release().await.unwrap();
    assert_eq!(b.take(ALL).await.unwrap().ownership.lanes, 1);
    assert_eq!(shop.number("select count(*) from postroom_relay where boot = 'a'").await, 0);
}

#[tokio::test]
async fn a_registered_lane_without_a_checkpoint_is_an_error() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    sqlx::query("delete from postroom_checkpoint").execute(shop.store.pool()).await.unwrap();
    assert!(source.take(ALL).await.unwrap_err().message.contains("has no checkpoint"));
    let again = shop.store.source(&relay("b"), &from_beginning("r")).await;
    assert!(again.err().unwrap().message.contains("has no checkpoint"));
}

#[tokio::test]
async fn a_log_whose_numbers_went_back_halts_the_route() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=5).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    source.release().await.unwrap();
    sqlx::query("update sqlite_sequence set seq = 2 where name = 'postroom_log'")
        .execute(shop.store.pool())
        .await
        .unwrap();
    let source = shop.source("b", &from_beginning("r")).await;
    let halted = source.take(ALL).await.unwrap().ownership.halted.unwrap();
    assert!(halted.starts_with("sequence_behind"), "{halted}");
}

#[tokio::test]
async fn a_changed_definition_is_taken_over_unless_a_live_relay_serves_the_old_one() {
    let shop = Shop::open().await;
    let old = RouteSpec { to: "stdout".into(), ..from_beginning("r") };
    let new = RouteSpec { to: "exec".into(), filter: Filter::types(["order.*"]).unwrap(), ..old.clone() };
    let source = shop.source("a", &old).await;
    take(&source).await;
    let error = shop.store.source(&relay("b"), &new).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Conflict);
    assert!(error.message.contains("stdout") && error.message.contains("exec"), "{}", error.message);
    source.release().await.unwrap();
    let source = shop.source("b", &new).await;
    shop.append(&[Event::new("noise"), Event::new("order.placed").id("wanted")]).await;
    assert_eq!(ids(&take(&source).await), ["wanted"]);
    let actions = shop.store.admin().audit(None, 10).await.unwrap();
    assert_eq!(actions[0].action, "route.change");
}

#[tokio::test]
async fn an_idle_look_reads_no_row_and_any_commit_of_another_process_ends_it() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    assert!(take(&source).await.is_empty());
    assert!(take(&source).await.is_empty());
    // A second store on the same file is what another process looks like: other connections, no shared wake.
    let other =
        postroom_sqlite::SqliteStore::open(postroom_sqlite::SqliteOptions::new("other", shop.path().to_str().unwrap()))
            .await
            .unwrap();
    other.admin().append(&[Event::new("t").id("from-elsewhere")]).await.unwrap();
    assert_eq!(ids(&take(&source).await), ["from-elsewhere"]);
}

#[tokio::test]
async fn what_was_given_back_is_never_passed_by_a_later_event_of_its_key() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=3).await;
    shop.append_key("l", 1..=1).await;
    let taken = take(&source).await;
    settle(&source, &taken[1..].iter().map(returned).collect::<Vec<_>>()).await;
    settle(&source, &[retry(&taken[0], 60)]).await;
    shop.append_key("l", 2..=2).await;
    let one = Budget { rows: 1, bytes: 1 << 20 };
    assert_eq!(ids(&source.take(one).await.unwrap().deliveries), ["l-1"]);
    assert_eq!(ids(&source.take(one).await.unwrap().deliveries), ["l-2"]);
    shop.verify().await;
}

#[tokio::test]
async fn a_renewal_that_began_before_the_lane_was_taken_does_not_call_it_lost() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    let health = RouteHealth::running();
    let mut renewal = source.renew(&health);
    let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(renewal.as_mut().poll(cx).is_pending())).await;
    assert!(waits, "the renewal should wait for its write");
    let taken = source.take(ALL).await.unwrap();
    assert_eq!((ids(&taken.deliveries), taken.ownership.lanes), (vec!["k-1"], 1));
    let ownership = renewal.await.unwrap().ownership;
    assert!(ownership.lost.is_empty(), "the engine would drop what it has just been given: {ownership:?}");
}

#[tokio::test]
async fn a_relay_that_slept_through_a_change_of_its_route_does_not_serve_the_old_definition() {
    let shop = Shop::open().await;
    let old = RouteSpec {
        filter: Filter { types: vec![Pattern::parse("old").unwrap()], ..Filter::default() },
        ..from_beginning("r")
    };
    let sleeper = shop.source("a", &old).await;
    assert!(take(&sleeper).await.is_empty());
    shop.clock.advance(LEASE + SECOND);
    let changed = shop.source("b", &from_beginning("r")).await;
    shop.append_key("k", 1..=1).await;
    // It wakes up before the other one has looked, and once more after that one has stopped.
    for round in ["before", "after"] {
        sleeper.renew(&RouteHealth::running()).await.unwrap();
        let refused = sleeper.take(ALL).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Conflict, "{round}");
        changed.renew(&RouteHealth::running()).await.unwrap();
        assert_eq!(ids(&take(&changed).await), ["k-1"], "{round}: counted as filtered by the old definition");
        changed.release().await.unwrap();
    }
    shop.verify().await;
}

#[tokio::test]
async fn an_unsettled_event_goes_before_later_ones_of_its_key_that_are_due() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=2).await;
    let taken = take(&source).await;
    // The first fails while the second is still on its way, and gets through before that one has an outcome.
    settle(&source, &[retry(&taken[0], 10)]).await;
    shop.append_key("k", 3..=3).await;
    assert!(take(&source).await.is_empty());
    shop.clock.advance(10 * SECOND);
    let head = take(&source).await;
    assert_eq!(ids(&head), ["k-1"]);
    settle(&source, &[delivered(&head[0])]).await;
    // A crash: the next owner finds the second unsettled and the third due.
    shop.clock.advance(LEASE);
    let next = shop.source("b", &from_beginning("r")).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let taken = take(&next).await;
        order.extend(taken.iter().map(|d| d.event.id.clone()));
        settle(&next, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    }
    assert_eq!(order, ["k-2", "k-3"]);
    shop.verify().await;
}

#[tokio::test]
async fn a_relay_that_gives_one_route_up_lives_on_for_the_route_it_stands_by_for() {
    let shop = Shop::open().await;
    let other = shop.source("x", &from_beginning("b")).await;
    take(&other).await;
    let a = shop.source("a", &from_beginning("a")).await;
    let _b = shop.source("a", &from_beginning("b")).await;
    take(&a).await;
    a.release().await.unwrap();
    assert_eq!(shop.number("select count(*) from postroom_relay where boot = 'a'").await, 1);
}

#[tokio::test]
async fn text_that_is_not_utf8_stops_nobody_and_keeps_the_order_of_its_key() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    let insert = async |id: &'static str| {
        sqlx::query(
            "insert into postroom_log (id, type, key, tenant, aggregate_type, aggregate_id, headers, correlation_id, payload) \
             select ?1, 't' || bad, bad, bad, bad, bad, json_object('h', bad), bad, 'null' \
             from (select cast(x'4dfc6e' as text) as bad)",
        )
        .bind(id)
        .execute(shop.store.pool())
        .await
        .unwrap();
    };
    insert("bad-1").await;
    shop.append_key("k", 1..=1).await;
    let taken = take(&source).await;
    assert_eq!(ids(&taken), ["bad-1", "k-1"]);
    assert_eq!(taken[0].event.tenant.as_deref(), Some("M\u{fffd}n"));
    assert_eq!(taken[0].event.headers["h"], "M\u{fffd}n");
    settle(&source, &[retry(&taken[0], 1), delivered(&taken[1])]).await;
    insert("bad-2").await;
    shop.append_key("k", 2..=2).await;
    let taken = take(&source).await;
    assert_eq!(ids(&taken), ["k-2"], "a follower passed the one it waits for");
    settle(&source, &[delivered(&taken[0])]).await;
    let admin = shop.store.admin();
    assert_eq!(admin.blocked_keys(None, None, 9).await.unwrap()[0].key, "M\u{fffd}n");
    assert_eq!(admin.event("bad-2", true).await.unwrap().unwrap().routes[0].blocked_by.as_deref(), Some("bad-1"));
    assert_eq!(admin.routes().await.unwrap()[0].status.blocked_keys, 1);
    admin.store().await.unwrap();
    shop.clock.advance(Duration::from_secs(1));
    for id in ["bad-1", "bad-2"] {
        let taken = take(&source).await;
        assert_eq!(ids(&taken), [id]);
        settle(&source, &[dead(&taken[0])]).await;
    }
    let any = postroom_admin::Selection::default();
    assert_eq!(admin.dead(&any, 0, 9).await.unwrap().len(), 2);
    admin.discard_dead(&any, false, &actor()).await.unwrap();
    let settled = postroom_admin::view::ReplayKind::Settled;
    postroom_admin::replay_at_once(&*admin, settled, &any, &actor()).await.unwrap();
    let taken = take(&source).await;
    assert_eq!(taken.len(), 4);
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    shop.verify().await;
}

#[tokio::test]
async fn a_schema_version_that_could_not_be_read_is_refused() {
    let shop = Shop::open().await;
    for version in [-(1_i64 << 31) - 1, 1 << 31] {
        let insert = sqlx::query("insert into postroom_log (type, schema_version, payload) values ('t', ?1, 'null')");
        let refused = insert.bind(version).execute(shop.store.pool()).await.unwrap_err();
        assert!(refused.to_string().contains("CHECK"), "{refused}");
    }
}

#[tokio::test]
async fn a_dead_relay_of_before_the_clock_was_set_back_is_gone() {
    let shop = Shop::open().await;
    let day = Duration::from_hours(24);
    shop.clock.advance(day);
    let source = shop.all().await;
    shop.append_key("k", 1..=1).await;
    assert_eq!(take(&source).await.len(), 1);
    let other = shop.source("b", &from_beginning("r")).await;
    assert!(take(&other).await.is_empty(), "somebody else's lane was taken");
    shop.clock.set_back(day);
    let admin = shop.store.admin();
    assert!(admin.relays().await.unwrap().iter().all(|relay| !relay.alive));
    // A living one corrects itself; the other is dead.
    other.renew(&RouteHealth::running()).await.unwrap();
    assert_eq!(ids(&take(&other).await), ["k-1"]);
    assert_eq!(source.settle(&[]).await.unwrap().lanes, 1, "it does not know yet");
    assert!(take(&source).await.is_empty(), "two relays have one lane");
    let alive: Vec<_> = admin.relays().await.unwrap().into_iter().filter(|r| r.alive).map(|r| r.boot).collect();
    assert_eq!(alive, ["b"]);
}

#[tokio::test]
async fn a_clock_set_back_a_little_takes_no_lane_away() {
    let shop = Shop::open().await;
    shop.clock.advance(LEASE);
    let source = shop.all().await;
    assert!(take(&source).await.is_empty());
    let other = shop.source("b", &from_beginning("r")).await;
    shop.clock.set_back(LEASE / 2);
    shop.append_key("k", 1..=1).await;
    assert!(take(&other).await.is_empty());
    assert_eq!(take(&source).await.len(), 1);
}

/// What renewals say of the counts, once a count that began after the clock moved has ended.
async fn differs(shop: &Shop, source: &std::sync::Arc<dyn postroom_core::Source>, wanted: bool) -> Option<String> {
    let waited = tokio::time::timeout(Duration::from_mins(5), async {
        loop {
            shop.clock.advance(5 * SECOND);
            let found = source.renew(&RouteHealth::running()).await.unwrap().ownership.differs;
            if found.is_some() == wanted {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    waited.await.expect("a count ends")
}

#[tokio::test]
async fn a_row_that_was_passed_or_removed_is_noticed_without_a_command() {
    let shop = Shop::open().await;
    let source = shop.all().await;
    shop.append_key("k", 1..=5).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    for _ in 0..3 {
        assert_eq!(differs(&shop, &source, false).await, None);
    }
    // A number that the position moves over without seeing it, while the relay goes on.
    sqlx::query("update sqlite_sequence set seq = 10 where name = 'postroom_log'")
        .execute(shop.store.pool())
        .await
        .unwrap();
    shop.append_key("k", 6..=7).await;
    let taken = take(&source).await;
    settle(&source, &taken.iter().map(delivered).collect::<Vec<_>>()).await;
    sqlx::query("update postroom_log set seq = 8 where seq = 5").execute(shop.store.pool()).await.unwrap();
    let words = differs(&shop, &source, true).await.unwrap();
    assert!(words.starts_with("counts_differ: there are 8 events up to the position, but 7"), "{words}");
    sqlx::query("update postroom_log set seq = 5 where seq = 8").execute(shop.store.pool()).await.unwrap();
    differs(&shop, &source, false).await;
    // One that is removed behind it: whoever has the lane next counts from the first row on.
    sqlx::query("delete from postroom_log where seq = 2").execute(shop.store.pool()).await.unwrap();
    source.release().await.unwrap();
    let next = shop.source("b", &from_beginning("r")).await;
    take(&next).await;
    let words = differs(&shop, &next, true).await.unwrap();
    assert!(words.starts_with("counts_differ: there are 6 events up to the position, but 7"), "{words}");
}
