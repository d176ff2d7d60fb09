-- Where we are: whether we may write here, and whether the tables were made on this cluster.
select pg_is_in_recovery() as standby,
  current_setting('transaction_read_only')::boolean as read_only,
  (select system_identifier::text from pg_control_system()) as system_identifier,
  (select value from postroom.meta where name = 'system_identifier') as made_for,
  (select timeline_id::text from pg_control_checkpoint()) as timeline,
  (select value from postroom.meta where name = 'timeline') as known_timeline
