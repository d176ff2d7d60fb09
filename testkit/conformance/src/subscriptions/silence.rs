//! A database that is still connected and says nothing any more.

use std::time::Duration;

use super::bench::Bench;
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;
use crate::transports::until;

const SHORT: Duration = Duration::from_secs(5);

/// The handler is done, and its commit is sent into nothing.
pub async fn a_commit_that_is_never_answered_is_given_up_and_costs_no_try<H: Harness, G: Effects>() {
    let mut bench = Bench::<H, G>::new().await;
    bench.options.timeout = SHORT;
    // A counted try would be the last.
    bench.options.retry.attempts = 1;
    bench.script.behave("e-1", Behaviour::Hold);
    bench.send(&["e-1"]).await;
    let running = bench.run();
    until("the handler to have written", || async { bench.script.held() == 1 }).await;
    bench.effects.forget().await;
    bench.script.open_gate();
    bench.until_seen("another transaction", |seen| &seen.begins, 2).await;
    // The server forgets the transaction that waits for its commit, too.
    bench.effects.back().await;
    bench.until_effects(&["e-1"]).await;
    bench.finish(running).await;
    assert_eq!(bench.harness.dead().await, []);
}

/// The connection died while nobody used it, and nobody was told.
pub async fn a_transaction_that_does_not_begin_is_begun_elsewhere<H: Harness, G: Effects>() {
    let mut bench = Bench::<H, G>::new().await;
    bench.options.timeout = SHORT;
    bench.send(&["e-1"]).await;
    let running = bench.run();
    bench.until_seen("the acknowledgement", |seen| &seen.acked, 1).await;
    bench.effects.forget().await;
    bench.send(&["e-2"]).await;
    bench.until_effects(&["e-1", "e-2"]).await;
    bench.finish(running).await;
}
