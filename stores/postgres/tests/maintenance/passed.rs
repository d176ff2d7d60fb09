//! Events that routes passed without seeing them: appended while the sequence was behind, or left out by a reader.

use postroom_core::view::Recovered;
use postroom_core::{Event, Failure, Filter, RouteSpec, StartFrom};
use postroom_relay::Route;
use postroom_testing::{ScriptedTransport, drain};

use crate::maintenance::bench::{Bench, ada};

/// Appended after the sequence of a cut-over began low: an event of this type and key.
async fn append(bench: &Bench, event_type: &str, key: &str) {
    bench.append(&Event::new(event_type).key(key)).await;
}

/// Delivers what there is to deliver; returns the types in the order of their arrival.
async fn delivered(bench: &Bench, route: &RouteSpec) -> Vec<String> {
    let transport = ScriptedTransport::new();
    drain(bench.store.clone(), Route::from_spec(route.clone()).to(transport.clone())).await.unwrap();
    transport.arrivals().iter().map(|arrival| arrival.event.event_type.clone()).collect()
}

fn mailer() -> RouteSpec {
    RouteSpec::new("mailer").start_from(StartFrom::Beginning)
}

/// Two routes that have delivered six events with numbers above 1000 when the application goes on with a sequence that begins at 1;
/// a seventh had been appended before and was not read yet.
async fn cut_over(bench: &Bench) -> RouteSpec {
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..mailer() };
    let orders = RouteSpec { name: "orders".to_owned(), ..orders };
    bench.sql("select setval('postroom.log_seq', 1000)").await;
    for n in 0..6 {
        append(bench, "order.before", &format!("k{n}")).await;
    }
    assert_eq!(delivered(bench, &mailer()).await.len(), 6);
    assert_eq!(delivered(bench, &orders).await.len(), 6);
    append(bench, "order.last", "k0").await;
    bench.sql("select setval('postroom.log_seq', 1)").await;
    for (event_type, key) in [("order.first", "k0"), ("other.second", "k1"), ("order.third", "k0")] {
        append(bench, event_type, key).await;
    }
    orders
}

#[tokio::test]
async fn events_appended_while_the_sequence_was_behind_arrive_in_order_after_a_repair() {
    for lanes in [1, 4] {
        let bench = Bench::with_lanes(lanes).await;
        let orders = cut_over(&bench).await;
        assert!(!bench.is_accounted_for().await);
        let maintenance = bench.maintenance().await;
        let would = maintenance.repair(true, &ada()).await.unwrap();
        assert_eq!(bench.one("select last_value from postroom.log_seq").await, "4", "a dry run changes nothing");
        let done = maintenance.repair(false, &ada()).await.unwrap();
        assert_eq!(would, done);
        assert_eq!(done.passed, Recovered { renumbered: 3, ..Recovered::default() }, "{lanes} lanes");
        let of_key = |types: Vec<String>| types.into_iter().filter(|t| t != "other.second").collect::<Vec<_>>();
        assert_eq!(of_key(delivered(&bench, &mailer()).await), ["order.last", "order.first", "order.third"]);
        assert_eq!(delivered(&bench, &orders).await, ["order.last", "order.first", "order.third"]);
        assert!(bench.is_accounted_for().await);
        assert!(!maintenance.repair(false, &ada()).await.unwrap().is_needed(), "once is enough");
    }
}

#[tokio::test]
async fn events_appended_on_another_cluster_before_it_was_accepted_arrive() {
    let bench = Bench::new().await;
    let orders = cut_over(&bench).await;
    bench.sql("update postroom.meta set value = '17' where name = 'system_identifier'").await;
    let maintenance = bench.maintenance().await;
    let would = maintenance.accept_identity(true, &ada()).await.unwrap();
    let done = maintenance.accept_identity(false, &ada()).await.unwrap();
    assert_eq!(would, done);
    assert_eq!(done.passed.renumbered, 3, "{done:?}");
    assert_eq!(delivered(&bench, &mailer()).await.len(), 4);
    assert_eq!(delivered(&bench, &orders).await, ["order.last", "order.first", "order.third"]);
    assert!(bench.is_accounted_for().await);
}

