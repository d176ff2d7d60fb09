//! The simulated consumer behind the destination: accepts and has its effect, and sometimes dies in between.

use std::collections::HashMap;

use postroom_admin::Inspect as _;
use postroom_core::{Event, Inbox, Outbox};
use postroom_memory::MemoryStore;

/// In which order a consumer accepts and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Accept and effect in one transaction.
    Together,
    /// The effect first, the acceptance in a transaction of its own: the classic mistake.
    AcceptAfterEffect,
}

/// A consumer with a database of its own; its effect is an event appended there.
#[derive(Debug, Clone)]
pub(super) struct Consumer {
    pub(super) database: MemoryStore,
    pub(super) manner: Manner,
}

impl Consumer {
    /// Takes one message; when it dies half-way (by the bits of `crash`) the broker gives it the message again.
    pub(super) async fn consume(self, id: String, mut crash: u64) {
        loop {
            let dies = crash & 7 == 7;
            crash >>= 3;
            let done = match self.manner {
                Manner::Together => self.together(&id, dies).await,
                Manner::AcceptAfterEffect => self.effect_first(&id, dies).await,
            };
            if done {
                return;
            }
        }
    }

    async fn together(&self, id: &str, dies: bool) -> bool {
        let mut tx = self.database.begin();
        let accepted = self.database.accept(&mut tx, "consumer", id).await.expect("memory accepts");
        if accepted.is_new() {
            self.effect(&mut tx, id).await;
        }
        if dies {
            return false;
        }
        tx.commit();
        true
    }

    async fn effect_first(&self, id: &str, dies: bool) -> bool {
        let known = self.database.inbox(Some("consumer"), Some(id), None, 1).await.expect("memory lists");
        if !known.is_empty() {
            return true;
        }
        let mut tx = self.database.begin();
        self.effect(&mut tx, id).await;
        tx.commit();
        if dies {
            return false;
        }
        let mut tx = self.database.begin();
        let _ = self.database.accept(&mut tx, "consumer", id).await.expect("memory accepts");
        tx.commit();
        true
    }

    async fn effect(&self, tx: &mut postroom_memory::MemoryTx, id: &str) {
        let appended = Outbox::append(&self.database, tx, &Event::new("effect").id(id)).await;
        appended.expect("memory appends").wake();
    }

    /// How often each event had its effect.
    pub(super) fn effects(&self) -> HashMap<String, u32> {
        let mut effects = HashMap::new();
        for event in self.database.events() {
            *effects.entry(event.id.clone()).or_default() += 1;
        }
        effects
    }
}
