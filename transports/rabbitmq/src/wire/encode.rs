//! What we say, written behind what stands in a buffer already.
//!
//! Short texts are at most [`SHORT_BYTES_MAX`] long: names come from checked options, and what an event brings is refused
//! in [`crate::message`].

use bytes::{BufMut, BytesMut};
use postroom_core::envelope::Header;

use super::{BODY, CHANNEL, END, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD, Number, SHORT_BYTES_MAX};

const CONNECTION_START_OK: Number = (10, 11);
const CONNECTION_TUNE_OK: Number = (10, 31);
const CONNECTION_OPEN: Number = (10, 40);
const CONNECTION_CLOSE: Number = (10, 50);
const CONNECTION_CLOSE_OK: Number = (10, 51);
const CHANNEL_OPEN: Number = (20, 10);
const CHANNEL_CLOSE_OK: Number = (20, 41);
const EXCHANGE_DECLARE: Number = (40, 10);
const EXCHANGE_UNBIND: Number = (40, 40);
const QUEUE_DECLARE: Number = (50, 10);
const QUEUE_BIND: Number = (50, 20);
const BASIC_PUBLISH: Number = (60, 40);
const CONFIRM_SELECT: Number = (85, 10);

/// A value in a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Yes,
    Number(u64),
    Table(&'a [(&'a str, Value<'a>)]),
}

/// The optional properties of a message that we set, as far as it has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Properties<'a> {
    pub(crate) content_type: &'a str,
    pub(crate) headers: &'a [Header<'a>],
    /// Names of headers that are numbers.
    pub(crate) numbers: &'a [&'a str],
    pub(crate) correlation_id: &'a str,
    pub(crate) message_id: &'a str,
    /// Seconds since 1970.
    pub(crate) timestamp: Option<u64>,
    pub(crate) event_type: &'a str,
}

pub(crate) fn heartbeat(out: &mut BytesMut) {
    frame(out, HEARTBEAT, 0, |_| {});
}

