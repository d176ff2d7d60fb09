-- Parked deliveries of a route whose time has come, and since when the oldest of them is due. One range of delivery_due
-- per lane, however many rows are delayed.
select coalesce(sum(d.number), 0)::int8 as number, min(d.oldest) as oldest
from postroom.lane l cross join lateral (
  select count(*) as number, min(due) as oldest
  from postroom.delivery d where d.route = l.route and d.lane = l.lane and d.due <= $2) d
where l.route = $1
