-- The last number drawn, and the greatest one that is in the log or was seen. Served by (lane, seq) of each partition.
select s.last_value - (not s.is_called)::int as last_number,
  greatest(
    (select coalesce(max(hwm), 0) from postroom.checkpoint),
    (select coalesce(max(seq), 0) from postroom.evacuated),
    (select coalesce(max(n.seq), 0) from postroom.truncated t
     cross join lateral (select l.seq from postroom.log l where l.lane = t.lane order by l.seq desc limit 1) n)) as greatest
from postroom.log_seq s
