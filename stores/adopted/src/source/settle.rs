//! Writing what became of rows: one transaction, nothing of it if the table is no longer ours.

use std::collections::HashSet;
use std::sync::Arc;

use postroom_core::faults::{self, Fault};
use postroom_core::{Failure, FailureKind, Ownership, Settlement, StoreError, Verdict};
use serde_json::{Value, json};

use super::{PendingRow, Shared};
use crate::executor::{Rows, Statement};
use crate::mapping::{Death, Mapping};
use crate::store::clock;

/// Settlements by what they write.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) done: Vec<Value>,
    retry: Vec<Value>,
    dead: Vec<Value>,
    /// What the side table learns.
    pub(super) parked: Vec<Value>,
    /// What it forgets.
    clear: Vec<Value>,
    pub(super) attempts: Vec<Value>,
    /// Claims that are given back.
    back: Vec<Value>,
}

impl Sorted {
    /// Rows that have a verdict.
    fn tried(&self) -> Vec<Value> {
        let tried = self.done.iter().chain(&self.parked);
        tried.map(|row| json!({"id": row["id"], "fence": row["fence"]})).collect()
    }
}

/// A write that is put together: the statements, and which of them bring the rows that agreed to what.
pub(super) struct Write<'s> {
    pub(super) statements: Vec<Statement>,
    pub(super) marked: Vec<(usize, &'s [Value])>,
}

/// What is known of a death.
#[derive(Clone, Copy)]
struct Dead {
    /// `"1"` where the row stays as it is, and only the side table says that it is dead.
    held: &'static str,
}

/// One failure on its way into the tables.
struct Failed<'a> {
    out: &'a PendingRow,
    attempts: u32,
    after_ms: u128,
    dead: Option<Dead>,
    failure: &'a Failure,
    took_ms: u128,
}

impl Shared {
    pub(super) async fn settle(&self, settlements: &[Settlement]) -> Result<Ownership, StoreError> {
        let mut sorted = Sorted::default();
        let current = {
            let state = self.state();
            for settlement in settlements.iter().filter(|settlement| Some(settlement.lane) == state.lane()) {
                if let Some(out) = state.out.get(&settlement.handle) {
                    sorted.add(&self.inner.mapping, out, settlement);
                }
            }
            state.lane()
        };
        let kept = match current {
            Some(lane) if !sorted.is_empty() => self.write(lane.term, &sorted).await?,
            _ => true,
        };
        let mut state = self.state();
        if !kept && state.lane() == current {
            state.lose();
        }
        let ours = state.lane();
        for settlement in settlements.iter().filter(|settlement| Some(settlement.lane) == ours) {
            let out = state.remove(settlement.handle);
            if let Some(out) = out.filter(|_| !matches!(settlement.verdict, Verdict::Delivered(_))) {
                state.turn(out);
            }
        }
        let mut lost: Vec<_> = settlements.iter().map(|s| s.lane).filter(|lane| Some(*lane) != ours).collect();
        lost.dedup();
        state.lost.retain(|lane| !lost.contains(lane));
        let mut ownership = state.ownership(false);
        ownership.lost.extend(lost);
        Ok(ownership)
    }

    /// Gives rows up that hold no event.
    pub(super) async fn settle_unreadable(
        &self,
        term: i64,
        rows: Vec<(PendingRow, Failure)>,
    ) -> Result<(), StoreError> {
        let mut sorted = Sorted::default();
        for (out, failure) in rows {
            self.give_up(&mut sorted, &out, &failure);
        }
        self.write(term, &sorted).await.map(drop)
    }

    /// Gives a row up without a try.
    pub(super) fn give_up(&self, sorted: &mut Sorted, out: &PendingRow, failure: &Failure) {
        tracing::warn!(
            route = self.route.name,
            row = out.row,
            code = &*failure.code,
            error = failure.error,
            "row became a dead letter: it cannot be delivered"
        );
        let attempts = out.attempts.saturating_add(1);
        let dead = Some(Dead { held: self.inner.mapping.held(false) });
        sorted.failed(&Failed { out, attempts, after_ms: 0, dead, failure, took_ms: 0 });
    }

