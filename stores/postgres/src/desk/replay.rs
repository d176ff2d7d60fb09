//! Sends settled events again, as deliveries of their own that block nobody and are part of no count.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use postroom_core::view::Affected;
use postroom_core::{Actor, ReplayOptions, Selection, StoreError, StoreErrorKind};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::events::wanted;
use super::lanes::{self, Lane};
use super::{actions, selection, turns};
use crate::clock::{Time, span, timestamp};
use crate::database::Session;
use crate::error::Fault;
use crate::events::signed;
use crate::routes::{self, Registered};
use crate::store::Inner;

/// Events looked at per statement.
const ROWS_AT_ONCE: usize = 5_000;

/// Adds up what a selection touches.
pub(super) struct Summary {
    inbox_cut: Option<i64>,
    keys: BTreeSet<String>,
    oldest: Option<i64>,
    affected: Affected,
}

impl Summary {
    pub(super) fn new(inbox_cut: Option<i64>) -> Self {
        Self { inbox_cut, keys: BTreeSet::new(), oldest: None, affected: Affected::default() }
    }

    /// Adds a delivery; the row has `ordering_key`, `occurred_at` and `appended_at`.
    pub(super) fn add(&mut self, route: &str, row: &PgRow) -> Result<(), sqlx::Error> {
        let Time(occurred_at) = row.try_get("occurred_at")?;
        let Time(appended_at) = row.try_get("appended_at")?;
        self.keys.extend(row.try_get::<Option<String>, _>("ordering_key")?);
        self.oldest = Some(self.oldest.map_or(occurred_at, |oldest| oldest.min(occurred_at)));
        self.affected.deliveries += 1;
        *self.affected.routes.entry(route.to_owned()).or_default() += 1;
        self.affected.older_than_inbox += u64::from(self.inbox_cut.is_some_and(|cut| appended_at < cut));
        Ok(())
    }

    /// How many have been added.
    pub(super) fn deliveries(&self) -> u64 {
        self.affected.deliveries
    }

    pub(super) fn finish(self) -> Affected {
        Affected { keys: self.keys.len() as u64, oldest: self.oldest.map(timestamp), ..self.affected }
    }
}

/// What was appended before is older than the inbox remembers.
pub(super) fn inbox_cut(how: ReplayOptions, now: i64) -> Option<i64> {
    how.inbox_window.map(|window| now.saturating_sub(span(window)))
}

/// Microseconds between two deliveries.
pub(super) fn step(how: ReplayOptions) -> f64 {
    how.rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| 1_000_000.0 / rate)
}

/// A route with its lanes.
type Place = (Registered, Vec<Lane>);

/// What to send again: number, lane and route (by its place in a list) of each.
type Chosen = Vec<(i64, i16, usize)>;

pub(super) async fn replay(
    inner: &Arc<Inner>,
    which: &Selection,
    how: ReplayOptions,
    actor: &Actor,
) -> Result<Affected, StoreError> {
    if which.code.is_some() {
        return Err(StoreError::new(StoreErrorKind::Invalid, "replay", "settled events have no failure to select by")
            .hint("dead letters have: replay those"));
    }
    let (shared, name) = (Arc::clone(inner), which.route.clone());
    let (places, now) = inner
        .db
        .read("replay", move |session| {
            Box::pin(async move {
                let now = shared.now(session).await?;
                Ok((places(session, name.as_deref()).await?, now))
            })
        })
        .await?;
    // Choosing may walk the whole log, so it holds no lock; what changes meanwhile is left out when they are made.
    let places = Arc::new(places);
    let (chosen, affected) = choose(inner, which, &places, inbox_cut(how, now)).await?;
    if how.dry_run {
        return Ok(affected);
    }
    let number = actions::begin(inner, actor, "replay", which.describe()).await?;
    let mut of_route: BTreeMap<usize, Vec<Made>> = BTreeMap::new();
    for (place, (seq, lane, route)) in chosen.into_iter().enumerate() {
        of_route.entry(route).or_default().push(Made { lane, seq, place: signed(place as u64) });
    }
    for (route, numbers) in of_route {
        for some in numbers.chunks(turns::ROWS_AT_ONCE) {
            let (route, some) = (places[route].0.name.clone(), some.to_vec());
            inner
                .db
                .write("replay", move |session| {
                    Box::pin(async move {
                        let made = make(session, &route, &some, step(how), now).await?;
                        Ok(actions::add(session, number, made).await?)
                    })
                })
                .await?;
            inner.wake.wake();
        }
    }
    Ok(affected)
}

