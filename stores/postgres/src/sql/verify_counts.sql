-- Every lane's newest checkpoint with what can be counted beside it under the same snapshot: rows up to it, in the log or
-- truncated, less those its pending transactions have committed since; seen rows in its unsettled ranges; and open
-- deliveries. Replays of settled events are not part of the counts. However many routes there are, a row is counted once:
-- between one position of its lane and the next. Each such stretch is a range of the partitions' (lane, seq).
with c as materialized (
  select l.route, l.lane, l.discarded, c.hwm, c.pending, c.los, c.unsettled, c.base, c.seen, c.delivered, c.filtered,
    c.parked, c.recovered, c.replayed
  from postroom.lane l left join lateral (
    select * from postroom.checkpoint c
    where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) c on true),
p as materialized (
  select lane, hwm, sum(rows) over (partition by lane order by hwm)::int8 as rows
  from (
    select s.lane, s.hwm,
      (select count(*) from postroom.log l where l.lane = s.lane and l.seq > s.after and l.seq <= s.hwm) as rows
    from (
      select lane, hwm, lag(hwm, 1, -1::int8) over (partition by lane order by hwm) as after
      from (select distinct lane, hwm from c where hwm is not null) d) s) r),
o as materialized (
  select route, lane, count(*) as open from postroom.delivery where not replay group by route, lane),
a as materialized (
  select c.route, c.lane, c.hwm, c.base as said, c.seen, c.delivered, c.filtered, c.parked, c.recovered, c.replayed, c.discarded,
    t.rows + coalesce(p.rows, 0)
      - (select count(*) from unnest(c.pending, c.los) as w(x, lo) cross join lateral (
          select from postroom.log l where l.lane = c.lane and l.seq > w.lo and l.seq <= c.hwm and l.tx = w.x offset 0) l)
      as rows,
    (select count(*) from unnest(c.unsettled) as u(r) cross join lateral (
      select from postroom.log l
      where l.lane = c.lane and l.seq >= lower(u.r) and l.seq < upper(u.r)
        and not exists (select from unnest(c.pending, c.los) as w(x, lo) where w.x = l.tx and l.seq > w.lo)
      offset 0) l) as unsettled,
    coalesce(o.open, 0) as open
  from c
  join postroom.truncated t on t.lane = c.lane
  left join p on p.lane = c.lane and p.hwm = c.hwm
  left join o on o.route = c.route and o.lane = c.lane)
-- What lay before a route that started on a long log is -1 until its relay has counted it: then it is what it must be.
select a.*, case when said < 0 then rows - seen else said end as base from a order by route, lane
