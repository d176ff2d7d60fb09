-- Remembers an idempotency key; no row when an earlier append used it. Served by its unique index.
insert into postroom_append_key (idempotency_key, at) values (?1, ?2) on conflict do nothing
