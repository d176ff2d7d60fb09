-- The first and the last event of a partition, and how many there are if $1 says so. {partition} is its number.
-- Served by (lane, seq): two rows per lane.
select min(o.appended_at) as oldest, max(n.appended_at) as newest,
  case when $1 then (select count(*) from postroom.log_{partition}) end as rows
from postroom.truncated t
left join lateral (select appended_at from postroom.log_{partition} where lane = t.lane order by seq limit 1) o on true
left join lateral (select appended_at from postroom.log_{partition} where lane = t.lane order by seq desc limit 1) n on true
