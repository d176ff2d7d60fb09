//! The billing outbox on Postroom: its table as it was, its dispatcher gone.

pub mod downstream;
pub mod outbox;

use std::error::Error;
use std::sync::Arc;

use postroom::config::{Config, Preset, RunOptions, Sources, load, run};
use postroom::observe::NoObserver;
use postroom::postgres::PoolTransactions;
use postroom::postgres::sqlx::{self, PgPool};
use postroom::{Event, Failure, RetryPolicy, Transactions as _};
use serde_json::json;

/// What the domain works with, beside the events.
const BUSINESS: &str = "
    create table subscriptions (id text primary key, status text not null);
    create table welcome_mails (subscription text);";

/// The billing service.
#[derive(Debug)]
pub struct Billing {
    /// Its database.
    pub pool: PgPool,
    config: Config,
}

impl Billing {
    /// Opens the database that `DATABASE_URL` names, and makes the tables in one that has none. `EVENT_BUS` says where events go.
    pub async fn open(sources: Sources) -> Result<Self, Box<dyn Error>> {
        let config = load(&Sources { preset: Some("corebilling".to_owned()), ..sources })?;
        let url = &config.stores.first().ok_or("the preset has a store")?.url;
        let pool = PgPool::connect(url.expose()).await?;
        let there = "select to_regclass('billing_events') is not null";
        if !sqlx::query_scalar::<_, bool>(there).fetch_one(&pool).await? {
            let ddl = Preset::named("corebilling").ok_or("the preset is part of Postroom")?.ddl();
            sqlx::raw_sql(sqlx::AssertSqlSafe(ddl + BUSINESS)).execute(&pool).await?;
        }
        Ok(Self { pool, config })
    }

    /// Creates a subscription: it and its event are one commit. A second one of that name takes its event back.
    pub async fn subscribe(&self, subject: &str, subscription: &str) -> Result<(), Failure> {
        let mut tx = PoolTransactions::of(&self.pool).begin().await?;
        let event = Event::new(subject).id(postroom::new_ulid()).tenant("acme").aggregate("subscription", subscription);
        outbox::insert(&mut tx, &event.json(&json!({ "plan": "yearly" }))?).await?;
        let created = sqlx::query("insert into subscriptions values ($1, 'created') on conflict do nothing");
        if created.bind(subscription).execute(&mut *tx).await?.rows_affected() == 0 {
            return Err(Failure::permanent("billing.exists", format!("there is a subscription {subscription}")));
        }
        Ok(tx.commit().await?)
    }

    /// The dispatcher: publishes what is pending to the bus, and returns.
    pub async fn dispatch(&self) -> Result<(), Box<dyn Error>> {
        let mut options = RunOptions::default();
        options.drain = true;
        Ok(run(&self.config, options, Arc::new(NoObserver), std::future::pending()).await?)
    }

    /// How events are tried again.
    pub fn retries(&self) -> RetryPolicy {
        self.config.routes.first().map(|route| route.retry.clone()).unwrap_or_default()
    }
}
