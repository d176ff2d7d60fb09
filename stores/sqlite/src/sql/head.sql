-- The event that a key waits for: the first one that blocks it. Served by postroom_delivery_key.
select d.handle, l.id
from postroom_delivery d join postroom_log l on l.seq = d.seq
where d.route = ?1 and d.key = ?2 and d.blocks = 1
order by d.seq
limit 1
