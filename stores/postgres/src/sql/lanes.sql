-- The lanes of one route ($1) or of all, each with who holds it and its newest checkpoint, which is null where it is
-- missing. What lay before a long log's new route counts as 0 until its relay has counted it. Served by checkpoint_newest, one
-- probe per lane.
select l.route, l.lane, l.holder, r.name as relay, l.term, l.start_hwm, l.start_pending, l.discarded,
  c.hwm, c.pending, c.los, c.unsettled::text as unsettled, greatest(c.base, 0) as base, c.seen, c.delivered, c.filtered, c.parked, c.recovered, c.replayed
from postroom.lane l
left join postroom.relay r on r.source = '' and r.boot = l.holder
left join lateral (
  select * from postroom.checkpoint c
  where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) c on true
where $1::text is null or l.route = $1
order by l.route, l.lane
