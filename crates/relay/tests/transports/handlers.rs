//! Handlers in this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Behaviour, Breakable, Harness, Observed, Post, Scripted};
use postroom_core::{Event, Failure, FailureKind, Transport};
use postroom_relay::{Handlers, Incoming};
use tokio::sync::watch;

/// A handler that does as it is told.
#[derive(Clone)]
struct Puppet {
    timeout: Duration,
    script: Arc<watch::Sender<HashMap<String, Behaviour>>>,
    down: Arc<watch::Sender<bool>>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Puppet {
    async fn handle(self, incoming: Incoming) -> Result<(), Failure> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        if *self.down.borrow() {
            return Err(Failure::unavailable("puppet.down", "the strings are cut"));
        }
        self.arrived.lock().expect("no panic").push(Arrived {
            id: incoming.id.clone(),
            event_type: incoming.event_type.clone(),
            payload: String::from_utf8(incoming.payload.to_vec()).expect("it is text"),
        });
        let mut script = self.script.subscribe();
        let told = |script: &HashMap<String, Behaviour>| script.get(&incoming.id).copied();
        let behaviour = {
            let released = script.wait_for(|script| told(script) != Some(Behaviour::Hold)).await;
            told(&released.expect("self has a sender"))
        };
        match behaviour {
            Some(Behaviour::RefuseForNow) => Err(Failure::transient("puppet.busy", "busy")),
            Some(Behaviour::RefuseForGood) => Err(Failure::permanent("puppet.never", "never")),
            Some(Behaviour::Ignore | Behaviour::Hold) => std::future::pending().await,
            Some(Behaviour::Accept) | None => Ok(()),
        }
    }
}

#[async_trait]
impl Harness for Puppet {
    async fn start(timeout: Duration) -> Self {
        Self {
            timeout,
            script: Arc::new(watch::Sender::new(HashMap::new())),
            down: Arc::new(watch::Sender::new(false)),
            arrived: Arc::default(),
            running: Arc::default(),
        }
    }

    fn transport(&self) -> Arc<dyn Transport> {
        let puppet = self.clone();
        Arc::new(Handlers::new().timeout(self.timeout).on("*", "puppet", move |i| puppet.clone().handle(i)))
    }

    async fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Observed for Puppet {
    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("no panic").clone()
    }
}

#[async_trait]
impl Scripted for Puppet {
    async fn behave(&self, id: &str, behaviour: Behaviour) {
        self.script.send_modify(|script| {
            script.insert(id.to_owned(), behaviour);
        });
    }
}

#[async_trait]
impl Breakable for Puppet {
    async fn stop(&self) {
        self.down.send_replace(true);
    }

    async fn resume(&self) {
        self.down.send_replace(false);
    }
}

postroom_conformance::transport_suite!(Puppet: reports, arrives, answers, goes_down);

async fn failure(handlers: Handlers, event: Event) -> Failure {
    let mut post = Post::new(Arc::new(handlers));
    post.deliver(&[event]).await;
    post.outcome().await.1.expect_err("it fails")
}

#[tokio::test]
async fn every_handler_that_matches_runs_in_the_order_they_were_added() {
    let ran = Arc::new(Mutex::new(Vec::new()));
    let mut handlers = Handlers::new();
    for (pattern, name) in [("order.*", "c"), ("paid", "never"), ("*", "a"), ("order.placed", "b")] {
        let ran = Arc::clone(&ran);
        handlers = handlers.on(pattern, name, move |incoming: Incoming| {
            let ran = Arc::clone(&ran);
            async move {
                ran.lock().expect("no panic").push((name, incoming.attempt, incoming.position));
                Ok::<(), Failure>(())
            }
        });
    }
    let mut post = Post::new(Arc::new(handlers));
    post.deliver(&[Event::new("order.placed")]).await;
    assert!(post.outcome().await.1.is_ok());
    assert_eq!(*ran.lock().unwrap(), [("c", 1, Some(1)), ("a", 1, Some(1)), ("b", 1, Some(1))]);
}

