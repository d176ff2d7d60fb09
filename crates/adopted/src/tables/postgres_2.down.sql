-- Removes what step 2 made. What replays have made pending stays pending.
drop table {schema}.adopted_token;
drop table {schema}.adopted_replay;
alter table {schema}.adopted_stat drop column retried, drop column dead;
update {schema}.adopted_meta set value = '1' where name = 'schema_version';
