//! Producers: transactions that append, roll back to savepoints, are prepared, and end one way or the other.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::Event;

use crate::destination::lock;
use crate::ledger::Written;
use crate::relay::Process;
use crate::schedule::Run;
use crate::sites::Transaction;

/// A producer's open transaction.
pub(crate) struct Producer {
    tx: Box<dyn Transaction>,
    keys: Vec<String>,
    ids: Vec<String>,
    /// What was appended since the savepoint, if there is one.
    since: Option<usize>,
    prepared: bool,
}

impl Run {
    /// One step of some producer.
    pub(crate) async fn produce(&mut self) {
        if self.appended >= self.plan.events && self.producers.is_empty() {
            return;
        }
        if self.producers.is_empty() || (self.producers.len() < self.site.traits().writers && self.rng.u8(0..3) == 0) {
            if self.appended < self.plan.events {
                self.begin().await;
                self.append(self.producers.len() - 1).await;
            }
            return;
        }
        let which = self.rng.usize(0..self.producers.len());
        let prepared = self.producers[which].prepared;
        match self.rng.u8(0..20) {
            0..=5 if !prepared && self.appended < self.plan.events => self.append(which).await,
            6 if !prepared && self.producers[which].since.is_none() => {
                self.say(format!("producer {which}: savepoint"));
                let mut producer = self.producers.swap_remove(which);
                self.through(producer.tx.savepoint()).await;
                producer.since = Some(producer.ids.len());
                self.producers.push(producer);
            }
            7 if !prepared && self.producers[which].since.is_some() => {
                self.say(format!("producer {which}: rollback to savepoint"));
                let mut producer = self.producers.swap_remove(which);
                self.through(producer.tx.rollback_to_savepoint()).await;
                let undone = producer.ids.split_off(producer.since.unwrap_or(0));
                lock(&self.ledger).ended(&undone, Written::Undone);
                self.producers.push(producer);
            }
            8 if !prepared && self.site.traits().prepares => {
                self.say(format!("producer {which}: prepare"));
                let mut producer = self.producers.swap_remove(which);
                producer.tx = self.through(producer.tx.prepare()).await;
                producer.prepared = true;
                self.producers.push(producer);
            }
            9 | 10 => self.end(which, Written::Undone).await,
            _ => self.end(which, Written::Committed).await,
        }
    }

    /// Another producer begins.
    pub(crate) async fn begin(&mut self) {
        let site = Arc::clone(&self.site);
        let tx = self.through(async move { site.begin().await }).await;
        self.producers.push(Producer { tx, keys: Vec::new(), ids: Vec::new(), since: None, prepared: false });
    }

    async fn append(&mut self, which: usize) {
        let key = format!("k{}", self.rng.u64(0..self.plan.keys));
        // Writers of a key come one after the other: that is what order is promised for.
        let busy = self.producers.iter().enumerate().any(|(n, producer)| n != which && producer.keys.contains(&key));
        let key = if self.rng.u8(0..12) == 0 || busy { None } else { Some(key) };
        let event_type = if self.rng.u8(0..25) == 0 { "poison" } else { "order" };
        let delayed = self.rng.u8(0..25) == 0 && self.site.traits().delays;
        let wait = delayed.then(|| Duration::from_millis(self.rng.u64(1..2000)));
        self.append_one(which, key.as_deref(), event_type, wait).await;
    }

    /// Appends an ordinary event of this key; returns its id.
    pub(crate) async fn append_of(&mut self, which: usize, key: Option<&str>) -> String {
        self.append_one(which, key, "order", None).await
    }

    async fn append_one(
        &mut self,
        which: usize,
        key: Option<&str>,
        event_type: &str,
        wait: Option<Duration>,
    ) -> String {
        self.appended += 1;
        let id = format!("e{:03}", self.appended);
        let mut event = Event::new(event_type).id(id.as_str());
        if let Some(key) = key {
            event = event.key(key);
        }
        if let Some(wait) = wait {
            let at = postroom_core::Clock::now(&self.clock).checked_add(wait).expect("a time of this century");
            event = event.available_at(at);
        }
        lock(&self.ledger).append(&id, key, wait.is_some());
        let mut producer = self.producers.remove(which);
        self.through(producer.tx.append(&event)).await;
        producer.ids.push(id.clone());
        producer.keys.extend(key.map(str::to_owned));
        self.producers.insert(which, producer);
        let later = if wait.is_some() { ", later" } else { "" };
        self.say(format!("producer {which}: {id} of {}{later}", key.unwrap_or("no key")));
        id
    }

    pub(crate) async fn end(&mut self, which: usize, how: Written) {
        let Producer { tx, ids, .. } = self.producers.swap_remove(which);
        self.say(format!("producer {which}: {how:?} {ids:?}"));
        // Before the store can show it to anybody, and after it could have for the last time.
        if how == Written::Committed {
            lock(&self.ledger).ended(&ids, how);
            self.through(tx.commit()).await;
        } else {
            self.through(tx.rollback()).await;
            lock(&self.ledger).ended(&ids, how);
        }
        self.relays.iter_mut().for_each(Process::may_be_free);
    }

    /// Where there is one writer at a time, the producer ends before somebody else must write.
    pub(crate) async fn make_way(&mut self) {
        while self.site.traits().writers == 1 && !self.producers.is_empty() {
            let how = if self.rng.bool() { Written::Committed } else { Written::Undone };
            self.end(0, how).await;
        }
    }
}
