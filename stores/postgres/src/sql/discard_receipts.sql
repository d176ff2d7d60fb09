-- Says of each delivery that is about to be discarded ($1, handles) that it was. $2 is the time.
insert into postroom.receipt (seg, route, lane, first, last, ranges, discarded, at)
select extract(epoch from $2::timestamptz)::int8 / {segment} % {leaves}, route, lane, seq, seq,
  int8multirange(int8range(seq, seq, '[]')), true, $2
from postroom.delivery where handle = any($1::int8[])
