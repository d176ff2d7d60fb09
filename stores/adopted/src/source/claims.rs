//! Claims in columns: rows say that they are claimed, since when and how often. The last is the fence.

use std::sync::Arc;

use postroom_core::faults::{self, Fault};
use postroom_core::{Budget, Delivery, Failure, StoreError};
use serde_json::{Value, json};

use super::row::Due;
use super::settle::Sorted;
use super::{PendingRow, SHARED, Shared};
use crate::executor::{Dialect, Row, Statement};
use crate::mapping::Claimed;
use crate::sql::Claims;
use crate::store::clock;

impl Shared {
    /// Claims what is due. What was claimed again and again and never got a verdict is given up.
    pub(super) async fn claim(
        &self,
        claims: &Claims,
        claimed: &Claimed,
        budget: Budget,
    ) -> Result<(Vec<Delivery>, bool), StoreError> {
        let share = self.state().share(budget.rows);
        let rows = self.claimed_rows(claims, budget.rows, share).await?;
        // One kind may have used up its share, and the other has left some of its own.
        let more = !rows.is_empty() && rows.len() >= share.min(budget.rows - share);
        let (mut good, mut bad) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let Due { row, attempts, was, excused, event, .. } = self.due(row);
            let fence: u32 = was.parse().unwrap_or_default();
            let excused = if faults::is(Fault::UntriedClaimsCount) { 0 } else { excused };
            let abandoned = fence.saturating_sub(1).saturating_sub(excused);
            let worn_out = claimed.claims_max.is_some_and(|max| abandoned >= max);
            let out = PendingRow { fence: Some(fence), excused: excused > 0, ..PendingRow::read(row, attempts, None) };
            match event {
                Ok(_) if worn_out => {
                    let why = format!("it was claimed {abandoned} times and never finished");
                    bad.push((out, Failure::permanent("mapping.abandoned", why)));
                }
                Err(why) if !self.offers_unreadable() => bad.push(why.of(out)),
                event => good.push((out, event)),
            }
        }
        if !bad.is_empty() {
            self.settle_unreadable(SHARED.term, bad).await?;
        }
        let mut processed = Sorted::default();
        let good = self.unprocessed(good, &mut processed).await?;
        if !processed.is_empty() {
            self.write(SHARED.term, &processed).await?;
        }
        let mut state = self.state();
        let deliveries =
            good.into_iter().map(|(out, event)| self.deliver_or_refuse(&mut state, SHARED, out, event)).collect();
        Ok((deliveries, more))
    }

    /// Claims so many rows, of which so many may have failed before.
    async fn claimed_rows(&self, claims: &Claims, limit: usize, share: usize) -> Result<Vec<Row>, StoreError> {
        let (inner, executor) = (&self.inner, &self.inner.executor);
        let (in_hand, clock) = (json!(self.state().rows).to_string(), clock());
        let of = |text: &Arc<str>, list: &str| {
            Statement::new(Arc::clone(text)).bind(&inner.mapping_name).bind(&clock).bind(list)
        };
        let claim = of(&claims.claim, &in_hand).bind(limit.to_string()).bind(share.to_string());
        let rows = executor.run("take", vec![claim]).await?.into_iter().next().unwrap_or_default();
        if executor.dialect() == Dialect::Postgres || rows.is_empty() {
            return Ok(rows);
        }
        let ids: Vec<&str> = rows.iter().filter_map(|row| row.first()?.as_deref()).collect();
        let found = executor.look("take", vec![of(&claims.claimed, &json!(ids).to_string())]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Gives up what is in our hands, so that others need not wait until the claims are over.
    pub(super) async fn give_claims_back(&self) -> Result<(), StoreError> {
        let mut sorted = Sorted::default();
        self.state().out.values().for_each(|out| sorted.give_back(out));
        if sorted.is_empty() { Ok(()) } else { self.write(SHARED.term, &sorted).await.map(drop) }
    }

    /// The renewal of what is in our hands; nothing when that is nothing.
    pub(super) fn refresh(&self, claims: &Claims) -> Option<Statement> {
        let rows: Vec<Value> = self
            .state()
            .out
            .values()
            .map(|out| json!({"id": out.row, "fence": out.fence.map(|n| n.to_string())}))
            .collect();
        let statement = Statement::new(Arc::clone(&claims.refresh)).bind(&self.inner.mapping_name).bind(clock());
        (!rows.is_empty()).then(|| statement.bind(json!(rows).to_string()))
    }
}
