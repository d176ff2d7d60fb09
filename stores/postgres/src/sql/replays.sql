-- Replays in one of the states $1, newest first. Served by replay_state.
select id, what, selection::text as selection, until::text as until, rate, allow_duplicates, actor, reason, state, cursor,
  total, done, created_at, stepped_at, ended_at
from postroom.replay
where state = any($1::text[])
order by id desc
limit $2
