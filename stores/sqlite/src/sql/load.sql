-- The events of some numbers, a JSON list. By primary key.
select * from postroom_log where seq in (select value from json_each(?1))
