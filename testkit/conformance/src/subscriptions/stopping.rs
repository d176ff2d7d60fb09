//! How a consumer ends.

use std::sync::atomic::Ordering;

use super::bench::{Bench, event};
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;
use crate::transports::until;

/// One is in its handler, and one waits behind it.
pub async fn a_stop_finishes_what_runs_and_leaves_the_rest<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-1", Behaviour::Hold);
    bench.send_events(vec![event("e-1", "k"), event("e-2", "k")]).await;
    let mut running = bench.run();
    bench.until_seen("both in our hands", |seen| &seen.arrived, 2).await;
    until("the first to run", || async { bench.script.runs("e-1").len() == 1 }).await;
    running.ask_to_stop();
    tokio::task::yield_now().await;
    assert!(!running.has_ended(), "it does not end before its handler");
    bench.script.open_gate();
    running.stop().await;
    assert_eq!(bench.effects.effects().await, ["e-1"]);
    assert_eq!(bench.seen.acked.load(Ordering::SeqCst), 1);
    bench.until_left(1).await;
    let running = bench.run();
    bench.until_effects(&["e-1", "e-2"]).await;
    bench.finish(running).await;
    assert_eq!(bench.script.begun().len(), 2, "nothing was repeated");
}

/// Ends are ends.
pub async fn a_consumer_stopped_before_it_began_and_one_stopped_again_are_no_trouble<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.run().stop().await;
    bench.send(&["e-1"]).await;
    let mut running = bench.run();
    bench.until_effects(&["e-1"]).await;
    running.ask_to_stop();
    running.ask_to_stop();
    bench.finish(running).await;
}

/// One instance, many keys.
pub async fn events_of_one_key_are_worked_on_in_order<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("a-0", Behaviour::Fail(1));
    let ids = |key: &str| (0..6).map(|n| format!("{key}-{n}")).collect::<Vec<_>>();
    let all: Vec<String> = (0..6).flat_map(|n| ["a", "b", "c"].map(|key| format!("{key}-{n}"))).collect();
    bench.send_events(all.iter().map(|id| event(id, &id[..1])).collect()).await;
    let running = bench.run();
    bench.until_effects(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    bench.finish(running).await;
    let effects = bench.effects.effects().await;
    for key in ["a", "b", "c"] {
        let of_key: Vec<&String> = effects.iter().filter(|id| id.starts_with(key)).collect();
        assert_eq!(of_key, ids(key).iter().collect::<Vec<_>>());
    }
}

/// Nobody answers there, and nobody says no.
pub async fn a_dead_letter_that_is_never_acknowledged_holds_up_no_stop<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.seen.halts_dead_letters.store(true, Ordering::SeqCst);
    bench.script.behave("e-bad", Behaviour::Refuse);
    bench.send(&["e-bad"]).await;
    let running = bench.run();
    bench.until_seen("a dead_letter", |seen| &seen.publish_attempts, 1).await;
    running.stop().await;
    bench.until_left(1).await;
    bench.seen.halts_dead_letters.store(false, Ordering::SeqCst);
    let running = bench.run();
    bench.until_dead(1).await;
    bench.finish(running).await;
}
