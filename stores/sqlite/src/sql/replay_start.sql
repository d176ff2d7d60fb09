-- Writes a replay down.
insert into postroom_replay
  (id, what, selection, until, rate, allow_duplicates, actor, reason, state, total, created_at, stepped_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'running', ?9, ?10, ?11)
