-- Every checkpoint with what can be counted beside it: rows of the log up to it, there or pruned, and open deliveries.
-- Replays of settled events are not part of the counts.
select c.*,
  (select count(*) from postroom_log l where l.seq <= c.hwm)
    + (select value from postroom_meta where name = 'pruned') as in_log,
  (select count(*) from postroom_delivery d where d.route = c.route and d.replay = 0) as open
from postroom_checkpoint c
order by c.route, c.lane
