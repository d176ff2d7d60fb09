//! One connection with one channel: opened as a whole, ended as a whole.
//!
//! Bytes to send stand in a buffer until [`Connection::next`] is waited for, which sends and receives at once; so what was
//! published in one go leaves in one go. What it means is decided by who listens ([`crate::driver`], [`crate::topology`]).

mod open;
mod stream;

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, Interval, timeout};

use stream::Stream;

use crate::wire::decode::{self, Closing, Garbled, ServerMethod};
use crate::wire::encode;

/// How much is read at once, at most.
const READ_BYTES: usize = 64 * 1024;

/// A conversation with a broker.
pub(crate) struct Connection {
    read: ReadHalf<Stream>,
    write: WriteHalf<Stream>,
    input: BytesMut,
    output: BytesMut,
    /// Whether everything written has left, which a stream with TLS does not do by itself.
    flushed: bool,
    frame_max: usize,
    heartbeat: Heartbeat,
    coming_back: Option<ComingBack>,
}

/// What a publisher hears once the connection is open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Messages are taken, or refused.
    Confirm {
        tag: u64,
        multiple: bool,
        accepted: bool,
    },
    /// A message has come back: no queue takes it. Its confirm is still to come.
    Returned {
        message_id: String,
        why: String,
    },
    /// The broker reads no more until it is unblocked.
    Blocked(String),
    Unblocked,
    /// An answer to something we asked for.
    Answer(ServerMethod),
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The broker has closed the channel: it did not like something we said there.
    Channel(Closing),
    /// The broker has closed the connection.
    Connection(Closing),
    /// It is gone.
    Lost(io::Error),
    /// Nothing has been heard for this long.
    Silent(Duration),
    /// What was heard makes no sense.
    Garbled(String),
}

/// A message on its way back to us.
struct ComingBack {
    why: String,
    message_id: Option<String>,
    /// Bytes of its body that are still to come; not known before its header.
    left: Option<u64>,
}

/// Both sides show that they are there.
struct Heartbeat {
    every: Duration,
    tick: Interval,
    heard: Instant,
    spoke: Instant,
}

impl Connection {
    /// Where to write what is to be sent.
    pub(crate) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// The largest frame both sides have agreed upon.
    pub(crate) fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// What is heard next; sends what stands in the output meanwhile. May be dropped and called again at any time.
    pub(crate) async fn next(&mut self) -> Result<Heard, Ending> {
        loop {
            if let Some(heard) = self.received()? {
                return Ok(heard);
            }
            let sending = !self.output.is_empty() || !self.flushed;
            tokio::select! {
                read = read(&mut self.read, &mut self.input) => {
                    read.map_err(Ending::Lost)?;
                    self.heartbeat.heard = Instant::now();
                }
                sent = send(&mut self.write, &mut self.output, &mut self.flushed), if sending => {
                    sent.map_err(Ending::Lost)?;
                    self.heartbeat.spoke = Instant::now();
                }
                _ = self.heartbeat.tick.tick() => self.keep_alive()?,
            }
        }
    }

    /// What has been received already, if that is something.
    pub(crate) fn received(&mut self) -> Result<Option<Heard>, Ending> {
        while let Some(said) = decode::next(&mut self.input, self.frame_max)? {
            match said {
                ServerMethod::Heartbeat => {}
                ServerMethod::Confirm { tag, multiple, accepted } => {
                    return Ok(Some(Heard::Confirm { tag, multiple, accepted }));
                }
                ServerMethod::Blocked(reason) => return Ok(Some(Heard::Blocked(reason))),
                ServerMethod::Unblocked => return Ok(Some(Heard::Unblocked)),
                ServerMethod::ChannelClose(closing) => {
                    encode::channel_close_ok(&mut self.output);
                    return Err(Ending::Channel(closing));
                }
                ServerMethod::ConnectionClose(closing) => {
                    encode::connection_close_ok(&mut self.output);
                    return Err(Ending::Connection(closing));
                }
                ServerMethod::Return { .. } | ServerMethod::Header { .. } | ServerMethod::Body(_) => {
                    if let Some(returned) = self.comes_back(said)? {
                        return Ok(Some(returned));
                    }
                }
                answer => return Ok(Some(Heard::Answer(answer))),
            }
        }
        Ok(None)
    }

