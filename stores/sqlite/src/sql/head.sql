-- The event that a key waits for: the first one that blocks it. A healthy one only has its turn: it never failed.
-- Served by postroom_delivery_key.
select d.handle, l.id, d.state = 'due' and d.code is null as healthy
from postroom_delivery d join postroom_log l on l.seq = d.seq
where d.route = ?1 and d.key = ?2 and d.blocks = 1
order by d.seq
limit 1
