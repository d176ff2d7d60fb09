//! Followers of a key: when their turn comes, and when it is taken back.
//!
//! Relays and operators both change what stands in front of a key, so both call [`release`] in the same transaction.
//! Whoever parks a follower calls it too: what it waited for may be gone by then.

use sqlx::SqliteConnection;

/// Makes the next followers of the key due, if nothing stands in front of them any more.
pub(crate) async fn release(conn: &mut SqliteConnection, route: &str, key: &str, now: i64) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/release.sql")).bind(route).bind(key).bind(now).execute(conn).await.map(drop)
}

/// Puts the followers that were due back behind the one at `seq`, which failed.
pub(crate) async fn block_again(
    conn: &mut SqliteConnection,
    route: &str,
    key: &str,
    seq: i64,
    now: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/block_again.sql"))
        .bind(route)
        .bind(key)
        .bind(seq)
        .bind(now)
        .execute(conn)
        .await
        .map(drop)
}
