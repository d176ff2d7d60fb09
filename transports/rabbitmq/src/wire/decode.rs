//! What the broker says. Lengths are checked before anything is read; what does not fit is [`Garbled`].

use bytes::{Buf, Bytes, BytesMut};

use super::{BODY, END, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD, Number};

const CONNECTION_START: Number = (10, 10);
const CONNECTION_TUNE: Number = (10, 30);
const CONNECTION_OPEN_OK: Number = (10, 41);
const CONNECTION_CLOSE: Number = (10, 50);
const CONNECTION_CLOSE_OK: Number = (10, 51);
const CONNECTION_BLOCKED: Number = (10, 60);
const CONNECTION_UNBLOCKED: Number = (10, 61);
const CHANNEL_OPEN_OK: Number = (20, 11);
const CHANNEL_CLOSE: Number = (20, 40);
const EXCHANGE_DECLARE_OK: Number = (40, 11);
const EXCHANGE_UNBIND_OK: Number = (40, 51);
const QUEUE_DECLARE_OK: Number = (50, 11);
const QUEUE_BIND_OK: Number = (50, 21);
const BASIC_RETURN: Number = (60, 50);
const BASIC_ACK: Number = (60, 80);
const BASIC_NACK: Number = (60, 120);
const CONFIRM_SELECT_OK: Number = (85, 11);

/// AMQP method of the broker that a publisher must understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerMethod {
    /// It greets, and names the ways to log in.
    Start {
        mechanisms: String,
    },
    Tune {
        frame_max: u32,
        heartbeat_seconds: u16,
    },
    ConnectionClose(Closing),
    ConnectionCloseOk,
    Blocked(String),
    Unblocked,
    ChannelClose(Closing),
    QueueDeclareOk {
        messages: u32,
        consumers: u32,
    },
    /// Every other answer to something we asked for.
    Done,
    /// A message comes back; its header and its body follow.
    Return {
        text: String,
    },
    /// The header of a message that comes back.
    Header {
        message_id: Option<String>,
        body_bytes: u64,
    },
    /// So many bytes of the body of a message that comes back.
    Body(u64),
    Confirm {
        tag: u64,
        multiple: bool,
        accepted: bool,
    },
    Heartbeat,
}

/// Why the broker closes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closing {
    pub(crate) code: u16,
    pub(crate) text: String,
}

/// It is not AMQP 0-9-1, or nothing we could have been told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbled(pub(crate) String);

/// Takes the next frame, if it has come as a whole.
pub(crate) fn next(input: &mut BytesMut, frame_max: usize) -> Result<Option<ServerMethod>, Garbled> {
    if input.starts_with(b"AMQP") {
        return Err(Garbled("it speaks another version of AMQP".to_owned()));
    }
    if input.first().is_some_and(|kind| ![METHOD, HEADER, BODY, HEARTBEAT].contains(kind)) {
        return Err(Garbled("it does not speak AMQP".to_owned()));
    }
    let Some(start) = input.first_chunk::<7>() else { return Ok(None) };
    let (kind, payload) = (start[0], u32::from_be_bytes([start[3], start[4], start[5], start[6]]) as usize);
    if payload > frame_max {
        return Err(Garbled(format!("a frame of {payload} bytes where {frame_max} are agreed upon")));
    }
    if input.len() < payload + FRAME_OVERHEAD {
        return Ok(None);
    }
    let mut frame = input.split_to(payload + FRAME_OVERHEAD);
    if frame.last() != Some(&END) {
        return Err(Garbled("a frame that does not end".to_owned()));
    }
    frame.truncate(payload + 7);
    frame.advance(7);
    let read = match kind {
        METHOD => method(Reader(frame.freeze())),
        HEADER => header(Reader(frame.freeze())),
        BODY => Some(ServerMethod::Body(payload as u64)),
        _ => Some(ServerMethod::Heartbeat),
    };
    read.map(Some).ok_or_else(|| Garbled("a frame that makes no sense".to_owned()))
}

