//! The tables: numbered steps up and down, each atomic, safe when two migrators run at once.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postroom_admin::{Dialect, tables};
use postroom_core::{Schema, SchemaStatus, SchemaStep, StoreError, StoreErrorKind};
use sqlx::AssertSqlSafe;

use crate::database::{Database, Session};
use crate::error::Fault;
use crate::options::PostgresOptions;
use crate::sql::quoted;
use crate::store::{Inner, PostgresStore};

pub(crate) mod columns;

/// The tables of one store.
pub(crate) struct PostgresSchema(pub(crate) Arc<Inner>);

/// A step of the log's own tables; [`tables`] adds the operators' tables to the first two.
struct Step {
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

/// Step n stands at n − 1. A released step is never edited.
const STEPS: &[Step] = &[
    Step {
        name: "native log",
        up: concat!(
            include_str!("../migrations/0001_tables.up.sql"),
            "\n",
            include_str!("../migrations/0001_functions.up.sql")
        ),
        down: include_str!("../migrations/0001_native_log.down.sql"),
    },
    Step { name: "replays and tokens", up: "", down: "" },
];

/// The version this build needs.
#[allow(clippy::cast_possible_wrap, reason = "a handful of steps")]
const NEEDS: i64 = STEPS.len() as i64;

impl PostgresStore {
    /// Version of the schema that this build needs.
    pub const SCHEMA_VERSION: i64 = NEEDS;
}

/// What is fixed when the tables are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partitioning {
    pub(crate) lanes: i16,
    pub(crate) partitions: i16,
    /// Seconds that one partition takes events.
    pub(crate) segment: i64,
}

impl Partitioning {
    /// What the options ask for.
    pub(crate) fn wanted(options: &PostgresOptions) -> Result<Self, StoreError> {
        let within = |what: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return i64::try_from(value).map_err(|_| unreachable!("it is at most {most}"));
            }
            let message = format!("{what} of store {:?} is {value}, it must be {least} to {most}", options.name);
            Err(StoreError::new(StoreErrorKind::Invalid, "open", message))
        };
        let segment = options.segment.unwrap_or(Duration::from_hours(24)).as_secs();
        let small = |value: i64| i16::try_from(value).unwrap_or(i16::MAX);
        Ok(Self {
            lanes: small(within("lanes", options.lanes.unwrap_or(16).into(), 1, 1024)?),
            partitions: small(within("partitions", options.partitions.unwrap_or(10).into(), 4, 100)?),
            segment: within("segment (in seconds)", segment, 1, 86_400 * 365)?,
        })
    }

    /// Puts the numbers into a text.
    pub(crate) fn into_text(self, text: &str) -> String {
        text.replace("{lanes}", &self.lanes.to_string())
            .replace("{partitions}", &self.partitions.to_string())
            .replace("{segment}", &self.segment.to_string())
    }
}

/// Whether the schema may be called so: it stands inside statements, and in front of the names of roles.
pub(crate) fn check_name(schema: &str) -> Result<(), StoreError> {
    let fits = !schema.is_empty()
        && schema.len() <= 55
        && schema.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && schema.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if fits {
        return Ok(());
    }
    let message = format!("{schema:?} cannot be the schema of a store");
    Err(StoreError::new(StoreErrorKind::Invalid, "open", message)
        .hint("use letters, digits and `_`, at most 55, not beginning with a digit"))
}

/// Fails unless the tables are there in the version this build needs.
pub(crate) async fn check(db: &Database) -> Result<(), StoreError> {
    let found = db.read("open", |session| Box::pin(version(session))).await?;
    let error = |message: String| StoreError::new(StoreErrorKind::Schema, "open", message);
    match found {
        NEEDS => Ok(()),
        0 => Err(error(format!("store schema is missing in {}, this build needs version {NEEDS}", db.place))
            .hint("run `postroom store migrate up`")),
        older if older < NEEDS => Err(error(format!("store schema is at version {older}, this build needs {NEEDS}"))
            .hint("run `postroom store migrate up`, or `postroom store migrate plan` to apply it yourself")),
        newer => Err(error(format!("store schema is at version {newer}, this build needs {NEEDS}"))
            .hint("run the newer build that made it")),
    }
}

