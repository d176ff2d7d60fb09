-- Reads the next events of some lanes in order, with what pending transactions have committed since, under one snapshot.
-- It must be the only statement of its transaction: age() is fixed once per transaction, and after a write it is the own id.
-- $1, $2: lanes and their hwm. $3, $4, $5: their pending transactions and los. $6: most fresh rows per lane. $7: largest
-- payload that comes along. {leaves} are the leaves by name, {columns} the columns; served by each leaf's (lane, seq).
-- $8, $9 and $10 are the time, unless it is the database's, and the ring's segment and leaves: which leaf is current now.
-- `late` is bounded: when it is not all, its lane gets no fresh row beside it, or a key would be swapped.
-- What follows the condition of the fresh rows is window.sql, or nothing.
with s as materialized (
  select pg_current_snapshot() as snap, age(pg_snapshot_xmax(pg_current_snapshot())::xid) as above),
i as materialized (select * from unnest($1::int2[], $2::int8[]) as i(lane, hwm)),
ended as materialized (
  select p.lane, p.x, p.lo, i.hwm
  from s, unnest($3::int2[], $4::int8[], $5::int8[]) as p(lane, x, lo) join i using (lane)
  where pg_visible_in_snapshot(p.x::text::xid8, s.snap)),
sweep as materialized (
  select lane, least(min(hwm), min(lo) + 50000) as upto, min(hwm) as hwm from ended group by lane),
late as materialized (
  select r.* from ended e join sweep w using (lane) cross join lateral (
    select {columns} from ({leaves}) l
    where l.lane = e.lane and l.seq > e.lo and l.seq <= w.upto and l.tx = e.x offset 0) r
  order by r.lane, r.seq limit 2001)
select r.* from i cross join lateral (
  select {columns} from ({leaves}) l where l.lane = i.lane and l.seq > i.hwm order by l.seq limit $6) r
where i.lane not in (select lane from sweep where upto < hwm) and (select count(*) from late) <= 2000{apart}
{together}union all
select * from late
-- How far each lane was swept, and the snapshot itself: rows without a number.
union all
select w.lane, null, w.upto, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from sweep w
union all
select null, null, s.above, pg_postmaster_start_time(), null, null, (extract(epoch from coalesce($8::timestamptz, clock_timestamp()))::int8 / $9::int8 % $10::int2)::int4, s.snap::text, null, null, null, null, null, null, null, null, null, null, null, null
from s
