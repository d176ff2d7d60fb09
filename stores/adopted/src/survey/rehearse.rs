//! Reads the first due rows of a table as a relay would, and changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Limits, StoreError};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::executor::{Dialect, SqlExecutor, Statement};
use crate::mapping::{ColumnPath, Mapping, State};
use crate::source::Due;
use crate::sql::{Takes, Writer};
use crate::store::{Adopted, checked, clock};

/// How many rows one poll reads.
const POLL_ROWS: usize = 100;
/// A poll that takes as long is slow however often it is done.
const SLOW: Duration = Duration::from_secs(1);
/// How many due rows are counted.
const COUNTED_MAX: usize = 10_000;
/// How many rows are read to find the column that cannot be read.
const BLAMED_ROWS: usize = 100_000;
/// How many events are shown.
const SHOWN: usize = 5;

/// What a relay would find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    /// How many rows are due.
    pub due: u64,
    /// Whether there are more than were counted.
    pub due_or_more: bool,
    /// How long one poll took, the way to the server included.
    #[serde(rename = "poll_ms", serialize_with = "millis")]
    pub took: Duration,
    /// The first events as they would be sent.
    pub first: Vec<Head>,
    /// How many of the rows of one poll hold no event, and would be dead letters.
    pub unreadable: u64,
    /// How many have a payload that is no JSON, and would be sent as it is.
    pub not_json: u64,
}

/// What is shown of an event: never its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its row.
    pub row: String,
    /// Its id.
    pub id: Option<String>,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// The key that order is kept by.
    pub key: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
    /// Failed tries so far.
    pub attempts: u32,
    /// Why there is no event in it.
    pub unreadable: Option<String>,
}

fn millis<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((took.as_secs_f64() * 1e5).round() / 100.0)
}

/// Reads what is due. The mapping must fit the table as it must for a relay.
pub async fn rehearse(
    executor: &Arc<dyn SqlExecutor>,
    store: &str,
    mapping: &Mapping,
    limits: Limits,
) -> Result<Rehearsal, StoreError> {
    let mut mapping = mapping.clone();
    let columns = checked(store, &mut mapping, executor.as_ref()).await?;
    let writer = Writer { dialect: executor.dialect(), schema: executor.schema(), columns: &columns, alias: "t" };
    let there = Adopted::tables(store, &mapping, Arc::clone(executor)).status().await?.version > 0;
    let takes = Takes::new(&mapping, &writer, limits, true);
    let text = if there { takes.first.to_string() } else { without_ours(&takes.first, &writer) };
    let values = |statement: Statement, rows: usize| {
        statement.bind(mapping.table.to_string()).bind(clock()).bind("[]").bind(rows.to_string())
    };
    let count = format!("select cast(count(*) as text) from ({text}) due");
    let counted = executor.look("adopt", vec![values(Statement::new(count), COUNTED_MAX)]).await;
    let counted = match counted {
        Ok(counted) => counted,
        Err(error) => return Err(blamed(executor.as_ref(), &mapping, &writer, there, error).await),
    };
    let counted = counted.first().and_then(|rows| rows.first()?.first()?.as_deref()?.parse().ok()).unwrap_or(0);
    let poll = || executor.look("adopt", vec![values(Statement::new(text.as_str()), POLL_ROWS)]);
    let began = Instant::now();
    let mut rows = match poll().await {
        Ok(rows) => rows,
        // A count reads no more of a row than tells whether it is due.
        Err(error) => return Err(blamed(executor.as_ref(), &mapping, &writer, there, error).await),
    };
    let mut took = began.elapsed();
    if took < SLOW {
        // A relay prepares the statement once: only the second time is what a poll takes.
        let began = Instant::now();
        rows = poll().await?;
        took = began.elapsed();
    }
    let due: Vec<Due> = rows.into_iter().flatten().map(|row| Due::read(&mapping, limits, row)).collect();
    let not_json = |due: &&Due| {
        due.event.as_ref().is_ok_and(|event| serde_json::from_slice::<IgnoredAny>(&event.payload).is_err())
    };
    Ok(Rehearsal {
        due: counted,
        due_or_more: counted >= COUNTED_MAX as u64,
        took,
        unreadable: due.iter().filter(|due| due.event.is_err()).count() as u64,
        not_json: due.iter().filter(not_json).count() as u64,
        first: due.into_iter().take(SHOWN).map(head).collect(),
    })
}

