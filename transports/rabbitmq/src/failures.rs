//! Every answer and every end of a connection as a failure: kind, code and one line. Nothing here knows a password.

use std::time::Duration;

use postroom_core::{Failure, FailureKind, units};

use crate::address::Address;
use crate::connection::Ending;
use crate::options::{OptionsError, Unroutable};
use crate::topology::pattern::{PATTERN_BINDINGS_MAX, TooManyBindings};
use crate::topology::setup::NotInPlace;
use crate::wire::decode::Closing;

/// The user may not do this.
const ACCESS_REFUSED: u16 = 403;
/// There is no such exchange.
const NOT_FOUND: u16 = 404;
/// An operator has closed the connection, or the broker is going down.
const CONNECTION_FORCED: u16 = 320;

pub(crate) fn options(error: &OptionsError) -> Failure {
    Failure::unavailable("rabbitmq.options", error.to_string())
}

pub(crate) fn unreachable(address: &Address, error: &std::io::Error) -> Failure {
    Failure::unavailable("rabbitmq.unreachable", format!("{} cannot be reached: {error}", at(address)))
}

pub(crate) fn no_answer(address: &Address, limit: Duration) -> Failure {
    let limit = units::format_duration(limit);
    Failure::unavailable("rabbitmq.unreachable", format!("{} did not let us in within {limit}", at(address)))
}

pub(crate) fn tls(address: &Address, error: &dyn std::error::Error) -> Failure {
    Failure::unavailable("rabbitmq.tls", format!("no private conversation with {}: {error}", at(address)))
}

pub(crate) fn mechanism(address: &Address, ours: &str, theirs: &str) -> Failure {
    let error = format!("{} does not offer to log in by {ours}, only by {theirs}", at(address));
    Failure::unavailable("rabbitmq.login", error)
}

pub(crate) fn login(address: &Address, closing: &Closing) -> Failure {
    let error = format!("{} refuses the login of {}: {}", at(address), address.who(), closing.text);
    Failure::unavailable("rabbitmq.login", error)
}

pub(crate) fn vhost(address: &Address, closing: &Closing) -> Failure {
    let error = format!("{} does not open virtual host {:?}: {}", at(address), address.vhost, closing.text);
    Failure::unavailable("rabbitmq.vhost", error)
}

/// Why everything on a connection is in doubt.
pub(crate) fn ending(address: &Address, ending: &Ending) -> Failure {
    let at = at(address);
    match ending {
        Ending::Channel(closing) | Ending::Connection(closing) => match closing.code {
            NOT_FOUND => Failure::unavailable(
                "rabbitmq.no_exchange",
                format!("{}; create it, or declare it in [topology]", closing.text),
            ),
            ACCESS_REFUSED => {
                Failure::unavailable("rabbitmq.denied", format!("{}; grant the right to write", closing.text))
            }
            CONNECTION_FORCED => {
                Failure::unavailable("rabbitmq.lost", format!("{at} ended the connection: {}", closing.text))
            }
            _ => Failure::unavailable("rabbitmq.channel", format!("{at} closed the channel: {}", closing.text)),
        },
        Ending::Lost(error) if is_about_tls(error) => tls(address, error),
        Ending::Lost(error) => {
            Failure::unavailable("rabbitmq.lost", format!("the connection to {at} was lost: {error}"))
        }
        Ending::Silent(since) => {
            let since = units::format_duration(Duration::from_millis(u64::try_from(since.as_millis()).unwrap_or(0)));
            Failure::unavailable("rabbitmq.heartbeat", format!("nothing was heard of {at} for {since}"))
        }
        Ending::Garbled(what) => {
            Failure::unavailable("rabbitmq.protocol", format!("{at} cannot be understood: {what}"))
        }
    }
}

pub(crate) fn topology(address: &Address, problem: &NotInPlace) -> Failure {
    match problem {
        NotInPlace::Missing(what) => missing(what),
        NotInPlace::Refused(what, closing) => {
            let code = if closing.code == ACCESS_REFUSED { "rabbitmq.denied" } else { "rabbitmq.topology" };
            Failure::unavailable(code, format!("{what} cannot be made: {}", closing.text))
        }
        NotInPlace::Ended(end) => ending(address, end),
    }
}

pub(crate) fn missing(what: &str) -> Failure {
    let error = format!("{what} is missing; create it, or set `mode = \"declare\"` in [topology]");
    Failure::unavailable("rabbitmq.topology", error)
}

pub(crate) fn blocked(address: &Address, reason: &str) -> Failure {
    Failure::unavailable("rabbitmq.blocked", format!("blocked by broker: {reason} ({})", at(address)))
}

pub(crate) fn timed_out(address: &Address, id: &str, limit: Duration) -> Failure {
    let limit = units::format_duration(limit);
    let error = format!("{} did not confirm event {id} within {limit} and was disconnected", at(address));
    Failure::unavailable("rabbitmq.timeout", error)
}

pub(crate) fn closed() -> Failure {
    Failure::unavailable("rabbitmq.closed", "the transport is closed; the event is sent again by the next relay")
}

/// What an event has become that no queue takes; nothing when that is all right.
pub(crate) fn unroutable(policy: Unroutable, exchange: &str, why: &str) -> Option<Failure> {
    let kind = match policy {
        Unroutable::Retry => FailureKind::Transient,
        Unroutable::Dead => FailureKind::Permanent,
        Unroutable::Accept => return None,
    };
    let error = format!("no queue of exchange {exchange} takes it ({why}); bind one, or set `unroutable`");
    Some(Failure::new(kind, "rabbitmq.unroutable", error))
}

pub(crate) fn too_many_bindings(error: &TooManyBindings) -> Failure {
    let TooManyBindings { pattern } = error;
    let error =
        format!("the pattern {pattern:?} has been bound for {PATTERN_BINDINGS_MAX} words; bind whole words instead");
    Failure::transient("rabbitmq.bindings", error)
}

pub(crate) fn refused_for_now(exchange: &str) -> Failure {
    let error = format!("a queue of exchange {exchange} did not take it; it may be full");
    Failure::transient("rabbitmq.nack", error)
}

pub(crate) fn too_large(bytes: usize, limit: usize) -> Failure {
    let error = format!("the body has {bytes} bytes, the broker takes {limit}; see its max_message_size");
    Failure::permanent("rabbitmq.too_large", error)
}

/// The broker closed the channel on an event that was alone there.
pub(crate) fn refused_for_good(closing: &Closing) -> Failure {
    Failure::permanent("rabbitmq.refused", format!("the broker closes the channel on it: {}", closing.text))
}

pub(crate) fn routing_key(event: &str, bytes: usize) -> Failure {
    let error = format!("the routing key of event {event} has {bytes} bytes, 255 are possible");
    Failure::permanent("rabbitmq.routing_key", error)
}

pub(crate) fn header(event: &str, what: &str) -> Failure {
    Failure::permanent("rabbitmq.header", format!("event {event} cannot be sent: {what}"))
}

/// A peer may say no to our certificate only after the handshake.
fn is_about_tls(error: &std::io::Error) -> bool {
    error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()).is_some()
}

fn at(address: &Address) -> String {
    format!("{}:{}", address.host, address.port)
}
