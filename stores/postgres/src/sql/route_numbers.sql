-- What a route's status counts. By delivery_state, delivery_key and checkpoint_newest: `before` is what had been delivered
-- a minute ago, from the newest checkpoint of each lane that is older ($2), or else its first one.
select
  (select count(*) from postroom.delivery where route = $1 and state = 'retrying') as retrying,
  (select count(*) from postroom.delivery where route = $1 and state = 'dead') as dead,
  (select count(*) from (
    select from postroom.delivery where route = $1 and blocks and state = 'blocked' group by key) k) as blocked_keys,
  (select coalesce(sum(coalesce(old.delivered, first.delivered)), 0)::int8
   from postroom.lane l
   left join lateral (
     select c.delivered + c.recovered + c.replayed as delivered from postroom.checkpoint c
     where c.route = l.route and c.lane = l.lane and c.at <= $2 order by c.term desc, c.id desc limit 1) old on true
   left join lateral (
     select c.delivered + c.recovered + c.replayed as delivered from postroom.checkpoint c
     where c.route = l.route and c.lane = l.lane and old.delivered is null order by c.term, c.id limit 1) first on true
   where l.route = $1) as before
