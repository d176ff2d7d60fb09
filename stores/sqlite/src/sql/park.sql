-- Parks an event as a delivery of its own; the same again when the write is repeated.
insert into postroom_delivery (route, seq, key, state, blocks, due, attempts, code, error, since)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
on conflict (seq, route, replay) do update set
  state = excluded.state, blocks = excluded.blocks, due = excluded.due, attempts = excluded.attempts,
  code = excluded.code, error = excluded.error, since = excluded.since
returning handle, round
