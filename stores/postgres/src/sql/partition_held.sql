-- Whether a lane of a route has not read a row of partition {partition}, or has not settled it. One probe of (lane, seq) per lane,
-- unsettled range and pending transaction.
select exists (
  select from postroom.lane l
  cross join lateral (select max(seq) as last from postroom.log_{partition} g where g.lane = l.lane) m
  left join lateral (
    select * from postroom.checkpoint c
    where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) c on true
  where m.last is not null and (
    c.hwm is null or m.last > c.hwm
    or exists (select from unnest(c.unsettled) as u(r) cross join lateral (
      select from postroom.log_{partition} g where g.lane = l.lane and g.seq >= lower(u.r) and g.seq < upper(u.r) limit 1) g)
    or exists (select from unnest(c.pending, c.los) as p(x, lo) cross join lateral (
      select from postroom.log_{partition} g where g.lane = l.lane and g.seq > p.lo and g.seq <= c.hwm and g.tx = p.x limit 1) g)))
