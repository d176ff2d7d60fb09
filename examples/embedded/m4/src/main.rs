//! A station's window is closed, its settlement fails for want of a tariff, and is replayed.

#![allow(clippy::print_stdout, reason = "what it prints is the example")]

use std::error::Error;

use m4::M4;
use postroom::postgres::sqlx;
use postroom::with_correlation_id;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let m4 = M4::open(&std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?).await?;

    if let Err(failure) = m4.close_window("station-9", -1).await {
        println!("rolled back, and its event with it: {}", failure.error);
    }
    with_correlation_id("request-31", m4.close_window("station-9", 42)).await.map_err(|failure| failure.error)?;
    m4.dispatch().await?;
    show(&m4, "dead letter", "event_type || ': ' || error from dead_letter_events").await?;

    sqlx::query("insert into tariffs values ('station-9', 20)").execute(&m4.pool).await?;
    println!("a tariff is there: {} replayed", m4.replay("example").await?);
    m4.dispatch().await?;
    let row =
        "event_type || ' ' || status || ', ' || (payload->>'correlation_id') from event_outbox order by created_at, id";
    show(&m4, "outbox", row).await?;
    show(&m4, "done by", "distinct consumer_name from processed_events order by 1").await?;
    show(&m4, "dashboard updates", "updates::text from dashboards").await?;
    show(&m4, "invoice", "cents || ' cents' from invoices").await?;
    Ok(())
}

async fn show(m4: &M4, what: &str, query: &'static str) -> Result<(), sqlx::Error> {
    let rows = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select {query}")));
    for row in rows.fetch_all(&m4.pool).await? as Vec<String> {
        println!("{what}: {row}");
    }
    Ok(())
}
