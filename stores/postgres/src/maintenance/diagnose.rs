//! What is wrong with the server, or will be, and the SQL that fixes it. Looks only.

use std::time::Duration;

use postroom_core::view::Horizon;
use postroom_core::{Diagnostic, Timestamp};
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
pub(super) async fn diagnose(session: &mut Session, inner: &Inner, tables: bool) -> Result<Vec<Diagnostic>, Fault> {
    let mut found = Vec::new();
    server(session, inner, &mut found).await?;
    found.push(clock(session).await?);
    let now = now(session).await?;
    found.push(match stats::horizon(session).await? {
        Some(horizon) => pinned(&horizon, now),
        None => Diagnostic::fine("no session holds an old snapshot: dead rows can be removed"),
    });
    found.extend(writers(session, now).await?);
    if tables {
        let rights = rights(session, inner).await?;
        let may = rights.is_empty();
        found.extend(rights);
        if may {
            found.push(Diagnostic::fine("the role has the rights of a relay"));
            found.push(sequence(session, inner).await?);
            found.extend(changed(session, inner).await?);
            found.push(next_partition(session, inner).await?);
        }
    }
    Ok(found)
}

/// What the server says of itself: its version, how large the database is, and from how many sessions this role is
/// kept, and whether ours is encrypted.
const SERVER: &str = "
    select current_setting('server_version') as version,
      pg_database_size(current_database()) as bytes,
      format('%I', current_user) as role,
      (select count(*) from pg_stat_activity
       where datname = current_database() and query = '<insufficient privilege>') as hidden,
      coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted";

async fn server(session: &mut Session, inner: &Inner, found: &mut Vec<Diagnostic>) -> Result<(), Fault> {
    let query = session.sql.query(SERVER);
    let row = query.fetch_one(&mut *session.conn).await?;
    let (version, role): (String, String) = (row.try_get("version")?, row.try_get("role")?);
    let (bytes, hidden): (i64, i64) = (row.try_get("bytes")?, row.try_get("hidden")?);
    let pooler = if inner.db.pooled { ", behind a pooler" } else { "" };
    let size = bytes / (1 << 20);
    found.push(Diagnostic::fine(format!("{} is PostgreSQL {version} with {size} MiB{pooler}", inner.db.place)));
    // Behind a pooler it is the pooler's own session that the server describes.
    let encrypted = row.try_get("encrypted")? && !inner.db.pooled;
    found.push(inner.db.travels(encrypted));
    if inner.db.pooled_by_probe {
        let message = format!("an undeclared pooler is in front of {}", inner.db.place);
        found.push(
            Diagnostic::warning("doctor.pooler_undeclared", message)
                .hint("a probe found the pooler, and can miss it in a quiet moment")
                .fix("pooler = \"transaction\""),
        );
    }
    if hidden > 0 {
        let message = format!("{role} does not see what {hidden} sessions of others do: long ones may be among them");
        found.push(
            Diagnostic::warning("doctor.sessions_hidden", message)
                .hint("run as a superuser")
                .fix(format!("grant pg_read_all_stats to {role};")),
        );
    }
    Ok(())
}

async fn now(session: &mut Session) -> Result<i64, Fault> {
    let now: Time = session.sql.scalar("select clock_timestamp()").fetch_one(&mut *session.conn).await?;
    Ok(now.0)
}

/// How far our clock and the server's are apart. The way there and back is not held against it.
async fn clock(session: &mut Session) -> Result<Diagnostic, Fault> {
    let before = micros(Timestamp::now());
    let there = now(session).await?;
    let after = micros(Timestamp::now());
    let apart = if there < before { before - there } else { (there - after).max(0) };
    let apart = Duration::from_micros(apart.unsigned_abs());
    if apart <= SKEW_MAX {
        return Ok(Diagnostic::fine("its clock and ours agree"));
    }
    let (which, apart) = (if there < before { "behind" } else { "ahead of" }, words(apart));
    Ok(Diagnostic::warning("doctor.clock_skew", format!("the database's clock is {apart} {which} this machine's"))
        .hint("synchronise both with the same time server; leases and due times use the clock of the database"))
}

fn pinned(horizon: &Horizon, now: i64) -> Diagnostic {
    let Horizon { age_transactions, kind, name, detail, since } = horizon;
    let age = since.map(|since| age(micros(since), now));
    let back = age.map(|age| format!("{}, ", words(age))).unwrap_or_default();
    let message = format!("{kind} {name} ({detail}) looks back {back}{age_transactions} transactions");
    if age.map_or(*age_transactions < PINNED_TRANSACTIONS, |age| age < PINNED_AFTER) {
        return Diagnostic::fine(message);
    }
    Diagnostic::warning("doctor.horizon_pinned", message)
        .hint("newer dead rows cannot be removed, and every query becomes slower; find out who owns it, then end it")
        .fix(ending(kind, name))
}

