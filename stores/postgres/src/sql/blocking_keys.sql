-- The keys of some lanes ($2) that an event blocks, as far as $3 of their events tell, and how many those are.
with d as materialized (
  select lane, key from postroom.delivery where route = $1 and lane = any($2) and blocks limit $3)
select lane, key, (select count(*) from d) from d group by lane, key
