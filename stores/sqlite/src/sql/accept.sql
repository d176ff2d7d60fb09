-- Remembers that the consumer accepted the event; one row when it is new to it, none when it was there. Served by the primary key.
insert into postroom_inbox (consumer, id, accepted_at) values (?1, ?2, ?3) on conflict do nothing
