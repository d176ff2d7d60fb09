//! A payment: its row, its ledger entries and its event are one commit.
//!
//! Nothing here knows of Kafka. What happens to the event is the relay's business.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};

use crate::decline::{Account, Decline, judge};
use crate::ulid;

/// What a client asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) payer_account_id: String,
    pub(crate) payee_account_id: String,
    pub(crate) amount_cents: i64,
    pub(crate) currency: String,
}

impl Request {
    fn json(&self) -> String {
        json!(self).to_string()
    }
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    Authorized(String),
    Declined(String, String),
    /// The key was used for another request.
    Conflict,
}

type Tx = Transaction<'static, Postgres>;

/// Makes a payment, or finds the one that was made with this key.
#[allow(clippy::disallowed_methods, reason = "called in a task that nobody drops half-way")]
pub(crate) async fn pay(pool: &PgPool, key: Option<&str>, request: &Request, recent_max: i64) -> sqlx::Result<Outcome> {
    let mut tx = pool.begin().await?;
    let id = ulid::new();
    // A second request with this key waits here until the first has an answer.
    let insert = "insert into payments (id, idempotency_key, request, payer_account_id) values ($1, $2, $3::jsonb, $4) \
                  on conflict (idempotency_key) do nothing";
    let insert = sqlx::query(insert).bind(&id).bind(key).bind(request.json()).bind(&request.payer_account_id);
    if insert.execute(&mut *tx).await?.rows_affected() == 0 {
        return repeated(&mut tx, key, request).await;
    }
    let declined = decide(&mut tx, request, recent_max).await?;
    match declined {
        None => authorize(&mut tx, &id, request).await?,
        Some(decline) => refuse(&mut tx, &id, request, decline).await?,
    }
    tx.commit().await?;
    Ok(declined
        .map_or_else(|| Outcome::Authorized(id.clone()), |(code, _)| Outcome::Declined(id.clone(), code.to_owned())))
}

/// The answer that the first request with this key got.
async fn repeated(tx: &mut Tx, key: Option<&str>, request: &Request) -> sqlx::Result<Outcome> {
    let find = "select id, request = $2::jsonb, error_code from payments where idempotency_key = $1";
    let (id, is_same, error): (String, bool, Option<String>) =
        sqlx::query_as(find).bind(key).bind(request.json()).fetch_one(&mut **tx).await?;
    Ok(match error {
        _ if !is_same => Outcome::Conflict,
        None => Outcome::Authorized(id),
        Some(code) => Outcome::Declined(id, code),
    })
}

/// Locks both accounts, always in the same order, so that what is decided still holds at the commit.
async fn decide(tx: &mut Tx, request: &Request, recent_max: i64) -> sqlx::Result<Option<Decline>> {
    let lock = "select id, currency, balance_cents from accounts where id in ($1, $2) order by id for update";
    let accounts: Vec<Account> = sqlx::query_as(lock)
        .bind(&request.payer_account_id)
        .bind(&request.payee_account_id)
        .fetch_all(&mut **tx)
        .await?;
    let count = "select count(*) - 1 from payments where payer_account_id = $1 \
                 and created_at > now() - interval '1 minute' and error_code is distinct from 'RATE_LIMITED'";
    let recent = sqlx::query_scalar(count).bind(&request.payer_account_id).fetch_one(&mut **tx).await?;
    Ok(judge(request, &accounts, recent, recent_max))
}

async fn authorize(tx: &mut Tx, id: &str, request: &Request) -> sqlx::Result<()> {
    for (account, cents) in
        [(&request.payer_account_id, -request.amount_cents), (&request.payee_account_id, request.amount_cents)]
    {
        let enter = "with entry as (insert into ledger_entries values ($1, $2, $3)) \
                     update accounts set balance_cents = balance_cents + $3 where id = $2";
        sqlx::query(enter).bind(id).bind(account).bind(cents).execute(&mut **tx).await?;
    }
    append(tx, "PaymentAuthorized", id, request, &json!({})).await
}

async fn refuse(tx: &mut Tx, id: &str, request: &Request, (code, message): Decline) -> sqlx::Result<()> {
    sqlx::query("update payments set error_code = $2 where id = $1").bind(id).bind(code).execute(&mut **tx).await?;
    append(tx, "PaymentDeclined", id, request, &json!({"error_code": code, "error_message": message})).await
}

/// The event: a row of the outbox, in the transaction of what it tells.
async fn append(tx: &mut Tx, event_type: &str, id: &str, request: &Request, more: &Value) -> sqlx::Result<()> {
    let insert = "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
                  values ($1, 'Payment', $2, $3, $4::jsonb || $5::jsonb || jsonb_build_object('payment_id', $2), now())";
    let insert = sqlx::query(insert).bind(ulid::new()).bind(id).bind(event_type);
    insert.bind(request.json()).bind(more.to_string()).execute(&mut **tx).await?;
    Ok(())
}
