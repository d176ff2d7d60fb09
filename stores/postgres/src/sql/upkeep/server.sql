-- What the server says of itself: its version, how large the database is, and from how many sessions this role is kept.
select current_setting('server_version') as version,
  pg_database_size(current_database()) as bytes,
  format('%I', current_user) as role,
  (select count(*) from pg_stat_activity
   where datname = current_database() and query = '<insufficient privilege>') as hidden
