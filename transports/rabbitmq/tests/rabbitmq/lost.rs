//! Exchanges that vanish (H-52), connections that go silent (H-56), brokers that restart (H-57).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use lapin::ExchangeKind;
use lapin::types::AMQPValue;
use postroom_conformance::changed;
use postroom_conformance::transports::Post;
use postroom_core::{Event, FailureKind};
use postroom_testbed::OwnServer;
use postroom_testbed::brokers::RabbitMq as Broker;
use postroom_testbed::proxy::{Mode, Moment, Trigger};

use crate::rabbitmq::place::{Place, Proxied, event, events, failure, post};

#[tokio::test]
async fn an_exchange_deleted_while_publishing_is_named_and_nothing_is_lost() {
    let place = Place::shared().await;
    let mut post = place.post();
    post.deliver_until_ok(&[event("early")]).await;
    let all = events(2000);
    let (first, second) = all.split_at(1000);
    post.deliver(first).await;
    place.delete_exchange().await;
    post.deliver(second).await;
    let outcomes = post.outcomes().await;
    let failed = |one: &&Event| outcomes[&one.id].is_err();
    let missing: Vec<Event> = all.iter().filter(failed).cloned().collect();
    let mut named = 0;
    for failure in outcomes.values().filter_map(|outcome| outcome.as_ref().err()) {
        // There is a moment at which the broker still has the exchange and its bindings no more.
        if failure.code != "rabbitmq.unroutable" {
            assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.no_exchange"));
            assert!(failure.error.contains(&format!("no exchange '{}'", place.name)), "{}", failure.error);
            named += 1;
        }
    }
    assert!(named > 0, "the exchange is gone");
    assert_eq!(failure(&mut post, event("still")).await.code, "rabbitmq.no_exchange");
    place.exchange(ExchangeKind::Topic).await;
    place.bind("parcel.#").await;
    post.deliver_until_ok(&missing).await;
    let arrived: HashSet<String> = place.arrived_ids().await.into_iter().collect();
    assert!(all.iter().all(|e| arrived.contains(&e.id)), "an event was lost");
    post.close().await;
}

#[tokio::test]
async fn a_connection_that_went_silent_is_found_out_within_two_heartbeats() {
    let to = Proxied::shared().await;
    let heartbeat = Duration::from_secs(1);
    let mut post = post(changed(to.options(), |o| o.heartbeat = heartbeat));
    post.deliver_until_ok(&[event("early")]).await;
    to.proxy.set(Mode::Forget).await;
    let since = Instant::now();
    post.deliver(&events(20)).await;
    for outcome in post.outcomes().await.into_values() {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.heartbeat"));
    }
    // The machine may be busy; the time-out would take ten times as long.
    assert!(since.elapsed() < heartbeat * 4, "found out after {:?}", since.elapsed());
    post.deliver_until_ok(&events(20)).await;
    assert_eq!(to.place.arrived_ids().await.len(), 21, "what vanished on the way came once");
    post.close().await;
}

#[tokio::test]
async fn an_idle_connection_stays_open_by_its_heartbeats() {
    let to = Proxied::shared().await;
    let mut post = post(changed(to.options(), |o| o.heartbeat = Duration::from_secs(1)));
    post.deliver_until_ok(&[event("early")]).await;
    // Both sides have shown for more than twice the time that they are there.
    let before = to.proxy.counts();
    to.proxy.until(|now| now.to_server >= before.to_server + 8 * 5 && now.to_client >= before.to_client + 8 * 5).await;
    post.deliver(&[event("late")]).await;
    assert!(post.outcome().await.1.is_ok());
    assert_eq!(to.proxy.counts().accepted, 1);
    post.close().await;
}

#[tokio::test]
async fn a_confirm_that_does_not_come_in_time_ends_the_connection() {
    let to = Proxied::shared().await;
    let timeout = Duration::from_secs(2);
    let mut post = post(changed(to.options(), |o| o.timeout = timeout));
    post.deliver_until_ok(&[event("early")]).await;
    to.proxy.set(Mode::Forget).await;
    post.deliver(&[event("a"), event("b")]).await;
    for outcome in post.outcomes().await.into_values() {
        let failure = outcome.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.timeout"));
        assert!(failure.error.contains("event a within 2s"), "{}", failure.error);
    }
    post.deliver_until_ok(&[event("a"), event("b")]).await;
    post.close().await;
}

