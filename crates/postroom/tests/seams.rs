//! Every seam is implemented and called through the facade alone: what is missing from it does not compile here.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what is not as documented fails the test")]

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postroom::admin::{
    Actor, Admin, EventRow, ManagedStore, Page, ReplayKind, RouteDetail, Selection, Timeline, replay_at_once,
};
use postroom::consumer::{Arrival, Consumer, DeadLetterCause, Delivered, Message, Subscription, Wire};
use postroom::dedup::{Confirmation, DedupClaim, DedupOutcome, DedupTicket, DedupWindow, MemoryDedupWindow, run_once};
use postroom::envelope::{Binding, Encoder, Format, Stage};
use postroom::memory::{MemoryStore, MemoryTx};
use postroom::observe::{Delivery, Observer, RouteHealth, RouteObserver, RouteState, Verdict};
use postroom::store::{
    Budget, Lease, Maintenance, Notified, Ownership, RelayIdentity, Retain, RouteSpec, Schema, Settlement, Source,
    Store, Take,
};
use postroom::transport::{
    Capabilities, ConsumerLag, ConsumerLags, Diagnostic, LagOptions, LagReader, Outbound, Outcome, Receipt, Transport,
};
use postroom::{
    Acceptance, Appended, Event, Failure, Inbox, Outbox, Relay, RelayOptions, RetryPolicy, Route, StateGuard,
    StoreError, ToEvent, Transactions, Transition, Transitions,
};

/// A destination that remembers what it got, and refuses what nobody wants.
#[derive(Debug, Default)]
struct Post {
    got: Mutex<Vec<(String, u32)>>,
}

#[async_trait]
impl Transport for Post {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain("post")
    }

    async fn deliver(&self, batch: Vec<Outbound>) {
        for outbound in batch {
            self.got.lock().unwrap().push((outbound.event.id.clone(), outbound.attempt));
            let outcome: Outcome = match outbound.event.event_type.as_str() {
                "order.unwanted" => Err(Failure::permanent("post.unwanted", "nobody wants it")),
                _ => Ok(Receipt::at("letterbox 7")),
            };
            outbound.report(outcome);
        }
    }

    async fn check(&self) -> Vec<Diagnostic> {
        vec![Diagnostic::fine("the letterbox is there")]
    }

    fn lag_reader(&self) -> Option<Box<dyn LagReader>> {
        Some(Box::new(Letterbox(LagOptions::default().every(Duration::from_secs(5)))))
    }

    async fn close(&self) {}
}

/// How many letters nobody has taken out.
#[derive(Debug)]
struct Letterbox(LagOptions);

#[async_trait]
impl LagReader for Letterbox {
    fn every(&self) -> Duration {
        self.0.every
    }

    async fn read(&mut self) -> Result<ConsumerLags, Failure> {
        Ok(ConsumerLags::new(vec![ConsumerLag::new("letterbox 7", "tenant", Some(2), None)], ""))
    }
}

/// Watches verdicts and states.
#[derive(Debug, Default)]
struct Watch {
    verdicts: Mutex<Vec<(String, bool)>>,
    states: Mutex<Vec<RouteState>>,
}

impl Observer for Watch {
    fn route(self: Arc<Self>, _store: &str, _route: &str) -> Arc<dyn RouteObserver> {
        self
    }
}

impl RouteObserver for Watch {
    fn tried(&self, _: &Delivery, outcome: &Outcome, _: Duration) {
        if let Ok(Receipt { place, .. }) = outcome {
            assert_eq!(place.as_deref(), Some("letterbox 7"));
        }
    }

    fn settled(&self, delivery: &Delivery, verdict: &Verdict) {
        let delivered = matches!(verdict, Verdict::Delivered(_));
        self.verdicts.lock().unwrap().push((delivery.event.id.clone(), delivered));
    }

    fn health(&self, health: &RouteHealth) {
        self.states.lock().unwrap().push(health.state);
    }
}

/// A store and a source around others, as somebody would write them to count or to delay.
struct Around(MemoryStore);

#[async_trait]
impl Store for Around {
    fn name(&self) -> &'static str {
        "around"
    }

    async fn source(&self, relay: &RelayIdentity, route: &RouteSpec) -> Result<Arc<dyn Source>, StoreError> {
        Ok(Arc::new(AroundSource(self.0.source(relay, route).await?)))
    }

    fn retain(&self) -> Arc<dyn Retain> {
        self.0.retain()
    }

    fn schema(&self) -> Option<Arc<dyn Schema>> {
        None
    }

    fn maintenance(&self) -> Option<Arc<dyn Maintenance>> {
        None
    }
}

