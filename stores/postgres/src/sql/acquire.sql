-- Takes free lanes ($3) under their next terms: nobody's, our own of before, or those of a relay whose heartbeat has run out
-- or, since the clock was set back, lies further ahead than its lease. Only a relay that lives itself may have them.
-- Waits for a settle that holds the lane: what it wrote is seen by the next statement of the transaction.
update postroom.lane l set holder = $2, term = l.term + 1
from (select coalesce($4::timestamptz, clock_timestamp()) as now) n
where l.route = $1 and l.lane = any($3)
  and (l.holder is null or l.holder = $2
       or not exists (select 1 from postroom.relay r where r.source = '' and r.boot = l.holder
                      and r.alive_until > n.now and r.seen_at - n.now <= r.alive_until - r.seen_at))
  and exists (select 1 from postroom.relay r where r.source = '' and r.boot = $2
              and r.alive_until > n.now and r.seen_at - n.now <= r.alive_until - r.seen_at)
returning l.lane, l.term
