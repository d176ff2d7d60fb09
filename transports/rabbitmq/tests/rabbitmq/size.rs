//! Larger than the broker takes (H-58).

use postroom_core::{Event, FailureKind};
use postroom_testbed::OwnServer;
use postroom_testbed::brokers::RabbitMq as Broker;

use crate::rabbitmq::place::{Place, event};

const LIMIT: usize = 10_000;

fn of_size(id: &str, bytes: usize) -> Event {
    event(id).bytes("text/plain", "x".repeat(bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_byte_too_many_is_refused_for_good_and_the_neighbours_get_through() {
    let broker = OwnServer::start(&Broker).unwrap();
    // RabbitMQ 3 looks at the first for every message, RabbitMQ 4 at the second, which it fills when it starts.
    let set = format!(
        "application:set_env(rabbit, max_message_size, {LIMIT}), persistent_term:put(max_message_size, {LIMIT})."
    );
    Broker::control(&broker.site, &["eval", &set]).unwrap();
    let place = Place::at(broker.site.port).await;
    let mut post = place.post();
    post.deliver_until_ok(&[of_size("just right", LIMIT)]).await;
    // The first one teaches the limit at the price of its neighbours' way; later ones are not even sent.
    for round in 0..3 {
        let id = |name: &str| format!("{name} {round}");
        let neighbours = [event(id("before")), event(id("after"))];
        let batch = [neighbours[0].clone(), of_size(&id("large"), LIMIT + 1), neighbours[1].clone()];
        post.deliver(&batch).await;
        let outcomes = post.outcomes().await;
        let failure = outcomes[&id("large")].as_ref().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "rabbitmq.too_large"));
        assert!(failure.error.contains("10001 bytes") && failure.error.contains("10000"), "{}", failure.error);
        for neighbour in &neighbours {
            if let Err(failure) = &outcomes[&neighbour.id] {
                assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.channel"));
                assert_eq!(round, 0, "the limit is known by now");
            }
        }
        post.deliver_until_ok(&neighbours).await;
    }
    let arrived = place.arrived_ids().await;
    for name in ["just right", "before 0", "after 0", "before 2", "after 2"] {
        assert!(arrived.iter().any(|id| id == name), "{name} is missing in {arrived:?}");
    }
    assert!(!arrived.iter().any(|id| id.starts_with("large")), "{arrived:?}");
    post.close().await;
}
