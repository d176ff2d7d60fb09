//! Replays: rows that say what is to be sent again. Doing it is the work of steps.

use jiff::Timestamp;
use postroom_core::{Actor, StoreError};

use crate::audit::record;
use crate::backend::{Backend, Execute, Fault, Session, run_read, run_write};
use crate::row::{Row, odd};
use crate::statement::{Dialect, Statement};
use crate::view::{ReplayKind, ReplayRow, ReplayState};
use crate::{Pace, ReplayChange, ReplayOrder, Selection, no_replay};

/// A replay, with how far its routes had come when it was asked for, and the time by the store's clock.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The replay.
    pub row: ReplayRow,
    /// How far its routes had come, in the store's own words.
    pub until: String,
    /// The time at which it was read.
    pub now: Timestamp,
}

/// Writes a replay down, with its entry in the audit.
pub async fn insert(
    session: &mut (impl Execute + ?Sized),
    id: &str,
    order: &ReplayOrder,
    until: &str,
    actor: &Actor,
    now: Timestamp,
) -> Result<(), Fault> {
    let dialect = session.dialect();
    let insert = Statement::new(format!(
        "insert into postroom.replay \
         (id, what, selection, until, rate, allow_duplicates, actor, reason, state, total, created_at, stepped_at, source) \
         values ($1, $2, {}, {}, $5, $6, $7, $8, 'running', $9, $10, $11, $12)",
        dialect.json("$3"),
        dialect.json("$4")
    ));
    let insert = insert.bind(id).bind(order.what.as_str()).bind(order.which.describe()).bind(until).bind(order.rate);
    let insert = insert.bind(order.allow_duplicates).bind(actor.name.as_str()).bind(actor.reason.clone());
    let insert = insert.bind(order.total).bind(now).bind(Pace::begin(order.rate, now)).bind(session.source());
    session.execute(insert).await?;
    record(session, actor, order.what.action(), &order.describe(id), order.total, now).await?;
    Ok(())
}

/// Whether a replay is read with the counts of what became of its deliveries. They read as many rows as it has deliveries, so a
/// relay that works on it reads it without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// With the counts.
    With,
    /// Without them: they are unknown.
    Without,
}

/// Returns a replay, or the error that there is none.
pub async fn need(backend: &dyn Backend, id: &str, counts: Counts) -> Result<Replay, StoreError> {
    find(backend, id, counts).await?.ok_or_else(|| no_replay(id))
}

/// Returns a replay, if there is one of this id.
pub async fn find(backend: &dyn Backend, id: &str, counts: Counts) -> Result<Option<Replay>, StoreError> {
    let (store, id) = (backend.store().to_owned(), id.to_owned());
    run_read(backend, "replay", move |session| Box::pin(async move { find_in(session, &store, &id, counts).await }))
        .await
}

async fn find_in(
    session: &mut (impl Session + ?Sized),
    store: &str,
    id: &str,
    counts: Counts,
) -> Result<Option<Replay>, Fault> {
    let now = session.now().await?;
    let one = Statement::new(format!(
        "select {} from postroom.replay r where id = $1 and source = $2",
        columns(session, counts)
    ));
    let one = one.bind(id).bind(session.source());
    let rows = session.fetch(one).await?;
    Ok(rows.first().map(|row| read(store, row, now)).transpose()?)
}

/// Lists replays in a state, or all, newest first.
pub async fn list(
    backend: &dyn Backend,
    state: Option<ReplayState>,
    limit: usize,
) -> Result<Vec<ReplayRow>, StoreError> {
    let store = backend.store().to_owned();
    // Relays look for running ones every second.
    let counts = if state == Some(ReplayState::Running) { Counts::Without } else { Counts::With };
    run_read(backend, "replays", move |session| {
        Box::pin(async move {
            let is_native = session.source().is_empty();
            let only = match state {
                None => String::new(),
                Some(ReplayState::Delivering) if is_native => format!(" and state = 'done' and ({PENDING}) > 0"),
                Some(ReplayState::Done) if is_native => format!(" and state = 'done' and ({PENDING}) = 0"),
                Some(state) => format!(" and state = '{}'", state.as_str()),
            };
            let newest = Statement::new(format!(
                "select {} from postroom.replay r where source = $2{only} order by id desc limit $1",
                columns(session, counts)
            ));
            let newest = newest.bind(limit).bind(session.source());
            let rows = session.fetch(newest).await?;
            let row = |row: &Row| Ok(read(&store, row, Timestamp::UNIX_EPOCH)?.row);
            Ok(rows.iter().map(row).collect::<Result<_, StoreError>>()?)
        })
    })
    .await
}

/// Pauses, resumes or cancels a replay; returns whether that changed anything.
pub async fn change(backend: &dyn Backend, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
    let (store, id, actor) = (backend.store().to_owned(), id.to_owned(), actor.clone());
    run_write(backend, "replay", move |session| {
        Box::pin(async move {
            // The state it is found in is the one that is changed.
            let lock = format!("select 1 from postroom.replay where id = $1{}", session.dialect().for_update());
            session.fetch(Statement::new(lock).bind(id.as_str())).await?;
            let Some(Replay { row, now, .. }) = find_in(session, &store, &id, Counts::Without).await? else {
                return Err(no_replay(&id).into());
            };
            if !change.changes(&id, row.state)? {
                return Ok(false);
            }
            // Time that passed while it was paused allows nothing.
            let resumed = change == ReplayChange::Resume;
            let stepped_at = if resumed { Pace::begin(row.rate, now) } else { row.stepped_at };
            let update =
                Statement::new("update postroom.replay set state = $2, stepped_at = $3, ended_at = $4 where id = $1");
            let update = update.bind(id.as_str()).bind(change.to().as_str()).bind(stepped_at);
            session.execute(update.bind((change == ReplayChange::Cancel).then_some(now))).await?;
            record(session, &actor, change.action(), &id, row.done, now).await?;
            Ok(true)
        })
    })
    .await
}

