-- Writes the counts of a lane ($1, $2) anew: $3 were parked, which parts the ranges around them; $4 to $6 are added to seen, delivered
-- and filtered. $7 is the time unless it is the database's. Served by checkpoint_newest.
insert into postroom.checkpoint
  (route, lane, term, hwm, pending, los, unsettled, base, seen, delivered, filtered, parked, recovered, replayed, at)
select c.route, c.lane, c.term, c.hwm, c.pending, c.los,
  c.unsettled - (select coalesce(range_agg(int8range(n, n, '[]')), '{}') from unnest($3::int8[]) n),
  c.base, c.seen + $4, c.delivered + $5, c.filtered + $6, c.parked + cardinality($3::int8[]), c.recovered, c.replayed,
  coalesce($7::timestamptz, clock_timestamp())
from (
  select * from postroom.checkpoint where route = $1 and lane = $2 order by term desc, id desc limit 1) c
