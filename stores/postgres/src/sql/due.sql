-- Parked deliveries of some lanes ($2) whose time ($3) has come, less those in hand ($4), with their events, wherever those are:
-- up to $5 of each lane. Payloads up to $6 come along. One range of delivery_due per lane, however many rows are blocked. Thousands
-- may be in hand, so they are looked up in a hash, which the server makes of a list of values only if that is no parameter.
with d as materialized (
  select d.* from unnest($2::int2[]) as n(lane) cross join lateral (
    select handle, lane, seq, attempts, blocks, due from postroom.delivery
    where route = $1 and lane = n.lane and due <= $3 and handle not in (select unnest($4::int8[]))
    order by due, seq limit $5) d)
select {columns}, case when octet_length(l.payload) <= $6 then l.payload end, d.handle, d.attempts, d.blocks, d.due
from d cross join lateral (
  select * from postroom.log l where l.lane = d.lane and l.seq = d.seq
  union all
  select * from postroom.evacuated l where l.seq = d.seq) l
order by d.due, d.seq
