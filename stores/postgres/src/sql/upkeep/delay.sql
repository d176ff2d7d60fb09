-- Puts an event aside until its time.
insert into postroom.delivery (route, lane, seq, key, state, due, since)
values ($1, $2, $3, $4, 'delayed', $5, $6)
on conflict do nothing
