//! A gate in front of the server: each statement of a client waits there until it may go on.
//!
//! So a test decides at which statement boundary something else happens: commits a transaction, settles a delivery, lets another
//! relay take over, cuts the connection. What the server answers is never held back.

use tokio::sync::{mpsc, oneshot};

/// What happens at a gate, in order.
#[derive(Debug)]
pub enum Sign {
    /// A statement waits.
    Waits(Waiting),
    /// The client has sent something on this connection, which is on its way to the server.
    Asked(u64),
    /// The server has answered everything that this connection has asked, and the client has been sent the answer.
    Answered(u64),
    /// The connection is over; what waited of it is gone.
    Ended(u64),
}

/// A statement that waits. Dropped, it goes on if it is on a wire; what has no wire is told that it may not.
#[derive(Debug)]
pub struct Waiting {
    /// Which connection, counted from 1.
    pub connection: u64,
    /// Its text.
    pub text: String,
    go: oneshot::Sender<()>,
}

impl Waiting {
    /// Lets it go on; says whether it does. A connection that is over has nothing that could.
    pub fn go_on(self) -> bool {
        self.go.send(()).is_ok()
    }
}

/// A gate; while it exists nothing passes by itself.
#[derive(Debug)]
pub struct Gate {
    pub(super) signs: mpsc::UnboundedReceiver<Sign>,
}

impl Gate {
    /// What happens next.
    pub async fn next(&mut self) -> Option<Sign> {
        self.signs.recv().await
    }

    /// What has happened, if anything has.
    pub fn try_next(&mut self) -> Option<Sign> {
        self.signs.try_recv().ok()
    }
}

/// The side of a gate that is passed: connections of a proxy, or a store that has no wire.
#[derive(Debug, Clone)]
pub struct Keeper {
    signs: mpsc::UnboundedSender<Sign>,
}

impl Keeper {
    /// A gate and its keeper.
    pub fn pair() -> (Self, Gate) {
        let (keeper, signs) = mpsc::unbounded_channel();
        (Self { signs: keeper }, Gate { signs })
    }

    /// Waits until the statement may go on. False when nobody has said so: it was dropped, or nobody is at the gate any more.
    pub async fn wait(&self, connection: u64, text: String) -> bool {
        let (go, may_go) = oneshot::channel();
        self.signs.send(Sign::Waits(Waiting { connection, text, go })).is_ok() && may_go.await.is_ok()
    }

    /// Says what has happened.
    pub fn tell(&self, sign: Sign) {
        // Nobody may listen any more.
        let _ = self.signs.send(sign);
    }
}
