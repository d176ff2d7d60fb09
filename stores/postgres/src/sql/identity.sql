-- Where we are: whether we may write here, and whether the tables were made on this cluster and in this database. `server` is the
-- address we reached it at, none over a socket; `known_servers` those that it was known at, parted by spaces. `timeline` is that of what
-- is written now: what the control file says is the old one for minutes after a promotion, until a checkpoint is done.
select pg_is_in_recovery() as standby,
  current_setting('transaction_read_only')::boolean as read_only,
  (select system_identifier::text from pg_control_system()) as system_identifier,
  (select value from postroom.meta where name = 'system_identifier') as made_for,
  case when pg_is_in_recovery() then (select timeline_id::text from pg_control_checkpoint())
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4::text end as timeline,
  (select value from postroom.meta where name = 'timeline') as known_timeline,
  (select oid::text from pg_database where datname = current_database()) as database,
  (select value from postroom.meta where name = 'database') as known_database,
  host(inet_server_addr()) || ':' || inet_server_port() as server,
  (select value from postroom.meta where name = 'servers') as known_servers
