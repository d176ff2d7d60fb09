-- Adds deliveries that are about to be discarded (?1, a JSON array of handles) to what was discarded of their routes, as far as
-- they are part of the counts.
update postroom_checkpoint set discarded = discarded + g.number
from (
  select route, count(*) as number from postroom_delivery
  where handle in (select value from json_each(?1)) and not replay group by route
) g
where postroom_checkpoint.route = g.route and lane = 0
