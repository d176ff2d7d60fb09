-- Whether an event with id $1 is in the log; served by each leaf's indexes on id.
select exists (select from postroom.event where id = $1::text)
