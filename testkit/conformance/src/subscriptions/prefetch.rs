//! How much is in our hands.

use super::bench::Bench;
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;
use crate::transports::until;

/// Eight come, three are taken, five stay with the broker.
pub async fn no_more_is_in_our_hands_than_was_said<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::with(3).await;
    let ids: Vec<String> = (0..8).map(|n| format!("e-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for id in &ids {
        bench.script.behave(id, Behaviour::Hold);
    }
    bench.send(&ids).await;
    let running = bench.run();
    until("three to run", || async { bench.script.begun().len() == 3 }).await;
    until("five to wait", || async { bench.harness.waiting().await == 5 }).await;
    assert_eq!(bench.script.begun().len(), 3);
    bench.script.open_gate();
    bench.until_effects(&ids).await;
    bench.finish(running).await;
}
