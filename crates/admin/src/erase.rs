//! Erasing payloads and headers: the events of a key stay in the log, with their ids and counts, without what they said.

use postroom_core::{Actor, StoreError};

use crate::backend::{Backend, Fault, LogBackend, LogSession, read_log, write_log};
use crate::statement::{Dialect, Statement};
use crate::view::Erased;
use crate::{ERASED_HEADER, audit, undelivered_payloads};

/// Events whose payloads one transaction erases.
const TURN: usize = 1_000;

/// Erases the payloads and headers of a key's events, or counts them; refuses while a route has one of them to deliver, unless that is
/// allowed.
pub(crate) async fn erase(
    log: &dyn LogBackend,
    tables: &dyn Backend,
    key: &str,
    undelivered: bool,
    dry_run: bool,
    actor: &Actor,
) -> Result<Erased, StoreError> {
    let wanted = key.to_owned();
    let store = tables.store().to_owned();
    let preview =
        read_log(log, "erase", move |session| Box::pin(async move { count(session, store, wanted).await })).await?;
    if dry_run || preview.events == 0 {
        return Ok(preview);
    }
    if preview.undelivered > 0 && !undelivered {
        return Err(undelivered_payloads(&preview));
    }
    let number = audit::begin(tables, actor, "key.erase", key.to_owned()).await?;
    let (mut erased, mut after) = (Erased { events: 0, bytes: 0, ..preview }, Some(0));
    while let Some(from) = after {
        let key = key.to_owned();
        let turn = write_log(log, "erase", move |session| {
            Box::pin(async move {
                let turn = next(session, &key, from, undelivered).await?;
                audit::add(session, number, turn.events).await?;
                Ok(turn)
            })
        });
        let turn = turn.await?;
        erased.events += turn.events;
        erased.bytes += turn.bytes;
        after = turn.last;
    }
    log.overwrite().await?;
    Ok(erased)
}

/// The condition on an event `l` that its key is `$1` and its payload is there.
fn is_there(dialect: Dialect) -> String {
    let erased = match dialect {
        Dialect::Postgres => format!("coalesce(jsonb_exists(l.headers, '{ERASED_HEADER}'), false)"),
        Dialect::Sqlite => format!("json_type(l.headers, '$.\"{ERASED_HEADER}\"') is not null"),
    };
    format!("coalesce(l.key, l.aggregate_id) = $1 and not {erased}")
}

/// Events without their payloads, and how many bytes the payload of one has.
fn events(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Postgres => ("postroom.event", "l.payload_bytes"),
        Dialect::Sqlite => ("postroom.log", "length(cast(l.payload as blob))"),
    }
}

async fn count(session: &mut dyn LogSession, store: String, key: String) -> Result<Erased, Fault> {
    let ((events, bytes), open) = (events(session.dialect()), session.undelivered());
    let all = Statement::new(format!(
        "select count(*) as events, coalesce(cast(sum({bytes}) as bigint), 0) as bytes, \
         count(case when {open} then 1 end) as undelivered, \
         count(case when exists (select 1 from postroom.delivery d where d.seq = l.seq and d.state = 'dead') then 1 end) \
         as dead_letters from {events} l where {}",
        is_there(session.dialect())
    ));
    let rows = session.fetch(all.bind(key.as_str())).await?;
    let mut counted = Erased { store, key, ..Erased::default() };
    if let Some(row) = rows.first() {
        counted.events = row.count("events")?;
        counted.bytes = row.count("bytes")?;
        counted.undelivered = row.count("undelivered")?;
        counted.dead_letters = row.count("dead_letters")?;
    }
    Ok(counted)
}

/// What one transaction erased, and where the next one begins.
struct Turn {
    events: u64,
    bytes: u64,
    last: Option<i64>,
}

async fn next(session: &mut dyn LogSession, key: &str, after: i64, undelivered: bool) -> Result<Turn, Fault> {
    let dialect = session.dialect();
    let (events, bytes) = events(dialect);
    // What became due since the preview stays as it is.
    let open = if undelivered { String::new() } else { format!(" and not ({})", session.undelivered()) };
    let page = Statement::new(format!(
        "select l.seq, cast({bytes} as bigint) as bytes from {events} l where {} and l.seq > $2{open} \
         order by l.seq limit $3",
        is_there(dialect)
    ));
    let rows = session.fetch(page.bind(key).bind(after).bind(TURN)).await?;
    let mut turn = Turn { events: 0, bytes: 0, last: None };
    let mut numbers = Vec::with_capacity(rows.len());
    for row in &rows {
        numbers.push(row.int("seq")?);
        turn.bytes += row.count("bytes")?;
    }
    turn.last = numbers.last().copied().filter(|_| rows.len() >= TURN);
    let now = session.now().await?;
    let (tables, new): (&[&str], String) = match dialect {
        Dialect::Postgres => (
            &["postroom.log", "postroom.evacuated"],
            format!(
                "payload = convert_to('null', 'UTF8'), content_type = null, \
                 headers = jsonb_build_object('{ERASED_HEADER}', $3::text)"
            ),
        ),
        Dialect::Sqlite => (
            &["postroom.log"],
            format!(
                "payload = 'null', content_type = 'application/json', \
                 headers = json_object('{ERASED_HEADER}', $3)"
            ),
        ),
    };
    for table in tables {
        let among = dialect.among("l.seq", "$2");
        let update =
            Statement::new(format!("update {table} as l set {new} where {} and {among}{open}", is_there(dialect)));
        turn.events += session.execute(update.bind(key).bind(numbers.clone()).bind(now.to_string())).await?;
    }
    Ok(turn)
}
