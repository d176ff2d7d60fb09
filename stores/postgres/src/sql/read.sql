-- Reads the next events of some lanes in order, with what pending transactions have committed since, under one snapshot.
-- It must be the only statement of its transaction: age() is fixed once per transaction, and after a write it is the own id.
-- $1, $2: lanes and their hwm. $3, $4, $5: their pending transactions and los. $6: most fresh rows per lane. $7: largest
-- payload that comes along. {partitions} are the partitions by name, {columns} the columns; served by each partition's (lane, seq).
-- $8 and $9 are the time, unless it is the database's, and the seconds of a segment: which segment is current now.
-- `late` is one scan per lane, however many transactions have ended, and is bounded: when it is not all, its lane gets no fresh row
-- beside it, or a key would be swapped. A lane with an ended transaction whose lo lies more than {near} numbers below its hwm
-- gets nothing here: sweep.sql looks for its late rows by transaction.
-- The text between the condition of the fresh rows and the next union is window.sql, or nothing.
with s as materialized (
  select pg_current_snapshot() as snap, age(pg_snapshot_xmax(pg_current_snapshot())::xid) as above),
i as materialized (select * from unnest($1::int2[], $2::int8[]) as i(lane, hwm)),
ended as materialized (
  select p.lane, p.x, p.lo, i.hwm
  from s, unnest($3::int2[], $4::int8[], $5::int8[]) as p(lane, x, lo) join i using (lane)
  where pg_visible_in_snapshot(p.x::text::xid8, s.snap)),
sweep as materialized (
  select lane, min(lo) as lo, min(hwm) as hwm, min(lo) < min(hwm) - {near} as far, array_agg(x) as xs from ended group by lane),
late as materialized (
  select r.* from sweep w cross join lateral (
    select {columns} from ({partitions}) l
    where l.lane = w.lane and l.seq > w.lo and l.seq <= w.hwm and l.tx = any(w.xs) offset 0) r
  where not w.far
  order by r.lane, r.seq limit 2001)
select r.* from i cross join lateral (
  select {columns} from ({partitions}) l where l.lane = i.lane and l.seq > i.hwm order by l.seq limit $6) r
where i.lane not in (select lane from sweep where far) and (select count(*) from late) <= 2000{apart}
{together}union all
select * from late
-- How far each lane was swept, and the snapshot itself: rows without a number.
union all
select w.lane, null, case when w.far then w.lo else w.hwm end, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
from sweep w
union all
select null, null, s.above, pg_postmaster_start_time(), null, null, null, s.snap::text, (extract(epoch from coalesce($8::timestamptz, clock_timestamp()))::int8 / $9::int8)::text, null, null, null, null, null, null, null, null, null, null, null
from s