#[tokio::test]
async fn a_broker_that_accepts_and_says_nothing_is_unreachable_and_holds_up_no_close() {
    let to = Proxied::shared().await;
    to.proxy.set(Mode::Hold).await;
    let timeout = Duration::from_millis(300);
    let mut waiting = post(changed(to.options(), |o| o.timeout = timeout));
    let failure = failure(&mut waiting, event("a")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.unreachable"));
    waiting.close().await;
    let mut waiting = post(to.options());
    waiting.deliver(&[event("a")]).await;
    to.proxy.until(|counts| counts.accepted == 2).await;
    let closing = Instant::now();
    let outcomes = waiting.close().await;
    assert_eq!(outcomes["a"].as_ref().unwrap_err().code, "rabbitmq.closed");
    assert!(closing.elapsed() < Duration::from_secs(5), "the close waited for {:?}", closing.elapsed());
}

#[tokio::test]
async fn a_close_gives_back_what_is_not_confirmed_and_does_not_wait_for_ever() {
    let to = Proxied::shared().await;
    let mut post = post(to.options());
    post.deliver_until_ok(&[event("early")]).await;
    to.proxy.set(Mode::Hold).await;
    post.deliver(&[event("a"), event("b")]).await;
    to.proxy.until(|counts| counts.swallowed > 0).await;
    let closing = Instant::now();
    let outcomes = post.close().await;
    for id in ["a", "b"] {
        let failure = outcomes[id].as_ref().unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, "rabbitmq.closed"));
    }
    assert!(closing.elapsed() < Duration::from_secs(10), "the close waited for {:?}", closing.elapsed());
}

#[tokio::test]
async fn a_confirm_lost_on_the_way_repeats_the_event_and_loses_none() {
    let to = Proxied::shared().await;
    let mut post = post(to.options());
    post.deliver_until_ok(&[event("early")]).await;
    for n in 0..5 {
        let id = format!("cut-{n}");
        let at = Trigger::Bytes(id.clone().into_bytes());
        to.proxy.play(vec![Mode::CutAt(at, Moment::AfterReply), Mode::Pass]).await;
        let lost = failure(&mut post, event(&id)).await;
        assert_eq!((lost.kind, &*lost.code), (FailureKind::Unavailable, "rabbitmq.lost"));
        post.deliver_until_ok(&[event(&id)]).await;
        let copies = to.place.arrived_ids().await.into_iter().filter(|arrived| *arrived == id).count();
        assert_eq!(copies, 2, "it had been there when the confirm was lost");
    }
    post.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_restarts_while_publishing_loses_nothing() {
    let restarts = if std::env::var_os("POSTROOM_FAULTS").is_some() { 30 } else { 3 };
    let broker = OwnServer::start(&Broker).unwrap();
    let mut streams = [Publishing::to(&broker, "classic").await, Publishing::to(&broker, "quorum").await];
    for _ in 0..restarts {
        let site = broker.site.clone();
        let restarting = tokio::task::spawn_blocking(move || {
            Broker::control(&site, &["stop_app"]).and_then(|()| Broker::control(&site, &["start_app"]))
        });
        while !restarting.is_finished() {
            for stream in &mut streams {
                stream.go_on().await;
            }
        }
        restarting.await.unwrap().unwrap();
    }
    for mut stream in streams {
        stream.go_on().await;
        stream.check(broker.site.port).await;
    }
}

/// Events that are sent on and on, as often as it takes.
struct Publishing {
    place: Place,
    post: Post,
    sent: usize,
}

impl Publishing {
    async fn to(broker: &OwnServer, kind: &str) -> Self {
        let arguments = [("x-queue-type", AMQPValue::LongString(kind.into()))];
        let place = Place::with(broker.site.port, &arguments).await;
        let post = place.post();
        Self { place, post, sent: 0 }
    }

    async fn go_on(&mut self) {
        let events: Vec<_> = (self.sent..self.sent + 50).map(|n| event(format!("r-{n}"))).collect();
        self.sent += 50;
        self.post.deliver_until_ok(&events).await;
    }

    /// Every one of them is there.
    async fn check(self, port: u16) {
        self.post.close().await;
        let mut now = Place::bare(port).await;
        now.name.clone_from(&self.place.name);
        let arrived: HashSet<String> = now.arrived_ids().await.into_iter().collect();
        let missing: Vec<usize> = (0..self.sent).filter(|n| !arrived.contains(&format!("r-{n}"))).collect();
        assert!(missing.is_empty(), "{} of {} are missing: {missing:?}", missing.len(), self.sent);
    }
}
