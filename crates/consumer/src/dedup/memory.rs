//! A window in the memory of one process: gone with it, and known to no other.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postroom_core::{Clock, Failure};

use super::{Confirmation, DedupClaim, DedupTicket, DedupWindow, DedupWindowError, DedupWindowOptions, check};

/// Deduplication window in the memory of this process.
///
/// For a consumer that is one process and whose effects survive a repetition after its restart.
pub struct MemoryDedupWindow {
    length: Duration,
    claim: Duration,
    entries_max: usize,
    start: Instant,
    clock: Option<Arc<dyn Clock>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    /// By when they end; the number tells those apart that end together.
    ends: BTreeMap<(Duration, u64), Key>,
    next: u64,
}

type Key = Arc<(String, String)>;

#[derive(Debug, Clone, Copy)]
struct Entry {
    ends: (Duration, u64),
    done: bool,
}

impl MemoryDedupWindow {
    /// Creates an empty window.
    pub fn new(options: &DedupWindowOptions) -> Result<Self, DedupWindowError> {
        let (length, claim) = options.checked()?;
        let (start, state) = (Instant::now(), Mutex::default());
        Ok(Self { length, claim, entries_max: options.entries_max, start, clock: None, state })
    }

    /// Sets the clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Returns how many events are remembered or claimed.
    pub fn entries(&self) -> usize {
        self.state().0.entries.len()
    }

    /// What is there now, and what time that is. What has ended is gone.
    fn state(&self) -> (MutexGuard<'_, State>, Duration) {
        let now = self.clock.as_ref().map_or_else(|| self.start.elapsed(), |clock| clock.elapsed());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = state.ends.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            state.entries.remove(&key);
        }
        (state, now)
    }
}

impl State {
    /// Puts an entry there, in place of the one that is.
    fn put(&mut self, key: Key, until: Duration, done: bool) -> u64 {
        self.next += 1;
        let ends = (until, self.next);
        if let Some(old) = self.entries.insert(Arc::clone(&key), Entry { ends, done }) {
            self.ends.remove(&old.ends);
        }
        self.ends.insert(ends, key);
        self.next
    }

    /// The entry, if it is the ticket's own.
    fn of(&self, key: &Key, ticket: &DedupTicket) -> Option<Entry> {
        self.entries.get(key).copied().filter(|entry| !entry.done && entry.ends.1.to_string() == ticket.token)
    }
}

impl DedupWindow for MemoryDedupWindow {
    async fn claim(&self, consumer: &str, id: &str) -> Result<DedupClaim, Failure> {
        check(consumer, id)?;
        let key: Key = Arc::new((consumer.to_owned(), id.to_owned()));
        let (mut state, now) = self.state();
        match state.entries.get(&key) {
            Some(entry) if entry.done => return Ok(DedupClaim::Duplicate),
            Some(entry) => return Ok(DedupClaim::Held(entry.ends.0.saturating_sub(now))),
            None if state.entries.len() >= self.entries_max => {
                let error =
                    format!("the window has its {} entries; make it larger with `entries_max`", self.entries_max);
                return Err(Failure::unavailable("dedup.full", error));
            }
            None => {}
        }
        let token = state.put(key, now.saturating_add(self.claim), false).to_string();
        Ok(DedupClaim::New(DedupTicket { consumer: consumer.to_owned(), id: id.to_owned(), token }))
    }

    async fn confirm(&self, ticket: DedupTicket) -> Result<Confirmation, Failure> {
        let key: Key = Arc::new((ticket.consumer.clone(), ticket.id.clone()));
        let (mut state, now) = self.state();
        let ours = state.of(&key, &ticket).is_some();
        // Late or not: the effect is there, and must not happen again.
        state.put(key, now.saturating_add(self.length), true);
        Ok(if ours { Confirmation::InTime } else { Confirmation::Late })
    }

    async fn release(&self, ticket: DedupTicket) -> Result<(), Failure> {
        let key: Key = Arc::new((ticket.consumer.clone(), ticket.id.clone()));
        let (mut state, _) = self.state();
        if let Some(entry) = state.of(&key, &ticket) {
            state.ends.remove(&entry.ends);
            state.entries.remove(&key);
        }
        Ok(())
    }
}

impl fmt::Debug for MemoryDedupWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDedupWindow").field("length", &self.length).finish_non_exhaustive()
    }
}
