//! A handler that does what a case wants of it, and remembers when it ran.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

use postroom_consumer::{Handler, Message};
use postroom_core::Failure;
use tokio::sync::watch;
use tokio::time::Instant;

use super::effects::{Effects, Tx};

/// What becomes of an event. All write their effect first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Fails so many times, then succeeds.
    Fail(usize),
    /// Fails for good.
    Refuse,
    /// Succeeds when the gate is opened.
    Hold,
    /// Panics so many times, then succeeds.
    Panic(usize),
    /// Never ends.
    Hang,
    /// Something is down so many times, then succeeds.
    Unavailable(usize),
    /// Not known yet so many times, then succeeds.
    Early(usize),
    /// A statement fails, and it says that all is well.
    Overlook,
}

/// The handler; clones share what they know.
#[derive(Debug)]
pub struct Script<G> {
    shared: Arc<Shared>,
    effects: PhantomData<fn() -> G>,
}

#[derive(Debug)]
struct Shared {
    table: String,
    state: Mutex<State>,
    gate: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    behaviours: HashMap<String, Behaviour>,
    runs: Vec<(Message, Instant)>,
}

impl<G> Clone for Script<G> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), effects: PhantomData }
    }
}

impl<G: Effects> Script<G> {
    /// Everything succeeds.
    pub fn new(effects: &G) -> Self {
        let shared = Shared { table: effects.table(), state: Mutex::default(), gate: watch::Sender::new(false) };
        Self { shared: Arc::new(shared), effects: PhantomData }
    }

    /// The event of this id does not simply succeed.
    pub fn behave(&self, id: &str, behaviour: Behaviour) {
        self.state().behaviours.insert(id.to_owned(), behaviour);
    }

    /// Lets those go on that are held.
    pub fn open_gate(&self) {
        self.shared.gate.send_replace(true);
    }

    /// How many are held now, with their effect written.
    pub fn held(&self) -> usize {
        self.shared.gate.receiver_count()
    }

    /// When the event of this id was begun.
    pub fn runs(&self, id: &str) -> Vec<Instant> {
        self.state().runs.iter().filter(|(message, _)| message.id == id).map(|(_, at)| *at).collect()
    }

    /// Everything that was begun, in order.
    pub fn begun(&self) -> Vec<Message> {
        self.state().runs.iter().map(|(message, _)| message.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

impl<G: Effects> Handler<Tx<G>> for Script<G> {
    async fn handle(&self, tx: &mut Tx<G>, message: &Message) -> Result<(), Failure> {
        let (behaviour, run) = {
            let mut state = self.state();
            state.runs.push((message.clone(), Instant::now()));
            let run = state.runs.iter().filter(|(other, _)| other.id == message.id).count();
            (state.behaviours.get(&message.id).copied(), run)
        };
        G::write(tx, &self.shared.table, &message.id).await?;
        match behaviour {
            Some(Behaviour::Fail(times)) if run <= times => {
                Err(Failure::transient("test.fails", "it fails on purpose"))
            }
            Some(Behaviour::Refuse) => Err(Failure::permanent("test.refused", "it is refused on purpose")),
            Some(Behaviour::Panic(times)) if run <= times => panic!("on purpose"),
            Some(Behaviour::Unavailable(times)) if run <= times => {
                Err(Failure::unavailable("test.down", "something is down on purpose"))
            }
            Some(Behaviour::Early(times)) if run <= times => {
                Err(Failure::not_yet("test.early", "it is not known yet on purpose"))
            }
            Some(Behaviour::Hold) => {
                let mut gate = self.shared.gate.subscribe();
                drop(gate.wait_for(|is_open| *is_open).await);
                Ok(())
            }
            Some(Behaviour::Hang) => std::future::pending().await,
            Some(Behaviour::Overlook) => {
                G::spoil(tx).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
