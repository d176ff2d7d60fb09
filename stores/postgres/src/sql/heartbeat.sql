-- Says that a relay lives for $5 microseconds more, and how one of its routes is doing; its other routes stay as they are.
-- $4 is the time, unless it is the database's.
insert into postroom.relay (boot, name, version, started_at, seen_at, alive_until, routes)
select $1, $2, $3, n.now, n.now, n.now + $5 * interval '1 microsecond', jsonb_build_object($6::text, $7::jsonb)
from (select coalesce($4::timestamptz, clock_timestamp()) as now) n
on conflict (source, boot) do update set
  seen_at = excluded.seen_at, alive_until = excluded.alive_until, routes = relay.routes || excluded.routes
