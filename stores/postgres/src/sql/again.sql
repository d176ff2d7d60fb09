-- The unsettled rows of a lane ($1): its seen rows in these ranges ($2, $3, both ends included), which are those that no
-- pending transaction ($4, above its lo in $5) may have committed since. Payloads up to $6 come along. Served by (lane, seq), range by range:
-- a plan for all of them at once reads the whole lane.
select {columns}, case when octet_length(l.payload) <= $6 then l.payload end
from unnest($2::int8[], $3::int8[]) as r(first, last)
cross join lateral (select * from postroom.log l where l.lane = $1 and l.seq between r.first and r.last offset 0) l
where not exists (select 1 from unnest($4::int8[], $5::int8[]) as p(x, lo) where p.x = l.tx and l.seq > p.lo)
order by l.seq
