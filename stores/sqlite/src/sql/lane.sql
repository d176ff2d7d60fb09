-- Who holds a route's lane, until when that relay lives, and whether the route is paused. A heartbeat that
-- lies further ahead than its lease is of before the clock was set back. By primary keys only.
select l.holder, l.term, r.paused_by is not null as paused, r.probe_at,
  (select alive_until from postroom_relay where source = '' and boot = l.holder and seen_at - ?3 <= alive_until - seen_at) as alive_until,
  exists (select 1 from postroom_relay
          where source = '' and boot = ?2 and alive_until > ?3 and seen_at - ?3 <= alive_until - seen_at) as joined
from postroom_route r left join postroom_lane l on l.route = r.name and l.lane = 0
where r.name = ?1