impl ManagedStore for Around {
    fn admin(&self) -> Arc<dyn Admin> {
        self.0.admin()
    }
}

struct AroundSource(Arc<dyn Source>);

#[async_trait]
impl Source for AroundSource {
    async fn take(&self, budget: Budget) -> Result<Take, StoreError> {
        self.0.take(budget).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        self.0.settle(settlements).await
    }

    async fn renew(&self, health: &RouteHealth) -> Result<Lease, StoreError> {
        self.0.renew(health).await
    }

    async fn release(&self) -> Result<(), StoreError> {
        self.0.release().await
    }

    async fn disable(&self, failure: &Failure) -> Result<(), StoreError> {
        self.0.disable(failure).await
    }

    async fn is_drained(&self) -> Result<bool, StoreError> {
        self.0.is_drained().await
    }

    fn holds_transactions(&self) -> bool {
        self.0.holds_transactions()
    }

    fn notified(&self) -> Notified {
        self.0.notified()
    }
}

/// An outbox that also appends a copy for the auditors, in the same transaction.
struct Copying(MemoryStore);

impl Outbox<MemoryTx> for Copying {
    async fn append<E: ToEvent + Sync>(&self, tx: &mut MemoryTx, event: &E) -> Result<Appended, StoreError> {
        let mut copy = event.to_event()?;
        copy.event_type.insert_str(0, "copy.");
        Outbox::append(&self.0, tx, &copy).await?;
        Outbox::append(&self.0, tx, event).await
    }

    async fn append_many<E: ToEvent + Sync>(&self, tx: &mut MemoryTx, events: &[E]) -> Result<Appended, StoreError> {
        self.0.append_many(tx, events).await
    }

    async fn append_once<E: ToEvent + Sync>(
        &self,
        tx: &mut MemoryTx,
        idempotency_key: &str,
        event: &E,
    ) -> Result<Appended, StoreError> {
        self.0.append_once(tx, idempotency_key, event).await
    }
}

async fn append(outbox: &impl Outbox<MemoryTx>, store: &MemoryStore, events: &[Event]) {
    let mut tx = store.begin();
    for event in events {
        outbox.append(&mut tx, event).await.unwrap();
    }
    tx.commit();
}

#[tokio::test]
async fn a_transport_an_observer_and_a_store_of_ones_own_work_together_and_an_operator_looks_at_them() {
    let store = MemoryStore::new();
    append(&store, &store, &[Event::new("order.placed").id("e-1"), Event::new("order.unwanted").id("e-2")]).await;
    let (post, watch) = (Arc::new(Post::default()), Arc::new(Watch::default()));
    assert_eq!(post.check().await, [Diagnostic::fine("the letterbox is there")]);
    let mut reader = post.lag_reader().unwrap();
    let lags = reader.read().await.unwrap();
    assert_eq!((reader.every(), lags.consumers[0].messages), (Duration::from_secs(5), Some(2)));
    let route = Route::named("post").matching("order.*").from_beginning().retry(RetryPolicy::default());
    Relay::new(Around(store.clone()))
        .options(RelayOptions::default().drain(true))
        .observer(Arc::clone(&watch) as Arc<dyn Observer>)
        .route(route.to(Arc::clone(&post)))
        .run(pending())
        .await
        .unwrap();
    let mut got = post.got.lock().unwrap().clone();
    got.sort();
    assert_eq!(got, [("e-1".to_owned(), 1), ("e-2".to_owned(), 1)]);
    let mut verdicts = watch.verdicts.lock().unwrap().clone();
    verdicts.sort();
    assert_eq!(verdicts, [("e-1".to_owned(), true), ("e-2".to_owned(), false)]);
    assert!(watch.states.lock().unwrap().iter().all(|state| *state == RouteState::Running));

    let admin: Arc<dyn Admin> = store.admin();
    let rows: Vec<EventRow> = admin.events(&Selection::default(), Page::Oldest { after: 0, limit: 10 }).await.unwrap();
    assert_eq!(rows.len(), 2);
    let timeline: Timeline = admin.event("e-2", false).await.unwrap().unwrap();
    assert_eq!(timeline.routes.len(), 1);
    let routes: Vec<RouteDetail> = admin.routes().await.unwrap();
    assert_eq!((routes[0].status.delivered, routes[0].status.dead), (1, 1));
    let actor = Actor { name: "operator".to_owned(), reason: None };
    let replay = replay_at_once(&*admin, ReplayKind::Dead, &Selection::default(), &actor).await.unwrap().unwrap();
    assert_eq!(replay.done, 1);
}

