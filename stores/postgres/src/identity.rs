//! Is this the cluster and the database the tables were made for, and may we write to it?
//!
//! A position holds transaction ids, and ids of two clusters must never be compared: a copy of production would skip or
//! repeat events, and send them for real. What `pg_dump`, logical replication or a template database copied is told by the
//! cluster's identifier and the database's. A copy of the files has both; only its address may differ, which is worth a warning.

use postroom_core::faults::{self, Fault as Old};
use postroom_core::{StoreError, StoreErrorKind};
use sqlx::Row as _;

use crate::database::{Database, Session};
use crate::error::Fault;

/// Where we are, and where the tables were made.
#[derive(Debug)]
pub(crate) struct Identity {
    standby: bool,
    read_only: bool,
    cluster: String,
    known_cluster: String,
    timeline: String,
    known_timeline: String,
    database: String,
    known_database: String,
    /// None over a socket.
    server: Option<String>,
    known_servers: String,
}

impl Identity {
    pub(crate) async fn read(session: &mut Session) -> Result<Self, Fault> {
        let found = session.sql.query(include_str!("sql/identity.sql"));
        let row = found.fetch_one(&mut *session.conn).await?;
        let known = |column: &str| Ok::<_, sqlx::Error>(row.try_get::<Option<String>, _>(column)?.unwrap_or_default());
        Ok(Self {
            standby: row.try_get("standby")?,
            read_only: row.try_get("read_only")?,
            cluster: row.try_get("system_identifier")?,
            known_cluster: known("made_for")?,
            timeline: row.try_get("timeline")?,
            known_timeline: known("known_timeline")?,
            database: row.try_get("database")?,
            known_database: known("known_database")?,
            server: row.try_get("server")?,
            known_servers: known("known_servers")?,
        })
    }

    /// Whether the tables were made on another cluster or in another database. Tables that never noted their database do not tell.
    pub(crate) fn is_other(&self) -> bool {
        let noted = !self.known_database.is_empty() && !faults::is(Old::CopiesAreServed);
        self.cluster != self.known_cluster || (noted && self.database != self.known_database)
    }

    /// Whether a standby was promoted, or a backup restored, since it was noted.
    pub(crate) fn is_other_timeline(&self) -> bool {
        self.timeline != self.known_timeline
    }

    /// The address, when the cluster was not known there. Where none is known, every one is as good.
    pub(crate) fn unknown_server(&self) -> Option<&str> {
        let server = self.server.as_deref().filter(|_| !self.known_servers.is_empty())?;
        (!self.known_servers.split(' ').any(|known| known == server)).then_some(server)
    }

    /// The same cluster on the same timeline at another address: it was moved, or this is a copy of its files.
    pub(crate) fn may_be_a_copy(&self) -> Option<String> {
        let server = self.unknown_server().filter(|_| !self.is_other() && !self.is_other_timeline())?;
        Some(format!("the store answers at {server} and was known at {}", self.known_servers))
    }

    /// The same cluster on another timeline, in words.
    pub(crate) fn is_promoted(&self) -> Option<String> {
        let Self { timeline, known_timeline, .. } = self;
        let changed = !self.is_other() && self.is_other_timeline();
        changed.then(|| {
            format!(
                "the cluster is on timeline {timeline} and was known on {known_timeline}: a standby was promoted, or a backup restored"
            )
        })
    }

    /// Where it was known, in words.
    pub(crate) fn from(&self) -> String {
        let at = self.unknown_server().map(|_| self.known_servers.as_str());
        self.words(&self.known_cluster, &self.known_timeline, &self.known_database, at)
    }

    /// Where it is, in words.
    pub(crate) fn to(&self) -> String {
        self.words(&self.cluster, &self.timeline, &self.database, self.unknown_server())
    }

    fn words(&self, cluster: &str, timeline: &str, database: &str, at: Option<&str>) -> String {
        let other = if self.database == self.known_database { String::new() } else { format!(" database {database}") };
        let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
        format!("{cluster}/{timeline}{other}{at}")
    }

    /// The rows of `meta` as they are where we are. An address is added to those that are known, unless everything else changed.
    pub(crate) fn here(&self) -> [(&'static str, String); 4] {
        let server = self.server.clone().unwrap_or_default();
        let servers = if self.is_other() { server } else { format!("{} {server}", self.known_servers) };
        let mut servers: Vec<&str> = servers.split(' ').filter(|server| !server.is_empty()).collect();
        servers.dedup();
        [
            ("system_identifier", self.cluster.clone()),
            ("timeline", self.timeline.clone()),
            ("database", self.database.clone()),
            ("servers", servers.join(" ")),
        ]
    }
}

/// What to do about a copy of the files, for those who are warned.
pub(crate) const COPY_HINT: &str = "if this is a copy of production's files, stop its relays: it sends production's events again. If the \
     server was moved, `postroom store accept-identity` takes note of it";

/// What a promotion means, for those who are told of it.
pub(crate) const PROMOTED_HINT: &str = "positions are read again. What the standby had not received is gone from the log, and may have been sent; \
     `postroom store accept-identity` takes note of the server";

/// Fails on a standby, in a read-only session, and on another cluster or database than the one the tables were made for. Warns of
/// what may be a copy of its files.
pub(crate) async fn check(db: &Database) -> Result<(), StoreError> {
    let place = db.place.clone();
    let found = db.read("open", |session| Box::pin(async move { verify(session, &place).await })).await?;
    if let Some(message) = found.may_be_a_copy() {
        tracing::warn!(store = db.place, "{message}, without a change of its timeline: {COPY_HINT}");
    }
    Ok(())
}

/// The same on a session, without the warning.
pub(crate) async fn verify(session: &mut Session, place: &str) -> Result<Identity, Fault> {
    let found = Identity::read(session).await?;
    let error = |kind, message: String| StoreError::new(kind, "open", message);
    if found.standby {
        return Err(error(StoreErrorKind::Unreachable, format!("{place} is a standby"))
            .hint("give the url of the primary, or a list of all servers")
            .into());
    }
    if found.read_only {
        return Err(error(StoreErrorKind::PermissionDenied, format!("{place} is read-only for this session"))
            .hint("use a role without `default_transaction_read_only`")
            .into());
    }
    if found.is_other() {
        let Identity { cluster, known_cluster, .. } = &found;
        let message = if cluster == known_cluster {
            format!("the tables in {place} were made in another database of this cluster")
        } else {
            format!("the tables in {place} were made on another cluster ({known_cluster}, this is {cluster})")
        };
        return Err(error(StoreErrorKind::Conflict, message)
            .hint(
                "if this is a copy, leave it alone: its events were or will be sent by the original. \
                 After a restore or an upgrade run `postroom store accept-identity`",
            )
            .into());
    }
    if let Some(message) = found.is_promoted() {
        tracing::warn!(store = place, "{message}; {PROMOTED_HINT}");
    }
    Ok(found)
}
