-- How many rows some lanes ($1) have after their hwm ($2), counted up to $3. Served by each partition's (lane, seq) alone.
select count(*) from (
  select from unnest($1::int2[], $2::int8[]) as i(lane, hwm)
  cross join lateral (select from postroom.log l where l.lane = i.lane and l.seq > i.hwm limit $3) r
  limit $3) b
