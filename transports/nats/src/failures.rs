//! Every answer and every error of the client as an outcome: kind, stable code, one line for people.
//!
//! | code | kind | |
//! | --- | --- | --- |
//! | `nats.unreachable` | unavailable | no server answers: refused, DNS, silence |
//! | `nats.tls` | unavailable | certificates do not fit, on either side |
//! | `nats.login` | unavailable | the server does not take the login, or the login cannot be read |
//! | `nats.permission` | unavailable | the user may not publish there, or not look the stream up |
//! | `nats.no_jetstream` | unavailable | the server or the account has no JetStream |
//! | `nats.no_stream` | unavailable | the stream is not there, or takes no such subject |
//! | `nats.wrong_stream` | unavailable | another stream takes the subject, or this one cannot acknowledge |
//! | `nats.create` | unavailable | the stream cannot be made |
//! | `nats.stream_full` | unavailable, transient for one subject | the stream refuses what is new |
//! | `nats.timeout` | unavailable | an acknowledgement did not come in time |
//! | `nats.disconnected` | unavailable | the connection was lost |
//! | `nats.lame_duck` | unavailable | the server is about to stop |
//! | `nats.closed` | unavailable | the transport is closed |
//! | `nats.refused` | unavailable or transient | anything else the server says |
//! | `nats.core` | – | no failure: what the receipt and the log say of core NATS |
//! | `nats.too_large` | permanent | over `max_payload` or `max_msg_size` |
//! | `nats.subject`, `nats.header` | permanent | see [`crate::message`] |

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::time::Duration;

use async_nats::error::Error as NatsError;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, RequestError, RequestErrorKind,
};
use async_nats::{ClientError, ConnectError, ConnectErrorKind, Event, ServerError, StatusCode, rustls};
use postroom_core::{Failure, Outcome, Receipt, units};
use serde::Deserialize;

/// What JetStream answers to a message.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    stream: &'a str,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: u16,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Delivered as far as core NATS can tell.
pub(crate) const CORE: &str = "nats.core";

/// What it means that a server of core NATS has taken an event.
pub(crate) fn taken(server: &str) -> Receipt {
    Receipt::at(format!("taken by {server}, not acknowledged (core NATS)")).code(CORE)
}

/// What an answer to a message of this subject means. `None` when it is no answer of a stream: a mere subscriber to the
/// subject may answer whatever it likes.
pub(crate) fn outcome(answer: &async_nats::Message, stream: Option<&str>) -> Option<Outcome> {
    if let Some(status) = answer.status {
        let nobody = "no stream takes the subject of this event; give one that subject";
        return (status == StatusCode::NO_RESPONDERS).then(|| Err(no_stream(stream.unwrap_or("of any name"), nobody)));
    }
    let answer: Answer<'_> = serde_json::from_slice(&answer.payload).ok()?;
    match (answer.error, stream) {
        (Some(refusal), _) => Some(Err(refusal.failure(stream.unwrap_or(answer.stream)))),
        _ if answer.stream.is_empty() || answer.seq == 0 => None,
        (None, Some(stream)) if answer.stream != stream => Some(Err(wrong_stream(stream, answer.stream))),
        (None, _) => {
            let again = if answer.duplicate { " (duplicate)" } else { "" };
            Some(Ok(Receipt::at(format!("{}@{}{again}", answer.stream, answer.seq))))
        }
    }
}

impl Refusal {
    fn failure(self, stream: &str) -> Failure {
        let Self { code, err_code, description } = self;
        let error = format!("stream {stream}: {description} ({err_code})");
        match err_code {
            // Too large for the stream, and headers over 64 KiB.
            10054 | 10097 => Failure::permanent("nats.too_large", error),
            10060 => wrong_stream(stream, "another one"),
            // What the storage says. One subject that is full concerns its events; a full stream concerns everybody,
            // and must not make dead letters while somebody makes room.
            10077 if description.contains("per subject") => Failure::transient("nats.stream_full", error),
            10002 | 10023 | 10028 | 10047 | 10077 => Failure::unavailable("nats.stream_full", error),
            10039 | 10076 => Failure::unavailable("nats.no_jetstream", error),
            _ if code >= 500 => Failure::unavailable("nats.refused", error),
            _ => Failure::transient("nats.refused", error),
        }
    }
}

