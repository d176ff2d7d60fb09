//! A broker that is out of memory stops reading (H-54).

use std::time::{Duration, Instant};

use postroom_conformance::changed;
use postroom_core::{FailureKind, Outcome};
use postroom_testbed::OwnServer;
use postroom_testbed::brokers::RabbitMq as Broker;

use crate::rabbitmq::place::{Place, deliver_until, event, events, post};

#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_blocks_nothing_fails_nothing_times_out_and_then_it_goes_on() {
    let broker = OwnServer::start(&Broker).unwrap();
    let watermark = |share: &str| Broker::control(&broker.site, &["set_vm_memory_high_watermark", share]).unwrap();
    let place = Place::at(broker.site.port).await;
    let timeout = Duration::from_secs(10);
    let mut post = post(changed(place.options(place.port), |o| o.timeout = timeout));
    post.deliver_until_ok(&[event("early")]).await;
    watermark("0.000001");
    // The alarm reaches the connection a little later, and the connection hears of it with its next message.
    let mut blocked = None;
    let mut n = 0;
    while blocked.is_none() {
        post.deliver(&[event(format!("probe-{n}"))]).await;
        blocked = post.outcome().await.1.err();
        n += 1;
    }
    let failure = blocked.unwrap();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.blocked"));
    assert!(failure.error.starts_with("blocked by broker: low on memory"), "{}", failure.error);
    let asked = Instant::now();
    for _ in 0..10 {
        post.deliver(&events(20)).await;
        for outcome in post.outcomes().await.into_values() {
            assert_eq!(outcome.unwrap_err().code, "rabbitmq.blocked");
        }
    }
    assert!(asked.elapsed() < timeout, "it waited for a time-out");
    watermark("0.6");
    post.deliver_until_ok(&events(20)).await;
    let arrived = place.arrived_ids().await;
    assert!(events(20).iter().all(|e| arrived.contains(&e.id)), "{arrived:?}");
    watermark("0.000001");
    let is_blocked = |outcome: &Outcome| outcome.as_ref().is_err_and(|failure| failure.code == "rabbitmq.blocked");
    deliver_until(&mut post, event("again"), is_blocked).await;
    let closing = Instant::now();
    post.close().await;
    assert!(closing.elapsed() < Duration::from_secs(5), "a blocked broker holds up the close");
}
