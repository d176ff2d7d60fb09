//! Writing what became of rows: one transaction, nothing of it if the table is no longer ours.

use std::collections::HashSet;
use std::sync::Arc;

use postroom_core::{Failure, FailureKind, Settlement, Standing, StoreError, Verdict};
use serde_json::{Value, json};

use super::{Out, Shared, State};
use crate::ground::{Rows, Statement};
use crate::store::clock;

/// Settlements by what they write.
#[derive(Debug, Default)]
struct Sorted {
    done: Vec<Value>,
    retry: Vec<Value>,
    dead: Vec<Value>,
    /// What the side table learns.
    aside: Vec<Value>,
    /// What it forgets.
    clear: Vec<Value>,
    attempts: Vec<Value>,
}

/// One failure on its way into the tables.
struct Failed<'a> {
    out: &'a Out,
    attempts: u32,
    after_ms: u128,
    is_dead: bool,
    failure: &'a Failure,
    took_ms: u128,
}

impl Shared {
    pub(super) async fn settle(&self, settlements: &[Settlement]) -> Result<Standing, StoreError> {
        let mut state = self.state.lock().await;
        let mut sorted = Sorted::default();
        for settlement in settlements.iter().filter(|settlement| Some(settlement.lane) == state.lane()) {
            if let Some(out) = state.out.get(&settlement.handle) {
                sorted.add(out, settlement);
            }
        }
        if !sorted.is_empty() && !self.write(&mut state, &sorted).await? {
            return Ok(state.standing(false));
        }
        let current = state.lane();
        let mut lost: Vec<_> = settlements.iter().map(|s| s.lane).filter(|lane| Some(*lane) != current).collect();
        for settlement in settlements.iter().filter(|settlement| Some(settlement.lane) == current) {
            state.remove(settlement.handle);
        }
        lost.dedup();
        state.lost.retain(|lane| !lost.contains(lane));
        let mut standing = state.standing(false);
        standing.lost.extend(lost);
        Ok(standing)
    }

    /// Gives rows up that hold no event.
    pub(super) async fn bury(&self, state: &mut State, rows: Vec<(String, u32, Failure)>) -> Result<(), StoreError> {
        let mut sorted = Sorted::default();
        for (row, attempts, failure) in rows {
            tracing::warn!(route = self.route.name, row, error = failure.error, "a row holds no event: dead letter");
            let out = Out { event_id: row.clone(), row, key: None, attempts };
            let attempts = attempts.saturating_add(1);
            sorted.failed(&Failed { out: &out, attempts, after_ms: 0, is_dead: true, failure: &failure, took_ms: 0 });
        }
        self.write(state, &sorted).await.map(drop)
    }

