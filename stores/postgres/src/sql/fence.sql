-- Which of these lanes are still ours under these terms; they stay so until the transaction ends. $5 is the time unless it
-- is the database's, $6 when the server was started that they were read from.
select l.lane, coalesce($5::timestamptz, clock_timestamp()) as now
from postroom.lane l
where l.route = $1 and l.holder = $2
  and (l.lane, l.term) in (select * from unnest($3::int2[], $4::int8[]))
  and pg_postmaster_start_time() = coalesce($6::timestamptz, pg_postmaster_start_time())
order by l.lane
for share
