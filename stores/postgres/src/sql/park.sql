-- Parks events as deliveries of their own. $1 is the route, $2 the time, then their columns.
insert into postroom.delivery (route, lane, seq, key, state, blocks, due, attempts, code, error, since)
select $1, p.lane, p.seq, p.key, p.state, p.blocks, p.due, p.attempts, p.code, p.error, $2
from unnest($3::int2[], $4::int8[], $5::text[], $6::text[], $7::bool[], $8::timestamptz[], $9::int4[], $10::text[], $11::text[])
  as p(lane, seq, key, state, blocks, due, attempts, code, error)
on conflict (seq, route, replay) do update set
  state = excluded.state, blocks = excluded.blocks, due = excluded.due, attempts = excluded.attempts,
  code = excluded.code, error = excluded.error, since = excluded.since
returning handle, seq, round