/// Whether a replay runs and still stands where it was found. The second of two steps waits here, and finds that it does not.
pub async fn stands_at(session: &mut (impl Execute + ?Sized), id: &str, cursor: &str) -> Result<bool, Fault> {
    let fence = format!(
        "select 1 from postroom.replay where id = $1 and cursor = $2 and state = 'running'{}",
        session.dialect().for_update()
    );
    Ok(!session.fetch(Statement::new(fence).bind(id).bind(cursor)).await?.is_empty())
}

/// How far a step got.
#[derive(Debug, Clone)]
pub struct Progress<'s> {
    /// Where the replay stood.
    pub from: &'s str,
    /// Where it stands now.
    pub to: &'s str,
    /// How many deliveries were made due.
    pub made: u64,
    /// Whether that was the last step.
    pub last: bool,
}

/// Moves a replay on from where it was found, if it still stands there and runs.
pub async fn advance(
    session: &mut (impl Execute + ?Sized),
    id: &str,
    progress: &Progress<'_>,
    pace: Pace,
    now: Timestamp,
) -> Result<(), Fault> {
    let state = if progress.last { ReplayState::Done } else { ReplayState::Running };
    let step = Statement::new(
        "update postroom.replay set cursor = $3, done = done + $4, stepped_at = $5, state = $6, ended_at = $7 \
         where id = $1 and cursor = $2 and state = 'running'",
    );
    let step = step.bind(id).bind(progress.from).bind(progress.to).bind(progress.made).bind(pace.after(progress.made));
    session.execute(step.bind(state.as_str()).bind(progress.last.then_some(now))).await.map(drop)
}

/// Counts the deliveries of replay `r` that are not settled yet. Only a native log knows: an adopted table keeps no account of who
/// made a row due.
const PENDING: &str = "select count(*) as n from postroom.delivery d where d.replayed_by = r.id and d.state <> 'dead'";

/// What a statement selects of replay `r`. What became of its deliveries is served by the indexes on `replayed_by` and `replay`.
fn columns(session: &(impl Execute + ?Sized), counts: Counts) -> String {
    let (json, counted) = match session.dialect() {
        Dialect::Postgres => (
            "selection::text as selection, until::text as until",
            "select coalesce(sum(upper(x) - lower(x)), 0)::int8 as n from postroom.receipt c, unnest(c.ranges) x \
             where c.replay = r.id and not c.discarded",
        ),
        Dialect::Sqlite => (
            "selection, until",
            "select coalesce(sum(json_extract(x.value, '$[1]') - json_extract(x.value, '$[0]') + 1), 0) as n \
             from postroom.receipt c, json_each(c.ranges) x where c.replay = r.id and c.discarded = 0",
        ),
    };
    let unknown = "select null as n";
    let (delivered, dead, pending) = if session.source().is_empty() && counts == Counts::With {
        let dead = "select count(*) as n from postroom.delivery d where d.replayed_by = r.id and d.state = 'dead'";
        (counted, dead, PENDING)
    } else {
        (unknown, unknown, unknown)
    };
    format!(
        "id, what, {json}, rate, allow_duplicates, actor, reason, state, cursor, total, done, created_at, stepped_at, ended_at, \
         ({delivered}) as delivered, ({dead}) as dead, ({pending}) as pending"
    )
}

fn read(store: &str, row: &Row, now: Timestamp) -> Result<Replay, StoreError> {
    let unreadable = |column: &str| odd(column, "of a replay cannot be read");
    let known = |column| Ok::<_, StoreError>(row.maybe_int(column)?.map(|count| u64::try_from(count).unwrap_or(0)));
    let pending = known("pending")?;
    let state = match ReplayState::parse(&row.text("state")?).ok_or_else(|| unreadable("state"))? {
        ReplayState::Done if pending > Some(0) => ReplayState::Delivering,
        state => state,
    };
    let replay = ReplayRow {
        store: store.to_owned(),
        id: row.text("id")?,
        what: ReplayKind::parse(&row.text("what")?).ok_or_else(|| unreadable("what"))?,
        state,
        total: row.count("total")?,
        done: row.count("done")?,
        delivered: known("delivered")?,
        pending,
        dead: known("dead")?,
        rate: row.maybe_float("rate")?,
        selection: Selection::read(&row.text("selection")?).map_err(|_| unreadable("selection"))?,
        allow_duplicates: row.flag("allow_duplicates")?,
        actor: row.text("actor")?,
        reason: row.maybe_text("reason")?,
        cursor: row.text("cursor")?,
        created_at: row.time("created_at")?,
        stepped_at: row.time("stepped_at")?,
        ended_at: row.maybe_time("ended_at")?,
    };
    Ok(Replay { row: replay, until: row.text("until")?, now })
}
