//! Replays: rows beside the table that say what is to be sent again. Doing it is [`super::step`].

use std::time::Duration;

use postroom_core::view::{Affected, ReplayKind, ReplayRow, ReplayState};
use postroom_core::{
    Actor, Pace, ReplayChange, ReplayOrder, Selection, StoreError, StoreErrorKind, Timestamp, check_selection, new_id,
    no_replay,
};

use super::actions::{moment, record, record_if};
use super::dead::{self, Rows};
use super::query::{Query, number, text};
use crate::ground::{Dialect, Row, Statement};
use crate::store::{Inner, clock};

/// The rows that a replay is about.
pub(super) fn rows(what: ReplayKind) -> Rows {
    match what {
        ReplayKind::Settled => Rows::Done,
        ReplayKind::Dead => Rows::Dead,
    }
}

pub(super) async fn preview(
    inner: &Inner,
    what: ReplayKind,
    which: &Selection,
    inbox_window: Option<Duration>,
) -> Result<Affected, StoreError> {
    check_selection(what, which)?;
    dead::count(inner, rows(what), which, inbox_window).await
}

pub(super) async fn start(inner: &Inner, order: &ReplayOrder, actor: &Actor) -> Result<ReplayRow, StoreError> {
    order.check()?;
    let (id, writer) = (new_id(), inner.writer());
    let query = Query::new(inner);
    // What is copied or inserted from now on stands behind this.
    let last =
        format!("select cast(max({}) as text), {} {}", query.position(), writer.micros(&query.now()), query.from());
    let found = query.fetch("replay", last).await?;
    let row = found.first().cloned().unwrap_or_default();
    let (until, now) = (number::<i64>(&row, 0), time(&row, 1));
    let statement = format!(
        "insert into {} (id, layout, what, selection, until, rate, allow_duplicates, actor, reason, state, total, \
         created_at, stepped_at) \
         select $1, $2, $3, {}, cast($5 as bigint), cast($6 as float8), {}, $8, $9, 'running', cast($10 as bigint), {}, {}",
        writer.own("adopted_replay"),
        if writer.dialect == Dialect::Postgres { "$4::jsonb" } else { "$4" },
        if writer.dialect == Dialect::Postgres { "$7::boolean" } else { "$7 = 'true'" },
        writer.at_micros("$11"),
        writer.at_micros("$12"),
    );
    let insert = Statement::new(statement)
        .bind(&id)
        .bind(&inner.layout_name)
        .bind(order.what.as_str())
        .bind(order.which.describe())
        .bind(until.to_string())
        .bind_or_null(order.rate.map(|rate| rate.to_string()))
        .bind(order.allow_duplicates.to_string())
        .bind(&actor.name)
        .bind_or_null(actor.reason.as_deref())
        .bind(order.total.to_string())
        .bind(now.as_microsecond().to_string())
        .bind(Pace::begin(order.rate, now).as_microsecond().to_string());
    let entry = record(inner, actor, order.what.action(), &order.describe(&id), order.total);
    inner.ground.run("replay", vec![insert, entry]).await?;
    Ok(need(inner, &id).await?.row)
}

/// A replay, with the last row it is about, and the time by the database's clock.
pub(super) struct Replay {
    pub(super) row: ReplayRow,
    pub(super) until: i64,
    pub(super) now: Timestamp,
}

pub(super) async fn need(inner: &Inner, id: &str) -> Result<Replay, StoreError> {
    let found = find(inner, "id = $3", id, 1).await?;
    found.into_iter().next().ok_or_else(|| no_replay(id))
}

pub(super) async fn one(inner: &Inner, id: &str) -> Result<Option<ReplayRow>, StoreError> {
    Ok(find(inner, "id = $3", id, 1).await?.into_iter().next().map(|replay| replay.row))
}

pub(super) async fn list(
    inner: &Inner,
    state: Option<ReplayState>,
    limit: usize,
) -> Result<Vec<ReplayRow>, StoreError> {
    let found = match state {
        Some(state) => find(inner, "state = $3", state.as_str(), limit).await?,
        None => find(inner, "$3 is not null", "", limit).await?,
    };
    Ok(found.into_iter().map(|replay| replay.row).collect())
}

