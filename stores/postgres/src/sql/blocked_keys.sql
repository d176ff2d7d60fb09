-- Keys with events that wait, those whose head came first in front, with the head and how many stand
-- behind it; after the key $5 of route $4 whose head is $3.
-- Groups and heads are served by delivery_key.
select d.route, d.key, d.seq, d.state, d.attempts, d.code, d.error, d.due, d.since, l.id,
  (select count(*) from postroom.delivery b
   where b.route = d.route and b.key = d.key and b.blocks and b.seq > d.seq) as waiting
from (
  select route, key from postroom.delivery
  where blocks and state = 'blocked' and ($1::text is null or route = $1) group by route, key) k
cross join lateral (
  select * from postroom.delivery h
  where h.route = k.route and h.key = k.key and h.blocks order by h.seq limit 1) d
cross join lateral (select e.id from postroom.event e where e.lane = d.lane and e.seq = d.seq limit 1) l
where (d.seq, d.route, d.key) > ($3, $4, $5)
order by d.seq, d.route, d.key
limit $2