#[tokio::test]
async fn an_outbox_of_ones_own_appends_in_the_stores_transaction() {
    let store = MemoryStore::new();
    append(&Copying(store.clone()), &store, &[Event::new("order.placed")]).await;
    let types: Vec<String> = store.events().iter().map(|event| event.event_type.clone()).collect();
    assert_eq!(types, ["copy.order.placed", "order.placed"]);
}

/// A broker with these messages.
#[derive(Debug)]
struct Broker {
    waiting: Mutex<VecDeque<Wire>>,
    acked: tokio::sync::mpsc::UnboundedSender<()>,
}

impl Subscription for Broker {
    type Ticket = ();

    async fn next(&self) -> Arrival<()> {
        let next = self.waiting.lock().unwrap().pop_front();
        match next {
            Some(wire) => Arrival::Message(Delivered { lane: None, wire, ticket: () }),
            None => pending().await,
        }
    }

    async fn ack(&self, (): &()) {
        self.acked.send(()).unwrap();
    }

    async fn publish_dead_letter(&self, (): &(), _: &str, _: &DeadLetterCause) -> Result<(), Failure> {
        unreachable!("nothing fails")
    }

    async fn release(&self, (): ()) {}

    async fn close(self) {}
}

/// An inbox that counts, and the transactions around it.
#[derive(Clone)]
struct Counting(MemoryStore, Arc<Mutex<Vec<Acceptance>>>);

impl Inbox<MemoryTx> for Counting {
    async fn accept(&self, tx: &mut MemoryTx, consumer: &str, id: &str) -> Result<Acceptance, StoreError> {
        let acceptance = self.0.accept(tx, consumer, id).await?;
        self.1.lock().unwrap().push(acceptance);
        Ok(acceptance)
    }
}

impl Transactions for Counting {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx, StoreError> {
        Transactions::begin(&self.0).await
    }

    async fn commit(&self, tx: MemoryTx) -> Result<(), StoreError> {
        Transactions::commit(&self.0, tx).await
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), StoreError> {
        Transactions::rollback(&self.0, tx).await
    }
}

async fn book(_: &mut MemoryTx, message: &Message) -> Result<(), Failure> {
    assert_eq!(message.id, "e-1");
    Ok(())
}

#[tokio::test]
async fn a_subscription_an_inbox_and_transactions_of_ones_own_are_a_consumer() {
    let event = Event::new("order.placed").id("e-1").json(&4200).unwrap();
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/shop");
    let wire = || {
        let envelope = encoder.encode(&event, Stage::at(None)).unwrap();
        let headers = envelope.headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Wire { headers, body: envelope.body.clone(), ..Wire::default() }
    };
    let (acked, mut acks) = tokio::sync::mpsc::unbounded_channel();
    let broker = Broker { waiting: Mutex::new([wire(), wire()].into()), acked };
    let store = Counting(MemoryStore::new(), Arc::default());
    let done = async {
        acks.recv().await.unwrap();
        acks.recv().await.unwrap();
    };
    Consumer::new("books", store.clone(), broker, book).unwrap().run(done).await;
    assert_eq!(*store.1.lock().unwrap(), [Acceptance::New, Acceptance::Duplicate]);
}

/// A window that forgets at once.
struct Forgetful;

impl DedupWindow for Forgetful {
    async fn claim(&self, _: &str, _: &str) -> Result<DedupClaim, Failure> {
        Ok(DedupClaim::Held(Duration::from_secs(1)))
    }

    async fn confirm(&self, _: DedupTicket) -> Result<Confirmation, Failure> {
        Ok(Confirmation::Late)
    }

    async fn release(&self, _: DedupTicket) -> Result<(), Failure> {
        Ok(())
    }
}

/// A guard over a state that stands in memory.
struct Status(Mutex<String>, Transitions);

impl StateGuard<MemoryTx> for Status {
    async fn advance(&self, _: &mut MemoryTx, _key: &str, to: &str) -> Result<Transition, StoreError> {
        let mut state = self.0.lock().unwrap();
        let transition = self.1.step(&state, to);
        if transition == Transition::Taken {
            to.clone_into(&mut state);
        }
        Ok(transition)
    }
}

