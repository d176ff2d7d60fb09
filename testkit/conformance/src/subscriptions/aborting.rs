//! A database in which a failed statement undoes the whole transaction.

use super::bench::Bench;
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;

/// The server would answer the commit by rolling back, and the message would be acknowledged without its effect.
pub async fn a_failed_statement_that_a_handler_overlooks_is_no_success<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-bad", Behaviour::Overlook);
    bench.send(&["e-bad"]).await;
    let running = bench.run();
    let dead = bench.until_dead(1).await;
    bench.finish(running).await;
    assert_eq!(dead[0].header("postroom-failure-code"), "consumer.commit");
    assert_eq!(bench.effects.effects().await, [""; 0]);
}
