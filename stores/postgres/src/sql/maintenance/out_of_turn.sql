-- Events that were appended while the sequence was behind: numbered up to $1, the last number it had given out, and appended after
-- the events with the greatest numbers, or by a transaction of this cluster where $2 says that those were not. Left out are events
-- that a route has unsettled or parked. Served by (lane, seq) of each partition.
with t as materialized (
  select coalesce(
    (select max(n.appended_at) from postroom.truncated t cross join lateral (
       select l.seq, l.appended_at from postroom.log l where l.lane = t.lane and l.seq > $1 order by l.seq desc limit 1) n),
    (select max(c.at) from postroom.checkpoint c where c.hwm > $1)) as last)
select l.lane, l.seq
from t, postroom.truncated r cross join lateral (
  select l.lane, l.seq, l.tx, l.appended_at, l.xmin from postroom.log l where l.lane = r.lane and l.seq <= $1 offset 0) l
where (l.appended_at > t.last or $2 and l.xmin::text::int8 = l.tx & 4294967295)
  and not exists (select from postroom.delivery d where d.seq = l.seq and d.lane = l.lane)
  and not exists (
    select from postroom.lane w cross join lateral (
      select c.hwm, c.unsettled from postroom.checkpoint c
      where c.route = w.route and c.lane = w.lane order by c.term desc, c.id desc limit 1) c
    where w.lane = l.lane and c.unsettled @> l.seq)
order by l.lane, l.seq, l.appended_at
