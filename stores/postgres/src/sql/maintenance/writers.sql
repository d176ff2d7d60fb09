-- The oldest transactions of this database that have written and are open for more than a minute.
select * from (
  select 'session' as kind, pid::text as name,
    concat_ws(', ', usename::text, nullif(application_name, ''), state) as detail, xact_start as since
  from pg_stat_activity
  where backend_xid is not null and pid <> pg_backend_pid() and datname = current_database()
  union all
  select 'prepared transaction', gid, owner::text, prepared
  from pg_prepared_xacts where database = current_database()
) w
where since < clock_timestamp() - interval '1 minute'
order by since
limit 5
