-- Where every lane of the log ends, under one snapshot: a read that throws its rows away. The only statement of its
-- transaction, like read. base counts the rows up to there, in the log or truncated.
with s as materialized (
  select pg_current_snapshot() as snap, age(pg_snapshot_xmax(pg_current_snapshot())::xid) as above)
select s.snap::text as snap, s.above::int8 as above, t.lane, coalesce(l.hwm, 0) as hwm, t.rows + coalesce(l.rows, 0) as base
from s, postroom.truncated t
left join (select lane, max(seq) as hwm, count(*) as rows from postroom.log group by lane) l using (lane)
order by t.lane
