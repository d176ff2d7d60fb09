-- Puts a first delivery that came back behind the earlier event that blocks its key, if one does. Served by
-- postroom_delivery_key.
insert into postroom_delivery (route, seq, key, state, blocks, since)
select ?1, ?2, ?3, 'blocked', 1, ?4
where exists (select 1 from postroom_delivery where route = ?1 and key = ?3 and blocks = 1 and seq < ?2)
on conflict (seq, route, replay) do nothing
