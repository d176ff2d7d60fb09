-- Keeps failed tries; each once, however often its settle is repeated. $1 is the route, $2 the time.
insert into postroom.attempt (delivery, round, attempt, route, seq, at, outcome, code, error, took_ms, handlers, replay)
select a.delivery, a.round, a.attempt, $1, a.seq, $2, a.outcome, a.code, a.error, a.took_ms, a.handlers::jsonb, a.replay
from unnest($3::int8[], $4::int4[], $5::int4[], $6::int8[], $7::text[], $8::text[], $9::text[], $10::int8[], $11::text[],
  $12::text[]) as a(delivery, round, attempt, seq, outcome, code, error, took_ms, handlers, replay)
on conflict (delivery, round, attempt) do nothing
