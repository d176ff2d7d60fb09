-- The greatest number of each lane ($1) in one leaf. Served by its (lane, seq).
select n.lane, (select max(l.seq) from postroom.log_{leaf} l where l.lane = n.lane) as seq
from unnest($1::int2[]) as n(lane)
