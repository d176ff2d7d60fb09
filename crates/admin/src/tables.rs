//! The operators' tables: `relay`, `audit`, `stat`, `replay` and `token`, once per database, whoever comes first.
//!
//! They are made by the first two steps of a native log and by those of adopted tables, whichever is migrated first. Going down,
//! a step removes them only when nothing else in the database uses them.

use crate::statement::Dialect;

/// Statements that let one migration at a time into a PostgreSQL database, until its transaction ends.
///
/// A session that looked for a schema before it waited still remembers that there was none, and would make it a second time. It
/// looks again when it opens a table, so one is opened after the wait.
pub const MIGRATION_LOCK: &str =
    "select pg_advisory_xact_lock(hashtext('postroom migrate'));\nselect from pg_namespace limit 0;\n";

/// The statements of a step, 1 or 2, that make operators' tables which are not there yet.
pub fn up(dialect: Dialect, step: i64) -> &'static str {
    match (dialect, step) {
        (Dialect::Postgres, 1) => include_str!("../migrations/postgres_1.sql"),
        (Dialect::Postgres, 2) => include_str!("../migrations/postgres_2.sql"),
        (Dialect::Sqlite, 1) => include_str!("../migrations/sqlite_1.sql"),
        (Dialect::Sqlite, 2) => include_str!("../migrations/sqlite_2.sql"),
        _ => "",
    }
}

/// The statements that remove what [`up`] made.
pub fn down(dialect: Dialect, step: i64) -> &'static str {
    match (dialect, step) {
        (Dialect::Postgres, 1) => "drop table postroom.relay, postroom.audit, postroom.stat;\n",
        (Dialect::Postgres, 2) => "drop table postroom.replay, postroom.token;\n",
        (Dialect::Sqlite, 1) => "drop table postroom_relay;\ndrop table postroom_audit;\ndrop table postroom_stat;\n",
        (Dialect::Sqlite, 2) => "drop table postroom_replay;\ndrop table postroom_token;\n",
        _ => "",
    }
}
