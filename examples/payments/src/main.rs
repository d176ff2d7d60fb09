//! A payment service: `POST /payments`. Its events reach Kafka by a relay beside it, `postroom relay run --preset payments`.
//!
//! Here is what HTTP needs; what a payment is stands in [`payment`].

#![allow(clippy::print_stderr, reason = "where a small service says what is wrong")]

mod decline;
mod payment;
mod ulid;

use std::env;
use std::error::Error;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::net::TcpListener;

use crate::payment::{Outcome, Request, pay};

#[derive(Debug, Clone)]
struct Service {
    pool: PgPool,
    /// Payments of one payer within a minute.
    recent_max: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setting = |name: &str, or: &str| env::var(name).unwrap_or_else(|_| or.to_owned());
    let pool = PgPool::connect(&env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?).await?;
    let service = Service { pool, recent_max: setting("PAYMENTS_PER_MINUTE", "60").parse()? };
    let listener = TcpListener::bind(setting("LISTEN", "127.0.0.1:8000")).await?;
    axum::serve(listener, Router::new().route("/payments", post(create)).with_state(service)).await?;
    Ok(())
}

async fn create(State(service): State<Service>, headers: HeaderMap, body: Bytes) -> Response {
    let (key, request) = match read(&headers, &body) {
        Ok(read) => read,
        Err(error) => return answer(StatusCode::BAD_REQUEST, &json!({ "error": error })),
    };
    match whole(service, key.map(str::to_owned), request).await {
        Ok(Outcome::Authorized(id)) => {
            answer(StatusCode::CREATED, &json!({ "payment_id": id, "status": "authorized" }))
        }
        Ok(Outcome::Declined(id, code)) => {
            let status = match &*code {
                "RATE_LIMITED" => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            answer(status, &json!({ "payment_id": id, "status": "declined", "error_code": code }))
        }
        Ok(Outcome::Conflict) => {
            answer(StatusCode::CONFLICT, &json!({ "error": "the idempotency key was used for another request" }))
        }
        Err(error) => {
            eprintln!("error: a payment was not made: {error}");
            answer(StatusCode::SERVICE_UNAVAILABLE, &json!({ "error": "try again with the same key" }))
        }
    }
}

/// Makes a payment in a task of its own, which goes on when the client hangs up: sqlx must not be dropped in a `begin`.
async fn whole(
    service: Service,
    key: Option<String>,
    request: Request,
) -> Result<Outcome, Box<dyn Error + Send + Sync>> {
    let payment = async move { pay(&service.pool, key.as_deref(), &request, service.recent_max).await };
    Ok(tokio::spawn(payment).await??)
}

/// The key and the payment that are asked for. What is declined has an event; what cannot be read has none.
fn read<'h>(headers: &'h HeaderMap, body: &[u8]) -> Result<(Option<&'h str>, Request), String> {
    let is_plain = |text: &str| text.len() <= 64 && !text.contains(char::is_control);
    let key = match headers.get("idempotency-key").map(HeaderValue::to_str) {
        None => None,
        Some(Ok(key)) if is_plain(key) => Some(key),
        Some(_) => return Err("the idempotency key is no ASCII text of at most 64 characters".to_owned()),
    };
    let request: Request = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let texts = [&request.payer_account_id, &request.payee_account_id, &request.currency];
    if !texts.into_iter().all(|text| is_plain(text)) {
        return Err("accounts and currency are texts of at most 64 bytes without control characters".to_owned());
    }
    Ok((key, request))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