async fn writers(session: &mut Session, now: i64) -> Result<Vec<Diagnostic>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/writers.sql"));
    let rows = query.fetch_all(&mut *session.conn).await?;
    let mut found = Vec::new();
    for row in &rows {
        let text = |column: &str| row.try_get::<String, _>(column);
        let (kind, name, detail) = (text("kind")?, text("name")?, text("detail")?);
        let since = stats::time(row, "since")?.unwrap_or_else(|| timestamp(now));
        let open = words(age(micros(since), now));
        let message = format!("{kind} {name} ({detail}) has written and is open for {open}");
        found.push(
            Diagnostic::warning("doctor.long_writer", message)
                .hint("its events are not visible, and later events of the same keys wait for it")
                .fix(ending(&kind, &name)),
        );
    }
    if found.is_empty() {
        found.push(Diagnostic::fine("no writer is open for more than a minute"));
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

async fn rights(session: &mut Session, inner: &Inner) -> Result<Vec<Diagnostic>, Fault> {
    let query = session.sql.query(include_str!("../sql/maintenance/rights.sql")).bind(inner.schema.clone());
    let rows = query.fetch_all(&mut *session.conn).await?;
    let role: String = session.sql.scalar("select format('%I', current_user)").fetch_one(&mut *session.conn).await?;
    let mut found = Vec::new();
    for row in &rows {
        let (rights, tables): (String, String) = (row.try_get("rights")?, row.try_get("tables")?);
        found.push(
            Diagnostic::problem(
                "doctor.rights_missing",
                format!("{role} may not {rights} on {tables}, which a relay needs"),
            )
            .hint("run as the owner of the schema, or grant a role of `postroom store roles`")
            .fix(format!("grant {rights} on {tables} to {role};")),
        );
    }
    Ok(found)
}

async fn sequence(session: &mut Session, inner: &Inner) -> Result<Diagnostic, Fault> {
    let found = identity::numbers(session, inner).await?;
    let (last, greatest) = (found.last_number, found.greatest);
    if !found.repaired {
        return Ok(Diagnostic::fine(format!("the sequence is at {last}, as far as every number there is")));
    }
    let message = format!("the sequence is at {last}, but numbers up to {greatest} were given out");
    Ok(Diagnostic::problem("doctor.sequence_behind", message)
        .hint("events appended now are not delivered until the sequence is repaired")
        .fix(format!("postroom store repair --store {}", inner.name)))
}

/// The same cluster at another address may be a copy of its files; on another timeline it may have lost commits.
async fn changed(session: &mut Session, inner: &Inner) -> Result<Option<Diagnostic>, Fault> {
    let identity = Identity::read(session).await?;
    let copied = identity.may_be_a_copy().map(|message| (message, COPY_HINT));
    let changed = copied.or_else(|| identity.is_promoted().map(|message| (message, PROMOTED_HINT)));
    Ok(changed.map(|(message, hint)| {
        Diagnostic::warning("doctor.server_changed", message)
            .hint(hint)
            .fix(format!("postroom store accept-identity --store {}", inner.name))
    }))
}

/// The partition that takes events next should be empty by now.
async fn next_partition(session: &mut Session, inner: &Inner) -> Result<Diagnostic, Fault> {
    let partitions = stats::partitions(session, inner).await?;
    let current = partitions.iter().position(|partition| partition.current).unwrap_or_default();
    let Some(next) = partitions.get((current + 1) % partitions.len().max(1)).filter(|partition| partition.rows > 0)
    else {
        return Ok(Diagnostic::fine(format!(
            "the log turns: {} partitions, and the next one is empty",
            partitions.len()
        )));
    };
    let since = next.oldest.map(|oldest| format!(" since {oldest:.0}")).unwrap_or_default();
    let message =
        format!("partition {} takes events next and still holds {} of them{since}", next.partition, next.rows);
    Ok(Diagnostic::warning("doctor.partition_not_emptied", message)
        .hint("a route is far behind, paused or not served, or another session locks the partition")
        .fix(format!("postroom route ls --store {}", inner.name)))
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
            detail: "not active".to_owned(),
            since: None,
        };
        assert_eq!(pinned(&slot(99_999), 0).code, None);
        let found = pinned(&slot(100_000), 0);
        assert_eq!(found.code.as_deref(), Some("doctor.horizon_pinned"));
        assert_eq!(found.message, "replication slot old (not active) looks back 100000 transactions");
    }
}