/// Why a client's event ends its connection; `None` when it does not.
pub(crate) fn ending(event: &Event, server: &str) -> Option<Failure> {
    Some(match event {
        Event::Disconnected | Event::Closed | Event::ClientError(ClientError::MaxReconnects) => disconnected(server),
        Event::LameDuckMode => {
            Failure::unavailable("nats.lame_duck", format!("{server} is about to stop and takes nothing new"))
        }
        Event::ServerError(ServerError::AuthorizationViolation) => login(server, &"authorization violation"),
        Event::ServerError(ServerError::Other(said)) => {
            let lower = said.to_lowercase();
            let error = || format!("{server} says: {said}");
            if lower.contains("permissions violation") {
                Failure::unavailable("nats.permission", error())
            } else if lower.contains("authentication") || lower.contains("authorization") {
                login(server, said)
            } else {
                Failure::unavailable("nats.disconnected", error())
            }
        }
        _ => return None,
    })
}

/// Why a connection could not be made.
pub(crate) fn connect(error: &ConnectError, server: &str) -> Failure {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => login(server, &cause(error)),
        ConnectErrorKind::Tls => tls(server, &cause(error)),
        _ if is_tls(error) => tls(server, &cause(error)),
        // A server that logs somebody out says why in its own words, which the client passes on as any other error.
        ConnectErrorKind::Io if cause(error).to_lowercase().contains("auth") => login(server, &cause(error)),
        _ => unreachable(server, &cause(error)),
    }
}

/// Why the consumers of a stream could not be listed.
pub(crate) fn consumers(error: &dyn Error, server: &str) -> Failure {
    Failure::unavailable("nats.refused", format!("{server} does not list the consumers of the stream: {error}"))
}

/// Why the stream could not be looked up.
pub(crate) fn look_up(error: &GetStreamError, server: &str, stream: &str) -> Failure {
    match error.kind() {
        GetStreamErrorKind::JetStream(said) => match said.error_code() {
            ErrorCode::STREAM_NOT_FOUND => no_stream(stream, "it does not exist; create it, or let `create` do it"),
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => no_jetstream(server),
            _ => Failure::unavailable("nats.refused", format!("{server}, asked for stream {stream}: {said}")),
        },
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => {
            no_stream(stream, "that cannot be the name of a stream")
        }
        GetStreamErrorKind::Request => match error.source().and_then(|e| e.downcast_ref::<RequestError>()) {
            Some(request) if request.kind() == RequestErrorKind::NoResponders => no_jetstream(server),
            _ => unreachable(server, &format!("stream {stream} cannot be looked up: {}", cause(error))),
        },
    }
}

/// Why the stream could not be made.
pub(crate) fn create(error: &CreateStreamError, server: &str, stream: &str) -> Failure {
    match error.kind() {
        CreateStreamErrorKind::JetStreamUnavailable => no_jetstream(server),
        kind => Failure::unavailable("nats.create", format!("stream {stream} cannot be created: {kind}")),
    }
}

pub(crate) fn no_stream(stream: &str, why: &str) -> Failure {
    Failure::unavailable("nats.no_stream", format!("stream {stream}: {why}"))
}

pub(crate) fn wrong_stream(stream: &str, other: &str) -> Failure {
    let error =
        format!("the subject of this event belongs to {other}, not to stream {stream}; correct `subject` or `stream`");
    Failure::unavailable("nats.wrong_stream", error)
}

pub(crate) fn never_acks(stream: &str) -> Failure {
    let error = format!("stream {stream} has `no_ack` set and never says that it has taken an event; unset it");
    Failure::unavailable("nats.wrong_stream", error)
}

fn no_jetstream(server: &str) -> Failure {
    Failure::unavailable("nats.no_jetstream", format!("{server} has no JetStream for this account; enable it"))
}

pub(crate) fn unreachable(server: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("nats.unreachable", format!("{server} cannot be reached: {why}"))
}

fn login(server: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("nats.login", format!("{server} does not let us in: {why}"))
}

pub(crate) fn tls(server: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("nats.tls", format!("{server} cannot be talked to in private: {why}"))
}

/// A login that cannot even be tried.
pub(crate) fn credentials(what: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("nats.login", format!("{what} cannot be used to log in: {why}"))
}

pub(crate) fn disconnected(server: &str) -> Failure {
    Failure::unavailable("nats.disconnected", format!("the connection to {server} was lost"))
}

pub(crate) fn timeout(server: &str, id: &str, after: Duration) -> Failure {
    let after = units::format_duration(after);
    Failure::unavailable("nats.timeout", format!("{server} did not acknowledge event {id} within {after}"))
}