#[tokio::test]
async fn windows_and_guards_of_ones_own_are_asked() {
    let effect = async || Ok::<(), Failure>(());
    let held = run_once(&Forgetful, "books", "e-1", effect()).await.unwrap_err();
    assert_eq!(&*held.code, "dedup.held");
    let options = postroom::dedup::DedupWindowOptions::new(&RetryPolicy::default()).length(Duration::from_hours(1));
    let window = MemoryDedupWindow::new(&options).unwrap();
    assert_eq!(run_once(&window, "books", "e-1", effect()).await.unwrap(), DedupOutcome::Done);
    assert_eq!(run_once(&window, "books", "e-1", effect()).await.unwrap(), DedupOutcome::Duplicate);

    let store = MemoryStore::new();
    let order = Status(Mutex::new("placed".to_owned()), Transitions::new("order").allow("placed", "paid"));
    let mut tx = store.begin();
    assert!(order.advance(&mut tx, "order-7", "paid").await.unwrap().is_taken().unwrap());
    assert!(!order.advance(&mut tx, "order-7", "paid").await.unwrap().is_taken().unwrap());
}

/// Named, so that a transport or an option that the facade loses is missed.
#[test]
fn every_transport_and_store_has_its_options() {
    use postroom::envelope::Template;
    use postroom::transports::kafka::{Kafka, KafkaOptions};
    use postroom::transports::{Noop, Stdout};

    let options = KafkaOptions::new(vec!["localhost:1".to_owned()], Template::parse("orders", &[]).unwrap());
    let kafka = Kafka::new("orders", options, Encoder::new(Format::Raw, Binding::Kafka, "/shop"));
    assert_eq!(kafka.capabilities().name, "kafka");
    assert_eq!(Noop.capabilities().name, "noop");
    let named = [
        std::any::type_name::<Stdout>(),
        std::any::type_name::<postroom::transports::exec::Exec>(),
        std::any::type_name::<postroom::transports::exec::ExecOptions>(),
        std::any::type_name::<postroom::transports::nats::Nats>(),
        std::any::type_name::<postroom::transports::nats::NatsOptions>(),
        std::any::type_name::<postroom::transports::rabbitmq::RabbitMq>(),
        std::any::type_name::<postroom::transports::rabbitmq::RabbitMqOptions>(),
        std::any::type_name::<postroom::transports::redis::Redis>(),
        std::any::type_name::<postroom::transports::redis::RedisOptions>(),
        std::any::type_name::<postroom::transports::webhook::Webhook>(),
        std::any::type_name::<postroom::transports::webhook::WebhookOptions>(),
        std::any::type_name::<postroom::postgres::PostgresOptions>(),
        std::any::type_name::<postroom::sqlite::SqliteOptions>(),
    ];
    assert_eq!(named.len(), 13);
}

/// Enums that an implementation of a seam, or a caller, must handle completely: a new variant has to break the build.
const CLOSED: [&str; 12] = [
    "Acceptance",
    "Arrival",
    "DeliveryState",
    "OnDead",
    "OnFailure",
    "Page",
    "ReplayChange",
    "Revoked",
    "StartFrom",
    "Transition",
    "Value",
    "Verdict",
];

#[test]
fn exported_enums_and_options_may_grow() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let facade = std::fs::read_to_string(root.join("crates/postroom/src/lib.rs")).unwrap();
    let exported: Vec<&str> = facade.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()).collect();
    let is_exported = |name: &str| {
        exported.iter().any(|names| names.split(|c: char| !c.is_alphanumeric()).any(|exported| exported == name))
    };
    let (mut seen, mut folders) = (0, ["crates", "stores", "transports"].map(|folder| root.join(folder)).to_vec());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let (text, mut open) = (std::fs::read_to_string(&path).unwrap(), false);
                for line in text.lines() {
                    let is_enum = line.starts_with("pub enum ");
                    if is_enum || line.starts_with("pub struct ") {
                        let name = line.split([' ', '<', '(', ';']).nth(2).unwrap();
                        if is_exported(name) && (is_enum && !CLOSED.contains(&name) || name.ends_with("Options")) {
                            assert!(open, "{}: {name} is exported and not #[non_exhaustive]", path.display());
                            seen += 1;
                        }
                    }
                    // Attributes and documentation belong to what follows them.
                    open = line == "#[non_exhaustive]" || (open && (line.starts_with('#') || line.starts_with("///")));
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} were found");
}
