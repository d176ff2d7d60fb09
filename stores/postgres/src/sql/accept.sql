-- Remembers that the consumer accepted the event; one row when it is new to it, none when it was there. $3 is the time,
-- unless it is the database's. Served by the primary key.
insert into postroom.inbox (consumer, id, accepted_at)
values ($1::text, $2::text, coalesce($3::text::timestamptz, clock_timestamp()))
on conflict do nothing