    /// Writes them; false when the table is no longer ours, and nothing was written.
    pub(super) async fn write(&self, term: i64, sorted: &Sorted) -> Result<bool, StoreError> {
        let write = self.statements(term, sorted);
        let results = self.inner.executor.run("settle", write.statements).await?;
        if self.inner.mapping.has_owner() && results.first().is_none_or(Vec::is_empty) {
            return Ok(false);
        }
        for (n, rows) in write.marked {
            self.compare(results.get(n), rows);
        }
        Ok(true)
    }

    /// What writes them, in one transaction.
    pub(super) fn statements<'s>(&self, term: i64, sorted: &'s Sorted) -> Write<'s> {
        if let Some(entries) = &self.entries {
            return self.entry_statements(entries, term, sorted);
        }
        let inner = &self.inner;
        let entering = inner.texts.entering.as_ref();
        let (tried, several) = (entering.map(|_| sorted.tried()).unwrap_or_default(), self.state().several);
        let texts = &inner.texts.settle;
        let (clock, term) = (clock(), term.to_string());
        let fence = texts.fence.as_ref().map(Arc::clone).map(Statement::new);
        let fence = fence.map(|fence| fence.bind(&self.route.name).bind(&self.relay.boot).bind(&term));
        let mut statements: Vec<Statement> = fence.into_iter().collect();
        let mut add = |text: &Arc<str>, rows: &[Value]| {
            if !rows.is_empty() {
                statements.push(self.writing(text, json!(rows).to_string(), &clock, &term));
            }
            statements.len().saturating_sub(1)
        };
        // Before anything else, and whether or not we know of further routes: one may have been registered just now.
        if let Some(entering) = entering.filter(|_| !faults::is(Fault::FurtherIsForgotten)) {
            add(&entering.enter, &tried);
        }
        // What only tells of rows, while they still are pending.
        add(&texts.attempts, &sorted.attempts);
        add(&texts.parked, &sorted.parked);
        if let Some(claims) = &self.takes.claims {
            add(&claims.excused, &sorted.back);
        }
        for text in &inner.texts.dead_letters {
            add(text, &sorted.dead);
        }
        if let Some(consumer) = &self.consumer {
            add(&consumer.texts.record, &sorted.done);
        }
        for text in &texts.count {
            add(text, &sorted.done);
        }
        // Where a dead row is stamped like a done one, somebody may have made it pending again by hand: it is dead no more.
        let clear = if inner.mapping.death == Death::AsDone { &sorted.done } else { &sorted.clear };
        add(&texts.clear, clear);
        // The rows themselves; back come those that agreed. Those that are done last, because that counts them: who holds the
        // route's row waits for no other.
        let mut marked: Vec<(usize, &[Value])> = Vec::new();
        let mut mark = |text: Option<&Arc<str>>, rows: &'s [Value]| {
            if let Some(text) = text.filter(|_| !rows.is_empty()) {
                marked.push((add(text, rows), rows));
            }
        };
        mark(texts.retry.as_ref(), &sorted.retry);
        mark(texts.dead.first(), &sorted.dead);
        mark(self.takes.claims.as_ref().map(|claims| &claims.settled_back), &sorted.back);
        mark(texts.done.first(), &sorted.done);
        for (rest, rows) in [(&texts.done, &sorted.done), (&texts.dead, &sorted.dead)] {
            for text in rest.iter().skip(1) {
                add(text, rows);
            }
        }
        if let Some(entering) = entering.filter(|_| several) {
            for text in entering.lock.iter().chain([&entering.leave]) {
                add(text, &tried);
            }
        }
        // Behind what counts the done ones, so that relays that share a table lock the minute in one order.
        add(&texts.failed, &sorted.parked);
        Write { statements, marked }
    }

    /// Says which rows somebody else has changed while they were in our hands. Their change stays.
    pub(super) fn compare(&self, results: Option<&Rows>, rows: &[Value]) {
        let agreed: HashSet<&str> = results.into_iter().flatten().filter_map(|row| row.first()?.as_deref()).collect();
        for row in rows.iter().filter_map(|row| row["id"].as_str()).filter(|row| !agreed.contains(row)) {
            tracing::warn!(
                route = self.route.name,
                row,
                "another program changed the row while it was being delivered; that change is kept"
            );
        }
    }
}

