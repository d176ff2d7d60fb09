-- Removes what step 2 made. What replays have made pending stays pending.
drop table postroom_adopted_token;
drop table postroom_adopted_replay;
alter table postroom_adopted_stat drop column retried;
alter table postroom_adopted_stat drop column dead;
update postroom_adopted_meta set value = '1' where name = 'schema_version';
