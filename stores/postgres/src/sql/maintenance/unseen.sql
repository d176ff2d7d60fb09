-- Events whose numbers a lane has passed, but whose transactions it still waits for: in a restored database they have
-- committed. Served by (lane, seq) of each partition.
with c as (
  select distinct on (route, lane) route, lane, hwm, pending, los
  from postroom.checkpoint order by route, lane, term desc, id desc)
select c.route, c.lane, l.seq, l.type, coalesce(l.key, l.aggregate_id) as key, l.aggregate_type, l.tenant, l.appended_at, l.available_at
from c
join postroom.lane using (route, lane)
cross join lateral unnest(c.pending, c.los) as p(x, lo)
join postroom.log l on l.lane = c.lane and l.seq > p.lo and l.seq <= c.hwm and l.tx = p.x
order by c.route, c.lane, l.seq
