-- How many orders are open, and which one goes on next: the oldest unpaid, else the oldest paid one.
-- A scan of a demo's table; ids and states are null when nothing is open.
with open as (select id, status from orders where status <> 'shipped')
select (select count(*) from open), next.id, next.status
from (select 1) left join (select id, status from open order by status = 'paid', id limit 1) as next
