-- Whether a look may find something, for all routes ($2) at once: the last number drawn, which transactions run, and per
-- route what another party may have changed. $1 is the time unless it is the database's.
with n as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now),
alive as materialized (
  select r.boot, r.routes from postroom.relay r, n
  where r.source = '' and r.alive_until > n.now and r.seen_at - n.now <= r.alive_until - r.seen_at)
select n.now, r.name, pg_current_snapshot()::text as snap, (select case when is_called then last_value else 0 end from postroom.log_seq) as last,
  pg_postmaster_start_time() as started, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 as wal,
  r.paused_by is not null as paused,
  (select min((select min(d.due) from postroom.delivery d
               where d.route = r.name and d.lane = l.lane and d.due is not null))
   from postroom.lane l where l.route = r.name) as due,
  array(select l.holder || ' ' || l.term from postroom.lane l where l.route = r.name order by l.lane) as lanes,
  array(select a.boot from alive a where a.routes ? r.name order by a.boot) as live
from n, postroom.route r
where r.name = any($2)
