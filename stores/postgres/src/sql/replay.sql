-- Makes deliveries of settled events again ($2 to $4: lane, number and place of each), one every $6 microseconds, unless one
-- is on its way already or the event is gone.
insert into postroom.delivery (route, lane, seq, replay, key, state, blocks, due, since)
select $1, w.lane, w.seq, true, e.key, 'due', false,
  $5::timestamptz + w.place * $6::float8 * interval '1 microsecond', $5
from unnest($2::int2[], $3::int8[], $4::int8[]) as w(lane, seq, place)
cross join lateral (
  select coalesce(e.key, e.aggregate_id) as key from postroom.event e where e.lane = w.lane and e.seq = w.seq limit 1) e
where not exists (select from postroom.delivery d where d.seq = w.seq and d.route = $1)
order by w.place
on conflict (seq, route, replay) do nothing