#[tokio::test]
async fn numbers_that_two_events_have_become_two() {
    let bench = Bench::with_lanes(16).await;
    // Keys of two lanes.
    let [one, other] = ["k0", "k1"];
    for _ in 0..3 {
        append(&bench, "order.before", one).await;
    }
    assert_eq!(delivered(&bench, &mailer()).await.len(), 3);
    append(&bench, "order.before", other).await;
    append(&bench, "order.before", other).await;
    assert_eq!(delivered(&bench, &mailer()).await.len(), 2);
    bench.sql("select setval('postroom.log_seq', 1, false)").await;
    append(&bench, "order.again", other).await;
    append(&bench, "order.again", other).await;
    let twice = "select count(*) - count(distinct seq) from postroom.log";
    assert_eq!(bench.one(twice).await, "2");
    let done = bench.maintenance().await.repair(false, &ada()).await.unwrap();
    assert_eq!(done.passed, Recovered { renumbered: 2, ..Recovered::default() });
    assert_eq!(bench.one(twice).await, "0");
    assert_eq!(delivered(&bench, &mailer()).await, ["order.again", "order.again"]);
    assert!(bench.is_accounted_for().await);
}

#[tokio::test]
async fn a_route_that_had_seen_them_gets_them_again_rather_than_another_not_at_all() {
    let bench = Bench::new().await;
    let late = RouteSpec { name: "late".to_owned(), ..mailer() };
    bench.sql("select setval('postroom.log_seq', 1000)").await;
    append(&bench, "order.before", "k").await;
    assert_eq!(delivered(&bench, &mailer()).await.len(), 1);
    bench.sql("select setval('postroom.log_seq', 1)").await;
    append(&bench, "order.low", "k").await;
    // A route that begins now reads it where it is.
    assert_eq!(delivered(&bench, &late).await, ["order.low", "order.before"]);
    let done = bench.maintenance().await.repair(false, &ada()).await.unwrap();
    assert_eq!(done.passed, Recovered { renumbered: 1, again: 1, ..Recovered::default() });
    for route in [mailer(), late] {
        assert_eq!(delivered(&bench, &route).await, ["order.low"]);
    }
    assert!(bench.is_accounted_for().await);
}

/// Six delivered events, and one that no read has brought: at a number that a roll-back left out.
async fn passed(bench: &Bench, since: &str) {
    for n in 0..3 {
        append(bench, "order.before", &format!("k{n}")).await;
    }
    bench.sql("select nextval('postroom.log_seq')").await;
    for n in 0..3 {
        append(bench, "order.before", &format!("k{n}")).await;
    }
    assert_eq!(delivered(bench, &mailer()).await.len(), 6);
    append(bench, "order.passed", "k1").await;
    append(bench, "order.next", "k1").await;
    bench.sql(&format!("update postroom.log set seq = 4, appended_at = {since} where type = 'order.passed'")).await;
}

#[tokio::test]
async fn an_event_that_was_passed_is_delivered_before_later_ones_of_its_key() {
    let bench = Bench::new().await;
    passed(&bench, "appended_at").await;
    let maintenance = bench.maintenance().await;
    let done = maintenance.repair(false, &ada()).await.unwrap();
    assert_eq!(done.passed, Recovered { parked: 1, ..Recovered::default() });
    assert!(bench.is_accounted_for().await);
    assert_eq!(delivered(&bench, &mailer()).await, ["order.passed", "order.next"]);
    assert!(bench.is_accounted_for().await);
    assert!(!maintenance.repair(false, &ada()).await.unwrap().is_needed());
    let audited = "select string_agg(concat_ws(' ', action, subject, count), ';') from postroom.audit";
    assert_eq!(bench.one(audited).await, "store.recover 0 renumbered, 1 parked, 0 again, 0 unwanted, 0 missing 1");
}