fn method(mut read: Reader) -> Option<ServerMethod> {
    let number = (read.u16()?, read.u16()?);
    Some(match number {
        CONNECTION_START => {
            read.u16()?;
            read.long()?;
            ServerMethod::Start { mechanisms: read.long()? }
        }
        CONNECTION_TUNE => {
            read.u16()?;
            ServerMethod::Tune { frame_max: read.u32()?, heartbeat_seconds: read.u16()? }
        }
        CONNECTION_CLOSE => ServerMethod::ConnectionClose(closing(&mut read)?),
        CHANNEL_CLOSE => ServerMethod::ChannelClose(closing(&mut read)?),
        CONNECTION_CLOSE_OK => ServerMethod::ConnectionCloseOk,
        CONNECTION_BLOCKED => ServerMethod::Blocked(read.short()?),
        CONNECTION_UNBLOCKED => ServerMethod::Unblocked,
        QUEUE_DECLARE_OK => {
            read.short()?;
            ServerMethod::QueueDeclareOk { messages: read.u32()?, consumers: read.u32()? }
        }
        CONNECTION_OPEN_OK | CHANNEL_OPEN_OK | EXCHANGE_DECLARE_OK | EXCHANGE_UNBIND_OK | QUEUE_BIND_OK
        | CONFIRM_SELECT_OK => ServerMethod::Done,
        BASIC_RETURN => {
            read.u16()?;
            ServerMethod::Return { text: read.short()? }
        }
        BASIC_ACK | BASIC_NACK => {
            let (tag, multiple) = (read.u64()?, read.u8()? & 1 == 1);
            ServerMethod::Confirm { tag, multiple, accepted: number == BASIC_ACK }
        }
        _ => return None,
    })
}

fn closing(read: &mut Reader) -> Option<Closing> {
    Some(Closing { code: read.u16()?, text: read.short()? })
}

/// Of the properties only the id is looked at; those before it must be stepped over.
fn header(mut read: Reader) -> Option<ServerMethod> {
    read.u32()?;
    let (body_bytes, flags) = (read.u64()?, read.u16()?);
    let has = |bit: u32| flags & (1 << bit) != 0;
    for bit in [15, 14] {
        if has(bit) {
            read.short()?;
        }
    }
    if has(13) {
        read.long()?;
    }
    for bit in [12, 11] {
        if has(bit) {
            read.u8()?;
        }
    }
    for bit in [10, 9, 8] {
        if has(bit) {
            read.short()?;
        }
    }
    let message_id = if has(7) { Some(read.short()?) } else { None };
    Some(ServerMethod::Header { message_id, body_bytes })
}

/// Reads one value after the other; nothing when there is not enough left.
struct Reader(Bytes);

impl Reader {
    fn u8(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.0.try_get_u16().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.0.try_get_u32().ok()
    }

    fn u64(&mut self) -> Option<u64> {
        self.0.try_get_u64().ok()
    }

    fn short(&mut self) -> Option<String> {
        let bytes = usize::from(self.u8()?);
        self.text(bytes)
    }

    /// A long text; also steps over a table, which has its length in front as well.
    fn long(&mut self) -> Option<String> {
        let bytes = self.u32()? as usize;
        self.text(bytes)
    }

