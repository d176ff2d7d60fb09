//! What a group of Kafka does: partitions come and go, and are paused.

use std::time::Duration;

use postroom_conformance::subscriptions::{Behaviour, Bench, Effects, Harness, PostgresEffects, Script, SqliteEffects};
use postroom_conformance::transports::until;
use postroom_core::{Delays, Event, JSON, RetryPolicy};
use postroom_kafka::{KafkaSubscription, KafkaSubscriptionOptions};

use crate::subscription::place::Shared;

fn event(id: &str, key: &str) -> Event {
    Event::new("parcel.sent").id(id).key(key).bytes(JSON, "{}")
}

/// The next try is in an hour.
fn patient() -> RetryPolicy {
    RetryPolicy::default().delays(Delays::Schedule(vec![Duration::from_hours(1)])).jitter(0.0).attempts(2)
}

/// A second member takes one of the two partitions while the first works in both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_taken_away_stops_and_nothing_of_it_is_committed_any_more() {
    let bench = Bench::<Shared, SqliteEffects>::new().await;
    let [first, second] = <Shared as Harness>::KEYS;
    // Each partition: one that fails and waits for an hour, and one behind it.
    let mut old = bench;
    let quick = std::mem::replace(&mut old.options.retry, patient());
    for id in ["a-1", "b-1"] {
        old.script.behave(id, Behaviour::Fail(1));
    }
    old.send_events(vec![event("a-1", first), event("a-2", first), event("b-1", second), event("b-2", second)]).await;
    let running = old.run();
    until("both to fail", || async { old.script.runs("a-1").len() + old.script.runs("b-1").len() == 2 }).await;
    // The newcomer gets one partition from its committed beginning: both of its events, in order.
    old.options.retry = quick;
    let newcomer = Script::new(&old.effects);
    let new = old.run_with(newcomer.clone());
    until("the newcomer to do one partition", || async { newcomer.begun().len() == 2 }).await;
    let taken: Vec<String> = newcomer.begun().into_iter().map(|message| message.id).collect();
    assert!(taken == ["a-1", "a-2"] || taken == ["b-1", "b-2"], "{taken:?}");
    new.stop().await;
    running.stop().await;
    let committed = old.harness.committed().await;
    assert_eq!(committed.iter().sum::<i64>(), 2, "{committed:?}");
    // What the first had in hand is done by whoever comes next, once.
    let last = old.run_with(newcomer.clone());
    old.until_effects(&["a-1", "a-2", "b-1", "b-2"]).await;
    old.finish(last).await;
}

/// Far more than may be in our hands, in two partitions of which one stands still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_with_too_much_in_our_hands_is_paused_and_goes_on_later() {
    let bench = Bench::<Shared, PostgresEffects>::with(4).await;
    bench.harness.make_dead().await;
    let [first, second] = <Shared as Harness>::KEYS;
    bench.script.behave("a-0", Behaviour::Hold);
    let ids = |key: &str, count: usize| (0..count).map(|n| format!("{key}-{n}")).collect::<Vec<_>>();
    let (held, free) = (ids("a", 20), ids("b", 20));
    bench.send_events(held.iter().map(|id| event(id, first)).collect()).await;
    bench.send_events(free.iter().map(|id| event(id, second)).collect()).await;
    let running = bench.run();
    let free: Vec<&str> = free.iter().map(String::as_str).collect();
    bench.until_effects(&free).await;
    let arrived = bench.seen.arrived.load(std::sync::atomic::Ordering::SeqCst);
    assert!(arrived <= 20 + 4, "{arrived} are in our hands");
    bench.script.open_gate();
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    bench.until_effects(&[&held[..], &free[..]].concat()).await;
    bench.finish(running).await;
    let effects = bench.effects.effects().await;
    assert_eq!(effects.iter().filter(|id| id.starts_with('a')).collect::<Vec<_>>(), held.iter().collect::<Vec<_>>());
}

/// Both partitions are paused, behind one that waits for an hour, when a second member takes one of them for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_was_taken_away_while_it_was_paused_is_read_when_it_comes_back() {
    let mut bench = Bench::<Shared, SqliteEffects>::with(2).await;
    let quick = std::mem::replace(&mut bench.options.retry, patient());
    let keys = [("a", <Shared as Harness>::KEYS[0]), ("b", <Shared as Harness>::KEYS[1])];
    for (name, key) in keys {
        bench.script.behave(&format!("{name}-0"), Behaviour::Fail(1));
        bench.send_events((0..3).map(|n| event(&format!("{name}-{n}"), key)).collect()).await;
    }
    let old = bench.run();
    bench.until_seen("both to be paused", |seen| &seen.arrived, 4).await;
    until("both to fail", || async { bench.script.begun().len() == 2 }).await;
    bench.options.retry = quick;
    let newcomer = Script::new(&bench.effects);
    let new = bench.run_with(newcomer.clone());
    until("the newcomer to do one partition", || async { newcomer.begun().len() == 3 }).await;
    new.stop().await;
    let taken = newcomer.begun()[0].id[..1].to_owned();
    let (_, key) = keys.into_iter().find(|(name, _)| *name == taken).unwrap();
    let late = format!("{taken}-late");
    bench.send_events(vec![event(&late, key)]).await;
    until("the first member to read it again", || async { !bench.script.runs(&late).is_empty() }).await;
    old.stop().await;
    assert_eq!(newcomer.begun().len(), 3);
}

#[test]
fn a_topic_is_not_its_own_dead_letter_topic() {
    let options = KafkaSubscriptionOptions::new(vec!["h:1".into()], vec!["orders".into()], "books", "orders");
    let error = KafkaSubscription::new(options).unwrap_err().to_string();
    assert_eq!(error, "topic orders cannot be the one for its own dead letters");
}
