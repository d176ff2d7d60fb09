//! The trail of what operators did; written in the transaction of what they did.

use jiff::Timestamp;
use postroom_core::view::ActionRow;
use postroom_core::{Actor, StoreError};

use super::query::{number, text};
use crate::ground::Statement;
use crate::store::{Inner, clock};

/// One entry.
pub(super) fn record(inner: &Inner, actor: &Actor, action: &str, subject: &str, count: u64) -> Statement {
    record_if(inner, actor, action, subject, count, "true")
}

/// One entry, under a condition; its subject is `$4`.
pub(super) fn record_if(
    inner: &Inner,
    actor: &Actor,
    action: &str,
    subject: &str,
    count: u64,
    condition: &str,
) -> Statement {
    let writer = inner.writer();
    let statement = format!(
        "insert into {} (at, actor, action, subject, count, reason) \
         select {}, $2, $3, $4, cast($5 as bigint), $6 where $1 is not null and {condition}",
        writer.own("adopted_audit"),
        writer.now("$1")
    );
    Statement::new(statement)
        .bind(clock())
        .bind(&actor.name)
        .bind(action)
        .bind(subject)
        .bind(count.to_string())
        .bind_or_null(actor.reason.as_deref())
}

pub(super) async fn newest(inner: &Inner, before: Option<i64>, limit: usize) -> Result<Vec<ActionRow>, StoreError> {
    let writer = inner.writer();
    let statement = format!(
        "select {}, actor, action, subject, cast(count as text), reason, cast(number as text) from {} \
         where number < cast($1 as bigint) order by number desc limit cast($2 as integer)",
        writer.micros("at"),
        writer.own("adopted_audit")
    );
    let statement = Statement::new(statement).bind(before.unwrap_or(i64::MAX).to_string()).bind(limit.to_string());
    let found = inner.ground.look("actions", vec![statement]).await?;
    Ok(found
        .into_iter()
        .flatten()
        .map(|row| ActionRow {
            store: inner.name.clone(),
            at: moment(number(&row, 0)),
            actor: text(&row, 1).unwrap_or_default(),
            action: text(&row, 2).unwrap_or_default(),
            subject: text(&row, 3).unwrap_or_default(),
            count: number(&row, 4),
            reason: text(&row, 5),
            number: number(&row, 6),
        })
        .collect())
}

/// Microseconds since 1970 as a time.
pub(super) fn moment(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
