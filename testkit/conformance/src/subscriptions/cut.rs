//! The broker is lost and found.

use std::sync::atomic::Ordering;

use super::bench::{Bench, event};
use super::effects::Effects;
use super::harness::Harness;
use super::script::Behaviour;
use crate::transports::until;

/// One is in its handler when it happens, some come later.
pub async fn a_lost_connection_costs_nothing_but_time<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.script.behave("e-held", Behaviour::Hold);
    let [held, other] = H::KEYS;
    bench.send_events(vec![event("e-held", held), event("e-1", other)]).await;
    let running = bench.run();
    until("the handler to run", || async { !bench.script.runs("e-held").is_empty() }).await;
    bench.until_effects(&["e-1"]).await;
    bench.harness.cut().await;
    bench.send_events(vec![event("e-2", other)]).await;
    bench.until_effects(&["e-1", "e-2"]).await;
    bench.script.open_gate();
    bench.until_effects(&["e-1", "e-2", "e-held"]).await;
    running.stop().await;
    // The event whose connection was lost comes again; stopped before that, it is acknowledged by the next run.
    if bench.harness.left().await > 0 {
        let acked = bench.seen.acked.load(Ordering::SeqCst);
        let again = bench.run();
        bench.until_seen("another acknowledgement", |seen| &seen.acked, acked + 1).await;
        again.stop().await;
    }
    bench.until_left(0).await;
}
