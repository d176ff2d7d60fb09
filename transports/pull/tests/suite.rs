//! The pull transport with workers that lease and settle: the suite, and what only it does.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Behaviour, Harness, Observed, Post, Scripted, until};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, FailureKind, JSON, Transport};
use postroom_pull::{Pull, PullOptions, Queue};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The worker that leases and settles.
const WORKER: &str = "worker";
const LONG: Duration = Duration::from_secs(30);

fn pull(lease: Duration) -> Pull {
    let encoder = Encoder::new(Format::CloudEventsStructured, Binding::Http, "/postroom/test");
    Pull::new("mailer", changed(PullOptions::default(), |o| o.lease = lease), encoder)
}

/// Workers in this process, one for each transport, and what they saw.
struct Workers {
    lease: Duration,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    arrived: Mutex<Vec<Arrived>>,
    rules: Mutex<HashMap<String, Behaviour>>,
    queues: Mutex<Vec<std::sync::Weak<Queue>>>,
}

impl Shared {
    /// Works until the transport is gone.
    async fn work(self: Arc<Self>, queue: std::sync::Weak<Queue>) {
        let mut held: Vec<(String, String)> = Vec::new();
        loop {
            let Some(queue) = queue.upgrade() else { return };
            for told in queue.lease(WORKER, 100, Duration::from_millis(5), None).await {
                let (lease, arrived) = read(&told);
                held.push((lease, arrived.id.clone()));
                self.arrived.lock().unwrap().push(arrived);
            }
            let mut answers = Vec::new();
            let rules = self.rules.lock().unwrap().clone();
            held.retain(|(lease, id)| {
                let answer = match rules.get(id).unwrap_or(&Behaviour::Accept) {
                    Behaviour::Accept => json!({ "lease": lease, "ok": true }),
                    Behaviour::RefuseForNow => json!({ "lease": lease, "error": "no" }),
                    Behaviour::RefuseForGood => json!({ "lease": lease, "error": "no", "permanent": true }),
                    Behaviour::Hold | Behaviour::Ignore => return true,
                };
                answers.push(object(answer));
                false
            });
            queue.settle(WORKER, answers).unwrap();
            drop(queue);
            tokio::task::yield_now().await;
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(fields) = value else { panic!("{value} is no object") };
    fields
}

fn read(told: &RawValue) -> (String, Arrived) {
    let fields: HashMap<String, Box<RawValue>> = serde_json::from_str(told.get()).unwrap();
    let envelope: HashMap<String, Box<RawValue>> = serde_json::from_str(fields["envelope"].get()).unwrap();
    let word = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).unwrap();
    assert_eq!(fields["id"].get(), envelope["id"].get());
    let (id, event_type) = (word(&envelope["id"]), word(&envelope["type"]));
    (word(&fields["lease"]), Arrived { id, event_type, payload: envelope["data"].get().to_owned() })
}

#[async_trait]
impl Harness for Workers {
    async fn start(timeout: Duration) -> Self {
        Self { lease: timeout, shared: Arc::default() }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        let pull = pull(self.lease);
        let queue = Arc::downgrade(&pull.queue());
        self.shared.queues.lock().unwrap().push(queue.clone());
        tokio::spawn(Arc::clone(&self.shared).work(queue));
        Arc::new(pull)
    }

    async fn running(&self) -> usize {
        let count = || self.shared.queues.lock().unwrap().iter().filter(|queue| queue.strong_count() > 0).count();
        // A worker that is just asking has the queue, too, for some milliseconds.
        for _ in 0..100 {
            if count() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        count()
    }
}

#[async_trait]
impl Observed for Workers {
    async fn arrived(&self) -> Vec<Arrived> {
        self.shared.arrived.lock().unwrap().clone()
    }
}

#[async_trait]
impl Scripted for Workers {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.shared.rules.lock().unwrap().insert(id.to_owned(), behaviour);
    }
}

postroom_conformance::transport_suite!(Workers: reports, arrives, answers);

fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, "{}")
}

async fn leases(queue: &Queue, most: usize) -> Vec<String> {
    queue.lease(WORKER, most, LONG, None).await.iter().map(|told| read(told).0).collect()
}

