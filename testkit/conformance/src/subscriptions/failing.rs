//! What becomes of messages whose handler fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use postroom_core::{Inbox, RetryPolicy, Transactions};

use super::bench::{Bench, NAME, event};
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;

/// Three tries in all, the second delay longer than the first; why stands beside it.
pub async fn a_failing_handler_is_tried_with_growing_delays_and_then_dead_with_its_reason<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-bad", Behaviour::Fail(usize::MAX));
    bench.send_events(vec![event("e-bad", "bad"), event("e-next", "bad")]).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.until_effects(&["e-next"]).await;
    bench.finish(running).await;
    let runs = bench.script.runs("e-bad");
    assert_eq!(runs.len(), 3);
    let (first, second) = (runs[1] - runs[0], runs[2] - runs[1]);
    assert!(first >= Duration::from_millis(40) && second >= Duration::from_millis(120), "{first:?} {second:?}");
    let dead = &dead[0];
    assert_eq!(dead.header("postroom-failure-code"), "test.fails");
    assert_eq!(dead.header("postroom-error"), "it fails on purpose");
    assert_eq!((dead.header("postroom-attempts"), dead.header("postroom-consumer")), ("3", NAME));
    assert_eq!(dead.body, r#"{"parcel":"e-bad"}"#);
}

/// The next try would be in an hour.
pub async fn one_that_waits_for_its_next_try_holds_up_neither_others_nor_a_stop<H: Harness, G: Effects>() {
    let mut bench = Bench::<H, G>::new().await;
    let delays = postroom_core::Delays::Schedule(vec![Duration::from_hours(1)]);
    bench.options.retry = RetryPolicy::default().delays(delays).jitter(0.0).attempts(2);
    bench.script.behave("e-bad", Behaviour::Fail(1));
    let [bad, good] = H::KEYS;
    bench.send_events(vec![event("e-bad", bad)]).await;
    let running = bench.run();
    crate::transports::until("the first try", || async { bench.script.runs("e-bad").len() == 1 }).await;
    bench.send_events(vec![event("e-1", good), event("e-2", good)]).await;
    bench.until_effects(&["e-1", "e-2"]).await;
    running.stop().await;
    bench.until_left(1).await;
    // Somebody else gets it, and does it.
    let running = bench.run();
    bench.until_effects(&["e-1", "e-2", "e-bad"]).await;
    bench.finish(running).await;
    assert_eq!(bench.harness.dead().await, []);
}

/// No second try.
pub async fn a_failure_for_good_is_dead_at_once<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-bad", Behaviour::Refuse);
    bench.send(&["e-bad", "e-1"]).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(bench.script.runs("e-bad").len(), 1);
    assert_eq!((dead[0].header("postroom-failure-code"), dead[0].header("postroom-attempts")), ("test.refused", "1"));
}

/// Nobody can accept what has no name.
pub async fn a_message_without_an_id_is_dead_and_the_next_goes_on<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.harness.send_nameless("not even JSON").await;
    bench.send(&["e-1"]).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(dead[0].header("postroom-failure-code"), "consumer.no_id");
    assert_eq!((dead[0].header("postroom-attempts"), dead[0].body.as_str()), ("0", "not even JSON"));
    assert_eq!(bench.script.begun().len(), 1);
}

/// All handlers of the suite write before they fail.
pub async fn a_handler_that_writes_and_fails_leaves_neither_effect_nor_acceptance<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-bad", Behaviour::Fail(usize::MAX));
    bench.script.behave("e-late", Behaviour::Fail(2));
    bench.send(&["e-bad", "e-late"]).await;
    let running = bench.run();
    bench.until_dead(1).await;
    bench.until_effects(&["e-late"]).await;
    bench.finish(running).await;
    let store = bench.effects.store();
    for (id, is_new) in [("e-bad", true), ("e-late", false)] {
        let mut tx = Transactions::begin(&store).await.unwrap();
        assert_eq!(store.accept(&mut tx, NAME, id).await.unwrap().is_new(), is_new, "{id}");
        Transactions::rollback(&store, tx).await.unwrap();
    }
}

/// Neither takes the loop with it.
pub async fn a_panic_and_a_time_out_are_failed_tries<H: Harness, G: Effects>() {
    let mut bench = Bench::<H, G>::new().await;
    bench.options.timeout = Duration::from_millis(300);
    bench.script.behave("e-panic", Behaviour::Panic(1));
    bench.script.behave("e-hang", Behaviour::Hang);
    bench.send(&["e-panic", "e-hang"]).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.until_effects(&["e-panic"]).await;
    bench.finish(running).await;
    assert_eq!(dead[0].header("postroom-failure-code"), "handler.timeout");
    assert_eq!((bench.script.runs("e-panic").len(), bench.script.runs("e-hang").len()), (2, 3));
}

/// More often than there are tries; so is what it does not know yet.
pub async fn what_is_unavailable_to_a_handler_costs_no_try<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-1", Behaviour::Unavailable(4));
    bench.script.behave("e-2", Behaviour::Early(4));
    bench.send(&["e-1", "e-2"]).await;
    let running = bench.run();
    bench.until_effects(&["e-1", "e-2"]).await;
    bench.finish(running).await;
    assert_eq!((bench.script.runs("e-1").len(), bench.script.runs("e-2").len()), (5, 5));
    assert_eq!(bench.seen.dead_lettered.load(Ordering::SeqCst), 0);
}
