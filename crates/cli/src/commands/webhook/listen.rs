//! `postroom webhook listen`: a receiver on this machine that checks signatures, shows what comes and misbehaves on demand.
//!
//! Listens on loopback only. What it shows of a request is its head; the body only when asked to.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use postroom_core::units::parse_duration;
use postroom_webhook::signature::{self, Signed, VerifyError, VerifyingKey};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::secrets::Secrets;
use crate::app::App;
use crate::exit::{Exit, Failed, Outcome};
use crate::options::help;
use crate::output::{Format, count, note, plain};
use crate::{stop, when};

/// Largest request body that is accepted.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Number of ids remembered to detect repeats; at the limit all of them are dropped.
const IDS_MAX: usize = 100_000;
/// Longest id or type that is printed, in characters.
const SHOWN_MAX: usize = 72;

/// Receive webhooks on this machine and print one line per request
#[derive(Debug, clap::Args)]
#[command(after_help = help!(listen:
    "postroom webhook listen --secret-file partner-whsec",
    "postroom webhook listen --port 0 --fail 30% --status 503 --retry-after 5s",
    "postroom webhook listen --count 3 --show-body -o jsonl",
))]
pub(crate) struct ListenArgs {
    /// Port on 127.0.0.1; 0 picks a free port and prints it
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    #[command(flatten)]
    secrets: Secrets,
    /// Share of requests that fail, chosen at random [default: 0%, with --status 100%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    fail: Option<f64>,
    /// HTTP status of requests that fail [default: 503]
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<StatusCode>,
    /// Retry-After header of requests that fail, in whole seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_after: Option<Duration>,
    /// Delay before every response
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Exit after one request
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Exit after N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print the request body, too
    #[arg(long)]
    show_body: bool,
}

fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("{text:?} is not a share; write for instance 30%"))
}

fn status(text: &str) -> Result<StatusCode, String> {
    let status = text.parse::<u16>().ok().filter(|status| (200..=599).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    status.ok_or_else(|| format!("{text:?} is not a status; write a number from 200 to 599"))
}

/// Settings that apply to every request.
struct Receiver {
    format: Format,
    keys: Vec<VerifyingKey>,
    fail: f64,
    status: StatusCode,
    retry_after: Option<Duration>,
    delay: Duration,
    show_body: bool,
    seen: Mutex<Received>,
    end: CancellationToken,
}

/// Requests received so far.
#[derive(Default)]
struct Received {
    // How often, and whether it was answered with a yes.
    ids: HashMap<String, (u32, bool)>,
    // Requests until the end, if there is one.
    left: Option<u64>,
    // Why the output cannot be written any more.
    broken: Option<io::Error>,
}

/// A request as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    at: Timestamp,
    id: String,
    #[serde(rename = "type")]
    event_type: String,
    /// Whether the type stands in a body whose signature is valid. A header can be changed on the way.
    type_signed: bool,
    /// Number of requests with this id, this one included.
    times: u32,
    /// Whether an earlier request with this id was accepted.
    duplicate: bool,
    signature: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    bytes: usize,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

pub(crate) async fn run(app: &App, args: ListenArgs) -> Outcome {
    let keys = args.secrets.keys(VerifyingKey::parse)?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await.map_err(|error| taken(args.port, &error))?;
    let checking = match keys.len() as u64 {
        0 => "signatures are not checked: no secret was given".to_owned(),
        keys => format!("signatures are checked with {}", count(keys, "secret")),
    };
    let address = listener.local_addr()?;
    note(&format!("listening on http://{address}; {checking}; Ctrl-C ends"))?;
    let end = stop::on_signal()?;
    let receiver = Arc::new(Receiver {
        format: app.global.output,
        keys,
        fail: args.fail.unwrap_or(if args.status.is_some() { 1.0 } else { 0.0 }),
        status: args.status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        retry_after: args.retry_after,
        delay: args.delay.unwrap_or_default(),
        show_body: args.show_body,
        seen: Mutex::new(Received { left: if args.once { Some(1) } else { args.count }, ..Received::default() }),
        end: end.clone(),
    });
    let router =
        Router::new().fallback(receive).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(Arc::clone(&receiver));
    axum::serve(listener, router).with_graceful_shutdown(end.cancelled_owned()).await?;
    match receiver.seen().broken.take() {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Done),
    }
}

fn taken(port: u16, error: &io::Error) -> Failed {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "choose another with --port, or --port 0 for any that is free",
        io::ErrorKind::PermissionDenied => "choose one from 1024 with --port",
        _ => "",
    };
    Failed::new(Exit::Failed, format!("cannot listen on port {port} of 127.0.0.1: {error}"), hint)
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> Response {
    receiver.receive(&headers, &body).await
}

