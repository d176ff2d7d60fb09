//! Serves the shop until Ctrl-C: HTTP on 127.0.0.1:8080, and the relay beside it.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use axum_postgres::Shop;
use postroom::postgres::sqlx::PgPool;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/shop".to_owned());
    let shop = Shop::open(PgPool::connect(&url).await?).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    println!("POST http://{}/orders", listener.local_addr()?);

    let stop = || async { drop(tokio::signal::ctrl_c().await) };
    let relay = tokio::spawn(shop.relay().run(stop()));
    axum::serve(listener, shop.router()).with_graceful_shutdown(stop()).await?;
    relay.await??; // what is in flight has been finished and settled
    Ok(())
}
