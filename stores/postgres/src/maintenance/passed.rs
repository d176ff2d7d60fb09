//! Finds events that routes have passed without seeing them, and has them delivered.
//!
//! Two things let a route pass an event. The sequence was behind, and the event got a number that was read long ago: it gets a new one, which
//! puts it where it belongs in its key's order. Or a reader went past it, whatever the reason: it is parked and due. How many there are
//! is exact, because the counts say so. Which ones they are is told by receipts; where receipts cannot tell, events are sent again
//! rather than not at all.

use std::collections::{BTreeMap, BTreeSet};

use postroom_core::faults::{self, Fault as Old};
use postroom_core::view::Recovered;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::identity::wanted;
use crate::clock::Time;
use crate::database::Session;
use crate::error::Fault;
use crate::release::release;
use crate::routes::{self, Registered};
use crate::store::Inner;

/// Most deliveries that one statement makes.
const CHUNK: usize = 5_000;

/// A sequence that was behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    /// The last number it had given out.
    pub(super) last: i64,
    /// Whether the events before came from another cluster.
    pub(super) moved_here: bool,
}

/// A lane of a route, as verification counts it.
#[derive(Debug)]
struct Counted {
    route: String,
    lane: i16,
    hwm: i64,
    /// Rows up to the position that it has not seen; less than none when rows are missing.
    unseen: i64,
    /// Those of them that lie between unsettled ones: they are delivered as soon as they are counted.
    unsettled: i64,
    delivered: i64,
    filtered: i64,
}

/// What becomes of a lane.
#[derive(Debug, Default)]
struct Remedy {
    park: Vec<Parked>,
    replay: Vec<i64>,
    seen: i64,
    delivered: i64,
    filtered: i64,
}

/// An event to be parked.
#[derive(Debug)]
struct Parked {
    seq: i64,
    key: Option<String>,
    /// Its own time, where that lies ahead.
    due: Option<i64>,
}

/// What would be done, without a lock and without doing it.
pub(super) async fn look(session: &mut Session, behind: Option<Behind>) -> Result<Recovered, Fault> {
    let (found, _, _) = plan(session, behind).await?;
    Ok(found)
}

/// Does it. The lanes are in nobody's hands from now on; the caller's transaction has written, so it has its id.
pub(super) async fn recover(session: &mut Session, inner: &Inner, behind: Option<Behind>) -> Result<Recovered, Fault> {
    let (found, moved, remedies) = plan(session, behind).await?;
    let (lanes, numbers): (Vec<i16>, Vec<i64>) = moved.into_iter().unzip();
    if !numbers.is_empty() {
        let renumber = session.sql.query(include_str!("../sql/maintenance/renumber.sql")).bind(lanes).bind(numbers);
        renumber.execute(&mut *session.conn).await?;
    }
    let now = inner.now(session).await?;
    for ((route, lane), remedy) in remedies {
        apply(session, inner, &route, lane, remedy, now).await?;
    }
    Ok(found)
}

/// Takes every lane from whoever has it, so that nobody writes a position meanwhile.
pub(super) async fn seize(session: &mut Session, inner: &Inner) -> Result<(), Fault> {
    let lock = session.sql.query("select from postroom.lane order by route, lane for update");
    lock.execute(&mut *session.conn).await?;
    let seize = session.sql.query(include_str!("../sql/maintenance/seize.sql")).bind(inner.clock());
    seize.execute(&mut *session.conn).await?;
    Ok(())
}

type Remedies = BTreeMap<(String, i16), Remedy>;

