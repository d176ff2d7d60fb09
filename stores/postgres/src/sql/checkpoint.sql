-- Writes the positions and counts of lanes that are still ours ($1 route, $2 holder), with receipts of what got through, as
-- one durable step. Says which lanes were written, and whether the route is paused; a checkpoint of an older term would be ignored anyway. $3 is the time
-- unless it is the database's; $4 and $5 are the segment and partitions; $6 to $18 the lanes, $19 to $24 the receipts. $25 is
-- when the server was started that they were read from: another one may not have what they stand on.
with c as materialized (
  select set_config('synchronous_commit', 'on', true), coalesce($3::timestamptz, clock_timestamp()) as now),
ours as materialized (
  select l.lane, l.term from c, postroom.lane l
  where l.route = $1 and l.holder = $2 and (l.lane, l.term) in (select * from unnest($6::int2[], $7::int8[]))
    and pg_postmaster_start_time() = coalesce($25::timestamptz, pg_postmaster_start_time())),
receipts as (
  insert into postroom.receipt (partition, lane, first, last, at, route, ranges, coordinates, replay)
  select extract(epoch from c.now)::int8 / $4::int8 % $5::int2, r.lane, r.first, r.last, c.now, $1, r.ranges::int8multirange,
    r.coordinates::jsonb, r.replay
  from c, unnest($19::int2[], $20::int8[], $21::int8[], $22::text[], $23::text[], $24::text[])
    as r(lane, first, last, ranges, coordinates, replay)
  join ours using (lane))
insert into postroom.checkpoint
  (route, lane, term, hwm, pending, los, unsettled, base, seen, delivered, filtered, parked, recovered, replayed, at)
select $1, p.lane, p.term, p.hwm, p.pending::int8[], p.los::int8[], p.unsettled::int8multirange, p.base, p.seen, p.delivered,
  p.filtered, p.parked, p.recovered, p.replayed, c.now
from c, unnest($6::int2[], $7::int8[], $8::int8[], $9::text[], $10::text[], $11::text[], $12::int8[], $13::int8[],
  $14::int8[], $15::int8[], $16::int8[], $17::int8[], $18::int8[])
  as p(lane, term, hwm, pending, los, unsettled, base, seen, delivered, filtered, parked, recovered, replayed)
join ours using (lane, term)
returning lane, (select paused_by is not null from postroom.route where name = $1)
