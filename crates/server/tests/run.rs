//! A relay from its configuration: real files, real child processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::future::{pending, ready};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::{Delivery, Event, SecretUrl, StoreErrorKind, Verdict};
use postroom_relay::{NoObserver, Observer, RouteObserver};
use postroom_server::config::{Config, Sources, StoreConfig, load};
use postroom_server::relay::{RunOptions, run};
use postroom_server::run_error::RunError;
use postroom_server::stores::{self, IfMissing};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tracing::instrument::WithSubscriber;

/// A child that keeps every line in a file and answers it with success: the last "id" of a line is the event's.
fn child(lines: &Path) -> String {
    let answer = r#"s/.*"id":"\([^"]*\)".*/{"id":"\1","ok":true}/"#;
    format!(
        "to = {{ exec = {{ command = [\"sh\", \"-c\", '''tee \"$0\" | sed -u '{answer}'''', \"{}\"] }} }}",
        lines.display()
    )
}

/// A configuration whose stores live in the folder, followed by `rest`.
fn config(folder: &Path, stores: &[&str], rest: &str) -> Config {
    let store = |name: &&str| {
        format!("[store.{name}]\nurl = \"sqlite://{}\"\n", folder.join(name).with_extension("db").display())
    };
    let text: String = stores.iter().map(store).collect();
    std::fs::write(folder.join("postroom.toml"), text + rest).unwrap();
    let sources = Sources { file: Some(folder.join("postroom.toml")), cwd: folder.into(), ..Sources::default() };
    load(&sources).unwrap_or_else(|error| panic!("{error}"))
}

async fn migrate(config: &Config, store: &str) {
    let store = config.store(Some(store)).unwrap();
    stores::open_schema(store, config.limits, IfMissing::Create).await.unwrap().up().await.unwrap();
}

async fn append(config: &Config, store: &str, count: usize) {
    let store = config.store(Some(store)).unwrap();
    let events: Vec<Event> = (0..count).map(|n| Event::new("order.placed").key(format!("order-{n}"))).collect();
    stores::open(store, config.limits).await.unwrap().admin().append(&events).await.unwrap();
}

async fn delivered(config: &Config, store: &str) -> u64 {
    let store = config.store(Some(store)).unwrap();
    let admin = stores::open(store, config.limits).await.unwrap().admin();
    admin.routes().await.unwrap().iter().map(|route| route.status.delivered).sum()
}

fn drain() -> RunOptions {
    let mut options = RunOptions::default();
    options.drain = true;
    options
}

/// Says which store's event was settled.
#[derive(Debug)]
struct Settled(mpsc::UnboundedSender<String>);

impl Observer for Settled {
    fn route(self: Arc<Self>, store: &str, _: &str) -> Arc<dyn RouteObserver> {
        Arc::new(SettledIn(store.to_owned(), self.0.clone()))
    }
}

#[derive(Debug)]
struct SettledIn(String, mpsc::UnboundedSender<String>);

impl RouteObserver for SettledIn {
    fn settled(&self, _: &Delivery, verdict: &Verdict) {
        assert!(matches!(verdict, Verdict::Delivered(_)), "{verdict:?}");
        let _ = self.1.send(self.0.clone());
    }
}

#[tokio::test]
async fn what_was_appended_is_delivered_to_a_child_process() {
    let folder = TempDir::new().unwrap();
    let lines = folder.path().join("lines");
    let route = format!("[[route]]\nname = \"mailer\"\nstart = \"beginning\"\n{}\n", child(&lines));
    let config = config(folder.path(), &["main"], &route);
    migrate(&config, "main").await;
    append(&config, "main", 20).await;
    run(&config, drain(), Arc::new(NoObserver), pending()).await.unwrap();
    assert_eq!(delivered(&config, "main").await, 20);
    let lines = std::fs::read_to_string(lines).unwrap();
    assert_eq!(lines.lines().count(), 20);
    let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&line["route"], &line["envelope"]["source"]), (&"mailer".into(), &"/postroom/main".into()));
}

#[tokio::test]
async fn looking_at_the_schema_of_a_store_that_is_not_there_creates_nothing() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "");
    let error = stores::open_schema(&config.stores[0], config.limits, IfMissing::Fail).await.err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Unreachable);
    assert!(!folder.path().join("main.db").exists());
}

#[tokio::test]
async fn a_store_of_another_build_is_refused_without_its_password() {
    let store = StoreConfig {
        name: "main".into(),
        url: SecretUrl::new("oracle://shop:canary@db/shop"),
        more_urls: Vec::new(),
        source: "/shop".into(),
        poll: postroom_relay::Poll::default(),
        postgres: postroom_server::config::PostgresConfig::default(),
        mapping: None,
        migrate: true,
    };
    let error = stores::open(&store, postroom_core::Limits::default()).await.err().unwrap();
    assert_eq!(error.to_string(), "this build has no store for oracle://shop:***@db/shop");
}

