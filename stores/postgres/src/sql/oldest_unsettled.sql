-- Since when the first unsettled event of some lanes is due ($1, $2: lanes and their first unsettled number). One probe of
-- (lane, seq) per lane and partition.
select min(r.at) from unnest($1::int2[], $2::int8[]) as i(lane, first) cross join lateral (
  select greatest(l.appended_at, l.available_at) as at from postroom.log l
  where l.lane = i.lane and l.seq >= i.first order by l.seq limit 1) r
