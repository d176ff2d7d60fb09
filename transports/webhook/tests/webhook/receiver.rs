//! A receiver on loopback that verifies, keeps what it gets and answers as it is told; and transports to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::Listener;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use postroom_conformance::changed;
use postroom_conformance::transports::{Arrived, Behaviour, Post};
use postroom_core::envelope::{Binding, Encoder, Format};
use postroom_core::{Event, Failure, JSON};
use postroom_webhook::signature::{self, Signed, SigningKey, VerifyingKey};
use postroom_webhook::{Webhook, WebhookOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

/// What both sides have in these tests.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Time enough for everything that is expected to be answered.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("it is ASCII"))
    }

    fn arrived(&self) -> Arrived {
        let decoded = |name| percent_encoding::percent_decode_str(self.header(name)).decode_utf8_lossy().into_owned();
        let payload = String::from_utf8(self.body.to_vec()).expect("it is text");
        Arrived { id: decoded("ce-id"), event_type: decoded("ce-type"), payload }
    }
}

/// How an event is answered.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// With this status, header and body.
    Answer(StatusCode, Vec<(&'static str, String)>, &'static str),
    /// When there is another rule for it.
    Hold,
    /// Never.
    Ignore,
}

impl Rule {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(StatusCode::from_u16(status).expect("a status"), Vec::new(), "")
    }
}

impl From<Behaviour> for Rule {
    fn from(behaviour: Behaviour) -> Self {
        match behaviour {
            Behaviour::Accept => Self::status(204),
            Behaviour::RefuseForNow => Self::status(500),
            Behaviour::RefuseForGood => Self::status(422),
            Behaviour::Hold => Self::Hold,
            Behaviour::Ignore => Self::Ignore,
        }
    }
}

/// The receiver; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    keys: Vec<VerifyingKey>,
    got: Mutex<Vec<Got>>,
    rules: watch::Sender<HashMap<String, Rule>>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        Self::on(port, listener)
    }

    /// One that takes its connections from this listener.
    pub(crate) fn on<L>(port: u16, listener: L) -> Self
    where
        L: Listener,
        L::Addr: std::fmt::Debug,
    {
        let keys = vec![VerifyingKey::parse(SECRET).expect("a secret")];
        let shared = Arc::new(Shared { keys, got: Mutex::default(), rules: watch::Sender::default() });
        let router = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { port, shared, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn rule(&self, id: &str, rule: Rule) {
        self.shared.rules.send_modify(|rules| {
            rules.insert(id.to_owned(), rule);
        });
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.shared.got.lock().expect("no panic").clone()
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.got().iter().map(Got::arrived).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a whole body");
    let got = Got { headers: parts.headers, body };
    let (id, timestamp, signature) =
        (got.header(signature::ID), got.header(signature::TIMESTAMP), got.header(signature::SIGNATURE));
    let verified = signature::verify(&shared.keys, Signed { id, timestamp, signature }, &got.body, Timestamp::now());
    let id = id.to_owned();
    shared.got.lock().expect("no panic").push(got);
    if let Err(error) = verified {
        return answer(StatusCode::UNAUTHORIZED, &[], &error.to_string());
    }
    let mut rules = shared.rules.subscribe();
    loop {
        let rule = rules.borrow_and_update().get(&id).cloned().unwrap_or(Rule::status(204));
        match rule {
            Rule::Answer(status, headers, body) => return answer(status, &headers, body),
            Rule::Ignore => std::future::pending().await,
            Rule::Hold => rules.changed().await.expect("the receiver is there"),
        }
    }
}

fn answer(status: StatusCode, headers: &[(&'static str, String)], body: &str) -> Response {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body.to_owned())).expect("a response")
}

/// Options for a receiver on loopback, which only a test allows.
pub(crate) fn options(url: &str, timeout: Duration) -> WebhookOptions {
    changed(WebhookOptions::new(Url::parse(url).expect("a URL")), |o| {
        o.keys = vec![SigningKey::parse(SECRET).expect("a secret")];
        o.https_only = false;
        o.allow_networks = vec!["127.0.0.0/8".parse().expect("a network")];
        o.connect_timeout = timeout;
        o.first_byte_timeout = timeout;
        o.timeout = timeout;
        o.event_headers = vec!["x-shop".to_owned()];
    })
}

pub(crate) fn http(port: u16, timeout: Duration) -> WebhookOptions {
    options(&format!("http://127.0.0.1:{port}/hook"), timeout)
}

pub(crate) fn webhook(options: WebhookOptions) -> Webhook {
    let encoder = Encoder::new(Format::CloudEventsBinary, Binding::Http, "/postroom/test");
    Webhook::new("partners", options, encoder)
}

pub(crate) fn post(options: WebhookOptions) -> Post {
    Post::new(Arc::new(webhook(options)))
}

pub(crate) fn event(id: &str) -> Event {
    Event::new("parcel.sent").id(id).bytes(JSON, r#"{"secret":"canary"}"#)
}

/// Delivers one event, which must fail.
pub(crate) async fn failure(post: &mut Post, id: &str) -> Failure {
    post.deliver(&[event(id)]).await;
    post.outcome().await.1.expect_err("it fails")
}
