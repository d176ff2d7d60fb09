-- What each route, or route $3, did in the minute from $1 to $2, from its lanes' checkpoints and its failed tries.
select r.name as route, $1 as minute, greatest(d.delivered, 0) as delivered, greatest(t.tries - x.dead, 0) as retried, x.dead
from postroom.route r
cross join lateral (
  select coalesce(sum(after.delivered - coalesce(before.delivered, first.delivered)), 0)::int8 as delivered
  from postroom.lane l
  join lateral (
    select c.delivered + c.recovered + c.replayed as delivered from postroom.checkpoint c
    where c.route = l.route and c.lane = l.lane and c.at < $2 order by c.term desc, c.id desc limit 1) after on true
  left join lateral (
    select c.delivered + c.recovered + c.replayed as delivered from postroom.checkpoint c
    where c.route = l.route and c.lane = l.lane and c.at < $1 order by c.term desc, c.id desc limit 1) before on true
  left join lateral (
    select c.delivered + c.recovered + c.replayed as delivered from postroom.checkpoint c
    where c.route = l.route and c.lane = l.lane order by c.term, c.id limit 1) first on true
  where l.route = r.name) d
cross join lateral (
  select count(*) as tries from postroom.attempt a where a.at >= $1 and a.at < $2 and a.route = r.name) t
cross join lateral (
  select count(*) as dead from postroom.delivery d
  where d.route = r.name and d.state = 'dead' and d.since >= $1 and d.since < $2) x
where ($3::text is null or r.name = $3)
