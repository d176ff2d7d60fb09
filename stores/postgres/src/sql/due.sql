-- Parked deliveries of some lanes ($2) whose time ($3) has come, less those in hand ($4), with their events, wherever those are.
-- Payloads up to $6 come along. One range of delivery_due per lane, however many rows are blocked.
with d as materialized (
  select d.* from unnest($2::int2[]) as n(lane) cross join lateral (
    select handle, lane, seq, attempts, blocks, due from postroom.delivery
    where route = $1 and lane = n.lane and due <= $3 and handle <> all($4)
    order by due, seq limit $5) d
  order by d.due, d.seq limit $5)
select {columns}, case when octet_length(l.payload) <= $6 then l.payload end, d.handle, d.attempts, d.blocks, d.due
from d cross join lateral (
  select * from postroom.log l where l.lane = d.lane and l.seq = d.seq
  union all
  select * from postroom.evacuated l where l.seq = d.seq) l
order by d.due, d.seq
