//! Reads the first due rows of a table as a relay would, and changes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Limits, StoreError};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::executor::{Dialect, SqlExecutor, Statement};
use crate::mapping::Mapping;
use crate::source::Due;
use crate::sql::{Takes, Writer};
use crate::store::{Adopted, checked, clock};

/// How many rows one poll reads.
const POLL_ROWS: usize = 100;
/// A poll that takes as long is slow however often it is done.
const SLOW: Duration = Duration::from_secs(1);
/// How many due rows are counted.
const COUNTED_MAX: usize = 10_000;
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
    let takes = Takes::new(&mapping, &writer, true);
    let text = if there { takes.first.to_string() } else { without_ours(&takes.first, &writer) };
    let values = |statement: Statement, rows: usize| {
        statement.bind(mapping.table.to_string()).bind(clock()).bind("[]").bind(rows.to_string())
    };
    let count = format!("select cast(count(*) as text) from ({text}) due");
    let counted = executor.look("adopt", vec![values(Statement::new(count), COUNTED_MAX)]).await?;
    let counted = counted.first().and_then(|rows| rows.first()?.first()?.as_deref()?.parse().ok()).unwrap_or(0);
    let poll = || executor.look("adopt", vec![values(Statement::new(text.as_str()), POLL_ROWS)]);
    let began = Instant::now();
    let mut rows = poll().await?;
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

fn head(due: Due) -> Head {
    let (event, unreadable) = match due.event {
        Ok(event) => (Some(event), None),
        Err(why) => (None, Some(why.why)),
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
