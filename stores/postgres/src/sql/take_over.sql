-- The newest checkpoint of each lane, written again under its new term, so that nothing of an older one counts any more.
-- $4 is the time unless it is the database's. Served by checkpoint_newest.
insert into postroom.checkpoint
  (route, lane, term, hwm, pending, los, unsettled, base, seen, delivered, filtered, parked, recovered, replayed, at)
select $1, t.lane, t.term, c.hwm, c.pending, c.los, c.unsettled, c.base, c.seen, c.delivered, c.filtered, c.parked, c.recovered, c.replayed,
  coalesce($4::timestamptz, clock_timestamp())
from unnest($2::int2[], $3::int8[]) as t(lane, term) cross join lateral (
  select * from postroom.checkpoint c where c.route = $1 and c.lane = t.lane order by c.term desc, c.id desc limit 1) c
returning lane, term, hwm, pending, los, unsettled::text as unsettled, base, seen, delivered, filtered, parked, recovered, replayed
