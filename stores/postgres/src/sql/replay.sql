-- Makes deliveries of settled events again ($2 and $3: lane and number of each), unless one is on its way already or the
-- event is gone. $5 is the replay.
insert into postroom.delivery (route, lane, seq, replay, key, state, blocks, due, since, replayed_by)
select $1, w.lane, w.seq, true, e.key, 'due', false, $4, $4, $5
from unnest($2::int2[], $3::int8[]) as w(lane, seq)
cross join lateral (
  select coalesce(e.key, e.aggregate_id) as key from postroom.event e where e.lane = w.lane and e.seq = w.seq limit 1) e
where not exists (select from postroom.delivery d where d.seq = w.seq and d.route = $1)
order by w.seq
on conflict (seq, route, replay) do nothing
