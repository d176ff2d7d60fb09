-- The receipts that cover a number, newest first, among the 2,000 of its lane that begin closest below it: a receipt never
-- spans far, so an older one does not reach it. Those of replays name each number; of the others only the newest counts, because
-- a range may span numbers that were committed later. Served by each partition's receipt_first.
select r.discarded, r.at, r.coordinates ->> $3::int8::text as coordinates, r.replay
from (
  select * from postroom.receipt where route = $1 and lane = $2 and first <= $3 order by first desc limit 2000) r
where r.last >= $3 and r.ranges @> $3::int8
order by r.at desc, r.discarded desc
