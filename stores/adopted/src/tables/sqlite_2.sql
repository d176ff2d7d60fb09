update postroom_adopted_meta set value = '2' where name = 'schema_version';
