//! Takes spans to a collector, in batches, at its own pace: whoever makes them never waits for it.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use postroom_core::SecretUrl;
use postroom_tls::TlsFiles;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::span::text;
use crate::config::TelemetryConfig;
use crate::metrics::Counter;

/// Most spans of one request.
const BATCH_MAX: usize = 512;
/// How long the first of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The shortest and the longest pause before a collector that did not take spans is asked again.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Most of an answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Posts spans.
pub(super) struct Exporter {
    client: Client,
    url: SecretUrl,
    headers: HeaderMap,
    resource: Resource,
    dropped: Counter,
    /// Whether it has been told that the collector takes nothing.
    told: bool,
}

/// Why a batch was not taken.
struct Refused {
    why: String,
    /// Whether it may be taken later.
    again: bool,
}

impl Exporter {
    pub(super) fn new(url: &SecretUrl, config: &TelemetryConfig, dropped: Counter) -> Result<Self, String> {
        let mut builder = Client::builder().redirect(Policy::none()).referer(false).timeout(ANSWER);
        builder = if url.scheme() == "https" {
            builder.tls_backend_preconfigured(TlsFiles::default().client().map_err(|error| error.to_string())?)
        } else {
            // The client is made ready for TLS all the same; a machine need not trust anybody for that.
            postroom_tls::install_provider();
            builder.tls_certs_only([])
        };
        let client = builder.build().map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))]);
        for (name, value) in &config.headers {
            let bad = || format!("OTEL_EXPORTER_OTLP_HEADERS: {name:?} cannot be a header with that value");
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        }
        let attributes = vec![
            text("service.name", &config.service),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("telemetry.sdk.language", "rust"),
            text("telemetry.sdk.name", "postroom"),
        ];
        let resource = Resource { attributes, ..Resource::default() };
        Ok(Self { client, url: url.clone(), headers, resource, dropped, told: false })
    }

    /// Until `stop`, and then what is left.
    pub(super) async fn run(mut self, mut waiting: mpsc::Receiver<Span>, stop: CancellationToken) {
        loop {
            let batch = gather(&mut waiting, &stop).await;
            if batch.is_empty() {
                return;
            }
            self.see_through(batch, &stop).await;
        }
    }

    /// Until the batch is taken, or nobody will take it; what comes meanwhile waits in the queue, as far as it goes.
    async fn see_through(&mut self, batch: Vec<Span>, stop: &CancellationToken) {
        let count = batch.len() as u64;
        let body = self.encode(batch);
        let mut pause = PAUSE.0;
        loop {
            let refused = match self.post(body.clone()).await {
                Ok(rejected) => {
                    self.dropped.increment(rejected);
                    if std::mem::take(&mut self.told) {
                        tracing::info!(collector = %self.url, "trace collector accepts spans again");
                    }
                    return;
                }
                Err(refused) => refused,
            };
            if !std::mem::replace(&mut self.told, true) {
                tracing::warn!(collector = %self.url, error = refused.why, "trace collector rejects spans; some traces will be missing");
            }
            if !refused.again || stop.is_cancelled() {
                return self.dropped.increment(count);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    fn encode(&self, spans: Vec<Span>) -> Vec<u8> {
        let (name, version) = ("postroom".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let scope = Some(InstrumentationScope { name, version, ..InstrumentationScope::default() });
        let scope_spans = vec![ScopeSpans { scope, spans, ..ScopeSpans::default() }];
        let resource = Some(self.resource.clone());
        let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    /// How many of them the collector did not want.
    async fn post(&self, body: Vec<u8>) -> Result<u64, Refused> {
        let request = self.client.post(self.url.expose()).headers(self.headers.clone()).body(body);
        let unreached = |error: reqwest::Error| Refused { why: chain(&error.without_url()), again: true };
        let answer = request.send().await.map_err(unreached)?;
        let status = answer.status();
        if !status.is_success() {
            use StatusCode as S;
            let later = [S::TOO_MANY_REQUESTS, S::BAD_GATEWAY, S::SERVICE_UNAVAILABLE, S::GATEWAY_TIMEOUT];
            return Err(Refused { why: format!("it answered {status}"), again: later.contains(&status) });
        }
        if answer.content_length().is_none_or(|length| length > ANSWER_BYTES_MAX) {
            return Ok(0);
        }
        let body = answer.bytes().await.map_err(unreached)?;
        let said = ExportTraceServiceResponse::decode(body).unwrap_or_default().partial_success.unwrap_or_default();
        Ok(u64::try_from(said.rejected_spans).unwrap_or_default())
    }
}

/// The error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Some spans, as soon as there are many or the first has waited long enough; none when that was all.
async fn gather(waiting: &mut mpsc::Receiver<Span>, stop: &CancellationToken) -> Vec<Span> {
    let mut batch = Vec::new();
    tokio::select! {
        _ = waiting.recv_many(&mut batch, BATCH_MAX) => {}
        () = stop.cancelled() => {}
    }
    let enough = tokio::time::Instant::now() + GATHER;
    while batch.len() < BATCH_MAX && !stop.is_cancelled() {
        let room = BATCH_MAX - batch.len();
        tokio::select! {
            more = waiting.recv_many(&mut batch, room) => if more == 0 { return batch },
            () = sleep_until(enough) => return batch,
            () = stop.cancelled() => {}
        }
    }
    while batch.len() < BATCH_MAX
        && let Ok(span) = waiting.try_recv()
    {
        batch.push(span);
    }
    batch
}
