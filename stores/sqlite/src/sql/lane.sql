-- Who holds a route's lane, until when that relay lives, and whether the route is paused. By primary keys only.
select l.holder, l.term, r.paused_by is not null as paused,
  (select alive_until from postroom_relay where boot = l.holder) as alive_until,
  exists (select 1 from postroom_relay where boot = ?2 and alive_until > ?3) as joined
from postroom_route r left join postroom_lane l on l.route = r.name and l.lane = 0
where r.name = ?1
