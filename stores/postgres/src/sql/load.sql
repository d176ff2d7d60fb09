-- The payloads of some events, by lane and number, in the log or evacuated.
select l.seq, l.payload
from unnest($1::int2[], $2::int8[]) as n(lane, seq) cross join lateral (
  select seq, payload from postroom.log where lane = n.lane and seq = n.seq
  union all
  select seq, payload from postroom.evacuated where seq = n.seq) l
