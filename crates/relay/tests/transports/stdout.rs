//! Prints envelopes.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use postroom_conformance::transports::{Arrived, Breakable, Harness, Observed, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, FailureKind, JSON, Transport};
use postroom_relay::Stdout;
use serde_json::value::RawValue;
use tokio::io::AsyncWrite;

#[derive(Default)]
struct Paper {
    text: Vec<u8>,
    pipe: Pipe,
    flushes: usize,
    waiting: Option<Waker>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Pipe {
    #[default]
    Open,
    Full,
    Closed,
    OnFire,
}

/// The reading end of a pipe whose writing end is [`Pen`].
#[derive(Clone, Default)]
struct Reader(Arc<Mutex<Paper>>);

struct Pen(Reader);

impl Reader {
    fn set(&self, pipe: Pipe) {
        let mut paper = self.0.lock().expect("no panic");
        paper.pipe = pipe;
        if let Some(waker) = paper.waiting.take() {
            waker.wake();
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").text.clone()).expect("it is text")
    }

    fn stdout(&self, format: Format) -> Stdout<Pen> {
        Stdout::to_writer(Encoder::new(format, Binding::Http, "/postroom/test"), Pen(self.clone()))
    }

    fn post(&self, format: Format) -> Post {
        Post::new(Arc::new(self.stdout(format)))
    }
}

impl AsyncWrite for Pen {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut paper = self.0.0.lock().expect("no panic");
        match paper.pipe {
            Pipe::Open => {
                // Small writes, so that a line takes several.
                let part = &bytes[..bytes.len().min(64 * 1024)];
                paper.text.extend_from_slice(part);
                Poll::Ready(Ok(part.len()))
            }
            Pipe::Full => {
                paper.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            Pipe::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Pipe::OnFire => Poll::Ready(Err(io::Error::other("on fire"))),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.0.lock().expect("no panic").flushes += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl Harness for Reader {
    async fn start(_: Duration) -> Self {
        Self::default()
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.stdout(Format::CloudEventsStructured))
    }

    async fn running(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

#[async_trait]
impl Observed for Reader {
    async fn arrived(&self) -> Vec<Arrived> {
        let text = self.text();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let parse = |line: &str| {
            let fields: HashMap<String, Box<RawValue>> = serde_json::from_str(line).expect("a line is an envelope");
            let word = |name: &str| serde_json::from_str::<String>(fields[name].get()).expect("it is a string");
            Arrived { id: word("id"), event_type: word("type"), payload: fields["data"].get().to_owned() }
        };
        lines.map(parse).collect()
    }
}

#[async_trait]
impl Breakable for Reader {
    async fn stop(&self) {
        self.set(Pipe::Closed);
    }

    async fn resume(&self) {
        self.set(Pipe::Open);
    }
}

postroom_conformance::transport_suite!(Reader: reports, arrives, goes_down);

#[tokio::test]
async fn a_batch_is_one_line_per_event_and_one_flush() {
    let reader = Reader::default();
    let mut post = reader.post(Format::CloudEventsStructured);
    post.deliver(&[Event::new("a"), Event::new("b"), Event::new("c")]).await;
    assert_eq!(post.outcomes().await.len(), 3);
    assert_eq!(reader.text().lines().count(), 3);
    assert_eq!(reader.0.lock().unwrap().flushes, 1);
}

#[tokio::test]
async fn a_closed_pipe_and_a_broken_one_are_told_apart() {
    let reader = Reader::default();
    let mut post = reader.post(Format::CloudEventsStructured);
    for (pipe, code) in [(Pipe::Closed, "stdout.closed"), (Pipe::OnFire, "stdout.failed")] {
        reader.set(pipe);
        post.deliver(&[Event::new("a")]).await;
        let failure = post.outcome().await.1.unwrap_err();
        assert_eq!((failure.kind, &*failure.code), (FailureKind::Unavailable, code));
    }
}

#[tokio::test]
async fn a_reader_who_pauses_does_not_hold_up_the_hand_over() {
    let reader = Reader::default();
    let mut post = reader.post(Format::CloudEventsStructured);
    reader.set(Pipe::Full);
    post.deliver(&[Event::new("a")]).await;
    post.deliver(&[Event::new("b")]).await;
    assert!(post.is_silent());
    reader.set(Pipe::Open);
    assert!(post.outcomes().await.values().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_close_does_not_wait_for_a_paused_reader_for_ever_and_costs_no_attempt() {
    let reader = Reader::default();
    let mut post = reader.post(Format::CloudEventsStructured);
    reader.set(Pipe::Full);
    post.deliver(&[Event::new("a").id("1")]).await;
    post.deliver(&[Event::new("b").id("2")]).await;
    let outcomes = post.close().await;
    for id in ["1", "2"] {
        assert_eq!(outcomes[id].as_ref().unwrap_err().kind, FailureKind::Unavailable);
    }
}

#[tokio::test]
async fn an_envelope_that_is_not_json_is_refused_without_quoting_it() {
    let reader = Reader::default();
    let mut post = reader.post(Format::Raw);
    post.deliver(&[Event::new("a").id("text").bytes("text/plain", "two\nlines"), Event::new("b").bytes(JSON, "{}")])
        .await;
    let outcomes = post.outcomes().await;
    let failure = outcomes["text"].as_ref().unwrap_err();
    assert_eq!((failure.kind, &*failure.code), (FailureKind::Permanent, "stdout.not_json"));
    assert!(!failure.error.contains("lines"));
    assert_eq!(reader.text(), "{}\n");
}
