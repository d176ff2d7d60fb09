//! The audit trail: who did what, written in the transaction that does it.

use postroom_core::Actor;

use crate::clock::Time;
use crate::database::Session;
use crate::events::signed;

/// What is done, by whom and why.
#[derive(Debug)]
pub(crate) struct Action<'a> {
    pub(crate) name: &'static str,
    pub(crate) actor: &'a str,
    pub(crate) reason: Option<&'a str>,
}

impl<'a> Action<'a> {
    /// An operator's action.
    pub(crate) fn of(actor: &'a Actor, name: &'static str) -> Self {
        Self { name, actor: &actor.name, reason: actor.reason.as_deref() }
    }
}

/// Writes the action down; returns its number.
pub(crate) async fn record(
    session: &mut Session,
    action: &Action<'_>,
    subject: &str,
    touched: u64,
    now: i64,
) -> Result<i64, sqlx::Error> {
    session
        .sql
        .scalar(
            "insert into postroom.audit (at, actor, action, subject, count, reason) values ($1, $2, $3, $4, $5, $6) \
             returning number",
        )
        .bind(Time(now))
        .bind(action.actor.to_owned())
        .bind(action.name)
        .bind(subject.to_owned())
        .bind(signed(touched))
        .bind(action.reason.map(str::to_owned))
        .fetch_one(&mut *session.conn)
        .await
}