/// Whether the tables are there in the version this build needs.
pub(crate) async fn is_current(db: &Database) -> Result<bool, StoreError> {
    Ok(db.read("diagnose", |session| Box::pin(version(session))).await? == NEEDS)
}

/// What was fixed when the tables were made; an error when the options ask for something else.
pub(crate) async fn partitioning(db: &Database, options: &PostgresOptions) -> Result<Partitioning, StoreError> {
    let there = db
        .read("open", |session| {
            Box::pin(async move {
                let value = async |session: &mut Session, name: &'static str| {
                    let value: i64 = session
                        .sql
                        .scalar("select value::int8 from postroom.meta where name = $1")
                        .bind(name)
                        .fetch_one(&mut *session.conn)
                        .await?;
                    Ok::<_, Fault>(value)
                };
                let small = |value: i64| i16::try_from(value).map_err(|e| sqlx::Error::Decode(e.into()));
                Ok(Partitioning {
                    lanes: small(value(session, "lanes").await?)?,
                    partitions: small(value(session, "partitions").await?)?,
                    segment: value(session, "segment").await?,
                })
            })
        })
        .await?;
    let wanted = Partitioning::wanted(options)?;
    let differs = [
        ("lanes", options.lanes.is_some(), i64::from(wanted.lanes), i64::from(there.lanes)),
        ("partitions", options.partitions.is_some(), i64::from(wanted.partitions), i64::from(there.partitions)),
        ("segment (in seconds)", options.segment.is_some(), wanted.segment, there.segment),
    ];
    for (what, given, wanted, there) in differs {
        if given && wanted != there {
            let message =
                format!("{what} of store {:?} is {wanted}, but its tables were made with {there}", options.name);
            return Err(StoreError::new(StoreErrorKind::Conflict, "open", message)
                .hint("set it back, or leave it out; it is fixed when the tables are made"));
        }
    }
    Ok(there)
}

async fn version(session: &mut Session) -> Result<i64, Fault> {
    let there: bool =
        session.sql.scalar("select to_regclass('postroom.meta') is not null").fetch_one(&mut *session.conn).await?;
    if !there {
        return Ok(0);
    }
    let version = session.sql.scalar("select value::int8 from postroom.meta where name = 'schema_version'");
    let version = version.fetch_optional(&mut *session.conn).await?;
    version.ok_or_else(|| columns::changed("its schema", &["meta has no row schema_version".to_owned()]).into())
}

fn step(version: i64) -> Option<&'static Step> {
    STEPS.get(usize::try_from(version - 1).ok()?)
}

fn described(version: i64, applied: bool) -> SchemaStep {
    let name = step(version).map_or("unknown to this build", |s| s.name).to_owned();
    SchemaStep { version, name, applied }
}

/// A second migrator waits here and then finds it done.
async fn alone(session: &mut Session) -> Result<(), Fault> {
    sqlx::raw_sql(tables::MIGRATION_LOCK).execute(&mut *session.conn).await?;
    Ok(())
}

/// Applies the next step, if one is missing.
async fn up_once(session: &mut Session, inner: &Inner) -> Result<Option<SchemaStep>, Fault> {
    alone(session).await?;
    let next = version(session).await? + 1;
    let Some(step) = step(next) else { return Ok(None) };
    sqlx::raw_sql(AssertSqlSafe(up_text(inner, next, step))).execute(&mut *session.conn).await?;
    set_version(session, next).await?;
    Ok(Some(described(next, true)))
}

