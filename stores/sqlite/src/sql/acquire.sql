-- Takes a free lane under the next term: nobody's, our own of before, or that of a relay whose heartbeat has run out
-- or, since the clock was set back, lies further ahead than its lease. Only a relay that lives itself may have it.
update postroom_lane set holder = ?2, term = term + 1
where route = ?1 and lane = 0
  and (holder is null or holder = ?2
       or not exists (select 1 from postroom_relay where source = '' and boot = postroom_lane.holder
                      and alive_until > ?3 and seen_at - ?3 <= alive_until - seen_at))
  and exists (select 1 from postroom_relay where source = '' and boot = ?2
              and alive_until > ?3 and seen_at - ?3 <= alive_until - seen_at)
returning term