    fn text(&mut self, bytes: usize) -> Option<String> {
        if self.0.len() < bytes {
            return None;
        }
        Some(String::from_utf8_lossy(&self.0.split_to(bytes)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::envelope::Header;
    use proptest::prelude::*;

    use super::super::encode::{self, Properties};
    use super::*;

    const FRAME_MAX: usize = 4096;

    /// Everything in a buffer.
    fn all(bytes: &[u8]) -> Result<Vec<ServerMethod>, Garbled> {
        let mut input = BytesMut::from(bytes);
        let mut said = Vec::new();
        while let Some(one) = next(&mut input, FRAME_MAX)? {
            said.push(one);
        }
        Ok(said)
    }

    fn published(body: &[u8], headers: &[Header<'_>]) -> Option<BytesMut> {
        let properties = Properties {
            content_type: "application/json",
            headers,
            numbers: &[],
            correlation_id: "c-1",
            message_id: "e-1",
            timestamp: Some(1),
            event_type: "order.placed",
        };
        let mut out = BytesMut::new();
        encode::publish(&mut out, "orders", "order.placed", &properties, body, FRAME_MAX).map(|()| out)
    }

    #[test]
    fn a_message_is_cut_into_frames_of_the_agreed_size_and_tells_its_id() {
        for bytes in [0, 1, FRAME_MAX - 8, FRAME_MAX - 7, 3 * FRAME_MAX] {
            let out = published(&vec![b'x'; bytes], &[("ce-id".into(), "e-1".into())]).unwrap();
            // The method itself is one we never hear.
            let method = 7 + u32::from_be_bytes([out[3], out[4], out[5], out[6]]) as usize + 1;
            let said = all(&out[method..]).unwrap();
            let header = ServerMethod::Header { message_id: Some("e-1".to_owned()), body_bytes: bytes as u64 };
            assert_eq!(said[0], header);
            let sizes: Vec<u64> =
                said[1..].iter().map(|s| if let ServerMethod::Body(bytes) = s { *bytes } else { 0 }).collect();
            assert_eq!(sizes.iter().sum::<u64>(), bytes as u64);
            assert!(sizes.iter().all(|s| *s > 0 && *s <= (FRAME_MAX - 8) as u64), "{sizes:?}");
        }
    }

    #[test]
    fn properties_that_fill_more_than_a_frame_are_not_written_at_all() {
        let headers = |bytes: usize| [("large".into(), "x".repeat(bytes).into())];
        assert!(published(b"{}", &headers(FRAME_MAX)).is_none());
        assert!(published(b"{}", &headers(FRAME_MAX - 200)).is_some());
    }

    #[test]
    fn who_speaks_something_else_is_found_out_at_once() {
        for (bytes, reason) in [
            (&b"AMQP\x00\x00\x09\x01"[..], "it speaks another version of AMQP"),
            (b"HTTP/1.1 400", "it does not speak AMQP"),
            (b"\x01\x00\x00\xff\xff\xff\xff", "a frame of 4294967295 bytes where 4096 are agreed upon"),
            (b"\x01\x00\x00\x00\x00\x00\x01xx", "a frame that does not end"),
            (b"\x01\x00\x00\x00\x00\x00\x01x\xce", "a frame that makes no sense"),
        ] {
            assert_eq!(all(bytes), Err(Garbled(reason.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = all(&bytes);
        }

        #[test]
        fn a_frame_with_any_content_is_read_or_refused(
            kind in prop::sample::select(vec![1_u8, 2, 3, 8]),
            number in prop::sample::select(vec![[0, 10, 0, 10], [0, 10, 0, 50], [0, 50, 0, 11], [0, 60, 0, 50]]),
            content in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let payload = [&number[..], &content].concat();
            let mut bytes = vec![kind, 0, 1];
            bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
            bytes.extend(payload);
            bytes.push(0xCE);
            let _ = all(&bytes);
        }

        #[test]
        fn frames_are_read_alike_however_they_come_in_pieces(cut in 0_usize..200) {
            let mut whole = BytesMut::new();
            encode::connection_close(&mut whole);
            encode::heartbeat(&mut whole);
            encode::channel_close_ok(&mut whole);
            encode::connection_close_ok(&mut whole);
            whole.truncate(whole.len() - 12 - 12);
            let (first, second) = whole.split_at(cut.min(whole.len()));
            let mut input = BytesMut::from(first);
            let mut said = Vec::new();
            while let Some(one) = next(&mut input, FRAME_MAX).unwrap() {
                said.push(one);
            }
            input.extend_from_slice(second);
            while let Some(one) = next(&mut input, FRAME_MAX).unwrap() {
                said.push(one);
            }
            let close = ServerMethod::ConnectionClose(Closing { code: 200, text: "OK".to_owned() });
            prop_assert_eq!(said, vec![close, ServerMethod::Heartbeat]);
        }
    }
}
