//! Followers of keys: when their turn comes, and when it is taken back.
//!
//! Relays and operators both change what stands in front of a key, so both call [`release`] in the same transaction, with
//! the lane locked. Whoever parks a follower calls it too: what it waited for may be gone by then.

use crate::clock::Time;
use crate::database::Session;

/// Makes the next followers of the keys due, if nothing stands in front of them any more.
pub(crate) async fn release(session: &mut Session, route: &str, keys: &[String], now: i64) -> Result<(), sqlx::Error> {
    if keys.is_empty() {
        return Ok(());
    }
    session
        .sql
        .query(include_str!("sql/release.sql"))
        .bind(route.to_owned())
        .bind(keys.to_vec())
        .bind(Time(now))
        .execute(&mut *session.conn)
        .await
        .map(drop)
}

/// Puts followers that were due back behind the failed one of their key: key and number of each.
pub(crate) async fn block_again(
    session: &mut Session,
    route: &str,
    failed: &[(String, i64)],
    now: i64,
) -> Result<(), sqlx::Error> {
    if failed.is_empty() {
        return Ok(());
    }
    let (keys, numbers): (Vec<String>, Vec<i64>) = failed.iter().cloned().unzip();
    session
        .sql
        .query(include_str!("sql/block_again.sql"))
        .bind(route.to_owned())
        .bind(keys)
        .bind(numbers)
        .bind(Time(now))
        .execute(&mut *session.conn)
        .await
        .map(drop)
}
