//! Each event's effect is there once.

use std::sync::atomic::Ordering;

use postroom_core::envelope::{FieldTable, Format, Part};

use super::bench::{Bench, event};
use super::effects::Effects;
use super::harness::Harness;
use super::script::Script;
use crate::transports::until;

/// Two transports that send the same stand for a relay that lost an acknowledgement.
pub async fn an_event_that_comes_twice_has_its_effect_once<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.send(&["e-1", "e-2", "e-3"]).await;
    bench.send(&["e-1", "e-2", "e-3"]).await;
    let running = bench.run();
    bench.until_seen("acknowledgements", |seen| &seen.acked, 6).await;
    bench.finish(running).await;
    bench.until_effects(&["e-1", "e-2", "e-3"]).await;
    assert_eq!(bench.script.begun().len(), 3);
}

/// The loop is dropped when the effect is committed and the broker does not know yet.
pub async fn a_crash_between_commit_and_acknowledgement_repeats_nothing<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    bench.seen.halts_after_commit.store(true, Ordering::SeqCst);
    bench.send(&["e-1"]).await;
    let running = bench.run();
    bench.until_seen("a commit", |seen| &seen.commits, 1).await;
    running.crash().await;
    assert_eq!(bench.seen.acked.load(Ordering::SeqCst), 0);
    bench.seen.halts_after_commit.store(false, Ordering::SeqCst);
    let running = bench.run();
    bench.until_seen("the acknowledgement", |seen| &seen.acked, 1).await;
    bench.finish(running).await;
    assert_eq!(bench.effects.effects().await, ["e-1"]);
    assert_eq!(bench.script.runs("e-1").len(), 1);
}

/// Whatever the route's format, a handler sees id, type and payload.
pub async fn every_envelope_of_postroom_is_understood<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    let part = |name: &str| Part::parse(name, None).unwrap();
    let fields = FieldTable::new(vec![
        ("event_id".into(), part("id")),
        ("event_type".into(), part("type")),
        ("payload".into(), part("payload")),
    ]);
    let formats = [
        ("binary", Format::CloudEventsBinary),
        ("structured", Format::CloudEventsStructured),
        ("raw", Format::Raw),
        ("fields", Format::Fields(fields)),
    ];
    for (name, format) in formats {
        bench.send_as(format, vec![event(&format!("{name} é%"), "größe")]).await;
    }
    let running = bench.run();
    bench.until_effects(&["binary é%", "structured é%", "raw é%", "fields é%"]).await;
    bench.finish(running).await;
    for message in bench.script.begun() {
        let id = &message.id;
        assert_eq!(message.event_type.as_deref(), Some("parcel.sent"), "{id}");
        let payload: serde_json::Value = message.payload_as().unwrap();
        let payload = if id.starts_with("fields") { &payload["payload"] } else { &payload };
        assert_eq!(payload["parcel"], **id, "{id}");
    }
}

/// Both get some of what comes, and nothing is done twice.
pub async fn two_instances_share_the_work<H: Harness, G: Effects>() {
    let bench = Bench::<H, G>::new().await;
    let scripts = [bench.script.clone(), Script::new(&bench.effects)];
    let instances = scripts.clone().map(|script| bench.run_with(script));
    let mut sent = Vec::new();
    let both_work = || scripts.iter().all(|script| !script.begun().is_empty());
    while !both_work() {
        let round: Vec<String> = (0..8).map(|n| format!("e-{}-{n}", sent.len())).collect();
        bench.send(&round.iter().map(String::as_str).collect::<Vec<_>>()).await;
        sent.extend(round);
        let count = sent.len();
        until("this round", || async { both_work() || bench.effects.effects().await.len() >= count }).await;
        assert!(count < 10_000, "only one of two instances works");
    }
    bench.until_effects(&sent.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let [one, other] = instances;
    one.stop().await;
    bench.finish(other).await;
}
