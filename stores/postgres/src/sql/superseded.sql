-- Per lane the newest checkpoint older than $1: it stays, what stands before it goes. Served by checkpoint_newest.
select l.route, l.lane, k.term, k.id from postroom.lane l cross join lateral (
  select c.term, c.id from postroom.checkpoint c
  where c.route = l.route and c.lane = l.lane and c.at < $1 order by c.term desc, c.id desc limit 1) k
