-- The newest receipt that covers a number, among the 2,000 of its lane that begin closest below it: a receipt never spans
-- far, so an older one does not reach it. Served by each leaf's receipt_first.
select r.discarded, r.at, r.coordinates ->> $3::int8::text as coordinates
from (
  select * from postroom.receipt where route = $1 and lane = $2 and first <= $3 order by first desc limit 2000) r
where r.last >= $3 and r.ranges @> $3::int8
order by r.at desc, r.discarded desc
limit 1
