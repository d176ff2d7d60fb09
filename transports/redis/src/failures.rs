//! Every answer and every error of the client as an outcome: kind, stable code, one line for people.
//!
//! | code | kind | |
//! | --- | --- | --- |
//! | `redis.unreachable` | unavailable | the server does not answer: refused, DNS, silence |
//! | `redis.tls` | unavailable | certificates do not fit, on either side |
//! | `redis.login` | unavailable | the server does not take user and password, or wants some |
//! | `redis.permission` | unavailable | the user may not write there |
//! | `redis.wrong_type` | unavailable | the key is something else than a stream |
//! | `redis.out_of_memory` | unavailable | `maxmemory` is reached |
//! | `redis.misconf` | unavailable | the server cannot write to its disk and takes no writes |
//! | `redis.read_only` | unavailable | the server is a replica; the connection is given up |
//! | `redis.loading`, `redis.busy` | unavailable | the server reads its data, or runs a script |
//! | `redis.cluster` | unavailable | the stream lives on another node of a cluster, or the cluster is down |
//! | `redis.replicas` | unavailable | too few replicas have it |
//! | `redis.timeout` | unavailable | an answer did not come in time |
//! | `redis.disconnected` | unavailable | the connection was lost |
//! | `redis.closed` | unavailable | the transport is closed |
//! | `redis.refused` | transient, unavailable if it concerns every event | anything else the server says |
//! | `redis.too_large` | permanent | over `proto-max-bulk-len` |

use std::fmt::Display;
use std::io;
use std::time::Duration;

use postroom_core::{Failure, Outcome, Receipt, units};
use redis::{ErrorKind, RedisError, ServerError, Value};

/// What an answer to `XADD` means.
pub(crate) fn outcome(answer: &Value, stream: &str) -> Outcome {
    let id = match answer {
        Value::BulkString(id) => str::from_utf8(id).ok(),
        Value::SimpleString(id) => Some(id.as_str()),
        Value::ServerError(error) => return Err(refused(error, stream)),
        _ => None,
    };
    match id {
        Some(id) => Ok(Receipt::at([stream, "@", id].concat())),
        None => {
            Err(Failure::unavailable("redis.refused", format!("stream {stream}: XADD was not answered with an id")))
        }
    }
}

/// What the server says instead of an answer.
pub(crate) fn refused(error: &ServerError, stream: &str) -> Failure {
    refused_at(error, &format!("stream {stream}"), "+xadd on the stream's key")
}

/// The same of any key; `rights` is what the user needs there.
pub(crate) fn refused_at(error: &ServerError, place: &str, rights: &str) -> Failure {
    let (code, details) = (error.code(), error.details().unwrap_or_default());
    let said = |next: &str| format!("{place}: {code} {details}{next}");
    match code {
        "OOM" => Failure::unavailable("redis.out_of_memory", said("")),
        "MISCONF" => Failure::unavailable("redis.misconf", said("")),
        "READONLY" | "MASTERDOWN" => Failure::unavailable("redis.read_only", said(" (give the URL of the primary)")),
        "LOADING" => Failure::unavailable("redis.loading", said("")),
        "BUSY" => Failure::unavailable("redis.busy", said("")),
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" | "TRYAGAIN" => {
            Failure::unavailable("redis.cluster", said(" (the URL must be of the node that has the key's slot)"))
        }
        "NOREPLICAS" => Failure::unavailable("redis.replicas", said("")),
        "NOPERM" => Failure::unavailable("redis.permission", said(&format!(" (allow the user {rights})"))),
        "NOAUTH" | "WRONGPASS" => Failure::unavailable("redis.login", said("")),
        "WRONGTYPE" => Failure::unavailable("redis.wrong_type", said(" (choose another name, or remove the key)")),
        _ if details.contains("invalid bulk length") => Failure::permanent("redis.too_large", said("")),
        _ if details.contains("unknown command") => Failure::unavailable("redis.refused", said("")),
        _ => Failure::transient("redis.refused", said("")),
    }
}

/// Why the first words after connecting failed.
pub(crate) fn setup(error: &RedisError, server: &str, private: bool) -> Failure {
    match error.kind() {
        ErrorKind::AuthenticationFailed => login(server, error),
        ErrorKind::Server(_) | ErrorKind::Extension if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
            login(server, error)
        }
        // With TLS 1.3 a server refuses a client's certificate only now, by hanging up.
        ErrorKind::Io if private => tls(server, &format!("{error}; it may want a certificate of ours")),
        ErrorKind::Io => unreachable(server, error),
        _ => Failure::unavailable("redis.refused", format!("{server}: {error}")),
    }
}

/// Why a connection that was there gives no more answers.
pub(crate) fn lost(error: &RedisError, server: &str) -> Failure {
    Failure::unavailable("redis.disconnected", format!("the connection to {server} was lost: {error}"))
}

fn login(server: &str, error: &RedisError) -> Failure {
    let said = error.detail().unwrap_or("it takes neither user nor password");
    Failure::unavailable("redis.login", format!("{server} does not let us in: {said}"))
}

pub(crate) fn unreachable(server: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("redis.unreachable", format!("{server} cannot be reached: {why}"))
}

pub(crate) fn tls(server: &str, why: &dyn Display) -> Failure {
    Failure::unavailable("redis.tls", format!("{server} cannot be talked to in private: {why}"))
}

/// Why a handshake failed.
pub(crate) fn handshake(error: &io::Error, server: &str) -> Failure {
    let fault = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>);
    // A server that does not speak TLS may also just hang up.
    if fault || error.kind() == io::ErrorKind::UnexpectedEof { tls(server, error) } else { unreachable(server, error) }
}

pub(crate) fn replicas(wanted: u32, have: i64) -> Failure {
    let error = format!("{have} of the {wanted} replicas that `wait_replicas` asks for have it");
    Failure::unavailable("redis.replicas", error)
}

pub(crate) fn timeout(server: &str, id: &str, after: Duration) -> Failure {
    let after = units::format_duration(after);
    Failure::unavailable("redis.timeout", format!("{server} did not answer event {id} within {after}"))
}

pub(crate) fn too_large(id: &str, bytes: usize, max: usize) -> Failure {
    let error = format!("event {id} has a field of {bytes} bytes; the server takes {max} (proto-max-bulk-len)");
    Failure::permanent("redis.too_large", error)
}

pub(crate) fn closed() -> Failure {
    Failure::unavailable("redis.closed", "the transport is closed; the event is sent again by the next relay")
}
