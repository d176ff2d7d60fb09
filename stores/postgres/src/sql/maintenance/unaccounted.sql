-- Events up to the position of a lane ($1, $2) that are neither unsettled nor parked, nor of transactions that it waits for, nor were there
-- when the route was registered ($3); with what a filter asks for. `sent` is 'no' when no receipt was written for the number after the
-- event was appended, and 'yes' when one begins or ends with it. It is 'unknown' when a receipt only spans the number, as it does when the
-- event was not seen, or when the event is older than the receipts that are left. Served by (lane, seq) and receipt_first.
with c as materialized (
  select c.hwm, c.pending, c.los, c.unsettled, l.start_hwm, l.start_pending
  from postroom.lane l cross join lateral (
    select * from postroom.checkpoint c where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) c
  where l.route = $1 and l.lane = $2),
o as materialized (select min(at) as oldest from postroom.receipt where route = $1 and lane = $2),
s as materialized (
  select l.seq, bool_or(l.seq in (lower(g.r), upper(g.r) - 1)) as at_an_end
  from postroom.receipt r cross join lateral unnest(r.ranges) as g(r) cross join lateral (
    select l.seq from postroom.log l
    where l.lane = $2 and l.seq >= lower(g.r) and l.seq < upper(g.r) and l.appended_at <= r.at offset 0) l
  where r.route = $1 and r.lane = $2
  group by l.seq)
select l.seq, l.type, coalesce(l.key, l.aggregate_id) as key, l.aggregate_type, l.tenant, l.appended_at, l.available_at,
  case when s.at_an_end then 'yes' when s.seq is null and (o.oldest is null or l.appended_at >= o.oldest) then 'no'
    else 'unknown' end as sent
from c cross join o cross join lateral (
  select * from postroom.log l where l.lane = $2 and l.seq <= c.hwm offset 0) l
left join s on s.seq = l.seq
where not (c.unsettled @> l.seq)
  and not (l.seq <= c.start_hwm and l.appended_at <= $3 and l.tx <> all (c.start_pending))
  and not exists (select from postroom.delivery d where d.seq = l.seq and d.route = $1 and not d.replay)
  and not exists (select from unnest(c.pending, c.los) as p(x, lo) where p.x = l.tx and l.seq > p.lo)
order by l.seq
