-- The event that a key waits for: the first one that blocks it. A healthy one only has its turn: it never failed.
-- Served by delivery_key.
select d.handle, l.id, d.state = 'due' and d.code is null as healthy
from postroom.delivery d
cross join lateral (select e.id from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l
where d.route = $1 and d.key = $2 and d.blocks
order by d.seq
limit 1
