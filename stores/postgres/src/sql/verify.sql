-- How many rows of some lanes ($1) are numbered above $2 and up to $3, less those of transactions that a lane still waits for
-- ($4, $5, $6: lane, transaction, lo); and how many rows of the lane were truncated. Counts are ranges of (lane, seq), the rows of
-- transactions are found by each partition's BRIN on tx.
with n as materialized (select * from unnest($1::int2[], $2::int8[], $3::int8[]) as n(lane, after, upto)),
w as materialized (
  select l.lane, count(*) as rows
  from (select lane, seq, tx from postroom.log where tx = any($5::int8[]) offset 0) l
  join unnest($4::int2[], $5::int8[], $6::int8[]) as p(lane, x, lo) on p.lane = l.lane and p.x = l.tx and l.seq > p.lo
  join n on n.lane = l.lane and l.seq > n.after and l.seq <= n.upto
  group by l.lane)
select n.lane, t.rows as truncated,
  (select count(*) from postroom.log l where l.lane = n.lane and l.seq > n.after and l.seq <= n.upto) - coalesce(w.rows, 0) as rows
from n join postroom.truncated t on t.lane = n.lane left join w on w.lane = n.lane
