-- Keys with events that wait, those whose head came first in front, with the head and how many stand
-- behind it; after the key ?5 of route ?4 whose head is ?3.
-- Groups and heads are served by postroom_delivery_key.
select d.route, d.key, d.seq, d.state, d.attempts, d.code, d.error, d.due, d.since, l.id,
  (select count(*) from postroom_delivery b
   where b.route = d.route and b.key = d.key and b.blocks = 1 and b.seq > d.seq) as waiting
from (
  select route, key, (
      select handle from postroom_delivery h
      where h.route = w.route and h.key = w.key and h.blocks = 1 order by h.seq limit 1) as head
  from postroom_delivery w
  where blocks = 1 and state = 'blocked' and (?1 is null or route = ?1)
  group by route, key
) k
join postroom_delivery d on d.handle = k.head
join postroom_log l on l.seq = d.seq
where (d.seq, d.route, d.key) > (?3, ?4, ?5)
order by d.seq, d.route, d.key
limit ?2
