-- One replay. Served by the primary key.
select id, what, selection::text as selection, until::text as until, rate, allow_duplicates, actor, reason, state, cursor,
  total, done, created_at, stepped_at, ended_at
from postroom.replay
where id = $1