/// The error of a dry run with the column that cannot be read as the mapping says, if one alone fails in the same way: the
/// server names the value's type, and no column.
async fn blamed(
    executor: &dyn SqlExecutor,
    mapping: &Mapping,
    writer: &Writer<'_>,
    there: bool,
    error: StoreError,
) -> StoreError {
    for (key, path, read) in converted(mapping, writer) {
        let read = if there { read } else { without_ours(&read, writer) };
        let table = mapping.table.quoted();
        let alone =
            format!("select cast(count(x) as text) from (select {read} as x from {table} t limit {BLAMED_ROWS}) y");
        let Err(why) = executor.look("adopt", vec![Statement::new(alone)]).await else { continue };
        if why.kind != error.kind {
            continue;
        }
        let sql_type = writer.columns.get(&path.column).map_or("unknown", |column| column.sql_type.as_str());
        let message = format!("column {} ({sql_type}) cannot be read as {key} = {path} says: {why}", path.column);
        return StoreError::new(error.kind, error.operation, message).hint(error.hint);
    }
    error
}

/// What a poll reads otherwise than it stands in the table: keys inside JSON, and times.
fn converted<'m>(mapping: &'m Mapping, writer: &Writer<'_>) -> Vec<(&'static str, &'m ColumnPath, String)> {
    let event = &mapping.event;
    let word = match &mapping.state {
        State::Words { path, .. } => Some(path),
        State::Stamp(_) | State::Flag(_) | State::Presence => None,
    };
    let texts = [
        ("state.word", word),
        ("attempts", mapping.attempts.as_ref()),
        ("error", mapping.error.as_ref()),
        ("event.id", Some(&event.id)),
        ("event.type", Some(&event.event_type)),
        ("event.payload", Some(&event.payload)),
        ("event.key", event.key.as_ref()),
        ("event.aggregate_type", event.aggregate_type.as_ref()),
        ("event.aggregate_id", event.aggregate_id.as_ref()),
        ("event.tenant", event.tenant.as_ref()),
        ("event.correlation_id", event.correlation_id.as_ref()),
        ("event.causation_id", event.causation_id.as_ref()),
        ("event.schema_version", event.schema_version.as_ref()),
        ("event.headers", event.headers.as_ref()),
    ];
    let texts = texts.into_iter().filter_map(|(key, path)| Some((key, path?, writer.text(path?))));
    let times = event.occurred_at.iter().map(|path| ("event.occurred_at", path));
    let times = mapping.next_attempt.iter().map(|path| ("next_attempt", path)).chain(times);
    let times = times.map(|(key, path)| (key, path, writer.moment(path)));
    let attributes = event.attributes.iter().map(|(_, path)| ("event.attributes", path, writer.text(path)));
    texts.chain(times).chain(attributes).collect()
}

fn head(due: Due) -> Head {
    let (event, unreadable) = match due.event {
        Ok(event) => (Some(event), None),
        Err(why) => (None, Some(why.why.error)),
    };
    let of = |part: fn(&postroom_core::Event) -> Option<&str>| event.as_ref().and_then(part).map(str::to_owned);
    Head {
        id: of(|event| Some(&event.id)),
        event_type: of(|event| Some(&event.event_type)),
        key: of(postroom_core::Event::ordering_key),
        tenant: of(|event| event.tenant.as_deref()),
        row: due.row,
        attempts: due.attempts,
        unreadable,
    }
}

/// The statement where our tables and functions are not there yet: the side table is empty, and the functions are casts
/// that fail on what is no JSON or no time.
fn without_ours(text: &str, writer: &Writer<'_>) -> String {
    let sidecar = match writer.dialect {
        Dialect::Postgres => {
            // A planner folds casts of constants even where no row is read: an empty text is no uuid and no number, null is any.
            "(select null::text as mapping, null::text as row_id, null::text as key, null::text as state, true as blocks, \
             now() as due, 0 as attempts where false)"
        }
        Dialect::Sqlite => {
            "(select '' as mapping, '' as row_id, '' as key, '' as state, 1 as blocks, 0 as due, 0 as attempts where 0)"
        }
    };
    text.replace(&writer.own("sidecar"), sidecar)
        .replace(&writer.own("adopted_json"), "pg_catalog.jsonb")
        .replace(&writer.own("adopted_time"), "pg_catalog.timestamptz")
}
