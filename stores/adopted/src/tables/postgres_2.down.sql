-- What replays have made pending stays pending.
update {schema}.adopted_meta set value = '1' where name = 'schema_version';
