//! Ownership of lanes: taking free ones, giving them up.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_core::{RouteSpec, StoreError};
use sqlx::Row as _;

use super::checkpoint::{self, Checkpoint, Writer};
use super::lane::Lane;
use super::receipts::Receipts;
use super::{Shared, State};
use crate::admin;
use crate::database::{Kind, Session};
use crate::error::Fault;
use crate::events::Logged;
use crate::{identity, routes};

/// Largest payload that comes along when a lane is taken over.
pub(super) const INLINE: i32 = 8 * 1024;

/// Most parked events that are looked at when lanes are taken, to know their keys.
const BLOCKING_MAX: i64 = 200_000;

/// Lanes just taken, and what else the tables say.
struct Taken {
    lanes: Vec<Lane>,
    start_at: Option<i64>,
    halted: Option<String>,
}

impl Shared {
    /// Takes those of the lanes that are still free, with the positions their last owners wrote.
    pub(super) async fn acquire(&self, state: &mut State, wanted: Vec<i16>) -> Result<(), StoreError> {
        let (route, writer, again) = (Arc::clone(&self.route), self.writer(state), Arc::clone(&self.texts.again));
        let place = self.inner.db.place.clone();
        let taken = self
            .inner
            .db
            .attempt("take", Kind::Transaction, move |session| {
                Box::pin(async move {
                    identity::verify(session, &place).await?;
                    acquire(session, &route, &writer, wanted, again).await
                })
            })
            .await
            .map_err(|fault| self.failed(state, fault, "take"))?;
        state.start_at = taken.start_at;
        state.halted = taken.halted.or(state.halted.take());
        for lane in taken.lanes {
            self.own(state, lane);
        }
        Ok(())
    }

    /// Writes the positions of lanes and lets others have them.
    pub(super) async fn give_up(&self, state: &mut State, lanes: Vec<i16>) -> Result<(), StoreError> {
        let writer = self.writer(state);
        let _writing = Arc::clone(&self.writing).lock_owned().await;
        self.absorb(state);
        let ours: Vec<Checkpoint> =
            lanes.iter().filter_map(|number| state.lanes.get(number)).map(Checkpoint::of).collect();
        if ours.is_empty() {
            return Ok(());
        }
        let done = self
            .inner
            .db
            .attempt("release", Kind::Transaction, move |session| {
                Box::pin(async move { vacate(session, &writer, &ours).await })
            })
            .await;
        for number in lanes {
            self.drop_lane(state, number);
        }
        done.map_err(|fault| self.failed(state, fault, "release"))
    }

    /// Lets others have lanes that are ours in the table only. What is written of them stands.
    pub(super) async fn vacate_forgotten(&self, state: &mut State, lanes: Vec<i16>) -> Result<(), StoreError> {
        let (route, boot) = (self.route.name.clone(), self.relay.boot.clone());
        let vacated = self.inner.db.attempt("release", Kind::Statements, move |session| {
            Box::pin(async move {
                let free = "update postroom.lane set holder = null where route = $1 and holder = $2 and lane = any($3)";
                let free = session.sql.query(free).bind(route).bind(boot).bind(lanes);
                free.execute(&mut *session.conn).await?;
                Ok(())
            })
        });
        vacated.await.map_err(|fault| self.failed(state, fault, "release"))
    }

    /// Gives all lanes up; a relay without lanes leaves.
    pub(super) async fn release(&self) -> Result<(), StoreError> {
        let mut guard = Arc::clone(&self.state).lock_owned().await;
        let state = &mut *guard;
        let all = state.lanes.keys().copied().collect();
        self.give_up(state, all).await?;
        let (route, boot) = (self.route.name.clone(), self.relay.boot.clone());
        self.inner
            .db
            .write("release", move |session| Box::pin(async move { leave(session, &route, &boot).await }))
            .await?;
        state.lost.clear();
        state.given_up = false;
        state.halted = None;
        self.inner.wake.wake();
        // The lanes are free by now, whatever becomes of the sums.
        if let Err(error) = admin::minutes::write_now(&self.inner, &self.route.name).await {
            tracing::warn!(store = self.inner.name, route = self.route.name, %error, "what the route did in the last minute could not be written");
        }
        Ok(())
    }
}

/// Keeps the relays that hold these lanes ($2) from renewing until the transaction ends: one that does meanwhile
/// would look at its lanes before they are gone, and go on with them. Always in this order, before the lanes
/// themselves.
const HOLDERS: &str = "
    select from postroom.relay r
    where r.source = '' and r.boot <> $3
      and r.boot in (select l.holder from postroom.lane l where l.route = $1 and l.lane = any($2))
    order by r.boot
    for share";

/// The keys of some lanes ($2) that an event blocks, as far as $3 of their events tell, and how many those are.
const BLOCKING_KEYS: &str = "
    with d as materialized (
      select lane, key from postroom.delivery where route = $1 and lane = any($2) and blocks limit $3)
    select lane, key, (select count(*) from d) from d group by lane, key";

