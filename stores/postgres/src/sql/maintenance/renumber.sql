-- Gives events of some lanes ($1, $2: lane and number) the next numbers, in their order: every route reads them as new ones. They are
-- of this transaction from now on, which has its id already, so the position rule holds for them. Served by (lane, seq).
with n as materialized (
  select o.lane, o.seq, o.appended_at, nextval('postroom.log_seq') as next
  from (
    select l.lane, l.seq, l.appended_at from unnest($1::int2[], $2::int8[]) as m(lane, seq)
    join postroom.log l on l.lane = m.lane and l.seq = m.seq
    order by l.seq, l.appended_at offset 0) o)
update postroom.log l set seq = n.next, tx = pg_current_xact_id()::text::int8
from n where l.lane = n.lane and l.seq = n.seq and l.appended_at = n.appended_at
