-- How long somebody has kept dead rows from being removed, and the age of the oldest transaction that has written. A role
-- without pg_read_all_stats is not told when the transactions of others began, and counts only its own.
select
  coalesce(extract(epoch from clock_timestamp() - min(since)), 0)::float8 as horizon,
  coalesce(extract(epoch from clock_timestamp() - min(since) filter (where writes)), 0)::float8 as writer
from (
  select xact_start as since, backend_xid is not null as writes
  from pg_stat_activity
  where coalesce(backend_xmin, backend_xid) is not null and pid <> pg_backend_pid()
    and (datname is null or datname = current_database())
  union all
  select prepared, true from pg_prepared_xacts where database = current_database()
) t
