-- Puts first deliveries that came back behind the earlier event that blocks their key, if one does; says which. $1 is the
-- route, $2 the time. One probe of delivery_key each, as in blocked.
insert into postroom.delivery (route, lane, seq, key, state, blocks, since)
select $1, r.lane, r.seq, r.key, 'blocked', true, $2
from unnest($3::int2[], $4::int8[], $5::text[]) as r(lane, seq, key)
where exists (select 1 from postroom.delivery d where d.route = $1 and d.key = r.key and d.blocks and d.seq < r.seq offset 0)
on conflict (seq, route, replay) do nothing
returning seq
