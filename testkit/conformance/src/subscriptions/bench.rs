//! What the cases have in common: a broker, a database, a handler, and consumers that are run, stopped and dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_consumer::{Consumer, ConsumerOptions};
use postroom_core::envelope::Format;
use postroom_core::{Delays, Event, JSON, RetryPolicy};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::effects::Effects;
use super::harness::{Dead, Harness};
use super::script::Script;
use super::watched::{Counters, Watched};
use crate::transports::{PATIENCE, Post, until};

/// The consumer's name in every case.
pub(super) const NAME: &str = "books";

/// One case's world.
#[derive(Debug)]
pub struct Bench<H, G> {
    /// The broker.
    pub harness: H,
    /// The database.
    pub effects: G,
    /// The handler.
    pub script: Script<G>,
    /// What has happened.
    pub seen: Arc<Counters>,
    /// Settings of its consumers.
    pub options: ConsumerOptions,
}

/// A consumer that runs.
#[derive(Debug)]
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl<H: Harness, G: Effects> Bench<H, G> {
    /// With a place for the dead.
    pub async fn new() -> Self {
        let bench = Self::with(10).await;
        bench.harness.make_dead().await;
        bench
    }

    /// Without one, and this prefetch.
    pub async fn with(prefetch: u16) -> Self {
        let (harness, effects) = tokio::join!(H::start(prefetch), G::open());
        let delays = Delays::Schedule(vec![Duration::from_millis(40), Duration::from_millis(120)]);
        let options = ConsumerOptions::default()
            .retry(RetryPolicy::default().delays(delays).jitter(0.0).attempts(3))
            .timeout(Duration::from_secs(30));
        Self { harness, script: Script::new(&effects), effects, seen: Arc::default(), options }
    }

    /// Runs another instance.
    pub fn run(&self) -> Running {
        self.run_with(self.script.clone())
    }

    /// Runs another instance with this handler.
    pub fn run_with(&self, script: Script<G>) -> Running {
        let subscription = Watched { inner: self.harness.subscription(), seen: Arc::clone(&self.seen) };
        let store = self.effects.store();
        let transactions = Watched { inner: store.clone(), seen: Arc::clone(&self.seen) };
        let consumer =
            Consumer::with(NAME, store, transactions, subscription, script).unwrap().options(self.options.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(consumer.run(async move { drop(stopped.await) }));
        Running { stop: Some(stop), task }
    }

    /// Sends events of these ids, each with a key of its own.
    pub async fn send(&self, ids: &[&str]) {
        self.send_events(ids.iter().map(|id| event(id, id)).collect()).await;
    }

    /// Sends these, in this order.
    pub async fn send_events(&self, events: Vec<Event>) {
        self.send_as(Format::CloudEventsBinary, events).await;
    }

    /// Sends these in this format.
    pub async fn send_as(&self, format: Format, events: Vec<Event>) {
        let mut post = Post::new(self.harness.transport(format));
        for event in events {
            // One after the other, so that they are there in this order.
            post.deliver_until_ok(&[event]).await;
        }
        post.close().await;
    }

    /// Waits until these effects are there, in whatever order.
    pub async fn until_effects(&self, ids: &[&str]) {
        let mut wanted: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        wanted.sort();
        until(&format!("the effects of {ids:?}"), || async {
            let mut effects = self.effects.effects().await;
            effects.sort();
            effects == wanted
        })
        .await;
    }

    /// Waits until so many are among the dead.
    pub async fn until_dead(&self, count: usize) -> Vec<Dead> {
        self.until_seen("dead letters", |seen| &seen.dead_lettered, count).await;
        let dead = self.harness.dead().await;
        assert_eq!(dead.len(), count, "{dead:?}");
        dead
    }

    /// Waits until something has happened so often.
    pub async fn until_seen(&self, what: &str, counter: impl Fn(&Counters) -> &AtomicUsize, count: usize) {
        until(what, || async { counter(&self.seen).load(Ordering::SeqCst) >= count }).await;
    }

    /// Stops it in good order; the broker has nothing left.
    pub async fn finish(&self, running: Running) {
        running.stop().await;
        self.until_left(0).await;
    }

    /// Waits until so many are not acknowledged, while nobody reads.
    pub async fn until_left(&self, count: usize) {
        until(&format!("{count} messages to be left"), || async { self.harness.left().await == count }).await;
    }
}

impl Running {
    /// Asks it to stop.
    pub fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(mut self) {
        self.ask_to_stop();
        timeout(PATIENCE, self.task).await.expect("it stops").expect("no panic");
    }

    /// Drops it where it stands.
    pub async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// An event of this id and key.
pub(super) fn event(id: &str, key: &str) -> Event {
    Event::new("parcel.sent").id(id).key(key).bytes(JSON, format!(r#"{{"parcel":"{id}"}}"#))
}
