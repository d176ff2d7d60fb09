//! Something is not there: nothing is acknowledged, and nothing is lost.

use std::sync::atomic::Ordering;

use super::bench::Bench;
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;

/// It is kept across a stop, too, and put there when there is a place.
pub async fn without_a_place_for_the_dead_a_message_is_kept<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::with(10).await;
    bench.script.behave("e-bad", Behaviour::Refuse);
    bench.send(&["e-bad"]).await;
    let running = bench.run();
    bench.until_seen("refusals", |seen| &seen.refused, 2).await;
    running.stop().await;
    assert_eq!(bench.seen.acked.load(Ordering::SeqCst), 0);
    bench.until_left(1).await;
    let running = bench.run();
    bench.until_seen("another refusal", |seen| &seen.refused, 3).await;
    bench.harness.make_dead().await;
    let dead = bench.until_dead(1).await;
    assert_eq!(dead[0].header("postroom-failure-code"), "test.refused");
    bench.finish(running).await;
}

/// It is away when the message comes.
pub async fn without_a_database_nothing_is_acknowledged_and_no_try_counted<H: Harness, G: Effects>() {
    let mut bench = Bench::<H, G>::new().await;
    // A counted try would be the last.
    bench.options.retry.attempts = 1;
    bench.effects.away().await;
    bench.send(&["e-1"]).await;
    let running = bench.run();
    bench.until_seen("a transaction to be wanted", |seen| &seen.begins, 1).await;
    assert_eq!(bench.seen.acked.load(Ordering::SeqCst), 0);
    bench.effects.back().await;
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(bench.seen.dead_lettered.load(Ordering::SeqCst), 0);
}
