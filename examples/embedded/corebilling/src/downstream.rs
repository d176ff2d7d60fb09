//! Who gets the events: a webhook that knows repeats, and a subscription that takes each step once.

use std::error::Error;
use std::time::Duration;

use postroom::dedup::{DedupOutcome, DedupWindowOptions, MemoryDedupWindow, run_once};
use postroom::postgres::sqlx::{self, PgPool};
use postroom::postgres::{PoolTransactions, PostgresStateGuard, StateTable};
use postroom::{Failure, StateGuard as _, Transactions as _, Transitions};
use serde::Deserialize;

use crate::Billing;

/// How long after an event an operator may replay it.
pub const REPLAYS: Duration = Duration::from_hours(24);

/// What is on the bus.
#[derive(Debug, Clone, Deserialize)]
pub struct Envelope {
    /// The row's id: a row that is inserted again has another one.
    pub id: String,
    /// What happened.
    pub subject: String,
    /// To what.
    pub resource_id: String,
    /// What it belongs to.
    pub correlation_id: String,
    /// What caused it.
    pub causation_id: Option<String>,
}

impl Envelope {
    /// The same for every delivery of an event, also when its row was inserted again.
    pub fn fingerprint(&self) -> String {
        let Self { subject, resource_id, correlation_id, causation_id, .. } = self;
        format!("{subject} {resource_id} {correlation_id} {}", causation_id.as_deref().unwrap_or("-"))
    }
}

/// The receiver.
#[derive(Debug)]
pub struct Downstream {
    pool: PgPool,
    tracker: MemoryDedupWindow,
    subscriptions: PostgresStateGuard,
}

impl Downstream {
    /// A receiver that remembers longer than the dispatcher tries and operators replay. Ten minutes would not do.
    pub async fn open(billing: &Billing) -> Result<Self, Box<dyn Error>> {
        let window = DedupWindowOptions::new(&billing.retries()).redelivery(REPLAYS).length(2 * REPLAYS);
        let steps = Transitions::new("subscription").allow("created", "trialing").allow("trialing", "active");
        Ok(Self {
            pool: billing.pool.clone(),
            tracker: MemoryDedupWindow::new(&window)?,
            subscriptions: PostgresStateGuard::open(&billing.pool, &StateTable::new("subscriptions")?, steps).await?,
        })
    }

    /// Takes what a webhook brings: once per correlation and causation, whatever the id of its row.
    pub async fn webhook(&self, body: &[u8]) -> Result<DedupOutcome, Failure> {
        let envelope: Envelope = serde_json::from_slice(body)?;
        run_once(&self.tracker, "webhook", &envelope.fingerprint(), self.start_trial(&envelope.resource_id)).await
    }

    /// Starts a trial. A repeat is nothing; a subscription that is past it is refused.
    pub async fn start_trial(&self, subscription: &str) -> Result<(), Failure> {
        let mut tx = PoolTransactions::of(&self.pool).begin().await?;
        if self.subscriptions.advance(&mut tx, subscription, "trialing").await?.is_taken()? {
            sqlx::query("insert into welcome_mails values ($1)").bind(subscription).execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}
