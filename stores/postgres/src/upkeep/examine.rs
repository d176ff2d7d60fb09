//! What is wrong with the server, or will be, and the SQL that mends it. Looks only.

use std::time::Duration;

use postroom_core::Timestamp;
use postroom_core::view::{Found, Horizon};
use sqlx::Row as _;

use super::{identity, stats};
use crate::clock::{Time, micros, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::identity::{COPY_HINT, Identity, PROMOTED_HINT};
use crate::store::Inner;

/// Who looks back for so long is worth a word: backups and reports take minutes.
const PINNED_AFTER: Duration = Duration::from_mins(5);
/// The same for a replication slot, which has no age but in transactions.
const PINNED_TRANSACTIONS: u64 = 100_000;
/// Clocks further apart than this confuse people who compare times; leases go by the database's clock alone.
const SKEW_MAX: Duration = Duration::from_secs(2);

/// Looks at the server, and at the tables if they are there.
pub(super) async fn examine(session: &mut Session, inner: &Inner, tables: bool) -> Result<Vec<Found>, Fault> {
    let mut found = Vec::new();
    server(session, inner, &mut found).await?;
    found.push(clock(session).await?);
    let now = now(session).await?;
    found.push(match stats::horizon(session).await? {
        Some(horizon) => pinned(&horizon, now),
        None => Found::fine("nobody looks back: dead rows can be removed"),
    });
    found.extend(writers(session, now).await?);
    if tables {
        let rights = rights(session, inner).await?;
        let may = rights.is_empty();
        found.extend(rights);
        if may {
            found.push(Found::fine("the role has the rights of a relay"));
            found.push(sequence(session, inner).await?);
            found.extend(changed(session, inner).await?);
            found.push(next_leaf(session, inner).await?);
        }
    }
    Ok(found)
}

async fn server(session: &mut Session, inner: &Inner, found: &mut Vec<Found>) -> Result<(), Fault> {
    let query = session.sql.query(include_str!("../sql/upkeep/server.sql"));
    let row = query.fetch_one(&mut *session.conn).await?;
    let (version, role): (String, String) = (row.try_get("version")?, row.try_get("role")?);
    let (bytes, hidden): (i64, i64) = (row.try_get("bytes")?, row.try_get("hidden")?);
    let pooler = if inner.db.pooled { ", behind a pooler" } else { "" };
    let size = bytes / (1 << 20);
    found.push(Found::fine(format!("{} is PostgreSQL {version} with {size} MiB{pooler}", inner.db.place)));
    if inner.db.pooled_by_probe {
        let message = format!("a pooler stands in front of {}, which the configuration does not say", inner.db.place);
        found.push(
            Found::warning("doctor.pooler_undeclared", message)
                .hint("it was found by a probe, which can miss it in a quiet moment")
                .mend("pooler = \"transaction\""),
        );
    }
    if hidden > 0 {
        let message = format!("{role} does not see what {hidden} sessions of others do: long ones may be among them");
        found.push(
            Found::warning("doctor.sessions_hidden", message)
                .hint("run as a superuser")
                .mend(format!("grant pg_read_all_stats to {role};")),
        );
    }
    Ok(())
}

async fn now(session: &mut Session) -> Result<i64, Fault> {
    let now: Time = session.sql.scalar("select clock_timestamp()").fetch_one(&mut *session.conn).await?;
    Ok(now.0)
}

/// How far our clock and the server's are apart. The way there and back is not held against it.
async fn clock(session: &mut Session) -> Result<Found, Fault> {
    let before = micros(Timestamp::now());
    let there = now(session).await?;
    let after = micros(Timestamp::now());
    let apart = if there < before { before - there } else { (there - after).max(0) };
    let apart = Duration::from_micros(apart.unsigned_abs());
    if apart <= SKEW_MAX {
        return Ok(Found::fine("its clock and ours agree"));
    }
    let (which, apart) = (if there < before { "behind" } else { "ahead of" }, words(apart));
    Ok(Found::warning("doctor.clock_skew", format!("the database's clock is {apart} {which} this machine's"))
        .hint("let both follow the same time server; leases and due times go by the database's clock"))
}

fn pinned(horizon: &Horizon, now: i64) -> Found {
    let Horizon { age_transactions, kind, name, note, since } = horizon;
    let age = since.map(|since| age(micros(since), now));
    let back = age.map(|age| format!("{}, ", words(age))).unwrap_or_default();
    let message = format!("{kind} {name} ({note}) looks back {back}{age_transactions} transactions");
    if age.map_or(*age_transactions < PINNED_TRANSACTIONS, |age| age < PINNED_AFTER) {
        return Found::fine(message);
    }
    Found::warning("doctor.horizon_pinned", message)
        .hint("dead rows newer than that stay, and everything becomes slower; end it once you know whose it is")
        .mend(ending(kind, name))
}

async fn writers(session: &mut Session, now: i64) -> Result<Vec<Found>, Fault> {
    let query = session.sql.query(include_str!("../sql/upkeep/writers.sql"));
    let rows = query.fetch_all(&mut *session.conn).await?;
    let mut found = Vec::new();
    for row in &rows {
        let text = |column: &str| row.try_get::<String, _>(column);
        let (kind, name, note) = (text("kind")?, text("name")?, text("note")?);
        let since = stats::time(row, "since")?.unwrap_or_else(|| timestamp(now));
        let open = words(age(micros(since), now));
        let message = format!("{kind} {name} ({note}) has written and is open for {open}");
        found.push(
            Found::warning("doctor.long_writer", message)
                .hint("what it appended is not seen, and later events of the same keys wait for it")
                .mend(ending(&kind, &name)),
        );
    }
    if found.is_empty() {
        found.push(Found::fine("no writer is open for more than a minute"));
    }
    Ok(found)
}

/// The SQL that ends who looks back.
fn ending(kind: &str, name: &str) -> String {
    let quoted = name.replace('\'', "''");
    match kind {
        "prepared transaction" => format!("rollback prepared '{quoted}';"),
        "replication slot" => format!("select pg_drop_replication_slot('{quoted}');"),
        _ => format!("select pg_terminate_backend({name});"),
    }
}

async fn rights(session: &mut Session, inner: &Inner) -> Result<Vec<Found>, Fault> {
    let query = session.sql.query(include_str!("../sql/upkeep/rights.sql")).bind(inner.schema.clone());
    let rows = query.fetch_all(&mut *session.conn).await?;
    let role: String = session.sql.scalar("select format('%I', current_user)").fetch_one(&mut *session.conn).await?;
    let mut found = Vec::new();
    for row in &rows {
        let (rights, tables): (String, String) = (row.try_get("rights")?, row.try_get("tables")?);
        found.push(
            Found::problem("doctor.rights_missing", format!("{role} may not {rights} on {tables}, which a relay does"))
                .hint("run as the owner of the schema, or grant a role of `postroom store roles`")
                .mend(format!("grant {rights} on {tables} to {role};")),
        );
    }
    Ok(found)
}

async fn sequence(session: &mut Session, inner: &Inner) -> Result<Found, Fault> {
    let found = identity::numbers(session, inner).await?;
    let (last, greatest) = (found.last_number, found.greatest);
    if !found.repaired {
        return Ok(Found::fine(format!("the sequence is at {last}, as far as every number there is")));
    }
    let message = format!("the sequence is at {last}, but numbers up to {greatest} were given out");
    Ok(Found::problem("doctor.sequence_behind", message)
        .hint("what is appended now is passed by until it is repaired, which delivers it")
        .mend(format!("postroom store repair --store {}", inner.name)))
}

/// The same cluster at another address may be a copy of its files; on another timeline it may have lost commits.
async fn changed(session: &mut Session, inner: &Inner) -> Result<Option<Found>, Fault> {
    let identity = Identity::read(session).await?;
    let copied = identity.may_be_a_copy().map(|message| (message, COPY_HINT));
    let changed = copied.or_else(|| identity.is_promoted().map(|message| (message, PROMOTED_HINT)));
    Ok(changed.map(|(message, hint)| {
        Found::warning("doctor.server_changed", message)
            .hint(hint)
            .mend(format!("postroom store accept-identity --store {}", inner.name))
    }))
}

/// The leaf that takes events next should be empty by now.
async fn next_leaf(session: &mut Session, inner: &Inner) -> Result<Found, Fault> {
    let leaves = stats::leaves(session, inner).await?;
    let current = leaves.iter().position(|leaf| leaf.current).unwrap_or_default();
    let Some(next) = leaves.get((current + 1) % leaves.len().max(1)).filter(|leaf| leaf.rows > 0) else {
        return Ok(Found::fine(format!("the log turns: {} leaves, and the next one is empty", leaves.len())));
    };
    let since = next.oldest.map(|oldest| format!(" since {oldest:.0}")).unwrap_or_default();
    let message = format!("leaf {} takes events next and still holds {} of them{since}", next.leaf, next.rows);
    Ok(Found::warning("doctor.leaf_not_emptied", message)
        .hint("a route is far behind, paused or served by nobody, or somebody locks the leaf")
        .mend(format!("postroom route ls --store {}", inner.name)))
}

fn age(since: i64, now: i64) -> Duration {
    Duration::from_micros((now - since).max(0).unsigned_abs())
}

/// In the largest unit that says enough.
fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7_200 => format!("{} min", seconds / 60),
        seconds if seconds < 172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_looks_back_is_ended_by_the_right_sql() {
        assert_eq!(ending("session", "4711"), "select pg_terminate_backend(4711);");
        assert_eq!(ending("prepared transaction", "it's"), "rollback prepared 'it''s';");
        assert_eq!(ending("replication slot", "old"), "select pg_drop_replication_slot('old');");
    }

    #[test]
    fn a_slot_that_looks_far_back_is_a_warning_though_nobody_knows_since_when() {
        let slot = |age_transactions| Horizon {
            age_transactions,
            kind: "replication slot".to_owned(),
            name: "old".to_owned(),
            note: "not active".to_owned(),
            since: None,
        };
        assert_eq!(pinned(&slot(99_999), 0).code, None);
        let found = pinned(&slot(100_000), 0);
        assert_eq!(found.code.as_deref(), Some("doctor.horizon_pinned"));
        assert_eq!(found.message, "replication slot old (not active) looks back 100000 transactions");
    }
}
