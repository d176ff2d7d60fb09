//! A further route of a table: entries are made of rows that it has not seen, read, and settled. The table is not written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Budget, Delivery, StoreError};
use serde_json::{Value, json};

use super::Shared;
use super::row::Due;
use super::settle::{Sorted, Write};
use super::take::Read;
use crate::executor::{Row, Statement};
use crate::sql::further::Entries;
use crate::store::clock;

/// Rows that get an entry in one turn.
const SEEN_MAX: usize = 10_000;
/// A look at a backlog that takes longer than this is paid for with nine times its time without one.
const CHEAP: Duration = Duration::from_millis(100);
const PAUSE_TIMES: u32 = 9;

impl Shared {
    /// Reads entries that are due; before that, unless there are more than enough, rows that have none get one.
    pub(super) async fn read_entries(
        &self,
        entries: &Entries,
        term: i64,
        budget: Budget,
        sure: bool,
    ) -> Result<(Vec<Delivery>, bool), StoreError> {
        self.state().turned.clear();
        let unseen = if sure { true } else { self.see(entries, term).await? };
        let in_hand = self.state().rows.clone();
        let take = self.reading(&entries.take, &in_hand, budget.rows).bind(&self.route.name);
        let rows = self.inner.executor.look("take", vec![take]).await?.into_iter().next().unwrap_or_default();
        let full = rows.len() >= budget.rows;
        let mut read = Read::new(budget, false);
        for row in rows {
            if !read.add(self.entry(row)) {
                break;
            }
        }
        let Read { readable, unreadable, full: cut, .. } = read;
        if !unreadable.is_empty() {
            self.settle_unreadable(term, unreadable).await?;
        }
        let mut state = self.state();
        let Some((deliveries, turned)) = self.deliver_read(&mut state, term, readable) else {
            // Lost meanwhile: the next take begins anew.
            return Ok((Vec::new(), true));
        };
        Ok((deliveries, full || cut || turned || unseen))
    }

    /// Makes entries of pending rows that have none; whether there may be more. All of them are looked at, as rows may be committed
    /// anywhere in their order: where the first route is far behind, that takes time, and comes less often.
    async fn see(&self, entries: &Entries, term: i64) -> Result<bool, StoreError> {
        let began = Instant::now();
        if self.state().see_at.is_some_and(|at| began < at) {
            return Ok(false);
        }
        let see = self.writing(&entries.see, SEEN_MAX.to_string(), &clock(), &term.to_string());
        let seen = self.inner.executor.run("take", vec![see]).await?.first().map_or(0, Vec::len);
        let more = seen >= SEEN_MAX;
        let took = began.elapsed();
        self.state().see_at = (!more && took > CHEAP).then(|| Instant::now() + took * PAUSE_TIMES);
        Ok(more)
    }

    /// An entry as it was read: its number in the place of the row, its failed tries as the fence.
    fn entry(&self, row: Row) -> Due {
        let mut columns = row.into_iter();
        let (number, attempts, event) = (columns.next(), columns.next(), columns.next());
        let event: Vec<Option<String>> =
            event.flatten().and_then(|event| serde_json::from_str(&event).ok()).unwrap_or_default();
        let fixed = [number.flatten(), attempts.flatten(), None, None, None];
        Due::read(&self.inner.mapping, self.inner.limits, fixed.into_iter().chain(event).collect())
    }

    /// A statement with the values that all have which write.
    pub(super) fn writing(&self, text: &Arc<str>, list: String, clock: &str, term: &str) -> Statement {
        let statement = Statement::new(Arc::clone(text)).bind(&self.inner.mapping_name).bind(clock).bind(list);
        statement.bind(&self.route.name).bind(&self.relay.boot).bind(term)
    }

    /// What writes verdicts into entries, in one transaction.
    pub(super) fn entry_statements<'s>(&self, entries: &Entries, term: i64, sorted: &'s Sorted) -> Write<'s> {
        let settle = &self.inner.texts.settle;
        let (clock, term) = (clock(), term.to_string());
        let fence = settle.fence.as_ref().map(Arc::clone).map(Statement::new);
        let fence = fence.map(|fence| fence.bind(&self.route.name).bind(&self.relay.boot).bind(&term));
        let mut statements: Vec<Statement> = fence.into_iter().collect();
        let mut add = |text: &Arc<str>, rows: &[Value]| {
            if !rows.is_empty() {
                statements.push(self.writing(text, json!(rows).to_string(), &clock, &term));
            }
            statements.len().saturating_sub(1)
        };
        // What only tells of entries, while they still are as they were read.
        add(&entries.attempts, &sorted.attempts);
        for text in &entries.count {
            add(text, &sorted.done);
        }
        let mut marked: Vec<(usize, &[Value])> = Vec::new();
        for (text, rows) in [(&entries.failed, &sorted.parked), (&entries.done, &sorted.done)] {
            if !rows.is_empty() {
                marked.push((add(text, rows), rows));
            }
        }
        // Behind the entries themselves: the first route may have finished the row while it waited for them.
        add(&entries.leave, &sorted.done);
        add(&settle.failed, &sorted.parked);
        Write { statements, marked }
    }
}
