-- How a route stands: who holds its lanes and lives, whether it is paused, what is due when. $1 is the time unless it is
-- the database's, $2 the route. started and wal tell whether this is still the server that
-- was read before. By primary keys and delivery_due.
with n as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
alive as materialized (
  select r.boot, r.routes ? $2 as serves
  from postroom.relay r, n where r.source = '' and r.alive_until > n.now and r.seen_at - n.now <= r.alive_until - r.seen_at)
select n.now, l.lane, l.holder, l.term,
  l.holder in (select boot from alive) as held,
  (select min(d.due) from postroom.delivery d where d.route = $2 and d.lane = l.lane and d.due is not null) as due,
  r.paused_by is not null as paused, r.probe_at,
  array(select boot from alive where serves order by boot) as live,
  exists (select 1 from postroom.delivery d where d.route = $2 and d.state = 'retrying') as retrying,
  (select case when is_called then last_value else 0 end from postroom.log_seq) as last,
  pg_postmaster_start_time() as started,
  pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 as wal
from n, postroom.route r left join postroom.lane l on l.route = r.name
where r.name = $2
order by l.lane
