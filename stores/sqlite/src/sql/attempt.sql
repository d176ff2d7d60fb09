-- Keeps one failed try; once, however often its settle is repeated.
insert into postroom_attempt
  (delivery, round, attempt, route, seq, at, outcome, code, error, took_ms, handlers, replay)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
on conflict (delivery, round, attempt) do nothing