pub(crate) fn start_ok(out: &mut BytesMut, client: &[(&str, Value<'_>)], mechanism: &str, response: &str) {
    method(out, 0, CONNECTION_START_OK, |out| {
        table(out, client);
        short(out, mechanism);
        long(out, response);
        short(out, "en_US");
    });
}

pub(crate) fn tune_ok(out: &mut BytesMut, frame_max: u32, heartbeat_seconds: u16) {
    method(out, 0, CONNECTION_TUNE_OK, |out| {
        out.put_u16(CHANNEL);
        out.put_u32(frame_max);
        out.put_u16(heartbeat_seconds);
    });
}

pub(crate) fn connection_open(out: &mut BytesMut, vhost: &str) {
    method(out, 0, CONNECTION_OPEN, |out| {
        short(out, vhost);
        short(out, "");
        out.put_u8(0);
    });
}

pub(crate) fn connection_close(out: &mut BytesMut) {
    method(out, 0, CONNECTION_CLOSE, |out| {
        out.put_u16(200);
        short(out, "OK");
        out.put_u32(0);
    });
}

pub(crate) fn connection_close_ok(out: &mut BytesMut) {
    method(out, 0, CONNECTION_CLOSE_OK, |_| {});
}

pub(crate) fn channel_open(out: &mut BytesMut) {
    method(out, CHANNEL, CHANNEL_OPEN, |out| short(out, ""));
}

pub(crate) fn channel_close_ok(out: &mut BytesMut) {
    method(out, CHANNEL, CHANNEL_CLOSE_OK, |_| {});
}

pub(crate) fn confirm_select(out: &mut BytesMut) {
    method(out, CHANNEL, CONFIRM_SELECT, |out| out.put_u8(0));
}

/// Asks whether an exchange is there (`kind` is nothing), or makes a durable one.
pub(crate) fn exchange_declare(out: &mut BytesMut, name: &str, kind: Option<&str>) {
    method(out, CHANNEL, EXCHANGE_DECLARE, |out| {
        out.put_u16(0);
        short(out, name);
        short(out, kind.unwrap_or("direct"));
        out.put_u8(flags(kind.is_some()));
        table(out, &[]);
    });
}

pub(crate) fn exchange_unbind(out: &mut BytesMut, destination: &str, source: &str, routing_key: &str) {
    method(out, CHANNEL, EXCHANGE_UNBIND, |out| {
        out.put_u16(0);
        short(out, destination);
        short(out, source);
        short(out, routing_key);
        out.put_u8(0);
        table(out, &[]);
    });
}

/// Asks whether a queue is there (`arguments` are nothing), or makes a durable one.
pub(crate) fn queue_declare(out: &mut BytesMut, name: &str, arguments: Option<&[(&str, Value<'_>)]>) {
    method(out, CHANNEL, QUEUE_DECLARE, |out| {
        out.put_u16(0);
        short(out, name);
        out.put_u8(flags(arguments.is_some()));
        table(out, arguments.unwrap_or_default());
    });
}

pub(crate) fn queue_bind(out: &mut BytesMut, queue: &str, exchange: &str, routing_key: &str) {
    bind(out, queue, exchange, routing_key, 0);
}

/// A binding that is answered only when it fails, by the end of the channel.
pub(crate) fn queue_bind_unanswered(out: &mut BytesMut, queue: &str, exchange: &str, routing_key: &str) {
    const NO_WAIT: u8 = 1;
    bind(out, queue, exchange, routing_key, NO_WAIT);
}

fn bind(out: &mut BytesMut, queue: &str, exchange: &str, routing_key: &str, flags: u8) {
    method(out, CHANNEL, QUEUE_BIND, |out| {
        out.put_u16(0);
        short(out, queue);
        short(out, exchange);
        short(out, routing_key);
        out.put_u8(flags);
        table(out, &[]);
    });
}

/// A persistent message that must reach a queue. `None` when its properties do not fit into a frame; then nothing was
/// written.
pub(crate) fn publish(
    out: &mut BytesMut,
    exchange: &str,
    routing_key: &str,
    properties: &Properties<'_>,
    body: &[u8],
    frame_max: usize,
) -> Option<()> {
    const MANDATORY: u8 = 1;
    let before = out.len();
    out.reserve(body.len() + 1024);
    method(out, CHANNEL, BASIC_PUBLISH, |out| {
        out.put_u16(0);
        short(out, exchange);
        short(out, routing_key);
        out.put_u8(MANDATORY);
    });
    let header = out.len();
    content_header(out, properties, body.len());
    if out.len() - header > frame_max {
        out.truncate(before);
        return None;
    }
    for chunk in body.chunks(frame_max.saturating_sub(FRAME_OVERHEAD).max(1)) {
        frame(out, BODY, CHANNEL, |out| out.put_slice(chunk));
    }
    Some(())
}

fn content_header(out: &mut BytesMut, properties: &Properties<'_>, body_bytes: usize) {
    const PERSISTENT: u8 = 2;
    // In the order of the properties: content type, headers, delivery mode, correlation id, message id, type.
    const GIVEN: u16 = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 10 | 1 << 7 | 1 << 5;
    const TIMESTAMP: u16 = 1 << 6;
    frame(out, HEADER, CHANNEL, |out| {
        out.put_u16(BASIC_PUBLISH.0);
        out.put_u16(0);
        out.put_u64(body_bytes as u64);
        out.put_u16(if properties.timestamp.is_some() { GIVEN | TIMESTAMP } else { GIVEN });
        short(out, properties.content_type);
        sized(out, |out| {
            for (name, value) in properties.headers {
                short(out, name);
                match value.parse::<i64>() {
                    Ok(number) if properties.numbers.contains(&&**name) => integer(out, number),
                    _ => {
                        out.put_u8(b'S');
                        long(out, value);
                    }
                }
            }
        });
        out.put_u8(PERSISTENT);
        short(out, properties.correlation_id);
        short(out, properties.message_id);
        if let Some(seconds) = properties.timestamp {
            out.put_u64(seconds);
        }
        short(out, properties.event_type);
    });
}

/// Passive asks, durable makes.
fn flags(make: bool) -> u8 {
    if make { 1 << 1 } else { 1 }
}

fn method(out: &mut BytesMut, channel: u16, number: Number, arguments: impl FnOnce(&mut BytesMut)) {
    frame(out, METHOD, channel, |out| {
        out.put_u16(number.0);
        out.put_u16(number.1);
        arguments(out);
    });
}

fn frame(out: &mut BytesMut, kind: u8, channel: u16, payload: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    out.put_u16(channel);
    sized(out, payload);
    out.put_u8(END);
}

/// Something with its length in front.
fn sized(out: &mut BytesMut, content: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    content(out);
    let bytes = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
}

fn short(out: &mut BytesMut, text: &str) {
    debug_assert!(text.len() <= SHORT_BYTES_MAX, "{} bytes are no short text", text.len());
    let bytes = &text.as_bytes()[..text.len().min(SHORT_BYTES_MAX)];
    out.put_u8(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
    out.put_slice(bytes);
}

/// As short as it may be: every client reads 32 bits as its plain integer.
fn integer(out: &mut BytesMut, number: i64) {
    if let Ok(number) = i32::try_from(number) {
        out.put_u8(b'I');
        out.put_i32(number);
    } else {
        out.put_u8(b'l');
        out.put_i64(number);
    }
}

fn long(out: &mut BytesMut, text: &str) {
    sized(out, |out| out.put_slice(text.as_bytes()));
}

fn table(out: &mut BytesMut, entries: &[(&str, Value<'_>)]) {
    sized(out, |out| {
        for (name, value) in entries {
            short(out, name);
            match value {
                Value::Text(text) => {
                    out.put_u8(b'S');
                    long(out, text);
                }
                Value::Yes => out.put_slice(&[b't', 1]),
                Value::Number(number) => {
                    out.put_u8(b'l');
                    out.put_u64(*number);
                }
                Value::Table(entries) => {
                    out.put_u8(b'F');
                    table(out, entries);
                }
            }
        }
    });
}
