-- Removes deliveries ($1, handles) and adds those that are part of the counts to what was discarded of their lane, which
-- the caller has locked.
with gone as (delete from postroom.delivery where handle = any($1::int8[]) returning route, lane, replay)
update postroom.lane l set discarded = l.discarded + g.number
from (select route, lane, count(*) as number from gone where not replay group by route, lane) g
where l.route = g.route and l.lane = g.lane