#[tokio::test]
async fn where_receipts_cannot_tell_which_event_was_passed_others_come_twice() {
    let bench = Bench::new().await;
    // As if it had been there when the receipt was written that spans its number.
    passed(&bench, "appended_at - interval '1 hour'").await;
    let maintenance = bench.maintenance().await;
    let would = maintenance.repair(true, &ada()).await.unwrap();
    let done = maintenance.repair(false, &ada()).await.unwrap();
    assert_eq!(would, done);
    assert!(done.passed.again >= 1 && done.passed.parked == 0, "{done:?}");
    let arrived = delivered(&bench, &mailer()).await;
    assert_eq!(arrived.iter().filter(|t| *t == "order.passed").count(), 1, "{arrived:?}");
    assert_eq!(arrived.len() as u64, done.passed.again + 1, "{arrived:?}");
    assert!(bench.is_accounted_for().await);
    assert!(!maintenance.repair(false, &ada()).await.unwrap().is_needed());
}

#[tokio::test]
async fn events_that_a_filter_does_not_want_are_counted_and_not_delivered() {
    let bench = Bench::new().await;
    let orders = RouteSpec { filter: Filter::types(["order.*"]).unwrap(), ..mailer() };
    append(&bench, "order.before", "k").await;
    append(&bench, "other.before", "k").await;
    bench.sql("select nextval('postroom.log_seq')").await;
    append(&bench, "order.before", "k").await;
    assert_eq!(delivered(&bench, &orders).await.len(), 2);
    append(&bench, "other.passed", "k").await;
    bench.sql("update postroom.log set seq = 3 where type = 'other.passed'").await;
    assert!(!bench.is_accounted_for().await);
    let done = bench.maintenance().await.repair(false, &ada()).await.unwrap();
    assert_eq!(done.passed, Recovered { unwanted: 1, ..Recovered::default() });
    assert!(bench.is_accounted_for().await);
    assert!(delivered(&bench, &orders).await.is_empty());
}

#[tokio::test]
async fn events_that_somebody_removed_are_named_and_counted_no_longer() {
    let bench = Bench::new().await;
    for n in 0..3 {
        append(&bench, "order.before", &format!("k{n}")).await;
    }
    assert_eq!(delivered(&bench, &mailer()).await.len(), 3);
    bench.sql("delete from postroom.log where seq = 2").await;
    let done = bench.maintenance().await.repair(false, &ada()).await.unwrap();
    assert_eq!(done.passed, Recovered { missing: 1, ..Recovered::default() });
    assert!(bench.is_accounted_for().await);
}

#[tokio::test]
async fn sequences_of_identity_columns_that_are_behind_are_repaired() {
    let bench = Bench::new().await;
    let columns = "select string_agg(c.relname || '.' || a.attname, ' ' order by c.relname) from pg_attribute a \
                   join pg_class c on c.oid = a.attrelid \
                     and c.relnamespace = (select relnamespace from pg_class where oid = 'postroom.log'::regclass) \
                   where a.attidentity <> ''";
    assert_eq!(
        bench.one(columns).await,
        "audit.number checkpoint.id delivery.handle",
        "a column more, a sequence more"
    );
    let failing = ScriptedTransport::new();
    failing.fail_when(|_| true, Failure::permanent("no", "never"));
    for n in 0..3 {
        append(&bench, "order.bad", &format!("k{n}")).await;
    }
    drain(bench.store.clone(), Route::from_spec(mailer()).to(failing.clone())).await.unwrap();
    assert_eq!(bench.one("select count(*) from postroom.delivery").await, "3");
    bench.sql("select setval('postroom.log_seq', 2)").await;
    bench.maintenance().await.repair(false, &ada()).await.unwrap();
    for sequence in ["checkpoint_id_seq", "delivery_handle_seq", "audit_number_seq"] {
        bench.sql(&format!("select setval('postroom.{sequence}', 1, false)")).await;
    }
    let done = bench.maintenance().await.repair(false, &ada()).await.unwrap();
    assert_eq!((done.repaired, done.identities), (false, 3));
    append(&bench, "order.bad", "k9").await;
    drain(bench.store.clone(), Route::from_spec(mailer()).to(failing)).await.unwrap();
    assert_eq!(bench.one("select count(*) from postroom.delivery").await, "4");
    assert!(bench.is_accounted_for().await);
    assert!(!bench.maintenance().await.repair(false, &ada()).await.unwrap().is_needed());
}