#[tokio::test]
async fn only_the_named_routes_are_served() {
    let folder = TempDir::new().unwrap();
    let route = |name: &str| format!("[[route]]\nname = \"{name}\"\nstart = \"beginning\"\nto = {{ noop = {{}} }}\n");
    let config = config(folder.path(), &["main"], &(route("one") + &route("two")));
    migrate(&config, "main").await;
    append(&config, "main", 3).await;
    let mut options = drain();
    options.routes = vec!["two".into()];
    run(&config, options, Arc::new(NoObserver), pending()).await.unwrap();
    let admin = stores::open(&config.stores[0], config.limits).await.unwrap().admin();
    let routes = admin.routes().await.unwrap();
    assert_eq!(routes.iter().map(|r| (r.status.route.as_str(), r.status.delivered)).collect::<Vec<_>>(), [("two", 3)]);
}

#[tokio::test]
async fn a_route_that_is_not_configured_is_refused_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "[[route]]\nname = \"mailer\"\nto = { noop = {} }\n");
    let mut options = RunOptions::default();
    options.routes = vec!["mialer".into()];
    let error = run(&config, options, Arc::new(NoObserver), pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no route `mialer`\nhint: configured are mailer");
    assert!(matches!(error, RunError::Config(_)));
}

#[tokio::test]
async fn without_a_route_there_is_nothing_to_run() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "");
    let error = run(&config, RunOptions::default(), Arc::new(NoObserver), pending()).await.unwrap_err();
    assert!(matches!(&error, RunError::Config(e) if e.problems[0].hint.is_some()), "{error}");
}

#[tokio::test]
async fn a_store_without_tables_is_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "[[route]]\nname = \"mailer\"\nto = { noop = {} }\n");
    stores::open_schema(&config.stores[0], config.limits, IfMissing::Create).await.unwrap().status().await.unwrap();
    let error = run(&config, RunOptions::default(), Arc::new(NoObserver), pending()).await.unwrap_err();
    let RunError::Refused { store, error } = error else { panic!("{error}") };
    assert_eq!((store.as_str(), error.kind), ("main", StoreErrorKind::Schema));
}

#[tokio::test(start_paused = true)]
async fn a_start_without_any_store_ends_after_ten_seconds() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "[[route]]\nname = \"mailer\"\nto = { noop = {} }\n");
    let started = tokio::time::Instant::now();
    let error = run(&config, RunOptions::default(), Arc::new(NoObserver), pending()).await.unwrap_err();
    assert!(matches!(&error, RunError::Unreachable(stores) if stores[0].0 == "main"), "{error}");
    assert!(started.elapsed() <= Duration::from_secs(11), "{:?}", started.elapsed());
    assert!(!folder.path().join("main.db").exists(), "a mistyped path must not become an empty store");
}

#[tokio::test]
async fn a_stop_while_waiting_for_a_store_is_obeyed() {
    let folder = TempDir::new().unwrap();
    let config = config(folder.path(), &["main"], "[[route]]\nname = \"mailer\"\nto = { noop = {} }\n");
    run(&config, RunOptions::default(), Arc::new(NoObserver), ready(())).await.unwrap();
}

#[tokio::test]
async fn a_store_that_comes_later_is_served_too() {
    let folder = TempDir::new().unwrap();
    let route = "[[route]]\nname = \"mailer\"\nstore = \"*\"\nstart = \"beginning\"\nto = { noop = {} }\n";
    let config = config(folder.path(), &["early", "late"], route);
    migrate(&config, "early").await;
    append(&config, "early", 1).await;
    let (sender, mut settled) = mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let work = async {
        assert_eq!(settled.recv().await.unwrap(), "early");
        migrate(&config, "late").await;
        append(&config, "late", 1).await;
        assert_eq!(settled.recv().await.unwrap(), "late");
        drop(stop);
    };
    let (result, ()) = tokio::join!(run(&config, RunOptions::default(), Arc::new(Settled(sender)), shutdown), work);
    result.unwrap();
}

/// Log lines, as they come.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>, Arc<tokio::sync::Notify>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        self.1.notify_one();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn namesakes(&self) -> usize {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches("has the same name").count()
    }
}

#[tokio::test]
async fn two_live_relays_of_one_name_each_warn_once() {
    let folder = TempDir::new().unwrap();
    let route = "[relay]\nlease = \"1s\"\n[[route]]\nname = \"mailer\"\nto = { noop = {} }\n";
    let config = config(folder.path(), &["main"], route);
    migrate(&config, "main").await;
    let stop = tokio_util::sync::CancellationToken::new();
    let (one, other) = (Lines::default(), Lines::default());
    let relay = |lines: &Lines| {
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        run(&config, RunOptions::default(), Arc::new(NoObserver), stop.clone().cancelled_owned())
            .with_subscriber(subscriber)
    };
    let work = async {
        for lines in [&one, &other] {
            while lines.namesakes() == 0 {
                lines.1.notified().await;
            }
        }
        stop.cancel();
    };
    let (first, second, ()) = tokio::join!(relay(&one), relay(&other), work);
    first.and(second).unwrap();
    assert_eq!((one.namesakes(), other.namesakes()), (1, 1));
}
