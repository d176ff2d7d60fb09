-- Makes deliveries of settled events again (?2, a JSON array of numbers) for a replay (?4), unless one is on its way already.
insert into postroom_delivery (route, seq, replay, key, state, blocks, due, since, replayed_by)
select ?1, l.seq, 1, coalesce(l.key, l.aggregate_id), 'due', 0, ?3, ?3, ?4
from json_each(?2) j join postroom_log l on l.seq = j.value
where not exists (select 1 from postroom_delivery d where d.seq = l.seq and d.route = ?1)
on conflict (seq, route, replay) do nothing
