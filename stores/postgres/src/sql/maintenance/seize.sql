-- Takes every lane from whoever has it: its newest checkpoint is written again under the next term, so that nothing else that is
-- written meanwhile counts. $1 is the time unless it is the database's. Served by checkpoint_newest.
with l as (
  update postroom.lane set holder = null, term = term + 1 returning route, lane, term)
insert into postroom.checkpoint
  (route, lane, term, hwm, pending, los, unsettled, base, seen, delivered, filtered, parked, recovered, replayed, at)
select l.route, l.lane, l.term, c.hwm, c.pending, c.los, c.unsettled, c.base, c.seen, c.delivered, c.filtered, c.parked,
  c.recovered, c.replayed, coalesce($1::timestamptz, clock_timestamp())
from l cross join lateral (
  select * from postroom.checkpoint c where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) c