/// Replays of this table under a condition on `$3`, newest first.
async fn find(inner: &Inner, condition: &str, value: &str, limit: usize) -> Result<Vec<Replay>, StoreError> {
    let writer = inner.writer();
    let statement = format!(
        "select id, what, state, cast(total as text), cast(done as text), cast(rate as text), cast(selection as text), \
         case when allow_duplicates then 'yes' end, actor, reason, cursor, {}, {}, {}, cast(until as text), {} \
         from {} where layout = $1 and $2 is not null and {condition} order by id desc limit {}",
        writer.micros("created_at"),
        writer.micros("stepped_at"),
        writer.micros("ended_at"),
        writer.micros(&writer.now("$2")),
        writer.own("adopted_replay"),
        i64::try_from(limit).unwrap_or(i64::MAX),
    );
    let statement = Statement::new(statement).bind(&inner.layout_name).bind(clock()).bind(value);
    let found = inner.ground.look("replays", vec![statement]).await?;
    found.into_iter().flatten().map(|row| read(inner, &row)).collect()
}

fn read(inner: &Inner, row: &Row) -> Result<Replay, StoreError> {
    let odd = |column: &str| {
        StoreError::new(StoreErrorKind::NotAStore, "replays", format!("{column} of a replay cannot be read"))
    };
    let word = |n: usize| text(row, n).unwrap_or_default();
    let shown = ReplayRow {
        store: inner.name.clone(),
        id: word(0),
        what: ReplayKind::parse(&word(1)).ok_or_else(|| odd("what"))?,
        state: ReplayState::parse(&word(2)).ok_or_else(|| odd("state"))?,
        total: number(row, 3),
        done: number(row, 4),
        rate: text(row, 5).and_then(|rate| rate.parse().ok()),
        selection: Selection::read(&word(6)).map_err(|error| odd("selection").caused_by(error))?,
        allow_duplicates: text(row, 7).is_some(),
        actor: word(8),
        reason: text(row, 9),
        cursor: word(10),
        created_at: time(row, 11),
        stepped_at: time(row, 12),
        ended_at: text(row, 13).and_then(|micros| micros.parse().ok()).map(moment),
    };
    Ok(Replay { row: shown, until: number(row, 14), now: time(row, 15) })
}

fn time(row: &Row, n: usize) -> Timestamp {
    moment(number(row, n))
}

/// Pauses, resumes or cancels; expects the state it was found in, and looks again when that is another by then.
pub(super) async fn change(inner: &Inner, id: &str, change: ReplayChange, actor: &Actor) -> Result<bool, StoreError> {
    let writer = inner.writer();
    let table = writer.own("adopted_replay");
    loop {
        let Replay { row, now, .. } = need(inner, id).await?;
        if !change.changes(id, row.state)? {
            return Ok(false);
        }
        // Time that passed while it was paused allows nothing.
        let resumed = change == ReplayChange::Resume;
        let stepped_at = if resumed { Pace::begin(row.rate, now) } else { row.stepped_at };
        let ended_at = if change == ReplayChange::Cancel { writer.now("$4") } else { "null".to_owned() };
        let was = row.state.as_str();
        let entry = record_if(
            inner,
            actor,
            change.action(),
            id,
            row.done,
            &format!("exists (select 1 from {table} where id = $4 and state = '{was}')"),
        );
        let update = format!(
            "update {table} set state = $2, stepped_at = {}, ended_at = {ended_at} \
             where id = $1 and state = '{was}' and $4 is not null returning id",
            writer.at_micros("$3"),
        );
        let update = Statement::new(update)
            .bind(id)
            .bind(change.to().as_str())
            .bind(stepped_at.as_microsecond().to_string())
            .bind(clock());
        let found = inner.ground.run("replay", vec![entry, update]).await?;
        if found.get(1).is_some_and(|rows| !rows.is_empty()) {
            return Ok(true);
        }
    }
}