async fn places(session: &mut Session, route: Option<&str>) -> Result<Vec<Place>, Fault> {
    let routes = match route {
        Some(name) => vec![routes::need(session, name, "replay").await?],
        None => routes::all(session).await?,
    };
    let mut places = Vec::new();
    for route in routes {
        let lanes = lanes::of(session, &route.name).await?;
        places.push((route, lanes));
    }
    Ok(places)
}

/// Chooses what every route has settled and nothing is on its way of, in order of number.
async fn choose(
    inner: &Inner,
    which: &Selection,
    places: &Arc<Vec<Place>>,
    cut: Option<i64>,
) -> Result<(Chosen, Affected), StoreError> {
    let (mut chosen, mut summary) = (Chosen::new(), Summary::new(cut));
    let narrow = selection::is_narrow(which);
    let lanes = if narrow { vec![None] } else { (0..inner.ring.lanes).map(Some).collect() };
    for lane in lanes {
        let mut after = Some(0);
        while let Some(place) = after {
            let (which, places) = (which.clone(), Arc::clone(places));
            (after, chosen, summary) = inner
                .db
                .read("replay", move |session| {
                    Box::pin(async move {
                        let rows = stretch(session, &which, lane, place).await?;
                        pick(session, &rows, &places, &mut chosen, &mut summary).await?;
                        let full = !narrow && rows.len() == ROWS_AT_ONCE;
                        let next = rows.last().filter(|_| full).map(|row| row.try_get("seq")).transpose()?;
                        Ok((next, chosen, summary))
                    })
                })
                .await?;
        }
    }
    chosen.sort_unstable();
    Ok((chosen, summary.finish()))
}

/// The next events of a lane that are selected, or all of them when the indexes find them.
async fn stretch(
    session: &mut Session,
    which: &Selection,
    lane: Option<i16>,
    after: i64,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut query = session.sql.builder(
        "select l.lane, l.seq, l.tx, l.type, l.aggregate_type, l.tenant, l.occurred_at, l.appended_at, \
         coalesce(l.key, l.aggregate_id) as ordering_key from postroom.event l where l.seq > ",
    );
    query.push_bind(after);
    selection::on_log(&mut query, which);
    if let Some(lane) = lane {
        query
            .push(" and l.lane = ")
            .push_bind(lane)
            .push(" order by l.seq limit ")
            .push_bind(signed(ROWS_AT_ONCE as u64));
    }
    query.build().persistent(false).fetch_all(&mut *session.conn).await
}

async fn pick(
    session: &mut Session,
    rows: &[PgRow],
    places: &[Place],
    chosen: &mut Chosen,
    summary: &mut Summary,
) -> Result<(), sqlx::Error> {
    let open = open(session, rows).await?;
    for row in rows {
        let (seq, tx, lane): (i64, i64, i16) = (row.try_get("seq")?, row.try_get("tx")?, row.try_get("lane")?);
        for (n, (route, lanes)) in places.iter().enumerate() {
            let settled = lanes.iter().any(|at| at.number == lane && at.is_settled(tx, seq));
            if settled && wanted(&route.filter, row)? && !open.contains(&(seq, route.name.clone())) {
                chosen.push((seq, lane, n));
                summary.add(&route.name, row)?;
            }
        }
    }
    Ok(())
}

/// Which of these numbers are already on their way, and to which routes.
async fn open(session: &mut Session, rows: &[PgRow]) -> Result<HashSet<(i64, String)>, sqlx::Error> {
    let numbers = rows.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    let open = session.sql.query("select seq, route from postroom.delivery where seq = any($1)").bind(numbers);
    let rows = open.fetch_all(&mut *session.conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// One delivery to be made, with its place in the whole replay.
#[derive(Clone)]
struct Made {
    lane: i16,
    seq: i64,
    place: i64,
}

/// Makes the deliveries that are not there yet; returns how many those are.
async fn make(session: &mut Session, route: &str, some: &[Made], step: f64, now: i64) -> Result<u64, Fault> {
    let theirs = some.iter().map(|made| (route.to_owned(), made.lane)).collect();
    lanes::lock(session, &theirs).await?;
    let made = session
        .sql
        .query(include_str!("../sql/replay.sql"))
        .bind(route.to_owned())
        .bind(some.iter().map(|made| made.lane).collect::<Vec<_>>())
        .bind(some.iter().map(|made| made.seq).collect::<Vec<_>>())
        .bind(some.iter().map(|made| made.place).collect::<Vec<_>>())
        .bind(Time(now))
        .bind(step)
        .execute(&mut *session.conn)
        .await?;
    Ok(made.rows_affected())
}