#[tokio::test]
async fn errors_are_collected_per_handler_and_stop_nobody() {
    let done = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&done);
    let handlers = Handlers::new()
        .on("*", "strict", |_: Incoming| async { Err(Failure::permanent("strict.no", "no")) })
        .on("*", "io", |_: Incoming| async { Err(std::io::Error::other("disk on fire")) })
        .on("*", "last", move |_: Incoming| {
            let count = Arc::clone(&count);
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                Ok::<(), Failure>(())
            }
        });
    let failure = failure(handlers, Event::new("t")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "strict.no"));
    assert_eq!(failure.error, "strict: no; io: disk on fire");
    let named: Vec<_> = failure.handlers.iter().map(|h| (h.handler.as_str(), h.error.as_str())).collect();
    assert_eq!(named, [("strict", "no"), ("io", "disk on fire")]);
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_panic_is_a_failure_of_that_handler_for_that_event_only() {
    let handlers = Handlers::new()
        .on("*", "clumsy", |incoming: Incoming| async move {
            assert_ne!(incoming.event_type, "bad", "canary");
            Ok::<(), Failure>(())
        })
        .on("*", "abrupt", |incoming: Incoming| {
            assert_ne!(incoming.event_type, "bad", "before the first await");
            async { Ok::<(), Failure>(()) }
        });
    let mut post = Post::new(Arc::new(handlers));
    post.deliver(&[Event::new("good").id("1"), Event::new("bad").id("2"), Event::new("good").id("3")]).await;
    let outcomes = post.outcomes().await;
    assert!(outcomes["1"].is_ok() && outcomes["3"].is_ok());
    let failure = outcomes["2"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "handler.panicked"));
    assert_eq!(failure.error, "clumsy: the handler panicked; abrupt: the handler panicked");
}

#[tokio::test(start_paused = true)]
async fn a_handler_over_its_time_is_dropped_and_the_next_one_runs() {
    let (dropped, mut gone) = watch::channel(());
    let dropped = Arc::new(Mutex::new(Some(dropped)));
    let handlers = Handlers::new()
        .on("*", "stuck", move |_: Incoming| {
            let kept = dropped.lock().expect("no panic").take();
            async move {
                let _kept = kept;
                std::future::pending::<Result<(), Failure>>().await
            }
        })
        .on("*", "next", |_: Incoming| async { Err(Failure::permanent("next.ran", "ran")) });
    let failure = failure(handlers, Event::new("t")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Transient, "handler.timeout"));
    assert_eq!(failure.error, "stuck: the handler was not done after 30s; next: ran");
    assert!(gone.changed().await.is_err(), "the handler still runs");
}

#[tokio::test]
async fn a_type_nobody_handles_is_named() {
    let handlers = Handlers::new().on("order.*", "mailer", |_: Incoming| async { Ok::<(), Failure>(()) });
    let failure = failure(handlers, Event::new("invoice.sent")).await;
    assert_eq!((failure.kind, &*failure.code), (FailureKind::NotYet, "handler.missing"));
    assert!(failure.error.contains("\"invoice.sent\""), "{}", failure.error);
}

#[tokio::test]
async fn an_event_of_an_unknown_type_is_delivered_where_the_handlers_ignore_them() {
    let handlers = Handlers::new().ignore_unknown().on("order.*", "refuses", |_: Incoming| async {
        Err::<(), _>(Failure::permanent("test.refused", "it is known"))
    });
    let mut post = Post::new(Arc::new(handlers));
    post.deliver(&[Event::new("invoice.paid")]).await;
    post.outcome().await.1.expect("nobody subscribes to it");
    post.deliver(&[Event::new("order.placed")]).await;
    post.outcome().await.1.expect_err("a handler was asked");
}

#[test]
fn the_limit_is_told_to_the_relay() {
    let max = |handlers: Handlers| handlers.capabilities().in_flight_max;
    assert_eq!((max(Handlers::new()), max(Handlers::new().in_flight(3))), (Some(64), Some(3)));
}

#[test]
#[should_panic(expected = "there are two handlers called \"mailer\"")]
fn two_handlers_of_one_name_are_refused() {
    let ok = |_: Incoming| async { Ok::<(), Failure>(()) };
    let _ = Handlers::new().on("a", "mailer", ok).on("b", "mailer", ok);
}

#[test]
#[should_panic(expected = "handler \"mailer\": pattern \"*.placed\" is not valid")]
fn a_pattern_nobody_could_mean_is_refused() {
    let _ = Handlers::new().on("*.placed", "mailer", |_: Incoming| async { Ok::<(), Failure>(()) });
}