    fn comes_back(&mut self, said: ServerMethod) -> Result<Option<Heard>, Ending> {
        let unexpected = || Ending::Garbled("a part of a message that nobody expected".to_owned());
        match (said, &mut self.coming_back) {
            (ServerMethod::Return { text }, None) => {
                self.coming_back = Some(ComingBack { why: text, message_id: None, left: None });
            }
            (ServerMethod::Header { message_id, body_bytes }, Some(message)) if message.left.is_none() => {
                message.message_id = message_id;
                message.left = Some(body_bytes);
            }
            (ServerMethod::Body(bytes), Some(ComingBack { left: Some(left), .. })) if bytes <= *left => *left -= bytes,
            _ => return Err(unexpected()),
        }
        let Some(message) = self.coming_back.take_if(|message| message.left == Some(0)) else { return Ok(None) };
        let message_id = message.message_id.ok_or_else(unexpected)?;
        Ok(Some(Heard::Returned { message_id, why: message.why }))
    }

    /// The answer to what stands in the output. Only while nothing is being published.
    pub(crate) async fn ask(&mut self) -> Result<ServerMethod, Ending> {
        loop {
            match self.next().await? {
                Heard::Answer(said) => return Ok(said),
                Heard::Blocked(_) | Heard::Unblocked => {}
                other => return Err(Ending::Garbled(format!("{other:?} where nothing was published"))),
            }
        }
    }

    /// Ends it in good order, if the broker answers within the limit; what is heard until then goes to `listen`.
    pub(crate) async fn close(mut self, limit: Duration, mut listen: impl FnMut(Heard)) {
        encode::connection_close(&mut self.output);
        let goodbye = async {
            loop {
                match self.next().await {
                    Ok(Heard::Answer(ServerMethod::ConnectionCloseOk)) => return Ok(()),
                    Ok(heard) => listen(heard),
                    Err(Ending::Channel(_)) => {}
                    Err(Ending::Connection(_)) => return self.flush().await,
                    Err(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
                }
            }
        };
        if !matches!(timeout(limit, goodbye).await, Ok(Ok(()))) {
            self.abort();
        }
    }

    /// Ends it after this: with the answer the broker waits for, or without a word.
    pub(crate) async fn end(mut self, ending: &Ending, limit: Duration) {
        match ending {
            Ending::Channel(_) => self.close(limit, |_| {}).await,
            Ending::Connection(_) if matches!(timeout(limit, self.flush()).await, Ok(Ok(()))) => {}
            _ => self.abort(),
        }
    }

    /// Drops it, and what has not left yet with it: it must not reach the broker after what is sent again elsewhere.
    pub(crate) fn abort(self) {
        self.read.unsplit(self.write).discard();
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() || !self.flushed {
            send(&mut self.write, &mut self.output, &mut self.flushed).await?;
        }
        Ok(())
    }

    fn keep_alive(&mut self) -> Result<(), Ending> {
        let now = Instant::now();
        let silent = now.duration_since(self.heartbeat.heard);
        // At the last tick before twice the time is over, not at the first after it.
        if silent + self.heartbeat.tick.period() > self.heartbeat.every * 2 {
            return Err(Ending::Silent(silent));
        }
        if self.output.is_empty() && now.duration_since(self.heartbeat.spoke) >= self.heartbeat.every / 2 {
            encode::heartbeat(&mut self.output);
        }
        Ok(())
    }
}

impl From<Garbled> for Ending {
    fn from(garbled: Garbled) -> Self {
        Self::Garbled(garbled.0)
    }
}

impl Heartbeat {
    fn new(every: Duration) -> Self {
        let now = Instant::now();
        let mut tick = tokio::time::interval((every / 4).max(Duration::from_millis(1)));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { every, tick, heard: now, spoke: now }
    }
}

async fn read(stream: &mut ReadHalf<Stream>, input: &mut BytesMut) -> io::Result<()> {
    input.reserve(READ_BYTES);
    match stream.read_buf(input).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn send(stream: &mut WriteHalf<Stream>, output: &mut BytesMut, flushed: &mut bool) -> io::Result<()> {
    if output.is_empty() {
        stream.flush().await?;
        *flushed = true;
    } else {
        stream.write_buf(output).await?;
        *flushed = false;
    }
    Ok(())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("frame_max", &self.frame_max).finish_non_exhaustive()
    }
}