impl Sorted {
    pub(super) fn is_empty(&self) -> bool {
        self.done.is_empty() && self.parked.is_empty() && self.back.is_empty()
    }

    pub(super) fn add(&mut self, mapping: &Mapping, out: &PendingRow, settlement: &Settlement) {
        let took_ms = settlement.took.as_millis();
        match &settlement.verdict {
            Verdict::Delivered(_) => self.delivered(out),
            Verdict::Retry { attempts, after, failure } => {
                let after_ms = after.as_millis();
                self.failed(&Failed { out, attempts: *attempts, after_ms, dead: None, failure, took_ms });
            }
            Verdict::Dead { attempts, failure, published } => {
                let dead = Some(Dead { held: mapping.held(*published) });
                self.failed(&Failed { out, attempts: *attempts, after_ms: 0, dead, failure, took_ms });
            }
            Verdict::Returned => self.give_back(out),
        }
    }

    pub(super) fn delivered(&mut self, out: &PendingRow) {
        self.done.push(json!({"id": out.row, "fence": fence(out), "event_id": out.event_id}));
        if out.attempts > 0 || out.excused {
            self.clear.push(json!({"id": out.row}));
        }
    }

    /// A row that was not tried; nothing to write unless it says that it is claimed.
    pub(super) fn give_back(&mut self, out: &PendingRow) {
        if out.fence.is_some() {
            self.back.push(json!({"id": out.row, "fence": fence(out), "event_id": out.event_id}));
        }
    }

    fn failed(&mut self, failed: &Failed<'_>) {
        let Failed { out, attempts, after_ms, dead, failure, took_ms } = failed;
        let text = |value: &dyn std::fmt::Display| value.to_string();
        // Neither database can hold a zero byte.
        let error = failure.error.replace('\0', "\u{fffd}");
        let row = json!({
            "id": out.row, "fence": fence(out), "attempts": text(attempts), "after": text(after_ms), "error": error,
            "errors": errors(failure),
        });
        let held = dead.map_or("0", |dead| dead.held);
        match dead {
            Some(_) if held == "1" => {}
            Some(_) => self.dead.push(row),
            None => self.retry.push(row),
        }
        let state = if dead.is_some() { "dead" } else { "retrying" };
        self.parked.push(json!({
            "id": out.row, "fence": fence(out), "event_id": out.event_id, "key": out.key, "state": state, "after": text(after_ms),
            "attempts": text(attempts), "code": failure.code, "error": error, "excused": excused(out, failure), "held": held,
        }));
        let outcome = if failure.kind == FailureKind::Permanent { "permanent" } else { "transient" };
        self.attempts.push(json!({
            "id": out.row, "fence": fence(out), "attempt": text(attempts), "outcome": outcome, "code": failure.code, "error": error,
            "took_ms": text(took_ms), "handlers": json!(failure.handlers).to_string(),
        }));
    }
}

/// How many claims of a row did not run out, where rows are claimed: all up to one that ended with a verdict. One that ended
/// with its handler's process did run out, as if the relay had gone with it.
fn excused(out: &PendingRow, failure: &Failure) -> Option<String> {
    (failure.kind != FailureKind::Crashed).then(|| out.fence.unwrap_or_default().to_string())
}

/// How often a row was claimed, as its statements want it.
fn fence(out: &PendingRow) -> Option<String> {
    out.fence.map(|claims| claims.to_string()).or_else(|| out.was.clone())
}

/// Errors by handler, as a log of rows keeps them.
fn errors(failure: &Failure) -> String {
    if failure.handlers.is_empty() {
        return json!([{"error": failure.error.replace('\0', "\u{fffd}")}]).to_string();
    }
    json!(failure.handlers).to_string()
}
