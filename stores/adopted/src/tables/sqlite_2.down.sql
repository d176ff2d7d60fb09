-- What replays have made pending stays pending.
update postroom_adopted_meta set value = '1' where name = 'schema_version';
