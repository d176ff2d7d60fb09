-- Takes a free lane under the next term: nobody's, our own of before, or that of a relay whose heartbeat has run out.
-- Only a relay that lives itself may have it.
update postroom_lane set holder = ?2, term = term + 1
where route = ?1 and lane = 0
  and (holder is null or holder = ?2
       or not exists (select 1 from postroom_relay where boot = postroom_lane.holder and alive_until > ?3))
  and exists (select 1 from postroom_relay where boot = ?2 and alive_until > ?3)
returning term
