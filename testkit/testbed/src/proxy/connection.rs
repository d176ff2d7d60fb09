//! One connection: moves bytes both ways until an end or a fault.
//!
//! What happens to a chunk is decided in [`super::conversation`]; here it is done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::conversation::{Conversation, Direction};
use super::{Mode, Now, Shared, Sign};

/// Why a connection does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// One of the two peers is gone; nothing we did.
    Gone,
    /// Closed by a mode of this generation.
    Cut(u64),
    /// Reset by a mode of this generation.
    Reset(u64),
    /// It has lost bytes and nobody could go on with it.
    Torn,
}

pub(super) async fn serve(mut client: TcpStream, shared: Arc<Shared>, number: u64) {
    let conversation = Mutex::new(Conversation::new(shared.reads_postgres, shared.now().generation));
    let end = tokio::select! {
        end = exchange(&mut client, &shared, &conversation, number) => end,
        end = interrupted(&shared, &conversation) => end,
    };
    if matches!(end, End::Reset(_) | End::Torn) {
        // Without it the client would read a peaceful end; when it fails, the client is gone already.
        let _ = client.set_zero_linger();
    }
    drop(client);
    if let Some(keeper) = shared.keeper() {
        keeper.tell(Sign::Ended(number));
    }
    shared.count(|counts| counts.ended += 1);
    match end {
        End::Gone => {}
        End::Torn => shared.count(|counts| counts.resets += 1),
        End::Reset(generation) => {
            shared.has_hit(generation);
            shared.count(|counts| counts.resets += 1);
        }
        End::Cut(generation) => {
            shared.has_hit(generation);
            shared.count(|counts| counts.cuts += 1);
        }
    }
}

async fn exchange(client: &mut TcpStream, shared: &Shared, conversation: &Mutex<Conversation>, number: u64) -> End {
    // Whom we hold is not connected: what it sends meanwhile waits, and the server may well be down.
    let mut modes = shared.now.subscribe();
    while modes.borrow_and_update().mode == Mode::Hold {
        if modes.changed().await.is_err() {
            return End::Gone;
        }
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", shared.server)).await else { return End::Gone };
    // Small messages go at once, as they would without us.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let up = Pump { direction: Direction::ToServer, shared, conversation, number };
    let down = Pump { direction: Direction::ToClient, shared, conversation, number };
    match tokio::try_join!(up.run(from_client, to_server), down.run(from_server, to_client)) {
        Ok(_) => End::Gone,
        Err(end) => end,
    }
}

/// Waits for a mode that ends the connection whatever it is doing, also while it waits for a peer to read.
async fn interrupted(shared: &Shared, conversation: &Mutex<Conversation>) -> End {
    let mut modes = shared.now.subscribe();
    loop {
        let Now { mode, generation } = modes.borrow_and_update().clone();
        match mode {
            Mode::Reset | Mode::Refuse => return End::Reset(generation),
            Mode::Hold | Mode::Forget => {}
            _ if lock(conversation).is_torn() => return End::Torn,
            _ => {}
        }
        if modes.changed().await.is_err() {
            return End::Gone;
        }
    }
}

/// One direction of a connection.
struct Pump<'a> {
    direction: Direction,
    shared: &'a Shared,
    conversation: &'a Mutex<Conversation>,
    /// Which connection.
    number: u64,
}

impl Pump<'_> {
    /// Ends well when this direction is over and the other one may go on.
    async fn run(self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> Result<(), End> {
        let mut modes = self.shared.now.subscribe();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let room = room(&self.shared.now().mode, buffer.len());
            let read = tokio::select! {
                biased;
                generation = half_closed(&mut modes), if self.direction == Direction::ToClient => {
                    to.shutdown().await.map_err(|_| End::Gone)?;
                    self.shared.has_hit(generation);
                    self.shared.count(|counts| counts.half_closes += 1);
                    return Ok(());
                }
                read = from.read(&mut buffer[..room]) => read.map_err(|_| End::Gone)?,
            };
            if read == 0 {
                // An end vanishes like everything else.
                let _ = modes.wait_for(|now| !lock(self.conversation).vanishes(now)).await;
                return to.shutdown().await.map_err(|_| End::Gone);
            }
            let chunk = &buffer[..read];
            let now = self.shared.now();
            let step = lock(self.conversation).step(self.direction, chunk, &now);
            if let Some(generation) = step.hold {
                self.shared.hold(generation);
            }
            if let (Some(text), Some(keeper)) = (step.statement, self.shared.keeper()) {
                // Dropped means go.
                keeper.wait(self.number, text).await;
            }
            pause(&mut modes, &now, step.forward).await;
            to.write_all(&chunk[..step.forward]).await.map_err(|_| End::Gone)?;
            self.shared.count(|counts| {
                let (forwarded, swallowed) = (step.forward as u64, (read - step.forward) as u64);
                match self.direction {
                    Direction::ToServer => counts.to_server += forwarded,
                    Direction::ToClient => counts.to_client += forwarded,
                }
                counts.swallowed += swallowed;
            });
            if let Some(keeper) = self.shared.keeper() {
                match self.direction {
                    Direction::ToServer => keeper.tell(Sign::Asked(self.number)),
                    Direction::ToClient if step.answered => keeper.tell(Sign::Answered(self.number)),
                    Direction::ToClient => {}
                }
            }
            if let Some(end) = step.end {
                return Err(end);
            }
        }
    }
}

/// How much to read at once: throttled, twenty times a second something moves.
fn room(mode: &Mode, most: usize) -> usize {
    match mode {
        Mode::Throttle(per_second) => usize::try_from(per_second / 20).unwrap_or(most).clamp(1, most),
        _ => most,
    }
}

/// Keeps a chunk back as the mode wants, but not longer than the mode lasts.
async fn pause(modes: &mut watch::Receiver<Now>, now: &Now, bytes: usize) {
    let length = match &now.mode {
        Mode::Delay(length) => *length,
        Mode::Throttle(per_second) => Duration::from_secs_f64(bytes as f64 / f64::from((*per_second).max(1))),
        _ => return,
    };
    let over = modes.wait_for(|later| later.generation != now.generation);
    // Either way the chunk may go now.
    let _ = tokio::time::timeout(length, over).await;
}

async fn half_closed(modes: &mut watch::Receiver<Now>) -> u64 {
    let generation = modes.wait_for(|now| now.mode == Mode::HalfClose).await.map(|now| now.generation);
    match generation {
        Ok(generation) => generation,
        Err(_) => std::future::pending().await,
    }
}

fn lock(conversation: &Mutex<Conversation>) -> MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}
