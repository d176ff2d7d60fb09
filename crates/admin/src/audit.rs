//! The audit trail: who did what, written in the transaction that does it.

use jiff::Timestamp;
use postroom_core::{Actor, StoreError};

use crate::backend::{Backend, Execute, Fault, run_read, run_write};
use crate::row::Row;
use crate::statement::Statement;
use crate::view::AuditRow;

/// Writes an action down; returns its number.
pub async fn record(
    session: &mut (impl Execute + ?Sized),
    actor: &Actor,
    action: &str,
    subject: &str,
    touched: u64,
    now: Timestamp,
) -> Result<i64, Fault> {
    let insert = Statement::new(
        "insert into postroom.audit (source, at, actor, action, subject, count, reason) \
         values ($1, $2, $3, $4, $5, $6, $7) returning number",
    );
    let insert =
        insert.bind(session.source()).bind(now).bind(actor.name.as_str()).bind(action).bind(subject).bind(touched);
    let rows = session.fetch(insert.bind(actor.reason.clone())).await?;
    Ok(rows.first().map(|row| row.int("number")).transpose()?.unwrap_or_default())
}

/// Writes down that an action has begun; [`add`] says what it touched, in each transaction that does a part of it.
pub async fn begin(
    backend: &dyn Backend,
    actor: &Actor,
    action: &'static str,
    subject: String,
) -> Result<i64, StoreError> {
    let actor = actor.clone();
    run_write(backend, action, move |session| {
        Box::pin(async move {
            let now = session.now().await?;
            record(session, &actor, action, &subject, 0, now).await
        })
    })
    .await
}

/// Adds to what an action touched.
pub async fn add(session: &mut (impl Execute + ?Sized), number: i64, touched: u64) -> Result<(), Fault> {
    let add = Statement::new("update postroom.audit set count = count + $2 where number = $1");
    session.execute(add.bind(number).bind(touched)).await.map(drop)
}

/// Lists the newest actions before that one.
pub async fn list(backend: &dyn Backend, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
    let store = backend.store().to_owned();
    run_read(backend, "audit", move |session| {
        Box::pin(async move {
            let newest = Statement::new(
                "select number, at, actor, action, subject, count, reason from postroom.audit \
                 where source = $1 and number < $2 order by number desc limit $3",
            );
            let newest = newest.bind(session.source());
            let rows = session.fetch(newest.bind(before.unwrap_or(i64::MAX)).bind(limit)).await?;
            Ok(rows.iter().map(|row| action(&store, row)).collect::<Result<_, _>>()?)
        })
    })
    .await
}

fn action(store: &str, row: &Row) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        store: store.to_owned(),
        number: row.int("number")?,
        at: row.time("at")?,
        actor: row.text("actor")?,
        action: row.text("action")?,
        subject: row.text("subject")?,
        count: row.count("count")?,
        reason: row.maybe_text("reason")?,
    })
}