impl Receiver {
    async fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Response {
        let at = Timestamp::now();
        let (signature, reason) = self.verified(headers, body, at);
        let refused = !matches!(signature, "ok" | "unchecked") && !self.keys.is_empty();
        let fails = !refused && fastrand::f64() < self.fail;
        let status = match (refused, fails) {
            (true, _) => StatusCode::UNAUTHORIZED,
            (false, true) => self.status,
            (false, false) => StatusCode::NO_CONTENT,
        };
        tokio::time::sleep(self.delay).await;
        let id = text(headers, signature::ID);
        let (times, duplicate) = self.seen().note(&id, status.is_success());
        let in_body = body_type(&id, body);
        let row = Row {
            at,
            type_signed: in_body.is_some() && signature == "ok",
            event_type: in_body.unwrap_or_else(|| header_type(headers)),
            id,
            times,
            duplicate,
            signature,
            reason: reason.clone(),
            bytes: body.len(),
            status: status.as_u16(),
            body: self.show_body.then(|| String::from_utf8_lossy(body).into_owned()),
        };
        self.print(&row);
        let mut response = Response::builder().status(status);
        if let (true, Some(wait)) = (fails, self.retry_after) {
            response = response.header(header::RETRY_AFTER, wait.as_secs());
        }
        let said = reason.unwrap_or_default();
        response.body(Body::from(said)).unwrap_or_default()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Received> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, row: &Row) {
        let printed = self.format.stream(row, || row.line());
        let mut seen = self.seen();
        seen.left = seen.left.map(|left| left.saturating_sub(1));
        if let Err(error) = printed {
            seen.broken = Some(error);
            self.end.cancel();
        }
        if seen.left == Some(0) {
            self.end.cancel();
        }
    }

    /// Checks the signature and returns the word for the result, with the reason if it is not valid.
    fn verified(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> (&'static str, Option<String>) {
        let of = |name| text(headers, name);
        let (id, timestamp, signature) = (of(signature::ID), of(signature::TIMESTAMP), of(signature::SIGNATURE));
        if self.keys.is_empty() {
            return (if signature.is_empty() { "none" } else { "unchecked" }, None);
        }
        let signed = Signed { id: &id, timestamp: &timestamp, signature: &signature };
        match signature::verify(&self.keys, signed, body, now) {
            Ok(()) => ("ok", None),
            Err(error @ VerifyError::Missing(signature::SIGNATURE)) => ("none", Some(error.to_string())),
            Err(error @ (VerifyError::TooOld(_) | VerifyError::TooNew(_))) => ("late", Some(error.to_string())),
            Err(error) => ("wrong", Some(error.to_string())),
        }
    }
}

impl Received {
    /// Counts the requests with this id, and tells whether one was accepted before.
    fn note(&mut self, id: &str, taken: bool) -> (u32, bool) {
        if self.ids.len() >= IDS_MAX {
            self.ids.clear();
        }
        let (times, before) = self.ids.entry(id.to_owned()).or_default();
        *times += 1;
        let duplicate = *before;
        *before |= taken;
        (*times, duplicate)
    }
}

impl Row {
    fn line(&self) -> String {
        let again = match (self.duplicate, self.times) {
            (true, times) => format!("  duplicate (time {times})"),
            (false, 1) => String::new(),
            (false, times) => format!("  time {times}"),
        };
        let reason = self.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let unsigned = self.signature == "ok" && !self.type_signed && !self.event_type.is_empty();
        let mut line = format!(
            "{}  {}  {}{}  {} bytes  signature {}{reason}{again}  → {}",
            when::clock(self.at),
            shown(&self.id),
            shown(&self.event_type),
            if unsigned { " (unsigned header)" } else { "" },
            self.bytes,
            self.signature,
            self.status,
        );
        if let Some(body) = &self.body {
            line.push('\n');
            line.push_str(&plain(body, usize::MAX));
        }
        line
    }
}

fn shown(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { plain(text, SHOWN_MAX) }
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

/// Returns the event type of a body that is the whole envelope of this event.
fn body_type(id: &str, body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let of = |name: &str| body.get(name)?.as_str();
    let decoded = percent_encoding::percent_decode_str(id).decode_utf8_lossy();
    (of("specversion").is_some() && of("id") == Some(&*decoded)).then(|| of("type").map(str::to_owned)).flatten()
}

/// Returns the event type that the headers claim.
fn header_type(headers: &HeaderMap) -> String {
    let header = ["ce-type", "postroom-type"].iter().map(|name| text(headers, name)).find(|text| !text.is_empty());
    percent_encoding::percent_decode_str(&header.unwrap_or_default()).decode_utf8_lossy().into_owned()
}
