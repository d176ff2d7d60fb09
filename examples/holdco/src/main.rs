//! A company's back office: `holdco order NO TOTAL SKU PIECES`, `holdco pay NO captured|failed`.
//!
//! Its events reach RabbitMQ by a relay beside it, `postroom relay run --preset holdco`.

#![allow(clippy::print_stdout, reason = "what it prints is the example")]

mod orders;
mod outbox;

use std::error::Error;

use sqlx::PgPool;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?).await?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["order", no, total, sku, pieces] => {
            let is_new = orders::place(&pool, no, total, sku, pieces.parse()?).await?;
            println!("{no} {}", if is_new { "is placed" } else { "was placed before" });
        }
        ["pay", no, outcome @ ("captured" | "failed")] => {
            let is_done = orders::pay(&pool, no, outcome).await?;
            println!("{no} {}", if is_done { outcome } else { "is not open" });
        }
        _ => return Err("usage: holdco order NO TOTAL SKU PIECES | holdco pay NO captured|failed".into()),
    }
    Ok(())
}
