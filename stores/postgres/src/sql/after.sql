-- The first number after $2 in any of $1 lanes. Served by each partition's (lane, seq).
select min(e.seq) from generate_series(0, $1::int4 - 1) as g(lane) cross join lateral (
  select e.seq from postroom.event e where e.lane = g.lane::int2 and e.seq > $2 order by e.seq limit 1) e
