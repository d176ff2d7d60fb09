-- Where every lane of the log ends, under one snapshot: a read that throws its rows away. The only statement of its
-- transaction, like read. base counts the rows up to there, in the log or truncated: from the checkpoint of this lane that has
-- come furthest, whose counts stand for all rows up to it but those that its pending transactions have committed since (found
-- by each partition's BRIN on tx); without any checkpoint, from the first row. Where more than 5,000 rows would have to be
-- counted it is -1: nobody waits for that, the relay counts them beside its work (source/verify). No parameter: a plan for any
-- number would read all rows first.
with s as materialized (
  select pg_current_snapshot() as snap, age(pg_snapshot_xmax(pg_current_snapshot())::xid) as above),
k as materialized (
  select t.lane, coalesce(c.hwm, -1) as hwm, c.pending, c.los, coalesce(c.rows, t.rows) as rows
  from postroom.truncated t left join lateral (
    select n.hwm, n.pending, n.los, n.base + n.seen as rows
    from postroom.lane l cross join lateral (
      select * from postroom.checkpoint c
      where c.route = l.route and c.lane = l.lane order by c.term desc, c.id desc limit 1) n
    where l.lane = t.lane and n.base >= 0 order by n.hwm desc limit 1) c on true),
w as materialized (
  select l.lane, count(*) as rows
  from (select lane, seq, tx from postroom.log where tx = any(array(select unnest(pending) from k)) offset 0) l
  join k on k.lane = l.lane and l.seq <= k.hwm
  join lateral unnest(k.pending, k.los) as p(x, lo) on p.x = l.tx and l.seq > p.lo
  group by l.lane),
f as materialized (
  select k.lane, (
    select count(*) from (select from postroom.log l where l.lane = k.lane and l.seq > k.hwm limit 5001) l) as rows
  from k)
select s.snap::text as snap, s.above::int8 as above, k.lane, coalesce(e.hwm, 0) as hwm,
  case when f.rows > 5000 then -1 else k.rows + coalesce(w.rows, 0) + f.rows end as base
from s, k
join f on f.lane = k.lane
left join w on w.lane = k.lane
left join lateral (select l.seq as hwm from postroom.log l where l.lane = k.lane order by l.seq desc limit 1) e on true
order by k.lane