pub(crate) fn too_large(id: &str, bytes: usize, max: usize) -> Failure {
    let error =
        format!("event {id} is {bytes} bytes without its headers; the server takes {max} with them (max_payload)");
    Failure::permanent("nats.too_large", error)
}

pub(crate) fn closed() -> Failure {
    Failure::unavailable("nats.closed", "the transport is closed; the event is sent again by the next relay")
}

/// The innermost words of an error; the outer ones of this client say only "IO error".
fn cause<K: Clone + std::fmt::Debug + Display + PartialEq>(error: &NatsError<K>) -> String {
    let mut last: &dyn Error = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

fn is_tls(error: &ConnectError) -> bool {
    let io = error.source().and_then(|e| e.downcast_ref::<io::Error>());
    io.and_then(io::Error::get_ref).is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

#[cfg(test)]
mod tests {
    use async_nats::Message;
    use postroom_core::FailureKind::{Permanent, Transient, Unavailable};
    use postroom_core::{FailureKind, JSON};

    use super::*;

    fn said(payload: &str, status: Option<StatusCode>) -> Option<Result<String, (FailureKind, String)>> {
        let payload = payload.to_owned().into();
        let message =
            Message { subject: JSON.into(), reply: None, payload, headers: None, status, description: None, length: 0 };
        outcome(&message, Some("ORDERS")).map(|outcome| match outcome {
            Ok(receipt) => Ok(receipt.place.unwrap().into()),
            Err(failure) => Err((failure.kind, failure.code.into_owned())),
        })
    }

    #[test]
    fn only_an_acknowledgement_of_the_right_stream_is_a_success() {
        let ok = |receipt: &str| Some(Ok(receipt.to_owned()));
        assert_eq!(said(r#"{"stream":"ORDERS","seq":7}"#, None), ok("ORDERS@7"));
        assert_eq!(
            said(r#"{"stream":"ORDERS","seq":7,"duplicate":true,"domain":"hub"}"#, None),
            ok("ORDERS@7 (duplicate)")
        );
        let other = Some(Err((Unavailable, "nats.wrong_stream".to_owned())));
        assert_eq!(said(r#"{"stream":"OTHER","seq":7}"#, None), other);
        for rubbish in
            ["", "+OK", "{}", "null", r#"{"stream":"ORDERS"}"#, r#"{"seq":7}"#, r#"{"stream":"ORDERS","seq":0}"#]
        {
            assert_eq!(said(rubbish, None), None, "{rubbish}");
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        for (code, err_code, description, kind, word) in [
            (400, 10054, "message size exceeds maximum allowed", Permanent, "nats.too_large"),
            (400, 10097, "header size exceeds maximum allowed of 64k", Permanent, "nats.too_large"),
            (400, 10060, "expected stream does not match", Unavailable, "nats.wrong_stream"),
            (503, 10077, "maximum messages exceeded", Unavailable, "nats.stream_full"),
            (503, 10077, "maximum messages per subject exceeded", Transient, "nats.stream_full"),
            (400, 10002, "resource limits exceeded for account", Unavailable, "nats.stream_full"),
            (503, 10039, "jetstream not enabled for account", Unavailable, "nats.no_jetstream"),
            (503, 10008, "jetstream system temporarily unavailable", Unavailable, "nats.refused"),
            (400, 10999, "something new", Transient, "nats.refused"),
        ] {
            let text = format!(
                r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"{description}"}},"stream":"ORDERS","seq":0}}"#
            );
            assert_eq!(said(&text, None), Some(Err((kind, word.to_owned()))), "{text}");
        }
        let nobody = Some(Err((Unavailable, "nats.no_stream".to_owned())));
        assert_eq!(said("", Some(StatusCode::NO_RESPONDERS)), nobody);
    }

    #[test]
    fn what_the_server_says_by_the_way_ends_the_connection_with_a_code() {
        let code = |said: &str| ending(&Event::ServerError(ServerError::Other(said.to_owned())), "s").map(|f| f.code);
        assert_eq!(code("Permissions Violation for Publish to \"x\"").as_deref(), Some("nats.permission"));
        assert_eq!(code("User Authentication Expired").as_deref(), Some("nats.login"));
        assert_eq!(code("Maximum Connections Exceeded").as_deref(), Some("nats.disconnected"));
        assert!(ending(&Event::Connected, "s").is_none());
    }
}