async fn plan(
    session: &mut Session,
    behind: Option<Behind>,
) -> Result<(Recovered, BTreeSet<(i16, i64)>, Remedies), Fault> {
    let mut lanes = counted(session).await?;
    lanes.retain(|_| !faults::is(Old::PassedIsLost));
    let passed: BTreeSet<i16> = lanes.iter().filter(|lane| lane.unseen > 0).map(|lane| lane.lane).collect();
    let mut moved = match behind {
        Some(behind) if !passed.is_empty() => out_of_turn(session, behind).await?,
        _ => BTreeSet::new(),
    };
    // Where no route has passed anything, numbers do no harm.
    moved.retain(|(lane, _)| passed.contains(lane));
    let registered: BTreeMap<String, Registered> =
        routes::all(session).await?.into_iter().map(|route| (route.name.clone(), route)).collect();
    let mut found = Recovered { renumbered: moved.len() as u64, ..Recovered::default() };
    let mut remedies = BTreeMap::new();
    for lane in lanes {
        let away = moved.range((lane.lane, i64::MIN)..=(lane.lane, lane.hwm)).count();
        let unseen = lane.unseen - i64::try_from(away).unwrap_or(i64::MAX);
        if unseen == 0 && lane.unsettled == 0 {
            continue;
        }
        let Some(route) = registered.get(&lane.route) else { continue };
        let mut remedy = Remedy { seen: unseen, ..Remedy::default() };
        let rest = unseen - lane.unsettled;
        found.parked += count(lane.unsettled);
        found.missing += count(-lane.unsettled);
        if rest > 0 {
            fill(session, &lane, route, rest, &moved, &mut remedy, &mut found).await?;
        } else if rest < 0 && away > 0 {
            // This route had seen what gets a new number: it will be sent to it again.
            found.again += count(-rest);
        } else {
            found.missing += count(-rest);
        }
        remedy.balance(&lane);
        remedies.insert((lane.route, lane.lane), remedy);
    }
    Ok((found, moved, remedies))
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Decides which events of a lane are the `rest` that it has not seen.
async fn fill(
    session: &mut Session,
    lane: &Counted,
    route: &Registered,
    rest: i64,
    moved: &BTreeSet<(i16, i64)>,
    remedy: &mut Remedy,
    found: &mut Recovered,
) -> Result<(), Fault> {
    let now: Time = session.sql.scalar("select clock_timestamp()").fetch_one(&mut *session.conn).await?;
    let truncated = session.sql.scalar("select rows from postroom.truncated where lane = $1").bind(lane.lane);
    let truncated: i64 = truncated.fetch_one(&mut *session.conn).await?;
    let rows = session.sql.query(include_str!("../sql/maintenance/unaccounted.sql")).bind(lane.route.clone());
    let rows = rows.bind(lane.lane).bind(Time(route.since)).fetch_all(&mut *session.conn).await?;
    let (mut unwanted, mut unknown) = (0, Vec::new());
    for row in &rows {
        let seq: i64 = row.try_get("seq")?;
        if moved.contains(&(lane.lane, seq)) {
            continue;
        }
        if !wanted(row, Some(route))? {
            unwanted += 1;
            continue;
        }
        match row.try_get::<&str, _>("sent")? {
            "no" => remedy.park.push(parked(row, seq, now.0)?),
            "unknown" => unknown.push(seq),
            _ => {}
        }
    }
    let parked = i64::try_from(remedy.park.len()).unwrap_or(i64::MAX);
    found.parked += count(parked);
    found.again += count(parked - rest);
    // All unwanted events that were seen are counted, unless some have been truncated since.
    let certainly = if truncated == 0 { unwanted - lane.filtered } else { 0 };
    let most = if unknown.is_empty() { unwanted } else { certainly };
    remedy.filtered = most.clamp(0, (rest - parked).max(0));
    found.unwanted += count(remedy.filtered);
    if rest - parked - remedy.filtered > 0 {
        found.again += unknown.len() as u64;
        remedy.replay = unknown;
    }
    Ok(())
}

fn parked(row: &PgRow, seq: i64, now: i64) -> Result<Parked, sqlx::Error> {
    let due = row.try_get::<Option<Time>, _>("available_at")?.map(|at| at.0).filter(|at| *at > now);
    Ok(Parked { seq, key: row.try_get("key")?, due })
}

impl Remedy {
    /// What is not parked, unsettled or unwanted counts as delivered; what there is too much of was counted as something else.
    fn balance(&mut self, lane: &Counted) {
        let parked = i64::try_from(self.park.len()).unwrap_or(i64::MAX);
        let rest = self.seen - lane.unsettled - parked - self.filtered;
        let too_many = (-rest).max(0);
        let filtered = too_many.min(if parked > 0 { lane.filtered } else { (too_many - lane.delivered).max(0) });
        self.filtered -= filtered;
        self.delivered = rest + filtered;
    }
}

async fn counted(session: &mut Session) -> Result<Vec<Counted>, Fault> {
    let rows = session.sql.query(include_str!("../sql/verify_counts.sql")).fetch_all(&mut *session.conn).await?;
    let one = |row: &PgRow| {
        let get = |column: &str| row.try_get::<i64, _>(column);
        let route: String = row.try_get("route")?;
        let Some(hwm) = row.try_get::<Option<i64>, _>("hwm")? else {
            return Err(routes::no_checkpoint(&route).into());
        };
        let (seen, delivered, filtered, parked) = (get("seen")?, get("delivered")?, get("filtered")?, get("parked")?);
        Ok(Counted {
            route,
            lane: row.try_get("lane")?,
            hwm,
            unseen: get("rows")? - get("base")? - seen,
            unsettled: get("unsettled")? - (seen - delivered - filtered - parked),
            delivered,
            filtered,
        })
    };
    rows.iter().map(one).collect()
}

async fn out_of_turn(session: &mut Session, behind: Behind) -> Result<BTreeSet<(i16, i64)>, Fault> {
    let rows = session.sql.query(include_str!("../sql/maintenance/out_of_turn.sql")).bind(behind.last);
    let rows = rows.bind(behind.moved_here).fetch_all(&mut *session.conn).await?;
    Ok(rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()?)
}

async fn apply(
    session: &mut Session,
    inner: &Inner,
    route: &str,
    lane: i16,
    remedy: Remedy,
    now: i64,
) -> Result<(), Fault> {
    let Remedy { park, replay, seen, delivered, filtered } = remedy;
    for some in park.chunks(CHUNK) {
        // Behind an earlier event of their key, as any follower; those without a key, and those for later, wait for nobody.
        let state = |one: &Parked| match (one.due, &one.key) {
            (Some(_), _) => "delayed",
            (None, Some(_)) => "blocked",
            (None, None) => "due",
        };
        let due = |one: &Parked| match state(one) {
            "blocked" => None,
            _ => Some(Time(one.due.unwrap_or(now))),
        };
        session
            .sql
            .query(include_str!("../sql/park.sql"))
            .bind(route.to_owned())
            .bind(Time(now))
            .bind(vec![lane; some.len()])
            .bind(some.iter().map(|one| one.seq).collect::<Vec<_>>())
            .bind(some.iter().map(|one| one.key.clone()).collect::<Vec<_>>())
            .bind(some.iter().map(state).collect::<Vec<_>>())
            .bind(some.iter().map(|one| state(one) == "blocked").collect::<Vec<_>>())
            .bind(some.iter().map(due).collect::<Vec<_>>())
            .bind(vec![0_i32; some.len()])
            .bind(vec![None::<String>; some.len()])
            .bind(vec![None::<String>; some.len()])
            .execute(&mut *session.conn)
            .await?;
    }
    let keys: BTreeSet<String> =
        park.iter().filter(|one| one.due.is_none()).filter_map(|one| one.key.clone()).collect();
    release(session, route, &keys.into_iter().collect::<Vec<_>>(), now).await?;
    for some in replay.chunks(CHUNK) {
        let again = session.sql.query(include_str!("../sql/replay.sql")).bind(route.to_owned());
        let again = again.bind(vec![lane; some.len()]).bind(some.to_vec()).bind(Time(now)).bind(None::<String>);
        again.execute(&mut *session.conn).await?;
    }
    session
        .sql
        .query(include_str!("../sql/maintenance/recount.sql"))
        .bind(route.to_owned())
        .bind(lane)
        .bind(park.iter().map(|one| one.seq).collect::<Vec<_>>())
        .bind(seen)
        .bind(delivered)
        .bind(filtered)
        .bind(inner.clock())
        .execute(&mut *session.conn)
        .await?;
    Ok(())
}
