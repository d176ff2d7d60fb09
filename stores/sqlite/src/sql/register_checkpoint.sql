-- The first checkpoint of a route: rows up to its start, there or pruned, are its base and never counted as seen.
insert into postroom_checkpoint (route, lane, term, hwm, base)
select r.name, 0, 0, r.start_seq,
  (select count(*) from postroom_log where seq <= r.start_seq) + (select value from postroom_meta where name = 'pruned')
from postroom_route r where r.name = ?1
