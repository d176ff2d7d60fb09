-- Who looks furthest back, of all that keep dead rows of this database from being removed.
select * from (
  select 'session' as kind, pid::text as name,
    concat_ws(', ', usename::text, nullif(application_name, ''), state) as detail, xact_start as since,
    greatest(age(backend_xmin), age(backend_xid)) as age
  from pg_stat_activity
  where coalesce(backend_xmin, backend_xid) is not null and pid <> pg_backend_pid() and (datname is null or datname = current_database())
  union all
  select 'prepared transaction', gid, owner::text, prepared, age(transaction)
  from pg_prepared_xacts where database = current_database()
  union all
  select 'replication slot', slot_name::text, case when active then 'active' else 'not active' end, null, age(xmin)
  from pg_replication_slots where xmin is not null
) h
order by age desc nulls last
limit 1
