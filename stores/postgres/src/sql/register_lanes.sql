-- The lanes of a new route ($1) with their first checkpoints: $2 to $6 are the lanes, where they begin, and the rows that lie
-- before, null for the truncated ones. Terms go on after those of forgotten routes: a relay of before must not find its
-- own again. $7 is the time.
with b as materialized (
  select b.lane, b.hwm, b.pending::int8[] as pending, b.los::int8[] as los, coalesce(b.base, t.rows) as base
  from unnest($2::int2[], $3::int8[], $4::text[], $5::text[], $6::int8[]) as b(lane, hwm, pending, los, base)
  join postroom.truncated t using (lane)),
l as (
  insert into postroom.lane (route, lane, term, start_hwm, start_pending)
  select $1, b.lane, coalesce((select value::int8 from postroom.meta where name = 'term'), 0), b.hwm, b.pending from b
  returning route, lane, term)
insert into postroom.checkpoint (route, lane, term, hwm, pending, los, base, at)
select l.route, l.lane, l.term, b.hwm, b.pending, b.los, b.base, $7 from l join b using (lane)
