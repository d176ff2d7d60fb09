-- When the next parked delivery of some lanes ($2) becomes due after a time ($3). Served by delivery_due.
select min((select min(d.due) from postroom.delivery d where d.route = $1 and d.lane = n.lane and d.due > $3))
from unnest($2::int2[]) as n(lane)