async fn acquire(
    session: &mut Session,
    definition: &RouteSpec,
    writer: &Writer,
    wanted: Vec<i16>,
    again: Arc<str>,
) -> Result<Taken, Fault> {
    let route = definition.name.as_str();
    let holders = session.sql.query(HOLDERS);
    holders.bind(route.to_owned()).bind(wanted.clone()).bind(writer.boot.clone()).execute(&mut *session.conn).await?;
    let statement = session.sql.query(include_str!("../sql/acquire.sql"));
    let statement = statement.bind(route.to_owned()).bind(writer.boot.clone()).bind(wanted).bind(writer.clock);
    let rows = statement.fetch_all(&mut *session.conn).await?;
    let (mut numbers, mut terms) = (Vec::<i16>::new(), Vec::<i64>::new());
    for row in &rows {
        numbers.push(row.try_get(0)?);
        terms.push(row.try_get(1)?);
    }
    let registered = routes::need(session, route, "take").await?;
    if !numbers.is_empty() && !registered.agrees_with(definition) {
        return Err(routes::was_changed(route).into());
    }
    let statement = session.sql.query(include_str!("../sql/take_over.sql"));
    let statement = statement.bind(route.to_owned()).bind(numbers.clone()).bind(terms).bind(writer.clock);
    let rows = statement.fetch_all(&mut *session.conn).await?;
    if rows.len() != numbers.len() {
        return Err(routes::no_checkpoint(route).into());
    }
    let mut lanes = BTreeMap::new();
    for row in &rows {
        let (mut lane, ranges) = checkpoint::lane(row)?;
        let unsettled = unsettled(session, Arc::clone(&again), &lane, &ranges).await?;
        lane.adopt(unsettled, &ranges);
        lanes.insert(lane.number, lane);
    }
    let statement = session.sql.query(BLOCKING_KEYS);
    let rows = statement.bind(route.to_owned()).bind(numbers).bind(BLOCKING_MAX).fetch_all(&mut *session.conn).await?;
    let parked: i64 = rows.first().map_or(Ok(0), |row| row.try_get(2))?;
    for row in &rows {
        let (number, key): (i16, &str) = (row.try_get(0)?, row.try_get(1)?);
        if let Some(lane) = lanes.get_mut(&number) {
            lane.blocks(key);
        }
    }
    if parked >= BLOCKING_MAX {
        lanes.values_mut().for_each(Lane::asks_of_every_key);
    }
    let halted = missing(lanes.values());
    Ok(Taken { lanes: lanes.into_values().collect(), start_at: registered.start_at, halted })
}

/// The events that a lane's last owner had seen and not settled.
async fn unsettled(
    session: &mut Session,
    text: Arc<str>,
    lane: &Lane,
    ranges: &[(i64, i64)],
) -> Result<Vec<Logged>, sqlx::Error> {
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let (firsts, lasts): (Vec<i64>, Vec<i64>) = ranges.iter().copied().unzip();
    let (pending, los): (Vec<i64>, Vec<i64>) = lane.position.pending.iter().unzip();
    let statement = session.sql.query_made(text).bind(lane.number).bind(firsts).bind(lasts);
    let rows = statement.bind(pending).bind(los).bind(INLINE).fetch_all(&mut *session.conn).await?;
    rows.iter().map(Logged::read).collect()
}

/// What must not be: that something unsettled is not there.
fn missing<'l>(mut lanes: impl Iterator<Item = &'l Lane>) -> Option<String> {
    let lane = lanes.find(|lane| !lane.agrees())?;
    let (number, unsettled) = (lane.number, lane.unsettled.len());
    Some(format!(
        "counts_differ: lane {number} has {unsettled} unsettled events, its counts say otherwise; run `postroom verify`"
    ))
}

/// A restored or copied sequence may give numbers again that we have passed: those events would never be read.
pub(super) fn sequence_behind(lane: &Lane, last: i64) -> Option<String> {
    let hwm = lane.position.hwm;
    (last < hwm).then(|| {
        format!(
            "sequence_behind: the log's last number is {last}, but {hwm} was already read; run `postroom store repair`"
        )
    })
}

async fn vacate(session: &mut Session, writer: &Writer, ours: &[Checkpoint]) -> Result<(), Fault> {
    let written = checkpoint::save(session, writer, ours, Receipts::default()).await?.lanes;
    let terms: Vec<i64> = ours.iter().filter(|c| written.contains(&c.lane)).map(|c| c.term).collect();
    session
        .sql
        .query(
            "update postroom.lane set holder = null where route = $1 and holder = $2 \
             and (lane, term) in (select * from unnest($3::int2[], $4::int8[]))",
        )
        .bind(writer.route.clone())
        .bind(writer.boot.clone())
        .bind(ours.iter().filter(|c| written.contains(&c.lane)).map(|c| c.lane).collect::<Vec<_>>())
        .bind(terms)
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}

/// Takes the route out of the relay's heartbeat, and the heartbeat away when the relay serves none any more.
async fn leave(session: &mut Session, route: &str, boot: &str) -> Result<(), Fault> {
    // The heartbeat before the lanes, as whoever takes them over does.
    let gone = session.sql.query("update postroom.relay set routes = routes - $2 where source = '' and boot = $1");
    gone.bind(boot.to_owned()).bind(route.to_owned()).execute(&mut *session.conn).await?;
    let free = session.sql.query("update postroom.lane set holder = null where route = $1 and holder = $2");
    free.bind(route.to_owned()).bind(boot.to_owned()).execute(&mut *session.conn).await?;
    let left = session.sql.query(
        "delete from postroom.relay where source = '' and boot = $1 and routes = '{}' \
         and not exists (select 1 from postroom.lane where holder = $1)",
    );
    left.bind(boot.to_owned()).execute(&mut *session.conn).await?;
    Ok(())
}
