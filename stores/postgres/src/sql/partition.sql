-- What partition {partition} of the log holds, under the snapshot that comes along: rows per lane, whether one is younger than $1, how
-- many some delivery needs, and whether a route has yet to read or settle one. Counts are ranges of the partition's (lane, seq).
with s as materialized (select pg_current_snapshot() as snap)
select s.snap::text as snap, n.lanes, n.rows,
  exists (select from postroom.log_{partition} where appended_at >= $1) as young,
  (select count(*) from (select distinct lane, seq from postroom.delivery) d cross join lateral (
    select from postroom.log_{partition} l where l.lane = d.lane and l.seq = d.seq) l) as needed
from s, (
  select coalesce(array_agg(lane), '{}') as lanes, coalesce(array_agg(rows), '{}') as rows
  from (select lane, count(*) as rows from postroom.log_{partition} group by lane) c) n
