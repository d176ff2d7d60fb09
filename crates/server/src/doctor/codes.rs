//! Codes of the diagnostics that `doctor` and `config check --online` report about stores, relays and the configuration.

use postroom_core::codes;
use postroom_core::codes::Section;

/// Codes of the diagnostics that `doctor` and `config check --online` report about stores, relays and the configuration.
pub(crate) const CODES: &[Section] = &[Section {
    title: "Doctor",
    about: "Diagnostics of [`postroom doctor`](operating.md#diagnose-with-doctor) about stores, relays and the configuration. Diagnostics about routes have the code of their transport.",
    codes: codes! {
        "store.unreachable" | "problem" | "the database is not reachable, rejects the login, or is a standby" | "check `url`, the network, the server"
        "store.busy" | "problem" | "another session holds a lock that Postroom needs" | "try again; `doctor.long_writer` may name the session"
        "store.not_a_store" | "problem" | "`url` leads to no database, or to a database that cannot be used" | "check `url`"
        "store.refused" | "problem" | "a privilege is missing, the server is too old, or a pooler is not declared" | "the hint names the grant or the setting"
        "store.schema" | "problem" | "the tables are missing, older or newer than this build, or were changed by hand" | "`postroom store migrate up`"
        "store.invalid" | "problem" | "the configuration of the store does not match its tables" | "the message names the key"
        "store.not_found" | "problem" | "an adopted table, or one of its columns, does not exist" | "correct the mapping, or create the table or column"
        "store.conflict" | "problem" | "the tables were created on another cluster, or with other parameters" | "after a restore or an upgrade, run `postroom store accept-identity`; do not run it on a copy"
        "store.failed" | "problem" | "the database failed for another reason, which the text quotes" | "read the log of the database"
        "doctor.rights_missing" | "problem" | "the role lacks privileges that a relay needs" | "run the printed grants, or those of `postroom store roles`"
        "doctor.sequence_behind" | "problem" | "the sequence is behind the numbers already in use: after a restore, or after a manual change" | "`postroom store repair`; events appended meanwhile are delivered"
        "doctor.server_changed" | "warning" | "the cluster has a new address on the same timeline: the server was moved, or this is a copy of its files, which sends the same events again; or it has a new timeline: a standby was promoted or a backup restored, and commits may be lost" | "stop the relays of a copy; on the server that is to keep the store, run `postroom store accept-identity`"
        "doctor.partition_not_emptied" | "warning" | "the next partition of the log still holds old events: a route is far behind, paused or orphaned, another session locks the partition, or the retention is longer than all partitions last" | "`postroom route ls`, `postroom prune --dry-run`; forget routes that no relay serves"
        "doctor.horizon_pinned" | "warning" | "a session, prepared transaction or replication slot holds an old snapshot: the server cannot remove dead rows, and every query becomes slower" | "find out who owns it, then end it with the printed SQL"
        "doctor.long_writer" | "warning" | "a transaction that has written is open for more than a minute: its events are not visible, and later events of its keys wait" | "find out why it is open; the printed SQL ends it"
        "doctor.sessions_hidden" | "warning" | "the role may not see the sessions of other users, so the session that pins the horizon is unknown" | "`grant pg_read_all_stats to ROLE`"
        "doctor.pooler_undeclared" | "warning" | "a probe found a pooler in front of the server; the probe can miss it in a quiet moment" | "set `pooler = \"transaction\"` for this store, or connect past the pooler"
        "doctor.plaintext" | "warning" | "sessions to a PostgreSQL server on another machine are not encrypted, because the URL allows it: everybody on the network path can read passwords and payloads" | "leave `sslmode` out of the URL, or set `sslmode=verify-full`"
        "doctor.unverified" | "warning" | "sessions to a PostgreSQL server on another machine are encrypted, but the URL does not ask for a valid certificate: another server can take its place. Behind a pooler with `sslmode=require` too" | "`sslmode=verify-full`, with `sslrootcert=` for an authority of your own"
        "doctor.clock_skew" | "warning" | "the clocks of this machine and of the database differ; leases and due times use the clock of the database, log lines and times in events that of this machine" | "synchronise both with the same time server"
        "doctor.journal_mode" | "warning" | "the SQLite file is not in WAL mode: readers and writers wait for each other" | "open it without `mode=ro` once, or `pragma journal_mode = wal`"
        "doctor.read_only" | "problem" | "the SQLite file cannot be written" | "check the permissions of the file and of its folder, and `mode=ro` in `url`"
        "doctor.disk_full" | "warning, or problem" | "the disk of the SQLite file has less than 512 MiB left; a problem below 16 MiB" | "free space on the disk, or move the file"
        "doctor.sequence_cache" | "problem" | "the sequence that orders an adopted table caches several numbers per session: events of one key can be read in the wrong order" | "`alter sequence … cache 1`, or `ordered = false`"
        "doctor.id_overflow" | "warning" | "the ids of an adopted table are about to run out" | "change the column to `bigint`"
        "doctor.index_missing" | "warning" | "no index finds the pending rows of an adopted table in order: every query reads or sorts too many rows" | "create the printed index"
        "doctor.rows_hidden" | "warning" | "row level security hides rows of an adopted table from this role: hidden rows are never sent" | "a policy that shows all rows, or `alter role … bypassrls`"
        "doctor.no_relay" | "warning, or problem" | "no relay is alive, so no event is delivered; a problem if deliveries are due" | "`postroom relay run`"
        "doctor.relay_overdue" | "warning" | "a relay stopped sending heartbeats, and no relay of its name has returned" | "check its machine; other relays take over its lanes when the lease ends"
        "doctor.relay_versions" | "warning" | "live relays have different versions" | "finish the update"
        "doctor.relay_twice" | "warning" | "two live relays have one name" | "harmless, but status and logs cannot tell them apart: give each relay its own `name`"
        "doctor.route_stopped" | "problem" | "a route does not deliver: its breaker is open, its destination refuses everything, or it is halted, disabled or misconfigured" | "the message has the reason; `postroom route show ROUTE`"
        "doctor.route_paused" | "warning" | "a route has been paused for more than an hour, and deliveries are due on it: the pause may have been forgotten" | "`postroom route resume ROUTE`; the message names who paused it, and why"
        "doctor.counts_differ" | "problem" | "the number of events up to the position of a lane differs from the number that the route has accounted for: events may have been passed" | "`postroom verify` shows the counts; `postroom store repair` delivers events that were passed"
        "doctor.route_orphan" | "warning, or problem" | "a registered route is neither configured nor served by a live relay: it keeps events from being removed; a problem if it has undelivered events" | "serve it again, or `postroom route rename ROUTE NEW`; if it is not wanted any more, `postroom route forget ROUTE`, which loses its undelivered events"
        "doctor.lanes_free" | "warning" | "no relay owns some lanes of a route that a live relay serves" | "normal for a moment after a start; else read the relay's log"
        "doctor.inbox_window" | "warning" | "the retention of an inbox is shorter than the time in which a route may send an event again: lease and all retries" | "raise `inbox.retention`, or retry for a shorter time"
        "doctor.readable_file" | "warning" | "every user of this machine can read a file with secrets or payloads: the configuration, a file that it names, or the SQLite database" | "`chmod o-rwx FILE`; files of SQLite beside the database take its mode"
        "doctor.no_routes" | "warning" | "no route is configured or registered: events are kept and not delivered" | "add a `[[route]]`"
    },
}];
