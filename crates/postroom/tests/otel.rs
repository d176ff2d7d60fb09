//! An application that traces with `tracing` and OpenTelemetry: its events carry its spans, and handlers go on with them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what is not as documented fails the test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use opentelemetry::global;
use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use postroom::consumer::{Consumer, ConsumerOptions, Handler, Message, Subscription};
use postroom::memory::{MemoryStore, MemoryTx};
use postroom::{Event, Failure, Incoming, Outbox as _, Relay, RelayOptions, Route};
use postroom_consumer::{Arrival, Delivered, Wire};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{DeadLetterCause, Stage};
use tokio::sync::{Mutex, mpsc, oneshot};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// A broker with one message.
#[derive(Debug)]
struct One {
    wire: Mutex<Option<Wire>>,
    done: Mutex<Option<oneshot::Sender<()>>>,
}

impl Subscription for One {
    type Ticket = ();

    async fn next(&self) -> Arrival<()> {
        match self.wire.lock().await.take() {
            Some(wire) => Arrival::Message(Delivered { lane: None, wire, ticket: () }),
            None => std::future::pending().await,
        }
    }

    async fn ack(&self, (): &()) {
        self.done.lock().await.take().unwrap().send(()).unwrap();
    }

    async fn publish_dead_letter(&self, (): &(), _: &str, _: &DeadLetterCause) -> Result<(), Failure> {
        unreachable!("its second try succeeds")
    }

    async fn release(&self, (): ()) {}

    async fn close(self) {}
}

/// What a relay hands over, as a message of a broker.
async fn relayed(store: &MemoryStore) -> Wire {
    let (sent, mut taken) = mpsc::unbounded_channel();
    let route = Route::named("out").from_beginning().handle(move |event: Incoming| {
        sent.send(Event::clone(&event)).unwrap();
        async { Ok::<(), Failure>(()) }
    });
    let options = RelayOptions::default().drain(true);
    Relay::new(store.clone()).options(options).route(route).run(std::future::pending()).await.unwrap();
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Kafka, "/test");
    let event = taken.recv().await.unwrap();
    let envelope = encoder.encode(&event, Stage::at(None)).unwrap();
    let headers = envelope.headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Wire { headers, body: envelope.body.clone(), ..Wire::default() }
}

/// Fails once.
struct Books {
    tries: AtomicU32,
}

impl Handler<MemoryTx> for Books {
    async fn handle(&self, _: &mut MemoryTx, message: &Message) -> Result<(), Failure> {
        async {
            assert_eq!(message.event_type.as_deref(), Some("order.placed"));
            match self.tries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Failure::transient("books.closed", "canary")),
                _ => Ok(()),
            }
        }
        .instrument(tracing::info_span!("book"))
        .await
    }
}

#[tokio::test]
async fn one_trace_goes_from_the_append_through_the_outbox_to_the_handler() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    global::set_tracer_provider(provider.clone());
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();

    let store = MemoryStore::new();
    let ready = Event::new("order.placed").key("canary").bytes("text/plain", "canary");
    async {
        let mut tx = store.begin();
        let appended = store.append(&mut tx, &ready).await.unwrap();
        tx.commit();
        appended.wake();
    }
    .instrument(tracing::info_span!("checkout"))
    .await;
    let wire = relayed(&store).await;
    let (done, acked) = oneshot::channel();
    let subscription = One { wire: Mutex::new(Some(wire)), done: Mutex::new(Some(done)) };
    let retry = ConsumerOptions::default().retry.delays(postroom::Delays::Schedule(vec![Duration::from_millis(1)]));
    let options = ConsumerOptions::default().retry(retry);
    let consumer =
        Consumer::new("billing", store, subscription, Books { tries: AtomicU32::new(0) }).unwrap().options(options);
    consumer.run(async { acked.await.unwrap() }).await;

    let spans = exporter.get_finished_spans().unwrap();
    let named = |name: &str| -> Vec<&SpanData> { spans.iter().filter(|span| span.name == name).collect() };
    let (checkout, processed, booked) = (named("checkout"), named("process billing"), named("book"));
    let [checkout] = checkout.as_slice() else { unreachable!("{spans:?}") };
    assert_eq!((processed.len(), booked.len()), (2, 2), "{spans:?}");
    for (process, book) in processed.iter().zip(&booked) {
        assert_eq!(process.span_kind, SpanKind::Consumer);
        assert_eq!(process.span_context.trace_id(), checkout.span_context.trace_id());
        assert_eq!(process.parent_span_id, checkout.span_context.span_id());
        assert_eq!(process.links[0].span_context.span_id(), checkout.span_context.span_id());
        assert_eq!(book.parent_span_id, process.span_context.span_id(), "what a handler does is part of it");
    }
    assert_eq!((&processed[0].status, &processed[1].status), (&Status::error("books.closed"), &Status::Unset));
    let of_ours = format!("{processed:?}");
    assert!(of_ours.contains(&ready.id) && !of_ours.contains("canary"), "{of_ours}");
}

/// Does nothing, well.
struct Done;

impl Handler<MemoryTx> for Done {
    async fn handle(&self, _: &mut MemoryTx, _: &Message) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test]
async fn acceptances_and_lag_are_counted_through_the_applications_recorder() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    let store = MemoryStore::new();
    let mut tx = store.begin();
    let appended = store.append(&mut tx, &Event::new("order.placed").key("canary")).await.unwrap();
    tx.commit();
    appended.wake();
    let wire = relayed(&store).await;
    for _ in 0..2 {
        let (done, acked) = oneshot::channel();
        let subscription = One { wire: Mutex::new(Some(wire.clone())), done: Mutex::new(Some(done)) };
        let consumer = Consumer::new("books", store.clone(), subscription, Done).unwrap();
        consumer.run(async { acked.await.unwrap() }).await;
    }
    let text = page.render();
    for line in [
        "postroom_inbox_accepts_total{consumer=\"books\",result=\"new\"} 1",
        "postroom_inbox_accepts_total{consumer=\"books\",result=\"duplicate\"} 1",
        "postroom_consumer_lag_seconds_count{consumer=\"books\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("canary"), "{text}");
}
