-- Registers a route if its name is new.
insert into postroom.route (name, filter, destination, on_failure, on_dead, start, start_at, registered_at)
values ($1, $2::jsonb, $3, $4, $5, $6, $7, $8)
on conflict do nothing
