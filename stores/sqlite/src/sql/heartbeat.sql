-- Says that a relay lives until ?5, and how one of its routes is doing; the other routes of the row stay as they are.
insert into postroom_relay (boot, name, version, started_at, seen_at, alive_until, routes)
values (?1, ?2, ?3, ?4, ?4, ?5, json_set('{}', ?6, json(?7)))
on conflict (source, boot) do update set
  seen_at = excluded.seen_at,
  alive_until = excluded.alive_until,
  routes = json_set(routes, ?6, json(?7))
