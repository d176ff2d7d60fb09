-- Removes some followers of a route and adds those that are part of the counts to what was discarded of their lane, which the
-- caller has locked; says how many went. Served by delivery_state.
with gone as (
  delete from postroom.delivery where handle in (
    select handle from postroom.delivery where route = $1 and state = 'blocked' limit 5000)
  returning route, lane, replay),
counted as (
  update postroom.lane l set discarded = l.discarded + g.number
  from (select route, lane, count(*) as number from gone where not replay group by route, lane) g
  where l.route = g.route and l.lane = g.lane)
select count(*) from gone
