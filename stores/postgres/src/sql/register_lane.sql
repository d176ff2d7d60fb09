-- A lane of a new route with its first checkpoint. Terms go on after those of forgotten routes: a relay of before must
-- not find its own again.
with l as (
  insert into postroom.lane (route, lane, term, start_hwm, start_pending)
  values ($1, $2, coalesce((select value::int8 from postroom.meta where name = 'term'), 0), $3, $4)
  returning route, lane, term)
insert into postroom.checkpoint (route, lane, term, hwm, pending, los, base)
select route, lane, term, $3, $4, $5, $6 from l
