-- Removes what step 1 made, and the schema if nothing else is in it.
drop function if exists postroom.append, postroom.append_bytes, postroom.append_rows, postroom.append_many, postroom.append_once,
  postroom.append_ordered, postroom.accept, postroom.uuid7, postroom.check_event;
drop view postroom.event;
drop table postroom.lane, postroom.route, postroom.checkpoint, postroom.delivery, postroom.attempt,
  postroom.inbox, postroom.append_key, postroom.append_lock, postroom.truncated, postroom.evacuated,
  postroom.receipt, postroom.log, postroom.meta;
drop sequence postroom.log_seq;
do $$ begin
  drop schema {schema};
exception when dependent_objects_still_exist then
  raise notice 'the schema is kept: it has other things in it';
end $$;
