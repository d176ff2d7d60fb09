-- The keys of some lanes ($2) that an event blocks, and whether more wait behind it than may ($3).
select lane, key, count(*) filter (where state = 'blocked') >= $3 as full
from postroom.delivery where route = $1 and lane = any($2) and blocks
group by lane, key