    /// Writes them; false when the table is no longer ours.
    async fn write(&self, state: &mut State, sorted: &Sorted) -> Result<bool, StoreError> {
        let (Some(term), inner) = (state.term, &self.inner) else { return Ok(false) };
        let texts = &inner.texts.settle;
        let (clock, term) = (clock(), term.to_string());
        let on_rows = |text: &Arc<str>, rows: &[Value]| {
            Statement::new(Arc::clone(text))
                .bind(&inner.layout_name)
                .bind(&clock)
                .bind(json!(rows).to_string())
                .bind(&self.route.name)
                .bind(&self.relay.boot)
                .bind(&term)
        };
        let fence = Statement::new(Arc::clone(&texts.fence)).bind(&self.route.name).bind(&self.relay.boot).bind(&term);
        let mut statements = vec![fence];
        if !sorted.dead.is_empty() {
            // The letter first, while the row still is pending.
            statements.extend(inner.texts.bury.iter().map(|text| on_rows(text, &sorted.dead)));
        }
        // Which results are rows of the adopted table, and how many of them there should be.
        let mut expected = Vec::new();
        let on_table = [
            (Some(&texts.done), &sorted.done),
            (texts.retry.as_ref(), &sorted.retry),
            (texts.dead.as_ref(), &sorted.dead),
        ];
        for (text, rows) in on_table {
            if let Some(text) = text
                && !rows.is_empty()
            {
                expected.push((statements.len(), rows));
                statements.push(on_rows(text, rows));
            }
        }
        if !sorted.aside.is_empty() {
            statements.push(on_rows(&texts.aside, &sorted.aside));
        }
        if !sorted.clear.is_empty() {
            let statement = Statement::new(Arc::clone(&texts.clear)).bind(&inner.layout_name);
            statements.push(statement.bind(json!(sorted.clear).to_string()));
        }
        if !sorted.attempts.is_empty() {
            let statement = Statement::new(Arc::clone(&texts.attempts)).bind(&inner.layout_name).bind(&clock);
            statements.push(statement.bind(json!(sorted.attempts).to_string()));
        }
        let [total, stat] = &texts.count;
        let (done, retried, dead) = (sorted.done.len(), sorted.retry.len(), sorted.dead.len());
        statements.push(Statement::new(Arc::clone(total)).bind(&self.route.name).bind(done.to_string()));
        let stat = Statement::new(Arc::clone(stat)).bind(&self.route.name).bind(&clock);
        statements.push(stat.bind(done.to_string()).bind(retried.to_string()).bind(dead.to_string()));

        let results = inner.ground.run("settle", statements).await?;
        if results.first().is_none_or(Vec::is_empty) {
            state.lose();
            return Ok(false);
        }
        for (n, rows) in expected {
            self.compare(results.get(n), rows);
        }
        Ok(true)
    }

    /// Says which rows somebody else has changed while they were in our hands. Their change stays.
    fn compare(&self, results: Option<&Rows>, rows: &[Value]) {
        let agreed: HashSet<&str> = results.into_iter().flatten().filter_map(|row| row.first()?.as_deref()).collect();
        for row in rows.iter().filter_map(|row| row["id"].as_str()).filter(|row| !agreed.contains(row)) {
            tracing::warn!(
                route = self.route.name,
                row,
                "somebody else changed this row while it was being delivered; their change stays"
            );
        }
    }
}

impl Sorted {
    fn is_empty(&self) -> bool {
        self.done.is_empty() && self.retry.is_empty() && self.dead.is_empty()
    }

    fn add(&mut self, out: &Out, settlement: &Settlement) {
        let took_ms = settlement.took.as_millis();
        match &settlement.verdict {
            Verdict::Delivered(_) => {
                self.done.push(json!({"id": out.row}));
                if out.attempts > 0 {
                    self.clear.push(json!({"id": out.row}));
                }
            }
            Verdict::Retry { attempts, after, failure } => {
                let after_ms = after.as_millis();
                self.failed(&Failed { out, attempts: *attempts, after_ms, is_dead: false, failure, took_ms });
            }
            Verdict::Dead { attempts, failure } => {
                self.failed(&Failed { out, attempts: *attempts, after_ms: 0, is_dead: true, failure, took_ms });
            }
            Verdict::Returned => {}
        }
    }

    fn failed(&mut self, failed: &Failed<'_>) {
        let Failed { out, attempts, after_ms, is_dead, failure, took_ms } = failed;
        let text = |value: &dyn std::fmt::Display| value.to_string();
        // Neither database can hold a zero byte.
        let error = failure.error.replace('\0', "\u{fffd}");
        let row = json!({"id": out.row, "event_id": out.event_id, "attempts": text(attempts), "after": text(after_ms), "error": error});
        if *is_dead {
            self.dead.push(row);
        } else {
            self.retry.push(row);
        }
        let state = if *is_dead { "dead" } else { "retrying" };
        self.aside.push(json!({
            "id": out.row, "event_id": out.event_id, "key": out.key, "state": state, "after": text(after_ms),
            "attempts": text(attempts), "code": failure.code, "error": error,
        }));
        let outcome = if failure.kind == FailureKind::Permanent { "permanent" } else { "transient" };
        self.attempts.push(json!({
            "id": out.row, "attempt": text(attempts), "outcome": outcome, "code": failure.code, "error": error,
            "took_ms": text(took_ms), "handlers": json!(failure.handlers).to_string(),
        }));
    }
}
