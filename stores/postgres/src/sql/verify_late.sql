-- How many rows some transactions ($1, $2, $3: lane, transaction, lo) have committed up to the lane's number ($4). Served by each
-- partition's BRIN on tx.
select p.lane, count(*) as rows
from (select lane, seq, tx from postroom.log where tx = any($2::int8[]) offset 0) l
join unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[]) as p(lane, x, lo, upto)
  on p.lane = l.lane and p.x = l.tx and l.seq > p.lo and l.seq <= p.upto
group by p.lane
