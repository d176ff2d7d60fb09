-- Receipts that may cover a number, newest first, among the 2,000 that begin closest below it: a receipt never spans
-- far, so an older one does not reach it. Served by postroom_receipt_first.
select ranges, coordinates, discarded, at, replay
from (select * from postroom_receipt where route = ?1 and first <= ?2 order by first desc limit 2000)
where last >= ?2
order by number desc