async fn down_once(session: &mut Session, inner: &Inner) -> Result<Option<SchemaStep>, Fault> {
    alone(session).await?;
    let newest = version(session).await?;
    if newest == 0 {
        return Ok(None);
    }
    let Some(step) = step(newest) else {
        return Err(StoreError::new(
            StoreErrorKind::Schema,
            "migrate",
            format!("store schema is at version {newest}, this build knows only {NEEDS}"),
        )
        .hint("run `postroom store migrate down` of the build that made it")
        .into());
    };
    let adopted = session.sql.scalar("select to_regclass('postroom.adopted_meta') is not null");
    if !adopted.fetch_one(&mut *session.conn).await? {
        let shared = written(inner, tables::down(Dialect::Postgres, newest));
        sqlx::raw_sql(AssertSqlSafe(shared)).execute(&mut *session.conn).await?;
    }
    sqlx::raw_sql(AssertSqlSafe(written(inner, step.down))).execute(&mut *session.conn).await?;
    if newest > 1 {
        set_version(session, newest - 1).await?;
    }
    Ok(Some(described(newest, false)))
}

async fn set_version(session: &mut Session, version: i64) -> Result<(), Fault> {
    session
        .sql
        .query("update postroom.meta set value = $1 where name = 'schema_version'")
        .bind(version.to_string())
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}

/// Tells the functions of the database the configured limit, which may have changed since the tables were made.
async fn set_payload_max(session: &mut Session, limit: String) -> Result<(), Fault> {
    session
        .sql
        .query(
            "insert into postroom.meta (name, value) values ('payload_max', $1) \
             on conflict (name) do update set value = excluded.value where meta.value <> excluded.value",
        )
        .bind(limit)
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}

/// A step as it reads in this store.
fn written(inner: &Inner, text: &str) -> String {
    let text = inner.partitioning.into_text(text).replace("{schema}", &quoted(&inner.schema));
    inner.db.sql.made(&text.replace("{payload_max}", &inner.limits.payload_bytes_max.to_string()))
}

/// What a step does in this store.
fn up_text(inner: &Inner, number: i64, step: &Step) -> String {
    let shared = tables::up(Dialect::Postgres, number);
    let texts: Vec<String> =
        [step.up, shared].into_iter().filter(|text| !text.is_empty()).map(|text| written(inner, text)).collect();
    texts.join("\n")
}

#[async_trait]
impl Schema for PostgresSchema {
    async fn status(&self) -> Result<SchemaStatus, StoreError> {
        let version = self.0.db.read("migrate", |session| Box::pin(version(session))).await?;
        let steps = (1..=NEEDS.max(version)).map(|n| described(n, n <= version)).collect();
        Ok(SchemaStatus { store: self.0.name.clone(), version, needs: NEEDS, steps })
    }

    async fn plan(&self) -> Result<String, StoreError> {
        let version = self.status().await?.version;
        if version > NEEDS {
            check(&self.0.db).await?;
        }
        let mut plan = String::new();
        for n in version + 1..=NEEDS {
            let Some(step) = step(n) else { break };
            let _ = writeln!(plan, "-- step {n}: {}\nbegin;\n{}", step.name, up_text(&self.0, n, step).trim_end());
            let set = format!("update postroom.meta set value = '{n}' where name = 'schema_version';");
            let _ = writeln!(plan, "{}\ncommit;", self.0.db.sql.made(&set));
        }
        Ok(plan)
    }

    async fn up(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let mut applied = Vec::new();
        loop {
            let inner = Arc::clone(&self.0);
            let work =
                self.0.db.write_long("migrate", move |session| Box::pin(async move { up_once(session, &inner).await }));
            let Some(step) = work.await? else { break };
            applied.push(step);
        }
        check(&self.0.db).await?;
        let limit = self.0.limits.payload_bytes_max.to_string();
        self.0.db.write("migrate", move |session| Box::pin(set_payload_max(session, limit))).await?;
        Ok(applied)
    }

    async fn down(&self) -> Result<Vec<SchemaStep>, StoreError> {
        let inner = Arc::clone(&self.0);
        let undone = self
            .0
            .db
            .write_long("migrate", move |session| Box::pin(async move { down_once(session, &inner).await }))
            .await?;
        Ok(undone.into_iter().collect())
    }
}
