-- What cannot stay as it is when anything in this database changes: the last number drawn, which transactions run, how far the
-- log of the whole cluster has got, and since when the server runs. Without a table but the sequence, because it is asked often.
select clock_timestamp() as now, pg_current_snapshot()::text as snap, case when is_called then last_value else 0 end as last,
  pg_postmaster_start_time() as started, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8 as wal
from postroom.log_seq
