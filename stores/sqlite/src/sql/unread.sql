-- Events that a route ($1) has not read yet or is sending for the first time, and that have no row among deliveries: after
-- number $2, at most $3. By primary key, from the first row without an outcome.
select l.seq, l.id, l.type, l.aggregate_type, l.tenant, l.available_at, l.appended_at,
  coalesce(l.key, l.aggregate_id) as ordering_key,
  exists (select 1 from postroom.delivery d
    where d.route = c.route and d.key = coalesce(l.key, l.aggregate_id) and d.blocks = 1 and d.seq < l.seq) as blocked
from postroom.checkpoint c
join postroom.log l on l.seq > max($2, min(c.hwm, coalesce(
  (select min(json_extract(u.value, '$[0]')) - 1 from json_each(c.unsettled) u), c.hwm)))
where c.route = $1 and c.lane = 0
  and (l.seq > c.hwm or exists (select 1 from json_each(c.unsettled) u
    where l.seq between json_extract(u.value, '$[0]') and json_extract(u.value, '$[1]')))
  and not exists (select 1 from postroom.delivery d where d.seq = l.seq and d.route = c.route and d.replay = 0)
  {selected}
order by l.seq limit $3
