-- How long somebody has kept dead rows from being removed, and the age of the oldest transaction that has written. Sessions of
-- others show when they began also to those who may not see what they do.
select
  coalesce(extract(epoch from clock_timestamp() - min(since) filter (where pins)), 0)::float8 as horizon,
  coalesce(extract(epoch from clock_timestamp() - min(since) filter (where writes)), 0)::float8 as writer
from (
  select xact_start as since, backend_xmin is not null as pins, backend_xid is not null as writes
  from pg_stat_activity where pid <> pg_backend_pid() and (datname is null or datname = current_database())
  union all
  select prepared, true, true from pg_prepared_xacts where database = current_database()
) t