#[tokio::test]
async fn a_worker_gets_no_more_than_it_asks_for_and_nobody_else_gets_the_same() {
    let pull = pull(LONG);
    let queue = pull.queue();
    let mut post = Post::new(Arc::new(pull));
    post.deliver(&(0..5).map(|n| event(&format!("e-{n}"))).collect::<Vec<_>>()).await;
    let (one, two) = (leases(&queue, 3).await, leases(&queue, 3).await);
    assert_eq!((one.len(), two.len()), (3, 2));
    assert!(one.iter().all(|lease| !two.contains(lease)));
    assert!(queue.lease(WORKER, 3, Duration::ZERO, None).await.is_empty());
    let answers = one.iter().chain(&two).map(|lease| object(json!({ "lease": lease, "ok": true }))).collect();
    let settled = queue.settle(WORKER, answers).unwrap();
    assert_eq!((settled.settled, settled.unknown.len()), (5, 0));
    assert!(post.outcomes().await.values().all(Result::is_ok));
    post.close().await;
}

#[tokio::test]
async fn who_waits_is_told_as_soon_as_something_comes() {
    let pull = pull(LONG);
    let queue = pull.queue();
    let mut post = Post::new(Arc::new(pull));
    let waiting = tokio::spawn(async move { leases(&queue, 10).await.len() });
    tokio::task::yield_now().await;
    post.deliver(&[event("a")]).await;
    assert_eq!(waiting.await.unwrap(), 1);
    post.close().await;
}

#[tokio::test]
async fn a_lease_that_ends_is_a_failure_of_that_delivery_and_its_late_answer_counts_for_nothing() {
    let pull = pull(LONG);
    let queue = pull.queue();
    let mut post = Post::new(Arc::new(pull));
    post.deliver(&[event("slow"), event("quick")]).await;
    let leased = queue.lease(WORKER, 2, LONG, Some(Duration::from_millis(20))).await;
    let lease = |n: usize| read(&leased[n]).0;
    queue.settle(WORKER, vec![object(json!({ "lease": lease(1), "ok": true }))]).unwrap();
    assert!(post.outcome().await.1.is_ok());
    let (late, outcome) = post.outcome().await;
    let failure = outcome.unwrap_err();
    assert_eq!((late.id.as_str(), failure.kind, &*failure.code), ("slow", FailureKind::Crashed, "pull.lease_ended"));
    let settled = queue.settle(WORKER, vec![object(json!({ "lease": lease(0), "ok": true }))]).unwrap();
    assert_eq!((settled.settled, settled.unknown), (0, vec![lease(0)]));
    post.close().await;
}

#[tokio::test]
async fn a_stop_gives_back_what_nobody_leased_and_waits_for_the_rest() {
    let pull = Arc::new(pull(LONG));
    let queue = pull.queue();
    let mut post = Post::new(Arc::clone(&pull) as _);
    post.deliver(&[event("leased"), event("lying")]).await;
    let lease = leases(&queue, 1).await.remove(0);
    pull.wind_down();
    let (lying, outcome) = post.outcome().await;
    let failure = outcome.unwrap_err();
    assert_eq!((lying.id.as_str(), failure.kind), ("lying", FailureKind::Unavailable));
    assert!(queue.lease(WORKER, 1, LONG, None).await.is_empty(), "nothing is leased while it stops");
    queue.settle(WORKER, vec![object(json!({ "lease": lease, "ok": true }))]).unwrap();
    assert!(post.outcome().await.1.is_ok());
    drop(pull);
    post.close().await;
}

#[tokio::test]
async fn one_answer_that_is_none_settles_nothing() {
    let pull = pull(LONG);
    let queue = pull.queue();
    let mut post = Post::new(Arc::new(pull));
    post.deliver(&[event("a")]).await;
    let lease = leases(&queue, 1).await.remove(0);
    for (bad, why) in [
        (json!({ "ok": true }), "it has no `lease`"),
        (json!({ "lease": 7, "ok": true }), "its `lease` has the wrong type"),
        (json!({ "lease": "x" }), "it has neither `ok` nor `error`"),
        (json!({ "lease": "x", "ok": "yes" }), "its `ok` has the wrong type"),
    ] {
        let answers = vec![object(json!({ "lease": lease, "ok": true })), object(bad)];
        let (place, said) = queue.settle(WORKER, answers).unwrap_err();
        assert_eq!((place, said.to_string().as_str()), (1, why));
    }
    assert!(post.is_silent());
    for made_up in ["", "x", "1-1", "zz-1", &format!("{lease}0")] {
        let settled = queue.settle(WORKER, vec![object(json!({ "lease": made_up, "ok": true }))]).unwrap();
        assert_eq!(settled.unknown, [made_up]);
    }
    queue.settle(WORKER, vec![object(json!({ "lease": lease, "error": "full", "retry_after": "5s" }))]).unwrap();
    let failure = post.outcome().await.1.unwrap_err();
    assert_eq!((&*failure.code, failure.retry_after), ("pull.error", Some(Duration::from_secs(5))));
    until("it is quiet", async || post.is_silent()).await;
    post.close().await;
}
