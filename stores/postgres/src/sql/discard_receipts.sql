-- Says of each delivery that is about to be discarded ($1, handles) that it was. $2 is the time.
insert into postroom.receipt (partition, route, lane, first, last, ranges, discarded, at, replay)
select extract(epoch from $2::timestamptz)::int8 / {segment} % {partitions}, route, lane, seq, seq,
  int8multirange(int8range(seq, seq, '[]')), true, $2, replayed_by
from postroom.delivery where handle = any($1::int8[])
