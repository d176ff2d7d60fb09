-- Takes a lane from whoever has it and writes its checkpoint without pending transactions: $3 became unsettled, $4 was
-- seen and settled at once, which parts the ranges around it. $5 of them are filtered, $6 parked. $7 is the time unless it
-- is the database's.
with l as (
  update postroom.lane set holder = null, term = term + 1 where route = $1 and lane = $2 returning route, lane, term),
c as (
  select * from postroom.checkpoint where route = $1 and lane = $2 order by term desc, id desc limit 1)
insert into postroom.checkpoint
  (route, lane, term, hwm, unsettled, base, seen, delivered, filtered, parked, recovered, replayed, at)
select l.route, l.lane, l.term, c.hwm,
  c.unsettled - (select coalesce(range_agg(int8range(n, n, '[]')), '{}') from unnest($4::int8[]) n)
    + (select coalesce(range_agg(int8range(n, n, '[]')), '{}') from unnest($3::int8[]) n),
  c.base, c.seen + cardinality($3::int8[]) + cardinality($4::int8[]), c.delivered, c.filtered + $5, c.parked + $6, c.recovered, c.replayed,
  coalesce($7::timestamptz, clock_timestamp())
from l, c
