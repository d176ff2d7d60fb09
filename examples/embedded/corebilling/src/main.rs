//! A subscription is created and dispatched; its webhook comes three times and its trial starts once.

#![allow(clippy::print_stdout, reason = "what it prints is the example")]

use std::error::Error;

use corebilling::Billing;
use corebilling::downstream::Downstream;
use postroom::config::Sources;
use postroom::postgres::sqlx;
use postroom::with_correlation_id;

const SUBJECT: &str = "subscription.created";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let billing = Billing::open(Sources::of_process(None, None, Vec::new())).await?;
    let downstream = Downstream::open(&billing).await?;

    with_correlation_id("request-31", billing.subscribe(SUBJECT, "sub-1")).await.map_err(|failure| failure.error)?;
    if let Err(failure) = billing.subscribe(SUBJECT, "sub-1").await {
        println!("rolled back, and its event with it: {}", failure.error);
    }
    billing.dispatch().await?;
    show(&billing, "outbox", "subject || ' ' || (payload->>'outbox_status') from billing_events").await?;

    // As the bus carries it; here from the table, so that the example needs no broker.
    let body = "select jsonb_build_object('id', id, 'subject', subject, 'resource_id', resource_id, 'correlation_id', \
                payload->'correlation_id', 'causation_id', payload->'causation_id')::text from billing_events";
    let body: String = sqlx::query_scalar(body).fetch_one(&billing.pool).await?;
    for _ in 0..2 {
        println!("webhook: {:?}", downstream.webhook(body.as_bytes()).await.map_err(|failure| failure.error)?);
    }
    let other = body.replace("request-31", "request-32");
    println!("webhook of another request: {:?}", downstream.webhook(other.as_bytes()).await.map_err(|f| f.error)?);
    show(&billing, "subscription", "id || ' ' || status from subscriptions").await?;
    show(&billing, "welcome mails", "count(*)::text from welcome_mails").await?;
    Ok(())
}

async fn show(billing: &Billing, what: &str, query: &'static str) -> Result<(), sqlx::Error> {
    let rows = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select {query}")));
    for row in rows.fetch_all(&billing.pool).await? as Vec<String> {
        println!("{what}: {row}");
    }
    Ok(())
}
