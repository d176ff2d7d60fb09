//! The part of AMQP 0-9-1 that a publisher speaks, as bytes. Nothing here waits, reads or writes.
//!
//! Everything is a frame: kind, channel, length, payload, end. A method is its class, its number and its arguments one
//! after the other; a message is a method, a header frame and as many body frames as it takes.

pub(crate) mod decode;
pub(crate) mod encode;

/// What a client says first.
pub(crate) const GREETING: &[u8] = b"AMQP\x00\x00\x09\x01";
/// The one channel of a connection.
pub(crate) const CHANNEL: u16 = 1;
/// Bytes of a frame around its payload.
pub(crate) const FRAME_OVERHEAD: usize = 8;
/// The longest name, key or short property, in bytes.
pub(crate) const SHORT_BYTES_MAX: usize = 255;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

/// A method's class and its number there.
type Number = (u16, u16);
