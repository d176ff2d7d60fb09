-- The greatest number of each lane ($1) in one partition. Served by its (lane, seq).
select n.lane, (select max(l.seq) from postroom.log_{partition} l where l.lane = n.lane) as seq
from unnest($1::int2[]) as n(lane)
