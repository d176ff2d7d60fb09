-- Registers a route if its name is new. ?7 says whether it starts with what commits from now on: then everything
-- numbered so far was there before it, whether or not it has been pruned since.
insert into postroom_route
  (name, filter, destination, on_failure, on_dead, start, start_seq, start_at, registered_at)
values (
  ?1, ?2, ?3, ?4, ?5, ?6,
  case when ?7 then coalesce((select seq from sqlite_sequence where name = 'postroom_log'), 0) else 0 end,
  ?8, ?9
) on conflict do nothing
